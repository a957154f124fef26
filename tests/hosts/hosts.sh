#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Several hosts on one machine: network, UTS, IPC and mount namespaces, each with its own boot_id,
# /dev/shm, /sys and /etc/hosts, joined by bridges ("rails") over links of a given rate.  Needs root.
#
#   hosts.sh can                                 exit status 77 and the reason where it is impossible
#   hosts.sh up [-o OWNER] [-j] H RAILS RATE [BURST]     prints the folder that stands for these hosts
#   export RONDO_TEST_HOSTS=FOLDER               of the calls below
#   hosts.sh on HOST COMMAND...                  runs it on h0, h1 ... (or sw, the switch)
#   hosts.sh run [-t SECONDS] [-n NICS] [-d DEAL] SHAPE COMMAND...     ranks over the hosts, see below
#   hosts.sh down
#
# As in:
#   top_builddir=$PWD/build                      # where tools/rondo-run is; the default is ./build
#   RONDO_TEST_HOSTS=$(tests/hosts/hosts.sh up -o $$ 2 2 300mbit) || exit
#   export RONDO_TEST_HOSTS top_builddir
#   tests/hosts/hosts.sh run 2x2 build/perf/rondo_ring -m 4194304:4194304 -i 2 --alternate 3
#   tests/hosts/hosts.sh on h0 tc -s qdisc show dev rail0
#   tests/hosts/hosts.sh down
#
# Host hN has a NIC railR with address 10.77.R.N+1 on each rail R.  Rails are networks of their own: what goes to
# an address of rail R leaves by railR, whichever NIC the rank was given.  With -j they are one network, and a rank
# sends and gets all by its own NIC (tests/hosts/hold.c).  RATE as tc takes it, 300mbit; both
# directions of each NIC are shaped by a token bucket of BURST (128kb; below 64 KiB packets are cut up,
# which costs the processor that the ranks want).  What fits on the wire: 1448 of 1514 bytes counted.
# Send buffers hold 256 KiB (UCX_TCP_SNDBUF, unless set), 7 ms of a link at 300 Mbit/s: the kernel's own, 2.5 MB
# and more, fill the link's queue both ways, and then what says that the data came waits behind data.
# TCP's congestion control is reno, whatever this machine's is, where that can be set: on links that lose nothing it keeps them
# full, where bbr, which many machines have, lets them idle on purpose to find the shortest way.
#
# SHAPE is HxG or G0+G1+...: how many ranks each host has.  Ranks fill one host after the other, or are dealt
# out in turn to hosts that have room, with -d turn.  The ranks find RANK, WORLD_SIZE, LOCAL_RANK,
# LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torchrun sets them, RONDO_INTERFACE=rail0, and their
# NICs in RONDO_UCX_NET_DEVICES: railLOCAL_RANK with -n rank (the default), rail0 with -n host, all with
# -n all, UCX's own choice with -n none.  Output comes when all have ended, each line with its rank when
# the job failed.  The exit status is the first that is not 0; 124 after SECONDS (60).
#
# Nothing is left: all of it lives in processes that end with OWNER (default: the caller), however that
# ends.  Nothing has a name outside the namespaces but a folder rondo-hosts.PID in TMPDIR; PID is the
# process that keeps it all, and a folder whose process is dead is removed by the next `up`.
set -u

say() { echo "hosts.sh: $*" >&2; }
die() { say "$@"; exit 1; }

self=$(realpath "${BASH_SOURCE[0]}")
tmp=${TMPDIR:-/tmp}

# ---- what is possible ----

# In namespaces of its own: each thing that `up` makes.
probe='mount -t tmpfs none /dev/shm && mount -t sysfs none /sys &&
    ip link add name rail0 type veth peer name h0r0 && ip link add br0 type bridge &&
    tc qdisc add dev rail0 root tbf rate 300mbit burst 128kb latency 500ms'

can() {
    local tool text
    for tool in unshare nsenter setpriv setsid ip tc mount; do
        command -v $tool > /dev/null || { echo "SKIP: no $tool"; exit 77; }
    done
    [ "$(id -u)" -eq 0 ] || { echo "SKIP: namespaces with shaped links need root"; exit 77; }
    text=$(unshare --net --uts --ipc --mount sh -c "$probe" 2>&1) ||
        { echo "SKIP: no namespaces with shaped links here: $(echo "$text" | head -n 1)"; exit 77; }
}

# ---- the keeper: makes the hosts, and ends them when the owner ends ----

holders=()

# stage NAME: where a test may make the keeper fail, or wait to be interrupted.
stage() {
    case ${RONDO_TEST_HOSTS_STAGE:-} in
    "$1:fail") die "fails at stage $1, as asked" ;;
    "$1:wait") touch "$tmp/stage"; while owner_lives; do nap; done; exit 1 ;;
    esac
}

nap() { read -r -t 0.1 -u "$nap_fd"; }

owner_lives() {
    local line
    { read -r line < "/proc/$owner/stat"; } 2> /dev/null || return
    line=${line##*) }
    [ "${line:0:1}" != Z ]
}

# Processes in the holders' network namespaces, other than the holders.
inhabitants() {
    local at pid holder
    for at in /proc/[0-9]*; do
        pid=${at#/proc/}
        for holder in "${holders[@]}"; do
            [ "$pid" != "$holder" ] && [ "$at/ns/net" -ef "/proc/$holder/ns/net" ] && echo "$pid"
        done
    done
}

clean_up() {
    local pids
    trap '' INT TERM HUP
    for _ in {1..50}; do # each may have started another in the meantime
        pids=$(inhabitants 2> /dev/null)
        [ -n "$pids" ] || break
        kill -KILL $pids 2> /dev/null
        nap
    done
    [ ${#holders[@]} -eq 0 ] || kill -KILL "${holders[@]}" 2> /dev/null
    wait
    rm -rf "$dir"
}

# What a holder does in its namespaces.  $1 folder, $2 name, $3 keeper's pid
hold='[ "$PPID" = "$3" ] || exit 1
    echo "$2" > /proc/sys/kernel/hostname
    { echo reno > /proc/sys/net/ipv4/tcp_congestion_control
      echo 0 > /proc/sys/net/ipv4/tcp_slow_start_after_idle; } 2> /dev/null
    mount -t sysfs sysfs /sys && mount -t tmpfs tmpfs /dev/shm &&
    mount --bind "$1/boot_id.$2" /proc/sys/kernel/random/boot_id && mount --bind "$1/hosts" /etc/hosts &&
    ip link set lo up || exit 1
    echo ready
    exec sleep infinity > /dev/null 2>&1'

# start_holder NAME: namespaces named so, held by the process in $dir/NAME.pid
start_holder() {
    local fd line
    cat /proc/sys/kernel/random/uuid > "$dir/boot_id.$1"
    exec {fd}< <(exec setpriv --pdeathsig KILL unshare --net --uts --ipc --mount \
        sh -c "$hold" sh "$dir" "$1" $$ 2>&1)
    holders+=($!)
    echo $! > "$dir/$1.pid"
    read -r line <&"$fd"
    exec {fd}<&-
    [ "$line" = ready ] || die "no host $1: $line"
}

# Both ends of each link are shaped: tc knows only what leaves.
link_hosts() {
    local r h shape="root tbf rate $rate burst $burst latency 500ms"
    for ((r = 0; r < rails; r++)); do
        echo "link add br$r type bridge"
        echo "link set br$r up"
        for ((h = 0; h < hosts; h++)); do
            echo "link add rail$r netns ${holders[h + 1]} type veth peer name h${h}r$r"
            echo "link set h${h}r$r master br$((joined ? 0 : r)) up"
        done
    done > "$dir/batch"
    nsenter -t "${holders[0]}" --net ip -batch "$dir/batch" || die "no links"
    stage links
    for ((h = 0; h < hosts; h++)); do
        for ((r = 0; r < rails; r++)); do
            echo "addr add 10.77.$r.$((h + 1))/24 dev rail$r"
            echo "link set rail$r up"
        done > "$dir/batch"
        nsenter -t "${holders[h + 1]}" --net ip -batch "$dir/batch" || die "no addresses"
        [ "$joined" -eq 0 ] || join_rails "${holders[h + 1]}"
        for ((r = 0; r < rails; r++)); do echo "qdisc add dev rail$r $shape"; done > "$dir/batch"
        nsenter -t "${holders[h + 1]}" --net tc -batch "$dir/batch" ||
            die "rate $rate, burst $burst: refused"
        for ((r = 0; r < rails; r++)); do echo "qdisc add dev h${h}r$r $shape"; done > "$dir/batch"
        nsenter -t "${holders[0]}" --net tc -batch "$dir/batch" || die "no shape in the switch"
    done
}

# join_rails PID: a host's NIC reaches all addresses, answers for its own alone, and carries what is sent from that.
join_rails() {
    local r
    for ((r = 0; r < rails; r++)); do
        echo "route add 10.77.0.0/16 dev rail$r table $((100 + r))"
        echo "rule add from 10.77.$r.0/24 table $((100 + r))"
    done > "$dir/batch"
    nsenter -t "$1" --net ip -batch "$dir/batch" || die "no routes"
    nsenter -t "$1" --net --mount sh -c 'cd /proc/sys/net/ipv4/conf/all &&
        echo 1 > arp_ignore && echo 2 > arp_announce' || die "NICs that answer for each other"
}

# What was killed before it could clean up; its holders are dead.
remove_stale() {
    local old pid at
    for old in "$tmp"/rondo-hosts.*; do
        pid=${old##*.}
        [ -d "$old" ] && [ "$pid" != $$ ] || continue
        grep -qas 'hosts\(/[a-z_]*\)\?\.sh' "/proc/$pid/cmdline" && continue # of this folder's scripts
        for at in $(grep -lasz "^RONDO_TEST_HOSTS=$old\$" /proc/[0-9]*/environ); do
            at=${at%/environ}
            [ "$at/ns/net" -ef /proc/self/ns/net ] || kill -KILL "${at#/proc/}" 2> /dev/null
        done
        rm -rf "$old"
    done
}

close_inherited() {
    local at
    for at in /proc/$$/fd/*; do
        [ "${at##*/}" -le 2 ] || [ "${at##*/}" -eq 255 ] || eval "exec ${at##*/}>&-"
    done
}

keep() {
    local h
    owner=$1 joined=$2 hosts=$3 rails=$4 rate=$5 burst=$6
    dir=$tmp/rondo-hosts.$$
    close_inherited
    exec {nap_fd}<> <(:)
    trap '' PIPE
    trap 'exit 1' INT TERM HUP
    trap clean_up EXIT
    remove_stale
    mkdir -m 700 "$dir" || exit 1
    export RONDO_TEST_HOSTS=$dir
    stage folder
    printf '127.0.0.1 localhost\n' > "$dir/hosts"
    for ((h = 0; h < hosts; h++)); do echo "10.77.0.$((h + 1)) h$h" >> "$dir/hosts"; done
    echo "$hosts $rails $joined" > "$dir/shape"
    start_holder sw
    stage switch
    for ((h = 0; h < hosts; h++)); do start_holder "h$h"; stage "h$h"; done
    link_hosts
    stage ready
    echo "ready $dir" || exit 1
    exec > /dev/null 2>&1
    while owner_lives; do nap; done
}

# number NAME TEXT MAX
number() {
    case $2 in "" | *[!0-9]* | ????*) die "$1: '$2' is not a number from 1 to $3" ;; esac
    [ "$2" -ge 1 ] && [ "$2" -le "$3" ] || die "$1: '$2' is not a number from 1 to $3"
}

up() {
    local owner=$PPID joined=0 fd line text=
    while [ $# -gt 0 ]; do
        case $1 in
        -o) owner=$2; shift ;;
        -j) joined=1 ;;
        *) break ;;
        esac
        shift
    done
    [ $# -ge 3 ] && [ $# -le 4 ] || die "usage: hosts.sh up [-o OWNER] [-j] HOSTS RAILS RATE [BURST]"
    number HOSTS "$1" 64
    number RAILS "$2" 64
    [ -d "/proc/$owner" ] || die "owner $owner is no process"
    can
    exec {fd}< <(exec setsid bash "$self" keep "$owner" $joined "$1" "$2" "$3" "${4:-128kb}" 2>&1 < /dev/null)
    while read -r line <&"$fd"; do
        [ "${line%% *}" != ready ] || { echo "${line#ready }"; return 0; }
        text=$text$line$'\n'
    done
    printf '%s' "$text" >&2
    exit 1
}

# ---- using them ----

dir_of_hosts() {
    dir=${RONDO_TEST_HOSTS:-}
    [ -n "$dir" ] || die "RONDO_TEST_HOSTS is not set: export the folder that 'up' printed"
    [ -d "$dir" ] || die "RONDO_TEST_HOSTS='$dir': these hosts are gone"
}

# on HOST COMMAND...: in place of this process.
on() {
    local pid
    { read -r pid < "$dir/$1.pid"; } 2> /dev/null || die "there is no host $1 in $dir"
    shift
    exec nsenter -t "$pid" --net --uts --ipc --mount --wd="$PWD" -- "$@"
}

down() {
    local pid=${dir##*.}
    exec {nap_fd}<> <(:)
    kill -TERM "$pid" 2> /dev/null
    for _ in {1..200}; do
        [ -d "$dir" ] || return 0
        nap
    done
    die "$dir is still there"
}

# counts SHAPE: ranks of each host
counts() {
    local shape=$1 total=0 g
    if [[ $shape =~ ^([1-9][0-9]?)x([1-9][0-9]?)$ ]]; then
        shape=$(for ((g = 0; g < BASH_REMATCH[1]; g++)); do printf '%s+' "${BASH_REMATCH[2]}"; done)
        shape=${shape%+}
    fi
    [[ $shape =~ ^[1-9][0-9]?(\+[1-9][0-9]?)*$ ]] || die "shape '$1' is refused: give HxG, or 3+2"
    echo "${shape//+/ }"
}

nics_of() {
    local r text=
    case $1 in
    rank) echo "rail$2" ;;
    host) echo rail0 ;;
    all) for ((r = 0; r < $3; r++)); do text=$text,rail$r; done; echo "${text#,}" ;;
    esac
}

run() {
    local seconds=60 nics=rank deal=host shape hosts rails joined count total=0 most=0 status
    while [ $# -gt 1 ]; do
        case $1 in
        -t) seconds=$2 ;;
        -n) nics=$2 ;;
        -d) deal=$2 ;;
        *) break ;;
        esac
        shift 2
    done
    [ $# -ge 2 ] || die "usage: hosts.sh run [-t SECONDS] [-n rank|host|all|none] [-d host|turn] SHAPE COMMAND..."
    case $nics in
    rank | host | all | none) ;;
    *) die "-n '$nics' is refused: give rank, host, all or none" ;;
    esac
    case $deal in
    host | turn) ;;
    *) die "-d '$deal' is refused: give host or turn" ;;
    esac
    shape=$(counts "$1") || exit 1
    shift
    read -r hosts rails joined < "$dir/shape"
    [ "$(wc -w <<< "$shape")" -le "$hosts" ] || die "shape '$shape' has more hosts than $hosts"
    for count in $shape; do
        total=$((total + count))
        [ "$count" -le $most ] || most=$count
    done
    [ "$nics" != rank ] || [ $most -le "$rails" ] || die "$most ranks on a host, but $rails rails"
    local out=$dir/out.$$ err=$dir/err.$$
    "${top_builddir:-build}/tools/rondo-run" -n $total --timeout "$seconds" --grace 2 --prefix \
        bash "$self" rank "$nics" "$rails" "$joined" "$deal" "$shape" "$@" > "$out" 2> "$err" < /dev/null
    status=$?
    if [ $status -eq 0 ]; then
        sed 's/^\[[0-9]*\] //' "$out"
        sed 's/^\[[0-9]*\] //' "$err" >&2
    else
        cat "$out" "$err" >&2
    fi
    rm -f "$out" "$err"
    return $status
}

# place DEAL "COUNTS" RANK: its host, its number there, and how many there are
place() {
    local -a counts=($2)
    local rank=$3 host round
    case $1 in
    host)
        for ((host = 0; rank >= counts[host]; host++)); do rank=$((rank - counts[host])); done
        echo "$host $rank ${counts[host]}" ;;
    turn)
        for ((round = 0; ; round++)); do
            for ((host = 0; host < ${#counts[@]}; host++)); do
                [ "$round" -lt "${counts[host]}" ] || continue
                [ "$rank" -gt 0 ] || { echo "$host $round ${counts[host]}"; return; }
                rank=$((rank - 1))
            done
        done ;;
    esac
}

# hold RAIL HOST: what goes out by no other NIC
hold() {
    local library=${top_builddir:-build}/tests/hosts/.libs/libhold.so
    [ -f "$library" ] || die "no $library, which holds ranks to their NICs where rails are joined"
    export LD_PRELOAD=$library HOLD_ADDRESS=10.77.${1#rail}.$(($2 + 1))
}

# In place of a rank of rondo-run: rank NICS RAILS JOINED DEAL "COUNTS" COMMAND...
rank() {
    local nics=$1 rails=$2 joined=$3 host count local_rank
    read -r host local_rank count < <(place "$4" "$5" "$RONDO_RANK")
    shift 5
    [ -z "${RONDO_ROOT_FD:-}" ] || eval "exec $RONDO_ROOT_FD>&-"
    export RANK=$RONDO_RANK WORLD_SIZE=$RONDO_SIZE LOCAL_RANK=$local_rank LOCAL_WORLD_SIZE=$count
    export MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 TORCHELASTIC_RUN_ID=$RONDO_JOB RONDO_INTERFACE=rail0
    export UCX_TCP_SNDBUF=${UCX_TCP_SNDBUF:-256k}
    unset RONDO_ROOT_FD RONDO_RANK RONDO_SIZE RONDO_ROOT RONDO_JOB RONDO_LOCAL_RANK RONDO_LOCAL_SIZE
    unset RONDO_HOST_ID
    nics=$(nics_of "$nics" "$local_rank" "$rails")
    [ -z "$nics" ] || export RONDO_UCX_NET_DEVICES=$nics
    [ "$joined" -eq 0 ] || hold "${nics%%,*}" "$host"
    on "h$host" "$@"
}

case ${1:-} in
can | up | keep) "$@" ;;
on | run | rank | down) dir_of_hosts; "$@" ;;
*) die "usage: hosts.sh can | up | on | run | down; its head says more" ;;
esac
