# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests that run ranks over hosts of namespaces.
. "$top_srcdir/tests/tap.sh"
hosts=$top_srcdir/tests/hosts/hosts.sh
for name in $(compgen -e RONDO_); do unset "$name"; done
export RONDO_LOG=error

# hosts_or_skip [-j] H RAILS RATE: these hosts until the test ends, or the end of the test.  Files go to $work,
# which ends with the hosts, however the test ends.
hosts_or_skip() {
    local reason
    reason=$(bash "$hosts" can) || { tap_skip "hosts" "${reason#SKIP: }"; tap_done; }
    if RONDO_TRANSPORT=ucx "$top_builddir/tools/rondo-run" -n 1 "$top_builddir/tests/e2e/comm_probe" refused \
        "is not built in" 2> /dev/null; then
        tap_skip "hosts" "built without UCX: no transport between processes"
        tap_done
    fi
    RONDO_TEST_HOSTS=$(bash "$hosts" up -o $$ "$@") || { echo "not ok - hosts"; exit 1; }
    export RONDO_TEST_HOSTS
    work=$RONDO_TEST_HOSTS/work
    mkdir "$work" && cd "$work" || exit 1
    export MEETING=$work/meeting # of comm_probe
}

# job NAME ARGUMENTS-OF-run...: passes when the job returns 0; its output is in $work/out
job() {
    local name=$1
    shift
    rm -f "$MEETING"
    : > "$work/why"
    bash "$hosts" run "$@" > "$work/out" 2> "$work/err" ||
        { echo "status $?"; cat "$work/out" "$work/err"; } > "$work/why"
    tap_empty "$name" "$work/why"
}

# says NAME PATTERN: the job before wrote such a line
says() {
    : > "$work/why"
    grep -qE "$2" "$work/out" || { echo "nothing says: $2"; cat "$work/out"; } > "$work/why"
    tap_empty "$1" "$work/why"
}

# rows NAME TEXT: the job before wrote these lines, in any order
rows() {
    : > "$work/why"
    [ "$(sort "$work/out" | tr '\n' ';')" = "$2" ] ||
        { echo "instead of $2:"; sort "$work/out"; } > "$work/why"
    tap_empty "$1" "$work/why"
}
