#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# rondo-plan: what it prints, proves and refuses.
. "$top_srcdir/tests/tap.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
plan=$top_builddir/tools/rondo-plan

# expect NAME STATUS ARGUMENT...: standard output in out, standard error in err, reasons in why.
expect() {
    name=$1
    status=$2
    shift 2
    : > "$work/why"
    timeout 60 "$plan" "$@" > "$work/out" 2> "$work/err"
    got=$?
    [ "$got" -eq "$status" ] || { echo "status $got, not $status"; cat "$work/err"; } >> "$work/why"
}

# out_has PATTERN, err_has PATTERN
out_has() { grep -q -- "$1" "$work/out" || echo "no '$1' in the output" >> "$work/why"; }
err_has() { grep -q -- "$1" "$work/err" || echo "no '$1' in: $(cat "$work/err")" >> "$work/why"; }
told() { tap_empty "$name" "$work/why"; }

expect "prices both passes of two hosts" 0 --machine 2x4
out_has '^\* forward   two-level  -        own-turns '
[ "$(grep -c '^\*.*ward ' "$work/out")" -eq 2 ] || echo "not two winners" >> "$work/why"
[ "$(grep -c ' backward ' "$work/out")" -ge 8 ] || echo "few backward schedules" >> "$work/why"
told

expect "proves what it lists" 0 -m 3+2 --check --schedule two-level --backward kv-grad --pass backward
[ "$(grep -c ' proved$' "$work/out")" -eq 5 ] || echo "not five proofs" >> "$work/why"
! grep -qE 'ring|q-grad|direct|forward ' "$work/out" || echo "lists what was not asked for" >> "$work/why"
told

expect "grouped heads choose KV-grad" 0 -m 2x4 --kv-heads 4 --pass backward --flops 1e9
out_has '^\* backward .* kv-grad '
told

expect "the flat ring wins on 4+2+1" 0 -m 4+2+1 --pass forward --flops 1e9
out_has '^\* forward   ring '
told

expect "prints a rank's schedule" 0 -m 2x2 --print 3 --pass forward --schedule two-level
out_has '^schedule two_level_forward ranks 4 rank 3 '
told

expect "a shared NIC and launches are priced" 0 -m 2x2 --shared-nic --launch lanes
out_has 'shared by the ranks of a host'
out_has 'launch lanes$'
told

expect "takes a topology" 0 --topo 'host:2 numa:2 gpu:4 nic:2 nvlink:300 pcie:25 net:12.5' --pass forward
out_has ': 8 ranks on 2 hosts; local 300 GB/s, .*; host 12.5 GB/s, .*, shared by 2 ranks'
told

expect "what is given goes before a topology" 0 --host-bandwidth 3 --topo 'host:3 nic:1 net:12.5' --ranks 6 \
    --local-bandwidth 7 --print 1 --pass forward
out_has ': 6 ranks on 3 hosts; local 7 GB/s, .*; host 3 GB/s, .*, shared by 2 ranks'
told

expect "a topology that is none" 2 --topo host:many
err_has 'many'
told

expect "an empty topology is none" 2 --topo ''
err_has 'is missing'
told

expect "one machine at a time" 2 --topo host:2 -m 2x4
err_has 'one machine'
told

expect "ranks of a machine are its own" 2 -m 2x4 --ranks 3
err_has '--ranks 3'
told

printf 'rondo-tree 1\nhost - 0\nnotice there%%20was%%20no%%20NVML\nnotice second\n' > "$work/tree"
expect "what could not be found out is told" 0 --topo "$work/tree" --pass forward
grep -qx 'rondo-plan: --topo: there was no NVML' "$work/err" || echo "the first notice is not told" >> "$work/why"
grep -qx 'rondo-plan: --topo: second' "$work/err" || echo "the second notice is not told" >> "$work/why"
told

expect "one variant" 0 -m 2x4 --variant chunked --pass forward
[ "$(grep -c '^[* ] forward ' "$work/out")" -eq 1 ] || echo "not one row" >> "$work/why"
told

expect "large machines say that they are scaled" 0 -m 64x4 --pass forward --schedule ring
out_has 'times are those of 64 ranks on some of the hosts'
told

expect "a causal mask halves the work, narrow values more" 0 -m 2x2 --mask causal --v-dim 64
out_has 'values of 64, .*mask causal'
out_has '^forward: a rank computes for 206.2 ms'
out_has '^backward: a rank computes for 549.8 ms'
told

expect "prices, prints and proofs of blocks that are read in place" 0 -m 2x3 --bind --check --print 1 --schedule ring
out_has 'launch host, bound$'
out_has ' proved$'
out_has ' bind'
cp "$work/out" "$work/bound"
expect "prices, prints and proofs of blocks that are read in place" 0 -m 2x3 --check --print 1 --schedule ring
! grep -q ' bind' "$work/out" || echo "binds unasked" >> "$work/why"
[ "$(sed -n 's/^\* forward//p' "$work/out")" != "$(sed -n 's/^\* forward//p' "$work/bound")" ] || echo "one price" >> "$work/why"
told

expect "long proofs say so" 0 -m 129x1 --check --schedule ring --pass forward
err_has "forward ring, schedule 1 of 1, on 129 ranks: this may take minutes"
told

if command -v python3 > /dev/null; then
    expect "JSON, SVG and the trace are well formed" 0 -m 2x2 --json --check
    cp "$work/out" "$work/list.json"
    expect "JSON, SVG and the trace are well formed" 0 -m 2x2 --timeline svg --output "$work/a.svg"
    [ "$got" -eq 0 ] && timeout 60 "$plan" -m 2x2 --timeline chrome > "$work/a.json"
    python3 - "$work" > /dev/null 2> "$work/err" << 'END' || cat "$work/err" >> "$work/why"
import json, sys, xml.dom.minidom
work = sys.argv[1]
found = json.load(open(work + "/list.json"))["candidates"]
assert all(c["proved"] for c in found) and sum(c["cheapest"] for c in found) == 2, found
assert any(e["ph"] == "X" for e in json.load(open(work + "/a.json"))["traceEvents"])
assert xml.dom.minidom.parse(work + "/a.svg").getElementsByTagName("rect").length > 20
END
    told
else
    tap_skip "JSON, SVG and the trace are well formed" "python3 is not installed"
fi

expect "a timeline as text follows the list" 0 -m 2x2 --timeline text --pass backward
out_has '^rank 3   work '
out_has 'cheapest of its pass'
told

# refuses WORD ARGUMENT...: the message names WORD.
refuses() {
    word=$1
    shift
    expect "refuses $*" 2 "$@"
    err_has "$word"
    err_has "Try 'rondo-plan --help'"
    told
}
refuses "--machine is missing" --tokens 8
refuses "--machine: '2y4'" --machine 2y4
refuses "--machine: '0x4'" --machine 0x4
refuses "--machine: ' 2x4'" --machine ' 2x4'
refuses "--machine: '2x'" --machine 2x
refuses "--machine: '3+'" --machine 3+
refuses "--machine: '70x70'" --machine 70x70
refuses "--tokens 3" -m 2x2 --tokens 3
refuses "--kv-heads 5" -m 2x2 --kv-heads 5
refuses "--host-bandwidth: '0'" -m 2x2 --host-bandwidth 0
refuses "--local-latency: 'nan'" -m 2x2 --local-latency nan
refuses "--launch: 'both' is none of host, one, lanes" -m 2x2 --launch both
refuses "--schedule: 'mesh'" -m 2x2 --schedule mesh
refuses "--print 4: --machine 2x2 has ranks 0 to 3" -m 2x2 --print 4
refuses "there is no --timeline" -m 2x2 --output x
refuses "--print 0: JSON stands alone" -m 2x2 --json --print 0
refuses "--print 0: svg and chrome stand alone" -m 2x2 --timeline svg --print 0
refuses "both want standard output" -m 2x2 --json --timeline text
refuses "--mask: 'half' is none of full, causal" -m 2x2 --mask half
refuses "--v-dim: '0'" -m 2x2 --v-dim 0
refuses "leave nothing" -m 2x2 --pass backward --backward none
refuses "'4'" -m 2x2 4

expect "names a variant that no schedule has" 2 -m 2x2 --variant 9-pieces
err_has "--variant 9-pieces"
told

expect "output that cannot be written is a failure" 1 -m 2x2 --timeline svg --output "$work/no/file"
err_has "--output $work/no/file: No such file"
told
tap_done
