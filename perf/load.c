/* SPDX-License-Identifier: Apache-2.0 */
#include "load.h"

#include "measure.h"
#include "pattern.h"

enum { SPIN_STEPS = 1000, SIDE = 32, CALIBRATIONS = 200, PER_CALIBRATION = 100 };

/* Each step waits for the one before: a core that is busy, and no memory. */
static float spin(void)
{
    float x = 1.0f;

    for (int i = 0; i < SPIN_STEPS; i++) {
        x = x * 0.999f + 0.5f;
        __asm__ volatile("" : "+x"(x)); /* so that it is done, and step by step */
    }
    return x;
}

/* What attention spends its time with, on operands that stay in the first cache. */
static float matmul(void)
{
    static float a[SIDE][SIDE], b[SIDE][SIDE], c[SIDE][SIDE];

    for (int i = 0; i < SIDE; i++)
        for (int k = 0; k < SIDE; k++)
            for (int j = 0; j < SIDE; j++)
                c[i][j] += a[i][k] * b[k][j];
    __asm__ volatile("" : : "r"(c) : "memory");
    return c[0][0];
}

static const struct {
    const char *name;
    float (*unit)(void);
} kinds[LOAD_KINDS] = {[LOAD_SPIN] = {"spin", spin}, [LOAD_MATMUL] = {"matmul", matmul}};

const char *load_name(enum load_kind kind)
{
    return kinds[kind].name;
}

static void work(struct load *load, double units)
{
    double begin = perf_now_us();

    for (load->owed += units; load->owed >= 1; load->owed--)
        load->result += kinds[load->kind].unit();
    load->worked_us += perf_now_us() - begin;
}

void load_calibrate(struct load *load, enum load_kind kind)
{
    load->kind = kind;
    for (int i = 0; i < CALIBRATIONS; i++) {
        double us;

        load->worked_us = load->owed = 0;
        work(load, PER_CALIBRATION);
        us = load->worked_us / PER_CALIBRATION;
        if (i == 0 || us < load->unit_us)
            load->unit_us = us;
    }
}

double load_work(struct load *load, double us, double portion_us)
{
    double begin = perf_now_us();

    for (double done = 0; done < us; done += portion_us)
        work(load, (us - done < portion_us ? us - done : portion_us) / load->unit_us);
    return perf_now_us() - begin;
}

/* ---- looking ---- */

/* One head and one batch row, so rows follow each other without a gap. */
static uint32_t sum_rows(const rondo_tensor_t *tensor, int64_t first, int64_t count, int dims)
{
    const float *rows = (const float *)tensor->data + first * tensor->token_stride;

    return pattern_sum(rows, (size_t)count * (size_t)dims * sizeof(float));
}

/* Tiles are cut by queries and by keys: those with the first query of a block meet each key of the
 * other once, and the other way round. */
static void look(struct load *load, const rondo_tile_t *tile, const rondo_tensor_t *q,
                 const rondo_tensor_t *k, const rondo_tensor_t *v)
{
    int64_t at = tile->q_start / load->tokens * load->ranks + tile->k_start / load->tokens;

    load->pairs[at] += tile->q_count * tile->k_count;
    if (tile->k_start % load->tokens == 0)
        load->q_sum[at] += sum_rows(q, tile->q_first, tile->q_count, load->qk_dim);
    if (tile->q_start % load->tokens == 0)
        load->kv_sum[at] += sum_rows(k, tile->k_first, tile->k_count, load->qk_dim) +
                            sum_rows(v, tile->k_first, tile->k_count, load->v_dim);
}

static void do_tile(struct load *load, const rondo_tile_t *tile, const rondo_tensor_t *q,
                    const rondo_tensor_t *k, const rondo_tensor_t *v)
{
    if (load->looks)
        look(load, tile, q, k, v);
    else if (load->units_per_pair > 0)
        work(load, (double)(tile->q_count * tile->k_count) * load->units_per_pair);
}

int load_forward(void *context, const rondo_kernel_forward_t *args)
{
    for (int i = 0; i < args->tile_count; i++)
        do_tile(context, &args->tiles[i], &args->q, &args->k, &args->v);
    return 0;
}

int load_backward(void *context, const rondo_kernel_backward_t *args)
{
    for (int i = 0; i < args->tile_count; i++)
        do_tile(context, &args->tiles[i], &args->q, &args->k, &args->v);
    return 0;
}
