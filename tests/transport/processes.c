/* SPDX-License-Identifier: Apache-2.0 */
/* Transports between processes, and when one of them is killed.  The parent forks the ranks, reaps them
 * and never calls a transport itself. */
#include "bench.h"

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "build-config.h"

enum { ranks_max = 4, address_max = 4096, wait_s = 30 };

/* Shared by all ranks of a test. */
struct board {
    _Atomic int opened, ready, gone; /* ranks that have opened; that are ready; that were reaped */
    size_t address_bytes[ranks_max];
    char address[ranks_max][address_max];
};

struct rank {
    struct board *board;
    int rank, ranks;
    int hosts; /* 1: all on one; else each on its own, as the transport is told */
    const struct ri_transport_ops *ops;
    struct ri_transport *transport;
};

static struct board *new_board(void)
{
    struct board *board =
        mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(board, MAP_FAILED);
    return board;
}

/* In a rank nothing may assert: it says what is wrong and exits. */
static void require(int good, const struct rank *rank, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "rank %d: %s: %s\n", rank->rank, what, rondo_last_error());
    _exit(1);
}

/* Until *count >= goal, moving messages when there is a transport. */
static void wait_for(struct rank *rank, _Atomic int *count, int goal)
{
    int64_t deadline_ns = ri_now_ns() + wait_s * INT64_C(1000000000);

    while (*count < goal) {
        require(ri_now_ns() < deadline_ns, rank, "others did not come");
        if (rank->transport)
            rank->ops->progress(rank->transport);
        poll(NULL, 0, 1);
    }
}

static void join(struct rank *rank)
{
    static const struct ri_config config;
    int32_t host[ranks_max];
    uint8_t token[16] = "processes";
    struct ri_transport_params params = { .rank = rank->rank, .ranks = rank->ranks, .token = token,
                                          .host = host, .config = &config };
    struct board *board = rank->board;
    const void *addresses[ranks_max], *address;
    size_t bytes;

    for (int r = 0; r < rank->ranks; r++)
        host[r] = rank->hosts > 1 ? r : 0;
    require(!rank->ops->open(&params, &rank->transport, &address, &bytes), rank, "open");
    require(bytes <= address_max, rank, "address too long");
    memcpy(board->address[rank->rank], address, bytes);
    board->address_bytes[rank->rank] = bytes;
    board->opened++;
    wait_for(rank, &board->opened, rank->ranks);
    for (int r = 0; r < rank->ranks; r++)
        addresses[r] = board->address[r];
    require(!rank->ops->connect(rank->transport, addresses, board->address_bytes,
                                      ri_now_ns() + INT64_C(10000000000)),
            rank, "connect");
}

static void post(struct rank *rank, struct ri_xfer *xfers, int n)
{
    for (int i = 0; i < n; i++) {
        struct ri_xfer *xfer = &xfers[i];

        require(!rank->ops->post(rank->transport, &xfer, 1), rank, "post");
    }
}

/* Once a transport knows that the peer is dead, it refuses; that is well. */
static void post_to_the_dead(struct rank *rank, struct ri_xfer *xfers, int n)
{
    for (int i = 0; i < n; i++) {
        struct ri_xfer *xfer = &xfers[i];
        int err = rank->ops->post(rank->transport, &xfer, 1);

        require(err == 0 || err == RONDO_ERR_PEER, rank, "post to a dead peer");
        require(err == 0 || xfer->state == RI_XFER_IDLE, rank, "refused, but posted");
    }
}

static void finish(struct rank *rank, const struct ri_xfer *xfers, int n)
{
    struct pollfd wait = { rank->ops->event_fd(rank->transport), POLLIN, 0 };
    int64_t deadline_ns = ri_now_ns() + wait_s * INT64_C(1000000000);

    for (int i = 0; i < n; i++) {
        while (xfers[i].state == RI_XFER_POSTED) {
            require(ri_now_ns() < deadline_ns, rank, "message still posted");
            if (!rank->ops->progress(rank->transport) &&
                rank->ops->arm(rank->transport))
                poll(&wait, 1, 100);
        }
        require(xfers[i].state == RI_XFER_DONE, rank, "message failed");
    }
}

static pid_t start(const char *transport, struct board *board, int rank, int ranks, int hosts,
                   void (*body)(struct rank *))
{
    struct rank self = { board, rank, ranks, hosts, ri_transport_find(transport), NULL };
    pid_t pid = fork();

    assert_int_not_equal(pid, -1);
    if (pid)
        return pid;
    alarm(60);
    body(&self);
    _exit(0);
}

static void expect_success(pid_t pid)
{
    int status = -1;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* Everybody is done before anybody closes, as the communicator sees to it. */
static void part(struct rank *rank)
{
    rank->board->ready++;
    wait_for(rank, &rank->board->ready, rank->ranks);
    rank->ops->close(rank->transport);
}

static void ring_body(struct rank *rank)
{
    static const size_t sizes[] = { 1, 8192, 1000003 };
    int next = (rank->rank + 1) % rank->ranks;
    int previous = (rank->rank + rank->ranks - 1) % rank->ranks;
    char *out = malloc(sizes[2]), *in = malloc(sizes[2]);

    join(rank);
    for (uint64_t round = 0; round < 30; round++) {
        size_t bytes = sizes[round % 3];
        struct ri_xfer xfers[2] = { bench_send(next, round, out, bytes),
                                    bench_receive(previous, round, in, bytes) };

        bench_fill(out, bytes, round * 8 + (uint64_t)rank->rank);
        post(rank, xfers, 2);
        finish(rank, xfers, 2);
        require(bench_filled(in, bytes, round * 8 + (uint64_t)previous), rank, "other bytes");
    }
    part(rank);
    free(out);
    free(in);
}

static int64_t close_timed(struct rank *rank)
{
    int64_t start_ns = ri_now_ns();

    rank->ops->close(rank->transport);
    rank->transport = NULL;
    return ri_now_ns() - start_ns;
}

/* All at once: soon.  UCX's flush over TCP needs the peer's progress. */
static void close_together_body(struct rank *rank)
{
    join(rank);
    rank->board->ready++;
    wait_for(rank, &rank->board->ready, rank->ranks);
    require(close_timed(rank) < INT64_C(1000000000), rank, "close took over 1 s");
}

/* One before the others, which do not call the transport meanwhile: in bounded time. */
static void close_first_body(struct rank *rank)
{
    join(rank);
    rank->board->ready++;
    wait_for(rank, &rank->board->ready, rank->ranks);
    if (rank->rank > 0) {
        struct ri_transport *asleep = rank->transport;

        rank->transport = NULL;
        wait_for(rank, &rank->board->gone, 1);
        rank->transport = asleep;
    }
    require(close_timed(rank) < INT64_C(4000000000), rank, "close took over 4 s");
    rank->board->gone = 1;
}

/* How many the transport reaches. */
static int hosts_of(const char *transport)
{
    return strcmp(transport, "shm") == 0 ? 1 : 2;
}

static void run_all(const char *transport, int hosts, void (*body)(struct rank *))
{
    struct board *board = new_board();
    pid_t pids[ranks_max];

    for (int r = 0; r < ranks_max; r++)
        pids[r] = start(transport, board, r, ranks_max, hosts, body);
    for (int r = 0; r < ranks_max; r++)
        expect_success(pids[r]);
    munmap(board, sizeof(*board));
}

static void turns_a_ring_inside_a_host(void **state)
{
    run_all(*state, 1, ring_body);
}

#ifdef HAVE_UCX
static void turns_a_ring_between_hosts(void **state)
{
    run_all(*state, 2, ring_body);
}
#endif

static void closes_soon_when_all_do(void **state)
{
    run_all(*state, 1, close_together_body);
    if (hosts_of(*state) > 1)
        run_all(*state, 2, close_together_body);
}

static void closes_while_others_sleep(void **state)
{
    run_all(*state, 1, close_first_body);
    if (hosts_of(*state) > 1)
        run_all(*state, 2, close_first_body);
}

enum { large = 1 << 20, small = 4096, smalls = 500 };

static void run_for(struct rank *rank, int64_t time_ns)
{
    int64_t end_ns = ri_now_ns() + time_ns;

    while (ri_now_ns() < end_ns)
        if (!rank->ops->progress(rank->transport))
            poll(NULL, 0, 1);
}

/* Sends what the survivor will ask for only when this rank is dead. */
static void victim_body(struct rank *rank)
{
    char *memory = bench_memory(large);
    struct ri_xfer xfers[2] = { bench_send(0, 1, memory, large), bench_send(0, 2, memory, small) };

    join(rank);
    post(rank, xfers, 2);
    rank->board->ready++;
    wait_for(rank, &rank->board->ready, 2);
    run_for(rank, 50000000); /* so that the survivor has heard of them */
    kill(getpid(), SIGKILL);
}

static void end_within_5_s(struct rank *rank, struct ri_xfer *xfers, int n)
{
    int64_t start_ns = ri_now_ns();

    run_for(rank, 300000000);
    for (int i = 0; i < n; i++) {
        struct ri_xfer *xfer = &xfers[i];

        rank->ops->cancel(rank->transport, &xfer, 1);
        require(xfer->state != RI_XFER_POSTED, rank, "message posted after cancel");
    }
    rank->ops->close(rank->transport);
    require(ri_now_ns() - start_ns < INT64_C(5000000000), rank, "cancel and close took over 5 s");
}

/* Large and small, to and from a dead peer, some posted before it died and some after. */
static void survivor_body(struct rank *rank)
{
    enum { count = 6 + smalls };
    struct ri_xfer *xfers = bench_memory(count * sizeof(*xfers));
    char *out = bench_memory(large), *in[4];

    for (int i = 0; i < 4; i++)
        in[i] = bench_memory(large);
    xfers[0] = bench_receive(1, 7, in[0], large);
    xfers[1] = bench_send(1, 8, out, large);
    xfers[2] = bench_receive(1, 1, in[1], large);
    xfers[3] = bench_receive(1, 2, in[2], small);
    xfers[4] = bench_receive(1, 9, in[3], small);
    xfers[5] = bench_send(1, 10, out, large);
    for (int i = 0; i < smalls; i++)
        xfers[6 + i] = bench_send(1, 11 + (uint64_t)i, out, small);
    join(rank);
    post(rank, xfers, 2);
    rank->board->ready++;
    wait_for(rank, &rank->board->gone, 1);
    post_to_the_dead(rank, xfers + 2, count - 2);
    end_within_5_s(rank, xfers, count);
    for (int i = 0; i < 4; i++)
        free(in[i]);
    free(out);
    free(xfers);
}

static void kill_a_peer(const char *transport, int hosts)
{
    struct board *board = new_board();
    pid_t survivor = start(transport, board, 0, 2, hosts, survivor_body);
    pid_t victim = start(transport, board, 1, 2, hosts, victim_body);
    int status = 0;

    assert_int_equal(waitpid(victim, &status, 0), victim);
    board->gone = 1;
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    expect_success(survivor);
    munmap(board, sizeof(*board));
}

static void outlives_a_killed_peer_of_its_host(void **state)
{
    kill_a_peer(*state, 1);
}

#ifdef HAVE_UCX
static void outlives_a_killed_peer_of_another_host(void **state)
{
    kill_a_peer(*state, 2);
}

enum { bulk = 32 << 20, bulks = 3 };

/* Dies while the survivor sends what it has posted receives for. */
static void dying_receiver_body(struct rank *rank)
{
    char *memory = bench_memory((size_t)bulks * bulk);
    struct ri_xfer xfers[bulks];

    for (int i = 0; i < bulks; i++)
        xfers[i] = bench_receive(0, (uint64_t)i, memory + (size_t)i * bulk, bulk);
    join(rank);
    post(rank, xfers, bulks);
    for (int64_t end_ns = ri_now_ns() + wait_s * INT64_C(1000000000); memory[0] != 1;) {
        require(ri_now_ns() < end_ns, rank, "nothing comes");
        rank->ops->progress(rank->transport);
    }
    kill(getpid(), SIGKILL);
}

static void sender_body(struct rank *rank)
{
    char *memory = bench_memory((size_t)bulks * bulk);
    struct ri_xfer xfers[bulks];
    int64_t end_ns;

    memset(memory, 1, (size_t)bulks * bulk);
    for (int i = 0; i < bulks; i++)
        xfers[i] = bench_send(1, (uint64_t)i, memory + (size_t)i * bulk, bulk);
    join(rank);
    post(rank, xfers, bulks);
    end_ns = ri_now_ns() + INT64_C(10000000000);
    for (int i = 0; i < bulks; i++) {
        while (xfers[i].state == RI_XFER_POSTED) {
            require(ri_now_ns() < end_ns, rank, "a message to a dead peer is posted after 10 s");
            rank->ops->progress(rank->transport);
        }
        require(xfers[i].state == RI_XFER_DONE || xfers[i].status == RONDO_ERR_PEER, rank, "other failure");
    }
    require(xfers[bulks - 1].state == RI_XFER_FAILED, rank, "the last message is done");
    rank->ops->close(rank->transport);
    free(memory);
}

static void fails_what_is_sent_to_a_dying_peer(void **state)
{
    struct board *board = new_board();
    pid_t survivor = start(*state, board, 0, 2, 2, sender_body);
    pid_t victim = start(*state, board, 1, 2, 2, dying_receiver_body);
    int status = 0;

    assert_int_equal(waitpid(victim, &status, 0), victim);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    expect_success(survivor);
    munmap(board, sizeof(*board));
}
#endif

static void late_body(struct rank *rank)
{
    static const struct ri_config config;
    int32_t host[2] = { 0, rank->hosts - 1 };
    uint8_t token[16] = "never comes";
    struct ri_transport_params params = { .ranks = 2, .token = token, .host = host, .config = &config };
    const void *addresses[2];
    size_t bytes[2];
    int64_t start_ns = ri_now_ns();
    struct ri_transport *other;

    require(!rank->ops->open(&params, &rank->transport, &addresses[0], &bytes[0]), rank,
            "open");
    params.rank = 1;
    require(!rank->ops->open(&params, &other, &addresses[1], &bytes[1]), rank, "open");
    require(rank->ops->connect(rank->transport, addresses, bytes, start_ns + 200000000) ==
                RONDO_ERR_TIMEOUT,
            rank, "connect to a peer that sleeps");
    require(ri_now_ns() - start_ns < 1000000000, rank, "connect took 0.8 s longer than it should");
    require(strstr(rondo_last_error(), "rank 1") != NULL, rank, "text of connect");
    rank->ops->close(rank->transport);
    rank->ops->close(other);
    require(ri_now_ns() - start_ns < INT64_C(5000000000), rank, "connect and close took over 5 s");
}

static void names_a_peer_that_does_not_answer(void **state)
{
    for (int hosts = 1; hosts <= hosts_of(*state); hosts++)
        expect_success(start(*state, NULL, 0, 2, hosts, late_body));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_ON("shm", turns_a_ring_inside_a_host),
        BENCH_ON("shm", closes_soon_when_all_do),
        BENCH_ON("shm", closes_while_others_sleep),
        BENCH_ON("shm", outlives_a_killed_peer_of_its_host),
        BENCH_ON("shm", names_a_peer_that_does_not_answer),
#ifdef HAVE_UCX
        BENCH_ON("ucx", turns_a_ring_inside_a_host),
        BENCH_ON("ucx", turns_a_ring_between_hosts),
        BENCH_ON("ucx", closes_soon_when_all_do),
        BENCH_ON("ucx", closes_while_others_sleep),
        BENCH_ON("ucx", outlives_a_killed_peer_of_its_host),
        BENCH_ON("ucx", outlives_a_killed_peer_of_another_host),
        BENCH_ON("ucx", fails_what_is_sent_to_a_dying_peer),
        BENCH_ON("ucx", names_a_peer_that_does_not_answer),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
