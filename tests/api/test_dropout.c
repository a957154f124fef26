/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout and soft-cap through plans: every layout, schedule and number of ranks gives what plain loops over
 * the whole sequence do, and a seed that is not everybody's is an error that names it. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include "tests/api/scores.h"

static void the_same_weights_are_dropped_everywhere(void **state)
{
    (void)state;
    for (int causal = 0; causal < 2; causal++) {
        struct scores *t = scores_of(causal, 29);

        t->features.dropout = 0.3f;
        t->features.seed = UINT64_C(0x123456789abcdef);
        scores_run_everywhere(t);
        problem_release(&t->problem);
    }
}

static void scores_are_capped_forward_and_backward(void **state)
{
    struct scores *t = scores_of(1, 29);

    (void)state;
    t->features.softcap = 0.8f;
    scores_run_everywhere(t);
    t->features.dropout = 0.5f; /* both at once */
    t->features.seed = 3;
    scores_run_everywhere(t);
    problem_release(&t->problem);
}

/* ---- ranks that do not agree ---- */

static int seed_body(int rank, int ranks, void *arg)
{
    struct scores *t = arg;
    struct scores_rank r;
    int bad, err;

    scores_enter(&r, t, rank, ranks);
    bad = scores_plan(&r);
    err = scores_both(&r);
    if (t->features.dropout > 0)
        bad += expect_error(err, err == RONDO_ERR_PEER ? err : RONDO_ERR_MISMATCH, "7 on rank 0", "8 on rank 1",
                            "seed"); /* PEER: the other one was quicker to say so */
    else
        bad += expect(!err, "without dropout a seed means nothing: %s", rondo_last_error());
    scores_leave(&r);
    return bad;
}

static void another_seed_is_named(void **state)
{
    struct scores *t = scores_of(0, 29);

    (void)state;
    t->own_seeds = 1;
    t->seeds[0] = 7;
    t->seeds[1] = 8;
    for (int dropout = 0; dropout < 2; dropout++) {
        t->features.dropout = dropout ? 0.1f : 0;
        assert_int_equal(scores_ranks(t, 2, seed_body), 0);
    }
    problem_release(&t->problem);
}

static int wrong_body(int rank, int ranks, void *arg)
{
    struct scores *t = arg;
    struct scores_rank r;
    int bad;

    scores_enter(&r, t, rank, ranks);
    r.desc.softcap = rank == 1 ? 30 : 50;
    bad = expect_error(rondo_attention_plan(r.comm, r.layout, &r.desc, &t->options, &r.plan), RONDO_ERR_MISMATCH,
                       "softcap", "30", "softcap");
    r.desc.softcap = 0;
    r.desc.dropout = rank == 1 ? 0.25f : 0.5f;
    bad += expect_error(rondo_attention_plan(r.comm, r.layout, &r.desc, &t->options, &r.plan), RONDO_ERR_MISMATCH,
                        "dropout", "0.25", "dropout");
    scores_leave(&r);
    return bad;
}

static void other_wishes_are_named(void **state)
{
    struct scores *t = scores_of(0, 29);

    (void)state;
    assert_int_equal(scores_ranks(t, 2, wrong_body), 0);
    problem_release(&t->problem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_weights_are_dropped_everywhere),
        cmocka_unit_test(scores_are_capped_forward_and_backward),
        cmocka_unit_test(another_seed_is_named),
        cmocka_unit_test(other_wishes_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
