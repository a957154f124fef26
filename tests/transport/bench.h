/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_H
#define BENCH_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/config.h"
#include "transport/transport.h"

/* Ranks of one transport in one process, for tests. */
enum { BENCH_RANKS_MAX = 8 };

struct bench {
    const struct ri_transport_ops *ops;
    int ranks;
    struct ri_transport *rank[BENCH_RANKS_MAX];
};

/* A test of one transport, whose name is its *state. */
#define BENCH_ON(name, test) { name ": " #test, test, NULL, NULL, (void *)name }

/* Opens and connects all ranks; config may be NULL.  Each bench has a token of its own. */
void bench_open(struct bench *bench, const char *name, int ranks, const struct ri_config *config);
/* The same with ranks on hosts: host[ranks]. */
void bench_open_on(struct bench *bench, const char *name, int ranks, const int32_t *host,
                   const struct ri_config *config);
/* The same where rank r has messages with p only when peers[r][p]. */
void bench_open_for(struct bench *bench, const char *name, int ranks, const int32_t *host,
                    const struct ri_config *config, uint8_t peers[][BENCH_RANKS_MAX]);
void bench_close(struct bench *bench);

/* A message without gaps. */
struct ri_xfer bench_send(int peer, uint64_t tag, const void *base, size_t bytes);
struct ri_xfer bench_receive(int peer, uint64_t tag, void *base, size_t bytes);

/* Posts on one rank. */
void bench_post(struct bench *bench, int rank, struct ri_xfer *xfers, int n);

/* Calls progress of all ranks in turn until no message is POSTED; the test fails after 30 s. */
void bench_run(struct bench *bench, const struct ri_xfer *xfers, int n);

/* The same, and all must be DONE with all their bytes. */
void bench_run_done(struct bench *bench, const struct ri_xfer *xfers, int n);

/* Bytes that depend on the seed in every place, and whether they are all there. */
void bench_fill(void *memory, size_t bytes, uint64_t seed);
int bench_filled(const void *memory, size_t bytes, uint64_t seed);

/* Memory that the test owns; no memory fails the test. */
void *bench_memory(size_t bytes);

/* Memory of a rank that its bound messages give out as it lies, from the transport when that has a kind
 * of its own. */
void *bench_content(struct bench *bench, int rank, size_t bytes);
void bench_content_free(struct bench *bench, int rank, void *content);

#endif
