#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# rondo-topo doctor: its status, its forms of output, and what limits of this process it sees.
. "$top_srcdir/tests/tap.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
topo=$top_builddir/tools/rondo-topo

# expect NAME STATUS COMMAND...: standard output in out, standard error in err, reasons in why.
expect() {
    name=$1
    status=$2
    shift 2
    : > "$work/why"
    timeout 60 "$@" > "$work/out" 2> "$work/err"
    got=$?
    [ "$got" -eq "$status" ] || { echo "status $got, not $status:"; cat "$work/out" "$work/err"; } >> "$work/why"
}
has() { grep -qE -- "$1" "$work/out" || { echo "no '$1' in:"; cat "$work/out"; } >> "$work/why"; }
has_not() { ! grep -E -- "$1" "$work/out" >> "$work/why"; }
err_has() { grep -qF -- "$1" "$work/err" || echo "no '$1' in: $(cat "$work/err")" >> "$work/why"; }
told() { tap_empty "$name" "$work/why"; }
refuses() {
    words=$1
    shift
    expect "refuses $*" 2 "$topo" doctor "$@"
    err_has "$words"
    err_has "Try 'rondo-topo doctor --help'."
    [ ! -s "$work/out" ] || echo "there is output" >> "$work/why"
    told
}

# ---- this machine, whatever it is ----

expect "this machine without a fabric" 0 "$topo" doctor --fabric no
has '^pass  memlock    '
has '^(pass|warn)  cma        process_vm_readv'
has '^17 checks: [0-9]+ passed, [0-9]+ skipped, [0-9]+ warned, 0 failed$'
told

expect "JSON" 0 "$topo" doctor --fabric no --json
python3 -m json.tool < "$work/out" > "$work/json" 2>> "$work/why" || echo "that is no JSON" >> "$work/why"
has '"schema": "rondo-topo-doctor", "version": 1'
[ "$(grep -c '"check": ' "$work/out")" -eq 17 ] || echo "there are not 17 checks" >> "$work/why"
told

# Limits are those of the process that asks, and root keeps its own way around this one.
unlocked() {
    if [ "$(id -u)" -eq 0 ]; then
        setpriv --bounding-set=-ipc_lock sh -c "$1"
    else
        sh -c "$1"
    fi
}
if [ "$(id -u)" -eq 0 ] && ! setpriv --bounding-set=-ipc_lock true 2> /dev/null; then
    tap_skip "locked memory" "setpriv cannot take a capability away"
else
    unlocked "ulimit -l 64; '$topo' doctor --fabric yes" > "$work/yes"
    echo $? > "$work/yes_status"
    expect "64 KiB of locked memory and a fabric fail" 0 cat "$work/yes"
    [ "$(cat "$work/yes_status")" -eq 1 ] || echo "status $(cat "$work/yes_status")" >> "$work/why"
    has '^FAIL  memlock    limit of locked memory \(ulimit -l\) is 64 KiB'
    has 'memlock unlimited'
    told
    unlocked "ulimit -l 64; '$topo' doctor --fabric no" > "$work/no"
    echo $? > "$work/no_status"
    expect "64 KiB of locked memory without a fabric are well" 0 cat "$work/no"
    [ "$(cat "$work/no_status")" -eq 0 ] || echo "status $(cat "$work/no_status")" >> "$work/why"
    has '^pass  memlock    64 KiB'
    has_not '^(warn|FAIL)  memlock'
    told
fi

# ---- others ----

first=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
expect "more ranks than processors are a warning" 0 taskset -c "$first" "$topo" doctor -n 3 --fabric no
has '^warn  cores      3 ranks on 1 processors? that may be used'
told

"$topo" --record "$work/live" > /dev/null 2>&1
expect "a recording is judged as the machine was" 0 "$topo" doctor --fabric no --input "$work/live"
cp "$work/out" "$work/replayed"
"$topo" doctor --fabric no > "$work/out"
for check in memlock cma cores memory ucx libraries; do
    [ "$(grep " $check " "$work/out")" = "$(grep " $check " "$work/replayed")" ] ||
        diff "$work/out" "$work/replayed" >> "$work/why"
done
told

expect "a description has nothing that fails" 0 "$topo" doctor --input 'host:2 numa:2 gpu:4 nic:4 pcie:25 net:12.5'
has '^skip  memlock    a description says nothing'
told

expect "a fabric that is not there fails" 1 "$topo" doctor --fabric yes --input 'host:2 numa:2 gpu:4 nic:4'
has '^FAIL  fabric     there is no RDMA adapter'
told

# ---- refusals ----

refuses "--fabric: 'maybe'" --fabric maybe
refuses "--ranks: '0'" --ranks 0
refuses "--ranks: '3x'" -n 3x
refuses "'more' is no option" more
refuses "rondo-topo doctor: unrecognized option" --tree
expect "an input that is not there" 1 "$topo" doctor --input "$work/nothing"
err_has "$work/nothing"
told
expect "help" 0 "$topo" doctor --help
has '^usage: rondo-topo doctor'
told
if [ -w /dev/full ]; then
    : > "$work/why"
    "$topo" doctor --fabric no > /dev/full 2> "$work/err"
    [ $? -eq 1 ] || echo "output to a full device is well" >> "$work/why"
    err_has "standard output"
    tap_empty "a full device" "$work/why"
fi
tap_done
