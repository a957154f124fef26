/* SPDX-License-Identifier: Apache-2.0 */
/* GFLOP/s of an attention kernel beside a matrix product and the limit of multiply-adds, in one process. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rondo/rondo.h>

#include "kernel_call.h"
#include "kernel_torch.h"
#include "measure.h"
#include "options.h"
#include "print.h"
#include "yardstick.h"

enum { SGEMM_SIZE = 2048, SIZES_MAX = 8, REPEATS_MAX = 1000, CHECK_TOKENS = 200 };

/* ---- options ---- */

struct kernel_options {
    int64_t tokens;
    int64_t heads, kv_heads, threads, v_size;
    int64_t sizes[SIZES_MAX];
    int size_count;
    int causal, head_major;
    rondo_dtype_t dtype;
    double softcap, dropout;
    const char *kernel, *python;
};

static int take_number(const char *text, int64_t most, int64_t *value)
{
    return perf_parse_number(text, '\0', 1, most, value);
}

static int take_tokens(void *own, const char *text)
{
    return take_number(text, 1 << 24, &((struct kernel_options *)own)->tokens);
}

static int take_heads(void *own, const char *text)
{
    return take_number(text, 1024, &((struct kernel_options *)own)->heads);
}

static int take_kv_heads(void *own, const char *text)
{
    return take_number(text, 1024, &((struct kernel_options *)own)->kv_heads);
}

static int take_v_size(void *own, const char *text)
{
    return take_number(text, 4096, &((struct kernel_options *)own)->v_size);
}

static int take_threads(void *own, const char *text)
{
    return take_number(text, CREW_MOST, &((struct kernel_options *)own)->threads);
}

static int take_sizes(void *own, const char *text)
{
    struct kernel_options *o = own;
    const char *comma;

    for (o->size_count = 0; o->size_count < SIZES_MAX; text = comma + 1) {
        comma = strchr(text, ',');
        if (perf_parse_number(text, comma ? ',' : '\0', 1, 4096, &o->sizes[o->size_count++]))
            return -1;
        if (!comma)
            return 0;
    }
    return -1;
}

static int take_word(const char *text, const char *const *words, int *value)
{
    for (int i = 0; words[i]; i++)
        if (strcmp(text, words[i]) == 0) {
            *value = i;
            return 0;
        }
    return -1;
}

static int take_mask(void *own, const char *text)
{
    static const char *const words[] = {"full", "causal", NULL};

    return take_word(text, words, &((struct kernel_options *)own)->causal);
}

static int take_strides(void *own, const char *text)
{
    static const char *const words[] = {"token", "head", NULL};

    return take_word(text, words, &((struct kernel_options *)own)->head_major);
}

static const char *const dtype_words[] = {"fp32", "bf16", "f16", NULL};
static const rondo_dtype_t dtypes[] = {RONDO_F32, RONDO_BF16, RONDO_F16};

static int take_dtype(void *own, const char *text)
{
    int i;

    if (take_word(text, dtype_words, &i))
        return -1;
    ((struct kernel_options *)own)->dtype = dtypes[i];
    return 0;
}

/* In [0, most). */
static int take_real(const char *text, double most, double *value)
{
    char *end;

    *value = strtod(text, &end);
    return end != text && !*end && *value >= 0 && *value < most ? 0 : -1;
}

static int take_softcap(void *own, const char *text)
{
    return take_real(text, 1e30, &((struct kernel_options *)own)->softcap);
}

static int take_dropout(void *own, const char *text)
{
    return take_real(text, 1, &((struct kernel_options *)own)->dropout);
}

static int take_kernel(void *own, const char *text)
{
    ((struct kernel_options *)own)->kernel = text;
    return rondo_kernel_find(text) ? 0 : -1;
}

static int take_python(void *own, const char *text)
{
    ((struct kernel_options *)own)->python = text;
    return 0;
}

static const struct perf_extra extras[] = {
    {"tokens", "N", "queries, and as many keys [4096]", "a whole number, 1 or more", take_tokens},
    {"heads", "N", "query heads [8]", "1 to 1024", take_heads},
    {"kv-heads", "N", "key heads [as --heads]", "a divisor of --heads", take_kv_heads},
    {"head-size", "LIST", "head sizes, a pair of rows each [64,128]", "up to 8 of 1 to 4096", take_sizes},
    {"v-size", "N", "head size of values [that of keys]", "1 to 4096", take_v_size},
    {"mask", "M", "full or causal [causal]", "full or causal", take_mask},
    {"strides", "S", "token or head: what is apart by all the others [token]", "token or head", take_strides},
    {"dtype", "T", "fp32, bf16 or f16: of q, k, v and dO [fp32]", "fp32, bf16 or f16", take_dtype},
    {"softcap", "C", "cap of scores [0: none]", "0 or more", take_softcap},
    {"dropout", "P", "share of weights that are dropped [0]", "0 or more, less than 1", take_dropout},
    {"kernel", "K", "flash, flash-avx2 and its like, or reference [flash]", "one that this CPU has", take_kernel},
    {"threads", "N", "of the kernel and of what it is held against [1]", "1 to 256", take_threads},
    {"python", "FILE", "the interpreter of --peer torch [/usr/bin/python3]", "a file", take_python},
    {NULL, NULL, NULL, NULL, NULL},
};

/* ---- the table ---- */

enum { COL_PASS, COL_SIZE, COL_GFLOPS, COL_SGEMM, COL_FMA, COL_OF_SGEMM, COL_LEAST, COL_MOST, COL_OF_FMA, COL_PEER,
       COL_OF_PEER, COL_WRONG, COLS };

static const struct perf_column columns[] = {
    {"pass", "pass", 8, 0, PERF_ALWAYS},        {"head", "head_size", 5, 0, PERF_ALWAYS},
    {"GFLOP/s", "gflops", 9, 2, PERF_ALWAYS},   {"sgemm", "sgemm_gflops", 9, 2, PERF_ALWAYS},
    {"fma", "fma_gflops", 9, 2, PERF_ALWAYS},   {"x sgemm", "of_sgemm", 8, 3, PERF_ALWAYS},
    {"least", "of_sgemm_least", 7, 3, PERF_ALWAYS}, {"most", "of_sgemm_most", 7, 3, PERF_ALWAYS},
    {"x fma", "of_fma", 7, 3, PERF_ALWAYS},     {"torch", "torch_gflops", 9, 2, PERF_PEER},
    {"x torch", "of_torch", 8, 2, PERF_PEER},   {"#wrong", "wrong", 7, 0, PERF_ALWAYS},
    {NULL, NULL, 0, 0, PERF_NEVER},
};

static const char *const pass_words[] = {"forward", "backward"};
static const char *const *const words[COLS] = {[COL_PASS] = pass_words};

static const char summary[] =
    "Speed of an attention kernel, forward and backward, one call at a time, beside a matrix product\n"
    "(sgemm, 2048 cubed) and the most that multiply-adds can do, alternating in one process.\n";

static const char meaning[] =
    "Columns: GFLOP/s, median: 4 x visible pairs x head size x heads forward, 10 backward, of which a\n"
    "causal mask has half; sgemm and fma, medians; x sgemm, the median of the ratios of neighbours in\n"
    "time, the least and the most of them; x fma likewise; #wrong, elements that differ from the\n"
    "reference kernel on a small problem by more than a kernel may.\n";

/* ---- one problem ---- */

static const rondo_tile_t *the_tile(const struct kernel_options *o, int64_t tokens, rondo_tile_t *tile)
{
    *tile = (rondo_tile_t){.q_count = tokens,
                           .k_count = tokens,
                           .lo = o->causal ? 0 : 1 - tokens,
                           .hi = tokens - 1,
                           .q_step = 1,
                           .k_step = 1,
                           .kind = o->causal ? RONDO_TILE_CAUSAL : RONDO_TILE_FULL};
    return tile;
}

static int prepare(struct kernel_call *call, const struct kernel_options *o, const char *kernel, int64_t tokens,
                   int64_t size, struct crew *crew, const rondo_tile_t *tile)
{
    int64_t v_size = o->v_size ? o->v_size : size;

    *call = (struct kernel_call){
        .kernel = rondo_kernel_find(kernel), .tiles = tile, .tile_count = 1, .q_tokens = tokens,
        .k_tokens = tokens, .strides = o->head_major ? CALL_HEAD_MAJOR : CALL_TOKEN_MAJOR,
        .shape = {.dtype = o->dtype, .batch = 1, .q_heads = (int)o->heads, .kv_heads = (int)o->kv_heads,
                  .qk_dim = (int)size, .v_dim = (int)v_size, .scale = (float)(1 / sqrt((double)size)),
                  .softcap = (float)o->softcap, .dropout = (float)o->dropout, .threads = crew->threads},
    };
    if (crew->threads > 1) {
        call->shape.run = crew_run;
        call->shape.runner = crew;
    }
    if (call_init(call))
        return -1;
    call_fill(call, NULL, NULL);
    call_clear_forward(call);
    call_clear_backward(call);
    return 0;
}

static int run_both(struct kernel_call *call)
{
    int err = call_forward(call);

    if (!err)
        call_delta(call);
    return err ? err : call_backward(call);
}

static double differing(const rondo_tensor_t *got, const rondo_tensor_t *want, int64_t count)
{
    const float *x = got->data, *y = want->data;
    double wrong = 0;

    for (int64_t i = 0; i < count; i++)
        wrong += !(fabsf(x[i] - y[i]) <= 2e-5f * fmaxf(1, fabsf(y[i])));
    return wrong;
}

/* Of a small problem: elements that are not the reference's; < 0: it could not be run. */
static double count_wrong(const struct kernel_options *o, int64_t size, struct crew *crew)
{
    int64_t tokens = o->tokens < CHECK_TOKENS ? o->tokens : CHECK_TOKENS;
    struct kernel_call ours = {0}, reference = {0};
    rondo_tile_t tile;
    double wrong = -1;

    the_tile(o, tokens, &tile);
    if (!prepare(&ours, o, o->kernel, tokens, size, crew, &tile) &&
        !prepare(&reference, o, "reference", tokens, size, crew, &tile) && !run_both(&ours) &&
        !run_both(&reference))
        wrong = differing(&ours.o, &reference.o, ours.o.batch_stride) +
                differing(&ours.lse, &reference.lse, ours.lse.batch_stride) +
                differing(&ours.dq, &reference.dq, ours.dq.batch_stride) +
                differing(&ours.dk, &reference.dk, ours.dk.batch_stride) +
                differing(&ours.dv, &reference.dv, ours.dv.batch_stride);
    call_release(&ours);
    call_release(&reference);
    return wrong;
}

/* ---- timing ---- */

struct samples {
    double kernel[2][REPEATS_MAX], sgemm[2][REPEATS_MAX], fma[2][REPEATS_MAX], torch[REPEATS_MAX];
};

struct bench {
    const struct kernel_options *own;
    const struct perf_options *options;
    struct perf_report *report;
    struct yardstick yardstick;
    struct crew crew;
    struct kernel_torch *torch; /* NULL: none */
};

static double operations(const struct kernel_call *call, int pass)
{
    const rondo_kernel_shape_t *s = &call->shape;
    double dims = pass == 0 ? s->qk_dim + s->v_dim : 3.0 * s->qk_dim + 2.0 * s->v_dim;

    return 2 * dims * (double)call_pairs(call) * s->q_heads;
}

/* Seconds of one call; < 0: it failed. */
static double time_pass(struct kernel_call *call, int pass)
{
    double begin;
    int err;

    pass == 0 ? call_clear_forward(call) : call_clear_backward(call);
    begin = perf_now_us();
    err = pass == 0 ? call_forward(call) : call_backward(call);
    if (err)
        fprintf(stderr, "rondo_kernel: the kernel returned %d\n", err);
    return err ? -1 : (perf_now_us() - begin) * 1e-6;
}

/* Kernel and yardsticks one after the other: neighbours are compared. */
static int repeat(struct bench *bench, struct kernel_call *call, struct samples *s, int i)
{
    for (int pass = 0; pass < 2; pass++) {
        double seconds = time_pass(call, pass);

        if (seconds <= 0)
            return -1;
        if (pass == 0)
            call_delta(call);
        s->kernel[pass][i] = operations(call, pass) / seconds * 1e-9;
        s->sgemm[pass][i] = yardstick_no_sgemm() ? (double)NAN : yardstick_sgemm(&bench->yardstick);
        s->fma[pass][i] = yardstick_fma(&bench->yardstick);
        if (s->sgemm[pass][i] <= 0 || s->fma[pass][i] <= 0) {
            fprintf(stderr, "rondo_kernel: what the kernel is held against has computed wrong numbers\n");
            return -1;
        }
    }
    if (bench->torch) {
        double seconds = kernel_torch_time(bench->torch);

        if (seconds <= 0)
            return -1;
        s->torch[i] = operations(call, 0) / seconds * 1e-9;
    }
    return 0;
}

static void print_pass(struct bench *bench, const struct samples *s, int pass, int64_t size, double wrong)
{
    int n = bench->options->repetitions;
    double values[COLS], ratio[4][REPEATS_MAX], sorted[3][REPEATS_MAX];

    for (int i = 0; i < n; i++) {
        sorted[0][i] = s->kernel[pass][i];
        sorted[1][i] = s->sgemm[pass][i];
        sorted[2][i] = s->fma[pass][i];
        ratio[0][i] = s->kernel[pass][i] / s->sgemm[pass][i];
        ratio[1][i] = s->kernel[pass][i] / s->fma[pass][i];
        ratio[2][i] = s->kernel[pass][i] / s->torch[i];
        ratio[3][i] = s->torch[i];
    }
    for (int c = 0; c < COLS; c++)
        values[c] = (double)NAN;
    values[COL_PASS] = pass;
    values[COL_SIZE] = (double)size;
    values[COL_GFLOPS] = perf_median(sorted[0], (size_t)n);
    values[COL_FMA] = perf_median(sorted[2], (size_t)n);
    values[COL_OF_FMA] = perf_median(ratio[1], (size_t)n);
    if (!yardstick_no_sgemm()) {
        values[COL_SGEMM] = perf_median(sorted[1], (size_t)n);
        values[COL_OF_SGEMM] = perf_median(ratio[0], (size_t)n);
        values[COL_LEAST] = ratio[0][0];
        values[COL_MOST] = ratio[0][n - 1];
    }
    if (bench->torch && pass == 0) {
        values[COL_PEER] = perf_median(ratio[3], (size_t)n);
        values[COL_OF_PEER] = perf_median(ratio[2], (size_t)n);
    }
    values[COL_WRONG] = wrong;
    perf_report_row(bench->report, values);
}

static int start_torch(struct bench *bench, struct kernel_call *call)
{
    struct kernel_torch_problem problem = {.python = bench->own->python,
                                           .threads = bench->crew.threads,
                                           .causal = bench->own->causal,
                                           .timeout_ms = bench->options->timeout_ms,
                                           .call = call};

    if (!bench->options->peer)
        return 0;
    if (call_forward(call))
        return -1;
    bench->torch = kernel_torch_start(&problem);
    return bench->torch ? 0 : -1;
}

/* 0, or -1: something failed, and stderr says what.  Adds to *wrong. */
static int run_size(struct bench *bench, int64_t size, double *wrong)
{
    struct kernel_call call = {0};
    struct samples *samples = calloc(1, sizeof(*samples));
    double faults = count_wrong(bench->own, size, &bench->crew);
    rondo_tile_t tile;
    int err = -1;

    the_tile(bench->own, bench->own->tokens, &tile);
    if (faults < 0 || !samples)
        fprintf(stderr, "rondo_kernel: kernel %s refuses the problem: %s\n", bench->own->kernel,
                rondo_last_error());
    else if (prepare(&call, bench->own, bench->own->kernel, bench->own->tokens, size, &bench->crew, &tile))
        fprintf(stderr, "rondo_kernel: no memory for %lld tokens\n", (long long)bench->own->tokens);
    else
        err = start_torch(bench, &call);
    for (int i = -1; !err && i < bench->options->repetitions; i++) /* the first warms up */
        err = repeat(bench, &call, samples, i < 0 ? 0 : i);
    for (int pass = 0; !err && pass < 2; pass++)
        print_pass(bench, samples, pass, size, faults);
    kernel_torch_stop(bench->torch);
    bench->torch = NULL;
    call_release(&call);
    free(samples);
    *wrong += faults;
    return err;
}

/* ---- the program ---- */

static void print_header(struct bench *bench)
{
    const struct kernel_options *o = bench->own;
    int dtype = o->dtype == RONDO_F32 ? 0 : o->dtype == RONDO_BF16 ? 1 : 2;

    perf_report_header(bench->report, "rondo", "%s", rondo_version());
    perf_report_header(bench->report, "problem", "%lld tokens, %lld query and %lld key heads, mask %s, %s, %s-major, "
                       "softcap %g, dropout %g", (long long)o->tokens, (long long)o->heads, (long long)o->kv_heads,
                       o->causal ? "causal" : "full", dtype_words[dtype], o->head_major ? "head" : "token", o->softcap,
                       o->dropout);
    perf_report_header(bench->report, "kernel", "%s, %d thread%s", o->kernel, bench->crew.threads,
                       bench->crew.threads > 1 ? "s" : "");
    perf_report_header(bench->report, "sgemm", "%s", yardstick_no_sgemm() ? yardstick_no_sgemm()
                                                                         : yardstick_sgemm_name());
    perf_report_header(bench->report, "fma", "%s", yardstick_fma_name());
}

static int refuse(const struct kernel_options *o, const struct perf_options *options)
{
    if (o->heads % o->kv_heads) {
        fprintf(stderr, "rondo_kernel: --kv-heads %lld is refused: give a divisor of --heads %lld\n",
                (long long)o->kv_heads, (long long)o->heads);
        return 1;
    }
    if (options->repetitions > REPEATS_MAX) {
        fprintf(stderr, "rondo_kernel: --alternate %d is refused: give 1 to %d\n", options->repetitions, REPEATS_MAX);
        return 1;
    }
    if (options->peer && (o->dtype != RONDO_F32 || o->softcap > 0 || o->dropout > 0)) {
        fprintf(stderr, "rondo_kernel: --peer torch goes with --dtype fp32, and without softcap and dropout\n");
        return 1;
    }
    return 0;
}

static int run(struct bench *bench)
{
    double wrong = 0;
    int err = yardstick_init(&bench->yardstick, SGEMM_SIZE, &bench->crew);

    if (err)
        fprintf(stderr, "rondo_kernel: no memory for a product of %d cubed\n", SGEMM_SIZE);
    yardstick_sgemm_threads(bench->crew.threads);
    if (!err)
        print_header(bench);
    for (int i = 0; !err && i < bench->own->size_count; i++)
        err = run_size(bench, bench->own->sizes[i], &wrong);
    yardstick_release(&bench->yardstick);
    return err || wrong > 0;
}

int main(int argc, char **argv)
{
    struct kernel_options own = {.tokens = 4096, .heads = 8, .sizes = {64, 128}, .size_count = 2, .causal = 1,
                                 .kernel = "flash", .threads = 1, .python = "/usr/bin/python3"};
    static const struct perf_about about = {.name = "rondo_kernel", .summary = summary, .columns = meaning,
                                            .extras = extras, .sizeless = 1, .alone = 1, .peer = "torch",
                                            .peer_help = "time PyTorch's attention forward in each repetition"};
    struct perf_options options;
    struct perf_report report;
    struct bench bench = {.own = &own, .options = &options, .report = &report};
    enum perf_parsed parsed = perf_options_parse(&options, &own, &about, argc, argv);
    int failed;

    if (parsed != PERF_RUN)
        return parsed == PERF_ANSWERED ? 0 : 2;
    own.kv_heads = own.kv_heads ? own.kv_heads : own.heads;
    if (refuse(&own, &options))
        return 2;
    yardstick_choose(own.kernel, argv);
    bench.crew.threads = (int)own.threads;
    if (perf_report_open(&report, &options, &about, columns))
        return 1;
    report.words = words;
    failed = run(&bench);
    return perf_report_close(&report) || failed;
}
