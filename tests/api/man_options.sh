#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The pages of programs and their --help name the same options; those of commands within a program, which its
# usage names before [options], are the page's, too.
. "$top_srcdir/tests/tap.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

for program in tools/rondo-run tools/rondo-plan tools/rondo-topo perf/rondo_ring perf/rondo_latency \
    perf/rondo_bw perf/rondo_overlap perf/rondo_kernel perf/rondo_attention perf/rondo_two_level \
    examples/train/rondo-train; do
    name=$(basename "$program")
    if ! [ -x "$top_builddir/$program" ]; then
        tap_skip "$name: --help and the page agree" "$program is not built here"
        continue
    fi
    timeout 20 "$top_builddir/$program" --help > "$work/help" ||
        echo "--help returned $?" >> "$work/help"
    for command in $(sed -n "s/^.* $name \([a-z][a-z]*\) \[options\].*/\1/p" "$work/help"); do
        timeout 20 "$top_builddir/$program" "$command" --help >> "$work/help" ||
            echo "$command --help returned $?" >> "$work/help"
    done
    grep -oE '(^|[ ,|[])--[a-z][a-z-]*' "$work/help" | grep -oE '[-]-.*' | sort -u > "$work/said"
    grep -oE 'Fl -[a-z][a-z-]*' "$top_srcdir/man/man1/$name.1" | sed 's/^Fl /-/' | sort -u > "$work/told"
    {
        [ -s "$work/said" ] || echo "--help names no option"
        diff "$work/said" "$work/told" | sed -n 's/^< \(.*\)/\1 is not in the page/p; s/^> \(.*\)/\1 is not in --help/p'
    } > "$work/reasons"
    tap_empty "$name: --help and the page agree" "$work/reasons"
done
tap_done
