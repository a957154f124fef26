#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# rondo-topo measure: every pair is measured and set beside what is expected; what falls short is named; what was
# recorded is expected next time; bad options, dead and stopped ranks end it.
. "$top_srcdir/tests/tap.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
run=$top_builddir/tools/rondo-run
topo=$top_builddir/tools/rondo-topo
for name in $(compgen -e RONDO_); do unset "$name"; done
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT
export RONDO_LOG=error

if ! grep -q '^#define HAVE_UCX 1' "$top_builddir/build-config.h"; then
    tap_skip "ranks that are processes" "built without UCX"
    tap_done
fi

# expect NAME STATUS COMMAND...: standard output in out, standard error in err, reasons in why.
expect() {
    name=$1
    status=$2
    shift 2
    : > "$work/why"
    timeout 120 "$@" > "$work/out" 2> "$work/err"
    got=$?
    [ "$got" -eq "$status" ] || { echo "status $got, not $status"; cat "$work/err"; } >> "$work/why"
}
out_has() { grep -qE -- "$1" "$work/out" || { echo "no '$1' in:"; cat "$work/out"; } >> "$work/why"; }
err_has() { grep -qF -- "$1" "$work/err" || echo "no '$1' in: $(cat "$work/err")" >> "$work/why"; }
told() { tap_empty "$name" "$work/why"; }
# count PATTERN: how often it is in the output
count() { grep -oE -- "$1" "$work/out" | wc -l; }
# counts PATTERN N
counts() { [ "$(count "$1")" -eq "$2" ] || echo "$(count "$1") of '$1', not $2" >> "$work/why"; }
json_valid() {
    python3 -c '' 2> /dev/null || return
    python3 -m json.tool < "$work/out" > /dev/null 2>> "$work/why" || echo "that is no JSON" >> "$work/why"
}

# all_pairs N: of N ranks
all_pairs() {
    json_valid
    out_has '"schema":"rondo-topo-measure","version":1'
    counts '"from":' $(($1 * ($1 - 1)))
    counts '"gbps":null' 0
    counts '"latency_us":null' 0
}

# ---- all pairs ----

expect "2 ranks of a host" 0 "$run" -n 2 "$topo" measure --seconds 0.5 --json
all_pairs 2
out_has '"hosts":1,"transport":"shm"'
told
for ranks in 3 4 5; do
    expect "$ranks ranks on 2 hosts" 0 "$run" -n $ranks --hosts 2 "$topo" measure --seconds 1 --short 0 --json
    all_pairs $ranks
    out_has '"level":"NET"'
    told
done
expect "5 ranks, pairs at once" 0 env RONDO_TRANSPORT=ucx "$run" -n 5 --hosts 2 "$topo" measure --seconds 1 --short 0 \
    --together --json
all_pairs 5
out_has '"together":true'
told

expect "matrices for people" 0 "$run" -n 4 --hosts 2 "$topo" measure --seconds 1 --short 0
out_has '^4 ranks on 2 hosts'
counts '^-+\+-+$' 2
out_has '^NET +8 '
out_has '^No pair falls short of 0'
told

# ---- short ones ----

fast='host:2 nic:1 net:1000'
expect "a link far below its rate is named" 1 env RONDO_TOPO="$fast" "$run" -n 3 --hosts 2 "$topo" measure --seconds 0.5
out_has '^4 of 6 pairs fall short of 0.7'
out_has '^  rank 2 \(.*, nic0\) to rank 0 \(.*, nic0\): .* of 1000 GB/s, 0%$'
err_has 'rank 0 ended with status 1'
told
expect "as JSON" 1 env RONDO_TOPO="$fast" "$run" -n 3 --hosts 2 "$topo" measure --seconds 0.5 --json
all_pairs 3
out_has '"short":4,'
counts '"short":true' 4
told
expect "nothing falls short of nothing" 0 env RONDO_TOPO="$fast" "$run" -n 3 --hosts 2 "$topo" measure --seconds 0.5 \
    --short 0
told

# ---- what was measured is expected ----

expect "a recording" 0 "$run" -n 4 --hosts 2 "$topo" measure --seconds 1 --short 0 --record "$work/tree"
out_has '~'
told
expect "is a topology" 0 "$topo" --input "$work/tree"
out_has 'speeds were measured between 4 ranks'
told
expect "is expected" 0 env RONDO_TOPO="$work/tree" "$run" -n 4 --hosts 2 "$topo" measure --seconds 1 --short 0 --json
all_pairs 4
counts '"known":true' 12
rate=$(sed -n 's/.* gbps=\([0-9.]*\) .*/\1/p' "$work/tree" | sort -g | head -n 1)
copy=$(sed -n 's/.* copy_gbps=\([0-9.]*\) .*/\1/p' "$work/tree" | head -n 1)
for value in "$rate" "$copy"; do
    grep -oE '"expected_gbps":[0-9.e+-]+' "$work/out" | cut -d: -f2 |
        awk -v v="$value" '{ d = $1 / v - 1; if (d < 1e-4 && d > -1e-4) n++ } END { if (!n) print "nobody expects " v }' \
            >> "$work/why"
done
told
sed 's/copy_gbps=[0-9.]*/copy_gbps=1000000/' "$work/tree" > "$work/fast"
expect "ranks of one host can fall short, too" 1 env RONDO_TOPO="$work/fast" "$run" -n 2 "$topo" measure --seconds 0.5
out_has '^2 of 2 pairs fall short'
out_has 'CMA'
told
expect "a recording that cannot be written" 1 "$run" -n 2 "$topo" measure --seconds 0.2 --record "$work/no/tree"
err_has "--record $work/no/tree: "
told

# ---- what is refused ----

for options in "--seconds x" "--seconds 0" "--short -1" "--short nan" "--nothing" "--short" "more" \
    "--together --record tree"; do
    # shellcheck disable=SC2086
    expect "refuses $options" 2 "$run" -n 2 "$topo" measure $options
    [ "$(grep -c "Try 'rondo-topo measure --help'" "$work/err")" -eq 1 ] || echo "not said once" >> "$work/why"
    told
done
expect "a rank alone" 2 "$topo" measure
err_has "1 rank has no pair"
told
expect "a topology that is none" 1 env RONDO_TOPO='host:1 gpx:2' "$run" -n 2 "$topo" measure
err_has "RONDO_TOPO (or topo of the config): topology text, line 1"
told
expect "no topology" 1 env RONDO_TOPO=off "$run" -n 2 "$topo" measure
err_has "RONDO_TOPO"
told

# ---- ranks that fail ----

# 15 pairs last for seconds; the fault comes in the midst of them.  The job's status is that of who ended first.
lost() {
    expect "$1" "$3" env RONDO_TIMEOUT=4s "$run" -n 6 --grace 20 --timeout 100 sh -c \
        'topo=$0; [ "$RONDO_RANK" -ne 3 ] || { (sleep 1.5; kill -'"$2"' $$) & }
         exec "$topo" measure --seconds 60' "$topo"
    [ "$got" -ne 1 ] || : > "$work/why"
    err_has "rondo-topo measure: rank 0: "
    told
}
lost "a rank that dies" KILL 137
lost "a rank that stops" STOP 1
tap_done
