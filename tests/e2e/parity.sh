#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Training over P ranks on one host and on two against one rank, by each schedule and backward: gradients
# of step 0, and the loss over 50 steps.  The loss may differ by no more than what one unit in the last
# place of every first weight does to one rank, times three, and by 1e-4 at most.  Each scheme on each
# machine trains in one layout, the three in turn; its gradients are compared in all of them.  Then the same of
# packed documents with a window, over up to PACKED_RANKS ranks, in fp32 and in bf16, cut by sequence and by
# document.  Run by `make check-parity`; RANKS, HOSTS, SCHEDULES, BACKWARDS, LAYOUTS, STEPS, PACKED_RANKS and
# CUTS may be set.
set -euo pipefail

RANKS=${RANKS:-1 2 3 4 5}
STEPS=${STEPS:-50}
HOSTS=${HOSTS:-1 2}
SCHEDULES=${SCHEDULES:-ring two-level}
BACKWARDS=${BACKWARDS:-kv-grad q-grad}
LAYOUTS=${LAYOUTS:-contiguous zigzag striped}
PACKED_RANKS=${PACKED_RANKS:-1 2 3}
CUTS=${CUTS:-contiguous/sequence zigzag/sequence striped/sequence balanced/sequence contiguous/documents
      zigzag/documents striped/documents}
GRADIENT_BAR=1e-5
TOKENS=1021 # a prime: no shard is like another
here=${top_builddir:-.}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# train_on RANKS HOSTS NAME OPTIONS...
train_on() {
    local ranks=$1 hosts=$2 name=$3
    shift 3
    if ! timeout -k 5 600 "$here/tools/rondo-run" -n "$ranks" --hosts "$hosts" \
            "$here/examples/train/rondo-train" --tokens $TOKENS --sample 0 --val-every 1000 \
            --val-windows 1 "${family[@]}" "$@" > "$work/$name.log" 2>&1; then
        tail -n 20 "$work/$name.log"
        echo "parity: rondo-train on $ranks ranks of $hosts hosts failed: $*"
        exit 1
    fi
}

train() { # RANKS NAME OPTIONS..., by the ring of one host
    train_on "$1" 1 "$2" --schedule ring --backward kv-grad "${@:3}"
}

compare() {
    "$here/tests/e2e/parity_compare" "$@"
}

above() { # above A B: A > B
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > b) }'
}

smaller() {
    awk -v a="$1" -v b="$2" 'BEGIN { print a + 0 < b + 0 ? a : b }'
}

# three A MOST: three times A, or MOST.
three() {
    smaller "$2" "$(awk -v w="$1" 'BEGIN { printf "%.3e", 3 * w }')"
}

# gradients_of_ulps MOST: the bar of gradients, found as that of the loss is.
gradients_of_ulps() {
    local seed ulp worst=0
    for seed in 1 2 3; do
        train 1 ulp --perturb-ulp $seed --save-grads "$work/ulp.grads"
        ulp=$(compare gradients "$work/base.grads" "$work/ulp.grads")
        if above "$ulp" "$worst"; then worst=$ulp; fi
    done
    three "$worst" "$1"
}

# start MOST OPTIONS...: what all runs from now on have, on one rank, and the bar of their losses.
start() {
    local most=$1 seed ulp worst=0
    family=("${@:2}")
    train 1 base --save-grads "$work/base.grads"
    train 1 base --steps "$STEPS" --csv "$work/base.csv"
    for seed in 1 2 3; do
        train 1 ulp --steps "$STEPS" --perturb-ulp $seed --csv "$work/ulp$seed.csv"
        ulp=$(compare losses "$work/base.csv" "$work/ulp$seed.csv")
        echo "one rank, each weight moved by its last place, seed $seed: loss differs by $ulp"
        if above "$ulp" "$worst"; then worst=$ulp; fi
    done
    bar=$(three "$worst" "$most")
}

bars() {
    echo "bars: gradients $gradient_bar, loss $bar over $STEPS steps"
}

gradient_bar=$GRADIENT_BAR
start 1e-4
bars

failed=0
rows=0
layout_count=$(wc -w <<< "$LAYOUTS")
title() {
    printf '%2s %5s %-10s %-8s %-20s %12s %12s\n' P hosts schedule backward layout gradients loss
}
title

# row RANKS HOSTS SCHEDULE BACKWARD LAYOUT[/DEAL] WITH_LOSS
row() {
    local scheme=(--schedule "$3" --backward "$4" --layout "${5%/*}") gradients loss=- verdict=ok
    if [ "${5#*/}" != "$5" ]; then scheme+=(--deal "${5#*/}"); fi
    train_on "$1" "$2" run "${scheme[@]}" --save-grads "$work/run.grads"
    gradients=$(compare gradients "$work/base.grads" "$work/run.grads")
    if above "$gradients" "$gradient_bar"; then verdict=WRONG; fi
    if [ "$6" = 1 ]; then
        train_on "$1" "$2" run "${scheme[@]}" --steps "$STEPS" --csv "$work/run.csv"
        loss=$(compare losses "$work/base.csv" "$work/run.csv")
        if above "$loss" "$bar"; then verdict=WRONG; fi
    fi
    if [ $verdict = WRONG ]; then failed=1; fi
    printf '%2s %5s %-10s %-8s %-20s %12s %12s %s\n' "$1" "$2" "$3" "$4" "$5" "$gradients" "$loss" \
        $verdict
}

# machine RANKS HOSTS
machine() {
    local schedule backward layout i
    for schedule in $SCHEDULES; do
        for backward in $BACKWARDS; do
            i=0
            for layout in $LAYOUTS; do
                row "$1" "$2" "$schedule" "$backward" "$layout" $((i == rows % layout_count))
                i=$((i + 1))
            done
            rows=$((rows + 1))
        done
    done
}

for ranks in $RANKS; do
    for hosts in $HOSTS; do
        if [ "$hosts" -le "$ranks" ]; then machine "$ranks" "$hosts"; fi
    done
done

# The weights and moments of a checkpoint, without its header, which holds the seconds it took.
trained() {
    tail -c +$(($(od -An -tu4 -j12 -N4 "$1") + 1)) "$1"
}

for i in 1 2; do
    train 4 twice --layout zigzag --steps "$STEPS" --csv "$work/twice$i.csv" --save "$work/twice$i.rondo"
    train 4 twice --layout zigzag --save-grads "$work/twice$i.grads"
done
if compare same "$work/twice1.csv" "$work/twice2.csv" &&
        cmp "$work/twice1.grads" "$work/twice2.grads" &&
        cmp <(trained "$work/twice1.rondo") <(trained "$work/twice2.rondo"); then
    echo "two runs of one command on 4 ranks: bitwise equal"
else
    echo "two runs of one command on 4 ranks: differ"
    failed=1
fi

# Every cut, by the schemes in turn, and every third trains; three ranks lie on two hosts.
packed() {
    local ranks cut i=0 schemes=()
    for schedule in $SCHEDULES; do
        for backward in $BACKWARDS; do schemes+=("$schedule $backward"); done
    done
    title
    for ranks in $PACKED_RANKS; do
        for cut in $CUTS; do
            # shellcheck disable=SC2086
            row "$ranks" $((ranks > 2 ? 2 : 1)) ${schemes[i % ${#schemes[@]}]} "$cut" $((i % 3 == 0))
            i=$((i + 1))
        done
    done
}

# The text as documents of 1 to 40 lines.
mkdir "$work/documents"
gzip -dc /usr/share/doc/jargon-text/jargon.txt.gz | awk -v to="$work/documents" '
    BEGIN { left = 1 }
    { f = sprintf("%s/%05d", to, n); print > f
      if (--left == 0) { close(f); n++; left = n * 7 % 40 + 1 } }'
documents=(--documents --window 200)

echo "documents, with a window of 200"
start 1e-4 "${documents[@]}" "$work/documents"
bars
packed

# Of numbers that differ by d and are rounded to bf16, whose neighbours lie u = 2^-7 apart, a share d / u goes to
# another neighbour, which in L2 is sqrt(d u): 4e-5 for the 2e-7 of fp32 sums in another order, and the next
# layer starts from that.  So moving every weight by its last place says what must be borne here, too: three
# times that, and 1e-3 at most, an eighth of u.
echo "documents, with a window of 200, in bf16"
start 1e-2 --dtype bf16 "${documents[@]}" "$work/documents"
gradient_bar=$(gradients_of_ulps 1e-3)
bars
packed
exit $failed
