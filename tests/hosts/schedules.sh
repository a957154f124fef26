#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The communication of schedules over hosts of namespaces, beside what the links allow:
#   schedules.sh [RATE_MBIT [BLOCK_BYTES [REPETITIONS]]]          (300, 4194304, 5)
# with a NIC a rank and with one a host.  Settings, as RONDO_UCX_RNDV_THRESH, come from the environment.
# Exit status 1 when a bar is missed.  It wants a machine that does nothing else: when the kernel comes
# late to a bucket by more than its burst, 3.5 ms at 300 Mbit/s, the link loses that time.
#
# A link carries 1448 bytes of payload in each packet that the bucket counts as 1514: Ethernet's header
# 14, IP's 20, TCP's 20 and its time stamps 12.  With S bytes a block, nic = RATE * 1448 / 1514,
# link = nic, or nic / G where the G ranks of a host share it, local = 8 GB/s, M hosts:
#   ring       (M G - 1) S / nic
#   two-level  (M - 1) max((G - 1) S / local, S / link) + (G - 1) S / local
. "$top_srcdir/tests/tap.sh"
hosts=$top_srcdir/tests/hosts/hosts.sh
exchange=$top_builddir/tests/hosts/exchange
rate=${1:-300} bytes=${2:-4194304} repetitions=${3:-5}
export RONDO_LOG=${RONDO_LOG:-error}

reason=$(bash "$hosts" can) || { echo "$reason"; exit 77; }
RONDO_TEST_HOSTS=$(bash "$hosts" up -o $$ 2 4 "${rate}mbit") || exit 1
export RONDO_TEST_HOSTS
rows=$RONDO_TEST_HOSTS/rows

# row NICS SHAPE SCHEDULE: what exchange prints, after the NICs
row() {
    local line
    line=$(bash "$hosts" run -t 300 -n "$1" "$2" "$exchange" "$3" "$bytes" 3 "$repetitions") || exit 1
    echo "$1 $line" >> "$rows"
}

row host 2x1 ring
for shape in 2x2 2x4; do
    for nics in rank host; do
        row $nics $shape ring
        row $nics $shape two-level
    done
done
hop_us=$(bash "$hosts" run -t 300 2x1 "$top_builddir/perf/rondo_ring" -m "$bytes:$bytes" -i 3 -x 1 \
    --alternate "$repetitions" --csv |
    awk -F, '/^#/ { next } !at { for (at = 1; at < NF && $at !~ /^hop/;) at++; next } { print $at }')

awk -v rate="$rate" -v hop_us="$hop_us" -v bytes="$bytes" '
function verdict(good) { bars++; met += good; return good ? "met" : "MISSED" }
function seconds(schedule, hosts, local, nics,    link, inner) {
    link = nics == "rank" ? nic : nic / local
    inner = (local - 1) * bytes / 8e9
    if (schedule == "ring") return (hosts * local - 1) * bytes / nic
    return (hosts - 1) * (inner > bytes / link ? inner : bytes / link) + inner
}
function gain(shape, nics, bar,    got) {
    got = ms["ring", shape, nics] / ms["two-level", shape, nics]
    printf "two-level over ring, %s, a NIC a %s: %.2f times; bar %.2f: %s\n", shape, nics, got, bar,
        verdict(got >= bar)
}
BEGIN {
    nic = rate * 1e6 / 8 * 1448 / 1514
    printf "payload ceiling of a NIC at %s Mbit/s: %.2f MB/s\n", rate, nic / 1e6
    print "shape NICs schedule        ms   (least    most)  formula  ratio"
}
{
    shape = $3 "x" $4
    ms[$5, shape, $1] = $7
    formula = 1e3 * seconds($5, $3, $4, $1)
    printf "%-5s %-4s %-9s %8.2f (%7.2f %7.2f) %8.2f  %5.3f  bar 1.070: %s\n", shape, $1, $5, $7, $8, $9,
        formula, $7 / formula, verdict($7 / formula <= 1.07)
    if ($10 != bytes * ($5 == "ring" ? ($3 * $4 - 1) / $4 : $3 - 1))
        print "a rank sends " $10 " bytes to other hosts: " verdict(0)
}
END {
    one = bytes / ms["ring", "2x1", "host"] / 1e3
    two = 2 * bytes / ms["two-level", "2x2", "rank"] / 1e3
    printf "one NIC a host, both directions busy: %.2f MB/s each, %.1f %% of the ceiling; bar 95: %s\n", one,
        100e6 * one / nic, verdict(one * 1e6 / nic >= 0.95)
    ring = bytes / hop_us
    printf "the same by rondo_ring, which writes and reads blocks: %.2f MB/s, %.1f %%; bar 95: %s\n", ring,
        100e6 * ring / nic, verdict(ring * 1e6 / nic >= 0.95)
    printf "two NICs a host: %.2f MB/s each direction, %.2f times one; bar 1.90: %s\n", two, two / one,
        verdict(two / one >= 1.9)
    gain("2x2", "rank", 2.8); gain("2x4", "rank", 6); gain("2x2", "host", 1.35); gain("2x4", "host", 1.5)
    printf "%d of %d bars met\n", met, bars
    exit met < bars
}' "$rows"
status=$?
for host in h0 h1 sw; do
    bash "$hosts" on $host tc -s qdisc | awk -v host=$host '/dropped/ { gsub(",", ""); lost += $7 }
        END { print host ": " lost + 0 " packets dropped by the links" }'
done
bash "$hosts" down
exit $status
