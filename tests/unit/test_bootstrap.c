/* SPDX-License-Identifier: Apache-2.0 */
/* The star of control connections: exchanges, and ranks that die. */
#include "tests/here.h"
#include "tests/unit/star.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/time.h>

/* ---- exchanges ---- */

static void exchange_much(void *context, int rank)
{
    enum { BYTES = 3000000 }; /* more than sockets hold */
    struct world *world = context;
    struct ri_bootstrap *bootstrap = NULL;
    char *mine = malloc(BYTES), *all = malloc((size_t)RANKS * BYTES);
    int err = join(world, rank, &bootstrap);

    for (int turn = 0; turn < 3 && !err && mine && all; turn++) {
        memset(mine, 'a' + rank + turn, BYTES);
        err = ri_bootstrap_allgather(bootstrap, mine, BYTES, all, ri_now_ns() + 15000000000);
        for (int r = 0; r < RANKS && !err; r++)
            if (all[(size_t)r * BYTES] != 'a' + r + turn || all[(size_t)(r + 1) * BYTES - 1] != 'a' + r + turn)
                err = ri_error(RONDO_ERR_INTERNAL, "part of %d is wrong", r);
    }
    if (!err)
        err = ri_bootstrap_allgather(bootstrap, NULL, 0, all, ri_now_ns() + 15000000000);
    note(world, rank, err);
    free(mine);
    free(all);
    ri_bootstrap_destroy(bootstrap);
}

static void long_and_empty_exchanges_arrive(void **state)
{
    struct world world;

    (void)state;
    world_init(&world);
    test_threads(RANKS, exchange_much, &world);
    all_met(&world, 15000);
    close(world.listen_fd);
}

/* Afterwards rank 0 looks at no connection until the others have all. */
static void exchange_and_be_busy(void *context, int rank)
{
    enum { BYTES = 8 << 20 };
    struct world *world = context;
    struct ri_bootstrap *bootstrap = NULL;
    char *mine = calloc(1, BYTES), *all = malloc((size_t)RANKS * BYTES);
    int64_t end_ns = ri_now_ns() + 10000000000;
    int err = mine && all ? join(world, rank, &bootstrap) : RONDO_ERR_MEMORY;

    if (!err) {
        mine[BYTES - 1] = (char)rank;
        err = ri_bootstrap_allgather(bootstrap, mine, BYTES, all, end_ns);
    }
    for (int r = 0; r < RANKS && !err; r++)
        if (all[(size_t)(r + 1) * BYTES - 1] != r)
            err = ri_error(RONDO_ERR_INTERNAL, "part of %d is wrong", r);
    note(world, rank, err);
    world->done++;
    while (rank == 0 && world->done < RANKS)
        sched_yield();
    free(mine);
    free(all);
    ri_bootstrap_destroy(bootstrap);
}

static void all_is_out_when_rank_0_turns_away(void **state)
{
    struct world world;

    (void)state;
    world_init(&world);
    test_threads(RANKS, exchange_and_be_busy, &world);
    all_met(&world, 15000);
    close(world.listen_fd);
}

/* Rank 0 comes after its deadline, when the others' parts are there. */
static void come_late(void *context, int rank)
{
    struct world *world = context;
    struct ri_bootstrap *bootstrap = NULL;
    int64_t end_ns = ri_now_ns() + 10000000000;
    int mine = rank, all[RANKS] = { 0 }, there = 0, bytes, err;

    err = join(world, rank, &bootstrap);
    while (rank == 0 && !err && there < RANKS - 1 && ri_now_ns() < end_ns) {
        there = 0;
        for (int r = 1; r < RANKS; r++)
            there += ioctl(bootstrap->peers[r].link.fd, FIONREAD, &bytes) == 0 &&
                     bytes == RI_FRAME_HEAD_BYTES + (int)sizeof(mine);
        sched_yield();
    }
    if (!err)
        err = ri_bootstrap_allgather(bootstrap, &mine, sizeof(mine), all, rank ? end_ns : ri_now_ns() - 1);
    for (int r = 0; r < RANKS && !err; r++)
        if (all[r] != r)
            err = ri_error(RONDO_ERR_INTERNAL, "rank %d gave %d", r, all[r]);
    note(world, rank, err);
    ri_bootstrap_destroy(bootstrap);
}

static void what_has_come_counts_after_the_deadline(void **state)
{
    struct world world;

    (void)state;
    world_init(&world);
    test_threads(RANKS, come_late, &world);
    all_met(&world, 15000);
    close(world.listen_fd);
}

static void exchange_unlike(void *context, int rank)
{
    struct world *world = context;
    struct ri_bootstrap *bootstrap = NULL;
    char mine[16] = "", all[RANKS * 16];
    int err = join(world, rank, &bootstrap);

    if (!err)
        err = ri_bootstrap_allgather(bootstrap, mine, rank == 3 ? 16 : 8, all, ri_now_ns() + 15000000000);
    note(world, rank, err);
    ri_bootstrap_destroy(bootstrap);
}

static void unlike_sizes_are_named_by_all(void **state)
{
    struct world world;

    (void)state;
    world_init(&world);
    test_threads(RANKS, exchange_unlike, &world);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(world.status[r], RONDO_ERR_MISMATCH);
        assert_non_null(strstr(world.text[r], "rank 3 exchanges 16 bytes where rank 0 expects 8"));
    }
    close(world.listen_fd);
}

/* Its time is over when rank 0 has said for whom it waits. */
static void wait_in_vain(void *context, int rank)
{
    struct world *world = context;
    struct ri_bootstrap *bootstrap = NULL;
    char mine = 0, all[RANKS];
    int err = join(world, rank, &bootstrap);

    if (everyone_is_here(&world->done, 2))
        err = RONDO_ERR_INTERNAL;
    if (!err)
        err = ri_bootstrap_allgather(bootstrap, &mine, 1, all, ri_now_ns());
    note(world, rank, err);
    ri_bootstrap_destroy(bootstrap);
}

/* The words of a rank 0 that is this thread. */
static void welcome_and_wait_for_rank_3(struct world *world)
{
    struct pollfd wait = { world->listen_fd, POLLIN, 0 };
    enum ri_link_event event = RI_LINK_IDLE;
    struct ri_link link;
    struct ri_frame frame;

    assert_int_equal(poll(&wait, 1, 15000), 1);
    wait.fd = accept(world->listen_fd, NULL, NULL);
    assert_true(wait.fd >= 0);
    ri_link_open(&link, wait.fd);
    while (event == RI_LINK_IDLE && poll(&wait, 1, 15000) == 1)
        event = ri_link_receive(&link, token, RI_TEXT_BYTES, &frame);
    assert_int_equal(event, RI_LINK_FRAME);
    assert_int_equal(frame.kind, RI_FRAME_HELLO);
    assert_int_equal(ri_link_send(&link, token, RI_FRAME_WELCOME, 0, NULL, 0), 0);
    assert_int_equal(ri_link_send(&link, token, RI_FRAME_WAITING, 0, "rank 3", 6), 0);
    assert_int_equal(everyone_is_here(&world->done, 2), 0);
    while (poll(&wait, 1, 15000) == 1 && ri_link_receive(&link, token, RI_TEXT_BYTES, &frame) != RI_LINK_CLOSED)
        ;
    ri_link_close(&link);
}

static void whom_rank_0_waits_for_is_named(void **state)
{
    struct test_thread thread;
    struct world world;

    (void)state;
    world_init(&world);
    test_thread_start(&thread, 1, wait_in_vain, &world);
    welcome_and_wait_for_rank_3(&world);
    test_threads_join(&thread, 1);
    assert_int_equal(world.status[1], RONDO_ERR_TIMEOUT);
    assert_non_null(strstr(world.text[1], "rank 3 did not come"));
    close(world.listen_fd);
}

/* ---- death ---- */

static void watch_until_failure(struct world *world, int rank)
{
    struct ri_bootstrap *bootstrap = NULL;
    char mine = 0, all[RANKS];
    int64_t end_ns = ri_now_ns() + 10000000000;
    int err = join(world, rank, &bootstrap);

    if (!err)
        err = ri_bootstrap_allgather(bootstrap, &mine, 1, all, end_ns);
    if (!err && rank == world->dying && world->dies_by)
        kill(getpid(), world->dies_by);
    if (!err && rank == world->dying)
        _exit(0);
    while (!err && ri_now_ns() < end_ns)
        err = ri_bootstrap_poll(bootstrap);
    note(world, rank, err);
    ri_bootstrap_destroy(bootstrap);
}

static void die(int rank, int by)
{
    struct world *world = mmap(NULL, sizeof(*world), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t children[RANKS];
    char text[64];

    assert_true(world != MAP_FAILED);
    world_init(world);
    world->dying = rank;
    world->dies_by = by;
    fflush(NULL);
    for (int r = 0; r < RANKS; r++) {
        children[r] = fork();
        if (children[r] == 0) {
            watch_until_failure(world, r);
            _exit(0);
        }
    }
    for (int r = 0; r < RANKS; r++)
        waitpid(children[r], NULL, 0);
    snprintf(text, sizeof(text), "rank %d is gone", rank);
    for (int r = 0; r < RANKS; r++) {
        if (r != rank && (world->status[r] != RONDO_ERR_PEER || !strstr(world->text[r], text)))
            fail_msg("rank %d: %d '%s'", r, world->status[r], world->text[r]);
    }
    close(world->listen_fd);
    munmap(world, sizeof(*world));
}

static void a_killed_rank_is_named_by_all(void **state)
{
    (void)state;
    for (int r = 0; r < RANKS; r++)
        die(r, SIGKILL);
}

static void an_exit_without_destroy_is_a_death(void **state)
{
    (void)state;
    die(0, 0);
    die(2, 0);
}

/* ---- signals ---- */

static void on_alarm(int number)
{
    (void)number;
}

static int meet_under_alarms(void *context)
{
    struct sigaction action = { .sa_handler = on_alarm }; /* no SA_RESTART */
    struct itimerval often = { { 0, 500 }, { 0, 500 } };
    struct world *world = context;
    int failed = 0;

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    test_threads(RANKS, exchange_much, world);
    for (int r = 0; r < RANKS; r++)
        failed |= world->status[r] != 0;
    return failed;
}

static void signals_do_not_disturb(void **state)
{
    static char text[4096];
    struct world world;

    (void)state;
    world_init(&world);
    assert_int_equal(test_in_child(meet_under_alarms, &world, text, sizeof(text)), 0);
    close(world.listen_fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_and_empty_exchanges_arrive),
        cmocka_unit_test(all_is_out_when_rank_0_turns_away),
        cmocka_unit_test(what_has_come_counts_after_the_deadline),
        cmocka_unit_test(unlike_sizes_are_named_by_all),
        cmocka_unit_test(whom_rank_0_waits_for_is_named),
        cmocka_unit_test(a_killed_rank_is_named_by_all),
        cmocka_unit_test(an_exit_without_destroy_is_a_death),
        cmocka_unit_test(signals_do_not_disturb),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
