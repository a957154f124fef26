# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests of what the manual and README.md show: gets examples out, and makes programs of them.

# manual_blocks PAGE FOLDER: mdoc literal blocks of the EXAMPLES section that include a header of ours ->
# FOLDER/PAGE.N.c
manual_blocks() {
    awk -v out="$2/$(basename "$1")" '
        /^\.Sh / { inside = ($0 == ".Sh EXAMPLES") }
        /^\.Bd -literal/ && inside { file = out "." (++n) ".c"; text = ""; next }
        /^\.Ed/ && file { if (text ~ /#include <rondo\//) printf "%s", text > file; file = "" }
        file { gsub(/\\e/, "\\"); gsub(/\\&/, ""); text = text $0 "\n" }' "$1"
}

# fenced_blocks FILE FOLDER: fenced C blocks -> FOLDER/FILE.N.c
fenced_blocks() {
    awk -v out="$2/$(basename "$1")" '
        /^```c$/ { file = out "." (++n) ".c"; next }
        /^```/ { file = "" }
        file { print > file }' "$1"
}

# What the library was made with: a sanitizer must be in the program too.
made_with() { sed -n "s/^$1 = //p" "$top_builddir/Makefile"; }

# link_example SOURCE PROGRAM [LIBRARY...]: with librondo of the build, which need not be installed.
link_example() {
    example_source=$1 example_program=$2
    shift 2
    # Flags are words.
    # shellcheck disable=SC2046
    "$top_builddir/libtool" --silent --tag=CC --mode=link $(made_with CC) $(made_with SANITIZER_FLAGS) \
        -std=c11 -I"$top_srcdir/include" "$example_source" -o "$example_program" \
        "$top_builddir/librondo.la" "$@"
}
