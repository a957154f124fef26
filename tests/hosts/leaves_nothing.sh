#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# hosts.sh leaves no process, namespace, mount or folder, wherever it or its owner is interrupted.
. "$top_srcdir/tests/tap.sh"
hosts=$top_srcdir/tests/hosts/hosts.sh
work=${TMPDIR:-/tmp}/rondo-hosts.$$ # if this test is killed, the next `up` removes it
mkdir -m 700 "$work" || exit 1
trap end_all EXIT
unset RONDO_TEST_HOSTS
export TMPDIR=$work/tmp # what a process of the victim is known by

reason=$(bash "$hosts" can) || { tap_skip "hosts" "${reason#SKIP: }"; tap_done; }

# Until COMMAND succeeds, 20 s at most.
within() {
    local end=$((SECONDS + 20))
    until "$@"; do
        [ $SECONDS -lt $end ] || return 1
        read -r -t 0.05 -u 8
    done
    return 0
}
exec 8<> <(:)

is_there() { [ -e "$1" ]; }

# Processes that were started for a victim: pids.
left_processes() {
    local at
    for at in $(grep -lasz "^TMPDIR=$work/tmp\$" /proc/[0-9]*/environ); do
        at=${at%/environ}
        [ "${at#/proc/}" = $$ ] || [ "$(awk '{ print $4 }' "$at/stat" 2> /dev/null)" = $$ ] ||
            ! [ -d "$at" ] || echo "${at#/proc/}"
    done
}
no_process() { [ -z "$(left_processes)" ]; }

end_all() {
    local pid
    for pid in $(left_processes); do kill -KILL "$pid" 2> /dev/null; done
    rm -rf "$work"
}
no_folder() { [ -z "$(ls "$work/tmp")" ]; }

outside() {
    ip -br link | cut -d ' ' -f 1
    grep -c nsfs /proc/self/mountinfo
    ls /run/netns 2> /dev/null
    awk '{ print $5 }' /proc/self/mountinfo
}

# nothing_is_left NAME
nothing_is_left() {
    : > "$work/why"
    within no_process || ps -o pid,args -p "$(left_processes | paste -sd,)" >> "$work/why"
    within no_folder || ls "$work/tmp" >> "$work/why"
    outside > "$work/after"
    diff "$work/before" "$work/after" >> "$work/why"
    tap_empty "$1" "$work/why"
}

# The victim: hosts, and ranks on them that never end.  It says so in tmp/ranks.
cat > "$work/victim.sh" << 'END'
RONDO_TEST_HOSTS=$(bash "$1" up -o $$ 2 2 300mbit) || exit 3
export RONDO_TEST_HOSTS
bash "$1" on h1 sleep 300 &
bash "$1" run -t 300 2x2 sh -c 'touch "$0.$RANK"; exec sleep 300' "$TMPDIR/rank" &
wait
END

# victim STAGE: starts it
victim() {
    rm -rf "$work/tmp"
    mkdir "$work/tmp"
    RONDO_TEST_HOSTS_STAGE=$1 bash "$work/victim.sh" "$hosts" > "$work/out" 2>&1 &
    pid=$!
}

all_ranks_run() { [ "$(ls "$work"/tmp/rank.* 2> /dev/null | wc -l)" -eq 4 ]; }

# interrupted STAGE SIGNAL: the owner gets the signal while the hosts are being made
interrupted() {
    victim "$1:wait"
    within is_there "$work/tmp/stage" || tap_not "stage $1 is reached"
    rm -f "$work/tmp/stage"
    kill -"$2" $pid
    wait $pid 2> /dev/null
    nothing_is_left "the owner gets $2 at stage $1"
}

tap_not() { echo "$1: not so" > "$work/why"; cat "$work/out" >> "$work/why"; tap_empty "$1" "$work/why"; }

outside > "$work/before"
for at in folder switch h0 h1 links ready; do
    interrupted $at KILL
    victim $at:fail
    wait $pid
    [ $? -eq 3 ] || tap_not "up fails"
    nothing_is_left "up fails at stage $at"
done
# bash acts on these when `up` has ended, which a signal to the whole group sees to
for signal in INT TERM HUP; do
    rm -rf "$work/tmp"
    mkdir "$work/tmp"
    RONDO_TEST_HOSTS_STAGE=links:wait setsid env --default-signal=INT bash "$work/victim.sh" "$hosts" \
        > "$work/out" 2>&1 &
    pid=$!
    within is_there "$work/tmp/stage" || tap_not "stage links is reached"
    rm -f "$work/tmp/stage"
    kill -$signal -- -$pid
    wait $pid 2> /dev/null
    nothing_is_left "the owner's group gets $signal at stage links"
done
for signal in TERM KILL; do
    victim none
    within all_ranks_run || tap_not "the ranks run"
    rm -f "$work"/tmp/rank.*
    kill -$signal $pid
    wait $pid 2> /dev/null
    nothing_is_left "the owner gets $signal while ranks run"
done

# The keeper itself is killed: hosts without ranks go with it, and the next `up` removes the folder.
mkdir -p "$work/tmp"
first=$(bash "$hosts" up -o $$ 2 1 300mbit) || tap_not "up"
holder=$(cat "$first/h1.pid")
kill -KILL "${first##*.}"
gone() { ! kill -0 "$holder" 2> /dev/null; }
within gone || tap_not "the holders die with the keeper"
second=$(bash "$hosts" up -o $$ 1 1 300mbit) || tap_not "up again"
[ ! -e "$first" ] || tap_not "the dead one's folder is removed"
third=$(bash "$hosts" up -o $$ 1 1 300mbit) || tap_not "a second set of hosts beside it"
[ -e "$second" ] || tap_not "a living one's folder stays"
RONDO_TEST_HOSTS=$second bash "$hosts" down || tap_not "down"
[ -e "$third" ] || tap_not "down leaves the others alone"
RONDO_TEST_HOSTS=$third bash "$hosts" down || tap_not "down"
nothing_is_left "a killed keeper, and two sets of hosts side by side"
tap_done
