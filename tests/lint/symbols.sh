#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# librondo.so exports what the public headers declare, all of it and nothing else.
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/lint/declared.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
library=$top_builddir/.libs/librondo.so

if ! [ -e "$library" ] || ! command -v nm > /dev/null; then
    tap_skip "symbols" "needs a shared library ($library) and nm"
    tap_done
fi
declared_functions > "$work/declared"
# Version nodes (type A) are not symbols.  Sanitizers put their own names beside ours.
nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' |
    grep -vE '^_*(asan|ubsan|tsan|lsan|odr_asan|sanitizer)_' | sort -u > "$work/exported"

[ "$(wc -l < "$work/declared")" -ge 10 ] || echo "found: $(cat "$work/declared")" > "$work/few"
touch "$work/few"
tap_empty "declarations are found" "$work/few"
grep -v '^rondo_' "$work/exported" > "$work/foreign"
tap_empty "exported names begin with rondo_" "$work/foreign"
comm -23 "$work/declared" "$work/exported" > "$work/missing"
tap_empty "every declared function is exported" "$work/missing"
comm -13 "$work/declared" "$work/exported" > "$work/secret"
tap_empty "every exported function is declared" "$work/secret"
tap_done
