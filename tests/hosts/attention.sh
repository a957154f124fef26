#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Attention and its gradients over several hosts against fp64 on one rank: schedules, both backwards,
# all layouts, masks; and the bytes of each lane against the formulas.
. "$top_srcdir/tests/hosts/jobs.sh"
attention=$top_builddir/tests/e2e/attention
hosts_or_skip 2 4 300mbit

# equal NAME ARGUMENTS-OF-run...
equal() {
    job "$@"
    says "$1: as many ranks on as many hosts as were started, all equal" "^ok 1 - .*$on"
}

# bytes SHAPE
bytes() {
    job "bytes over $1" "$1" "$attention" --joined --bytes
    says "$1: each rank sent on each lane what the formula says" "^12 cases, 0 wrong"
}

on="4 ranks on 2 hosts"
equal "2x2, a NIC a rank" 2x2 "$attention" --joined
equal "2x2, a NIC a host" -n host 2x2 "$attention" --joined --schedule ring,two-level
on="5 ranks on 2 hosts"
equal "3+2" 3+2 "$attention" --joined
on="8 ranks on 2 hosts"
equal "2x4, a NIC a rank" 2x4 "$attention" --joined --schedule ring,two-level
equal "2x4, a NIC a host" -n host 2x4 "$attention" --joined --schedule two-level
bytes 2x2
bytes 3+2
bytes 2x4
job "blocks of one's own host are read in place" -t 120 3+2 "$attention" --joined --all --binding auto \
    --schedule two-level
says "none is wrong" "^132 cases, 0 wrong"
awk '$1 ~ /shm/ && $2 == "bound" { seen++; if ($(NF - 2) != 0 || $(NF - 1) == 0) print }
    END { if (seen != 2) print seen " rows of shm" }' "$work/out" > "$work/why"
tap_empty "none of them is copied" "$work/why"
job "many shapes over 2x2" -t 120 2x2 "$attention" --joined --all --binding copy \
    --schedule ring,two-level
says "none is wrong" "^264 cases, 0 wrong"
tap_done
