# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Sourced: the functions that the public headers declare, one a line, as the compiler sees them.
declared_functions() {
    for header in "$top_srcdir"/include/rondo/*.h; do
        # Only lines of Rondo's own headers: the rest of the preprocessor's output is the system's.
        ${CC:-cc} -E -I"$top_srcdir/include" "$header" |
            awk '/^# [0-9]/ { ours = index($0, "include/rondo/") > 0; next } ours'
    done | grep -oE '\brondo_[a-z0-9_]+[[:space:]]*\(' | tr -d '( \t' | sort -u
}
