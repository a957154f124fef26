#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# rondo_kernel refuses what it cannot do by name, verifies, prints and writes what it says.
name=rondo_kernel
row_key=head_size
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/api/perf.sh"

refuses "--alternate '0'" --alternate 0
refuses "--alternate 1001 is refused: give 1 to 1000" --alternate 1001
refuses "--timeout 'never'" --timeout never
refuses "--peer 'mpi'" --peer mpi
refuses "--tokens '0'" --tokens 0
refuses "--heads '-1'" --heads -1
refuses "--kv-heads 3 is refused: give a divisor of --heads 8" --kv-heads 3
refuses "--head-size '64,'" --head-size 64,
refuses "--head-size '1,2,3,4,5,6,7,8,9'" --head-size 1,2,3,4,5,6,7,8,9
refuses "--v-size 'x'" --v-size x
refuses "--mask 'window'" --mask window
refuses "--strides 'dim'" --strides dim
refuses "--dtype 'fp64'" --dtype fp64
refuses "--softcap '-1'" --softcap -1
refuses "--softcap 'nan'" --softcap nan
refuses "--dropout '1'" --dropout 1
refuses "--kernel 'fast'" --kernel fast
refuses "--threads '257'" --threads 257
refuses "--peer torch goes with --dtype fp32" --peer torch --dtype bf16
refuses "--peer torch goes with --dtype fp32" --peer torch --dropout 0.5
refuses "'stray'" stray
refuses "unrecognized option" --no-such-option
refuses "invalid option" -i 2

# runs NAME ARGUMENT...: as measures, without ranks.
runs() {
    title=$1; shift
    rm -f "$work/json"
    timeout 60 "$program" --tokens 64 --heads 2 --alternate 1 --json "$work/json" "$@" > "$work/out" 2> "$work/err"
    status=$?
    look_at
}

# breaks TEXT ARGUMENT...: exit status 1, and TEXT on stderr, soon.
breaks() {
    text=$1; shift
    timeout 30 "$program" --tokens 64 --heads 2 --head-size 8 --alternate 1 "$@" > "$work/out" 2> "$work/err"
    status=$?
    {
        [ "$status" -eq 1 ] || echo "status $status, not 1"
        grep -q -e "$text" "$work/err" || { echo "no '$text' in:"; cat "$work/err"; }
    } > "$work/reasons"
    tap_empty "ends with '$text'" "$work/reasons"
}

# Speeds are above 0, and ratios those of the speeds beside them; without CBLAS there is no product.
adds_up() {
    awk 'function off(a, b) { return a - b > 0.02 * b + 0.02 || b - a > 0.02 * b + 0.02 }
        $1 != (NR % 2 ? "forward" : "backward") { print "pass: " $0 }
        !($3 > 0 && $5 > 0) { print "no speed: " $0 }
        $4 == "-" && $6 $7 $8 == "---" { next }
        !($4 > 0) { print "no product: " $0 }
        $7 != $6 || $8 != $6 { print "one repetition has a spread: " $0 }
        $4 > 1 && off($3 / $4, $6) { print "x sgemm is not " $3 / $4 ": " $0 }' "$work/rows" >> "$work/reasons"
}

runs "two head sizes" --head-size 24,5 --kv-heads 1
rows_are 4 10
adds_up
header_says "problem: 64 tokens, 2 query and 1 key heads, mask causal, fp32, token-major, softcap 0, dropout 0"
header_says "kernel: flash, 1 thread$"
header_says "fma: "
say_all

runs "bf16, other head sizes, soft-cap, dropout, threads" --head-size 16 --v-size 8 --dtype bf16 --mask full \
    --strides head --softcap 5 --dropout 0.25 --threads 2
rows_are 2 10
adds_up
header_says "problem: 64 tokens, 2 query and 2 key heads, mask full, bf16, head-major, softcap 5, dropout 0.25"
header_says "kernel: flash, 2 threads"
say_all

breaks "--json '$work/nowhere/json' cannot be written" --json "$work/nowhere/json"
breaks "--python $work/none cannot be run" --peer torch --python "$work/none"
printf '#!/bin/sh\nexit 3\n' > "$work/dies"
printf '#!/bin/sh\nexec sleep 20\n' > "$work/sleeps"
printf '#!/bin/sh\necho torch 9 x 0.5\nexec cat > /dev/null\n' > "$work/differs"
chmod +x "$work/dies" "$work/sleeps" "$work/differs"
breaks "the interpreter has ended" --peer torch --python "$work/dies"
breaks "no answer for 1000 ms" --peer torch --python "$work/sleeps" --timeout 1
breaks "no answer for 1000 ms" --peer torch --python "$work/sleeps" --timeout 1 --tokens 2048
breaks "its output is not ours: torch 9 x 0.5" --peer torch --python "$work/differs"

if /usr/bin/python3 -c 'import torch, numpy' > /dev/null 2>&1; then
    runs "beside PyTorch" --head-size 16 --peer torch --kv-heads 1
    grep -q '^# torch: .*differs from ours by' "$work/out" || echo "no word of torch" >> "$work/reasons"
    awk '($1 == "forward") != ($11 > 0) { print "x torch: " $0 }' "$work/rows" >> "$work/reasons"
    rows_are 2 12
    say_all
else
    tap_skip "beside PyTorch" "/usr/bin/python3 finds no torch, or no numpy"
fi
tap_done
