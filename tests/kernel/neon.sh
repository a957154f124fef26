#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make check-neon: the kernels, built for aarch64 and run under qemu, pass the installed suite with NEON's inner
# loops.  $CROSS_CC is the compiler, $CROSS_RUN what runs its programs, $CASES a part of the names of cases.
. "$top_srcdir/tests/tap.sh"
cc=${CROSS_CC:-aarch64-linux-gnu-gcc}
run=${CROSS_RUN:-qemu-aarch64}
for tool in "$cc" "$run"; do
    command -v "$tool" > /dev/null || { tap_skip "kernels on aarch64" "there is no $tool"; tap_done; }
done
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$top_srcdir" || exit 1

# Static, so that no library of that processor need be there to run it.
"$cc" -std=gnu11 -O2 -Wall -Werror -static -D_GNU_SOURCE -I"$top_builddir" -Iinclude -Isrc -I. -o "$work/suite" \
    tests/kernel/suite_main.c kernels/*.c kernels/cpu/*.c kernels/check/*.c src/base/*.c -lm -lpthread 2> "$work/errors"
tap_empty "kernels are built for aarch64" "$work/errors"
[ -x "$work/suite" ] || tap_done

# An emulator keeps a table of all pages that are mapped, which those of strides past 2^31 elements would make
# larger than memory; without so much address space the suite leaves them out.
ulimit -v 4000000
"$run" "$work/suite" ${CASES:+"$CASES"} > "$work/said" 2>&1 || echo "exit status $?" >> "$work/said"
grep -vE ', 0 failed, |: skipped: ' "$work/said" > "$work/bad"
grep -q '^flash, neon: [1-9][0-9]* cases passed' "$work/said" || echo "no case ran with NEON's loops" >> "$work/bad"
grep -E 'cases passed' "$work/said" | sed 's/^/# /'
tap_empty "flash passes the suite on aarch64" "$work/bad"
tap_done
