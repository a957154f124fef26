/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ALONE_H
#define ALONE_H

#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
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
