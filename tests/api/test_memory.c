/* SPDX-License-Identifier: Apache-2.0 */
/* What rondo_plan_memory says is what making the plan allocates. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include "tests/api/allocations.h"
#include "tests/api/shard.h"

enum { MAX_RANKS = 4 };

struct test {
    struct meeting meeting;
    struct problem problem;
    rondo_plan_options_t options;
};

/* Every tile gives a partial result, which the plan merges. */
static const rondo_kernel_t *partial_kernel(void)
{
    static rondo_kernel_t kernel;
    const rondo_kernel_t *reference = rondo_kernel_find("reference");

    kernel = *reference;
    kernel.name = "partial";
    kernel.flags &= ~(unsigned)RONDO_KERNEL_MERGES;
    return &kernel;
}

static void run(int ranks, const struct problem *shape, const rondo_plan_options_t *options,
                int (*body)(int, int, void *))
{
    struct test *t = shared_memory(sizeof(*t));

    t->problem = *shape;
    t->options = *options;
    problem_init(&t->problem, (uint64_t)ranks);
    assert_int_equal(run_ranks(ranks, 0, 60, body, t), 0);
    problem_release(&t->problem);
}

static const struct problem shape = { .batch = 2, .tokens = 11, .causal = 1, .q_heads = 4, .kv_heads = 2,
                                      .qk_dim = 8, .v_dim = 4 };

static int memory_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, "self");
    rondo_layout_t layout = layout_of(RONDO_LAYOUT_ZIGZAG, t->problem.tokens, ranks);
    rondo_attention_desc_t desc = desc_of(&t->problem);
    rondo_plan_memory_t memory = RONDO_PLAN_MEMORY_INIT;
    rondo_plan_stats_t stats = RONDO_PLAN_STATS_INIT;
    rondo_plan_t plan = NULL;
    size_t before = aligned_bytes(), larger, made;
    int bad = expect(!rondo_plan_memory(comm, layout, &desc, &t->options, &memory), "%s", rondo_last_error());

    bad += expect(aligned_bytes() == before, "asking takes memory");
    bad += expect(!rondo_attention_plan(comm, layout, &desc, &t->options, &plan), "%s", rondo_last_error());
    made = aligned_bytes() - before;
    bad += expect(made == memory.pool_bytes + memory.scratch_bytes, "a plan takes %zu bytes, not %zu and %zu",
                  made, memory.pool_bytes, memory.scratch_bytes);
    larger = memory.start_bytes[memory.start_bytes[1] > memory.start_bytes[0]];
    bad += expect(memory.pool_bytes == larger * (size_t)t->options.max_in_flight, "the pool is of %zu bytes",
                  memory.pool_bytes);
    bad += expect((memory.start_bytes[1] > 0) == !t->options.backward, "backward takes %zu bytes",
                  memory.start_bytes[1]);
    bad += expect(!rondo_plan_stats(plan, &stats), "stats: %s", rondo_last_error());
    bad += expect(stats.pool_bytes == memory.pool_bytes && stats.scratch_bytes == memory.scratch_bytes &&
                      stats.table_bytes == memory.table_bytes && stats.table_bytes > 0,
                  "a made plan says %zu, %zu, %zu", stats.pool_bytes, stats.scratch_bytes, stats.table_bytes);
    rondo_plan_destroy(plan);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static void memory_is_what_a_plan_takes(void **state)
{
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;

    (void)state;
    for (int ranks = 1; ranks <= MAX_RANKS; ranks++)
        for (int in_flight = 1; in_flight <= 5; in_flight += 2)
            for (int partial = 0; partial < 2; partial++)
                for (int inference = 0; inference < 2; inference++) {
                    options.max_in_flight = in_flight;
                    options.kernel = partial ? partial_kernel() : NULL;
                    options.backward = inference ? "none" : NULL;
                    run(ranks, &shape, &options, memory_body);
                }
}

/* A rank holds 64 bytes of each of K and V in a block, and a forward over ranks keeps two blocks that are
 * not its own: the one it reads, and the one that comes.  Of a backward: delta, and dK and dV under way. */
static int formula_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, "self");
    rondo_layout_t layout = layout_of(RONDO_LAYOUT_CONTIGUOUS, t->problem.tokens, ranks);
    rondo_attention_desc_t desc = desc_of(&t->problem);
    rondo_plan_memory_t memory = RONDO_PLAN_MEMORY_INIT;
    int bad = expect(!rondo_plan_memory(comm, layout, &desc, &t->options, &memory), "%s", rondo_last_error());

    bad += expect(memory.start_bytes[0] == 2 * 128, "forward takes %zu bytes", memory.start_bytes[0]);
    bad += expect(memory.start_bytes[1] > 2 * 128 + 64 && memory.start_bytes[1] % 64 == 0,
                  "backward takes %zu bytes", memory.start_bytes[1]);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static void a_ring_keeps_two_blocks(void **state)
{
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;

    (void)state;
    options.schedule = "ring";
    options.backward = "kv-grad";
    options.binding = "copy";
    for (int ranks = 3; ranks <= MAX_RANKS; ranks++) {
        struct problem p = { .batch = 1, .tokens = 4 * ranks, .causal = 0, .q_heads = 1, .kv_heads = 1,
                             .qk_dim = 4, .v_dim = 4 };

        run(ranks, &p, &options, formula_body);
    }
}

/* 8192 tokens a rank of a long sequence: what a rank needs is counted in its own shards, two of K and V that
 * come, sums of dK and dV, and delta; of the whole sequence nothing (ring-flash-attention#8, #23). */
static int long_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, "self");
    rondo_layout_t layout = layout_of(RONDO_LAYOUT_ZIGZAG, t->problem.tokens, ranks);
    rondo_attention_desc_t desc = desc_of(&t->problem);
    rondo_plan_memory_t memory = RONDO_PLAN_MEMORY_INIT;
    size_t rows = (size_t)(t->problem.tokens / ranks * t->problem.kv_heads) * sizeof(float);
    size_t shard = rows * (size_t)(t->problem.qk_dim + t->problem.v_dim);
    int bad = expect(!rondo_plan_memory(comm, layout, &desc, &t->options, &memory), "%s", rondo_last_error());

    bad += expect(memory.start_bytes[0] == 2 * shard, "forward takes %zu bytes", memory.start_bytes[0]);
    bad += expect(memory.start_bytes[1] == 5 * shard + rows, "backward takes %zu bytes", memory.start_bytes[1]);
    bad += expect(memory.scratch_bytes < shard / 16 && memory.table_bytes < shard / 16,
                  "scratch takes %zu bytes, tables %zu", memory.scratch_bytes, memory.table_bytes);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static void a_long_sequence_costs_its_shards(void **state)
{
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;

    (void)state;
    options.schedule = "ring";
    options.backward = "kv-grad";
    options.binding = "copy";
    for (int ranks = 4; ranks <= 8; ranks *= 2) { /* twice the sequence, the same shard */
        struct test *t = shared_memory(sizeof(*t));

        t->options = options;
        t->problem = (struct problem){ .batch = 1, .tokens = 8192 * ranks, .causal = 1, .q_heads = 8,
                                       .kv_heads = 8, .qk_dim = 128, .v_dim = 128 };
        assert_int_equal(run_ranks(ranks, 0, 60, long_body, t), 0);
    }
}

static int memory_refuses_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, "self");
    rondo_layout_t layout = layout_of(RONDO_LAYOUT_ZIGZAG, t->problem.tokens, ranks);
    rondo_layout_t other = layout_of(RONDO_LAYOUT_ZIGZAG, t->problem.tokens, ranks + 1);
    rondo_attention_desc_t desc = desc_of(&t->problem);
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    rondo_plan_memory_t memory = RONDO_PLAN_MEMORY_INIT, small = RONDO_PLAN_MEMORY_INIT;
    int bad = expect_error(rondo_plan_memory(NULL, layout, &desc, NULL, &memory), RONDO_ERR_ARGUMENT,
                           "comm is NULL", NULL, "comm");

    memory.pool_bytes = 4711;
    small.struct_bytes = 8;
    bad += expect_error(rondo_plan_memory(comm, NULL, &desc, NULL, &memory), RONDO_ERR_ARGUMENT, "layout is NULL",
                        NULL, "layout");
    bad += expect_error(rondo_plan_memory(comm, other, &desc, NULL, &memory), RONDO_ERR_ARGUMENT,
                        "layout is for 3 ranks", NULL, "layout of other ranks");
    bad += expect_error(rondo_plan_memory(comm, layout, NULL, NULL, &memory), RONDO_ERR_ARGUMENT, "desc is NULL",
                        NULL, "desc");
    bad += expect_error(rondo_plan_memory(comm, layout, &desc, NULL, NULL), RONDO_ERR_ARGUMENT, "memory is NULL",
                        NULL, "memory");
    bad += expect_error(rondo_plan_memory(comm, layout, &desc, NULL, &small), RONDO_ERR_ARGUMENT,
                        "memory.struct_bytes is 8", NULL, "size");
    options.max_in_flight = -4;
    bad += expect_error(rondo_plan_memory(comm, layout, &desc, &options, &memory), RONDO_ERR_ARGUMENT,
                        "max_in_flight is -4", NULL, "max_in_flight");
    desc.q_heads = 5;
    bad += expect_error(rondo_plan_memory(comm, layout, &desc, NULL, &memory), RONDO_ERR_ARGUMENT, "q_heads is 5",
                        NULL, "q_heads");
    bad += expect(memory.pool_bytes == 4711, "a refused call wrote");
    rondo_layout_destroy(layout);
    rondo_layout_destroy(other);
    rondo_comm_destroy(comm);
    return bad;
}

static void memory_refuses_each_argument(void **state)
{
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;

    (void)state;
    run(2, &shape, &options, memory_refuses_body);
}

/* One message more than 2^32 would be few again. */
static int too_many_messages_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, "self");
    rondo_layout_t layout = layout_of(RONDO_LAYOUT_CONTIGUOUS, (int64_t)ranks << 26, ranks);
    rondo_attention_desc_t desc = desc_of(&t->problem);
    rondo_plan_memory_t memory = RONDO_PLAN_MEMORY_INIT;
    int bad = 0;

    for (int64_t chunk_bytes = 1; rank == 0 && chunk_bytes < 64 << 10; chunk_bytes *= 8) {
        t->options.chunk_bytes = chunk_bytes;
        bad += expect_error(rondo_plan_memory(comm, layout, &desc, &t->options, &memory), RONDO_ERR_UNSUPPORTED,
                            "use a larger chunk_bytes", NULL, "chunk_bytes");
    }
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static void messages_that_cannot_be_numbered_are_refused(void **state)
{
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;

    (void)state;
    options.schedule = "ring";
    run(17, &shape, &options, too_many_messages_body);
}

/* 64 Ki tokens a rank and blocks of 512 MB: tables in chunks are of the size that they have without. */
static int chunked_tables_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, "self");
    rondo_layout_t layout = layout_of(RONDO_LAYOUT_ZIGZAG, (int64_t)ranks << 16, ranks);
    rondo_attention_desc_t desc = desc_of(&t->problem);
    rondo_plan_memory_t whole = RONDO_PLAN_MEMORY_INIT, cut = RONDO_PLAN_MEMORY_INIT;
    int bad;

    desc.batch = 1, desc.q_heads = 32, desc.kv_heads = 8, desc.qk_dim = desc.v_dim = 128;
    t->options.chunk_bytes = (int64_t)1 << 40;
    bad = expect(!rondo_plan_memory(comm, layout, &desc, &t->options, &whole), "%s", rondo_last_error());
    t->options.chunk_bytes = 2 << 20;
    bad += expect(!rondo_plan_memory(comm, layout, &desc, &t->options, &cut), "%s", rondo_last_error());
    bad += expect(cut.table_bytes > whole.table_bytes && cut.table_bytes < whole.table_bytes + (16 << 20),
                  "tables are of %zu bytes, and of %zu in chunks", whole.table_bytes, cut.table_bytes);
    if (rank == 0)
        fprintf(stderr, "# tables of 2 steps: %zu KiB whole, %zu KiB in chunks\n", whole.table_bytes >> 10,
                cut.table_bytes >> 10);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static void tables_do_not_grow_with_chunks_times_rows(void **state)
{
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;

    (void)state;
    options.schedule = "ring";
    options.backward = "none";
    options.binding = "copy";
    run(2, &shape, &options, chunked_tables_body);
}

/* Where the least rows of a piece are what counts, every length has room for its tiles. */
static int shorter_tables_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    const int64_t longest = (int64_t)ranks << 14;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, "self");
    int bad = 0;

    for (int kind = 0; kind < 3; kind++) {
        rondo_layout_t layout = layout_of((rondo_layout_kind_t)kind, longest, ranks);
        rondo_attention_desc_t desc = desc_of(&t->problem);
        rondo_plan_t plan = NULL;

        desc.batch = 1, desc.q_heads = 8, desc.kv_heads = 1, desc.qk_dim = desc.v_dim = 128;
        bad += expect(!rondo_attention_plan(comm, layout, &desc, &t->options, &plan), "%s", rondo_last_error());
        for (int64_t tokens = longest; plan && tokens > 0; tokens = tokens * 5 / 6 - 1)
            bad += expect(!rondo_plan_bind(plan, tokens, NULL, 0), "%s", rondo_last_error());
        rondo_plan_destroy(plan);
        rondo_layout_destroy(layout);
    }
    rondo_comm_destroy(comm);
    return bad;
}

static void every_shorter_length_has_room(void **state)
{
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;

    (void)state;
    options.schedule = "ring";
    options.backward = "none";
    options.binding = "copy";
    for (options.chunk_bytes = 16 << 10; options.chunk_bytes <= 4 << 20; options.chunk_bytes *= 4)
        run(2, &shape, &options, shorter_tables_body);
}

/* ---- a pool that cannot grow ---- */

static int start_forward(rondo_plan_t plan, const struct shard *s, rondo_request_t *request)
{
    rondo_attention_fwd_t fwd = shard_forward_tensors(s);

    return rondo_attention_forward(plan, &fwd, NULL, request);
}

/* Plan `first` still has one start at a time, and gives what it should. */
static int still_good(rondo_plan_t first, rondo_plan_t beside, const struct shard *s, const struct problem *p)
{
    rondo_request_t request = NULL, other = NULL;
    int bad = expect(!start_forward(first, s, &request), "forward: %s", rondo_last_error());

    bad += expect_error(start_forward(beside, s, &other), RONDO_ERR_BUSY, "1 of max_in_flight 1",
                        "on the communicator", "beside");
    bad += expect(!rondo_wait(&request, WAIT_MS), "wait: %s", rondo_last_error());
    bad += expect(!shard_backward(first, s), "backward: %s", rondo_last_error());
    return bad + expect(shard_forward_error(s, p) <= SHARD_BAR && shard_backward_error(s, p) <= SHARD_BAR,
                        "results are off");
}

/* The last rank has memory for one more allocation at each try, and keeps what it could get. */
static int grow_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, "self");
    rondo_layout_t layout = layout_of(RONDO_LAYOUT_ZIGZAG, t->problem.tokens, ranks);
    rondo_layout_t large = layout_of(RONDO_LAYOUT_ZIGZAG, 9 * t->problem.tokens, ranks);
    rondo_attention_desc_t desc = desc_of(&t->problem);
    rondo_plan_options_t options = t->options;
    rondo_plan_t plans[2] = { NULL, NULL }, plan = NULL;
    struct shard s;
    int bad = 0, err = -1, tries;

    shard_init(&s, layout, rank, &t->problem);
    for (int i = 0; i < 2; i++)
        bad += expect(!rondo_attention_plan(comm, layout, &desc, NULL, &plans[i]), "%s", rondo_last_error());
    for (tries = 0; err && tries < 20 && !bad; tries++) {
        aligned_fail_after(rank == ranks - 1 ? tries > 0 : -1);
        err = rondo_attention_plan(comm, large, &desc, &options, &plan);
        aligned_fail_after(-1);
        if (err)
            bad += expect_error(err, rank == ranks - 1 ? RONDO_ERR_MEMORY : RONDO_ERR_PEER, "out of memory",
                                NULL, "large plan") +
                   still_good(plans[0], plans[1], &s, &t->problem);
    }
    /* None; then partial o and lse, a larger arena, and two more of them. */
    bad += expect(tries == 6, "a plan was made at try %d", tries);
    bad += expect(!shard_both(plans[1], &s), "after all: %s", rondo_last_error());
    rondo_plan_destroy(plan);
    rondo_plan_destroy(plans[0]);
    rondo_plan_destroy(plans[1]);
    shard_release(&s);
    rondo_layout_destroy(layout);
    rondo_layout_destroy(large);
    rondo_comm_destroy(comm);
    return bad;
}

static void a_pool_that_cannot_grow_stays_as_it_was(void **state)
{
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;

    (void)state;
    options.max_in_flight = 3;
    options.kernel = partial_kernel();
    for (int ranks = 1; ranks <= 3; ranks++)
        run(ranks, &shape, &options, grow_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_what_a_plan_takes),
        cmocka_unit_test(a_ring_keeps_two_blocks),
        cmocka_unit_test(a_long_sequence_costs_its_shards),
        cmocka_unit_test(memory_refuses_each_argument),
        cmocka_unit_test(messages_that_cannot_be_numbered_are_refused),
        cmocka_unit_test(tables_do_not_grow_with_chunks_times_rows),
        cmocka_unit_test(every_shorter_length_has_room),
        cmocka_unit_test(a_pool_that_cannot_grow_stays_as_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
