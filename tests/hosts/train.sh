#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# rondo-train over ranks of two hosts learns as one process does.
. "$top_srcdir/tests/hosts/jobs.sh"
train=$top_builddir/examples/train/rondo-train
[ -x "$train" ] || { tap_skip "rondo-train" "it is not built: no CBLAS"; tap_done; }
hosts_or_skip 2 3 300mbit

awk 'BEGIN { for (i = 0; i < 1500; i++) printf "%d bottles of beer, take %d down.\n", i % 99, i % 7 }' > text
small="--layers 2 --dim 16 --q-heads 4 --kv-heads 2 --head-dim 4 --hidden 24 --tokens 61 --lr 0.01
       --sample 5 --val-every 4 --val-windows 2 --steps 8"

# learns NAME ARGUMENTS-OF-run... -- OPTIONS...: with the losses of one process
learns() {
    local name=$1 how=()
    shift
    while [ "$1" != -- ]; do how+=("$1"); shift; done
    shift
    # shellcheck disable=SC2086
    job "$name" "${how[@]}" "$train" $small "$@" --csv some.csv text
    paste -d, one.csv some.csv | awk -F, '
        NR > 1 && !($2 - $7 < 1e-5 * $2 && $7 - $2 < 1e-5 * $2) { print "step " $1 ": " $2 ", " $7 }
        NR > 1 && $1 != $6 { print "step " $1 " beside " $6 }
        END { if (NR < 9) print "too few rows" }' > "$work/why"
    tap_empty "$name: its losses are those of one process" "$work/why"
}

# shellcheck disable=SC2086
timeout 60 "$train" $small --csv one.csv text > "$work/why" 2>&1 && : > "$work/why"
tap_empty "one process" "$work/why"
learns "2x2, as the plan chooses" 2x2 --
learns "2x2, two-level, KV-grad" 2x2 -- --schedule two-level --backward kv-grad --layout zigzag
learns "2x2, two-level, Q-grad" -n host 2x2 -- --schedule two-level --backward q-grad --layout striped
learns "3+2, ring" 3+2 -- --schedule ring --layout contiguous
tap_done
