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
refuses "size 1000 is refused: give a multiple of 256, by --dims 32:32" -m 1000
refuses "-i 5 is refused: give an even number" -i 5
refuses "-x 0 is refused: give 1 or more" -x 0
refuses "1 rank has nothing" -m 4096
if "$program" --help | grep -q 'built with MPI: yes'; then
    refuses "goes with --pass forward alone" --peer mpi --pass q-grad
else
    refuses "built without MPI" --peer mpi --pass q-grad
fi
names_its_rank
needs_processes
ends_without_json
ends_with_full_disk

# adds_up: what is printed follows from what is measured, in the table of all columns.
adds_up() {
    awk 'function off(a, b) { return a - b > 0.02 * (a + b) + 0.02 || b - a > 0.02 * (a + b) + 0.02 }
        { most = $4 > $5 ? $4 : $5 }
        off($6 / most, $7) { print "step x is not " $6 / most ": " $0 }
        off($8 / most, $9) { print "call x is not " $8 / most ": " $0 }
        $10 != $9 || $11 != $9 { print "call x of one repetition has a spread: " $0 }
        off($13 / most, $14) { print "whole x is not " $13 / most ": " $0 }
        off($8 - $4, $15) && $8 > $4 { print "exposed is not " $8 - $4 ": " $0 }' "$work/rows" >> "$work/reasons"
}

# doubts_are_noted: a row has a note, and says so in the JSON, when it cannot be, and only then; a
# figure that is rounded to a bar can be on either side.
doubts_are_noted() {
    awk -F '"machine_busy":' 'NF > 1 { print $2 + 0 }' "$work/json" > "$work/busy"
    sed -n 's/^# note: size \([0-9]*\), ratio \([0-9.]*\): .*: the machine was busy; run again$/\1 \2/p' \
        "$work/out" > "$work/notes"
    [ "$(grep -c '^# note' "$work/out")" -eq "$(grep -c 1 "$work/busy")" ] || echo "notes are not those of the JSON"
    paste -d ' ' "$work/rows" "$work/busy" | awk -v notes="$work/notes" '
        BEGIN { while ((getline line < notes) > 0) noted[line] = 1 }
        { least = $7; for (i = 9; i <= 14; i++) if ((i == 9 || i == 12 || i == 14) && $i < least) least = $i
          busy = $NF; spread = $(NF - 2)
          if (busy != (($1 " " $3) in noted)) print "busy " busy ", but for the note: " $0
          if ((least < 0.9694 || spread > 20.1) && !busy) print "cannot be, but no word: " $0
          if (least > 0.9706 && spread < 19.9 && busy) print "can be: " $0 }'
}

# One repetition, so that no two medians are of different ones.
measures "2 ranks, forward, all columns" 2 -m 65536:65536 --alternate 1 --ratio 0.5,3 -f
rows_are 2 19
adds_up
doubts_are_noted >> "$work/reasons"
header_says "compute: spin"
header_says "iterations: 4, warm-up 1"
header_says "plan: forward"
say_all

# Short calls, of which some differ on any machine.
measures "3 ranks, one token each, many repetitions" 3 -m 256:1024 --alternate 15 --ratio 0.01,0.5,1 -f
rows_are 9 19
doubts_are_noted >> "$work/reasons"
awk '$10 > $9 || $9 > $11 || $18 < 0 { print "not between least and most: " $0 }' "$work/rows" >> "$work/reasons"
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
