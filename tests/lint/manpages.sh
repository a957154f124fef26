#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every public function has a manual page, or an alias of one that names it.
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/lint/declared.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$top_srcdir/man" || exit 1

# The file that holds the text of a page: itself, or what its .so line names.
page_text() {
    target=$(sed -n 's/^\.so[[:space:]]*//p' "$1")
    if [ -n "$target" ]; then echo "$target"; else echo "$1"; fi
}

for name in $(declared_functions); do
    page=man3/$name.3
    if ! [ -e "$page" ]; then
        echo "$page is missing" >> "$work/missing"
    elif ! grep -q "$name" "$(page_text "$page")" 2> /dev/null; then
        echo "$(page_text "$page") does not speak of $name" >> "$work/silent"
    fi
done
for page in man[1-8]/*.[1-8]; do
    text=$(page_text "$page")
    [ -e "$text" ] || echo "$page is an alias of $text, which is missing" >> "$work/dangling"
    [ "$text" = "$page" ] || continue
    for section in NAME SYNOPSIS DESCRIPTION; do
        grep -qiE "^\.S[hH] \"?$section" "$page" ||
            case $page in man7/*) [ "$section" = SYNOPSIS ] ;; *) false ;; esac ||
            echo "$page has no $section" >> "$work/sections"
    done
done
touch "$work/missing" "$work/silent" "$work/dangling" "$work/sections"
tap_empty "every public function has a page or an alias" "$work/missing"
tap_empty "the page of a function speaks of it" "$work/silent"
tap_empty "aliases name pages that exist" "$work/dangling"
tap_empty "pages have the usual sections" "$work/sections"
if command -v mandoc > /dev/null; then
    for page in man[1-8]/*.[1-8]; do
        [ "$(page_text "$page")" = "$page" ] && mandoc -Tlint -Wwarning "$page"
    done > "$work/lint" 2>&1
    tap_empty "mandoc finds nothing wrong" "$work/lint"
else
    tap_skip "mandoc finds nothing wrong" "mandoc is not installed"
fi
tap_done
