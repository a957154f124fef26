#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# rondo_latency refuses what it cannot do by name, verifies, prints and writes what it says.
name=rondo_latency
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/api/perf.sh"

refuses_as_all
refuses "--pause '0'" --pause 0
refuses "--pause '9x'" --pause 9x
refuses "1 rank has nobody" -m 64
names_its_rank
needs_processes
ends_without_json
ends_with_full_disk

# Odd sizes, one byte, and blocks that UCX sends in both of its ways.
measures "2 ranks hand on 1 to 4 bytes" 2 -m 1:4 -i 5 --alternate 3 --pause 50
rows_are 3 8
header_says "way: rank 0 to rank 1: "
header_says "cores: .*oversubscribed"
say_all

measures "3 ranks, a large odd block, all columns, -c" 3 -m 1000003:1000003 -i 3 -c -f --alternate 1
rows_are 1 12
header_says "ranks: 3 on 1 host"
say_all

# A copy moves the whole block, a block that is read in place nothing.
measures "what was moved is counted" 2 -m 65536:65536 -i 4 --alternate 1
awk '$7 != 65536 && $7 != 0 { print "moved " $7 }' "$work/rows" >> "$work/reasons"
say_all

# Nobody can sleep less than nothing: a wake of the kernel takes time, and --pause is not part of it.
measures "a pause is no part of the times" 2 -m 64:64 -i 5 --alternate 1 --pause 20000
awk '$4 >= 20000 || $5 <= 0 || $5 >= 20000 { print "asleep " $4 ", futex " $5 }' "$work/rows" >> "$work/reasons"
say_all

if measures_beside_mpi -m 4096:8192 -i 3 --alternate 3; then
    rows_are 2 10
    header_says "peer: MPI_Send"
    say_all
fi
tap_done
