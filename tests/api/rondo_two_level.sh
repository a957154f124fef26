#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# rondo_two_level refuses what it cannot do by name, verifies, prints and writes what it says.
name=rondo_two_level
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/api/perf.sh"

refuses "-i '0'" -i 0
refuses "-x 'x'" -x x
refuses "-m '5:4'" -m 5:4
refuses "--alternate '0'" --alternate 0
refuses "--timeout 'never'" --timeout never
refuses "'stray'" stray
refuses "unrecognized option" --peer mpi
refuses "--schedules 'tree' is refused: give ring, two-level, direct" --schedules tree
refuses "--schedules 'ring,'" --schedules ring,
refuses "--schedules ''" --schedules ''
refuses "--passes 'backward' is refused: give forward, kv-grad, q-grad" --passes backward
refuses "--heads '0'" --heads 0
refuses "--kv-heads 3 is refused: give a divisor of --heads 8" --kv-heads 3
refuses "--head-size 'x'" --head-size x
refuses "--compute-us '-1'" --compute-us -1
refuses "--compute-us 5 is of blocks of one size: give one, as -m 4096:4096" --compute-us 5 -m 4096:8192
refuses "size 1000 is refused: give a multiple of 4096" -m 1000
names_its_rank
needs_processes
ends_without_json
ends_with_full_disk

# adds_up: what is printed follows from what is measured, and of each pass one row is chosen at most.
adds_up() {
    awk 'function off(a, b) { return a - b > 0.02 * b + 0.01 || b - a > 0.02 * b + 0.01 }
        $5 > 0.1 && off($6 / $5, $9) { print "ratio is not " $6 / $5 ": " $0 }
        $7 > $6 || $6 > $8 || $7 <= 0 { print "not between least and most: " $0 }
        $(NF - 1) != "-" && taken[$1, $4]++ { print "two rows of a pass are chosen: " $0 }
        $(NF - 1) !~ /^(-|pass|yes)$/ { print "what is chosen: " $0 }' "$work/rows" >> "$work/reasons"
}

# moves_are UNITS...: what a rank sends and reads in place in a start, in blocks, in order of rows; lse and delta are
# a 64th of a block of 8 heads of 64.
moves_are() {
    awk -v units="$*" 'BEGIN { split(units, want, " ") }
        { moved = ($10 + $11 + $12) / $1; if (moved < want[NR] - 0.001 || moved > want[NR] + 0.001)
            print "moves " moved " blocks, not " want[NR] ": " $0 }' "$work/rows" >> "$work/reasons"
}

measures "2 ranks, all columns" 2 -m 65536:65536 --alternate 2 -f
rows_are 6 14
adds_up
moves_are 1 1 2 2 1.515625 1.515625
header_says "problem: 8 query and 8 key heads of 64, full mask, f32"
header_says "kernel: does nothing"
header_says "links: .* GB/s and .* us inside a host"
header_says "topology: "
header_says "plan: forward"
say_all

measures "4 ranks, three schedules, two sizes, verified often" 4 -m 4096:8192 --alternate 3 -i 2 -x 2 -c \
    --schedules direct,ring,two-level
rows_are 18 12
adds_up
say_all

measures "3 ranks, grouped heads, two passes" 3 -m 12288:12288 --heads 6 --kv-heads 3 --head-size 16 \
    --passes q-grad,forward --schedules two-level
rows_are 2 12
[ "$(awk '{ print $2, $4 }' "$work/rows")" = "two-level forward
two-level q-grad" ] || echo "rows are not those asked for" >> "$work/reasons"
header_says "note: size 12288, forward: a plan takes ring, which is not among --schedules"
grep -q 'kv-grad' "$work/out" && echo "a note of a pass that was not asked for" >> "$work/reasons"
say_all

# The kernel computes with the keys of 2 ranks, and the price knows it.
measures "a kernel that takes its time" 2 -m 65536:65536 --alternate 2 --compute-us 5000 --schedules ring
rows_are 3 12
header_says "kernel: sleeps 5000 us forward"
awk '{ want = $4 == "forward" ? 10 : 25
    if ($5 < want * 0.99 || $5 > want * 1.1) print "priced at " $5 ", not " want ": " $0
    if ($7 < want) print "took less than " want ": " $0 }' "$work/rows" >> "$work/reasons"
say_all

# A schedule that is two-level in truth: the first 2 ranks are one host's.
title="two hosts by RONDO_HOST_ID"
ranks 4 sh -c 'RONDO_HOST_ID=$((RONDO_RANK / 2)) exec "$0" "$@"' "$program" --json "$work/json" -m 65536:65536 \
    --alternate 2 > "$work/out" 2> "$work/err"
status=$?
look_at
rows_are 6 12
adds_up
awk '{ want = $2 == "ring" ? 1.5 : 1; if ($4 == "forward" && $10 != want * $1) print "host bytes: " $0 }' \
    "$work/rows" >> "$work/reasons"
say_all
tap_done
