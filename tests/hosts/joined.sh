#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Where rails are joined a rank sends and gets by its own NIC alone, whatever NIC a peer has.
. "$top_srcdir/tests/hosts/jobs.sh"
hosts_or_skip -j 2 2 300mbit

# carried HOST RAIL: KiB that its NIC has got and sent
carried() {
    bash "$hosts" on "$1" sh -c 'cd "/sys/class/net/$1/statistics" && cat rx_bytes tx_bytes' sh "$2" |
        awk '{ sum += $1 } END { print int(sum / 1024) }'
}

# busy NAME HOST RAIL CONDITION: of KiB since the last call
busy() {
    local now
    now=$(carried "$2" "$3")
    awk -v kib=$((now - ${before[$2 $3]:-0})) "BEGIN { if (!($4)) print \"$2 $3 carried \" kib \" KiB\" }" > "$work/why"
    tap_empty "$1" "$work/why"
    before[$2 $3]=$now
}
declare -A before

# 2 + 1 ranks, a ring of 1 MiB: ranks 1 and 2 send 2 blocks to the other host and rank 0 gets 2, a round.
ring=("$top_builddir/perf/rondo_ring" -m 1048576:1048576 -i 2 -x 0 --alternate 1)
job "a ring over 2 + 1 ranks" 2+1 "${ring[@]}"
busy "the last host's one rank has one NIC" h1 rail0 "kib > 8000"
busy "and leaves the other alone" h1 rail1 "kib < 64"
busy "rank 0 gets by its own" h0 rail0 "kib > 4000"
busy "rank 1 sends by its own" h0 rail1 "kib > 4000"

job "the same with one NIC a host" -n host 2+1 "${ring[@]}"
busy "it carries what both ranks move" h0 rail0 "kib > 8000"
busy "and the other nothing" h0 rail1 "kib < 64"
tap_done
