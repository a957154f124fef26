# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Sourced by shell tests: each says what it found, and tap_done prints the plan.
tap_count=0
tap_failed=0

# tap_empty NAME FILE: passes when FILE is empty; else its lines are the reasons.
tap_empty() {
    tap_count=$((tap_count + 1))
    if [ -s "$2" ]; then
        tap_failed=$((tap_failed + 1))
        echo "not ok $tap_count - $1"
        sed 's/^/# /' "$2"
    else
        echo "ok $tap_count - $1"
    fi
}

# tap_skip NAME REASON
tap_skip() {
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1 # SKIP $2"
}

# Ends the test; its status says whether all was well.
tap_done() {
    echo "1..$tap_count"
    [ "$tap_failed" -eq 0 ]
    exit
}
