#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The table of src/base/config.c, the variables that the code reads and rondo-environment(7) agree.
. "$top_srcdir/tests/tap.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$top_srcdir" || exit 1

sed -n 's/^    {"\(RONDO_[A-Z_*]*\)", KIND_.*/\1/p' src/base/config.c | sort > "$work/table"
[ "$(wc -l < "$work/table")" -ge 15 ] || echo "found: $(cat "$work/table")" > "$work/few"
touch "$work/few"
tap_empty "the table is found" "$work/few"

while read -r name; do
    grep -F ".It Ev" man/man7/rondo-environment.7 | grep -qwF -- "$name" ||
        echo "man/man7/rondo-environment.7 has no item for $name"
done < "$work/table" > "$work/out"
tap_empty "rondo-environment(7) has an item for every variable" "$work/out"

# An item ends in its default, as in ".It Ev RONDO_SPIN Pq 64".
sed -n 's/^    {"\(RONDO_[A-Z_*]*\)", KIND_[A-Z_]*, "\([^"]*\)".*/\1 \2/p' src/base/config.c |
    while read -r name default; do
        [ -n "$default" ] || continue
        grep -F ".It Ev" man/man7/rondo-environment.7 | grep -wF -- "$name" | grep -q " Pq $default\$" ||
            echo "man/man7/rondo-environment.7: the item of $name does not end in its default, $default"
    done > "$work/out"
tap_empty "rondo-environment(7) gives every default" "$work/out"

# known NAME: the table has it, or the family it belongs to.
known() {
    while read -r row; do
        # shellcheck disable=SC2254 # a family's star is meant as a pattern
        case $1 in $row) return 0 ;; esac
    done < "$work/table"
    return 1
}

# Any string that is a name counts, whichever function it is given to; error texts name initialisers.
find src topo kernels tools examples perf -name '*.[ch]' -print0 |
    xargs -0 grep -ohE '"RONDO_[A-Z_]+"' /dev/null | tr -d '"' | sort -u |
    grep -v '^RONDO_ERR_\|_INIT$' > "$work/read"
while read -r name; do
    known "$name" || echo "$name is not in the table"
done < "$work/read" > "$work/out"
tap_empty "every variable that the code reads is in the table" "$work/out"

grep -ohE '^\.(It )?Ev .*RONDO_.*' man/man[1-8]/* | grep -oE 'RONDO_[A-Z_]*\*?' |
    sort -u | grep -vxF 'RONDO_*' | while read -r name; do
    known "$name" || echo "the manual speaks of $name, which is not in the table"
done > "$work/out"
tap_empty "every variable of the manual is in the table" "$work/out"

components=$(sed -n 's/^static const char \*const component_names\[\] = {\(.*\)};/\1/p' src/base/log.c)
{ [ -n "$components" ] || echo "src/base/log.c has no table of components"; } > "$work/out"
grep -rhoE --include='*.[ch]' '\bri_log(_on)?\([^"]*, "[a-z]+"' src | grep -oE '"[a-z]+"$' | sort -u |
    while read -r name; do
        case $components in *$name*) ;; *) echo "src/base/log.c does not know the component $name" ;; esac
    done >> "$work/out"
tap_empty "every component that the code logs as is known to RONDO_LOG" "$work/out"
tap_done
