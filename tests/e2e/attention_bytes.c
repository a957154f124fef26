/* SPDX-License-Identifier: Apache-2.0 */
/* What each rank has to send: where the blocks of a scheme go, hop by hop, straight from its
 * definition; and the closed formulas for shards and hosts of one size. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/e2e/attention.h"

enum { LOCAL, HOST };

/* Tokens by rank and lane that a rank sends of the side that is read, and of the side that is summed. */
struct travel {
    int64_t read[MAX_RANKS][2], sum[MAX_RANKS][2];
};

struct machine {
    int ranks, hosts;
    int64_t tokens[MAX_RANKS];
};

static int size_of(const struct machine *m, int host)
{
    return m->ranks / m->hosts + (host < m->ranks % m->hosts);
}

static int rank_at(const struct machine *m, int host, int place)
{
    int first = 0;

    for (int h = 0; h < host; h++)
        first += size_of(m, h);
    return first + place;
}

static int lane(const struct machine *m, int from, int to)
{
    return host_of(from, m->ranks, m->hosts) == host_of(to, m->ranks, m->hosts) ? LOCAL : HOST;
}

/* Block b goes b, b+1 .. to the rank before b; its sum starts at b+1 and goes on to b. */
static void ring(const struct machine *m, int b, struct travel *t)
{
    for (int hop = 0; hop < m->ranks - 1; hop++) {
        int at = (b + hop) % m->ranks, next = (at + 1) % m->ranks, after = (next + 1) % m->ranks;

        t->read[at][lane(m, at, next)] += m->tokens[b];
        t->sum[next][lane(m, next, after)] += m->tokens[b];
    }
}

/* Block b goes from its owner to each other rank, which sends back what it adds. */
static void direct(const struct machine *m, int b, struct travel *t)
{
    for (int other = 0; other < m->ranks; other++) {
        if (other == b)
            continue;
        t->read[b][lane(m, b, other)] += m->tokens[b];
        t->sum[other][lane(m, b, other)] += m->tokens[b];
    }
}

/* One round: the block walks once round a host, from `entry` on; so does its sum, which the owner
 * does not add to. */
static void walk(const struct machine *m, int b, int host, int entry, int home, struct travel *t)
{
    int size = size_of(m, host);

    for (int step = 0; step < size - 1; step++) {
        int at = rank_at(m, host, (entry + step) % size);

        t->read[at][LOCAL] += m->tokens[b];
        if (!home || step > 0)
            t->sum[at][LOCAL] += m->tokens[b];
    }
}

/* Block b visits host after host; where it entered, it leaves.  The sum of its own host goes home from the
 * rank before the owner.  Another begins on the next host, leaves each where the walk ended, comes back to
 * the rank before the owner, and goes home from there, too. */
static void two_level(const struct machine *m, int b, struct travel *t)
{
    int home = host_of(b, m->ranks, m->hosts), place = b - rank_at(m, home, 0);
    int last = rank_at(m, home, (place + size_of(m, home) - 1) % size_of(m, home));

    for (int round = 0; round < m->hosts; round++) {
        int host = (home + round) % m->hosts, size = size_of(m, host);
        int entry = round == 0 ? place : place % size;

        walk(m, b, host, entry, round == 0, t);
        if (round < m->hosts - 1)
            t->read[rank_at(m, host, entry)][HOST] += m->tokens[b];
        if (round > 0)
            t->sum[rank_at(m, host, (entry + size - 1) % size)][HOST] += m->tokens[b];
    }
    if (last != b)
        t->sum[last][LOCAL] += m->tokens[b] * (m->hosts > 1 ? 2 : 1);
}

static void travels(const struct machine *m, const char *schedule, struct travel *t)
{
    memset(t, 0, sizeof(*t));
    for (int b = 0; b < m->ranks; b++) {
        if (strcmp(schedule, "ring") == 0)
            ring(m, b, t);
        else if (strcmp(schedule, "direct") == 0)
            direct(m, b, t);
        else
            two_level(m, b, t);
    }
}

/* Shards of n tokens on hosts of one size: the closed formulas for both sides and lanes together. */
static int is_closed(const struct machine *m, const char *schedule, const struct travel *t)
{
    int64_t n = m->tokens[0];
    int all = m->ranks, hosts = m->hosts, size = all / hosts, good = 1;

    for (int r = 0; r < all; r++)
        if (m->tokens[r] != n || all % hosts)
            return 1;
    for (int r = 0; r < all; r++) {
        const int64_t *read = t->read[r], *sum = t->sum[r];

        good &= read[LOCAL] + read[HOST] == (all - 1) * n;
        if (strcmp(schedule, "two-level") != 0) {
            good &= sum[LOCAL] + sum[HOST] == (all - 1) * n;
            continue;
        }
        good &= read[LOCAL] == hosts * (size - 1) * n && read[HOST] == (hosts - 1) * n;
        good &= sum[LOCAL] == (hosts * (size - 1) + (hosts > 1 && size > 1)) * n;
        good &= sum[HOST] == (hosts - 1) * n;
    }
    return good;
}

/* Bytes of a token of each tensor that a side holds. */
static void weigh(const struct problem *p, int q_grad, int64_t read[RONDO_TENSOR_COUNT],
                  int64_t sum[RONDO_TENSOR_COUNT])
{
    int64_t q = 4 * p->batch * p->q_heads, kv = 4 * p->batch * p->kv_heads;

    memset(read, 0, RONDO_TENSOR_COUNT * sizeof(*read));
    memset(sum, 0, RONDO_TENSOR_COUNT * sizeof(*sum));
    read[RONDO_TENSOR_K] = kv * p->qk_dim * (q_grad ? 1 : 2); /* in the forward, and in the backward */
    read[RONDO_TENSOR_V] = kv * p->v_dim * (q_grad ? 1 : 2);
    if (!q_grad) {
        sum[RONDO_TENSOR_DK] = kv * p->qk_dim;
        sum[RONDO_TENSOR_DV] = kv * p->v_dim;
        return;
    }
    read[RONDO_TENSOR_Q] = q * p->qk_dim;
    read[RONDO_TENSOR_DO] = q * p->v_dim;
    read[RONDO_TENSOR_LSE] = read[RONDO_TENSOR_DELTA] = q;
    sum[RONDO_TENSOR_DQ] = q * p->qk_dim;
}

static const struct {
    int tensor;
    const char *name;
} columns[] = {
    { RONDO_TENSOR_Q, "q" },         { RONDO_TENSOR_K, "k" },   { RONDO_TENSOR_V, "v" },
    { RONDO_TENSOR_LSE, "lse" },     { RONDO_TENSOR_DO, "do" }, { RONDO_TENSOR_DELTA, "delta" },
    { RONDO_TENSOR_DQ, "dq" },       { RONDO_TENSOR_DK, "dk" }, { RONDO_TENSOR_DV, "dv" },
};
enum { COLUMNS = sizeof(columns) / sizeof(columns[0]) };

void print_bytes_head(void)
{
    printf("%-5s %-9s %-7s %2s %5s %4s %-10s %-5s %-7s", "over", "schedule", "back", "P", "hosts", "N",
           "heads dims", "lane", "bytes");
    for (int c = 0; c < COLUMNS; c++)
        printf(" %8s", columns[c].name);
    printf("\n");
}

static void print_row(const struct test *t, const struct scheme *s, const struct problem *p, int lane_of,
                      const char *what, const int64_t *bytes, const char *verdict)
{
    char shape[32];

    snprintf(shape, sizeof(shape), "%d/%d %dx%d", p->q_heads, p->kv_heads, p->qk_dim, p->v_dim);
    printf("%-5s %-9s %-7s %2d %5d %4lld %-10s %-5s %-7s", t->transport, s->schedule, s->backward,
           t->ranks, t->hosts, (long long)p->tokens, shape, lane_of == LOCAL ? "local" : "host", what);
    for (int c = 0; c < COLUMNS; c++)
        printf(" %8lld", (long long)bytes[columns[c].tensor]);
    printf("%s%s\n", *verdict ? " " : "", verdict);
}

/* Prints sums over the ranks; equal means equal on each. */
static int print_case(const struct test *t, const struct scheme *s, const struct problem *p,
                      const struct outcome *outcomes, const struct machine *m)
{
    int64_t read[RONDO_TENSOR_COUNT], sum[RONDO_TENSOR_COUNT];
    struct travel travel;
    int good;

    travels(m, s->schedule, &travel);
    good = is_closed(m, s->schedule, &travel);
    weigh(p, strcmp(s->backward, "q-grad") == 0, read, sum);
    for (int l = LOCAL; l <= HOST; l++) {
        int64_t counted[RONDO_TENSOR_COUNT] = { 0 }, formula[RONDO_TENSOR_COUNT] = { 0 };
        int equal = 1;

        for (int i = 0; i < m->ranks * RONDO_TENSOR_COUNT; i++) {
            int r = i / RONDO_TENSOR_COUNT, tensor = i % RONDO_TENSOR_COUNT;
            int64_t want = travel.read[r][l] * read[tensor] + travel.sum[r][l] * sum[tensor];

            counted[tensor] += (int64_t)outcomes[r].sent_bytes[l][tensor];
            formula[tensor] += want;
            equal &= outcomes[r].sent_bytes[l][tensor] == (uint64_t)want;
        }
        print_row(t, s, p, l, "counted", counted, "");
        print_row(t, s, p, l, "formula", formula, equal && good ? "equal" : "WRONG");
        good &= equal;
    }
    return good;
}

int print_bytes(const struct test *t)
{
    int wrong = 0;

    for (int i = 0; i < t->scheme_count; i++)
        for (int j = 0; j < t->problem_count; j++) {
            const struct problem *p = &t->problems[j];
            struct machine m = { .ranks = t->ranks, .hosts = t->hosts };

            for (int r = 0; r < t->ranks; r++)
                m.tokens[r] = p->tokens / t->ranks + (r < p->tokens % t->ranks); /* contiguous */
            wrong += !print_case(t, &t->schemes[i], p, t->outcomes[i][t->first_layout][j], &m);
        }
    return wrong;
}
