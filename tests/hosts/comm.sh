#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Ranks find their hosts as the namespaces say, and collectives give what they must.
. "$top_srcdir/tests/hosts/jobs.sh"
probe=$top_builddir/tests/e2e/comm_probe
collectives=$top_builddir/tests/hosts/collectives
hosts_or_skip 3 4 300mbit

# meets NAME ROWS ARGUMENTS-OF-run...: what each rank says of itself, without the transport's name
meets() {
    local name=$1 text=$2
    shift 2
    job "$name meet, twice" "$@" "$probe" meet
    sed -i 's/ [^ ]*$//' "$work/out"
    rows "$name see rank/ranks host/hosts local rank/local ranks" "$text"
}

meets "2x2 ranks" "0/4 0/2 0/2;1/4 0/2 1/2;2/4 1/2 0/2;3/4 1/2 1/2;" 2x2
meets "3+2 ranks" "0/5 0/2 0/3;1/5 0/2 1/3;2/5 0/2 2/3;3/5 1/2 0/2;4/5 1/2 1/2;" 3+2
meets "1+2+1 ranks" "0/4 0/3 0/1;1/4 1/3 0/2;2/4 1/3 1/2;3/4 2/3 0/1;" 1+2+1
meets "3+2 ranks dealt out in turn" "0/5 0/2 0/3;1/5 1/2 0/2;2/5 0/2 1/3;3/5 1/2 1/2;4/5 0/2 2/3;" -d turn 3+2
# called NAME0 NAME1: what the first two hosts are called from now on (NVIDIA/nccl#187)
called() {
    bash "$hosts" on h0 hostname "$1"
    bash "$hosts" on h1 hostname "$2"
}
called localhost localhost
meets "2x2 ranks, all hosts localhost," "0/4 0/2 0/2;1/4 0/2 1/2;2/4 1/2 0/2;3/4 1/2 1/2;" 2x2
called w.1.net w.2.net
meets "2x2 ranks on w.1.net and w.2.net" "0/4 0/2 0/2;1/4 0/2 1/2;2/4 1/2 0/2;3/4 1/2 1/2;" 2x2
called h0 h1

for nics in rank host none; do
    job "2x4 ranks meet, NICs by $nics" -n $nics 2x4 "$probe" meet
done

for shape in 2x2 2x4 3+2 3x1; do
    folder=$work/$shape
    mkdir "$folder"
    job "all-reduce, broadcast, barrier, split over $shape" $shape "$collectives" "$folder"
done
job "collectives over one NIC a host" -n host 2x4 "$collectives" "$(mktemp -d -p "$work")"

job "groups {5,2,7} and {0,1,3,4,6} of 2x4" 2x4 "$probe" groups
job "group {0,1} works while {2,3} is idle" 2x2 "$probe" idle
job "two communicators, started in crossed order" 2x2 "$probe" crossed
job "an abort of rank 1" 2x2 "$probe" abort 1
rows "reaches the others, on its host and on the other" "0 was told;2 was told;3 was told;"
job "rank 2 ends without destroy" 2x2 "$probe" exits 2
rows "the others name it" "0 was told;1 was told;3 was told;"
tap_done
