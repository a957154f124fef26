/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_SEQUENCE_H
#define TRAIN_SEQUENCE_H

#include <stdint.h>

#include <rondo/rondo.h>

#include "options.h"
#include "parallel.h"

/* A sequence length with its layout and its attention plan.  One plan serves all layers, and every batch:
 * of packed documents it is made for the most that there may be, and bound to those that there are. */
struct sequence {
    rondo_layout_desc_t desc; /* of layout; its pointers are into this struct's memory */
    rondo_layout_t layout;
    rondo_plan_t plan;
    rondo_mask_t mask;
    rondo_mask_params_t mask_params;
    int64_t tokens;     /* of the whole sequence */
    int packed;         /* documents see each other not */
    int64_t *edges;     /* [most documents + 1]: where each begins, and the last ends */
    int64_t room;       /* no batch gives this rank more tokens */
    int64_t n;          /* of this rank's shard */
    int64_t *positions; /* [n] of room, in the token's document */
    int32_t *whole;     /* [tokens], token ids of the sequence, on every rank */
    int32_t *shard;     /* [n] of room */
    int32_t *targets;   /* [n] of room */
};

/* Collective.  Returns an exit code: 0, or what parallel_refused returned.  documents: the most that a
 * batch may have; 0: the sequence is not packed.  It starts as one document.  inference: no backward, and
 * the options' backward is not looked at. */
int sequence_init(struct sequence *s, struct parallel *p, const struct options *o, int64_t tokens,
                  int documents, int inference);
void sequence_release(struct sequence *s);

/* Fits layout, plan, n and positions to s->edges, which has so many documents; all ranks do it alike. */
rondo_status_t sequence_fit(struct sequence *s, const struct parallel *p, int documents);

/* Cuts s->whole into s->shard and s->targets. */
rondo_status_t sequence_cut(struct sequence *s, const struct parallel *p);

#endif
