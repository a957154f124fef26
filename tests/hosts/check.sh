#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests named, each within its time, shows their TAP, and counts: check.sh TEST...
# Exit status 77 when all was skipped.
all=
exec 3>&1

# Shows what it reads, and passes it on.
show() { while IFS= read -r line; do printf '%s\n' "$line" >&3; printf '%s\n' "$line"; done; }

for test in "$@"; do
    echo "# $test"
    one=$(timeout -k 10 300 bash "$test" 2>&1 | show; exit "${PIPESTATUS[0]}")
    status=$?
    [ $status -eq 0 ] || grep -q '^not ok' <<< "$one" ||
        one+=$'\n'$(echo "not ok - $test ends with status $status" | show)
    grep -q '^1\.\.' <<< "$one" || one+=$'\n'$(echo "not ok - $test says no plan" | show)
    all+=$one$'\n'
done
skipped=$(grep -c '^ok .*# SKIP' <<< "$all")
passed=$(($(grep -c '^ok' <<< "$all") - skipped))
failed=$(grep -c '^not ok' <<< "$all")
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] || exit 1
[ "$passed" -gt 0 ] || exit 77
