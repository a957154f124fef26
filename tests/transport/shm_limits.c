/* SPDX-License-Identifier: Apache-2.0 */
/* Transport shm where the system refuses something: another way, or an error that says so. */
#include "alone.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "transport/shm_private.h"

enum { large = 4 << 20 };

/* ---- refusals ---- */

static const struct rlimit *at_most(rlim_t most)
{
    static struct rlimit limit;

    limit.rlim_cur = limit.rlim_max = most;
    return &limit;
}

static int count_fds(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count;
}

/* One rank that is all of its host. */
static struct ri_transport *open_one(void)
{
    struct ri_transport *transport;
    const void *address;
    size_t bytes;

    require(!open_rank(0, 1, &transport, &address, &bytes), "open");
    require(!ops->connect(transport, &address, &bytes, ri_now_ns() + INT64_C(5000000000)), "connect");
    return transport;
}

/* Opening fails, says why, and leaves no descriptor. */
static void expect_no_open(int ranks, int status, const char *text)
{
    struct ri_transport *transport;
    const void *address;
    int before = count_fds();
    size_t bytes;

    require(open_rank(0, ranks, &transport, &address, &bytes) == status, "open should fail");
    require(strstr(rondo_last_error(), text) != NULL, "text of open");
    require(count_fds() == before, "descriptors are left");
}

static void move_to_self(struct ri_transport *transport, size_t bytes, size_t row_bytes, int bind)
{
    char *out = calloc(1, bytes), *in = calloc(1, bytes);
    struct ri_xfer xfers[2] = { bench_send(0, 1, out, bytes), bench_receive(0, 1, in, bytes) };
    struct ri_xfer *pointers[2] = { &xfers[0], &xfers[1] };

    require(out && in, "memory");
    xfers[0].rows = bytes / row_bytes;
    xfers[0].row_bytes = xfers[0].row_stride = row_bytes;
    xfers[0].bind = xfers[1].bind = (uint8_t)bind;
    bench_fill(out, bytes, bytes);
    require(!ops->post(transport, pointers, 2), "post");
    for (int i = 0; i < 100000 && (xfers[0].state | xfers[1].state) == RI_XFER_POSTED; i++)
        ops->progress(transport);
    for (int i = 0; i < 100000 && xfers[0].state == RI_XFER_POSTED; i++)
        ops->progress(transport);
    require(xfers[0].state == RI_XFER_DONE && xfers[1].state == RI_XFER_DONE, "message");
    require(bench_filled(xfers[1].base, bytes, bytes), "other bytes");
    if (bind) {
        ops->release(transport, &xfers[1]);
        require(ops->readers(transport, &xfers[0]) == 0, "it is still read");
        ops->progress(transport); /* takes the slot back */
    }
    free(out);
    free(in);
}

static void move_all_kinds(void)
{
    struct ri_transport *transport = open_one();

    for (int bind = 0; bind < 2; bind++) {
        move_to_self(transport, 64, 64, bind);
        move_to_self(transport, large, large, bind);
    }
    move_to_self(transport, large, 128, 0);
    ops->close(transport);
}

static void without_cma_body(void)
{
    struct ri_transport *transport;

    refuse_call(SYS_process_vm_readv);
    transport = open_one();
    require(strstr(ops->way(transport, 0), "copied twice") != NULL, "way");
    require(strstr(ops->way(transport, 0), "Operation not permitted") != NULL, "way says why");
    ops->close(transport);
    move_all_kinds();
}

static void copies_twice_without_cma(void **state)
{
    (void)state;
    alone(without_cma_body);
}

static void without_memfd_body(void)
{
    refuse_call(SYS_memfd_create);
    move_all_kinds();
}

static void takes_a_file_without_memfd(void **state)
{
    (void)state;
    alone(without_memfd_body);
}

/* A place of 1 MiB for shared memory, of our own. */
static void small_place(const char *options)
{
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("none", "/dev/shm", "tmpfs", 0, options))
        _exit(SKIPPED);
    refuse_call(SYS_memfd_create);
}

static void small_place_body(void)
{
    struct ri_transport *transport;
    void *memory;

    small_place("size=1m");
    transport = open_one();
    require(ops->alloc(transport, large, &memory) == RONDO_ERR_MEMORY, "alloc should fail");
    require(strstr(rondo_last_error(), "4194304 bytes") != NULL, "text says what is needed");
    require(strstr(rondo_last_error(), "are free") != NULL, "text says what is free");
    require(!ops->alloc(transport, 65536, &memory), "what is left");
    memset(memory, 1, 65536);
    move_to_self(transport, 64, 64, 1);
    move_to_self(transport, large, large, 0);
    ops->close(transport);
}

/* nccl#290, #342, #983: no bus error. */
static void outlives_a_small_dev_shm(void **state)
{
    (void)state;
    alone(small_place_body);
}

static void full_place_body(void)
{
    static const char page[4096];
    int fd;

    small_place("size=4k");
    fd = open("/dev/shm/full", O_CREAT | O_WRONLY, 0600);
    require(fd >= 0 && write(fd, page, sizeof(page)) == sizeof(page), "fill");
    close(fd);
    expect_no_open(1, RONDO_ERR_MEMORY, "are free");
}

static void names_a_full_dev_shm(void **state)
{
    (void)state;
    alone(full_place_body);
}

static void no_place_body(void)
{
    small_place("size=1m,mode=0");
    if (mount("none", "/dev/shm", NULL, MS_REMOUNT | MS_RDONLY, NULL))
        _exit(SKIPPED);
    expect_no_open(1, RONDO_ERR_TRANSPORT, "memfd_create: Operation not permitted");
}

static void says_what_was_tried(void **state)
{
    (void)state;
    alone(no_place_body);
}

static void address_space_body(void)
{
    require(!setrlimit(RLIMIT_AS, at_most((rlim_t)8 << 30)), "setrlimit");
    move_all_kinds();
    require(!setrlimit(RLIMIT_AS, at_most((rlim_t)400 << 20)), "setrlimit");
    expect_no_open(8, RONDO_ERR_MEMORY, "ulimit -v");
}

/* Sanitizers need much of it themselves. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { is_sanitized = 1 };
#else
enum { is_sanitized = 0 };
#endif

static void names_a_lack_of_address_space(void **state)
{
    (void)state;
    if (is_sanitized)
        skip();
    alone(address_space_body);
}

enum { threads = 8 };

static const void *addresses[threads];
static size_t address_bytes[threads];

static void *connect_thread(void *transport)
{
    int64_t deadline_ns = ri_now_ns() + INT64_C(20000000000);

    require(!ops->connect(transport, addresses, address_bytes, deadline_ns), "connect");
    return NULL;
}

static void open_threads(struct ri_transport **ranks)
{
    pthread_t thread[threads];

    for (int r = 0; r < threads; r++)
        require(!open_rank(r, threads, &ranks[r], &addresses[r], &address_bytes[r]), "open");
    for (int r = 0; r < threads; r++)
        require(!pthread_create(&thread[r], NULL, connect_thread, ranks[r]), "thread");
    for (int r = 0; r < threads; r++)
        pthread_join(thread[r], NULL);
}

/* Each of them maps all, twice. */
static void threads_body(void)
{
    struct ri_transport *ranks[2 * threads];

    require(!setrlimit(RLIMIT_AS, at_most((rlim_t)16 << 30)), "setrlimit");
    open_threads(ranks);
    open_threads(ranks + threads);
    for (int r = 0; r < 2 * threads; r++)
        ops->close(ranks[r]);
}

static void threads_share_their_address_space(void **state)
{
    (void)state;
    if (is_sanitized)
        skip();
    alone(threads_body);
}

/* What is kept for copies is there for all else. */
static void kept_copies_body(void)
{
    struct ri_transport *transport;
    void *memory;

    require(!setrlimit(RLIMIT_FSIZE, at_most((rlim_t)100 << 20)), "setrlimit");
    transport = open_one();
    move_to_self(transport, 24 << 20, 24 << 20, 1);
    require(!ops->alloc(transport, 60 << 20, &memory), "alloc behind copies");
    require(ops->alloc(transport, 60 << 20, &memory) == RONDO_ERR_MEMORY, "alloc should fail");
    require(strstr(rondo_last_error(), "are free, at most") != NULL, "text says what is free");
    ops->close(transport);
}

static void kept_copies_give_way(void **state)
{
    (void)state;
    alone(kept_copies_body);
}

static void file_size_body(void)
{
    require(!setrlimit(RLIMIT_FSIZE, at_most((rlim_t)100 << 20)), "setrlimit");
    move_all_kinds();
    require(!setrlimit(RLIMIT_FSIZE, at_most(1 << 20)), "setrlimit");
    expect_no_open(1, RONDO_ERR_MEMORY, "ulimit -f");
}

static void names_a_limit_of_files(void **state)
{
    (void)state;
    alone(file_size_body);
}

/* Descriptors run out at every place, at last at none. */
static void descriptors_body(void)
{
    int before = count_fds() - 1, opened = 0; /* but for the folder's own */

    for (int more = 0; more < 12 && !opened; more++) {
        struct rlimit limits = { (rlim_t)(before + more), 0 };
        struct ri_transport *transport;
        const void *address;
        size_t bytes;
        int err;

        limits.rlim_max = (rlim_t)(before + 100);
        require(!setrlimit(RLIMIT_NOFILE, &limits), "setrlimit");
        err = open_rank(0, 1, &transport, &address, &bytes);
        opened = !err;
        require(!err || err == RONDO_ERR_TRANSPORT, "open without descriptors");
        require(!err || strstr(rondo_last_error(), "Too many open files") != NULL, "text");
        if (!err)
            ops->close(transport);
        limits.rlim_cur = (rlim_t)(before + 50);
        require(!setrlimit(RLIMIT_NOFILE, &limits), "setrlimit");
        require(count_fds() - 1 == before, "descriptors are left");
    }
    require(opened, "enough at last");
}

static void outlives_a_lack_of_descriptors(void **state)
{
    (void)state;
    alone(descriptors_body);
}

/* A child has none of it: neither the memory, nor the right to close it for us. */
static void forked_body(void)
{
    struct ri_transport *transport = open_one();
    int status = -1;
    pid_t pid = fork_child();

    if (pid == 0) {
        ops->close(transport);
        _exit(0);
    }
    require(waitpid(pid, &status, 0) == pid && status == 0, "close in a child");
    pid = fork_child();
    if (pid == 0) {
        prctl(PR_SET_DUMPABLE, 0);
        signal(SIGSEGV, SIG_DFL);
        _exit((int)atomic_load(&((struct ri_shm *)transport)->front->closed));
    }
    require(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status), "a child has the memory, too");
    move_to_self(transport, 64, 64, 1);
    ops->close(transport);
}

static void keeps_memory_from_children(void **state)
{
    (void)state;
    alone(forked_body);
}

/* ---- no memory ---- */

static int callocs_left = -1; /* that succeed before one fails; -1: all */

void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);

void *__wrap_calloc(size_t n, size_t bytes)
{
    int left = callocs_left;

    callocs_left -= left >= 0;
    return left == 0 ? NULL : __real_calloc(n, bytes);
}

static void no_memory_body(void)
{
    int opened = 0;

    require(fcntl(0, F_GETFD) >= 0 || open("/dev/null", O_RDONLY) == 0, "descriptor 0");
    for (int n = 0; n < 20 && !opened; n++) {
        int before = count_fds();
        struct ri_transport *transport;
        const void *address;
        size_t bytes;
        int err;

        callocs_left = n;
        err = open_rank(0, 1, &transport, &address, &bytes);
        callocs_left = -1;
        require(!err || err == RONDO_ERR_MEMORY, "open without memory");
        opened = !err;
        if (!err)
            ops->close(transport);
        require(count_fds() == before, "other descriptors are closed");
    }
    require(opened, "enough at last");
}

static void outlives_a_lack_of_memory(void **state)
{
    (void)state;
    alone(no_memory_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_twice_without_cma),
        cmocka_unit_test(takes_a_file_without_memfd),
        cmocka_unit_test(outlives_a_small_dev_shm),
        cmocka_unit_test(names_a_full_dev_shm),
        cmocka_unit_test(says_what_was_tried),
        cmocka_unit_test(names_a_lack_of_address_space),
        cmocka_unit_test(threads_share_their_address_space),
        cmocka_unit_test(kept_copies_give_way),
        cmocka_unit_test(names_a_limit_of_files),
        cmocka_unit_test(outlives_a_lack_of_descriptors),
        cmocka_unit_test(keeps_memory_from_children),
        cmocka_unit_test(outlives_a_lack_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
