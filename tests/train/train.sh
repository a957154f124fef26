#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# rondo-train over several real ranks: it learns the same as one, stops, resumes, and refuses.
. "$top_srcdir/tests/tap.sh"
run=$top_builddir/tools/rondo-run
train=$top_builddir/examples/train/rondo-train
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

if ! [ -x "$train" ]; then
    tap_skip "rondo-train" "it is not built: no CBLAS"
    tap_done
fi

# A text with something to learn, the same everywhere.
awk 'BEGIN { for (i = 0; i < 1500; i++) printf "%d bottles of beer, take %d down.\n", i % 99, i % 7 }' > text
small="--layers 2 --dim 16 --q-heads 4 --kv-heads 2 --head-dim 4 --hidden 24 --tokens 61 --lr 0.01
       --sample 5 --val-every 4 --val-windows 2"

# ranks N OPTIONS...: the small model on N ranks; output in `out`, errors in `err`; returns the status.
ranks() {
    count=$1
    shift
    # shellcheck disable=SC2086
    timeout -k 60 200 "$run" -n "$count" "$train" $small "$@" > out 2> err
}

# works NAME N OPTIONS...
works() {
    name=$1
    shift
    ranks "$@" || { echo "status $?"; tail -n 20 out err; } > faults
    tap_empty "$name" faults
    : > faults
}

# refuses NAME STATUS TEXT N OPTIONS...: that status, and one line of error that has the text.
refuses() {
    name=$1 status=$2 text=$3
    shift 3
    {
        ranks "$@"
        got=$?
        [ $got -eq "$status" ] || echo "status $got, expected $status"
        grep -qF -e "$text" err || echo "nothing says: $text"
        [ "$(grep -c '^rondo-train:' err)" -eq 1 ] || echo "not one message"
    } > faults
    [ ! -s faults ] || cat out err >> faults
    tap_empty "$name" faults
}

# same_loss NAME A B: the losses of two CSV files agree to 1e-5.
same_loss() {
    paste -d, "$2" "$3" | awk -F, '
        NR > 1 && !($2 - $7 < 1e-5 * $2 && $7 - $2 < 1e-5 * $2) { print "step " $1 ": " $2 ", " $7 }
        NR > 1 && $1 != $6 { print "step " $1 " beside " $6 }
        END { if (NR < 3) print "too few rows" }' > faults
    tap_empty "$1" faults
}

losses() {
    cut -d, -f1-3 "$1"
}

works "one rank trains" 1 --steps 8 --csv one.csv text
tail -n 1 out | grep -qE '^uniform 5\.545 unigram [0-9.]+ bigram [0-9.]+ val_loss [0-9.]+ seconds [0-9.]+$' ||
    tail -n 1 out > faults
tap_empty "the last line has the five numbers" faults
for layout in contiguous zigzag striped; do
    works "three ranks train, $layout" 3 --layout $layout --steps 8 --csv $layout.csv text
    same_loss "three ranks learn as one does, $layout" one.csv $layout.csv
done
grep -q '^forward: schedule ring_forward' out || cat out > faults
tap_empty "the schedule that ran is named" faults
grep -qE 'all ranks: [1-9][0-9]* bytes on lane local' out || cat out > faults
tap_empty "bytes are counted" faults
grep -q '</svg>' striped.svg || echo "no picture" > faults
tap_empty "the picture lies beside the CSV" faults

works "three ranks save" 3 --steps 8 --csv a.csv --save a.rondo text
works "three ranks save again" 3 --steps 8 --csv b.csv --save b.rondo text
losses a.csv > a
losses b.csv > b
{ cmp a b; cmp a.rondo b.rondo; } > faults 2>&1
tap_empty "two runs are bitwise equal" faults

works "a run stops early" 3 --steps 8 --stop-at 3 --csv c.csv --save c.rondo text
works "it resumes" 3 --steps 8 --resume c.rondo --csv c.csv --save c.rondo text
losses c.csv > c
{ cmp a c; cmp a.rondo c.rondo; } > faults 2>&1
tap_empty "resumed is bitwise what was never interrupted" faults
works "a run stops early on three ranks" 3 --steps 8 --stop-at 3 --csv d.csv --save d.rondo text
works "it resumes on two" 2 --steps 8 --resume d.rondo --csv d.csv text
same_loss "resumed on two ranks learns as three do" a.csv d.csv

works "more ranks than tokens" 5 --tokens 3 --steps 3 --csv few.csv text
{
    grep -qE '^rondo-train .*: 5 ranks on 1 host over' out || echo "ranks and hosts are not counted"
    [ "$(grep '^step' out | sed 's/^step *\([0-9]*\) .*/\1/' | tr '\n' ' ')" = "1 3 " ] ||
        echo "not lines of the first step and the last"
} > faults
[ ! -s faults ] || cat out >> faults
tap_empty "the first step and the last have a line" faults
works "so few tokens on one rank" 1 --tokens 3 --steps 3 --csv few1.csv text
same_loss "empty shards change nothing" few1.csv few.csv

works "gradients are written" 3 --save-grads grads text
[ "$(head -c 8 grads)" = RONDOGRD ] || echo "no gradients" > faults
tap_empty "gradients have their header" faults
works "and on one rank" 1 --save-grads grads1 text
difference=$("$top_builddir/tests/e2e/parity_compare" gradients grads1 grads)
awk -v d="$difference" 'BEGIN { exit !(d <= 1e-5) }' || echo "differ by $difference" > faults
tap_empty "gradients on three ranks are those on one" faults

# The same text as documents of 1 to 170 bytes.
mkdir docs
awk '{ f = sprintf("docs/%04d", n); printf "%s", /^1 / ? "x" : $0 "\n" > f
       if (NR % 5 == 0 || /^1 /) { close(f); n++ } }' text
packed="--documents --window 40 --steps 8"
# shellcheck disable=SC2086
{
    works "one rank trains on documents" 1 $packed --csv one.csv --save packed.rondo docs
    grep -q '^documents: [0-9]*, at most [0-9]* in a sequence of 61 tokens' out || cat out > faults
    grep -q '^window: each token sees 40' out || cat out >> faults
    grep -q ', 1 of at most [0-9]* documents dealt by sequence' out || cat out >> faults
    grep -q '^attention: window mask (left 39, right 0), batch' out || cat out >> faults
    tap_empty "documents and window are printed" faults
    for cut in "contiguous sequence" "striped documents" "zigzag documents"; do
        set -- $cut
        works "three ranks train on documents, $cut" 3 $packed --layout $1 --deal $2 --csv many.csv docs
        same_loss "three ranks learn from documents as one does, $cut" one.csv many.csv
    done
    works "three ranks train on documents, balanced" 3 $packed --layout balanced --csv many.csv docs
    same_loss "three ranks learn from documents as one does, balanced" one.csv many.csv
    works "documents alone, in bf16" 3 --documents --dtype bf16 --wire dk:f16 --steps 8 --csv bf16.csv \
        --save bf16.rondo docs
    works "documents, early" 2 $packed --stop-at 3 --save early.rondo docs
    works "documents, resumed" 2 $packed --resume early.rondo --save late.rondo docs
    works "documents, uninterrupted" 2 $packed --save whole.rondo docs
}
cmp late.rondo whole.rondo > faults 2>&1
tap_empty "resumed on documents is bitwise what was never interrupted" faults
refuses "a checkpoint of another window is refused" 1 "has --window 40, here it is 41" 2 --documents \
    --window 41 --steps 8 --resume packed.rondo docs
refuses "a checkpoint without documents is refused" 1 "with --documents, here it is without" 2 --window 40 \
    --steps 8 --resume packed.rondo docs
refuses "a checkpoint of other documents is refused" 1 "on other documents" 2 --documents --window 40 \
    --steps 8 --resume packed.rondo docs text
refuses "a checkpoint of another type is refused" 1 "has --dtype bf16, here it is fp32" 2 --documents \
    --steps 8 --resume bf16.rondo docs
refuses "an unknown wire type is refused" 2 'wire is "f7"' 3 --wire f7 --steps 1 text
mkdir bytes
for i in $(seq 700); do printf x > "bytes/$i"; done
refuses "documents that predict nothing are refused" 1 "every held-out document has one byte" 2 \
    --documents --steps 1 bytes
printf 'held out by its last bytes, of which there are enough: %070d' 0 > bytes/z
refuses "a sequence that predicts nothing ends the training" 1 "has one byte, and no loss" 2 \
    --documents --steps 8 bytes

head -c 1000 a.rondo > cut.rondo
: > empty
refuses "an unknown schedule is refused by name" 2 spiral 3 --schedule spiral --steps 1 text
works "two-level and q-grad train" 3 --schedule two-level --backward q-grad --steps 1 text
works "a transport can be asked for" 3 --transport auto --steps 1 text
refuses "an unknown transport is refused by name" 1 "RONDO_TRANSPORT='pigeon'" 1 --transport pigeon --steps 1 text
refuses "an unknown kernel is refused by name" 2 nonsense 3 --kernel nonsense --steps 1 text
refuses "an unknown option is refused" 2 "--frobnicate" 3 --frobnicate text
refuses "a missing text is named" 1 nowhere.txt 3 --steps 1 nowhere.txt
refuses "an empty text is named" 1 "text empty is empty" 3 --steps 1 empty
refuses "a short text is named" 1 "--tokens 61" 3 --steps 1 a
refuses "a checkpoint cut short is refused" 1 "has 1000 bytes" 3 --steps 8 --resume cut.rondo text
refuses "a checkpoint of another model is refused" 1 "its hidden is 24" 3 --hidden 25 --steps 8 \
    --resume a.rondo text
refuses "a checkpoint of another text is refused" 1 "another text" 3 --steps 8 --resume a.rondo \
    "$top_srcdir/COPYING"
refuses "saving into no folder fails" 1 "no/folder" 3 --steps 1 --save no/folder text
refuses "a CSV into no folder fails" 1 "no/folder" 3 --steps 1 --csv no/folder text

# A signal to the launcher reaches all ranks; they agree on the step after which they save and stop.
mkfifo lines
# shellcheck disable=SC2086
timeout -k 60 200 "$run" -n 3 "$train" $small --steps 1000000 --save stop.rondo text > lines 2> err &
pid=$!
{
    while read -r line; do
        case $line in step*) kill -INT $pid && break ;; esac
    done
    cat > rest
} < lines
wait $pid
status=$?
{
    [ $status -eq 0 ] || echo "status $status"
    grep -q '^stopped by a signal after step' rest || echo "nothing says that it stopped"
    grep -q '^saved stop.rondo' rest || echo "nothing says that it saved"
} > faults
[ ! -s faults ] || cat rest err >> faults
tap_empty "a signal saves and stops" faults
step=$(sed -n 's/^saved stop.rondo at step //p' rest)
works "what it saved resumes" 3 --steps 1000000 --stop-at $((step + 2)) --resume stop.rondo text

# The same while it generates.
# shellcheck disable=SC2086
timeout -k 60 200 "$run" -n 3 "$train" $small --steps 2 --sample 1000000 text > lines 2> err &
pid=$!
{
    while read -r line; do
        case $line in "attention sent"*) kill -INT $pid && break ;; esac
    done
    cat > rest
} < lines
wait $pid
status=$?
{
    [ $status -eq 0 ] || echo "status $status"
    tail -n 1 rest | grep -q '^uniform' || echo "no last line"
} > faults
[ ! -s faults ] || { head -c 300 rest; cat err; } >> faults
tap_empty "a signal ends the sample" faults

# A rank that is killed takes the others down, with a message, and nobody waits for it.
# shellcheck disable=SC2016,SC2086
timeout -k 60 200 "$run" -n 3 sh -c 'echo "pid $RONDO_RANK $$"; exec "$@"' sh \
    "$train" $small --steps 1000000 text > lines 2> err &
pid=$!
{
    victim=
    while read -r word rank number rest; do
        case $word$rank in pid2) victim=$number ;; esac
        case $word in step) [ -n "$victim" ] && kill -KILL "$victim" && break ;; esac
    done
    cat > rest
} < lines
wait $pid
status=$?
{
    [ $status -eq 137 ] || echo "status $status, expected that of a killed rank"
    grep -q '^rondo-train: rank [01]: ' err || echo "no other rank says why it ended"
} > faults
[ ! -s faults ] || cat rest err >> faults
tap_empty "a killed rank ends the run" faults
tap_done
