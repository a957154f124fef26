#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# rondo-topo: every form of output, what it refuses, and what becomes of output that nobody takes.
# RONDO_TEST_UPDATE=1 writes the texts that are expected anew.
. "$top_srcdir/tests/tap.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
topo=$top_builddir/tools/rondo-topo
machine='host:2 package:2 numa:2 switch:2 gpu:4 nic:2 nvlink:300 nvlink-count:12 pcie:25 net:25 core:8 layer:infiniband nic-name:mlx5_'

# expect NAME STATUS ARGUMENT...: standard output in out, standard error in err, reasons in why.
expect() {
    name=$1
    status=$2
    shift 2
    : > "$work/why"
    timeout 60 "$topo" "$@" > "$work/out" 2> "$work/err"
    got=$?
    [ "$got" -eq "$status" ] || { echo "status $got, not $status"; cat "$work/err"; } >> "$work/why"
}
# out_has PATTERN, err_has PATTERN
out_has() { grep -qE -- "$1" "$work/out" || echo "no '$1' in the output" >> "$work/why"; }
err_has() { grep -qF -- "$1" "$work/err" || echo "no '$1' in: $(cat "$work/err")" >> "$work/why"; }
silent() { [ ! -s "$work/err" ] || { echo "it complained:"; cat "$work/err"; } >> "$work/why"; }
told() { tap_empty "$name" "$work/why"; }
# as_kept FILE: the output is the text that is kept in screens/.
as_kept() {
    [ -z "$RONDO_TEST_UPDATE" ] || cp "$work/out" "$top_srcdir/tests/topo/screens/$1"
    diff "$top_srcdir/tests/topo/screens/$1" "$work/out" >> "$work/why"
}
# refuses OPTION ARGUMENT...: with status 2, naming the option, and with no output.
refuses() {
    option=$1
    shift
    expect "refuses $*" 2 "$@"
    err_has "$option"
    err_has "Try 'rondo-topo --help'."
    [ ! -s "$work/out" ] || echo "there is output" >> "$work/why"
    told
}
# well_formed FILE: is XML.
well_formed() {
    if python3 -c '' 2> /dev/null; then
        python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$1" 2>> "$work/why" ||
            echo "$1 is no XML" >> "$work/why"
    elif xmllint --version 2> /dev/null; then
        xmllint --noout "$1" 2>> "$work/why" || echo "$1 is no XML" >> "$work/why"
    else
        echo "neither python3 nor xmllint is here to read the XML" >> "$work/why"
    fi
}
json_valid() {
    python3 -m json.tool < "$work/out" > "$work/json" 2>> "$work/why" || echo "that is no JSON" >> "$work/why"
}

# ---- forms ----

expect "a screen" 0 --input "$machine"
silent
as_kept screen.out
told

expect "the tree" 0 --input "$machine" --tree
silent
as_kept tree.out
told

expect "a packed tree is read back as what it was" 0 --input "$machine" --pack
cp "$work/out" "$work/packed"
timeout 60 "$topo" --input "$work/packed" --pack 2>&1 | diff "$work/packed" - >> "$work/why"
timeout 60 "$topo" --input "$work/packed" 2>&1 | diff "$top_srcdir/tests/topo/screens/screen.out" - >> "$work/why"
told

expect "JSON says what it is, and has every rank and pair" 0 --input "$machine" --json
silent
json_valid
python3 - "$work/out" >> "$work/why" 2>&1 <<'END'
import json, sys
it = json.load(open(sys.argv[1]))
def must(true, what):
    if not true: print(what)
must((it["schema"], it["version"]) == ("rondo-topo", 1), "schema and version")
must(sorted(it["ring"]) == list(range(8)), "the ring")
must([r["rank"] for r in it["ranks"]] == list(range(8)), "ranks")
must(it["pairs"]["level"][0][1] == "NV12" and it["pairs"]["level"][0][4] == "NET", "levels")
must(it["pairs"]["gbps"][2][3] == 300 and it["pairs"]["gbps"][1][1] is None, "GB/s")
must(all(len(row) == 8 for row in it["pairs"]["latency_us"]), "latencies")
must(len(it["links"]) == 12 and it["rails"] == 2, "links and rails")
must(all(it["objects"][r["nic"]]["kind"] == "nic" for r in it["ranks"]), "NICs")
last = it["ranks"][7]
must((last["host_name"], last["on"], last["nic_name"]) == ("host 1", "GPU3", "mlx5_1"), "names")
must((last["way_level"], last["way_gbps"], last["way_usual"]) == ("PIX", 25, False), "the way to the NIC")
must(it["pairs"]["usual"][0][1] is False and it["pairs"]["usual"][1][1] is None, "what is told of GB/s")
END
told

printf 'rondo-tree 1\nhost - 0\nnuma 0 0 memory_bytes=540000000001\n' > "$work/odd"
expect "JSON has bytes to the last, and no NIC where there is none" 0 --input "$work/odd" --json
json_valid
out_has '"memory_bytes": 540000000001,'
out_has '"nic_name": "", "way_level": "", "way_gbps": 0, "way_usual": false}'
told

expect "what is not told of NUMA nodes is unknown, not none" 0 --input 'host:1 gpu:2'
out_has '^host 0: NUMA nodes unknown, 2 GPUs, 0 NICs$'
out_has 'slowest hop within a host: SYS ~12 GB/s$'
told

expect "words tell what is usual, too" 0 --input 'host:2 gpu:2 nic:2 net:50' --explain
out_has 'hop 0-1 over SYS, ~12 GB/s'
out_has '^rank 0 on gpu 0: nic0, SYS, ~12 GB/s'
told

expect "NCCL's XML of one host" 0 --input "$machine" --xml --host 1
silent
cp "$work/out" "$work/host1.xml"
well_formed "$work/host1.xml"
out_has '<gpu '
told

expect "rings and NICs are explained" 0 --input "$machine" --explain
silent
[ "$(wc -l < "$work/out")" -ge 4 ] || echo "hardly a word" >> "$work/why"
told

expect "a picture as SVG" 0 --input "$machine" --svg "$work/picture.svg"
silent
well_formed "$work/picture.svg"
cp "$work/picture.svg" "$work/out"
for word in 'host 0' 'host 1' NUMA mlx5_1 'PCI switch' 'NVSwitch' 'rails' '>7</text>'; do out_has "$word"; done
told

expect "SVG on standard output is the same" 0 --input "$machine" --svg -
diff "$work/picture.svg" "$work/out" > /dev/null || echo "it differs" >> "$work/why"
told

if grep -q '^#define HAVE_RSVG 1' "$top_builddir/build-config.h"; then
    # Fontconfig keeps what it has read of fonts to the end.
    ASAN_OPTIONS="detect_leaks=0:$ASAN_OPTIONS"
    export ASAN_OPTIONS
    expect "a picture as PNG" 0 --input "$machine" --png "$work/picture.png"
    silent
    [ "$(head -c 8 "$work/picture.png" | od -An -tx1 | tr -d ' ')" = 89504e470d0a1a0a ] ||
        echo "it has no PNG's signature" >> "$work/why"
    [ "$(wc -c < "$work/picture.png")" -gt 20000 ] || echo "there is little in it" >> "$work/why"
else
    expect "PNG needs librsvg, and says so" 1 --input "$machine" --png "$work/picture.png"
    err_has librsvg
    err_has --svg
fi
told

# ---- machines ----

for file in "$top_srcdir"/topo/machines/*.txt; do
    expect "the screen of $(basename "$file")" 0 --input "$file"
    silent
    as_kept "$(basename "$file" .txt).out"
    told
    expect "the picture of $(basename "$file")" 0 --input "$file" --svg "$work/machine.svg"
    well_formed "$work/machine.svg"
    told
done

expect "many equal hosts are said once" 0 --input 'host:64 numa:2 gpu:8 nic:8 nvlink:450 pcie:50 net:50'
[ "$(wc -l < "$work/out")" -lt 60 ] || echo "that is no screen" >> "$work/why"
out_has 'and 63 hosts like this'
out_has 'likewise on the 63 hosts'
told

expect "unequal hosts" 0 --input 'host:2 gpu:4 nic:2 net:25' --hosts-of 0,0,0,1,1
out_has '^rails: 0 2 3 \| 1 4$'
told

expect "ranks dealt round" 0 --input 'host:2 gpu:2 nic:2 net:25' --hosts-of 0,1,0,1
out_has '^ring: 0 2$'
out_has '^      1 3$'
told

expect "fewer ranks than GPUs" 0 --input 'host:2 gpu:4 nic:4 net:25' --ranks 5
out_has '^ring: 0 1 2 3$'
out_has '^      4$'
told

expect "more ranks than GPUs are dealt in blocks" 0 --input 'host:2 gpu:1 nic:1 net:25' --ranks 6
out_has '^   2  host 0 '
out_has '^   3  host 1 '
told

expect "no NIC at all" 0 --input 'host:1 gpu:2'
out_has ' none$'
told

# ---- names ----

# Names with what quotes, tags, terminals and UTF-8 could stumble over.
{
    echo 'rondo-tree 1'
    printf 'host - 0 name=<"&%%27%%5c>\303\251\n'
    echo 'numa 0 0 cpu_count=4'
    echo 'nic 1 0 name=<nic> netdev=<nic> state=down unusable="port"%20<down>'
} > "$work/hostile$(printf '\033\377')"
expect "JSON is safe from any name" 0 --input "$work"/hostile* --json
json_valid
out_has 'port\\" <down>'
told
expect "a picture is safe from any name" 0 --input "$work"/hostile* --svg "$work/names.svg"
well_formed "$work/names.svg"
told
expect "a screen shows any name" 0 --input "$work"/hostile*
out_has 'not used: <nic>, "port" <down>'
told

# ---- this machine ----

expect "this machine" 0
out_has 'NUMA node'
told

expect "a recording replays as what was recorded" 0 --record "$work/recording"
cp "$work/out" "$work/live"
timeout 60 "$topo" --input "$work/recording" 2>&1 | diff "$work/live" - >> "$work/why"
told

# ---- refusals ----

refuses --bogus --bogus
refuses "'stray'" stray
refuses --ranks --ranks 0
refuses --ranks --ranks 4x
refuses --hosts-of --hosts-of 0,,1
refuses --hosts-of --hosts-of 0,1, --ranks 2
refuses --hosts-of --hosts-of 0,1 --ranks 3
refuses --json --tree --json
refuses --host --host 1
refuses --input --input ''
refuses --svg --svg ''
refuses --record --record "$work/r" --input 'host:1'
expect "refuses a host that is not there" 2 --input 'host:2 gpu:1' --hosts-of 0,2
err_has --hosts-of
told
expect "refuses XML of a host that is not there" 1 --input 'host:2 gpu:1' --xml --host 2
err_has '--host 2'
told
expect "names a file that is not there" 1 --input "$work/nowhere"
err_has "$work/nowhere"
told
expect "names the word of a text that it does not know" 1 --input 'host:1 gpx:4'
err_has gpx
told

# ---- output ----

expect "a picture that cannot be written" 1 --input 'host:1' --svg "$work/no/such/folder"
err_has "$work/no/such/folder"
told
if [ -w /dev/full ]; then
    for form in --tree --json --pack --explain; do
        name="$form on a full disk fails"
        : > "$work/why"
        timeout 60 "$topo" --input "$machine" "$form" > /dev/full 2> "$work/err"
        [ $? -eq 1 ] || echo "the status is not 1" >> "$work/why"
        err_has 'standard output'
        told
    done
    expect "SVG on a full disk fails" 1 --input "$machine" --svg /dev/full
    err_has /dev/full
    told
else
    tap_skip "output on a full disk fails" "there is no /dev/full"
fi
name="output that nobody reads fails"
: > "$work/why"
{
    timeout 60 "$topo" --input 'host:16 gpu:8' --json 2> "$work/err" # more than a pipe holds
    echo $? > "$work/status"
} | true
[ "$(cat "$work/status")" -eq 1 ] || echo "status $(cat "$work/status"), not 1" >> "$work/why"
err_has 'standard output'
told

expect "--version" 0 --version
out_has '^rondo-topo [0-9]'
told
tap_done
