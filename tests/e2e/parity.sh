#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Training over P ranks on one host and on two against one rank, by each schedule and backward: gradients
# of step 0, and the loss over 50 steps.  The loss may differ by no more than what one unit in the last
# place of every first weight does to one rank, times three, and by 1e-4 at most.  Each scheme on each
# machine trains in one layout, the three in turn; its gradients are compared in all of them.  Run by
# `make check-parity`; RANKS, HOSTS, SCHEDULES, BACKWARDS, LAYOUTS and STEPS may be set.
set -euo pipefail

RANKS=${RANKS:-1 2 3 4 5}
STEPS=${STEPS:-50}
HOSTS=${HOSTS:-1 2}
SCHEDULES=${SCHEDULES:-ring two-level}
BACKWARDS=${BACKWARDS:-kv-grad q-grad}
LAYOUTS=${LAYOUTS:-contiguous zigzag striped}
GRADIENT_BAR=1e-5
TOKENS=1021 # a prime: no shard is like another
here=${top_builddir:-.}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# train_on RANKS HOSTS NAME OPTIONS...
train_on() {
    local ranks=$1 hosts=$2 name=$3
    shift 3
    if ! timeout -k 5 600 "$here/tools/rondo-run" -n "$ranks" --hosts "$hosts" \
            "$here/examples/train/rondo-train" --tokens $TOKENS --sample 0 --val-every 1000 \
            --val-windows 1 "$@" > "$work/$name.log" 2>&1; then
        tail -n 20 "$work/$name.log"
        echo "parity: rondo-train on $ranks ranks of $hosts hosts failed: $*"
        exit 1
    fi
}

train() { # RANKS NAME OPTIONS..., by the ring of one host
    train_on "$1" 1 "$2" --schedule ring --backward kv-grad "${@:3}"
}

compare() {
    "$here/tests/e2e/parity_compare" "$@"
}

above() { # above A B: A > B
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > b) }'
}

smaller() {
    awk -v a="$1" -v b="$2" 'BEGIN { print a + 0 < b + 0 ? a : b }'
}

train 1 base --save-grads "$work/base.grads"
train 1 base --steps "$STEPS" --csv "$work/base.csv"

worst=0
for seed in 1 2 3; do
    train 1 ulp --steps "$STEPS" --perturb-ulp $seed --csv "$work/ulp$seed.csv"
    ulp=$(compare losses "$work/base.csv" "$work/ulp$seed.csv")
    echo "one rank, each weight moved by its last place, seed $seed: loss differs by $ulp"
    if above "$ulp" "$worst"; then worst=$ulp; fi
done
bar=$(smaller 1e-4 "$(awk -v w="$worst" 'BEGIN { printf "%.3e", 3 * w }')")
echo "bars: gradients $GRADIENT_BAR, loss $bar over $STEPS steps"

failed=0
rows=0
layout_count=$(wc -w <<< "$LAYOUTS")
printf '%2s %5s %-10s %-8s %-11s %12s %12s\n' P hosts schedule backward layout gradients loss

# row RANKS HOSTS SCHEDULE BACKWARD LAYOUT WITH_LOSS
row() {
    local scheme=(--schedule "$3" --backward "$4" --layout "$5") gradients loss=- verdict=ok
    train_on "$1" "$2" run "${scheme[@]}" --save-grads "$work/run.grads"
    gradients=$(compare gradients "$work/base.grads" "$work/run.grads")
    if above "$gradients" $GRADIENT_BAR; then verdict=WRONG; fi
    if [ "$6" = 1 ]; then
        train_on "$1" "$2" run "${scheme[@]}" --steps "$STEPS" --csv "$work/run.csv"
        loss=$(compare losses "$work/base.csv" "$work/run.csv")
        if above "$loss" "$bar"; then verdict=WRONG; fi
    fi
    if [ $verdict = WRONG ]; then failed=1; fi
    printf '%2s %5s %-10s %-8s %-11s %12s %12s %s\n' "$1" "$2" "$3" "$4" "$5" "$gradients" "$loss" \
        $verdict
}

# machine RANKS HOSTS
machine() {
    local schedule backward layout i
    for schedule in $SCHEDULES; do
        for backward in $BACKWARDS; do
            i=0
            for layout in $LAYOUTS; do
                row "$1" "$2" "$schedule" "$backward" "$layout" $((i == rows % layout_count))
                i=$((i + 1))
            done
            rows=$((rows + 1))
        done
    done
}

for ranks in $RANKS; do
    for hosts in $HOSTS; do
        if [ "$hosts" -le "$ranks" ]; then machine "$ranks" "$hosts"; fi
    done
done

# The weights and moments of a checkpoint, without its header, which holds the seconds it took.
trained() {
    tail -c +$(($(od -An -tu4 -j12 -N4 "$1") + 1)) "$1"
}

for i in 1 2; do
    train 4 twice --layout zigzag --steps "$STEPS" --csv "$work/twice$i.csv" --save "$work/twice$i.rondo"
    train 4 twice --layout zigzag --save-grads "$work/twice$i.grads"
done
if compare same "$work/twice1.csv" "$work/twice2.csv" &&
        cmp "$work/twice1.grads" "$work/twice2.grads" &&
        cmp <(trained "$work/twice1.rondo") <(trained "$work/twice2.rondo"); then
    echo "two runs of one command on 4 ranks: bitwise equal"
else
    echo "two runs of one command on 4 ranks: differ"
    failed=1
fi
exit $failed
