/* SPDX-License-Identifier: Apache-2.0 */
/* The star of control connections comes together, whoever else comes to its port. */
#include "tests/unit/star.h"

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>

enum { STRAYS = 200 };

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

/* Rank `rank`, with so many descriptors more than now. */
struct poor {
    int rank, spare;
};

static int join_with_few(void *context)
{
    const struct poor *poor = context;
    struct ri_bootstrap *bootstrap = NULL;
    struct world world;
    struct rlimit limit;
    int64_t begin_ns = ri_now_ns();
    int next, err;

    world_init(&world);
    stray(&world, "x", 1); /* stays: rank 0 has somebody to accept */
    next = dup(STDERR_FILENO);
    close(next);
    limit.rlim_cur = limit.rlim_max = (rlim_t)(next + poor->spare);
    if (setrlimit(RLIMIT_NOFILE, &limit))
        return 2;
    err = join(&world, poor->rank, &bootstrap);
    return err != RONDO_ERR_SYSTEM || !strstr(rondo_last_error(), "(ulimit -n), which is") ||
           ri_now_ns() - begin_ns > 5000000000;
}

static void without_descriptors_a_rank_says_so_at_once(void **state)
{
    static char text[4096];

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(test_in_child(join_with_few, &(struct poor){ i / 2, i % 2 }, text, sizeof(text)), 0);
}

/* Rank 0 is a program of another kind, which answers everybody with the same words. */
static void meet_a_stranger(void *context, int rank)
{
    static const char words[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    struct world *world = context;
    struct ri_bootstrap *bootstrap = NULL;
    struct pollfd wait = { world->listen_fd, POLLIN, 0 };

    if (rank) {
        note(world, rank, join_until(world, rank, &bootstrap, ri_now_ns() + 1000000000));
        world->done++;
    }
    while (!rank && !world->done) {
        int fd = poll(&wait, 1, 20) > 0 ? accept(world->listen_fd, NULL, NULL) : -1;

        if (fd >= 0 && send(fd, words, sizeof(words), MSG_NOSIGNAL) < 0)
            perror("send");
        if (fd >= 0)
            close(fd);
    }
}

static void a_strangers_port_is_called_so(void **state)
{
    struct world world;

    (void)state;
    world_init(&world);
    test_threads(2, meet_a_stranger, &world);
    assert_int_equal(world.status[1], RONDO_ERR_TIMEOUT);
    assert_non_null(strstr(world.text[1], "the port answers, but not as this group"));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_are_ignored),
        cmocka_unit_test(a_crowd_is_ignored_and_logged_once),
        cmocka_unit_test(strangers_cannot_use_up_descriptors),
        cmocka_unit_test(without_descriptors_a_rank_says_so_at_once),
        cmocka_unit_test(a_strangers_port_is_called_so),
        cmocka_unit_test(a_rank_may_come_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
