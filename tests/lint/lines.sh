#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A file is one idea of at most 500 lines, a function at most 60.
. "$top_srcdir/tests/tap.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$top_srcdir" || exit 1

find src topo kernels tools examples perf include tests -name '*.[ch]' | sort > "$work/sources"
{
    cat "$work/sources"
    find tests -name '*.sh'
    find . -name local.mk -not -path './build*'
    echo Makefile.am configure.ac quickstart m4/rondo.m4 | tr ' ' '\n'
} > "$work/files"
xargs awk 'FNR == 501 { print FILENAME " has more than 500 lines" }' \
    < "$work/files" > "$work/out"
tap_empty "files have at most 500 lines" "$work/out"

name="functions have at most 60 lines"
if ! ctags --version 2> /dev/null | grep -q 'Universal Ctags'; then
    tap_skip "$name" "universal-ctags is not installed"
    tap_done
fi
# name, file, pattern, then fields: line:N and end:N
ctags -f - --languages=C --langmap=C:+.h --kinds-C=f --fields=ne --excmd=number \
    -L "$work/sources" > "$work/tags"
[ -s "$work/tags" ] || echo "ctags names no function" > "$work/few"
touch "$work/few"
tap_empty "functions are found" "$work/few"
awk -F '\t' '{
    for (i = 4; i <= NF; i++) {
        if (sub(/^line:/, "", $i)) start = $i
        else if (sub(/^end:/, "", $i)) end = $i
    }
    if (end - start + 1 > 60) print $2 ":" start ": " $1 " has " end - start + 1 " lines"
}' "$work/tags" > "$work/out"
tap_empty "$name" "$work/out"
tap_done
