# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests of perf/, which set `name`, after tap.sh: how a program is run and looked at.
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
program=$top_builddir/perf/$name
ranks() { count=$1; shift; timeout 60 "$top_builddir/tools/rondo-run" -n "$count" --timeout 50 "$@"; }

# refuses TEXT ARGUMENT...: exit status 2, and TEXT on stderr.
refuses() {
    text=$1; shift
    : > "$work/reasons"
    timeout 20 "$program" "$@" > "$work/out" 2> "$work/err"
    status=$?
    [ "$status" -eq 2 ] || echo "status $status, not 2" >> "$work/reasons"
    grep -q -e "$text" "$work/err" || { echo "no '$text' in:"; cat "$work/err"; } >> "$work/reasons"
    [ ! -s "$work/out" ] || echo "something on stdout" >> "$work/reasons"
    tap_empty "refuses $*" "$work/reasons"
}

# What all programs refuse, by the name of the option.
refuses_as_all() {
    refuses "-i '0'" -i 0
    refuses "-x 'x'" -x x
    refuses "-m '5:4'" -m 5:4
    refuses "-m '8:x'" -m 8:x
    refuses "--peer 'tcp'" --peer tcp
    refuses "--peer mpi: " --peer mpi
    refuses "--alternate '0'" --alternate 0
    refuses "--timeout 'never'" --timeout never
    refuses "'stray'" stray
    refuses "unrecognized option" --no-such-option
}

# fails TEXT VARIABLE=VALUE...: with these in the environment, exit status 1 and TEXT on stderr.
fails() {
    text=$1; shift
    env -u RONDO_RANK -u RONDO_SIZE -u RANK -u WORLD_SIZE "$@" timeout 20 "$program" > "$work/out" 2> "$work/err"
    status=$?
    {
        [ "$status" -eq 1 ] || echo "status $status, not 1"
        grep -q -e "$text" "$work/err" || { echo "no '$text' in:"; cat "$work/err"; }
    } > "$work/reasons"
    tap_empty "fails with $*" "$work/reasons"
}

# Without a communicator an error names the rank that the launcher gave, or none.
names_its_rank() {
    fails "^$name: rank 3: the communicator: .*RONDO_ROOT" RONDO_RANK=3 RONDO_SIZE=5
    fails "^$name: rank 1: the communicator: .*MASTER_ADDR" RANK=1 WORLD_SIZE=2
    fails "^$name: the communicator: .*RONDO_ROOT" RONDO_ROOT=127.0.0.1:1
}

# Rank 0's reason, and nothing of a communicator that failed.
ends_without_json() {
    ranks 2 "$program" -m 4096:4096 --json "$work/nowhere/json" > "$work/out" 2> "$work/err"
    status=$?
    {
        [ "$status" -eq 1 ] || echo "status $status, not 1"
        [ "$(grep -c "^$name: --json .*nowhere/json' cannot be written: " "$work/err")" -eq 1 ] ||
            echo "the file is not named, once:"
        ! grep -q '^rondo\[' "$work/err" || echo "the library complains:"
        [ -s "$work/out" ] && echo "something on stdout"
    } > "$work/reasons"
    ! [ -s "$work/reasons" ] || cat "$work/err" >> "$work/reasons"
    tap_empty "a JSON file that cannot be written ends all ranks" "$work/reasons"
}

# The times are there; what could not be kept is said, and no communicator fails for it.
ends_with_full_disk() {
    [ -c /dev/full ] || return
    ranks 2 "$program" -m 4096:4096 -i 2 --alternate 1 --json /dev/full > "$work/out" 2> "$work/err"
    status=$?
    {
        [ "$status" -eq 1 ] || echo "status $status, not 1"
        grep -q "^$name: the report could not be written: " "$work/err" || echo "no word of the report:"
        ! grep -q '^rondo\[' "$work/err" || echo "the library complains:"
        grep -q '^ *4096 ' "$work/out" || echo "no row"
    } > "$work/reasons"
    ! [ -s "$work/reasons" ] || cat "$work/err" >> "$work/reasons"
    tap_empty "a JSON file on a full disk" "$work/reasons"
}

# processes: ends the test where ranks cannot be processes.
needs_processes() {
    grep -q '^#define HAVE_UCX 1' "$top_builddir/build-config.h" && return
    tap_skip "ranks that are processes" "built without UCX"
    tap_done
}

# measures NAME RANKS ARGUMENT...: exit status 0; leaves $work/out, rows alone in $work/rows, $work/json,
# and $work/reasons for more of them, which say_all ends.
measures() {
    title=$1; count=$2; shift 2
    rm -f "$work/json"
    ranks "$count" "$program" --json "$work/json" "$@" > "$work/out" 2> "$work/err"
    status=$?
    look_at
}

look_at() {
    grep -v '^#' "$work/out" > "$work/rows"
    {
        [ "$status" -eq 0 ] || { echo "status $status"; cat "$work/err"; }
        ! [ -s "$work/err" ] || { echo "on stderr:"; cat "$work/err"; }
        json_faults
    } > "$work/reasons"
}

# The JSON parses, and has a result for each row, none of them wrong.  row_key, if it is set, is a key of
# all rows, where they have no size.
json_faults() {
    grep -q '"schema":"rondo-perf","version":1' "$work/json" || echo "no schema and version"
    rows=$(grep -c . "$work/rows")
    [ "$(grep -c "\"${row_key:-size_bytes}\":" "$work/json")" -eq "$rows" ] || echo "JSON and table differ: $rows rows"
    [ "$(grep -c '"wrong":0}' "$work/json")" -eq "$rows" ] || echo "not $rows times wrong: 0"
    if command -v python3 > /dev/null; then
        python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$work/json" 2>&1 | tail -1
    fi
}

# rows_are N FIELDS: so many rows of so many fields, the last of which, #wrong, is 0.
rows_are() {
    awk -v rows="$1" -v fields="$2" '
        $NF != 0 || NF != fields { print "row: " $0 }
        END { if (NR != rows) print NR " rows, not " rows }' "$work/rows" >> "$work/reasons"
}

# header_says TEXT: a line of the header.
header_says() {
    grep -q -e "^# $1" "$work/out" || echo "the header does not say '$1'" >> "$work/reasons"
}

say_all() { tap_empty "$title" "$work/reasons"; }

# measures_beside_mpi ARGUMENT...: 2 ranks under mpirun, with --peer mpi, or a skip and status 1.  The
# peer's own leaks and stray reports are not ours to judge.
measures_beside_mpi() {
    title="2 ranks started by MPI measure against it"
    if ! "$program" --help | grep -q 'built with MPI: yes' || ! command -v mpirun.openmpi > /dev/null; then
        tap_skip "$title" "built without MPI, or no mpirun.openmpi"
        return 1
    fi
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ASAN_OPTIONS=detect_leaks=0 \
        timeout 60 mpirun.openmpi --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 -n 2 \
        "$program" --json "$work/json" --peer mpi "$@" > "$work/out" 2> "$work/stray"
    status=$?
    : > "$work/err"
    [ "$status" -eq 0 ] || cp "$work/stray" "$work/err"
    look_at
}
