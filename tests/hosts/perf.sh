#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The programs of perf/ over several hosts: what they print is right, and no rate is above the wire's.
. "$top_srcdir/tests/hosts/jobs.sh"
perf=$top_builddir/perf
hosts_or_skip 2 2 300mbit

# Of 1514 bytes on the wire 1448 are payload: 35.87 MB/s.  A bucket that was idle lets 128 KiB pass at
# once, which is 1.6 % of the 8 MiB of a repetition.
wire=0.0369

# values KEY: those of the results in $work/json
values() { grep -oE "\"$1\":[-0-9.e+]+" "$work/json" | cut -d: -f2; }

# holds NAME KEY CONDITION: of each value v of that key
holds() {
    values "$2" | awk "{ v = \$1; n++ } !($3) { print \"$2 is \" v } END { if (!n) print \"no $2\" }" > "$work/why"
    tap_empty "$1" "$work/why"
}

for both in "" --both; do
    job "a stream from host to host $both" 2x1 "$perf/rondo_bw" -m 524288:524288 -i 2 -x 0 --alternate 3 \
        --window 8 --json "$work/json" $both
    holds "nothing is wrong $both" wrong "v == 0"
    holds "all that was sent has moved $both" moved_bytes "v == 524288"
    holds "no host gets more than its link carries $both" busbw_gb_per_s "v > 0 && v < $wire"
    holds "both clocks agree $both" differ_percent "v < 5"
done

job "a stream with a delay of the receiver" 2x1 "$perf/rondo_bw" -m 524288:524288 -i 1 -x 0 --alternate 1 \
    --window 8 --delay 300 --json "$work/json"
holds "both clocks see it" message_us "v * 8 > 300000"
holds "and agree" differ_percent "v < 5"

job "hand-overs on a host and across" 2x2 "$perf/rondo_latency" -m 64:1024 -i 10 --alternate 2 --json "$work/json"
holds "no block is wrong" wrong "v == 0"

job "a ring over 2 hosts of 2" 2x2 "$perf/rondo_ring" -m 262144:262144 -i 2 --alternate 2 --json "$work/json"
holds "no position is wrong" wrong "v == 0"
holds "each rank sends 3 blocks or reads them in place: sent" moved_bytes "v >= 262144 && v <= 786432"

job "blocks that are rewritten, over 2 hosts of 2" 2x2 "$perf/rondo_ring" --rewrite -m 262144:262144 -i 2 \
    --alternate 2 --json "$work/json"
holds "no sum is wrong" wrong "v == 0"

for pass in forward kv-grad q-grad; do
    job "transfers behind a kernel, $pass" 2x1 "$perf/rondo_overlap" -m 1048576:1048576 --ratio 1 \
        --alternate 1 --pass $pass --json "$work/json"
    holds "no block of it is wrong" wrong "v == 0"
done
tap_done
