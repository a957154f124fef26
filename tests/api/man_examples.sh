#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every C block of the manual's EXAMPLES and of README.md compiles against include/ as it stands.
# TAP: one test a block.
set -u
top=${top_srcdir:-.}
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
. "$top/tests/api/examples.sh"

for page in "$top"/man/man3/*.3 "$top"/man/man7/*.7; do
    manual_blocks "$page" "$work"
done
fenced_blocks "$top/README.md" "$work"

count=0
# Pages that describe calls must show them: an extraction that finds nothing is a failure.
for page in "$top"/man/man3/*.3 "$top/README.md"; do
    grep -q '^\.so ' "$page" && continue
    count=$((count + 1))
    name=$(basename "$page")
    if [ -e "$work/$name.1.c" ]; then
        echo "ok $count - $name has an example"
    else
        echo "not ok $count - $name has no example in C"
    fi
done
for source in "$work"/*.c; do
    count=$((count + 1))
    name=$(basename "$source" .c)
    if ${CC:-cc} -std=c11 -Wall -Wextra -Werror -I"$top/include" -c "$source" -o "$work/out.o" \
        2> "$work/errors"; then
        echo "ok $count - $name compiles"
    else
        sed 's/^/# /' "$work/errors"
        echo "not ok $count - $name does not compile"
    fi
done
echo "1..$count"
