#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The tests that doc/cases.md names, as `FILE: WORDS`, exist.
. "$top_srcdir/tests/tap.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$top_srcdir" || exit 1

grep -oE '`tests/[a-z0-9_/]+\.(c|sh): [^`]+`' doc/cases.md | tr -d '`' | sort -u > "$work/named"
[ "$(wc -l < "$work/named")" -gt 30 ] || echo "only $(wc -l < "$work/named") tests were found" > "$work/few"
touch "$work/few" "$work/missing"
tap_empty "tests are named" "$work/few"
while IFS= read -r line; do
    file=${line%%: *}
    words=${line#*: }
    grep -qF -- "$words" "$file" 2> /dev/null || echo "$file has no '$words'" >> "$work/missing"
done < "$work/named"
tap_empty "each of them is there" "$work/missing"
tap_done
