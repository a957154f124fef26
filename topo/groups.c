/* SPDX-License-Identifier: Apache-2.0 */
/* The best groups of equal size.  Exactly: for each set of points, what it is worth at best when it is cut
 * into groups; once by the least pair, then by the sum over groups that have no less.  By steps: the first
 * point that is free takes those to which it and its group are nearest. */
#include <stdlib.h>
#include <string.h>

#include "base/minmax.h"
#include "base/status.h"
#include "topo/puzzle.h"

static const int64_t impossible = INT64_MIN;

struct partition {
    const int64_t *weight;
    int n, size, sum;      /* sum: by the sum, else by the least pair */
    int64_t least;         /* groups with less are not taken */
    int64_t *least_of;     /* [sets]: least pair and sum of a group */
    int64_t *sum_of;
    int64_t *worth;        /* [sets]: of a set that is cut into groups */
};

static void weigh_groups(struct partition *p)
{
    for (int set = 0; set < 1 << p->n; set++) {
        p->least_of[set] = INT64_MAX;
        p->sum_of[set] = 0;
        for (int a = 0; a < p->n; a++)
            for (int b = a + 1; b < p->n; b++)
                if (set >> a & set >> b & 1) {
                    p->least_of[set] = ri_min64(p->least_of[set], p->weight[a * p->n + b]);
                    p->sum_of[set] += p->weight[a * p->n + b];
                }
    }
}

/* A set of which this is one group. */
static int64_t taking(const struct partition *p, int set, int group)
{
    int64_t rest = p->worth[set ^ group];

    if (p->least_of[group] < p->least || rest == impossible)
        return impossible;
    return p->sum ? p->sum_of[group] + rest : ri_min64(p->least_of[group], rest);
}

/* The next group, after `group`, that holds the lowest point of the set; start with 0, ends with 0. */
static int next_group(const struct partition *p, int set, int group)
{
    int low = set & -set, others = set ^ low, part = group ? group ^ low : others + 1;

    /* Subsets of the others, each once, in falling order. */
    do {
        if (part == 0)
            return 0;
        part = (part - 1) & others;
    } while (__builtin_popcount((unsigned)part) != p->size - 1);
    return part | low;
}

static void sweep(struct partition *p)
{
    p->worth[0] = p->sum ? 0 : INT64_MAX;
    for (int set = 1; set < 1 << p->n; set++) {
        p->worth[set] = impossible;
        if (__builtin_popcount((unsigned)set) % p->size)
            continue;
        for (int group = next_group(p, set, 0); group; group = next_group(p, set, group))
            p->worth[set] = ri_max64(p->worth[set], taking(p, set, group));
    }
}

/* Of two sets of one size, is a first in order of numbers? */
static int is_first(int a, int b)
{
    int differ = a ^ b;

    return (a & (differ & -differ)) != 0;
}

/* The best set that leaves n % size points over. */
static int best_set(const struct partition *p)
{
    int best = 0;

    for (int set = 1; set < 1 << p->n; set++) {
        if (__builtin_popcount((unsigned)set) != p->n - p->n % p->size)
            continue;
        if (!best || p->worth[set] > p->worth[best] || (p->worth[set] == p->worth[best] && is_first(set, best)))
            best = set;
    }
    return best;
}

static void mark_groups(const struct partition *p, int set, int32_t *group_of)
{
    for (int32_t g = 0; set; g++) {
        int best = 0;

        for (int group = next_group(p, set, 0); group; group = next_group(p, set, group))
            if (taking(p, set, group) == p->worth[set] && (!best || is_first(group, best)))
                best = group;
        for (int i = 0; i < p->n; i++)
            if (best >> i & 1)
                group_of[i] = g;
        set ^= best;
    }
}

static int groups_exactly(const int64_t *weight, int n, int size, int32_t *group)
{
    struct partition p = { .weight = weight, .n = n, .size = size, .sum = 0, .least = 0 };

    p.worth = calloc((size_t)3 << n, sizeof(*p.worth));
    if (!p.worth)
        return ri_error(RONDO_ERR_MEMORY, "no memory to make groups of %d", n);
    p.least_of = p.worth + (1 << n);
    p.sum_of = p.least_of + (1 << n);
    weigh_groups(&p);
    sweep(&p);
    p.least = p.worth[best_set(&p)];
    p.sum = 1;
    sweep(&p);
    mark_groups(&p, best_set(&p), group);
    free(p.worth);
    return 0;
}

/* The free point to which the members of group g are nearest. */
static int nearest_free(const int64_t *weight, int n, const int32_t *group, int32_t g)
{
    int best = -1;
    int64_t best_least = 0, best_sum = 0;

    for (int i = 0; i < n; i++) {
        int64_t least = INT64_MAX, sum = 0;

        if (group[i] >= 0)
            continue;
        for (int member = 0; member < n; member++)
            if (group[member] == g) {
                least = ri_min64(least, weight[member * n + i]);
                sum += weight[member * n + i];
            }
        if (best < 0 || least > best_least || (least == best_least && sum > best_sum)) {
            best = i;
            best_least = least;
            best_sum = sum;
        }
    }
    return best;
}

static void groups_by_steps(const int64_t *weight, int n, int size, int32_t *group)
{
    for (int32_t g = 0; g < n / size; g++)
        for (int k = 0; k < size; k++)
            group[nearest_free(weight, n, group, g)] = g;
}

int ri_puzzle_groups(const int64_t *weight, int n, int size, int32_t *group)
{
    for (int i = 0; i < n; i++)
        group[i] = -1;
    if (n < size)
        return 0;
    if (n <= RI_PUZZLE_EXACT)
        return groups_exactly(weight, n, size, group);
    groups_by_steps(weight, n, size, group);
    return 0;
}
