/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_MASKS_H
#define TEST_MASKS_H

#include <stdint.h>

#include "tests/ranks.h"

/* Attention with masks, packed documents and keys of another length, over P ranks against fp64 on one. */

enum { QUERIES, KEYS }; /* index of what both have */

/* Documents: their slots, of which the first `lengths` are tokens and the others padding. */
struct packing {
    int documents;
    const int64_t *slots, *lengths; /* [documents]; lengths NULL: no padding */
};

struct mask_case {
    const char *group, *name;
    rondo_mask_t mask;
    rondo_mask_params_t params;
    int64_t tokens[2];             /* keys 0: as many as queries */
    const struct packing *docs[2]; /* NULL: not packed; keys NULL: packed as queries */
    int shape;                     /* of the table in masks_oracle.c */
    float softcap, dropout;
    int sinks;
    rondo_dtype_t dtype;
};

/* A case, its inputs and its answer, straight from the definitions in rondo/mask.h, kernel.h and
 * attention.h: it shares no code with the library, but for which weights dropout keeps. */
struct masked {
    const struct mask_case *is;
    int64_t batch, tokens[2];
    int q_heads, kv_heads, qk_dim, v_dim;
    int64_t *cu[2]; /* [documents + 1]; NULL: not packed */
    uint64_t seed;
    uint8_t *sees; /* [queries][keys] */
    int64_t area;
    float *q, *k, *v, *d_o, *sinks;           /* [batch][tokens][heads][dim], unit variance; padding is NaN */
                                              /* for types of 16 bits numbers that both of them have */
    double *o, *lse, *dq, *dk, *dv, *d_sinks; /* lse: [batch][tokens][q_heads] */
};

/* Exits when out of memory, or when the case contradicts itself. */
void masked_init(struct masked *p, const struct mask_case *is, uint64_t seed);
/* Computes the answers again, after inputs were changed. */
void masked_solve(struct masked *p);
void masked_release(struct masked *p);
int masked_is_padding(const struct masked *p, int side, int64_t position);

#endif
