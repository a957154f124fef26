/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PERF_TWO_LEVEL_RUN_H
#define PERF_TWO_LEVEL_RUN_H

#include "bench.h"

/* Passes of schedules, with a kernel that does nothing or takes a given time: priced and timed. */

enum two_level_schedule { TWO_LEVEL_RING, TWO_LEVEL_TWO_LEVEL, TWO_LEVEL_DIRECT, TWO_LEVEL_SCHEDULES };
enum two_level_pass { TWO_LEVEL_FORWARD, TWO_LEVEL_KV_GRAD, TWO_LEVEL_Q_GRAD, TWO_LEVEL_PASSES };
enum two_level_chosen { TWO_LEVEL_NOT, TWO_LEVEL_OF_PASS, TWO_LEVEL_CHOSEN, TWO_LEVEL_CHOICES };
enum { TWO_LEVEL_CASES = TWO_LEVEL_SCHEDULES * TWO_LEVEL_PASSES };

extern const char *const two_level_schedules[TWO_LEVEL_SCHEDULES + 1];
extern const char *const two_level_passes[TWO_LEVEL_PASSES + 1];

struct two_level_options {
    int64_t heads, kv_heads, head_size;
    int64_t compute_us; /* of a whole block pair, forward; 0: the kernel does nothing */
    unsigned schedules, passes; /* bits */
};

/* How a pass is done, as plans say it: "two-level", "own-turns" ("-" where there is but one way). */
struct two_level_scheme {
    char schedule[16], variant[16], gradients[16];
};

/* A row. */
struct two_level_case {
    enum two_level_schedule schedule;
    enum two_level_pass pass;
    rondo_plan_t plan; /* one of the run's */
    struct two_level_scheme scheme;
    enum two_level_chosen chosen;
    double predicted_ms; /* below 0: not priced */
    double *ms;          /* [repetitions] of one start, on the slowest rank */
    double sent_bytes[2], bound_bytes; /* of all ranks and starts; by lane */
    double starts;
    double miscounted;   /* pairs of this rank, times that they were not all */
    double wrong;        /* of all ranks; known to be so on all of them once verified, and once measured */
};

struct two_level_run {
    struct perf_bench *bench;
    const struct two_level_options *own;
    size_t bytes;   /* of K and V of a rank */
    int64_t tokens; /* of a rank */
    rondo_layout_t layout;
    rondo_kernel_t kernel;
    rondo_plan_t plans[TWO_LEVEL_SCHEDULES][2]; /* by gradients */
    struct two_level_scheme taken[TWO_LEVEL_PASSES + 1]; /* when the schedule is left open; the last: both are */
    rondo_attention_fwd_t fwd;
    rondo_attention_bwd_t bwd;
    struct two_level_case cases[TWO_LEVEL_CASES];
    int count;
};

/* Bytes of K and V of one token. */
size_t two_level_token_bytes(const struct two_level_options *own);

/* Operations a second at which a whole block pair of `tokens` takes compute_us. */
double two_level_flops(const struct two_level_options *own, int64_t tokens);

/* Collective, all of them.  Release it after a failure too. */
rondo_status_t two_level_init(struct two_level_run *run, struct perf_bench *bench, size_t bytes);
void two_level_release(struct two_level_run *run);

/* The same schedules, of a small problem and with a real kernel, make what attention in fp64 makes: `starts` of
 * each.  Sets wrong of all cases, equal on all ranks. */
rondo_status_t two_level_verify(struct two_level_run *run, int starts);

/* All cases in turn, in each repetition. */
rondo_status_t two_level_measure(struct two_level_run *run);

/* What the plan says of a pass. */
rondo_status_t two_level_read(rondo_plan_t plan, enum two_level_pass pass, struct two_level_scheme *scheme);
int two_level_alike(const struct two_level_scheme *a, const struct two_level_scheme *b);

#endif
