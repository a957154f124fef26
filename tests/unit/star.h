/* SPDX-License-Identifier: Apache-2.0 */
/* A star of control connections between threads or processes of this machine. */
#ifndef RONDO_TEST_STAR_H
#define RONDO_TEST_STAR_H

#include "tests/helper.h"
#include "tests/threads.h"

#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "comm/bootstrap.h"
#include "comm/comm.h"

enum { RANKS = 4 };

static const uint8_t token[RI_TOKEN_BYTES] = "sixteen of bytes";

/* What ranks, threads or processes, write down. */
struct world {
    struct ri_endpoint root;
    int listen_fd;
    int status[RANKS];
    char text[RANKS][256];
    int64_t took_ms[RANKS];
    atomic_int done;    /* ranks that have exchanged */
    int dying, dies_by; /* rank, and signal or 0: plain exit */
};

static inline void world_init(struct world *world)
{
    struct sockaddr_in *four = (struct sockaddr_in *)&world->root.address;

    memset(world, 0, sizeof(*world));
    four->sin_family = AF_INET;
    four->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    world->root.bytes = sizeof(*four);
    world->listen_fd = ri_tcp_listen(&world->root);
    assert_true(world->listen_fd >= 0);
    four->sin_port = htons((uint16_t)ri_tcp_port(world->listen_fd));
    world->dying = -1;
}

static inline int join_until(struct world *world, int rank, struct ri_bootstrap **bootstrap,
                             int64_t deadline_ns)
{
    struct ri_bootstrap_params params = {
        .rank = rank, .size = RANKS, .token = token, .listen_fd = world->listen_fd,
        .endpoints = &world->root, .endpoint_count = 1, .deadline_ns = deadline_ns,
    };

    return ri_bootstrap_create(&params, bootstrap);
}

static inline int join(struct world *world, int rank, struct ri_bootstrap **bootstrap)
{
    return join_until(world, rank, bootstrap, ri_now_ns() + 15000000000);
}

static inline void note(struct world *world, int rank, int status)
{
    world->status[rank] = status;
    snprintf(world->text[rank], sizeof(world->text[rank]), "%s", status ? rondo_last_error() : "");
}

/* Comes together and exchanges once: rank r gives 3 r + 1. */
static inline void meet(void *context, int rank)
{
    struct world *world = context;
    struct ri_bootstrap *bootstrap = NULL;
    int64_t begin_ns = ri_now_ns();
    int mine = 3 * rank + 1, all[RANKS], err;

    err = join(world, rank, &bootstrap);
    if (!err)
        err = ri_bootstrap_allgather(bootstrap, &mine, sizeof(mine), all, ri_now_ns() + 15000000000);
    for (int r = 0; r < RANKS && !err; r++)
        if (all[r] != 3 * r + 1)
            err = ri_error(RONDO_ERR_INTERNAL, "rank %d gave %d", r, all[r]);
    note(world, rank, err);
    world->took_ms[rank] = (ri_now_ns() - begin_ns) / 1000000;
    ri_bootstrap_destroy(bootstrap);
}

static inline void all_met(const struct world *world, int64_t within_ms)
{
    for (int r = 0; r < RANKS; r++) {
        if (world->status[r])
            fail_msg("rank %d: %d %s", r, world->status[r], world->text[r]);
        if (world->took_ms[r] > within_ms)
            fail_msg("rank %d needed %d ms", r, (int)world->took_ms[r]);
    }
}

#endif
