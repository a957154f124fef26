/* SPDX-License-Identifier: Apache-2.0 */
#include "futex.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "measure.h"

#define SILENT_S 10

/* Each word counts turns, and lies in a cache line of its own. */
struct perf_futex_page {
    _Alignas(64) _Atomic uint32_t ask;
    _Alignas(64) _Atomic uint32_t answer;
    _Alignas(64) double pause_us, paused_us; /* the child's: wanted, and taken */
};

/* Sleeps until the word is `turn`, or fails after a silence. */
static int await(_Atomic uint32_t *word, uint32_t turn)
{
    struct timespec most = {.tv_sec = SILENT_S};
    uint32_t seen;

    while ((seen = atomic_load(word)) != turn)
        if (syscall(SYS_futex, word, FUTEX_WAIT, seen, &most, NULL, 0) && errno == ETIMEDOUT)
            return -1;
    return 0;
}

static void wake(_Atomic uint32_t *word, uint32_t turn)
{
    atomic_store(word, turn);
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Until the parent ends it, or dies. */
static void serve(struct perf_futex_page *page)
{
    for (uint32_t turn = 1;; turn++) {
        while (await(&page->ask, turn))
            ;
        page->paused_us = perf_pause(page->pause_us);
        wake(&page->answer, turn);
    }
}

int perf_futex_open(struct perf_futex *futex)
{
    pid_t parent = getpid();

    *futex = (struct perf_futex){.child = -1};
    futex->page = mmap(NULL, sizeof(*futex->page), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (futex->page == MAP_FAILED)
        return -1;
    futex->child = fork();
    if (futex->child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        serve(futex->page);
    }
    return futex->child < 0 ? -1 : 0;
}

void perf_futex_close(struct perf_futex *futex)
{
    if (futex->child > 0) {
        kill(futex->child, SIGKILL);
        waitpid(futex->child, NULL, 0);
    }
    if (futex->page && futex->page != MAP_FAILED)
        munmap(futex->page, sizeof(*futex->page));
    *futex = (struct perf_futex){.child = -1};
}

int perf_futex_wake(struct perf_futex *futex, double pause_us, double *us)
{
    struct perf_futex_page *page = futex->page;
    double begin;

    page->pause_us = pause_us;
    perf_pause(pause_us);
    begin = perf_now_us();
    wake(&page->ask, ++futex->turn);
    if (await(&page->answer, futex->turn))
        return -1;
    *us = (perf_now_us() - begin - page->paused_us) / 2;
    return 0;
}
