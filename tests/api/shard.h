/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SHARD_H
#define TEST_SHARD_H

#include <rondo/rondo.h>

#include "tests/e2e/oracle.h"
#include "tests/ranks.h"

/* What tests of the public calls need on each rank: its shard of a problem, a plan for it, and checks
 * that work in the threads and processes of ranks, where cmocka's do not. */

/* fp32 kernels, partials and sums of at most a few thousand terms of unit variance. */
#define SHARD_BAR 1e-5
/* No wait of a good test lasts this long. */
#define WAIT_MS 60000

/* 0 when good; else says on stderr what is wrong, and returns 1. */
int expect(int good, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The status is the wanted one, and rondo_last_error() holds all of up to two words (NULL: none). */
int expect_error(int status, int wanted, const char *word, const char *second, const char *what);

struct shard {
    int64_t n, *positions;
    float *q, *k, *v, *d_o;          /* NULL when n == 0, as the outputs are */
    float *o, *lse, *dq, *dk, *dv;   /* into outputs; NaN until written */
    float *outputs;
    size_t output_count;
};

/* Exits when refused: these are good arguments. */
rondo_layout_t layout_of(rondo_layout_kind_t kind, int64_t tokens, int ranks);
rondo_attention_desc_t desc_of(const struct problem *p);

void shard_init(struct shard *s, rondo_layout_t layout, int rank, const struct problem *p);
void shard_release(struct shard *s);
/* Sets all outputs to NaN. */
void shard_clear(struct shard *s);

rondo_attention_fwd_t shard_forward_tensors(const struct shard *s);
rondo_attention_bwd_t shard_backward_tensors(const struct shard *s);
/* Start, and wait up to WAIT_MS. */
int shard_forward(rondo_plan_t plan, const struct shard *s);
int shard_backward(rondo_plan_t plan, const struct shard *s);
int shard_both(rondo_plan_t plan, const struct shard *s);
/* The same of any tensors: forward, then backward.  The status of the first that fails. */
int run_both(rondo_plan_t plan, const rondo_attention_fwd_t *fwd, const rondo_attention_bwd_t *bwd);

/* The largest difference from the oracle of o and lse, or of dq, dk and dv; NaN stays NaN. */
double shard_forward_error(const struct shard *s, const struct problem *p);
double shard_backward_error(const struct shard *s, const struct problem *p);

/* Plan, forward, backward and comparison of one problem, all over comm.  Returns the faults. */
int run_problem(rondo_comm_t comm, rondo_layout_kind_t kind, const struct problem *p,
                const rondo_plan_options_t *options);

/* A communicator of this rank; exits when it cannot be made. */
rondo_comm_t comm_of(struct meeting *meeting, int rank, int ranks, const char *transport);
/* The same on pretended hosts of so many ranks each; 0: all on one. */
rondo_comm_t comm_on_host(struct meeting *meeting, int rank, int ranks, const char *transport, int ranks_per_host);

#endif
