/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_ATTENTION_H
#define TEST_ATTENTION_H

#include "tests/e2e/oracle.h"
#include "tests/ranks.h"

/* Attention and its gradients over P ranks on pretended hosts, by one scheme after the other. */

/* fp32 kernels, fp32 partials and sums of at most a few thousand terms of unit variance. */
#define BAR 1e-5

enum { LAYOUTS = 3, MAX_RANKS = 8, MAX_PROBLEMS = 32, MAX_SCHEMES = 64 };

/* What is compared: with fp64 on one rank, then gradients of the scheme's twin, which differs from it
 * in the backward alone. */
enum { O, LSE, DQ, DK, DV, OUTPUTS, TWIN_DQ = OUTPUTS, TWIN_DK, TWIN_DV, MEASURES };

struct error {
    double worst, diff2, ref2; /* largest |difference|; sums of squares */
};

struct scheme {
    const char *schedule, *backward, *binding;
    const char *host_transfers;   /* NULL: the plan chooses */
    int pieces;                   /* 0: 1 */
    int64_t chunk_bytes;          /* 0: the plan chooses */
    const rondo_kernel_t *kernel; /* NULL: the test's */
    int64_t longer;               /* not 0: made for so many tokens more, and bound to those of the problem */
};

/* One rank of one case. */
struct outcome {
    struct error errors[MEASURES];
    uint64_t sent_bytes[2][RONDO_TENSOR_COUNT], bound_bytes;
};

struct test {
    struct meeting meeting;
    const char *transport, *kernel;
    int ranks, hosts;
    int first_layout, last_layout;
    int scheme_count, problem_count;
    struct scheme schemes[MAX_SCHEMES]; /* twins stand side by side */
    struct problem *problems;
    struct outcome outcomes[MAX_SCHEMES][LAYOUTS][MAX_PROBLEMS][MAX_RANKS];
};

int is_twin(const struct test *t, int scheme); /* of the scheme before it */

/* One rank through all cases, for run_ranks; arg is the test. */
int run_rank(int rank, int ranks, void *arg);

/* The same for a process that is one rank of the environment's: the communicator with transport, ranks
 * and hosts of the test, the cases, and the outcomes of every rank, on every rank. */
int join_ranks(struct test *t, rondo_comm_t *comm, int *rank);
int run_cases(rondo_comm_t comm, int rank, struct test *t);
int share_outcomes(rondo_comm_t comm, int rank, struct test *t);

/* Counted bytes beside those of the formulas, a row per scheme, problem and lane.  Returns how many
 * cases differ on any rank. */
void print_bytes_head(void);
int print_bytes(const struct test *t);

#endif
