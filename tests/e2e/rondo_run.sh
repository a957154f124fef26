#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# rondo-run: what it gives the ranks, what it returns, and how it ends them.
run=${top_builddir:-.}/tools/rondo-run
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
unset RONDO_HOST_ID RONDO_RANK RONDO_SIZE RONDO_ROOT RONDO_JOB RONDO_ROOT_FD
count=0

# report NAME STATUS: one line of TAP
report()
{
    count=$((count + 1))
    if [ "$2" -eq 0 ]; then echo "ok $count - $1"; else echo "not ok $count - $1"; fi
}

# status_is NAME STATUS COMMAND...: the command returns that status
status_is()
{
    name=$1 want=$2
    shift 2
    timeout 60 "$@" >"$dir/out" 2>"$dir/err" </dev/null
    got=$?
    [ "$got" -eq "$want" ] || { echo "# status $got, not $want"; sed 's/^/# /' "$dir/err"; }
    [ "$got" -eq "$want" ]
    report "$name" $?
}

# says NAME PATTERN [FILE]: the last command said that
says()
{
    grep -q -e "$2" "${3:-$dir/err}" || sed 's/^/# /' "${3:-$dir/err}"
    grep -q -e "$2" "${3:-$dir/err}"
    report "$1" $?
}

# same NAME TEXT TEXT
same()
{
    [ "$2" = "$3" ] || echo "# got: $2" "- expected: $3"
    [ "$2" = "$3" ]
    report "$1" $?
}

now_ms() { echo $(($(date +%s%N) / 1000000)); }

# time_into FILE MOST_MS COMMAND...: its status and time in ms.  Load only adds time, and not as much to every
# try: what takes MOST_MS or more has two tries left.
time_into()
{
    file=$1 most=$2
    shift 2
    for try in 1 2 3; do
        begin=$(now_ms)
        timeout 60 "$@" 2>"$file.err"
        echo "$? $(($(now_ms) - begin))" >"$file"
        read -r _ ms <"$file"
        [ "$ms" -ge "$most" ] || break
    done
}

# The two slow cases wait for real grace times; they run beside the others.
start_slow()
{
    time_into "$dir/slow1" 8000 "$run" -n 3 sh -c 'trap "echo $RONDO_RANK >>'"$dir"'/terms; exit" TERM
        test $RONDO_RANK = 1 && exit 7; while :; do sleep 0.2; done' &
    time_into "$dir/slow2" 13000 "$run" -n 3 sh -c \
        'test $RONDO_RANK = 2 && exit 8; trap "" TERM; while :; do sleep 0.2; done' &
}

start_slow

status_is "--help" 0 "$run" --help
says "--help names every option" "--timeout" "$dir/out"
status_is "--version" 0 "$run" --version
status_is "without arguments: usage error" 2 "$run"
says "a missing -n is named" "-n"
status_is "-n 0 is refused" 2 "$run" -n 0 true
says "-n and its value are named" "-n: '0'"
status_is "-n 2x is refused" 2 "$run" -n 2x true
status_is "-n beyond int is refused" 2 "$run" -n 99999999999 true
status_is "an unknown option is refused" 2 "$run" --frob -n 2 true
says "the unknown option is named" "frob"
status_is "no command is refused" 2 "$run" -n 2
status_is "more hosts than ranks are refused" 2 "$run" -n 2 --hosts 3 true
says "hosts and ranks are named" "--hosts 3.*2 ranks"
status_is "--timeout abc is refused" 2 "$run" -n 2 --timeout abc true
says "--timeout and its value are named" "--timeout: 'abc'"

status_is "all good: 0" 0 "$run" -n 4 true
status_is "a status is returned" 5 "$run" -n 3 sh -c 'test $RONDO_RANK = 2 && exit 5; exit 0'
says "the rank and its status are named" "rank 2 ended with status 5"
status_is "a signal gives 128 + its number" 137 "$run" -n 2 sh -c 'test $RONDO_RANK = 1 && kill -KILL $$; exit 0'
status_is "the first failure counts" 3 "$run" -n 2 --grace 0.1 sh -c \
    'test $RONDO_RANK = 1 && exit 3; exec sleep 100'
status_is "a missing program: 127" 127 "$run" -n 2 ./no-such-program
says "the missing program is named" "no-such-program"
status_is "arguments after -- are the command's" 0 "$run" -n 1 -- sh -c 'test "$1" = -n' sh -n
status_is "options of the command are left alone" 0 "$run" -n 1 test -n x
status_is "--timeout: 124" 124 "$run" -n 2 --timeout 0.2 --grace 0.2 sleep 100
says "--timeout is named" "0.200 s"

"$run" -n 5 --hosts 2 sh -c \
    'echo $RONDO_RANK/$RONDO_SIZE $RONDO_HOST_ID $RONDO_LOCAL_RANK/$RONDO_LOCAL_SIZE' >"$dir/hosts"
same "blocks of ranks on hosts, sizes as equal as can be" "$(sort "$dir/hosts" | tr '\n' ,)" \
    "0/5 host0 0/3,1/5 host0 1/3,2/5 host0 2/3,3/5 host1 0/2,4/5 host1 1/2,"
"$run" -n 8 --hosts 3 sh -c 'echo $RONDO_RANK $RONDO_HOST_ID $RONDO_LOCAL_RANK' >"$dir/hosts"
same "8 ranks on 3 hosts" "$(sort "$dir/hosts" | tr '\n' ,)" \
    "0 host0 0,1 host0 1,2 host0 2,3 host1 0,4 host1 1,5 host1 2,6 host2 0,7 host2 1,"
same "one host is the machine's own" "$("$run" -n 2 sh -c 'echo ${RONDO_HOST_ID-none}' | sort -u)" none
same "all ranks get one root and one job" \
    "$("$run" -n 4 sh -c 'echo $RONDO_ROOT $RONDO_JOB' | sort -u | wc -l)" 1
same "two jobs differ" "$(for i in 1 2; do "$run" -n 1 sh -c 'echo $RONDO_JOB'; done | sort -u | wc -l)" 2
same "rank 0 alone inherits the listening socket" "$("$run" -n 3 sh -c \
    'test -n "$RONDO_ROOT_FD" && test -S /proc/self/fd/$RONDO_ROOT_FD && echo $RONDO_RANK; true')" 0
same "no other descriptor leaks into a rank" \
    "$("$run" -n 2 -p sh -c 'test $RONDO_RANK = 1 && ls /proc/self/fd | wc -l; true')" "[1] $(ls /proc/self/fd | wc -l)"

"$run" -n 4 --prefix sh -c \
    'i=0; while test $i -lt 200; do echo "line of $RONDO_RANK: $i"; i=$((i + 1)); done; printf "end of $RONDO_RANK"' \
    >"$dir/lines"
same "--prefix: every line is whole" \
    "$(grep -c '^\[\([0-3]\)\] line of \1: [0-9]*$' "$dir/lines")" 800
same "--prefix: an unfinished line is given its end" "$(grep -c '^\[\([0-3]\)\] end of \1$' "$dir/lines")" 4
same "--prefix: nothing else" "$(wc -l <"$dir/lines")" 804
same "--prefix: errors stay errors" "$("$run" -n 1 -p sh -c 'echo x >&2' 2>&1 >/dev/null)" "[0] x"
same "--prefix: a long line is whole" \
    "$("$run" -n 2 -p sh -c 'head -c 100000 /dev/zero | tr "\0" $RONDO_RANK; echo' | awk '{ print length }' | tr '\n' ,)" \
    "100004,100004,"
same "standard input goes to rank 0" "$(echo word | "$run" -n 2 -p cat)" "[0] word"
timeout 60 "$run" -n 2 -p yes 2>/dev/null | head -n 1 >"$dir/out"
same "ranks end when nobody reads their output" "$(cut -c 4- "$dir/out")" " y"

# signals: SIGNAL passes through and is told once
mkfifo "$dir/ready"
exec 3<>"$dir/ready"
for name in INT TERM HUP USR1; do
    rm -f "$dir"/got.*
    # a shell ignores SIGINT in what it starts behind &, and nohup has SIGHUP ignored
    env --default-signal="$name" "$run" -n 2 --timeout 60 sh -c 'trap "echo x >>'"$dir"'/got.$RONDO_RANK; exit 0" '"$name"'
        echo ready >'"$dir/ready"'; while :; do sleep 0.1; done' 2>/dev/null &
    pid=$!
    read -r line <&3 && read -r line <&3
    kill -"$name" $pid
    wait $pid
    same "SIG$name reaches every rank, once" "$? $(cat "$dir"/got.* | tr -d '\n')" "0 xx"
done

# a reader that never reads: the pipe holds 64 KiB
mkfifo "$dir/unread"
exec 4<>"$dir/unread"
timeout 60 "$run" -n 2 -p --timeout 0.3 --grace 0.2 yes >&4 2>"$dir/err"
same "--timeout holds while nobody reads the output" $? 124
says "and is named" "0.300 s"
timeout 60 "$run" -n 1 -p --timeout 50 --grace 0.2 sh -c 'echo ready >'"$dir/ready"'; exec yes' >&4 2>"$dir/err" &
pid=$!
read -r line <&3
kill -TERM $pid
wait $pid
same "so do signals" $? 143
timeout 60 "$run" -n 1 --timeout 50 sh -c 'exit 3' 2>&4
same "what rondo-run says itself holds up nothing" $? 3
exec 4>&-

# when rondo-run is killed, its ranks die
"$run" -n 2 --timeout 60 sh -c 'echo $$ >'"$dir"'/pid.$RONDO_RANK; echo ready >'"$dir/ready"'; exec sleep 100' &
pid=$!
read -r line <&3 && read -r line <&3
kill -KILL $pid
wait $pid 2>/dev/null
tries=0
while [ $tries -lt 300 ] && kill -0 "$(cat "$dir/pid.0")" "$(cat "$dir/pid.1")" 2>/dev/null; do
    tries=$((tries + 1))
    timeout 0.1 tail --pid="$(cat "$dir/pid.0")" -f /dev/null
done
kill -0 "$(cat "$dir/pid.0")" 2>/dev/null || kill -0 "$(cat "$dir/pid.1")" 2>/dev/null
same "the ranks die with rondo-run" $? 1

# what a rank leaves running does not outlive the job
"$run" -n 1 sh -c 'sleep 100 & echo $! >'"$dir/left"
tries=0
while [ $tries -lt 300 ] && kill -0 "$(cat "$dir/left")" 2>/dev/null; do
    tries=$((tries + 1))
    timeout 0.1 tail --pid="$(cat "$dir/left")" -f /dev/null
done
kill -0 "$(cat "$dir/left")" 2>/dev/null
same "what a rank left behind is ended" $? 1

wait
read -r status ms <"$dir/slow1"
[ "$status" -eq 7 ] && [ "$ms" -ge 4900 ] && [ "$ms" -lt 8000 ]
report "the rest is ended 5 s after the first failure (after $ms ms, status $status)" $?
same "by SIGTERM, which they heard" "$(sort -u "$dir/terms" | tr '\n' ,)" "0,2,"
says "the failed rank is named" "rank 1 ended with status 7" "$dir/slow1.err"
read -r status ms <"$dir/slow2"
[ "$status" -eq 8 ] && [ "$ms" -ge 9900 ] && [ "$ms" -lt 13000 ]
report "who ignores SIGTERM is killed 5 s later (after $ms ms, status $status)" $?
echo "1..$count"
