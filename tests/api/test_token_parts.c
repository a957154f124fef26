/* SPDX-License-Identifier: Apache-2.0 */
/* Plans over schedules that cut blocks in token parts or name several blocks at once: results against the
 * definition.  Some schedules are the library's, others are written here. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "plan/plan.h"
#include "schedule/sides.h" /* goes with plan.h */
#include "tests/api/shard.h"

/* What all ranks of a test build; set before they start. */
static struct {
    ri_builder *build[RI_PASSES];
    struct ri_build how;
} wanted;

static int build_wanted(enum ri_pass_kind kind, struct ri_schedule **schedule, const struct ri_build *given)
{
    struct ri_build how = wanted.how;

    how.rank = given->rank;
    how.ranks = given->ranks;
    how.host = given->host;
    return wanted.build[kind](schedule, &how);
}

static int build_forward(struct ri_schedule **schedule, const struct ri_build *given)
{
    return build_wanted(RI_FORWARD, schedule, given);
}

static int build_backward(struct ri_schedule **schedule, const struct ri_build *given)
{
    return build_wanted(RI_BACKWARD, schedule, given);
}

struct test {
    struct meeting meeting;
    struct problem problem;
    rondo_layout_kind_t kind;
    const int32_t *host; /* [ranks] */
    const rondo_kernel_t *kernel;
};

static int make_plan(const struct test *t, rondo_comm_t comm, rondo_layout_t layout, struct ri_pool *pool,
                     struct ri_plan **plan)
{
    const struct ri_build everyone = { .ranks = layout->ranks, .host = t->host };
    const struct ri_choice choice = { .pass = {
        { .build = everyone, .builder = build_forward, .schedule = "wanted", .gradients = "" },
        { .build = everyone, .builder = wanted.build[1] ? build_backward : NULL, .schedule = "wanted",
          .gradients = "" } } };
    rondo_attention_desc_t desc = desc_of(&t->problem);
    int rank = comm ? comm->rank : 0, err;
    struct ri_sight sight;
    struct ri_plan_params params = {
        .place = { rank, layout->ranks, t->host, comm ? comm->transport : NULL }, .sight = &sight,
        .desc = &desc, .choice = &choice, .kernel = t->kernel, .max_in_flight = 1, .pool = pool,
    };

    desc.scale = 1 / sqrtf((float)desc.qk_dim);
    if (ri_sight_init(&sight, layout, layout, desc.mask, desc.mask_params))
        return -1;
    err = ri_plan_create(&params, plan);
    ri_sight_release(&sight);
    return err;
}

static int finish(struct ri_run *run, int err)
{
    int idle = 0;

    while (!err) {
        err = ri_engine_progress(run->engine, NULL, &idle);
        if (idle)
            sched_yield();
    }
    ri_plan_give(run);
    return err > 0 ? 0 : err;
}

static int run_plan(struct ri_plan *plan, const struct shard *s)
{
    rondo_attention_fwd_t fwd = shard_forward_tensors(s);
    rondo_attention_bwd_t bwd = shard_backward_tensors(s);
    struct ri_run *run = NULL;
    int err = ri_plan_take(plan, RI_FORWARD, &run);

    if (!err)
        err = finish(run, ri_plan_start_forward(run, &fwd, NULL));
    if (err || !wanted.build[RI_BACKWARD])
        return err;
    err = ri_plan_take(plan, RI_BACKWARD, &run);
    return err ? err : finish(run, ri_plan_start_backward(run, &bwd, NULL));
}

static int run_shard(const struct test *t, rondo_comm_t comm, rondo_layout_t layout, struct ri_pool *pool,
                    const struct shard *s)
{
    struct ri_plan *plan = NULL;
    int bad = expect(!make_plan(t, comm, layout, pool, &plan), "plan: %s", rondo_last_error());

    if (bad)
        return bad;
    ri_plan_admit(plan);
    for (int again = 0; again < 2 && !bad; again++) {
        shard_clear((struct shard *)(uintptr_t)s);
        bad += expect(!run_plan(plan, s), "run: %s", rondo_last_error());
        bad += expect(shard_forward_error(s, &t->problem) <= SHARD_BAR, "forward is off by %g",
                      shard_forward_error(s, &t->problem));
        if (wanted.build[RI_BACKWARD])
            bad += expect(shard_backward_error(s, &t->problem) <= SHARD_BAR, "backward is off by %g",
                          shard_backward_error(s, &t->problem));
    }
    ri_plan_destroy(plan);
    return bad;
}

static int body(int rank, int ranks, void *arg)
{
    const struct test *t = arg;
    rondo_comm_t comm = comm_of(&((struct test *)arg)->meeting, rank, ranks, "self");
    rondo_layout_t layout = layout_of(t->kind, t->problem.tokens, ranks);
    struct ri_pool *pool = NULL;
    struct shard s;
    int bad;

    shard_init(&s, layout, rank, &t->problem);
    bad = expect(!ri_pool_create(comm->transport, &pool), "pool: %s", rondo_last_error()) ||
          run_shard(t, comm, layout, pool, &s);
    ri_pool_destroy(pool);
    shard_release(&s);
    rondo_layout_destroy(layout);
    expect(!bad, "rank %d of %d, %s, %lld tokens, %d pieces%s", rank, ranks,
           rondo_layout_kind_name(t->kind), (long long)t->problem.tokens, wanted.how.pieces,
           wanted.how.chunked ? ", chunked" : "");
    rondo_comm_destroy(comm);
    return bad;
}

static const int32_t one_host[16];

static void run(int ranks, const int32_t *host, rondo_layout_kind_t kind, int64_t tokens, int causal,
                const char *kernel)
{
    struct test *t = shared_memory(sizeof(*t));

    t->problem = (struct problem){ .batch = 2, .tokens = tokens, .causal = causal, .q_heads = 4,
                                   .kv_heads = 2, .qk_dim = 8, .v_dim = 5 };
    t->kind = kind;
    t->host = host;
    t->kernel = rondo_kernel_find(kernel);
    problem_init(&t->problem, (uint64_t)tokens);
    assert_int_equal(run_ranks(ranks, 0, 100, body, t), 0);
    problem_release(&t->problem);
}

/* ---- the two-level ring in pieces and chunks ---- */

static const struct {
    int ranks;
    int32_t host[6];
} machines[] = {
    { 3, { 0, 0, 1 } },
    { 4, { 0, 0, 1, 1 } },
    { 5, { 0, 0, 0, 1, 1 } },
    { 6, { 0, 0, 0, 1, 1, 1 } },
};

static const struct {
    int pieces, chunked;
} cuts[] = { { 1, 1 }, { 2, 0 }, { 2, 1 }, { 3, 1 } };

/* Lengths: parts that are short or empty, blocks that differ by one or two tokens, and equal ones. */
static void two_level(ri_builder *backward, int cut)
{
    static const int64_t lengths[] = { 5, 37, 96 };

    memset(&wanted, 0, sizeof(wanted));
    wanted.build[RI_FORWARD] = ri_build_two_level_forward;
    wanted.build[RI_BACKWARD] = backward;
    wanted.how.pieces = cuts[cut].pieces;
    wanted.how.chunked = cuts[cut].chunked;
    for (int m = 0; m < 4; m++)
        for (int i = 0; i < 3; i++)
            run(machines[m].ranks, machines[m].host, (rondo_layout_kind_t)((m + i + cut) % 3), lengths[i],
                (m + cut) % 4 != 0, i == 2 ? "reference" : "flash");
}

static void two_level_kv_grad_in_parts(void **state)
{
    (void)state;
    for (int cut = 0; cut < 4; cut++)
        two_level(ri_build_two_level_kv_grad, cut);
}

static void two_level_q_grad_in_parts(void **state)
{
    (void)state;
    for (int cut = 0; cut < 4; cut++)
        two_level(ri_build_two_level_q_grad, cut);
}

/* ---- written here ---- */

static int end(struct ri_schedule **schedule, struct ri_schedule *s)
{
    int err = ri_schedule_end(&s);

    if (!err)
        *schedule = s;
    return err;
}

/* Doubling: after turn t a rank holds the blocks of 2^(t+1) ranks, and each message names all it has.  Then
 * one COMPUTE over all blocks.  ranks is a power of two. */
static int build_doubling(struct ri_schedule **schedule, const struct ri_build *b)
{
    struct ri_operand q, k, o, mine, all;
    struct ri_schedule *s;
    int err = ri_schedule_begin(&s, "doubling", b->rank, b->ranks, b->host);
    int turn = 0;

    if (err)
        return err;
    q = ri_operand(s, ri_schedule_slot(s, RI_Q, RI_IN, 1), b->rank);
    k = ri_operand(s, ri_schedule_slot(s, RI_K, RI_IN, 1), b->rank);
    o = ri_operand(s, ri_schedule_slot(s, RI_O, RI_OUT, 1), b->rank);
    all = ri_operand(s, ri_schedule_slot(s, RI_K, RI_OWN, 1), 0);
    for (int r = 1; r < b->ranks; r++)
        ri_schedule_slot(s, RI_K, RI_OWN, 1);
    mine = all;
    mine.slot += b->rank;
    mine.block = b->rank;
    ri_schedule_copy(s, k, mine);
    for (int have = 1; have < b->ranks; have *= 2, turn++) {
        int first = b->rank / have * have, theirs = first ^ have;
        struct ri_operand gives = all, takes = all;

        gives.slot += first, gives.block = first, gives.blocks = (uint16_t)have;
        takes.slot += theirs, takes.block = theirs, takes.blocks = (uint16_t)have;
        ri_schedule_send(s, gives, b->rank ^ have, turn);
        ri_schedule_recv(s, takes, b->rank ^ have, turn);
    }
    all.blocks = (uint16_t)b->ranks;
    ri_schedule_compute(s, q, all, o, ri_none);
    return end(schedule, s);
}

static void operands_of_several_blocks(void **state)
{
    (void)state;
    memset(&wanted, 0, sizeof(wanted));
    wanted.build[RI_FORWARD] = build_doubling;
    for (int ranks = 1; ranks <= 8; ranks *= 2)
        for (int kind = 0; kind < 3; kind++)
            for (int causal = 0; causal < 2; causal++)
                run(ranks, one_host, (rondo_layout_kind_t)kind, 3 * ranks + 1, causal,
                    causal ? "flash" : "reference");
}

enum { PARTS = 3 };

/* A ring in which each part of a block goes round by itself, in slots with room for one part; queries are
 * cut, too, and each part's output is made beside the caller's and merged into it. */
static int build_by_parts(struct ri_schedule **schedule, const struct ri_build *b)
{
    struct ri_schedule *s;
    int err = ri_schedule_begin(&s, "by_parts", b->rank, b->ranks, b->host);
    int next = (b->rank + 1) % b->ranks, prev = (b->rank + b->ranks - 1) % b->ranks, turn = 0, lands = 0;
    int q, k, o, landing, partial;

    if (err)
        return err;
    s->token_parts = PARTS;
    q = ri_schedule_slot(s, RI_Q, RI_IN, PARTS);
    k = ri_schedule_slot(s, RI_K, RI_IN, PARTS);
    o = ri_schedule_slot(s, RI_O, RI_OUT, PARTS);
    landing = ri_schedule_slot(s, RI_K, RI_VIEW, 1);
    ri_schedule_slot(s, RI_K, RI_VIEW, 1);
    partial = ri_schedule_slot(s, RI_O, RI_OWN, 2);
    for (int p = 0; p < PARTS; p++) {
        struct ri_operand key = ri_operand_parts(k, b->rank, p, 1);

        for (int t = 0; t < b->ranks; t++) {
            struct ri_operand coming = ri_operand_parts(landing + lands % 2,
                                                        (b->rank - t - 1 + 2 * b->ranks) % b->ranks, p, 1);

            if (t < b->ranks - 1) {
                ri_schedule_send(s, key, next, turn);
                ri_schedule_recv(s, coming, prev, turn++);
                lands++;
            }
            for (int i = 0; i < PARTS; i++) {
                struct ri_operand made = ri_operand_parts(partial, b->rank, i, 1);

                ri_schedule_compute(s, ri_operand_parts(q, b->rank, i, 1), key, made, ri_none);
                ri_schedule_merge(s, RI_MERGE_LSE, made, ri_operand_parts(o, b->rank, i, 1));
            }
            key = coming;
        }
    }
    return end(schedule, s);
}

static void slots_with_room_for_one_part(void **state)
{
    static const int64_t lengths[] = { 1, 4, 11, 50 };

    (void)state;
    memset(&wanted, 0, sizeof(wanted));
    wanted.build[RI_FORWARD] = build_by_parts;
    for (int ranks = 1; ranks <= 5; ranks++)
        for (int i = 0; i < 4; i++)
            run(ranks, one_host, (rondo_layout_kind_t)((ranks + i) % 3), lengths[i], ranks % 2,
                i % 2 ? "flash" : "reference");
}

/* ---- kernels that need O ---- */

static int delta_from_o(void *context, const rondo_kernel_backward_t *args)
{
    const rondo_kernel_t *reference = rondo_kernel_find("reference");
    const rondo_kernel_shape_t *shape = args->shape;
    int64_t tokens = args->q_tokens, heads = shape->q_heads;
    rondo_kernel_backward_t with_delta = *args;
    float *delta = calloc((size_t)(shape->batch * heads * tokens), sizeof(*delta));
    int err;

    (void)context;
    if (!delta || args->delta.data || !args->o.data) {
        free(delta);
        return 1;
    }
    for (int64_t i = 0; i < shape->batch * heads * tokens; i++) {
        int64_t b = i / tokens / heads, h = i / tokens % heads, n = i % tokens;
        const float *o = (const float *)args->o.data + b * args->o.batch_stride +
                         n * args->o.token_stride + h * args->o.head_stride;
        const float *d_o = (const float *)args->d_o.data + b * args->d_o.batch_stride +
                           n * args->d_o.token_stride + h * args->d_o.head_stride;

        for (int d = 0; d < shape->v_dim; d++)
            delta[i] += o[d] * d_o[d];
    }
    with_delta.o.data = NULL;
    with_delta.delta = (rondo_tensor_t){ delta, heads * tokens, 1, tokens };
    err = reference->backward(reference->context, &with_delta);
    free(delta);
    return err;
}

static void kernels_that_need_o(void **state)
{
    static ri_builder *const backwards[] = { ri_build_ring_kv_grad, ri_build_ring_q_grad,
                                             ri_build_two_level_q_grad };
    rondo_kernel_t kernel = *rondo_kernel_find("reference");
    struct test *t = shared_memory(sizeof(*t));

    (void)state;
    kernel.flags |= RONDO_KERNEL_NEEDS_O;
    kernel.backward = delta_from_o;
    t->problem = (struct problem){ .batch = 2, .tokens = 29, .causal = 1, .q_heads = 4, .kv_heads = 2,
                                   .qk_dim = 8, .v_dim = 5 };
    t->kind = RONDO_LAYOUT_ZIGZAG;
    t->kernel = &kernel;
    problem_init(&t->problem, 7);
    for (int i = 0; i < 3; i++) {
        memset(&wanted, 0, sizeof(wanted));
        wanted.build[RI_FORWARD] = ri_build_ring_forward;
        wanted.build[RI_BACKWARD] = backwards[i];
        wanted.how.pieces = i == 2 ? 2 : 0;
        t->host = i == 2 ? machines[2].host : one_host;
        memset(&t->meeting, 0, sizeof(t->meeting));
        assert_int_equal(run_ranks(5, 0, 100, body, t), 0);
    }
    problem_release(&t->problem);
}

/* ---- refused ---- */

static int build_refused(struct ri_schedule **schedule, const struct ri_build *b)
{
    struct ri_schedule *s;
    int err = ri_schedule_begin(&s, "refused", b->rank, b->ranks, b->host);
    int heads = wanted.how.pieces == 0, key_room = wanted.how.pieces == 1 ? 2 : 4, q, k, o, landing;

    if (err)
        return err;
    *(heads ? &s->head_parts : &s->token_parts) = 4;
    q = ri_schedule_slot(s, RI_Q, RI_IN, 4);
    k = ri_schedule_slot(s, RI_K, RI_IN, key_room);
    o = ri_schedule_slot(s, RI_O, RI_OUT, 4);
    landing = ri_schedule_slot(s, RI_K, RI_OWN, 3);
    ri_schedule_copy(s, ri_operand_parts(k, b->rank, 2, 2), ri_operand_parts(landing, b->rank, 2, 2));
    ri_schedule_compute(s, ri_operand(s, q, b->rank), ri_operand_parts(landing, b->rank, 2, 2),
                        ri_operand(s, o, b->rank), ri_none);
    return end(schedule, s);
}

static void what_has_no_place_is_refused(void **state)
{
    static const char *const words[] = { "cuts heads in 4 parts", "slot 1 is the caller's",
                                         "parts 2 to 3 go round the end of slot 3" };
    struct test t = { .problem = { .batch = 1, .tokens = 8, .q_heads = 1, .kv_heads = 1, .qk_dim = 4,
                                   .v_dim = 4 } };
    rondo_layout_t layout = layout_of(RONDO_LAYOUT_STRIPED, 8, 1);

    (void)state;
    t.host = one_host;
    t.kernel = rondo_kernel_find("flash");
    memset(&wanted, 0, sizeof(wanted));
    wanted.build[RI_FORWARD] = build_refused;
    for (int i = 0; i < 3; i++) {
        struct ri_plan *plan = NULL;

        wanted.how.pieces = i;
        assert_int_equal(make_plan(&t, NULL, layout, NULL, &plan), RONDO_ERR_UNSUPPORTED);
        assert_null(plan);
        assert_non_null(strstr(rondo_last_error(), words[i]));
    }
    rondo_layout_destroy(layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_level_kv_grad_in_parts),
        cmocka_unit_test(two_level_q_grad_in_parts),
        cmocka_unit_test(operands_of_several_blocks),
        cmocka_unit_test(slots_with_room_for_one_part),
        cmocka_unit_test(kernels_that_need_o),
        cmocka_unit_test(what_has_no_place_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
