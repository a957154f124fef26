/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of transport shm that cannot see each other's process, or end before the others. */
#include "alone.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "transport/shm_private.h"

enum { large = 4 << 20 };

struct board {
    _Atomic int opened, done;
    int status;
    size_t bytes[2];
    char address[2][256];
};

static struct board *board;

static void wait_for(_Atomic int *count, int goal, struct ri_transport *transport)
{
    int64_t deadline_ns = ri_now_ns() + INT64_C(30000000000);

    while (*count < goal) {
        require(ri_now_ns() < deadline_ns, "the other did not come");
        if (transport)
            ops->progress(transport);
        poll(NULL, 0, 1);
    }
}

static struct ri_transport *open_of_two(int rank)
{
    struct ri_transport *transport;
    const void *address;
    size_t bytes;

    require(!open_rank(rank, 2, &transport, &address, &bytes), "open");
    require(bytes <= sizeof(board->address[0]), "address");
    memcpy(board->address[rank], address, bytes);
    board->bytes[rank] = bytes;
    board->opened++;
    wait_for(&board->opened, 2, NULL);
    return transport;
}

static int connect_two(struct ri_transport *transport, int64_t within_ns)
{
    const void *addresses[2] = { board->address[0], board->address[1] };

    return ops->connect(transport, addresses, board->bytes, ri_now_ns() + within_ns);
}

static void other_body(int rank)
{
    struct ri_transport *transport = open_of_two(rank);
    char *out = calloc(1, large);
    struct ri_xfer xfers[2] = { bench_send(!rank, 1, out, large), bench_receive(!rank, 1, NULL, large) };
    struct ri_xfer *pointers[2] = { &xfers[0], &xfers[1] };

    require(!connect_two(transport, INT64_C(20000000000)), "connect");
    xfers[0].bind = xfers[1].bind = 1;
    bench_fill(out, large, (uint64_t)rank);
    require(!ops->post(transport, pointers, 2), "post");
    while (xfers[0].state == RI_XFER_POSTED || xfers[1].state == RI_XFER_POSTED)
        ops->progress(transport);
    require(xfers[1].state == RI_XFER_DONE && bench_filled(xfers[1].base, large, (uint64_t)!rank), "content");
    ops->release(transport, &xfers[1]);
    board->done++;
    wait_for(&board->done, 2, transport);
    ops->close(transport);
    free(out);
}

/* Rank 1 begins a PID namespace, where it has the number 1. */
static void namespaces_body(void)
{
    int status = -1;
    pid_t pid;

    if (unshare(CLONE_NEWPID))
        _exit(SKIPPED);
    pid = fork_child();
    if (pid == 0) {
        other_body(1);
        _exit(0);
    }
    other_body(0);
    require(waitpid(pid, &status, 0) == pid && status == 0, "rank 1");
}

static void finds_ranks_in_other_pid_namespaces(void **state)
{
    (void)state;
    alone(namespaces_body);
}

static void dead_body(void)
{
    struct ri_transport *transport;
    int64_t start_ns;
    pid_t pid = fork_child();

    if (pid == 0) {
        open_of_two(1);
        _exit(0);
    }
    transport = open_of_two(0);
    waitpid(pid, NULL, 0);
    start_ns = ri_now_ns();
    require(connect_two(transport, INT64_C(20000000000)) == RONDO_ERR_TRANSPORT, "connect to the dead");
    require(strstr(rondo_last_error(), "the memory of rank 1") != NULL, "text of connect");
    require(ri_now_ns() - start_ns < INT64_C(5000000000), "connect took over 5 s");
    ops->close(transport);
}

static void names_a_rank_that_has_ended(void **state)
{
    (void)state;
    alone(dead_body);
}

/* Rank 1 cannot connect, or ends while rank 0 waits for it: neither waits for long. */
static void fail_to_connect(void (*body)(struct ri_transport *transport), const char *text)
{
    struct ri_transport *transport;
    int64_t start_ns;
    pid_t pid = fork_child();

    transport = open_of_two(pid == 0);
    start_ns = ri_now_ns();
    if (pid == 0)
        body(transport);
    require(connect_two(transport, INT64_C(20000000000)) == RONDO_ERR_PEER, "connect should fail");
    require(strstr(rondo_last_error(), text) != NULL, "text of connect");
    require(ri_now_ns() - start_ns < INT64_C(2000000000), "connect took over 2 s");
    ops->close(transport);
    board->done = 1;
    require(waitpid(pid, &board->status, 0) == pid && board->status == 0, "rank 1");
    board->opened = board->done = 0;
}

static void without_descriptors(struct ri_transport *transport)
{
    const struct rlimit none = { 0, 0 };
    int64_t start_ns = ri_now_ns();

    require(!setrlimit(RLIMIT_NOFILE, &none), "setrlimit");
    require(connect_two(transport, INT64_C(20000000000)) == RONDO_ERR_TRANSPORT, "connect without descriptors");
    require(ri_now_ns() - start_ns < INT64_C(2000000000), "connect took over 2 s");
    wait_for(&board->done, 1, NULL);
    ops->close(transport);
    _exit(0);
}

static void fail_for(struct ri_transport *transport, const char *reason)
{
    require(connect_two(transport, INT64_C(20000000000)) == RONDO_ERR_TRANSPORT, "connect as a stranger");
    require(strstr(rondo_last_error(), reason) != NULL, "reason");
    wait_for(&board->done, 1, NULL);
    ops->close(transport);
    _exit(0);
}

/* Tries it in a child, as a test must not leave its namespaces. */
static int can_unshare(void)
{
    int status = -1;
    pid_t pid = fork_child();

    if (pid == 0)
        _exit(unshare(CLONE_NEWNET | CLONE_NEWNS) ? 1 : 0);
    return waitpid(pid, &status, 0) == pid && status == 0;
}

static void as_another_user(struct ri_transport *transport)
{
    require(!setuid(65534), "setuid");
    fail_for(transport, "different users");
}

/* Sees neither the process of rank 0 in /proc nor its socket. */
static void in_another_container(struct ri_transport *transport)
{
    require(!unshare(CLONE_NEWNET | CLONE_NEWNS), "unshare");
    require(!mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
                !mount("none", "/proc", "tmpfs", 0, NULL), "hide /proc");
    fail_for(transport, "another container");
}

static void ends_when_it_is_mapped(struct ri_transport *transport)
{
    struct ri_shm *self = (struct ri_shm *)transport;

    wait_for((_Atomic int *)&self->front->pairs[0].joined, 1, NULL);
    _exit(0);
}

static void fail_to_connect_body(void)
{
    fail_to_connect(without_descriptors, "rank 1 could not connect: rank 1 cannot open the memory of rank 0");
    fail_to_connect(ends_when_it_is_mapped, "rank 1 has ended");
}

static void strangers_body(void)
{
    if (geteuid() != 0)
        _exit(SKIPPED);
    fail_to_connect(as_another_user, "they run as different users: start all ranks of a host as one");
    if (can_unshare())
        fail_to_connect(in_another_container, "in another container: share a PID");
}

static void says_what_to_do_about_users_and_containers(void **state)
{
    (void)state;
    alone(strangers_body);
}

static void tells_all_when_one_cannot_connect(void **state)
{
    (void)state;
    alone(fail_to_connect_body);
}

/* Rank 1 dies asleep, and what would wake it has no reader any more: rank 0 outlives that. */
static void wake_the_dead(int elsewhere)
{
    static char content[64];
    struct ri_xfer xfer = bench_send(1, 1, content, sizeof(content)), *pointer = &xfer;
    struct ri_transport *transport;
    pid_t pid;

    if (elsewhere && unshare(CLONE_NEWPID))
        _exit(SKIPPED);
    pid = fork_child();
    transport = open_of_two(pid == 0);
    require(!connect_two(transport, INT64_C(20000000000)), "connect");
    if (pid == 0) {
        require(ops->arm(transport) == 1, "arm");
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    require(!ops->post(transport, &pointer, 1), "post");
    ops->cancel(transport, &pointer, 1);
    require(xfer.state == RI_XFER_IDLE, "cancel");
    ops->close(transport);
    board->opened = 0;
}

static void wake_the_dead_body(void)
{
    wake_the_dead(0);
    wake_the_dead(1);
}

static void outlives_who_dies_asleep(void **state)
{
    (void)state;
    alone(wake_the_dead_body);
}

/* Copies without end what rank 0 sends, until it is stopped. */
static void copier_body(void)
{
    struct ri_transport *transport = open_of_two(1);
    char *in = calloc(1, large);
    struct ri_xfer xfer = { .tag = 0 }, *pointer = &xfer;

    require(!connect_two(transport, INT64_C(20000000000)), "connect");
    for (uint64_t tag = 0;; tag++) {
        xfer = bench_receive(0, tag, in, large);
        require(!ops->post(transport, &pointer, 1), "post");
        while (xfer.state == RI_XFER_POSTED)
            ops->progress(transport);
    }
}

/* Rank 1 is killed, or stopped, at some time of its copying. */
static void cut_off(int how, int after_us)
{
    struct ri_transport *transport;
    char *out = calloc(1, large);
    struct ri_xfer xfer = { .tag = 0 }, *pointer = &xfer;
    int64_t start_ns;
    pid_t pid = fork_child();

    require(out != NULL, "memory");
    if (pid == 0)
        copier_body();
    transport = open_of_two(0);
    require(!connect_two(transport, INT64_C(20000000000)), "connect");
    start_ns = ri_now_ns();
    for (uint64_t tag = 0; ri_now_ns() < start_ns + after_us * 1000; tag++) {
        xfer = bench_send(1, tag, out, large);
        require(!ops->post(transport, &pointer, 1), "post");
        while (xfer.state == RI_XFER_POSTED && ri_now_ns() < start_ns + after_us * 1000)
            ops->progress(transport);
    }
    kill(pid, how);
    start_ns = ri_now_ns();
    ops->cancel(transport, &pointer, 1);
    require(xfer.state != RI_XFER_POSTED, "posted after cancel");
    memset(out, 0, large);
    ops->close(transport);
    require(ri_now_ns() - start_ns < INT64_C(4000000000), "cancel and close took over 4 s");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    free(out);
    board->opened = 0;
}

static void cut_off_body(void)
{
    for (int i = 0; i < 12; i++)
        cut_off(i % 6 ? SIGKILL : SIGSTOP, 3000 + i * 1370);
}

static void outlives_who_is_cut_off_while_copying(void **state)
{
    (void)state;
    alone(cut_off_body);
}

static int make_board(void **state)
{
    (void)state;
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return board == MAP_FAILED;
}

static int drop_board(void **state)
{
    (void)state;
    return munmap(board, sizeof(*board));
}

#define ON_BOARD(test) cmocka_unit_test_setup_teardown(test, make_board, drop_board)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOARD(finds_ranks_in_other_pid_namespaces),
        ON_BOARD(names_a_rank_that_has_ended),
        ON_BOARD(tells_all_when_one_cannot_connect),
        ON_BOARD(says_what_to_do_about_users_and_containers),
        ON_BOARD(outlives_who_dies_asleep),
        ON_BOARD(outlives_who_is_cut_off_while_copying),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
