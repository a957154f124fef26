#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# rondo_overlap refuses what it cannot do by name, verifies, prints and writes what it says.
name=rondo_overlap
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/api/perf.sh"

refuses_as_all
refuses "--ratio '0' is refused: give numbers above 0" --ratio 0
refuses "--ratio '1,'" --ratio 1,
refuses "--ratio '1;2'" --ratio '1;2'
refuses "--pass 'backward'" --pass backward
refuses "--compute 'sleep'" --compute sleep
refuses "--chunk '-1'" --chunk -1
refuses "--dims '64'" --dims 64
refuses "size 1000 is refused: give a multiple of 256" -m 1000
refuses "-i 5 is refused: give an even number" -i 5
refuses "-x 0 is refused: give 1 or more" -x 0
refuses "1 rank has nothing" -m 4096
refuses "goes with --pass forward alone" --peer mpi --pass q-grad
names_its_rank
needs_processes
ends_without_json

# adds_up: what is printed follows from what is measured, in the table of all columns.
adds_up() {
    awk 'function off(a, b) { return a - b > 0.02 * (a + b) + 0.02 || b - a > 0.02 * (a + b) + 0.02 }
        { most = $4 > $5 ? $4 : $5 }
        off($6 / most, $7) { print "step x is not " $6 / most ": " $0 }
        off($8 / most, $9) { print "call x is not " $8 / most ": " $0 }
        off($11 / most, $12) { print "whole x is not " $11 / most ": " $0 }
        off($8 - $4, $13) && $8 > $4 { print "exposed is not " $8 - $4 ": " $0 }' "$work/rows" >> "$work/reasons"
}

# One repetition, so that no two medians are of different ones.
measures "2 ranks, forward, all columns" 2 -m 65536:65536 --alternate 1 --ratio 0.5,3 -f
rows_are 2 16
adds_up
header_says "compute: spin"
header_says "iterations: 4, warm-up 1"
header_says "plan: forward"
say_all

for pass in kv-grad q-grad; do
    measures "3 ranks, $pass, matmul, in chunks" 3 -m 32768:65536 --alternate 2 --ratio 1 --pass $pass \
        --compute matmul --chunk 8192 -c -i 10
    rows_are 2 11
    header_says "iterations: 10, warm-up 1"
    header_says "algorithm: ring, $pass, .*chunks of 8192 bytes"
    say_all
done
if measures_beside_mpi -m 16384:32768 --alternate 2 --ratio 1; then
    rows_are 2 13
    header_says "peer: MPI_Isend"
    say_all
fi
tap_done
