#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The program in README.md does on 1, 2 and 3 ranks what README.md says.
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/api/examples.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

fenced_blocks "$top_srcdir/README.md" "$work"
link_example "$work/README.md.1.c" "$work/example" > "$work/reasons" 2>&1
[ -x "$work/example" ] && : > "$work/reasons"
tap_empty "links with librondo" "$work/reasons"

# All scores are 0, so lse[0] is log(1): the first query of rank 0 sees itself alone.
for ranks in 1 2 3; do
    if [ $ranks -gt 1 ] && ! grep -q '^#define HAVE_UCX 1' "$top_builddir/build-config.h"; then
        tap_skip "runs on $ranks" "built without UCX"
        continue
    fi
    timeout 60 "$top_builddir/tools/rondo-run" -n $ranks --timeout 50 "$work/example" > "$work/out" 2>&1
    status=$?
    {
        [ "$status" -eq 0 ] || { echo "status $status"; cat "$work/out"; }
        [ "$(grep -c "^rank [0-9]* of $ranks: lse" "$work/out")" -eq $ranks ] || echo "not a line from each rank"
        grep -qx "rank 0 of $ranks: lse 0.000" "$work/out" || echo "lse of the first query is not 0"
    } > "$work/reasons"
    tap_empty "runs on $ranks" "$work/reasons"
done
tap_done
