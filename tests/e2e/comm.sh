#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Communicators of real processes, as rondo-run starts them, over the transport between processes.
. "$top_srcdir/tests/tap.sh"
run=$top_builddir/tools/rondo-run
probe=$top_builddir/tests/e2e/comm_probe
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
unset RONDO_HOST_ID RONDO_RANK RONDO_SIZE RONDO_ROOT RONDO_JOB RONDO_ROOT_FD RONDO_TRANSPORT RONDO_INTERFACE
export RONDO_LOG=error RONDO_LOG_FILE="$work/log" MEETING="$work/meeting"

if RONDO_TRANSPORT=ucx "$run" -n 1 "$probe" refused "is not built in" 2>/dev/null; then
    tap_skip "processes" "built without UCX: no transport between processes"
    tap_done
fi

# Passes when the job returns STATUS: job NAME STATUS RANKS ARGUMENT...
job() {
    name=$1 want=$2 ranks=$3
    shift 3
    rm -f "$MEETING"
    timeout 60 "$run" -n "$ranks" --timeout 50 --grace 50 "$@" >"$work/out" 2>"$work/err" </dev/null
    got=$?
    : >"$work/why"
    [ "$got" -eq "$want" ] || { echo "status $got, not $want"; cat "$work/err"; } >"$work/why"
    tap_empty "$name" "$work/why"
}

# rows NAME TEXT: the job before wrote these lines, in any order
rows() {
    sort "$work/out" | tr '\n' ';' >"$work/rows"
    : >"$work/why"
    [ "$(cat "$work/rows")" = "$2" ] || echo "$(cat "$work/rows") instead of $2" >"$work/why"
    tap_empty "$1" "$work/why"
}

job "four processes meet, twice" 0 4 "$probe" meet
rows "they are on one host" "0/4 0/1 0/4 shm;1/4 0/1 1/4 shm;2/4 0/1 2/4 shm;3/4 0/1 3/4 shm;"
job "five processes on two hosts" 0 5 --hosts 2 "$probe" meet
rows "3 and 2 of them are local" \
    "0/5 0/2 0/3 shm+ucx;1/5 0/2 1/3 shm+ucx;2/5 0/2 2/3 shm+ucx;3/5 1/2 0/2 shm+ucx;4/5 1/2 1/2 shm+ucx;"
job "one process" 0 1 "$probe" meet

job "rank 0 is killed" 137 4 "$probe" killed 0
rows "the others name it" "1 was told;2 was told;3 was told;"
job "rank 2 is killed" 137 4 "$probe" killed 2
rows "the others name it" "0 was told;1 was told;3 was told;"
job "rank 1 ends without destroy" 0 3 "$probe" exits 1
rows "the others name it" "0 was told;2 was told;"
job "a program that a dead rank started lives on" 137 3 "$probe" child 1
rows "it holds no connection: the others name the rank" "0 was told;2 was told;"
job "an abort of rank 1" 0 3 "$probe" abort 1
rows "it reaches the others" "0 was told;2 was told;"

job "groups {5,2,7} and {0,1,3,4,6} of 8" 0 8 "$probe" groups
job "group {0,1} works while {2,3} is idle" 0 4 "$probe" idle
job "two communicators, started in crossed order" 0 4 "$probe" crossed

job "transports that differ are named by all" 0 3 sh -c \
    'test $RONDO_RANK = 1 && export RONDO_TRANSPORT=self
     exec "$0" refused "RONDO_TRANSPORT is auto on rank 0 and self on rank 1"' "$probe"
job "self between processes is refused by all" 0 2 env RONDO_TRANSPORT=self "$probe" refused \
    "rank 1 is in another process than rank 0"
job "a rank that never comes is named by all" 0 3 sh -c \
    'test $RONDO_RANK = 2 && exit 0
     # of rank 0 alone: it says who is missing, however late it began
     test $RONDO_RANK = 0 && export RONDO_CONNECT_TIMEOUT=1s
     exec "$0" refused "rank 2 of 3 did not come"' "$probe"
job "a bad variable on one rank is named by all" 0 3 sh -c \
    'test $RONDO_RANK = 2 && export RONDO_YIELD=lots; exec "$0" refused "RONDO_YIELD='\''lots'\''"' "$probe"
job "torchrun's names are understood" 0 3 sh -c \
    'RANK=$RONDO_RANK WORLD_SIZE=$RONDO_SIZE
     export RANK WORLD_SIZE; unset RONDO_RANK RONDO_SIZE; exec "$0" meet' "$probe"
tap_done
