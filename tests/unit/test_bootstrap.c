/* SPDX-License-Identifier: Apache-2.0 */
/* The star of control connections, among strangers, and with ranks that die. */
#include "tests/helper.h"
#include "tests/threads.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>

#include "base/clock.h"
#include "base/status.h"
#include "comm/bootstrap.h"
#include "comm/comm.h"

enum { RANKS = 4, STRAYS = 200 };

static const uint8_t token[RI_TOKEN_BYTES] = "sixteen of bytes";

/* What ranks, threads or processes, write down. */
struct world {
    struct ri_endpoint root;
    int listen_fd;
    int status[RANKS];
    char text[RANKS][256];
    int64_t took_ms[RANKS];
    atomic_int done;    /* ranks that have exchanged */
    int dying, dies_by; /* rank, and signal or 0: plain exit */
};

static void world_init(struct world *world)
{
    struct sockaddr_in *four = (struct sockaddr_in *)&world->root.address;

    memset(world, 0, sizeof(*world));
    four->sin_family = AF_INET;
    four->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    world->root.bytes = sizeof(*four);
    world->listen_fd = ri_tcp_listen(&world->root);
    assert_true(world->listen_fd >= 0);
    four->sin_port = htons((uint16_t)ri_tcp_port(world->listen_fd));
    world->dying = -1;
}

static int join(struct world *world, int rank, struct ri_bootstrap **bootstrap)
{
    struct ri_bootstrap_params params = {
        .rank = rank, .size = RANKS, .token = token, .listen_fd = world->listen_fd,
        .endpoints = &world->root, .endpoint_count = 1, .deadline_ns = ri_now_ns() + 15000000000,
    };

    return ri_bootstrap_create(&params, bootstrap);
}

static void note(struct world *world, int rank, int status)
{
    world->status[rank] = status;
    snprintf(world->text[rank], sizeof(world->text[rank]), "%s", status ? rondo_last_error() : "");
}

/* Comes together and exchanges once: rank r gives 3 r + 1. */
static void meet(void *context, int rank)
{
    struct world *world = context;
    struct ri_bootstrap *bootstrap = NULL;
    int64_t begin_ns = ri_now_ns();
    int mine = 3 * rank + 1, all[RANKS], err;

    err = join(world, rank, &bootstrap);
    if (!err)
        err = ri_bootstrap_allgather(bootstrap, &mine, sizeof(mine), all, ri_now_ns() + 15000000000);
    for (int r = 0; r < RANKS && !err; r++)
        if (all[r] != 3 * r + 1)
            err = ri_error(RONDO_ERR_INTERNAL, "rank %d gave %d", r, all[r]);
    note(world, rank, err);
    world->took_ms[rank] = (ri_now_ns() - begin_ns) / 1000000;
    ri_bootstrap_destroy(bootstrap);
}

static void all_met(const struct world *world, int64_t within_ms)
{
    for (int r = 0; r < RANKS; r++) {
        if (world->status[r])
            fail_msg("rank %d: %d %s", r, world->status[r], world->text[r]);
        if (world->took_ms[r] > within_ms)
            fail_msg("rank %d needed %d ms", r, (int)world->took_ms[r]);
    }
}

/* ---- strangers ---- */

static int stray(const struct world *world, const void *bytes, size_t count)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (fd < 0 || connect(fd, (const struct sockaddr *)&world->root.address, world->root.bytes) < 0)
        fail_msg("a stray cannot connect");
    if (count && send(fd, bytes, count, MSG_NOSIGNAL) != (ssize_t)count)
        fail_msg("a stray cannot send");
    return fd;
}

/* A frame as tcp.h describes it, by other code than tcp.c's. */
static size_t frame(uint8_t *to, const char *magic, int version, int kind, int rank, const char *of,
                    uint64_t bytes)
{
    memset(to, 0, RI_FRAME_HEAD_BYTES);
    memcpy(to, magic, 8);
    to[8] = (uint8_t)version;
    to[10] = (uint8_t)kind;
    to[12] = (uint8_t)rank;
    memcpy(to + 16, of, 16);
    for (int i = 0; i < 8; i++)
        to[32 + i] = (uint8_t)(bytes >> (8 * i));
    to[RI_FRAME_HEAD_BYTES] = RANKS;
    to[RI_FRAME_HEAD_BYTES + 1] = to[RI_FRAME_HEAD_BYTES + 2] = to[RI_FRAME_HEAD_BYTES + 3] = 0;
    return RI_FRAME_HEAD_BYTES + 4;
}

static const char good[] = "sixteen of bytes", bad[] = "sixteen or bytes";

struct stray_case {
    const char *magic;
    int version, kind, rank;
    const char *token;
    uint64_t bytes;
    size_t cut; /* how much of it is sent; 0: all */
};

static const struct stray_case cases[] = {
    { "RondoCtl", 1, RI_FRAME_HELLO, 2, bad, 4, 0 },             /* another job's */
    { "RondoCtx", 1, RI_FRAME_HELLO, 2, good, 4, 0 },
    { "GET / HT", 1, RI_FRAME_HELLO, 2, good, 4, 0 },
    { "RondoCtl", 9, RI_FRAME_HELLO, 2, good, 4, 0 },            /* another protocol */
    { "RondoCtl", 1, RI_FRAME_HELLO, 2, good, 1ull << 62, 0 },   /* a huge length */
    { "RondoCtl", 1, RI_FRAME_HELLO, 2, good, 5, 0 },
    { "RondoCtl", 1, RI_FRAME_HELLO, 2, good, 0, 0 },
    { "RondoCtl", 1, RI_FRAME_GATHER, 2, good, 4, 0 },
    { "RondoCtl", 1, RI_FRAME_GOODBYE, 2, good, 0, 0 },
    { "RondoCtl", 1, 99, 2, good, 4, 0 },
    { "RondoCtl", 1, RI_FRAME_HELLO, 2, good, 4, RI_FRAME_HEAD_BYTES },     /* and then silent */
    { "RondoCtl", 1, RI_FRAME_HELLO, 2, good, 4, RI_FRAME_HEAD_BYTES + 3 },
    { "RondoCtl", 1, RI_FRAME_HELLO, 2, good, 4, RI_FRAME_HEAD_BYTES - 1 },
};

/* Every kind once and silent afterwards, once closed; fds: those that stay open. */
static int send_strays(const struct world *world, int *fds)
{
    uint8_t bytes[RI_FRAME_HEAD_BYTES + 4];
    int count = 0;

    for (int closed = 0; closed < 2; closed++) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            const struct stray_case *it = &cases[i];
            size_t all = frame(bytes, it->magic, it->version, it->kind, it->rank, it->token, it->bytes);

            fds[count++] = stray(world, bytes, it->cut ? it->cut : all);
            if (closed)
                close(fds[--count]);
        }
        for (size_t n = 0; n < 8; n++) { /* 0 to 7 bytes */
            fds[count++] = stray(world, "RondoCt", n);
            if (closed)
                close(fds[--count]);
        }
    }
    return count;
}

static void strangers_are_ignored(void **state)
{
    struct test_thread threads[RANKS];
    struct world world;
    int fds[STRAYS], count;

    (void)state;
    world_init(&world);
    count = send_strays(&world, fds); /* before anyone listens */
    test_threads_start(threads, 2, meet, &world);
    count += send_strays(&world, fds + count); /* and while two ranks wait */
    for (int r = 2; r < RANKS; r++)
        test_thread_start(&threads[r], r, meet, &world);
    test_threads_join(threads, RANKS);
    all_met(&world, 4000); /* less than the 5 s a stranger may be silent */
    while (count)
        close(fds[--count]);
    close(world.listen_fd);
}

static int meet_among_crowd(void *context)
{
    struct world *world = context;
    int fds[STRAYS], failed = 0;

    for (int i = 0; i < STRAYS; i++)
        fds[i] = stray(world, "x", (size_t)(i % 2));
    test_threads(RANKS, meet, world);
    for (int r = 0; r < RANKS; r++)
        failed |= world->status[r] != 0 || world->took_ms[r] > 4000;
    for (int i = 0; i < STRAYS; i++)
        close(fds[i]);
    return failed;
}

static int count_lines(const char *text)
{
    int lines = 0;

    for (; (text = strchr(text, '\n')); text++)
        lines++;
    return lines;
}

static void a_crowd_is_ignored_and_logged_once(void **state)
{
    static char text[65536];
    struct world world;

    (void)state;
    world_init(&world);
    assert_int_equal(test_in_child(meet_among_crowd, &world, text, sizeof(text)), 0);
    assert_true(count_lines(text) <= 1);
    close(world.listen_fd);
}

/* Strangers first, who stay, and then ranks 1 to 3. */
static void crowd_and_ranks(struct world *world, int ready)
{
    struct test_thread threads[RANKS];

    for (int i = 0; i < STRAYS; i++)
        stray(world, NULL, 0);
    if (write(ready, "x", 1) != 1)
        _exit(1);
    for (int r = 1; r < RANKS; r++)
        test_thread_start(&threads[r], r, meet, world);
    test_threads_join(threads + 1, RANKS - 1);
    _exit(0);
}

/* More strangers than rank 0 has descriptors: they give way. */
static int meet_with_few_descriptors(void *context)
{
    struct world *world = context;
    struct rlimit limit = { 40, 40 };
    int ready[2];
    char byte;
    pid_t crowd;

    if (pipe(ready) || (crowd = fork()) < 0)
        return 2;
    if (crowd == 0)
        crowd_and_ranks(world, ready[1]);
    if (read(ready[0], &byte, 1) != 1 || setrlimit(RLIMIT_NOFILE, &limit))
        return 3;
    meet(world, 0);
    kill(crowd, SIGKILL);
    waitpid(crowd, NULL, 0);
    return world->status[0] != 0 || world->took_ms[0] > 4000;
}

static void strangers_cannot_use_up_descriptors(void **state)
{
    static char text[65536];
    struct world world;

    (void)state;
    world_init(&world);
    assert_int_equal(test_in_child(meet_with_few_descriptors, &world, text, sizeof(text)), 0);
    close(world.listen_fd);
}

/* A rank that said hello, died and comes again gets its place back. */
static void a_rank_may_come_again(void **state)
{
    uint8_t bytes[2 * (RI_FRAME_HEAD_BYTES + 4)];
    struct world world;
    size_t count;
    int twice;

    (void)state;
    world_init(&world);
    count = frame(bytes, "RondoCtl", 1, RI_FRAME_HELLO, 2, good, 4);
    close(stray(&world, bytes, count));
    close(stray(&world, bytes, count));
    memcpy(bytes + count, bytes, count); /* hello twice on one connection is nobody's habit */
    twice = stray(&world, bytes, 2 * count);
    test_threads(RANKS, meet, &world);
    all_met(&world, 4000);
    close(twice);
    close(world.listen_fd);
}

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
        cmocka_unit_test(strangers_are_ignored),
        cmocka_unit_test(a_crowd_is_ignored_and_logged_once),
        cmocka_unit_test(strangers_cannot_use_up_descriptors),
        cmocka_unit_test(a_rank_may_come_again),
        cmocka_unit_test(long_and_empty_exchanges_arrive),
        cmocka_unit_test(all_is_out_when_rank_0_turns_away),
        cmocka_unit_test(what_has_come_counts_after_the_deadline),
        cmocka_unit_test(unlike_sizes_are_named_by_all),
        cmocka_unit_test(a_killed_rank_is_named_by_all),
        cmocka_unit_test(an_exit_without_destroy_is_a_death),
        cmocka_unit_test(signals_do_not_disturb),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
