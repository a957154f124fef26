#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The manual's examples that are programs do what their pages say.  The kernel in rondo_kernel(3) is one: its
# program says that it passes rondo_kernel_check(), and that a plan computes with it what it does with a bundled
# one; so is that in rondo_kernel_check(3).
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/api/examples.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# must_say NAME LINE...: the program NAME, PAGE.N, ends well, and prints these lines.
must_say() {
    name=$1
    shift
    printf '%s\n' "$@" > "$work/$name.want"
}
must_say rondo_kernel.3.1 "0 cases failed" "they agree"
must_say rondo_kernel_check.3.1 "0 cases failed"
must_say rondo_dropout_keeps.3.1 "0.897"
must_say rondo_comm_create.3.1 "rank 0 of 1, host 0 of 1"

for page in "$top_srcdir"/man/man3/*.3 "$top_srcdir"/man/man7/*.7; do
    manual_blocks "$page" "$work"
done
grep -l '^int main(' "$work"/*.c | sed 's,.*/\(.*\)\.c,\1,' > "$work/programs"
for want in "$work"/*.want; do
    basename "$want" .want
done | diff - "$work/programs" > "$work/reasons"
tap_empty "each program of the manual is run here" "$work/reasons"

# RONDO_VERIFY, so that a kernel that is wrong as the bundled one is would be found, too.
while read -r name; do
    link_example "$work/$name.c" "$work/example" -lm > "$work/reasons" 2>&1 || rm -f "$work/example"
    if [ -x "$work/example" ]; then
        RONDO_VERIFY=1 timeout 60 "$work/example" > "$work/out" 2>&1 < /dev/null
        status=$?
        {
            [ "$status" -eq 0 ] || echo "status $status"
            diff "$work/$name.want" "$work/out"
        } > "$work/reasons"
    else
        echo "it does not link with librondo" >> "$work/reasons"
    fi
    tap_empty "$name links, ends well and prints what it should" "$work/reasons"
    rm -f "$work/example"
done < "$work/programs"
tap_done
