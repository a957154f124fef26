/* SPDX-License-Identifier: Apache-2.0 */
/* What only shows inside transport shm: turns of work, counts of readers, copies that are kept, and
 * descriptors that others pass. */
#include "bench.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "transport/shm_private.h"

enum { mega = 1 << 20, long_copy = 64 * mega };

static struct ri_shm *shm_of(struct bench *bench, int rank)
{
    return (struct ri_shm *)bench->rank[rank];
}

static struct ri_xfer bound(struct ri_xfer xfer)
{
    xfer.bind = 1;
    return xfer;
}

/* ---- turns ---- */

static void a_long_copy_stops_no_hand_over(void **state)
{
    struct ri_xfer sends[3], receives[3];
    char *in = malloc(2 * long_copy), *content;
    struct bench bench;

    (void)state;
    assert_non_null(in);
    bench_open(&bench, "shm", 2, NULL);
    content = bench_content(&bench, 0, long_copy);
    for (int i = 0; i < 2; i++) {
        sends[i] = bench_send(1, (uint64_t)i, content, long_copy);
        receives[i] = bench_receive(0, (uint64_t)i, in + (size_t)i * long_copy, long_copy);
    }
    sends[2] = bound(bench_send(1, 2, content, 4096));
    receives[2] = bound(bench_receive(0, 2, NULL, 4096));
    bench_post(&bench, 1, receives, 3);
    bench_post(&bench, 0, sends, 3);
    for (int i = 0; i < 2; i++)
        bench.ops->progress(bench.rank[1]);
    assert_int_equal(receives[2].state, RI_XFER_DONE);
    for (int i = 0; i < 2; i++) { /* and each copy has had a turn */
        assert_int_equal(receives[i].state, RI_XFER_POSTED);
        assert_true(((struct ri_shm_op *)receives[i].handle)->copied_bytes > 0);
    }
    bench_run_done(&bench, receives, 3);
    bench_run_done(&bench, sends, 3);
    bench.ops->release(bench.rank[1], &receives[2]);
    bench_close(&bench);
    free(in);
}

/* ---- copies that are kept ---- */

static void keeps_as_many_copies_as_were_in_use(void **state)
{
    char *content = bench_memory(16 * mega);
    struct bench bench;
    struct stat file;

    (void)state;
    bench_open(&bench, "shm", 2, NULL);
    for (size_t n = 1; n <= 16; n++) {
        struct ri_xfer pair[2] = { bound(bench_send(1, n, content, n * mega)),
                                   bound(bench_receive(0, n, NULL, n * mega)) };

        bench_post(&bench, 0, &pair[0], 1);
        bench_post(&bench, 1, &pair[1], 1);
        bench_run_done(&bench, pair, 2);
        bench.ops->release(bench.rank[1], &pair[1]);
        assert_int_equal(bench.ops->readers(bench.rank[0], &pair[0]), 0);
    }
    assert_int_equal(fstat(shm_of(&bench, 0)->memory_fd, &file), 0);
    assert_true(file.st_blocks <= 17 * mega / 512);
    bench_close(&bench);
    free(content);
}

/* ---- counts ---- */

/* Its receiver gives the slot back first, and only then lets go of what it was to read. */
static void a_failed_send_goes_with_its_last_reader(void **state)
{
    struct ri_shm_lend *lend;
    struct ri_xfer pair[2];
    struct bench bench;

    (void)state;
    bench_open(&bench, "shm", 2, NULL);
    pair[0] = bound(bench_send(1, 1, bench_content(&bench, 0, 4096), 4096));
    pair[1] = bound(bench_receive(0, 1, NULL, 100));
    bench_post(&bench, 0, &pair[0], 1);
    lend = ((struct ri_shm_op *)pair[0].handle)->lend;
    atomic_fetch_add(&lend->readers, 1);
    bench_post(&bench, 1, &pair[1], 1);
    bench_run(&bench, pair, 2);
    assert_int_equal(pair[0].state, RI_XFER_FAILED);
    assert_int_equal(shm_of(&bench, 0)->left.count, 1);
    ri_shm_lend_drop(shm_of(&bench, 1), lend, 0);
    bench.ops->progress(bench.rank[0]);
    assert_int_equal(shm_of(&bench, 0)->left.count, 0);
    bench_close(&bench);
}

/* Rank 2 copies what rank 1 reads at rank 0, and stands still in the middle: rank 1 gives it up and lets go,
 * but rank 0 has a reader until rank 2 has gone on. */
static void who_copies_counts_as_a_reader(void **state)
{
    struct ri_xfer first[2], second[2], *pointer = &second[0];
    char *content, *in = bench_memory(4 * mega);
    struct ri_shm_slot *slot;
    struct ri_shm_lend *lend;
    struct bench bench;

    (void)state;
    bench_open(&bench, "shm", 3, NULL);
    content = bench_content(&bench, 0, 4 * mega);
    first[0] = bound(bench_send(1, 1, content, 4 * mega));
    first[1] = bound(bench_receive(0, 1, NULL, 4 * mega));
    bench_post(&bench, 0, &first[0], 1);
    bench_post(&bench, 1, &first[1], 1);
    bench_run_done(&bench, first, 2);
    second[0] = bench_send(2, 1, first[1].base, 4 * mega);
    second[0].reference = first[1].reference;
    second[1] = bench_receive(1, 1, in, 4 * mega);
    bench_post(&bench, 1, &second[0], 1);
    bench_post(&bench, 2, &second[1], 1);
    bench.ops->progress(bench.rank[2]);
    slot = ((struct ri_shm_op *)second[1].handle)->slot;
    lend = ri_shm_lend_of(shm_of(&bench, 2), slot);
    assert_true(ri_shm_slot_move(shm_of(&bench, 2), 1, slot, RI_SHM_MATCHED, RI_SHM_COPYING, 0));
    assert_true(ri_shm_enter(lend));
    bench.ops->cancel(bench.rank[1], &pointer, 1);
    assert_int_equal(second[0].state, RI_XFER_IDLE);
    bench.ops->release(bench.rank[1], &first[1]);
    assert_int_equal(bench.ops->readers(bench.rank[0], &first[0]), 1);
    atomic_fetch_sub(&lend->inside, 1);
    bench.ops->progress(bench.rank[2]); /* finds that it was given up */
    bench.ops->progress(bench.rank[1]);
    assert_int_equal(bench.ops->readers(bench.rank[0], &first[0]), 0);
    assert_int_equal(second[1].state, RI_XFER_POSTED);
    pointer = &second[1];
    bench.ops->cancel(bench.rank[2], &pointer, 1);
    bench_close(&bench);
    free(in);
}

/* ---- descriptors ---- */

static void all_ranks_can_be_woken(void **state)
{
    static const int32_t host[3];
    uint8_t peers[3][BENCH_RANKS_MAX] = { { 1, 1, 0 }, { 1, 1, 1 }, { 0, 1, 1 } };
    struct bench bench;

    (void)state;
    bench_open_for(&bench, "shm", 3, host, NULL, peers);
    for (int r = 0; r < 3; r++)
        for (int p = 0; p < 3; p++)
            assert_true(shm_of(&bench, r)->peers[p].wake_fd >= 0);
    bench_close(&bench);
}

/* Opening what another process has under a number now must not wait, whatever it is. */
static void opens_without_waiting(void **state)
{
    int fds[2], fd;

    (void)state;
    assert_int_equal(pipe(fds), 0);
    fd = ri_shm_open_other((int32_t)getpid(), fds[0], O_RDWR);
    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    close(fd);
    close(fds[0]);
    close(fds[1]);
}

static int count_fds(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* Who answers in the place of a rank, with room for one more. */
static int listen_as(const uint64_t random[2])
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    int n = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "rondo-%016llx%016llx",
                     (unsigned long long)random[0], (unsigned long long)random[1]);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&name,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)), 0);
    assert_int_equal(listen(fd, 0), 0);
    return fd;
}

static void pass(int fd, int count)
{
    int fds[8] = { fd, fd, fd, fd, fd, fd, fd, fd };
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(fds))];
    } control = { .header = { .cmsg_len = CMSG_LEN((size_t)count * sizeof(int)), .cmsg_level = SOL_SOCKET,
                              .cmsg_type = SCM_RIGHTS } };
    char byte = 0;
    struct iovec content = { &byte, 1 };
    struct msghdr message = { .msg_iov = &content, .msg_iovlen = 1, .msg_control = &control,
                              .msg_controllen = CMSG_SPACE((size_t)count * sizeof(int)) };

    memcpy(CMSG_DATA(&control.header), fds, (size_t)count * sizeof(int));
    assert_int_equal(sendmsg(fd, &message, 0), 1);
}

static void takes_no_other_number_of_descriptors(void **state)
{
    static struct ri_shm self;
    const uint64_t random[2] = { (uint64_t)getpid(), (uint64_t)ri_now_ns() };
    int listener = listen_as(random), before;

    (void)state;
    self.pass_fd = -1;
    before = count_fds();
    for (int count = 1; count <= 8; count++) {
        int fds[RI_SHM_FDS + 8] = { 0 }, fd, other;

        fd = ri_shm_pass_ask(&self, random, ri_now_ns() + INT64_C(5000000000));
        assert_true(fd >= 0);
        other = accept(listener, NULL, NULL);
        pass(other, count);
        assert_int_equal(ri_shm_pass_take(fd, fds), count == RI_SHM_FDS ? 1 : -1);
        for (int i = 0; i < RI_SHM_FDS && count == RI_SHM_FDS; i++)
            close(fds[i]);
        for (int i = RI_SHM_FDS; i < RI_SHM_FDS + 8; i++)
            assert_int_equal(fds[i], 0);
        close(fd);
        close(other);
        assert_int_equal(count_fds(), before);
    }
    close(listener);
}

static void waits_where_many_ask(void **state)
{
    static struct ri_shm self;
    const uint64_t random[2] = { (uint64_t)getpid(), (uint64_t)ri_now_ns() };
    int listener = listen_as(random), first, second;
    int64_t start_ns;

    (void)state;
    self.pass_fd = -1;
    first = ri_shm_pass_ask(&self, random, ri_now_ns());
    assert_true(first >= 0);
    start_ns = ri_now_ns();
    second = ri_shm_pass_ask(&self, random, start_ns + 20000000);
    assert_int_equal(second, -1);
    assert_int_equal(errno, ETIMEDOUT);
    assert_true(ri_now_ns() - start_ns >= 20000000);
    close(accept(listener, NULL, NULL));
    second = ri_shm_pass_ask(&self, random, ri_now_ns());
    assert_true(second >= 0);
    close(first);
    close(second);
    close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_copy_stops_no_hand_over),
        cmocka_unit_test(keeps_as_many_copies_as_were_in_use),
        cmocka_unit_test(a_failed_send_goes_with_its_last_reader),
        cmocka_unit_test(who_copies_counts_as_a_reader),
        cmocka_unit_test(all_ranks_can_be_woken),
        cmocka_unit_test(opens_without_waiting),
        cmocka_unit_test(takes_no_other_number_of_descriptors),
        cmocka_unit_test(waits_where_many_ask),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
