#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# installed.sh LIBDIR BINDIR: programs build against the installed library as rondo.pc says, and run.
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
# build NAME
build() {
    # shellcheck disable=SC2046,SC2086 # all are lists of words
    ${CC:-cc} -o "$work/$1" "$work/$1.c" $SANITIZER_FLAGS $(pkg-config --cflags --libs rondo) > "$work/out" 2>&1
}
build program
tap_empty "a program is linked as rondo.pc says" "$work/out"
"$work/program" > "$work/said" 2>&1
pkg-config --modversion rondo | diff - "$work/said" > "$work/out" 2>&1
tap_empty "it runs, and is of the version that rondo.pc names" "$work/out"
pkg-config --libs rondo | tr ' ' '\n' | grep -vxE -- "-L$1|-lrondo|" > "$work/out"
tap_empty "nothing but rondo is asked of whoever links it" "$work/out"

# All scores of the example are 0, so lse[0] is log(1): the first query sees itself alone.
awk '/^```c$/ { inside = 1; next } /^```/ { inside = 0 } inside' "$top_srcdir/README.md" > "$work/example.c"
build example
tap_empty "the example is linked" "$work/out"
ranks=1
! grep -q '^#define HAVE_UCX 1' build-config.h || ranks=2
timeout 60 "$2/rondo-run" -n $ranks --timeout 50 "$work/example" > "$work/said" 2>&1
{
    [ "$(grep -c "^rank [0-9]* of $ranks: lse" "$work/said")" -eq $ranks ] || cat "$work/said"
    grep -qx "rank 0 of $ranks: lse 0.000" "$work/said" || echo "lse of the first query is not 0"
} > "$work/out" 2>&1
tap_empty "the example runs on $ranks" "$work/out"
tap_done
