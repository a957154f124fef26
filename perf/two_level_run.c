/* SPDX-License-Identifier: Apache-2.0 */
#include "two_level_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "measure.h"

const char *const two_level_schedules[] = {[TWO_LEVEL_RING] = "ring", [TWO_LEVEL_TWO_LEVEL] = "two-level",
                                           [TWO_LEVEL_DIRECT] = "direct", [TWO_LEVEL_SCHEDULES] = NULL};
const char *const two_level_passes[] = {[TWO_LEVEL_FORWARD] = "forward", [TWO_LEVEL_KV_GRAD] = "kv-grad",
                                        [TWO_LEVEL_Q_GRAD] = "q-grad", [TWO_LEVEL_PASSES] = NULL};

size_t two_level_token_bytes(const struct two_level_options *own)
{
    return (size_t)(own->kv_heads * own->head_size) * 2 * sizeof(float);
}

/* As prices count operations: of a pair of tokens. */
static double pair_operations(const struct two_level_options *own, enum two_level_pass pass)
{
    double products = pass == TWO_LEVEL_FORWARD ? 2 : 5;

    return 2 * products * (double)own->head_size * (double)own->heads;
}

double two_level_flops(const struct two_level_options *own, int64_t tokens)
{
    double n = (double)tokens;

    return n * n * pair_operations(own, TWO_LEVEL_FORWARD) / ((double)own->compute_us * 1e-6);
}

/* ---- the kernel ---- */

static double pairs_of(const rondo_tile_t *tiles, int count)
{
    double pairs = 0;

    for (int i = 0; i < count; i++)
        pairs += (double)tiles[i].q_count * (double)tiles[i].k_count;
    return pairs;
}

/* Sleeps, so that as many ranks as there are compute at once; in slices, between which messages move. */
static int pass_time(double us, int (*poll)(void *poller), void *poller)
{
    const struct timespec slice = {.tv_nsec = 200000};
    double end = perf_now_us() + us;
    int err = 0;

    while (!err && perf_now_us() < end) {
        nanosleep(&slice, NULL);
        err = poll ? poll(poller) : 0;
    }
    return err;
}

static int forward_kernel(void *context, const rondo_kernel_forward_t *args)
{
    const struct two_level_run *run = context;
    double share = pairs_of(args->tiles, args->tile_count) / (double)run->tokens / (double)run->tokens;

    return run->own->compute_us ? pass_time(share * (double)run->own->compute_us, args->poll, args->poller) : 0;
}

static int backward_kernel(void *context, const rondo_kernel_backward_t *args)
{
    const struct two_level_run *run = context;
    double share = pairs_of(args->tiles, args->tile_count) / (double)run->tokens / (double)run->tokens;

    share *= pair_operations(run->own, TWO_LEVEL_KV_GRAD) / pair_operations(run->own, TWO_LEVEL_FORWARD);
    return run->own->compute_us ? pass_time(share * (double)run->own->compute_us, args->poll, args->poller) : 0;
}

/* ---- what plans say ---- */

int two_level_alike(const struct two_level_scheme *a, const struct two_level_scheme *b)
{
    return strcmp(a->schedule, b->schedule) == 0 && strcmp(a->variant, b->variant) == 0 &&
           strcmp(a->gradients, b->gradients) == 0;
}

/* Of "  two-level own-turns kv-grad, priced ..", the second line of what is said of a pass. */
static int parse_scheme(const char *line, struct two_level_scheme *scheme)
{
    char words[3][16] = {"", "", ""};
    int count = sscanf(line, " %15[^ ,\n] %15[^ ,\n] %15[^ ,\n]", words[0], words[1], words[2]);
    int last = count - 1;

    if (count < 1)
        return -1;
    *scheme = (struct two_level_scheme){.variant = "-"};
    memcpy(scheme->schedule, words[0], sizeof(scheme->schedule));
    if (last > 0 && strstr(words[last], "-grad"))
        memcpy(scheme->gradients, words[last--], sizeof(scheme->gradients));
    if (last > 0)
        memcpy(scheme->variant, words[last], sizeof(scheme->variant));
    return 0;
}

rondo_status_t two_level_read(rondo_plan_t plan, enum two_level_pass pass, struct two_level_scheme *scheme)
{
    const char *name = pass == TWO_LEVEL_FORWARD ? "forward: " : "backward: ";
    size_t bytes = 0;
    rondo_status_t status = rondo_plan_describe(plan, NULL, 0, &bytes);
    char *text = status ? NULL : malloc(bytes), *line = text;

    if (!status)
        status = text ? rondo_plan_describe(plan, text, bytes, NULL) : RONDO_ERR_MEMORY;
    while (!status && line && strncmp(line, name, strlen(name)) != 0) {
        line = strchr(line, '\n');
        line += line != NULL;
    }
    line = !status && line ? strchr(line, '\n') : NULL;
    if (!status && (!line || parse_scheme(line + 1, scheme)))
        status = RONDO_ERR_INTERNAL;
    free(text);
    return status;
}

/* ---- plans ---- */

static rondo_status_t make_plan(struct two_level_run *run, const char *schedule, const char *gradients,
                                rondo_plan_t *plan)
{
    rondo_attention_desc_t desc = RONDO_ATTENTION_DESC_INIT;
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;

    desc.mask = RONDO_MASK_FULL;
    desc.q_heads = (int)run->own->heads;
    desc.kv_heads = (int)run->own->kv_heads;
    desc.qk_dim = (int)run->own->head_size;
    options.schedule = schedule;
    options.backward = gradients;
    options.kernel = &run->kernel;
    return rondo_attention_plan(run->bench->comm, run->layout, &desc, &options, plan);
}

/* What is taken when nobody asks for a schedule. */
static rondo_status_t ask_plans(struct two_level_run *run)
{
    static const char *const gradients[] = {"kv-grad", "q-grad", "auto"};
    rondo_status_t status = RONDO_OK;

    for (int i = 0; i < 3 && !status; i++) {
        rondo_plan_t plan = NULL;

        status = make_plan(run, "auto", gradients[i], &plan);
        if (!status && i == 0)
            status = two_level_read(plan, TWO_LEVEL_FORWARD, &run->taken[TWO_LEVEL_FORWARD]);
        if (!status)
            status = two_level_read(plan, TWO_LEVEL_KV_GRAD, &run->taken[TWO_LEVEL_KV_GRAD + i]);
        rondo_plan_destroy(plan);
    }
    return status;
}

static rondo_status_t add_case(struct two_level_run *run, int schedule, int pass)
{
    struct two_level_case *it = &run->cases[run->count++];
    rondo_plan_stats_t stats = RONDO_PLAN_STATS_INIT;
    rondo_status_t status;

    *it = (struct two_level_case){.schedule = schedule, .pass = pass,
                                  .plan = run->plans[schedule][pass == TWO_LEVEL_Q_GRAD],
                                  .ms = calloc((size_t)run->bench->options.repetitions, sizeof(*it->ms))};
    status = it->ms ? two_level_read(it->plan, pass, &it->scheme) : RONDO_ERR_MEMORY;
    if (!status)
        status = rondo_plan_stats(it->plan, &stats);
    it->predicted_ms = stats.priced_seconds[pass != TWO_LEVEL_FORWARD] * 1e3;
    if (two_level_alike(&it->scheme, &run->taken[pass]))
        it->chosen = TWO_LEVEL_OF_PASS;
    if (it->chosen && (pass == TWO_LEVEL_FORWARD || two_level_alike(&it->scheme, &run->taken[TWO_LEVEL_PASSES])))
        it->chosen = TWO_LEVEL_CHOSEN;
    return status;
}

/* A pass of all schedules follows that of another, since the rows are compared so. */
static rondo_status_t make_cases(struct two_level_run *run)
{
    rondo_status_t status = ask_plans(run);

    for (int s = 0; s < TWO_LEVEL_SCHEDULES && !status; s++)
        for (int i = 0; i < 2 && !status && (run->own->schedules >> s & 1); i++)
            status = make_plan(run, two_level_schedules[s], two_level_passes[TWO_LEVEL_KV_GRAD + i],
                               &run->plans[s][i]);
    for (int pass = 0; pass < TWO_LEVEL_PASSES; pass++)
        for (int s = 0; s < TWO_LEVEL_SCHEDULES && !status; s++)
            if ((run->own->schedules >> s & 1) && (run->own->passes >> pass & 1))
                status = add_case(run, s, pass);
    return status;
}

static rondo_status_t make_tensors(struct two_level_run *run)
{
    size_t k_bytes = run->bytes / 2, q_bytes = k_bytes * (size_t)(run->own->heads / run->own->kv_heads);
    rondo_attention_fwd_t *fwd = &run->fwd;
    rondo_attention_bwd_t *bwd = &run->bwd;

    *fwd = (rondo_attention_fwd_t)RONDO_ATTENTION_FWD_INIT;
    *bwd = (rondo_attention_bwd_t)RONDO_ATTENTION_BWD_INIT;
    bwd->q = fwd->q = perf_touched(q_bytes);
    bwd->k = fwd->k = perf_touched(k_bytes);
    bwd->v = fwd->v = perf_touched(k_bytes);
    bwd->o = fwd->o = perf_touched(q_bytes);
    bwd->lse = fwd->lse = perf_touched((size_t)(run->tokens * run->own->heads) * sizeof(float));
    bwd->d_o = perf_touched(q_bytes);
    bwd->dq = perf_touched(q_bytes);
    bwd->dk = perf_touched(k_bytes);
    bwd->dv = perf_touched(k_bytes);
    return fwd->q && fwd->k && fwd->v && fwd->o && fwd->lse && bwd->d_o && bwd->dq && bwd->dk && bwd->dv
               ? RONDO_OK
               : RONDO_ERR_MEMORY;
}

rondo_status_t two_level_init(struct two_level_run *run, struct perf_bench *bench, size_t bytes)
{
    rondo_layout_desc_t deal = RONDO_LAYOUT_DESC_INIT;
    rondo_status_t status;

    *run = (struct two_level_run){.bench = bench, .own = bench->options.own, .bytes = bytes};
    run->tokens = (int64_t)(bytes / two_level_token_bytes(run->own));
    run->kernel = (rondo_kernel_t){.struct_bytes = sizeof(run->kernel), .name = "nothing", .context = run,
                                   .flags = RONDO_KERNEL_MERGES | RONDO_KERNEL_POLLS,
                                   .forward = forward_kernel, .backward = backward_kernel};
    deal.tokens = run->tokens * bench->info.size;
    deal.ranks = bench->info.size;
    status = rondo_layout_create(&deal, &run->layout);
    if (!status)
        status = make_cases(run);
    return status ? status : make_tensors(run);
}

void two_level_release(struct two_level_run *run)
{
    for (int s = 0; s < TWO_LEVEL_SCHEDULES; s++)
        for (int i = 0; i < 2; i++)
            rondo_plan_destroy(run->plans[s][i]);
    rondo_layout_destroy(run->layout);
    for (int i = 0; i < run->count; i++)
        free(run->cases[i].ms);
    free((void *)run->fwd.q);
    free((void *)run->fwd.k);
    free((void *)run->fwd.v);
    free(run->fwd.o);
    free(run->fwd.lse);
    free((void *)run->bwd.d_o);
    free(run->bwd.dq);
    free(run->bwd.dk);
    free(run->bwd.dv);
}

/* ---- timed ---- */

static rondo_status_t start(struct two_level_run *run, const struct two_level_case *it, int count)
{
    rondo_status_t status = RONDO_OK;

    for (int i = 0; i < count && !status; i++) {
        rondo_request_t request = NULL;

        if (it->pass == TWO_LEVEL_FORWARD)
            status = perf_wait(rondo_attention_forward(it->plan, &run->fwd, NULL, &request), &request);
        else
            status = perf_wait(rondo_attention_backward(it->plan, &run->bwd, NULL, &request), &request);
    }
    return status;
}

static void add_counts(struct two_level_run *run, struct two_level_case *it, int starts,
                       const rondo_plan_stats_t *before, const rondo_plan_stats_t *after)
{
    double pairs = (double)run->tokens * (double)run->tokens * run->bench->info.size * starts;

    for (int lane = 0; lane < 2; lane++)
        it->sent_bytes[lane] += (double)(after->sent_bytes[lane] - before->sent_bytes[lane]);
    it->bound_bytes += (double)(after->bound_bytes - before->bound_bytes);
    it->starts += starts;
    if ((double)(after->pairs - before->pairs) != pairs)
        it->miscounted++;
}

/* Timed starts follow the untimed ones without a pause, so that no link rests and gets ahead of its rate by what
 * it saved. */
static rondo_status_t time_case(struct two_level_run *run, struct two_level_case *it, int repetition)
{
    const struct perf_options *options = &run->bench->options;
    int timed = perf_iterations(options, run->bytes), untimed = perf_warmup(options, run->bytes);
    rondo_plan_stats_t before = RONDO_PLAN_STATS_INIT, after = RONDO_PLAN_STATS_INIT;
    rondo_status_t status = rondo_plan_stats(it->plan, &before);
    double begin_us;

    if (!status)
        status = perf_barrier(run->bench->comm);
    if (!status)
        status = start(run, it, untimed);
    begin_us = perf_now_us();
    if (!status)
        status = start(run, it, timed);
    it->ms[repetition] = (perf_now_us() - begin_us) / 1e3 / timed;
    if (!status)
        status = rondo_plan_stats(it->plan, &after);
    if (!status)
        add_counts(run, it, untimed + timed, &before, &after);
    return status;
}

static rondo_status_t share_case(struct two_level_run *run, struct two_level_case *it)
{
    size_t repetitions = (size_t)run->bench->options.repetitions;
    double sums[] = {it->sent_bytes[0], it->sent_bytes[1], it->bound_bytes, it->miscounted};
    rondo_status_t status = perf_max_over_ranks(run->bench->comm, it->ms, repetitions);

    if (!status)
        status = perf_sum_over_ranks(run->bench->comm, sums, 4);
    it->sent_bytes[0] = sums[0];
    it->sent_bytes[1] = sums[1];
    it->bound_bytes = sums[2];
    it->wrong += sums[3];
    return status;
}

/* What was wrong has no times. */
rondo_status_t two_level_measure(struct two_level_run *run)
{
    rondo_status_t status = RONDO_OK;

    for (int repetition = 0; repetition < run->bench->options.repetitions; repetition++)
        for (int i = 0; i < run->count && !status; i++)
            if (run->cases[i].wrong == 0)
                status = time_case(run, &run->cases[i], repetition);
    for (int i = 0; i < run->count && !status; i++)
        if (run->cases[i].starts > 0)
            status = share_case(run, &run->cases[i]);
    return status;
}
