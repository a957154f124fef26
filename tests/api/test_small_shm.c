/* SPDX-License-Identifier: Apache-2.0 */
/* A shared-memory mount that is too small is an error with numbers, or another transport; never a bus error
 * (NVIDIA/nccl#290, NVIDIA/nccl#342, NVIDIA/nccl#983).  Root alone may mount one. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>

#include "tests/api/shard.h"
#include "transport/transport.h"

enum { RANKS = 4, MIB = 1 << 20, BLOCK_BYTES = 32 * MIB };

/* A name that the linker gives: without it, all that is shared lies in /dev/shm. */
int __wrap_memfd_create(const char *name, unsigned flags);

int __wrap_memfd_create(const char *name, unsigned flags)
{
    (void)name, (void)flags;
    errno = ENOSYS;
    return -1;
}

struct test {
    struct meeting meeting;
    const char *transport;
    _Atomic int here[2], refused;
};

static int has_mount(const char *options)
{
    static int is_alone;

    if (!is_alone && (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL)))
        return 0;
    is_alone = 1;
    return mount("tmpfs", "/dev/shm", "tmpfs", 0, options) == 0;
}

/* Half of what four ranks ask for is there: who gets memory can use it to the end. */
static int blocks_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, t->transport);
    void *memory = NULL;
    int err = rondo_mem_alloc(comm, BLOCK_BYTES, &memory), bad = 0;

    if (err) {
        bad += expect_error(err, RONDO_ERR_MEMORY, "33554432 bytes", " are free", "alloc");
        atomic_fetch_add(&t->refused, 1);
    } else {
        memset(memory, rank, BLOCK_BYTES);
    }
    bad += expect(!everyone_is_here(&t->here[0], ranks), "ranks are missing");
    bad += expect(!rondo_mem_free(comm, memory), "free: %s", rondo_last_error());
    bad += expect(!everyone_is_here(&t->here[1], ranks), "ranks are missing");
    if (!bad) { /* the communicator is as good as before */
        struct problem p = { .batch = 1, .tokens = 13, .causal = 1, .q_heads = 2, .kv_heads = 1, .qk_dim = 8,
                             .v_dim = 8 };

        problem_init(&p, 9);
        bad += run_problem(comm, RONDO_LAYOUT_CONTIGUOUS, &p, NULL);
        problem_release(&p);
    }
    rondo_comm_destroy(comm);
    return bad;
}

static void blocks_that_do_not_fit_are_refused(void **state)
{
    struct test *t = shared_memory(sizeof(*t));

    (void)state;
    if (!ri_transport_find("shm") || !has_mount("size=64m"))
        skip();
    t->transport = "shm";
    assert_int_equal(run_ranks(RANKS, 1, 60, blocks_body, t), 0);
    assert_in_range(t->refused, 2, RANKS); /* two blocks, and what ranks meet in, are more than there is */
    umount("/dev/shm");
}

/* A plan needs 2 blocks of 16 MiB on each rank, in all twice as much as there is: an error on every rank. */
static int plan_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, t->transport);
    struct problem p = { .batch = 4096, .tokens = 4 * ranks, .q_heads = 1, .kv_heads = 1, .qk_dim = 128, .v_dim = 128 };
    rondo_layout_t layout = layout_of(RONDO_LAYOUT_CONTIGUOUS, p.tokens, ranks);
    rondo_attention_desc_t desc = desc_of(&p);
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    rondo_plan_t plan = NULL;
    int err, bad;

    options.schedule = "ring";
    options.binding = "copy";
    options.backward = "none";
    err = rondo_attention_plan(comm, layout, &desc, &options, &plan);
    bad = expect(err == RONDO_ERR_MEMORY || err == RONDO_ERR_PEER, "status %d: %s", err, rondo_last_error());
    bad += expect(strstr(rondo_last_error(), "bytes of shared memory, and ") != NULL, "no numbers in \"%s\"",
                  rondo_last_error());
    rondo_plan_destroy(plan);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static void a_plan_that_does_not_fit_is_an_error_on_all(void **state)
{
    struct test *t = shared_memory(sizeof(*t));

    (void)state;
    if (!ri_transport_find("shm") || !has_mount("size=64m"))
        skip();
    t->transport = "shm";
    assert_int_equal(run_ranks(RANKS, 1, 60, plan_body, t), 0);
    umount("/dev/shm");
}

/* UCX has no worker when it finds no room there, and so is told to do without; a rank may choose, or not. */
static int other_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, t->transport);
    rondo_comm_info_t info = RONDO_COMM_INFO_INIT;
    struct problem p = { .batch = 200, .tokens = 13, .causal = 1, .q_heads = 2, .kv_heads = 1, .qk_dim = 32,
                         .v_dim = 32 };
    int bad = expect(!rondo_comm_query(comm, &info), "query: %s", rondo_last_error());

    bad += expect(info.transport && strcmp(info.transport, "ucx") == 0, "another transport than ucx");
    problem_init(&p, 9);
    bad += run_problem(comm, RONDO_LAYOUT_CONTIGUOUS, &p, NULL);
    problem_release(&p);
    rondo_comm_destroy(comm);
    return bad;
}

static void ucx_does_without(void **state)
{
    static const char *const transports[] = { "auto", "ucx", "ucx" };
    static const char *const mounts[] = { "size=4k", "size=4k", "size=8m" };

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct test *t = shared_memory(sizeof(*t));

        if (!ri_transport_find("ucx") || !has_mount(mounts[i]))
            skip();
        t->transport = transports[i];
        assert_int_equal(run_ranks(RANKS, 1, 60, other_body, t), 0);
        umount("/dev/shm");
        shared_memory_release(t, sizeof(*t));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_that_do_not_fit_are_refused),
        cmocka_unit_test(a_plan_that_does_not_fit_is_an_error_on_all),
        cmocka_unit_test(ucx_does_without),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
