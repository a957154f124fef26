#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests named, each within its time, shows their TAP, and counts: check.sh TEST...
# Exit status 77 when all was skipped.
out=$(mktemp) || exit 1
trap 'rm -f "$out" "$out.one"' EXIT
for test in "$@"; do
    echo "# $test"
    timeout -k 10 300 bash "$test" 2>&1 | tee "$out.one"
    status=${PIPESTATUS[0]}
    [ "$status" -eq 0 ] || grep -q '^not ok' "$out.one" ||
        echo "not ok - $test ends with status $status" | tee -a "$out.one"
    grep -q '^1\.\.' "$out.one" || echo "not ok - $test says no plan" | tee -a "$out.one"
    cat "$out.one" >> "$out"
done
skipped=$(grep -c '^ok .*# SKIP' "$out")
passed=$(($(grep -c '^ok' "$out") - skipped))
failed=$(grep -c '^not ok' "$out")
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] || exit 1
[ "$passed" -gt 0 ] || exit 77
