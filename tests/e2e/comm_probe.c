/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks as processes, for comm.sh: comm_probe CASE [RANK].  Returns 0 when the case went as it should,
 * and says on standard error what it saw when not. */
#include <rondo/rondo.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    NOTICE_MS = 10000, /* how long a death may go unnoticed */
    MEET_MS = 30000
};

static rondo_comm_info_t me = RONDO_COMM_INFO_INIT;

static int complain(const char *what)
{
    fprintf(stderr, "rank %d: %s: %s\n", me.rank, what, rondo_last_error());
    return 1;
}

static int make_world(rondo_comm_t *comm)
{
    *comm = NULL;
    if (rondo_comm_create_env(NULL, comm) || rondo_comm_query(*comm, &me))
        return complain("no communicator");
    return 0;
}

static int barrier(rondo_comm_t comm, int timeout_ms)
{
    rondo_request_t request = NULL;
    int err = rondo_barrier(comm, NULL, &request);

    return err ? err : rondo_wait(&request, timeout_ms);
}

/* Outside Rondo: each rank writes a byte to the file MEETING, which is new for each job, and waits until all
 * have.  A barrier lets a rank go before the others have heard that they may; if that one then dies, the
 * barrier rightly fails on them. */
static int everyone_is_here(void)
{
    const char *name = getenv("MEETING");
    int fd = name ? open(name, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    struct stat file = { .st_size = 0 };
    int good = fd >= 0 && write(fd, "x", 1) == 1;

    for (int ms = 0; good && ms < MEET_MS && file.st_size < me.size; ms++) {
        good = fstat(fd, &file) == 0;
        if (file.st_size < me.size)
            poll(NULL, 0, 1);
    }
    if (fd >= 0)
        close(fd);
    if (good && file.st_size >= me.size)
        return 0;
    fprintf(stderr, "rank %d: %ld of %d ranks came to the file MEETING\n", me.rank, (long)file.st_size, me.size);
    return 1;
}

/* Two communicators one after the other, and who is where. */
static int meet(rondo_comm_t world, const char *argument)
{
    rondo_comm_t second;
    int err;

    (void)argument;
    if (barrier(world, -1))
        return complain("first barrier");
    if (make_world(&second))
        return 1;
    err = barrier(second, -1);
    rondo_comm_destroy(second);
    printf("%d/%d %d/%d %d/%d %s\n", me.rank, me.size, me.host, me.hosts, me.local_rank, me.local_size,
           me.transport);
    return err ? complain("second barrier") : 0;
}

/* The others wait in a barrier, and must hear who it is that does not come any more. */
static int expect_death(rondo_comm_t world, int rank)
{
    char text[64];
    struct timespec begin, end;
    int err;

    clock_gettime(CLOCK_MONOTONIC, &begin);
    err = barrier(world, 2 * NOTICE_MS);
    clock_gettime(CLOCK_MONOTONIC, &end);
    snprintf(text, sizeof(text), "rank %d", rank);
    if (err != RONDO_ERR_PEER || !strstr(rondo_last_error(), text))
        return complain("the death was not noticed as one of that rank");
    if ((end.tv_sec - begin.tv_sec) * 1000 > NOTICE_MS)
        return complain("the death was noticed late");
    if (barrier(world, 1000) != RONDO_ERR_PEER)
        return complain("a failed communicator is used again");
    printf("%d was told\n", me.rank);
    return 0;
}

static int one_is_killed(rondo_comm_t world, const char *argument)
{
    int rank = atoi(argument);

    if (barrier(world, -1))
        return complain("barrier");
    if (everyone_is_here())
        return 1;
    if (me.rank == rank)
        kill(getpid(), SIGKILL);
    return expect_death(world, rank);
}

/* A program that the dead rank has started lives on, and holds none of its connections. */
static int one_leaves_a_child(rondo_comm_t world, const char *argument)
{
    int rank = atoi(argument);

    if (barrier(world, -1))
        return complain("barrier");
    if (everyone_is_here())
        return 1;
    if (me.rank == rank) {
        pid_t child = fork();

        if (child == 0) {
            execlp("sleep", "sleep", "60", (char *)NULL);
            _exit(127);
        }
        kill(getpid(), SIGKILL);
    }
    return expect_death(world, rank);
}

static int one_exits(rondo_comm_t world, const char *argument)
{
    int rank = atoi(argument);

    if (barrier(world, -1))
        return complain("barrier");
    if (everyone_is_here())
        return 1;
    if (me.rank == rank)
        _exit(0);
    return expect_death(world, rank);
}

/* A communicator of the world's ranks in `ranks`, in that order; the id travels by broadcast. */
static int make_group(rondo_comm_t world, const int *ranks, int count, rondo_comm_t *group)
{
    rondo_request_t request = NULL;
    rondo_unique_id_t id;
    int mine = -1;

    for (int i = 0; i < count; i++)
        if (ranks[i] == me.rank)
            mine = i;
    memset(&id, 0, sizeof(id));
    if (mine == 0 && rondo_unique_id_get(&id))
        return complain("no id");
    if (rondo_broadcast(world, &id, sizeof(id), ranks[0], NULL, &request) || rondo_wait(&request, -1))
        return complain("no broadcast");
    *group = NULL;
    if (mine >= 0 && rondo_comm_create(&id, mine, count, NULL, group))
        return complain("no group");
    return 0;
}

/* Sums, over the group, (place + 1) * 10^(world rank): wrong peers give a wrong sum. */
static int sum_of_group(rondo_comm_t group, const int *ranks, int count)
{
    rondo_comm_info_t info = RONDO_COMM_INFO_INIT;
    rondo_request_t request = NULL;
    double mine = 1, sum = 0, expected = 0;

    if (rondo_comm_query(group, &info))
        return complain("query");
    for (int i = 0; i < count; i++) {
        double value = i + 1;

        for (int k = 0; k < ranks[i]; k++)
            value *= 10;
        expected += value;
        if (i == info.rank)
            mine = value;
    }
    if (rondo_all_reduce(group, &mine, &sum, 1, RONDO_F64, NULL, &request) || rondo_wait(&request, -1))
        return complain("all-reduce");
    if (sum != expected) {
        fprintf(stderr, "rank %d: the sum is %.0f, not %.0f\n", me.rank, sum, expected);
        return 1;
    }
    return 0;
}

static int uneven_groups(rondo_comm_t world, const char *argument)
{
    static const int first[] = { 5, 2, 7 }, second[] = { 0, 1, 3, 4, 6 };
    rondo_comm_t a, b;
    int err;

    (void)argument;
    if (make_group(world, first, 3, &a) || make_group(world, second, 5, &b))
        return 1;
    err = a ? sum_of_group(a, first, 3) : sum_of_group(b, second, 5);
    rondo_comm_destroy(a);
    rondo_comm_destroy(b);
    return err;
}

/* Ranks 2 and 3 never touch their group while 0 and 1 work in theirs. */
static int one_group_idles(rondo_comm_t world, const char *argument)
{
    static const int first[] = { 0, 1 }, second[] = { 2, 3 };
    rondo_comm_t a, b;
    int err = 0;

    (void)argument;
    if (make_group(world, first, 2, &a) || make_group(world, second, 2, &b))
        return 1;
    for (int i = 0; i < 50 && a && !err; i++)
        err = barrier(a, 5000);
    if (err)
        return complain("barrier of the group");
    err = barrier(world, -1);
    rondo_comm_destroy(a);
    rondo_comm_destroy(b);
    return err ? complain("barrier of the world") : 0;
}

/* Ranks 0 and 1 start A then B, ranks 2 and 3 B then A; then they wait for both. */
static int crossed_order(rondo_comm_t world, const char *argument)
{
    static const int all[] = { 0, 1, 2, 3 };
    rondo_comm_t pair[2];
    rondo_request_t requests[2] = { NULL, NULL };
    int first = me.rank >= 2, err;

    (void)argument;
    if (make_group(world, all, 4, &pair[0]) || make_group(world, all, 4, &pair[1]))
        return 1;
    err = rondo_barrier(pair[first], NULL, &requests[0]);
    if (!err)
        err = rondo_barrier(pair[!first], NULL, &requests[1]);
    for (int done = 0; !err && !done;) {
        int other;

        err = rondo_test(&requests[0], &done);
        if (!err)
            err = rondo_test(&requests[1], &other);
        done = done && other;
    }
    rondo_comm_destroy(pair[0]);
    rondo_comm_destroy(pair[1]);
    return err ? complain("two barriers in crossed order") : 0;
}

static int abort_reaches_all(rondo_comm_t world, const char *argument)
{
    int rank = atoi(argument), err;

    if (barrier(world, -1))
        return complain("barrier");
    if (everyone_is_here())
        return 1;
    if (me.rank == rank)
        return rondo_comm_abort(world) ? complain("abort") : 0;
    err = barrier(world, 2 * NOTICE_MS);
    if (err != RONDO_ERR_PEER || !strstr(rondo_last_error(), "rondo_comm_abort"))
        return complain("the abort was not heard");
    printf("%d was told\n", me.rank);
    return 0;
}

/* The creation itself must fail, with the text of the argument. */
static int refused(const char *text)
{
    rondo_comm_t world = NULL;

    if (rondo_comm_create_env(NULL, &world) == 0)
        return complain("there is a communicator");
    return strstr(rondo_last_error(), text) ? 0 : complain("another error");
}

static const struct {
    const char *name;
    int (*run)(rondo_comm_t world, const char *argument);
} cases[] = {
    { "meet", meet }, { "killed", one_is_killed }, { "exits", one_exits }, { "child", one_leaves_a_child },
    { "groups", uneven_groups }, { "idle", one_group_idles }, { "crossed", crossed_order },
    { "abort", abort_reaches_all },
};

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "", *argument = argc > 2 ? argv[2] : "0";
    rondo_comm_t world;
    int err;

    if (strcmp(name, "refused") == 0)
        return refused(argument);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strcmp(name, cases[i].name) != 0)
            continue;
        if (make_world(&world))
            return 1;
        err = cases[i].run(world, argument);
        rondo_comm_destroy(world);
        return err;
    }
    fprintf(stderr, "comm_probe: no case '%s'\n", name);
    return 2;
}
