/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ALONE_H
#define ALONE_H

#include "bench.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"

/* Tests of transport shm whose body runs in a process of its own, which it may limit and lose. */

enum { SKIPPED = 77 }; /* exit status: the system does not let us */

static const struct ri_transport_ops *const ops = &ri_transport_shm;

/* In such a process nothing may assert. */
static inline void require(int good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "%s: %s\n", what, rondo_last_error());
    _exit(1);
}

/* A child that ends with us, and in time. */
static inline pid_t fork_child(void)
{
    pid_t parent = getpid(), pid = fork();

    require(pid >= 0, "fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* also when it is stopped */
        alarm(50);
        if (getppid() != parent && getppid() != 0) /* 0: in another PID namespace */
            _exit(1);
    }
    return pid;
}

static inline void alone(void (*body)(void))
{
    int status = -1;
    pid_t pid = fork();

    assert_int_not_equal(pid, -1);
    if (pid == 0) {
        alarm(60);
        body();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
        skip();
    assert_int_equal(status, 0);
}

/* From now on that system call answers EPERM. */
static inline void refuse_call(long number)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        _exit(SKIPPED);
}

/* Rank of `ranks` on one host. */
static inline int open_rank(int rank, int ranks, struct ri_transport **transport, const void **address,
                            size_t *bytes)
{
    static const struct ri_config config;
    static const int32_t host[8];
    uint8_t token[16] = "alone";
    struct ri_transport_params params = { .rank = rank, .ranks = ranks, .token = token, .host = host,
                                          .config = &config };

    return ops->open(&params, transport, address, bytes);
}

#endif
