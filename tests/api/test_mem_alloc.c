/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for tensors, from a communicator. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <string.h>

#include "base/status.h"
#include "tests/api/shard.h"
#include "transport/transport.h"

struct test {
    struct meeting meeting;
    const char *transport;
};

static void run(const char *transport, int ranks, int (*body)(int, int, void *))
{
    struct test *t = shared_memory(sizeof(*t));

    t->transport = transport;
    if (ri_transport_find(transport))
        assert_int_equal(run_ranks(ranks, ranks_want_processes(transport), 60, body, t), 0);
    shared_memory_release(t, sizeof(*t));
}

static void run_all(int ranks, int (*body)(int, int, void *))
{
    run("self", ranks, body);
    run("ucx", ranks, body);
    run("shm", ranks, body);
}

/* Zeroed, aligned, apart from each other, writable to the end; again after it was free. */
static int use_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, t->transport);
    size_t sizes[] = { 0, 1, 4095, 4097, 3 << 20 };
    unsigned char *memory[5] = { NULL };
    int bad = 0;

    for (int round = 0; round < 3 && !bad; round++) {
        for (int i = 0; i < 5; i++) {
            bad += expect(!rondo_mem_alloc(comm, sizes[i], (void **)&memory[i]), "alloc: %s", rondo_last_error());
            bad += expect((uintptr_t)memory[i] % 64 == 0, "%zu bytes are at %p", sizes[i], (void *)memory[i]);
            for (size_t b = 0; b < sizes[i] && !bad; b++)
                bad += expect(memory[i][b] == 0, "byte %zu of %zu is %d", b, sizes[i], memory[i][b]);
            memset(memory[i], 100 + i, sizes[i]);
        }
        for (int i = 0; i < 5; i++) {
            for (size_t b = 0; b < sizes[i] && !bad; b++)
                bad += expect(memory[i][b] == 100 + i, "byte %zu of %zu is %d", b, sizes[i], memory[i][b]);
            bad += expect(!rondo_mem_free(comm, memory[i]), "free: %s", rondo_last_error());
        }
    }
    rondo_comm_destroy(comm);
    return bad;
}

static void memory_is_zero_and_ours(void **state)
{
    (void)state;
    run_all(2, use_body);
}

/* Sanitizers end a process that asks for more than there can be, unless they are told not to. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__tsan_default_options(void);

const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

const char *__tsan_default_options(void)
{
    return __asan_default_options();
}

static int refuse_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, t->transport);
    void *memory = &memory, *good = NULL;
    int bad;

    bad = expect_error(rondo_mem_alloc(NULL, 1, &memory), RONDO_ERR_ARGUMENT, "comm is NULL", NULL, "no comm");
    bad += expect_error(rondo_mem_alloc(comm, 1, NULL), RONDO_ERR_ARGUMENT, "memory is NULL", NULL, "no result");
    bad += expect_error(rondo_mem_alloc(comm, SIZE_MAX, &memory), RONDO_ERR_ARGUMENT, "bytes is", NULL, "too much");
    bad += expect_error(rondo_mem_alloc(comm, PTRDIFF_MAX / 2, &memory), RONDO_ERR_MEMORY, NULL, NULL, "too much");
    bad += expect(memory == &memory, "a refused call wrote its result");
    bad += expect_error(rondo_mem_free(NULL, memory), RONDO_ERR_ARGUMENT, "comm is NULL", NULL, "free, no comm");
    bad += expect_error(rondo_mem_free(comm, &memory), RONDO_ERR_ARGUMENT, "has not given", NULL, "foreign memory");
    bad += expect(!rondo_mem_free(comm, NULL), "free of NULL: %s", rondo_last_error());
    bad += expect(!rondo_mem_alloc(comm, 100, &good), "alloc: %s", rondo_last_error());
    bad += expect(!rondo_comm_abort(comm), "abort: %s", rondo_last_error());
    bad += expect(!rondo_mem_free(comm, good), "free after a failure: %s", rondo_last_error());
    bad += expect_error(rondo_mem_free(comm, good), RONDO_ERR_ARGUMENT, "has not given", NULL, "twice");
    bad += expect_error(rondo_mem_alloc(comm, 1, &good), RONDO_ERR_PEER, "has failed", NULL, "after a failure");
    rondo_comm_destroy(comm);
    return bad;
}

static void what_is_refused_says_why(void **state)
{
    (void)state;
    run_all(1, refuse_body);
}

/* What is not given back goes with the communicator: the sanitizer looks for leaks. */
static int leave_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, t->transport);
    void *memory = NULL;
    int bad = 0;

    for (int i = 0; i < 3; i++)
        bad += expect(!rondo_mem_alloc(comm, 5000, &memory), "alloc: %s", rondo_last_error());
    rondo_comm_destroy(comm);
    return bad;
}

static void memory_ends_with_its_communicator(void **state)
{
    (void)state;
    run_all(2, leave_body);
}

/* Moves what the shard gives to a plan into memory of comm. */
static int move_inputs(rondo_comm_t comm, const struct problem *p, struct shard *s)
{
    size_t rows = (size_t)(p->batch * s->n) * sizeof(float);
    struct {
        float **tensor;
        size_t bytes;
    } inputs[] = { { &s->q, rows * (size_t)(p->q_heads * p->qk_dim) },
                   { &s->k, rows * (size_t)(p->kv_heads * p->qk_dim) },
                   { &s->v, rows * (size_t)(p->kv_heads * p->v_dim) },
                   { &s->d_o, rows * (size_t)(p->q_heads * p->v_dim) } };

    for (int i = 0; i < 4; i++) {
        void *memory;

        if (expect(!rondo_mem_alloc(comm, inputs[i].bytes, &memory), "alloc: %s", rondo_last_error()))
            return 1;
        if (inputs[i].bytes)
            memcpy(memory, *inputs[i].tensor, inputs[i].bytes);
        *inputs[i].tensor = memory;
    }
    return 0;
}

/* A plan takes its tensors from there as from anywhere; one rank has none. */
static int plan_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, t->transport);
    struct problem p = { .batch = 2, .tokens = 2, .causal = 1, .q_heads = 4, .kv_heads = 2, .qk_dim = 8, .v_dim = 4 };
    int bad = 0;

    for (; p.tokens <= 23 && !bad; p.tokens += 21) {
        rondo_layout_t layout = layout_of(RONDO_LAYOUT_CONTIGUOUS, p.tokens, ranks);
        rondo_attention_desc_t desc = desc_of(&p);
        rondo_plan_t plan = NULL;
        struct shard own, moved;

        problem_init(&p, 7);
        shard_init(&own, layout, rank, &p);
        moved = own;
        bad += move_inputs(comm, &p, &moved);
        bad += expect(!rondo_attention_plan(comm, layout, &desc, NULL, &plan) && !shard_both(plan, &moved), "plan: %s",
                      rondo_last_error());
        bad += expect(shard_forward_error(&own, &p) <= SHARD_BAR && shard_backward_error(&own, &p) <= SHARD_BAR,
                      "rank %d of %d over %s is wrong", rank, ranks, t->transport);
        rondo_plan_destroy(plan);
        rondo_layout_destroy(layout);
        shard_release(&own);
        problem_release(&p);
    }
    rondo_comm_destroy(comm);
    return bad;
}

static void plans_take_it(void **state)
{
    (void)state;
    run_all(3, plan_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zero_and_ours),
        cmocka_unit_test(what_is_refused_says_why),
        cmocka_unit_test(memory_ends_with_its_communicator),
        cmocka_unit_test(plans_take_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
