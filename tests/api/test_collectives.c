/* SPDX-License-Identifier: Apache-2.0 */
/* All-reduce, broadcast and barrier over threads (self) and processes (ucx), and communicators over
 * groups of a larger world. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tests/api/shard.h"
#include "tests/short.h"
#include "transport/transport.h"

enum { MAX_RANKS = 8, MAX_COUNT = 20002 };

struct test {
    struct meeting meeting;
    const char *transport;
    atomic_int counter, flag, seen;
    size_t count;
    rondo_dtype_t dtype;
    /* What ranks have got, to compare them bit by bit. */
    double results[MAX_RANKS][MAX_COUNT];
};

static int finish(int err, rondo_request_t *request, const char *what)
{
    if (!err)
        err = rondo_wait(request, WAIT_MS);
    return expect(!err, "%s: %s", what, rondo_last_error());
}

/* ---- all-reduce ---- */

/* Element i of rank r. */
static double element(int rank, size_t i)
{
    uint64_t seed = (uint64_t)rank << 32 | (uint32_t)i;

    return next_uniform(&seed) - 0.5;
}

static void store(void *vector, rondo_dtype_t dtype, size_t i, double x)
{
    if (dtype == RONDO_F64)
        ((double *)vector)[i] = x;
    else
        ((float *)vector)[i] = (float)x;
}

static double load(const void *vector, rondo_dtype_t dtype, size_t i)
{
    return dtype == RONDO_F64 ? ((const double *)vector)[i] : (double)((const float *)vector)[i];
}

/* Every partial sum is at most sum |x|, and is rounded once for each rank. */
static int check_sum(const void *sum, rondo_dtype_t dtype, int ranks, size_t i)
{
    double want = 0, size = 0, got = load(sum, dtype, i);

    for (int r = 0; r < ranks; r++) {
        double x = dtype == RONDO_F64 ? element(r, i) : (double)(float)element(r, i);

        want += x;
        size += fabs(x);
    }
    return expect(fabs(got - want) <= ranks * size * (dtype == RONDO_F64 ? DBL_EPSILON : FLT_EPSILON),
                  "element %zu over %d ranks is %.17g, not %.17g", i, ranks, got, want);
}

static int reduce_once(rondo_comm_t comm, struct test *t, int rank, int ranks, int in_place)
{
    size_t bytes = (t->count + 1) * sizeof(double);
    char *data = calloc(1, bytes), *copy = calloc(1, bytes);
    rondo_request_t request = NULL;
    void *result = t->results[rank];
    int bad;

    if (!data || !copy)
        return expect(0, "out of memory");
    for (size_t i = 0; i < t->count; i++)
        store(data, t->dtype, i, element(rank, i));
    memcpy(copy, data, bytes);
    memset(result, 0x7f, sizeof(t->results[rank]));
    if (in_place)
        memcpy(result, data, t->count * (t->dtype == RONDO_F64 ? 8 : 4));
    bad = finish(rondo_all_reduce(comm, in_place ? result : data, result, t->count, t->dtype, NULL, &request),
                 &request, "all-reduce");
    for (size_t i = 0; i < t->count && !bad; i++)
        bad += check_sum(result, t->dtype, ranks, i);
    bad += expect(memcmp(data, copy, bytes) == 0, "all-reduce wrote its input");
    bad += expect(((unsigned char *)result)[t->count * (t->dtype == RONDO_F64 ? 8 : 4)] == 0x7f,
                  "all-reduce of %zu wrote beyond its end", t->count);
    free(data);
    free(copy);
    return bad;
}

/* All ranks have come here, and see what each has written: a barrier over UCX orders that, too, but thread
 * sanitizer does not see into UCX. */
static void gather_ranks(rondo_comm_t comm, struct test *t)
{
    rondo_request_t request = NULL;

    atomic_fetch_add(&t->seen, 1);
    if (finish(rondo_barrier(comm, NULL, &request), &request, "barrier"))
        exit(1);
    atomic_load(&t->seen);
}

static int all_reduce_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, t->transport);
    size_t counts[] = { 0, 1, (size_t)ranks - 1, (size_t)ranks, 2 * (size_t)ranks + 1, 997, MAX_COUNT - 1 };
    int bad = 0;

    for (int i = 0; i < 7 * 2 * 2 && !bad; i++) {
        gather_ranks(comm, t);
        if (rank == 0) {
            t->count = counts[i / 4];
            t->dtype = i & 1 ? RONDO_F64 : RONDO_F32;
        }
        gather_ranks(comm, t);
        bad += reduce_once(comm, t, rank, ranks, i & 2);
        gather_ranks(comm, t);
        bad += expect(memcmp(t->results[rank], t->results[0], sizeof(t->results[0])) == 0,
                      "%zu elements: rank %d has other bits than rank 0", t->count, rank);
    }
    rondo_comm_destroy(comm);
    return bad;
}

static void run(const char *transport, int ranks, int (*body)(int, int, void *))
{
    struct test *t = shared_memory(sizeof(*t));

    if (!ri_transport_find(transport))
        skip();
    t->transport = transport;
    assert_int_equal(run_ranks(ranks, ranks_want_processes(transport), 100, body, t), 0);
}

static void all_reduce_is_the_sum_with_equal_bits(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= MAX_RANKS; ranks++)
        run("self", ranks, all_reduce_body);
}

static void all_reduce_between_processes(void **state)
{
    (void)state;
    run("ucx", 3, all_reduce_body);
}

/* ---- broadcast ---- */

static int broadcast_once(rondo_comm_t comm, int rank, int root, size_t bytes)
{
    unsigned char *buffer = malloc(bytes + 1);
    rondo_request_t request = NULL;
    int bad;

    if (!buffer)
        return expect(0, "out of memory");
    for (size_t i = 0; i <= bytes; i++)
        buffer[i] = rank == root ? (unsigned char)(i * 7 + (size_t)root) : 0xee;
    buffer[bytes] = 0xdd;
    bad = finish(rondo_broadcast(comm, bytes ? buffer : NULL, bytes, root, NULL, &request), &request,
                 "broadcast");
    for (size_t i = 0; i < bytes && !bad; i++)
        bad += expect(buffer[i] == (unsigned char)(i * 7 + (size_t)root), "byte %zu of %zu from root %d on %d",
                      i, bytes, root, rank);
    bad += expect(buffer[bytes] == 0xdd, "broadcast of %zu wrote beyond its end", bytes);
    free(buffer);
    return bad;
}

static int broadcast_body(int rank, int ranks, void *arg)
{
    static const size_t sizes[] = { 0, 1, 7, 4099, 300001 };
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, t->transport);
    int bad = 0;

    for (int root = 0; root < ranks && !bad; root++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
            bad += broadcast_once(comm, rank, root, sizes[i]);
    rondo_comm_destroy(comm);
    return bad;
}

static void broadcast_reaches_all_from_every_root(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= MAX_RANKS; ranks++)
        run("self", ranks, broadcast_body);
}

static void broadcast_between_processes(void **state)
{
    (void)state;
    run("ucx", 4, broadcast_body);
}

/* ---- barrier ---- */

/* Rank `late` starts only when every other rank has asked a hundred times, and was told: not yet. */
static int barrier_with(rondo_comm_t comm, struct test *t, int rank, int ranks, int late)
{
    rondo_request_t request = NULL;
    int bad = 0, done = 0;

    if (rank == late) {
        while (atomic_load(&t->counter) < ranks - 1)
            sched_yield();
        atomic_store(&t->flag, 1);
        return finish(rondo_barrier(comm, NULL, &request), &request, "barrier");
    }
    bad += expect(rondo_barrier(comm, NULL, &request) == 0, "barrier: %s", rondo_last_error());
    for (int i = 0; i < 100 && !bad; i++) {
        bad += expect(rondo_test(&request, &done) == 0, "test: %s", rondo_last_error());
        bad += expect(!done, "the barrier let rank %d pass without rank %d", rank, late);
    }
    atomic_fetch_add(&t->counter, 1);
    bad += finish(0, &request, "barrier");
    return bad + expect(atomic_load(&t->flag) == 1, "rank %d passed before rank %d came", rank, late);
}

static int barrier_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, t->transport);
    int bad = 0;

    for (int late = 0; late < ranks && !bad; late++) {
        bad += barrier_with(comm, t, rank, ranks, late);
        gather_ranks(comm, t);
        if (rank == 0) {
            atomic_store(&t->counter, 0);
            atomic_store(&t->flag, 0);
        }
        gather_ranks(comm, t);
    }
    rondo_comm_destroy(comm);
    return bad;
}

static void barrier_waits_for_every_rank(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 6; ranks++)
        run("self", ranks, barrier_body);
}

static void barrier_between_processes(void **state)
{
    (void)state;
    run("ucx", 3, barrier_body);
}

/* ---- many in a row ---- */

static int mixed_once(rondo_comm_t comm, int rank, int ranks, uint64_t *seed)
{
    size_t count = (size_t)(next_uniform(seed) * 40);
    int kind = (int)(next_uniform(seed) * 3), root = (int)(next_uniform(seed) * ranks), bad;
    rondo_request_t request = NULL;
    double data[40], sum[40];

    for (size_t i = 0; i < 40; i++)
        data[i] = rank + (double)i;
    if (kind == 0)
        return finish(rondo_barrier(comm, NULL, &request), &request, "barrier");
    if (kind == 1) {
        bad = finish(rondo_broadcast(comm, data, count * sizeof(double), root, NULL, &request), &request,
                     "broadcast");
        return bad + expect(count == 0 || data[count - 1] == root + (double)count - 1, "broadcast in a row");
    }
    bad = finish(rondo_all_reduce(comm, data, sum, count, RONDO_F64, NULL, &request), &request, "all-reduce");
    for (size_t i = 0; i < count; i++)
        bad += expect(sum[i] == ranks * (double)i + ranks * (ranks - 1) / 2.0, "all-reduce in a row");
    return bad;
}

static int mixed_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, t->transport);
    uint64_t seed = 5;
    int bad = 0, count = test_is_short() ? 100 : 1000;

    for (int i = 0; i < count && !bad; i++)
        bad += mixed_once(comm, rank, ranks, &seed);
    rondo_comm_destroy(comm);
    return bad;
}

static void a_thousand_in_a_row(void **state)
{
    (void)state;
    run("self", 4, mixed_body);
}

static void a_thousand_in_a_row_between_processes(void **state)
{
    (void)state;
    run("ucx", 3, mixed_body);
}

/* ---- groups of a world (modelscope/ms-swift PR 9509, OpenRLHF#876) ---- */

enum { WORLD = 8, GROUPS = 2 };
static const int groups[GROUPS][WORLD] = { { 5, 2, 7, -1 }, { 0, 1, 3, 4, 6, -1 } };
static const int group_sizes[GROUPS] = { 3, 5 };

struct world {
    struct meeting all, group[GROUPS];
    struct problem problem;
    atomic_int finished;
};

static int place_in_group(int rank, int *group)
{
    for (*group = 0; *group < GROUPS; (*group)++)
        for (int i = 0; i < group_sizes[*group]; i++)
            if (groups[*group][i] == rank)
                return i;
    return -1;
}

static int groups_body(int rank, int ranks, void *arg)
{
    struct world *w = arg;
    int group, place = place_in_group(rank, &group), size = group_sizes[group];
    rondo_comm_t all = comm_of(&w->all, rank, ranks, "self");
    rondo_comm_t mine = comm_of(&w->group[group], place, size, "self");
    double in[2] = { 1 << rank, 1 }, world_sum[2], sum[2], want = 0, first = rank;
    rondo_request_t a = NULL, b = NULL;
    int bad = 0;

    for (int i = 0; i < size; i++)
        want += 1 << groups[group][i];
    for (int i = 0; i < 20 && !bad; i++) { /* both at the same time */
        bad += expect(!rondo_all_reduce(all, in, world_sum, 2, RONDO_F64, NULL, &a) &&
                          !rondo_all_reduce(mine, in, sum, 2, RONDO_F64, NULL, &b),
                      "all-reduce: %s", rondo_last_error());
        bad += finish(0, &b, "group") + finish(0, &a, "world");
        bad += expect(sum[0] == want && sum[1] == size, "rank %d: the sum of its group is %g", rank, sum[0]);
        bad += expect(world_sum[0] == 255 && world_sum[1] == WORLD, "the world's sum is %g", world_sum[0]);
    }
    bad += finish(rondo_broadcast(mine, &first, sizeof(first), size - 1, NULL, &b), &b, "broadcast");
    bad += expect(first == groups[group][size - 1], "the last of group %d is %g", group, first);
    bad += run_problem(mine, RONDO_LAYOUT_ZIGZAG, &w->problem, NULL);
    bad += run_problem(all, RONDO_LAYOUT_STRIPED, &w->problem, NULL);
    rondo_comm_destroy(all);
    bad += run_problem(mine, RONDO_LAYOUT_CONTIGUOUS, &w->problem, NULL);
    rondo_comm_destroy(mine);
    return bad;
}

static void groups_work_beside_each_other(void **state)
{
    struct world *w = shared_memory(sizeof(*w));

    (void)state;
    w->problem = (struct problem){ .batch = 1, .tokens = 37, .causal = 1, .q_heads = 2, .kv_heads = 2,
                                   .qk_dim = 8, .v_dim = 8 };
    problem_init(&w->problem, 3);
    assert_int_equal(run_ranks(WORLD, 0, 60, groups_body, w), 0);
    problem_release(&w->problem);
}

/* Only the first group calls; the second has started nothing until the first has finished. */
static int one_group_body(int rank, int ranks, void *arg)
{
    struct world *w = arg;
    rondo_comm_t comm = comm_of(&w->group[rank / 2], rank % 2, ranks / 2, "self");
    rondo_request_t request = NULL;
    int bad = 0;

    while (rank >= 2 && atomic_load(&w->finished) < 2)
        sched_yield();
    for (int i = 0; i < 200 && !bad; i++)
        bad += finish(rondo_barrier(comm, NULL, &request), &request, "barrier");
    atomic_fetch_add(&w->finished, 1);
    rondo_comm_destroy(comm);
    return bad;
}

static void a_group_needs_no_other(void **state)
{
    struct world *w = shared_memory(sizeof(*w));

    (void)state;
    assert_int_equal(run_ranks(4, 0, 60, one_group_body, w), 0);
    assert_int_equal(atomic_load(&w->finished), 4);
}

/* ---- no memory on one rank ---- */

static _Thread_local int no_memory;

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);

void *__wrap_calloc(size_t count, size_t bytes)
{
    return no_memory ? NULL : __real_calloc(count, bytes);
}

static int no_memory_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, t->transport);
    rondo_request_t request = NULL;
    int odd = rank == ranks - 1, bad, err;

    if (everyone_is_here(&t->counter, ranks)) /* the failure is the barrier's, not the making's */
        return 1;
    no_memory = odd;
    err = rondo_barrier(comm, NULL, &request);
    no_memory = 0;
    if (!err)
        err = rondo_wait(&request, WAIT_MS);
    bad = expect_error(err, odd ? RONDO_ERR_MEMORY : RONDO_ERR_PEER, "out of memory for collectives", NULL,
                       "barrier without memory");
    rondo_comm_destroy(comm);
    return bad;
}

static void a_rank_without_memory_is_an_error_on_all(void **state)
{
    (void)state;
    run("self", 3, no_memory_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_reduce_is_the_sum_with_equal_bits),
        cmocka_unit_test(all_reduce_between_processes),
        cmocka_unit_test(broadcast_reaches_all_from_every_root),
        cmocka_unit_test(broadcast_between_processes),
        cmocka_unit_test(barrier_waits_for_every_rank),
        cmocka_unit_test(barrier_between_processes),
        cmocka_unit_test(a_thousand_in_a_row),
        cmocka_unit_test(a_thousand_in_a_row_between_processes),
        cmocka_unit_test(groups_work_beside_each_other),
        cmocka_unit_test(a_group_needs_no_other),
        cmocka_unit_test(a_rank_without_memory_is_an_error_on_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
