/* SPDX-License-Identifier: Apache-2.0 */
/* The best cycle through points.  Exactly: for each set of points seen and each of them where one stands,
 * what the rest of the way is worth at best; once by its least hop, then by its sum over hops that are not
 * less.  By steps: from the nearest neighbours of several starts, turning parts round while that helps. */
#include <stdlib.h>

#include "base/minmax.h"
#include "base/status.h"
#include "topo/puzzle.h"

static const int64_t impossible = INT64_MIN;

/* Point 0 is where a cycle starts and ends; point p > 0 is bit p - 1 of a set. */
struct cycle {
    const int64_t *weight;
    int64_t *rest;  /* [sets][n]: worth of the rest of the way from a point when a set was seen */
    int n, sum;     /* sum: by the sum, else by the least hop */
    int64_t least;  /* hops below it are not taken */
};

static int64_t hop(const struct cycle *c, int a, int b)
{
    return c->weight[a * c->n + b];
}

static int64_t join(const struct cycle *c, int64_t hop, int64_t rest)
{
    if (hop < c->least || rest == impossible)
        return impossible;
    return c->sum ? hop + rest : ri_min64(hop, rest);
}

static int64_t *rest_at(const struct cycle *c, int seen, int at)
{
    return &c->rest[(size_t)seen * (size_t)c->n + (size_t)at];
}

/* What the way is worth that goes on to `to`. */
static int64_t going_to(const struct cycle *c, int seen, int at, int to)
{
    return join(c, hop(c, at, to), *rest_at(c, seen | 1 << (to - 1), to));
}

static int64_t best_rest(const struct cycle *c, int seen, int at)
{
    int64_t best = impossible;

    for (int to = 1; to < c->n; to++)
        if (!(seen & 1 << (to - 1)))
            best = ri_max64(best, going_to(c, seen, at, to));
    return best;
}

/* What the best cycle is worth. */
static int64_t sweep(struct cycle *c)
{
    int all = (1 << (c->n - 1)) - 1;

    for (int at = 1; at < c->n; at++)
        *rest_at(c, all, at) = hop(c, at, 0) < c->least ? impossible : hop(c, at, 0);
    for (int seen = all - 1; seen > 0; seen--)
        for (int at = 1; at < c->n; at++)
            if (seen & 1 << (at - 1))
                *rest_at(c, seen, at) = best_rest(c, seen, at);
    return best_rest(c, 0, 0);
}

static void walk(const struct cycle *c, int64_t worth, int32_t *order)
{
    int seen = 0, at = 0;

    order[0] = 0;
    for (int i = 1; i < c->n; i++) {
        int to = 1;

        while (seen & 1 << (to - 1) || going_to(c, seen, at, to) != worth)
            to++;
        worth = *rest_at(c, seen | 1 << (to - 1), to);
        seen |= 1 << (to - 1);
        at = to;
        order[i] = to;
    }
}

static int cycle_exactly(const int64_t *weight, int n, int32_t *order)
{
    struct cycle c = { .weight = weight, .n = n, .sum = 0, .least = 0 };

    c.rest = calloc((size_t)n << (n - 1), sizeof(*c.rest));
    if (!c.rest)
        return ri_error(RONDO_ERR_MEMORY, "no memory to order a ring of %d", n);
    c.least = sweep(&c);
    c.sum = 1;
    walk(&c, sweep(&c), order);
    free(c.rest);
    return 0;
}

/* ---- by steps ---- */

struct worth {
    int64_t least, sum;
};

static int is_more(struct worth a, struct worth b)
{
    return a.least != b.least ? a.least > b.least : a.sum > b.sum;
}

static struct worth worth_of(const int64_t *weight, int n, const int32_t *order)
{
    struct worth worth = { INT64_MAX, 0 };

    for (int i = 0; i < n; i++) {
        int64_t hop = weight[order[i] * n + order[(i + 1) % n]];

        worth.least = ri_min64(worth.least, hop);
        worth.sum += hop;
    }
    return worth;
}

static void swap(int32_t *order, int i, int j)
{
    int32_t kept = order[i];

    order[i] = order[j];
    order[j] = kept;
}

static void turn_round(int32_t *order, int from, int to)
{
    while (from < to)
        swap(order, from++, to--);
}

/* Turns order[i..j] round, which changes the hops at its two ends, where that is better, or as good and
 * earlier in order of numbers. */
static int try_turn(const int64_t *weight, int n, int32_t *order, int i, int j, struct worth *worth)
{
    int32_t before = order[i - 1], after = order[(j + 1) % n];
    int64_t old_in = weight[before * n + order[i]], old_out = weight[order[j] * n + after];
    int64_t new_in = weight[before * n + order[j]], new_out = weight[order[i] * n + after];
    struct worth turned = { ri_min64(new_in, new_out), worth->sum - old_in - old_out + new_in + new_out };

    /* It cannot win what it loses here. */
    if (turned.least < worth->least || (old_in > worth->least && old_out > worth->least && turned.sum < worth->sum))
        return 0;
    turn_round(order, i, j);
    turned = worth_of(weight, n, order);
    if (is_more(turned, *worth) || (!is_more(*worth, turned) && order[i] < order[j])) {
        *worth = turned;
        return 1;
    }
    turn_round(order, i, j);
    return 0;
}

static struct worth improve(const int64_t *weight, int n, int32_t *order)
{
    struct worth worth = worth_of(weight, n, order);
    int better;

    do {
        better = 0;
        for (int i = 1; i < n; i++)
            for (int j = i + 1; j < n; j++)
                better |= try_turn(weight, n, order, i, j, &worth);
    } while (better);
    return worth;
}

/* From a point always on to the best that is left. */
static void follow_neighbours(const int64_t *weight, int n, int start, int32_t *order)
{
    for (int i = 0; i < n; i++)
        order[i] = i;
    swap(order, 0, start);
    for (int i = 1; i < n; i++) {
        int best = i;

        for (int j = i + 1; j < n; j++) {
            int64_t more = weight[order[i - 1] * n + order[j]] - weight[order[i - 1] * n + order[best]];

            if (more > 0 || (more == 0 && order[j] < order[best]))
                best = j;
        }
        swap(order, i, best);
    }
}

/* The same cycle from 0. */
static void rotate(int32_t *order, int n)
{
    int at = 0;

    while (order[at] != 0)
        at++;
    turn_round(order, 0, at - 1);
    turn_round(order, at, n - 1);
    turn_round(order, 0, n - 1);
}

/* Start -1 is the natural order, which stays where nothing is better. */
static struct worth try_start(const int64_t *weight, int n, int start, int32_t *order)
{
    if (start >= 0)
        follow_neighbours(weight, n, start, order);
    for (int i = 0; start < 0 && i < n; i++)
        order[i] = i;
    return improve(weight, n, order);
}

void ri_puzzle_cycle_by_steps(const int64_t *weight, int n, int32_t *order)
{
    enum { STARTS = 8 };
    struct worth best = try_start(weight, n, -1, order);
    int best_start = -1;

    for (int start = 0; start < ri_min(n, STARTS); start++) {
        struct worth worth = try_start(weight, n, start, order);

        if (is_more(worth, best)) {
            best = worth;
            best_start = start;
        }
    }
    try_start(weight, n, best_start, order);
    rotate(order, n);
    improve(weight, n, order);
}

int ri_puzzle_cycle(const int64_t *weight, int n, int32_t *order)
{
    if (n > RI_PUZZLE_EXACT) {
        ri_puzzle_cycle_by_steps(weight, n, order);
        return 0;
    }
    if (n > 2)
        return cycle_exactly(weight, n, order);
    for (int i = 0; i < n; i++)
        order[i] = i;
    return 0;
}
