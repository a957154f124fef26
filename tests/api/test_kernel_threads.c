/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels are given the threads that options and RONDO_THREADS say, and compute the same bits with any number. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/api/features.h"
#include "tests/api/shard.h"

struct test {
    struct meeting meeting;
    struct problem problem;
    int told; /* told: what a plan with options.threads 0 has, by RONDO_THREADS */
};

/* What workspace_bytes was asked for, and what does not fit to it. */
struct asked {
    rondo_kernel_shape_t shape;
    int times, faults;
};

static size_t asked_workspace(void *context, const rondo_kernel_shape_t *shape)
{
    struct asked *asked = context;

    asked->shape = *shape;
    asked->times++;
    asked->faults += shape->threads < 1 || (shape->threads > 1) != (shape->run != NULL);
    return 64 * (size_t)shape->threads;
}

static int asked_forward(void *context, const rondo_kernel_forward_t *args)
{
    struct asked *asked = context;

    asked->faults += args->shape->threads != asked->shape.threads || args->shape->run != asked->shape.run ||
                     args->shape->max_q_tokens != asked->shape.max_q_tokens;
    return features_threads_kernel.forward(NULL, args);
}

/* A forward with so many threads, after which o is in the shard. */
static int forward(rondo_comm_t comm, rondo_layout_t layout, struct test *t, struct shard *s, int threads, int shown)
{
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    rondo_attention_desc_t desc = desc_of(&t->problem);
    rondo_plan_memory_t memory = RONDO_PLAN_MEMORY_INIT;
    rondo_kernel_t kernel = features_threads_kernel;
    struct asked asked = { .times = 0 };
    rondo_plan_t plan = NULL;
    char text[1 << 14], words[40];
    int bad;

    kernel.context = &asked;
    kernel.workspace_bytes = asked_workspace;
    kernel.forward = asked_forward;
    options.kernel = &kernel;
    options.threads = threads;
    bad = expect(!rondo_plan_memory(comm, layout, &desc, &options, &memory) && asked.times,
                 "memory: %s", rondo_last_error());
    bad += expect(memory.scratch_bytes == 64 * (size_t)shown, "%zu bytes of scratch", memory.scratch_bytes);
    bad += expect(!rondo_attention_plan(comm, layout, &desc, &options, &plan), "plan: %s", rondo_last_error());
    bad += expect(bad || !shard_both(plan, s), "run: %s", rondo_last_error());
    bad += expect(bad || !rondo_plan_describe(plan, text, sizeof(text), NULL), "describe: %s", rondo_last_error());
    snprintf(words, sizeof(words), shown > 1 ? "kernel: threads, %d threads\n" : "kernel: threads\n", shown);
    bad += expect(bad || strstr(text, words) != NULL, "the description lacks \"%s\"", words);
    rondo_plan_destroy(plan);
    bad += expect(!asked.faults, "workspace_bytes was asked for other shapes than calls had");
    return bad;
}

static int body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, "self");
    rondo_layout_t layout = layout_of(RONDO_LAYOUT_ZIGZAG, t->problem.tokens, ranks);
    struct shard one, many;
    int bad;

    shard_init(&one, layout, rank, &t->problem);
    shard_init(&many, layout, rank, &t->problem);
    bad = forward(comm, layout, t, &one, 1, 1);
    for (int threads = 0; threads <= 4; threads++) {
        int shown = threads ? threads : t->told;

        shard_clear(&many);
        bad += forward(comm, layout, t, &many, threads + (threads == 2) * rank, shown + (threads == 2) * rank);
        bad += expect(memcmp(one.outputs, many.outputs, one.output_count * sizeof(float)) == 0,
                      "%d threads give other bits", threads);
    }
    bad += expect(shard_forward_error(&many, &t->problem) <= SHARD_BAR, "o is wrong");
    shard_release(&many);
    shard_release(&one);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static void any_number_of_threads_gives_the_same_bits(void **state)
{
    struct test *t = shared_memory(sizeof(*t));

    (void)state;
    t->problem = (struct problem){ .batch = 2, .tokens = 37, .causal = 1, .q_heads = 4, .kv_heads = 2, .qk_dim = 8,
                                   .v_dim = 8 };
    problem_init(&t->problem, 5);
    for (t->told = 1; t->told <= 3; t->told += 2) {
        setenv("RONDO_THREADS", t->told == 1 ? "0" : "3", 1);
        for (int ranks = 1; ranks <= 2; ranks++) {
            assert_int_equal(run_ranks(ranks, 0, 60, body, t), 0);
            memset(&t->meeting, 0, sizeof(t->meeting));
        }
    }
    unsetenv("RONDO_THREADS");
    problem_release(&t->problem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
