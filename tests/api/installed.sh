#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# installed.sh LIBDIR: a program builds against the installed library as rondo.pc says, and runs.
# make installcheck runs it, so make distcheck does too.
. "$top_srcdir/tests/tap.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
PKG_CONFIG_PATH=$1/pkgconfig
LD_LIBRARY_PATH=$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PKG_CONFIG_PATH LD_LIBRARY_PATH

cat > "$work/program.c" <<'END'
#include <rondo/rondo.h>
#include <stdio.h>
int main(void)
{
    return puts(rondo_version()) < 0;
}
END
# shellcheck disable=SC2046,SC2086 # all are lists of words
${CC:-cc} -o "$work/program" "$work/program.c" $SANITIZER_FLAGS $(pkg-config --cflags --libs rondo) \
    > "$work/out" 2>&1
tap_empty "a program is linked as rondo.pc says" "$work/out"
"$work/program" > "$work/said" 2>&1
pkg-config --modversion rondo | diff - "$work/said" > "$work/out" 2>&1
tap_empty "it runs, and is of the version that rondo.pc names" "$work/out"
pkg-config --libs rondo | tr ' ' '\n' | grep -vxE -- "-L$1|-lrondo|" > "$work/out"
tap_empty "nothing but rondo is asked of whoever links it" "$work/out"
tap_done
