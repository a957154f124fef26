#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The kernel in rondo_kernel(3) is one: its program says that it passes rondo_kernel_check(), and that a plan
# computes with it what it does with a bundled one.
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/api/examples.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

manual_blocks "$top_srcdir/man/man3/rondo_kernel.3" "$work"
link_example "$work/rondo_kernel.3.1.c" "$work/example" -lm > "$work/reasons" 2>&1
[ -x "$work/example" ] && : > "$work/reasons"
tap_empty "links with librondo" "$work/reasons"

# Verified, so that a kernel that is wrong as the bundled one is would be found, too.
RONDO_VERIFY=1 timeout 60 "$work/example" > "$work/out" 2>&1
status=$?
{
    [ "$status" -eq 0 ] || echo "status $status"
    printf '%s\n' "0 cases failed" "they agree" | diff - "$work/out"
} > "$work/reasons"
tap_empty "passes the suite, and computes what a bundled kernel does" "$work/reasons"
tap_done
