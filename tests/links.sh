#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Which libraries librondo.so and rondo-topo are linked with, in builds with and without each optional one:
#   links.sh FOLDER...     a build each; its name says which library it does without, or "all"
# Exit status 1 when one is linked with what it is built without, or when "all" lacks what was found.
status=0

# needed FILE: what it is linked with, without what every program has
needed() {
    readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(lib[^]]*\)\.so.*/\1/p' |
        grep -vE '^lib(c|m|pthread|dl|rondo)$' | sort | tr '\n' ' '
}

# The name of the file that is linked in for an optional library.
file_of() {
    case $1 in
    ucx) echo libucp ;;
    hwloc) echo libhwloc ;;
    verbs) echo libibverbs ;;
    expat) echo libexpat ;;
    rsvg) echo librsvg-2 ;;
    esac
}

# rsvg draws pictures for the program; the rest is the library's.
owner_of() {
    [ "$1" = rsvg ] && echo program || echo library
}

say() {
    echo "$1" >&2
    status=1
}

printf '%-8s %-62s %s\n' without librondo.so 'rondo-topo, beside librondo'
for folder in "$@"; do
    name=$(basename "$folder")
    library=$(needed "$folder/.libs/librondo.so")
    program=$folder/tools/.libs/rondo-topo
    [ -e "$program" ] || program=$folder/tools/rondo-topo
    program=$(needed "$program")
    own=$(for one in $program; do case " $library" in *" $one "*) ;; *) printf '%s ' "$one" ;; esac; done)
    printf '%-8s %-62s %s\n' "$name" "${library:-none }" "${own:-none}"
    if [ "$name" = all ]; then
        for one in $(sed -n 's/^#define HAVE_\(UCX\|HWLOC\|VERBS\|EXPAT\|RSVG\) 1/\1/p' "$folder/build-config.h" |
            tr 'A-Z' 'a-z'); do
            [ "$(owner_of "$one")" = program ] && linked=$program || linked=$library
            case " $linked" in *" $(file_of "$one")"*) ;; *) say "all: $one was found, but is not linked" ;; esac
        done
    else
        case " $library$program" in *" $(file_of "$name")"*) say "without $name: it is linked all the same" ;; esac
    fi
done
exit $status
