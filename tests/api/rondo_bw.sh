#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# rondo_bw refuses what it cannot do by name, verifies, and tells what came by the clock of who got it.
name=rondo_bw
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/api/perf.sh"

refuses_as_all
refuses "--window '0'" --window 0
refuses "--window '4097'" --window 4097
refuses "--delay '-1'" --delay -1
refuses "--pairs 'all'" --pairs all
refuses "1 rank has no pair" -m 64
names_its_rank
needs_processes
ends_without_json
ends_with_full_disk

# Sizes of no round number, in windows of one and of many.
for size in 1 3 7 1000003; do
    measures "2 ranks stream messages of $size bytes" 2 -m $size:$size -i 3 --alternate 2 --window 5
    rows_are 1 8
    awk -v size=$size '$1 != size || $7 != size { print "size or moved: " $0 }' "$work/rows" >> "$work/reasons"
    say_all
done

measures "37748744 bytes, and -c" 2 -m 37748744:37748744 -i 1 -c -x 0 --alternate 1 --window 1
rows_are 1 8
say_all

measures "3 ranks, both ways, all columns" 3 -m 4096:8192 -i 4 --alternate 3 -f --both
rows_are 2 11
header_says "pattern: 1 pairs, halves .*, both ways, window 64; the last rank looks on"
say_all

measures "4 ranks, neighbours" 4 -m 4096:4096 -i 4 --alternate 1 -f --pairs neighbours
rows_are 1 11
awk '$3 != 2 { print $3 " pairs" }' "$work/rows" >> "$work/reasons"
say_all

# Whoever times what it has sent, and not what came, misses the delay of the receiver.
measures "a receiver's delay is seen by both clocks" 2 -m 65536:65536 -i 1 -x 0 --alternate 3 --window 32 \
    --delay 400 -f
rows_are 1 11
awk '{ ms = $4 * 32 / 1000 }
    ms < 400 { print "only " ms " ms by the receiver" }
    $8 > 5 { print "clocks differ by " $8 " percent" }' "$work/rows" >> "$work/reasons"
say_all

if measures_beside_mpi -m 4096:8192 -i 3 --alternate 3; then
    rows_are 2 10
    header_says "peer: MPI_Isend"
    say_all
fi
tap_done
