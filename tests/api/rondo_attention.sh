#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# rondo_attention refuses what it cannot do by name, verifies, prints and writes what it says.
name=rondo_attention
row_key=tokens
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/api/perf.sh"

refuses "--alternate '0'" --alternate 0
refuses "--timeout 'never'" --timeout never
refuses "--tokens '0'" --tokens 0
refuses "--heads 'x'" --heads x
refuses "--kv-heads 3 is refused: give a divisor of --heads 4" --kv-heads 3 --heads 4
refuses "--head-size '0'" --head-size 0
refuses "--layout 'spiral'" --layout spiral
refuses "--schedule 'tree'" --schedule tree
refuses "--backward 'none'" --backward none
refuses "'stray'" stray
refuses "unrecognized option" --no-such-option
refuses "invalid option" -i 2
names_its_rank
needs_processes

# adds_up RANKS: what is printed follows from what is measured, in one repetition and in all columns.
adds_up() {
    awk -v ranks="$1" 'function off(a, b) { return a - b > 0.05 * b + 0.02 || b - a > 0.05 * b + 0.02 }
        $2 < 0.1 || $3 < 0.1 || $4 < 0.1 { next }
        off($2 / ranks / $3, $5) { print "effic is not " $2 / ranks / $3 ": " $0 }
        off($2 / ranks / $4, $6) { print "ceiling is not " $2 / ranks / $4 ": " $0 }
        off($4 / $3, $7) { print "of it is not " $4 / $3 ": " $0 }
        $8 != $7 || $9 != $7 || $12 + $13 + $14 != 0 { print "one repetition has a spread: " $0 }' \
        "$work/rows" >> "$work/reasons"
}

measures "2 ranks, zigzag, all columns" 2 --tokens 512 --alternate 1 -f
rows_are 1 15
adds_up 2
header_says "problem: 512 tokens, 2 query and 2 key heads of 64, causal, zigzag, f32"
header_says "plan: forward"
grep '^# bars' "$work/out" >> "$work/reasons"
say_all

# Shards of different lengths, of which no two have the same pairs.
for layout in contiguous zigzag striped balanced; do
    measures "3 ranks, $layout, three repetitions" 3 --tokens 101 --heads 4 --kv-heads 2 --head-size 12 \
        --layout $layout --backward kv-grad --schedule ring --alternate 3
    rows_are 1 12
    awk '$8 > $7 || $7 > $9 { print "not between least and most: " $0 }' "$work/rows" >> "$work/reasons"
    header_says "problem: .*, causal, $layout, f32"
    say_all
done
measures "1 rank" 1 --tokens 65 --heads 1 --head-size 8 --backward q-grad --alternate 2
rows_are 1 12
say_all

# A rank without queries has no share.
ranks 3 "$program" --tokens 2 > "$work/out" 2> "$work/err"
status=$?
{
    [ "$status" -eq 1 ] || echo "status $status, not 1"
    [ "$(grep -c "^$name: --tokens 2 leaves rank [0-9] without any: give more" "$work/err")" -eq 1 ] ||
        { echo "tokens are not named, once:"; cat "$work/err"; }
} > "$work/reasons"
tap_empty "too few tokens end all ranks" "$work/reasons"
tap_done
