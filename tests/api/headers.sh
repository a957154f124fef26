#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Each public header compiles alone and twice over, in C11 and in C++11, without a warning.
. "$top_srcdir/tests/tap.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
flags="-fsyntax-only -pedantic -Wall -Wextra -Wundef -Werror -I$top_srcdir/include"

# compiles LANGUAGE STANDARD COMPILER...
compiles() {
    language=$1 standard=$2
    shift 2
    if ! echo "int x;" | "$@" -x "$language" -std="$standard" -fsyntax-only - 2> "$work/out"; then
        tap_skip "headers in $standard" "$* cannot compile it"
        return
    fi
    for header in "$top_srcdir"/include/rondo/*.h; do
        base=$(basename "$header")
        printf '#include <rondo/%s>\n#include <rondo/%s>\n' "$base" "$base" > "$work/source"
        # shellcheck disable=SC2086 # flags are words
        "$@" -x "$language" -std="$standard" $flags "$work/source" > "$work/out" 2>&1 ||
            echo "exit status $?" >> "$work/out"
        tap_empty "$base alone in $standard" "$work/out"
    done
}

# shellcheck disable=SC2086 # a compiler may come with words, as in "ccache gcc"
compiles c c11 ${CC:-cc}
# shellcheck disable=SC2086
compiles c++ c++11 ${CXX:-c++}
tap_done
