#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Bytes sent by each rank, by tensor and lane, are those of the formulas.
. "$top_srcdir/tests/tap.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

timeout 120 "$top_builddir/tests/e2e/attention" --bytes --transport self > "$work/table" 2>&1 ||
    tail -n 1 "$work/table" > "$work/why"
touch "$work/why"
grep -q ' equal$' "$work/table" || echo "nothing was compared" >> "$work/why"
tap_empty "bytes by tensor and lane are as the formulas say" "$work/why"
tap_done
