/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_MASKS_RUN_H
#define TEST_MASKS_RUN_H

#include <stdatomic.h>

#include "tests/e2e/masks.h"

/* Runs a case over P ranks and brings the results together where all can see them. */

/* How a case is run.  Names that are NULL are left to the plan. */
struct setting {
    rondo_layout_kind_t kind[2]; /* of queries, and of keys where they have a layout of their own */
    rondo_deal_t deal;
    const char *schedule, *backward, *binding, *kernel, *wire;
    int64_t chunk_bytes;
    int max_documents; /* of the layouts; 0: those of the case */
    int64_t chunk_tokens; /* of balanced ones */
};

/* Of the whole sequence, as struct masked has it, but for d_sinks: [ranks][q_heads].  Poisoned before a run:
 * what nobody wrote is NaN. */
struct answer {
    float *o, *lse, *dq, *dk, *dv, *d_sinks;
    uint64_t (*pairs)[2];      /* [ranks]: as plans count them, forward and backward */
    _Atomic uint8_t *met[2];   /* [queries][keys], per pass: how often a tile had the pair */
    _Atomic uint64_t strays;   /* pairs of tiles that are not of the sequence */
};

/* Ranks that run one setting after the other.  Made before they start: shared also by processes. */
struct team {
    struct meeting meeting;
    const char *transport;
    int ranks, hosts;
    _Atomic int come, round, failed;
    size_t answer_bytes;
    void *answer_memory;
    struct answer answer;
};

/* For cases up to the size of the largest of these. */
struct team *team_create(const char *transport, int ranks, int hosts, const struct masked *problems, int count);
void team_destroy(struct team *team);

/* Of one rank. */
int team_join(struct team *team, int rank, rondo_comm_t *comm);
/* Waits for all, outside of Rondo: whose calls are done owes the others nothing.  Not 0 when one has failed. */
int team_gather(struct team *team);
void team_fail(struct team *team);
/* Lays the results of this rank in the answer; rank 0 has poisoned it before, and all have gathered. */
void team_poison(struct team *team, const struct masked *p);
int team_run(struct team *team, rondo_comm_t comm, int rank, const struct masked *p, const struct setting *s);

/* The same by a plan of the caller's own: the layout of a side, and a plan.  layouts: of queries and of keys,
 * the same handle where they share it.  kernel NULL: the setting's. */
int setting_layout(const struct setting *s, const struct masked *p, int side, int ranks, rondo_layout_t *layout);
int setting_plan(const struct setting *s, const struct masked *p, rondo_comm_t comm, rondo_layout_t *layouts,
                 const rondo_kernel_t *kernel, rondo_plan_t *plan);
int team_run_plan(struct team *team, rondo_plan_t plan, rondo_layout_t *layouts, int rank, const struct masked *p);

/* Step by step: what a rank has of a case.  NULL when the layouts refuse. */
struct shard *shard_create(rondo_layout_t *layouts, int rank, const struct masked *p);
int shard_forward(struct shard *s, rondo_plan_t plan);
int shard_backward(struct shard *s, rondo_plan_t plan);
int shard_return(struct shard *s, struct answer *a, int rank);      /* into the answer */
int shard_is_there(struct shard *s, const struct answer *a);        /* o is, to the bit; of fp32 */
void shard_destroy(struct shard *s);

/* All of it: starts the ranks, runs one setting, and leaves the answer in the team. */
int team_attend(struct team *team, const struct masked *p, const struct setting *s);

#endif
