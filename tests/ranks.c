/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ranks.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

void *shared_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED) {
        perror("shared_memory");
        exit(1);
    }
    return memory;
}

void shared_memory_release(void *memory, size_t bytes)
{
    munmap(memory, bytes + 1);
}

int meet(struct meeting *meeting, int rank, int ranks, const rondo_config_t *config,
         rondo_comm_t *comm)
{
    int64_t deadline = ri_now_ns() + HERE_NS;

    if (rank == 0) {
        int err = rondo_unique_id_get(&meeting->id);

        atomic_store(&meeting->ready, err ? -1 : 1);
        if (err)
            return err;
    }
    while (atomic_load(&meeting->ready) == 0 && ri_now_ns() < deadline)
        sched_yield();
    if (atomic_load(&meeting->ready) != 1)
        return RONDO_ERR_TIMEOUT;
    return rondo_comm_create(&meeting->id, rank, ranks, config, comm);
}

int host_of(int rank, int ranks, int hosts)
{
    int each = ranks / hosts, more = ranks % hosts;

    return rank < more * (each + 1) ? rank / (each + 1) : more + (rank - more * (each + 1)) / each;
}

int ranks_want_processes(const char *transport)
{
#ifdef __SANITIZE_THREAD__
    return 0;
#else
    return strcmp(transport, "self") != 0;
#endif
}

struct rank {
    pthread_t thread;
    pid_t pid;
    int rank, ranks, result;
    int (*body)(int rank, int ranks, void *arg);
    void *arg;
};

static void *thread_main(void *arg)
{
    struct rank *r = arg;

    r->result = r->body(r->rank, r->ranks, r->arg);
    return NULL;
}

static void start(struct rank *r, int processes, int timeout_s)
{
    if (!processes) {
        if (pthread_create(&r->thread, NULL, thread_main, r) != 0) {
            perror("pthread_create");
            exit(1);
        }
        return;
    }
    fflush(NULL);
    r->pid = fork();
    if (r->pid == 0) {
        alarm((unsigned)timeout_s + 5);
        r->result = r->body(r->rank, r->ranks, r->arg);
        fflush(NULL);
        _exit(r->result ? 1 : 0);
    }
    if (r->pid < 0) {
        perror("fork");
        exit(1);
    }
}

static void finish(struct rank *r, int processes)
{
    int status = 0;

    if (!processes) {
        pthread_join(r->thread, NULL);
        return;
    }
    while (waitpid(r->pid, &status, 0) < 0)
        ;
    r->result = status;
}

int run_ranks(int ranks, int processes, int timeout_s, int (*body)(int rank, int ranks, void *arg),
              void *arg)
{
    struct rank *all = calloc((size_t)ranks, sizeof(*all));
    int failed = 0;

    if (!all)
        exit(1);
    alarm((unsigned)timeout_s);
    for (int i = 0; i < ranks; i++) {
        all[i] = (struct rank){ .rank = i, .ranks = ranks, .body = body, .arg = arg };
        start(&all[i], processes, timeout_s);
    }
    for (int i = 0; i < ranks; i++) {
        finish(&all[i], processes);
        failed += all[i].result != 0;
    }
    alarm(0);
    free(all);
    return failed;
}
