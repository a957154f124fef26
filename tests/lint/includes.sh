#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Who may include what: the layers, and one home for every third-party header.
. "$top_srcdir/tests/tap.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$top_srcdir" || exit 1

# folder | its own headers it may include, by the start of the name | public headers it may include
cat > "$work/layers" <<'END'
include/rondo | | *
src/base | base/ build-config.h | status
src/schedule | base/ schedule/ | status types
src/layout | base/ layout/ | status types mask layout kernel
src/device | base/ device/ build-config.h | status
src/transport | base/ device/ transport/ build-config.h | status types
src/engine | base/ device/ engine/ schedule/ transport/ | status types request
src/plan | base/ device/ engine/ kernels/ layout/ plan/ schedule/ topo/topo.h transport/ build-config.h | *
topo | base/ topo/ build-config.h | status types topo
src/comm | base/ comm/ device/ topo/topo.h transport/ build-config.h | status types comm
src/api | api/ base/ comm/ device/ engine/ kernels/ layout/ plan/ schedule/ topo/topo.h transport/ | *
kernels | base/ kernels/ | status types kernel
tools | base/ plan/cost.h plan/choose.h schedule/ tools/ topo/ perf/link.h build-config.h | *
examples | examples/ build-config.h | *
perf | base/ comm/comm.h perf/ transport/transport.h build-config.h | *
tests | * | *
END

# third-party header, by the start of the name | the files that may include it, by theirs
cat > "$work/homes" <<'END'
ucp/ | src/transport/ucx.c src/transport/ucx_
uct/ | src/transport/ucx.c src/transport/ucx_
ucs/ | src/transport/ucx.c src/transport/ucx_
hwloc | topo/hwloc
infiniband/ | topo/verbs.c
dlfcn.h | topo/nvml.c
expat.h | topo/nccl.c
librsvg/ | tools/topo_png.c
cairo | tools/topo_png.c
mpi.h | perf/ include/rondo/mpi.h
cblas.h | examples/train/ perf/
cmocka.h | tests/
malloc.h | tests/
END

# What C11, POSIX and Linux give everyone.
cat > "$work/system" <<'END'
arm_neon.h arpa/inet.h assert.h complex.h cpuid.h ctype.h dirent.h dlfcn.h errno.h fcntl.h fenv.h float.h ftw.h getopt.h ifaddrs.h
immintrin.h inttypes.h libgen.h limits.h linux/filter.h linux/futex.h linux/seccomp.h locale.h math.h net/if.h netdb.h netinet/in.h
netinet/tcp.h poll.h pthread.h sched.h semaphore.h setjmp.h signal.h stdalign.h stdarg.h
stdatomic.h stdbool.h stddef.h stdint.h stdio.h stdlib.h string.h strings.h sys/epoll.h
sys/eventfd.h sys/file.h sys/ioctl.h sys/mman.h sys/mount.h sys/prctl.h sys/random.h sys/resource.h
sys/select.h sys/signalfd.h sys/socket.h sys/stat.h sys/statvfs.h sys/syscall.h sys/time.h sys/timerfd.h
sys/types.h sys/uio.h sys/un.h sys/utsname.h sys/wait.h termios.h time.h unistd.h wchar.h
END

# file, line, header with its bracket or quote
find include src topo kernels tools examples perf tests -name '*.[ch]' | sort |
    xargs grep -nE '^[[:space:]]*#[[:space:]]*include' /dev/null |
    sed -nE 's/^([^:]*):([0-9]+):[^"<]*(["<][^">]*)[">].*/\1 \2 \3/p' > "$work/includes"

# Rows of includes that break a layer; kind: own ("x.h") or public (<rondo/x.h>).
layer_faults() {
    awk -v kind="$1" '
        FNR == NR { split($0, row, " *\\| *"); own[row[1]] = row[2]; public[row[1]] = row[3]; next }
        function layer_of(file,   folder) {
            for (folder in own)
                if (index(file, folder "/") == 1) return folder
            return ""
        }
        function allowed(list, name,   words, n, i) {
            n = split(list, words, " ")
            for (i = 1; i <= n; i++)
                if (words[i] == "*" || index(name, words[i]) == 1) return 1
            return 0
        }
        {
            name = substr($3, 2); layer = layer_of($1)
            if (kind == "own" && substr($3, 1, 1) == "\"" && index(name, "/") + (name == "build-config.h"))
                if (!allowed(own[layer], name))
                    print $1 ":" $2 ": \"" name "\" is not for " layer
            if (kind == "public" && index($3, "<rondo/") == 1) {
                sub(/^rondo\//, "", name); sub(/\.h$/, "", name)
                if (!allowed(public[layer], name))
                    print $1 ":" $2 ": <rondo/" name ".h> is not for " layer
            }
        }' "$work/layers" "$work/includes"
}

# Rows that include a third-party header outside its home, or a header that nobody knows.
home_faults() {
    awk -v homes="$work/homes" -v system_list="$work/system" '
        BEGIN {
            while ((getline line < homes) > 0) { split(line, row, " *\\| *"); home[row[1]] = row[2] }
            while ((getline line < system_list) > 0) {
                n = split(line, words, " ")
                for (i = 1; i <= n; i++) known[words[i]] = 1
            }
        }
        function starts(list, name,   words, n, i) {
            n = split(list, words, " ")
            for (i = 1; i <= n; i++) if (index(name, words[i]) == 1) return 1
            return 0
        }
        substr($3, 1, 1) != "<" || index($3, "<rondo/") == 1 { next }
        {
            name = substr($3, 2)
            if (name in known) next
            for (start in home)
                if (index(name, start) == 1) {
                    if (!starts(home[start], $1))
                        print $1 ":" $2 ": <" name "> belongs to " home[start]
                    next
                }
            print $1 ":" $2 ": <" name "> is no system header and has no home"
        }' "$work/includes"
}

# Every folder with C files must be in the table, else nothing is held of it.
unlisted_folders() {
    awk 'FNR == NR { split($0, row, " *\\| *"); listed[row[1]] = 1; next }
        { for (folder in listed) if (index($1, folder "/") == 1) next; print $1 " is in no listed folder" }' \
        "$work/layers" "$work/includes" | sort -u
}

# A public header must find its friends when it is installed.
quoted_in_public() {
    awk 'index($1, "include/rondo/") == 1 && substr($3, 1, 1) == "\"" { print $1 ":" $2 ": " $3 "\"" }' \
        "$work/includes"
}

[ "$(wc -l < "$work/includes")" -gt 50 ] || echo "too few includes were found" > "$work/few"
touch "$work/few"
tap_empty "includes are found" "$work/few"
unlisted_folders > "$work/out"
tap_empty "every folder has its row" "$work/out"
layer_faults own > "$work/out"
tap_empty "layers include only what is below them" "$work/out"
layer_faults public > "$work/out"
tap_empty "layers include only the public headers they need" "$work/out"
quoted_in_public > "$work/out"
tap_empty "public headers include no internal ones" "$work/out"
home_faults > "$work/out"
tap_empty "third-party headers stay at home" "$work/out"
tap_done
