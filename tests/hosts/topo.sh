#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The schedules that plans choose by the topology, over hosts of namespaces, beside those they do not choose:
#   topo.sh [RATE_MBIT [BLOCK_BYTES [REPETITIONS [SHAPE...]]]]     (100, 524288, 5, 2x2 2x4 3+2 4+2+1)
# with a NIC a rank and with one a host.  Exit status 1 when a bar is missed.  It wants a machine that does nothing
# else: a flat ring waits for every rank in turn, and loses what each is late.  RONDO_TOPO says what hosts have,
# and of a NIC's rate what a stream from host to host was measured at.  Rails are joined, or
# a host with fewer ranks than others would send by NICs that no rank of it has.
#
# limit: what no schedule can be below, whatever way blocks take.  Of P ranks, G on a host with N NICs, that host
# gets P - G blocks that are read and gives as many sums, and gives and gets its own G at least once:
#   most of (P - G) read + G sums, and G read + (P - G) sums, over N rate, over all hosts
# where a block of S bytes of K and V has read = S, sums = 0 forward, S and S in KV-grad, 65/64 S and S/2 in Q-grad.
. "$top_srcdir/tests/tap.sh"
hosts=$top_srcdir/tests/hosts/hosts.sh
perf=$top_builddir/perf
for name in $(compgen -e RONDO_); do
    case $name in RONDO_UCX_* | RONDO_LOG) ;; *) unset "$name" ;; esac
done
rate=${1:-100} bytes=${2:-524288} repetitions=${3:-5}
shift $(($# < 3 ? $# : 3))
[ $# -gt 0 ] || set -- 2x2 2x4 3+2 4+2+1
export RONDO_LOG=${RONDO_LOG:-error}

reason=$(bash "$hosts" can) || { echo "$reason"; exit 77; }
RONDO_TEST_HOSTS=$(bash "$hosts" up -o $$ -j 3 4 "${rate}mbit") || exit 1
export RONDO_TEST_HOSTS

# measured PROGRAM-OR-OPTION-of-run...: rows alone, fields with blanks between
measured() {
    bash "$hosts" run -t 300 "$@" --csv | awk -F, '/^#/ { next } rows++ { $1 = $1; print }'
    return "${PIPESTATUS[0]}"
}

# ---- the machine ----

# Bytes and microseconds of a message are unrounded.
nic=$(measured 2x1 "$perf/rondo_bw" --both --window 16 -i 8 -m 524288:524288 --alternate 5 |
    awk '{ printf "%.5f", $1 / $3 / 1e3 }')
[ -n "$nic" ] || { echo "no stream from host to host"; exit 1; }
# topo NICS: hosts that are alike, each with so many NICs; where a host has fewer ranks, some are idle.
topo() { [ "$1" = rank ] && echo "host:3 numa:1 nic:4 net:$nic" || echo "host:3 numa:1 nic:1 net:$nic"; }
awk -v nic="$nic" -v rate="$rate" -v bytes="$bytes" -v repetitions="$repetitions" 'BEGIN {
    printf "a stream from host to host, both ways: %.5f GB/s, %.1f %% of the payload of %s Mbit/s\n", nic,
        100 * nic / (rate / 8e3 * 1448 / 1514), rate
    printf "blocks of %d bytes, medians of %d; RONDO_TOPO=\"host:3 numa:1 nic:4 net:%s\", nic:1 for a NIC a host\n",
        bytes, repetitions, nic }'

# ---- what is chosen ----

# Rows of one shape: size schedule variant pass predicted measured min max ratio host chosen wrong
judge='
function verdict(good) { bars++; met += good; return good ? "met" : "MISSED" }
function most(a, b) { return a > b ? a : b }
function limit(pass,    h, g, count, ranks, worst, read, sums, use) {
    read = pass == "q-grad" ? bytes * 65 / 64 : bytes
    sums = pass == "forward" ? 0 : pass == "q-grad" ? bytes / 2 : bytes
    count = split(counts, g, " ")
    for (h = 1; h <= count; h++) ranks += g[h]
    for (h = 1; h <= count; h++) {
        use = most((ranks - g[h]) * read + g[h] * sums, g[h] * read + (ranks - g[h]) * sums)
        worst = most(worst, use / (nics == "rank" ? g[h] : 1))
    }
    return worst / nic / 1e6
}
function cell(row, with_pass,    name) {
    name = schedule[row] (variant[row] == "-" ? "" : " " variant[row]) (with_pass ? " " pass[row] : "")
    return sprintf("%-27s %7.1f %7.1f (%6.1f %6.1f)", name, price[row], ms[row], least_ms[row], most_ms[row])
}
# Of the rows of some passes the one taken, with `mark`, beside the fastest of the others.
function line(title, passes, mark,    i, taken, other) {
    for (i = 1; i <= n; i++) {
        if (pass[i] !~ passes) continue
        if (chosen[i] ~ mark) taken = i
        else if (!other || ms[i] < ms[other]) other = i
    }
    printf "%-6s %-4s %-8s ", shape, nics, title
    if (!taken || !other) { printf "nothing chosen: %s\n", verdict(0); return }
    printf "| %s | %s | %6.1f | %5.3f %s\n", cell(taken, title == "backward"), cell(other, title == "backward"),
        limit(pass[taken]), ms[taken] / ms[other], verdict(ms[taken] <= 1.05 * ms[other])
}
{
    n++; schedule[n] = $2; variant[n] = $3; pass[n] = $4; price[n] = $5
    ms[n] = $6; least_ms[n] = $7; most_ms[n] = $8; chosen[n] = $11; wrong += $12
}
END {
    line("forward", "^forward$", "yes")
    line("kv-grad", "^kv-grad$", "yes|pass")
    line("q-grad", "^q-grad$", "yes|pass")
    line("backward", "-grad$", "yes")
    if (wrong) printf "%s %s: %d wrong: %s\n", shape, nics, wrong, verdict(0)
    exit met < bars
}'

# ranks_of SHAPE: of each host
ranks_of() {
    local h
    [[ $1 == *x* ]] || { echo "${1//+/ }"; return; }
    for ((h = 0; h < ${1%x*}; h++)); do printf '%s ' "${1#*x}"; done
}

cat <<END

What a plan chooses, and the fastest of ring, two-level and direct that it does not: price, median (least most) in ms.
Bar: chosen / other at most 1.05.
shape  NICs pass     | chosen                        price      ms ( least   most) \
| not chosen                    price      ms ( least   most) |  limit | ratio
END
missed=0
for shape in "$@"; do
    for nics in rank host; do
        rows=$(RONDO_TOPO=$(topo $nics) measured -n $nics "$shape" "$perf/rondo_two_level" -m "$bytes:$bytes" \
            --alternate "$repetitions" --schedules ring,two-level,direct) || { echo "$rows"; exit 1; }
        awk -v shape="$shape" -v nics=$nics -v counts="$(ranks_of "$shape")" -v bytes="$bytes" -v nic="$nic" \
            "$judge" <<< "$rows" || missed=1
    done
done

# ---- ranks dealt out in turn ----

# A hop is a block that goes to another host.  Of P ranks dealt out in turn over 2 hosts every hop of a ring by
# their numbers is one, P (P - 1) in all; of one that follows the wires 2 (P - 1), and of two levels P.  A NIC a host
# then carries P (P - 1) / 2 of them each way, or P - 1: P / 2 times as many.
cat <<'END'

8 ranks dealt out in turn over 2 hosts, forward; hops: blocks that cross between hosts, by the formulas 56, 14 and 8.
NICs topology schedule  chosen  hops      bytes   price       ms (  least    most)
END
for nics in rank host; do
    for topo in off text; do
        text=off
        [ $topo = off ] || text=$(topo $nics)
        RONDO_TOPO=$text measured -n $nics -d turn 2x4 "$perf/rondo_two_level" -m "$bytes:$bytes" \
            --alternate "$repetitions" --passes forward | sed "s/^/$nics $topo /"
    done
done > "$RONDO_TEST_HOSTS/dealt"
awk -v bytes="$bytes" '
function verdict(good) { bars++; met += good; return good ? "met" : "MISSED" }
{
    hops[$1, $2, $4] = $12 * 8 / bytes; ms[$1, $2, $4] = $8
    if ($13 == "yes") taken[$1, $2] = $4
    printf "%-4s %-8s %-9s %6s %5.1f %10d %7.1f %8.1f (%7.1f %7.1f)\n", $1, $2, $4, $13, $12 * 8 / bytes, $12 * 8,
        $7, $8, $9, $10
}
END {
    for (i = split("rank host", names, " "); i > 0; i--) {
        nics = names[i]
        off = hops[nics, "off", "ring"]; text = hops[nics, "text", "ring"]
        printf "a NIC a %s: rings cross by %.0f hops without the topology, by %.0f with it; bar 56 and 14: %s\n", nics,
            off, text, verdict(off == 56 && text == 14)
        off = ms[nics, "off", "ring"]; text = ms[nics, "text", "ring"]
        bar = nics == "host" ? 3.6 : 0.95
        printf "a NIC a %s: the ring takes %.2f times as long without it, by the formulas %d; bar %.2f: %s\n", nics,
            off / text, nics == "host" ? 4 : 1, bar, verdict(off / text >= bar)
        printf "a NIC a %s: and %.2f times as long as what the plan takes (%s)\n", nics,
            off / ms[nics, "text", taken[nics, "text"]], taken[nics, "text"]
    }
    exit met < bars
}' "$RONDO_TEST_HOSTS/dealt" || missed=1
bash "$hosts" down
[ $missed -eq 0 ] && echo "all bars are met" || echo "a bar is missed"
exit $missed
