/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_ATTEND_H
#define TEST_ATTEND_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "tests/e2e/masks_judge.h"

/* For tests that look at one case at a time: its problem, ranks as threads on self, and their answer. */

struct attended {
    struct masked p;
    struct team *team;
    struct judged judged; /* of the last run */
};

static inline void attended_init(struct attended *a, const struct mask_case *is, uint64_t seed, int ranks, int hosts)
{
    masked_init(&a->p, is, seed);
    a->team = team_create("self", ranks, hosts, &a->p, 1);
}

static inline void attended_release(struct attended *a)
{
    team_destroy(a->team);
    masked_release(&a->p);
}

static inline void attended_run(struct attended *a, const struct setting *s)
{
    assert_int_equal(team_attend(a->team, &a->p, s), 0);
    a->judged = judge_answer(a->team, &a->p);
}

static inline struct setting setting_of(rondo_layout_kind_t kind, const char *schedule, const char *backward)
{
    return (struct setting){ .kind = { kind, kind }, .schedule = schedule, .backward = backward };
}

/* What is EXACT in the tables of cases, and every pair once. */
static inline void attended_is_exact(const struct attended *a)
{
    for (int out = 0; out < OUTS; out++)
        if (!(a->judged.worst[out] <= 1e-5))
            fail_msg("%s %s over %d ranks: %s is off by %g", a->p.is->group, a->p.is->name, a->team->ranks,
                     out_names[out], a->judged.worst[out]);
    if (!judged_counts(&a->judged, &a->p))
        fail_msg("%s %s over %d ranks: %lld and %lld pairs of %lld", a->p.is->group, a->p.is->name, a->team->ranks,
                 (long long)a->judged.pairs[0], (long long)a->judged.pairs[1], (long long)a->p.area);
}

/* A case, both backwards, by a ring, or by a two-level ring where there are hosts. */
static inline void exact(const struct mask_case *is, rondo_layout_kind_t kind, rondo_deal_t deal, int ranks, int hosts)
{
    struct attended a;

    attended_init(&a, is, 1, ranks, hosts);
    for (int i = 0; i < 2; i++) {
        struct setting s = setting_of(kind, hosts > 1 ? "two-level" : "ring", i ? "q-grad" : "kv-grad");

        s.deal = deal;
        attended_run(&a, &s);
        attended_is_exact(&a);
    }
    attended_release(&a);
}

/* Copies of an answer's tensors, to compare with. */
static inline float *copy_of(const float *x, int64_t count)
{
    float *copy = malloc((size_t)count * sizeof(*copy) + 1);

    assert_non_null(copy);
    memcpy(copy, x, (size_t)count * sizeof(*copy));
    return copy;
}

static inline void set_all(float *x, int64_t count, float value)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = value;
}

#endif
