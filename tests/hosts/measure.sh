#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# rondo-topo measure over several hosts: it finds the rates of links, what falls short of a claim, and a recording
# of it is what the next run expects, and what plans reckon with.
. "$top_srcdir/tests/hosts/jobs.sh"
topo=$top_builddir/tools/rondo-topo
hosts_or_skip 3 2 100mbit

# Of 1514 bytes on the wire 1448 are payload: 11.96 MB/s; a bucket that was idle lets 128 KiB pass at once.
low=0.0105 high=0.0125

# between_hosts CONDITION: of r, GB/s, and e, what was expected, for all pairs across hosts
between_hosts() {
    grep '"level":"NET","gbps"' "$work/out" | sed 's/.*"gbps":\([0-9.e+-]*\),"expected_gbps":\([0-9.e+-]*\),.*/\1 \2/' |
        awk "{ r = \$1; e = \$2; n++ } !($1) { print r \" GB/s of \" e } END { if (n != 8) print n + 0 \" pairs\" }" > "$work/why"
}

job "4 ranks on 2 hosts, a rail each" -n rank 2x2 "$topo" measure --short 0 --json --record "$work/tree"
between_hosts "r > $low && r < $high"
tap_empty "links carry what they are shaped to" "$work/why"

export RONDO_TOPO=$work/tree
job "again, with what was measured" -n rank 2x2 "$topo" measure --short 0 --json
between_hosts "r > 0.85 * e && r < 1.15 * e"
tap_empty "what was measured is expected" "$work/why"
"$topo" --input "$work/tree" --ranks 4 > "$work/out"
says "ranks keep their rails" '^rails: 0 2 \| 1 3$'
"$top_builddir/tools/rondo-plan" --topo "$work/tree" --ranks 4 --pass forward > "$work/out" 2>&1
says "plans are priced with it" '; host 0\.01[12][0-9]* GB/s, '

export RONDO_TOPO="host:2 nic:2 net:1.25"
: > "$work/why"
bash "$hosts" run -n rank 2x2 "$topo" measure --seconds 5 > "$work/out" 2>&1
[ $? -eq 1 ] || cat "$work/out" > "$work/why"
tap_empty "links slower than the text claims end with status 1" "$work/why"
says "and are named" '8 of 12 pairs fall short of 0.7'

export RONDO_TOPO="host:3 nic:1 nic-name:rail net:0.012"
bash "$hosts" on h2 tc qdisc replace dev rail0 root tbf rate 30mbit burst 128kb latency 500ms 2> "$work/why" &&
    bash "$hosts" run -n host 3x1 "$topo" measure --seconds 10 > "$work/out" 2>&1
[ $? -eq 1 ] || cat "$work/out" >> "$work/why"
tap_empty "one way of one host is slow" "$work/why"
says "its pairs are named, that way only" '2 of 6 pairs fall short of 0.7'
says "and where to begin" 'begin with rail0 of host 2: all that leaves it falls short'
bash "$hosts" on sw tc qdisc replace dev h2r0 root tbf rate 30mbit burst 128kb latency 500ms 2> "$work/why"
bash "$hosts" run -n host 3x1 "$topo" measure --seconds 10 > "$work/out" 2>&1
[ $? -eq 1 ] || cat "$work/out" >> "$work/why"
tap_empty "both ways of it are" "$work/why"
says "and that is said" 'begin with rail0 of host 2: all that leaves and reaches it falls short'
tap_done
