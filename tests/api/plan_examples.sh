#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# rondo-plan prints what the manual and README.md say: each line "$ rondo-plan ..." of a literal block is
# run, and the lines after it, up to the next command or the end of the block, must be its output.
. "$top_srcdir/tests/tap.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
PATH=$top_builddir/tools:$PATH

# Example n of a file -> $work/n.command, $work/n.expected.
find_examples() {
    rm -f "$work"/*.command
    sed 's/\\-/-/g' "$1" | awk -v work="$work" '
        /^\.Ed|^```|^\$ / { file = "" }
        /^\$ rondo-plan / {
            n++
            file = work "/" n ".expected"
            printf "" > file
            print substr($0, 3) > (work "/" n ".command")
            next
        }
        file { print > file }'
}

for text in man/man1/rondo-plan.1 man/man7/rondo-schedules.7 README.md; do
    find_examples "$top_srcdir/$text"
    : > "$work/why"
    [ -e "$work/1.command" ] || echo "none is found" > "$work/why"
    tap_empty "$text has an example" "$work/why"
    n=1
    while [ -e "$work/$n.command" ]; do
        command=$(cat "$work/$n.command")
        timeout 60 sh -c "$command" > "$work/out" 2>&1
        diff "$work/$n.expected" "$work/out" > "$work/why"
        tap_empty "$text: $command" "$work/why"
        n=$((n + 1))
    done
done
tap_done
