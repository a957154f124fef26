/* SPDX-License-Identifier: Apache-2.0 */
/* Whose work is done when several requests are under way. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <stdlib.h>
#include <time.h>

#include "tests/api/shard.h"

enum { STARTS = 2, CALL_MS = 2 };

/* Of one rank: a kernel that takes its time, and how often each start called it. */
struct counter {
    int calls[STARTS], at_end[STARTS]; /* at_end: of the other, when this one was done */
    rondo_kernel_t kernel[STARTS];
    rondo_plan_t plan[STARTS];
    struct shard shard[STARTS];
    rondo_layout_t layout;
    rondo_comm_t comm;
};

static int slow_kernel(void *context, const rondo_kernel_forward_t *args)
{
    const struct timespec pause = { .tv_nsec = CALL_MS * 1000000 };

    (void)args;
    ++*(int *)context;
    nanosleep(&pause, NULL);
    return 0;
}

static int counter_init(struct counter *c, struct meeting *meeting, int rank, int ranks, const struct problem *p)
{
    rondo_attention_desc_t desc = desc_of(p);
    int bad = 0;

    *c = (struct counter){ .comm = comm_of(meeting, rank, ranks, "self"),
                           .layout = layout_of(RONDO_LAYOUT_CONTIGUOUS, p->tokens, ranks) };
    for (int i = 0; i < STARTS; i++) {
        rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;

        c->kernel[i] = (rondo_kernel_t){ .struct_bytes = sizeof(c->kernel[i]), .name = "slow",
                                         .flags = RONDO_KERNEL_MERGES, .context = &c->calls[i],
                                         .forward = slow_kernel };
        options.kernel = &c->kernel[i];
        options.backward = "none", options.max_in_flight = STARTS;
        shard_init(&c->shard[i], c->layout, rank, p);
        bad += expect(!rondo_attention_plan(c->comm, c->layout, &desc, &options, &c->plan[i]), "plan: %s",
                      rondo_last_error());
    }
    return bad;
}

static int counter_release(struct counter *c, int bad)
{
    for (int i = 0; i < STARTS; i++) {
        rondo_plan_destroy(c->plan[i]);
        shard_release(&c->shard[i]);
    }
    rondo_layout_destroy(c->layout);
    rondo_comm_destroy(c->comm);
    return bad;
}

static int start(struct counter *c, int i, rondo_request_t *request)
{
    rondo_attention_fwd_t fwd = shard_forward_tensors(&c->shard[i]);

    return expect(!rondo_attention_forward(c->plan[i], &fwd, NULL, request), "start: %s", rondo_last_error());
}

/* Nobody looks at the outputs, so there is no oracle, which would take long for so many pieces. */
static struct problem *problem_of(struct problem *p)
{
    enum { BATCH = 16, TOKENS = 2048, HEADS = 4, DIM = 8, COUNT = BATCH * TOKENS * HEADS * DIM };

    *p = (struct problem){ .batch = BATCH, .tokens = TOKENS, .q_heads = HEADS, .kv_heads = HEADS, .qk_dim = DIM,
                           .v_dim = DIM };
    p->q = calloc(COUNT, sizeof(*p->q));
    p->k = calloc(COUNT, sizeof(*p->k));
    p->v = calloc(COUNT, sizeof(*p->v));
    p->d_o = calloc(COUNT, sizeof(*p->d_o));
    if (!p->q || !p->k || !p->v || !p->d_o)
        exit(1);
    return p;
}

/* ---- two attentions ---- */

static int attentions_body(int rank, int ranks, void *arg)
{
    rondo_request_t request[STARTS] = { NULL };
    struct meeting meeting = { 0 };
    struct counter c;
    int bad = counter_init(&c, &meeting, rank, ranks, arg), all;

    for (int i = 0; i < STARTS && !bad; i++)
        bad = start(&c, i, &request[i]);
    /* who waits for the second has the first one's work done, too, and before */
    bad = bad || expect(!rondo_wait(&request[1], WAIT_MS), "wait: %s", rondo_last_error());
    all = c.calls[0];
    bad = bad || expect(!rondo_wait(&request[0], WAIT_MS), "wait: %s", rondo_last_error());
    bad = bad || expect(c.calls[0] > 1 && all == c.calls[0], "%d of %d calls for the first before the end of the second",
                        all, c.calls[0]);
    return counter_release(&c, bad);
}

static void the_first_attention_computes_first(void **state)
{
    struct problem p;

    (void)state;
    assert_int_equal(run_ranks(1, 0, 60, attentions_body, problem_of(&p)), 0);
    problem_release(&p);
}

/* ---- a collective beside an attention ---- */

struct beside {
    struct meeting meeting;
    struct problem problem;
};

static int collective_body(int rank, int ranks, void *arg)
{
    struct beside *it = arg;
    rondo_request_t attention = NULL, sum = NULL;
    double value = rank + 1, result = 0;
    struct counter c;
    int bad = counter_init(&c, &it->meeting, rank, ranks, &it->problem), calls;

    bad = bad || start(&c, 0, &attention);
    bad = bad || expect(!rondo_all_reduce(c.comm, &value, &result, 1, RONDO_F64, NULL, &sum) &&
                        !rondo_wait(&sum, WAIT_MS), "all_reduce: %s", rondo_last_error());
    calls = c.calls[0];
    bad = bad || expect(!rondo_wait(&attention, WAIT_MS), "wait: %s", rondo_last_error());
    bad = bad || expect(result == ranks * (ranks + 1) / 2, "the sum is %g", result);
    bad = bad || expect(c.calls[0] >= 16 && calls < c.calls[0] / 2, "%d of %d calls of the kernel before the sum",
                        calls, c.calls[0]);
    return counter_release(&c, bad);
}

static void a_collective_does_not_wait_for_an_attention(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 3; ranks++) {
        struct beside *it = shared_memory(sizeof(*it));

        problem_of(&it->problem);
        assert_int_equal(run_ranks(ranks, 0, 60, collective_body, it), 0);
        problem_release(&it->problem);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_attention_computes_first),
        cmocka_unit_test(a_collective_does_not_wait_for_an_attention),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
