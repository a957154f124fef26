#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# rondo_ring refuses what it cannot do by name, verifies, prints and writes what it says.
. "$top_srcdir/tests/tap.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
ring=$top_builddir/perf/rondo_ring
ranks() { count=$1; shift; timeout 60 "$top_builddir/tools/rondo-run" -n "$count" --timeout 50 "$@"; }

# refuses TEXT ARGUMENT...: exit status 2, and TEXT on stderr.
refuses() {
    text=$1; shift
    : > "$work/reasons"
    timeout 20 "$ring" "$@" > "$work/out" 2> "$work/err"
    status=$?
    [ "$status" -eq 2 ] || echo "status $status, not 2" >> "$work/reasons"
    grep -q -e "$text" "$work/err" || { echo "no '$text' in:"; cat "$work/err"; } >> "$work/reasons"
    [ ! -s "$work/out" ] || echo "something on stdout" >> "$work/reasons"
    tap_empty "refuses $*" "$work/reasons"
}

refuses "'0'" -i 0
refuses "'x'" -x x
refuses "'5:4'" -m 5:4
refuses "'8:x'" -m 8:x
refuses "'8388608:'" -m 8388608:
refuses "'-8'" -m -8
refuses "'99999999999999999999'" -m 99999999999999999999
refuses "size 12 is refused: give a multiple of 8" -m 12
refuses "multiple of 512" -m 1000 --dims 64:64
refuses "'64'" --dims 64
refuses "'tcp'" --peer tcp
refuses "--peer mpi: " --peer mpi
refuses "'0'" --alternate 0
refuses "'never'" --timeout never
refuses "'stray'" stray
refuses "--memory 'stack' is refused: give alloc, caller or both" --memory stack
refuses "--reads 'none' is refused: give arrived or all" --reads none
refuses "1 rank" -m 64

if ! grep -q '^#define HAVE_UCX 1' "$top_builddir/build-config.h"; then
    tap_skip "ranks that are processes" "built without UCX"
    tap_done
fi

# Sizes of odd tokens, of one token, and of blocks that UCX sends in both of its ways.
ranks 3 "$ring" -m 8:128 -i 4 --alternate 3 -f --json "$work/json" > "$work/out" 2> "$work/err"
status=$?
{
    [ "$status" -eq 0 ] || { echo "status $status"; cat "$work/err"; }
    awk '!/^#/ { rows++; if ($NF != 0 || NF != 14) print "row: " $0 }
        !/^#/ && $10 + $11 != 2 * $1 { print "moved and bound are not 2 blocks: " $0 }
        END { if (rows != 5) print rows + 0 " rows, not 5" }' "$work/out"
} > "$work/reasons"
tap_empty "3 ranks verify and time 8 to 128 bytes" "$work/reasons"
{
    [ "$(grep -c size_bytes "$work/json")" -eq 5 ] || echo "not 5 results"
    [ "$(grep -c '"wrong":0}' "$work/json")" -eq 5 ] || echo "not 5 times wrong: 0"
    grep -q '"schema":"rondo-perf","version":1' "$work/json" || echo "no schema and version"
    [ "$(grep -c '"plan":' "$work/json")" -eq 1 ] || echo "not one plan"
    tr -d -c '{}[]' < "$work/json" | grep -qx '{{}\[{}{}{}{}{}\]}' || echo "brackets do not match"
} > "$work/reasons"
tap_empty "the JSON holds the same rows" "$work/reasons"

ranks 2 "$ring" -m 1200000:1200000 -i 2 -c --alternate 1 --csv > "$work/out" 2> "$work/err"
status=$?
{
    [ "$status" -eq 0 ] || { echo "status $status"; cat "$work/err"; }
    grep -q '^size(B),seqlen,steps,hop(us),busbw(GB/s),#wrong$' "$work/out" || echo "no titles"
    grep -Eq '^1200000,[0-9]+,1,[0-9.]+,[0-9.]+,0$' "$work/out" || { echo "no row:"; cat "$work/out"; }
} > "$work/reasons"
tap_empty "2 ranks, a large block, -c and --csv" "$work/reasons"

ranks 2 "$ring" -m 64:64 -i 1 --alternate 1 --no-yield > "$work/out" 2> "$work/err"
status=$?
{
    [ "$status" -eq 0 ] || { echo "status $status"; cat "$work/err"; }
    grep -q '^# wait: .*spins only' "$work/out" || echo "the header does not say how it waits"
} > "$work/reasons"
tap_empty "--no-yield is said in the header" "$work/reasons"

ranks 2 "$ring" -m 64:64 --json "$work/nowhere/json" > "$work/out" 2> "$work/err"
status=$?
{
    [ "$status" -eq 1 ] || echo "status $status, not 1"
    grep -q "nowhere/json" "$work/err" || echo "the file is not named"
} > "$work/reasons"
tap_empty "a JSON file that cannot be written ends all ranks" "$work/reasons"

# Blocks of whole lines, of one token, and with a rest behind the last line.
ranks 3 "$ring" --rewrite -m 8:8 -i 3 --alternate 2 -f --json "$work/json" > "$work/out" 2> "$work/err"
status=$?
ranks 2 "$ring" --rewrite --reads all -m 100012:100012 -i 3 -c --alternate 1 -f >> "$work/out" 2>> "$work/err" || status=$?
ranks 4 "$ring" --rewrite -m 262144:524288 -i 3 --alternate 1 -f >> "$work/out" 2>> "$work/err" || status=$?
{
    [ "$status" -eq 0 ] || { echo "status $status"; cat "$work/err"; }
    awk '!/^#/ { rows++; if ($NF != 0 || NF != 14 || $4 <= 0 || $5 <= 0) print "row: " $0
                 if ($11 <= 0 || $11 > $4 || $12 <= 0 || $12 > $5) print "rest: " $0 }
        END { if (rows != 4) print rows + 0 " rows, not 4" }' "$work/out"
    [ "$(grep -c '"alloc_us":.*"caller_us":.*"wrong":0}' "$work/json")" -eq 1 ] || echo "no result in JSON"
    grep -q '^# iteration: owner writes' "$work/out" || echo "the header does not say what an iteration is"
} > "$work/reasons"
tap_empty "--rewrite sums every block in each iteration" "$work/reasons"

# A block of the caller moves once for each hop, or is read in place, also from the first copy of it.
ranks 2 "$ring" --rewrite --memory caller -m 65536:65536 -i 2 --alternate 1 -f --csv > "$work/out" 2> "$work/err"
status=$?
{
    [ "$status" -eq 0 ] || { echo "status $status"; cat "$work/err"; }
    grep -Eq '^65536,32,1,,[0-9.]+,,[0-9.]+,,(0|65536),2,,[0-9.]+,,0$' "$work/out" || { echo "no row:"; cat "$work/out"; }
} > "$work/reasons"
tap_empty "--memory caller times that alone" "$work/reasons"

# The peer's own leaks and stray reports are not ours to judge.
name="2 ranks started by MPI measure against it"
if ! "$ring" --help | grep -q 'built with MPI: yes' || ! command -v mpirun.openmpi > /dev/null; then
    tap_skip "$name" "built without MPI, or no mpirun.openmpi"
else
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    ASAN_OPTIONS=detect_leaks=0 timeout 60 mpirun.openmpi --oversubscribe --bind-to none \
        --mca mpi_yield_when_idle 1 -n 2 "$ring" -m 4096:8192 -i 3 --alternate 3 --csv --peer mpi \
        > "$work/out" 2> "$work/err"
    status=$?
    {
        [ "$status" -eq 0 ] || { echo "status $status"; cat "$work/err"; }
        grep -q '^# peer: MPI_Sendrecv, ' "$work/out" || echo "the header does not name the peer"
        [ "$(grep -cE '^(4096|8192),[0-9]+,1(,[0-9.]+){4},0$' "$work/out")" -eq 2 ] ||
            { echo "not two rows:"; cat "$work/out"; }
    } > "$work/reasons"
    tap_empty "$name" "$work/reasons"

    ASAN_OPTIONS=detect_leaks=0 timeout 60 mpirun.openmpi --oversubscribe --bind-to none \
        --mca mpi_yield_when_idle 1 -n 3 "$ring" --rewrite -m 65536:65536 -i 3 --alternate 3 --csv --peer mpi \
        > "$work/out" 2> "$work/err"
    status=$?
    {
        [ "$status" -eq 0 ] || { echo "status $status"; cat "$work/err"; }
        grep -Eq '^65536,2(,[0-9.]+){7},0$' "$work/out" || { echo "no row:"; cat "$work/out"; }
    } > "$work/reasons"
    tap_empty "3 ranks rewrite beside MPI, which reads the same sums" "$work/reasons"
fi
tap_done
