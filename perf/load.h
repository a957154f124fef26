/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PERF_LOAD_H
#define PERF_LOAD_H

#include <stddef.h>
#include <stdint.h>

#include <rondo/kernel.h>

/* The kernel of rondo_overlap: it works for as long as it is told, by the (query, key) pairs that it is
 * given, or it looks at what has come. */

enum load_kind { LOAD_SPIN, LOAD_MATMUL, LOAD_KINDS };

struct load {
    enum load_kind kind;
    double unit_us;        /* how long a unit of work takes, when nothing disturbs it */
    double units_per_pair; /* 0: does nothing */
    double owed;           /* units, less than one */
    double worked_us;      /* spent in units since it was set to 0 */
    float result;          /* so that the work is not left out */

    /* Looking: the sums of q, and of k and v, of each pair of blocks, and how many pairs of tokens. */
    int looks, ranks;
    int64_t tokens; /* of a block; position p belongs to rank p / tokens */
    int qk_dim, v_dim;
    uint32_t *q_sum, *kv_sum; /* [ranks][ranks], by owners of q and k */
    int64_t *pairs;
};

const char *load_name(enum load_kind kind);

/* Measures unit_us: the least of several tries. */
void load_calibrate(struct load *load, enum load_kind kind);

/* So many us of work, in portions of portion_us.  Returns how long it took. */
double load_work(struct load *load, double us, double portion_us);

/* For a rondo_kernel_t, whose context is a struct load. */
int load_forward(void *context, const rondo_kernel_forward_t *args);
int load_backward(void *context, const rondo_kernel_backward_t *args);

#endif
