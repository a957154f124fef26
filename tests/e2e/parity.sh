#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Training over P ranks against one rank: gradients of step 0, and the loss over 50 steps.  The loss may
# differ by no more than what one unit in the last place of every first weight does to one rank, times
# three, and by 1e-4 at most.  Run by `make check-parity`; RANKS and STEPS may be set.
set -euo pipefail

RANKS=${RANKS:-1 2 3 4 5}
STEPS=${STEPS:-50}
LAYOUTS=${LAYOUTS:-contiguous zigzag striped}
GRADIENT_BAR=1e-5
TOKENS=1021 # a prime: no shard is like another
here=${top_builddir:-.}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# train RANKS NAME OPTIONS...
train() {
    local ranks=$1 name=$2
    shift 2
    if ! timeout -k 5 600 "$here/tools/rondo-run" -n "$ranks" "$here/examples/train/rondo-train" \
            --tokens $TOKENS --schedule ring --backward kv-grad --sample 0 --val-every 1000 \
            --val-windows 1 "$@" > "$work/$name.log" 2>&1; then
        tail -n 20 "$work/$name.log"
        echo "parity: rondo-train on $ranks ranks failed: $*"
        exit 1
    fi
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
printf '%2s %-11s %-10s %-10s %12s %12s\n' P layout schedule backward gradients loss
for ranks in $RANKS; do
    for layout in $LAYOUTS; do
        train "$ranks" run --layout "$layout" --save-grads "$work/run.grads"
        train "$ranks" run --layout "$layout" --steps "$STEPS" --csv "$work/run.csv"
        gradients=$(compare gradients "$work/base.grads" "$work/run.grads")
        loss=$(compare losses "$work/base.csv" "$work/run.csv")
        verdict=ok
        if above "$gradients" $GRADIENT_BAR || above "$loss" "$bar"; then verdict=WRONG failed=1; fi
        printf '%2s %-11s %-10s %-10s %12s %12s %s\n' "$ranks" "$layout" ring kv-grad "$gradients" \
            "$loss" $verdict
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
