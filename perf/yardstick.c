/* SPDX-License-Identifier: Apache-2.0 */
#include "yardstick.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "build-config.h"
#include "measure.h"

#if HAVE_CBLAS
#include <cblas.h>
#endif

/* ---- the product ---- */

#if HAVE_CBLAS
const char *yardstick_no_sgemm(void)
{
    return NULL;
}

const char *yardstick_sgemm_name(void)
{
    return openblas_get_config();
}

void yardstick_sgemm_threads(int threads)
{
    openblas_set_num_threads(threads);
}

static void product(struct yardstick *y)
{
    int n = y->size;

    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, y->a, n, y->b, n, 0, y->c, n);
}
#else
const char *yardstick_no_sgemm(void)
{
    return "built without CBLAS";
}

const char *yardstick_sgemm_name(void)
{
    return "none";
}

void yardstick_sgemm_threads(int threads)
{
}

static void product(struct yardstick *y)
{
}
#endif

/* Element (i, j) of a is 1 + i mod 3, of b 1 + j mod 5: each sum is size times their product. */
static int is_right(const struct yardstick *y)
{
    size_t n = (size_t)y->size;

    for (size_t i = 0; i < n; i += n / 7 + 1)
        for (size_t j = 0; j < n; j += n / 11 + 1)
            if (y->c[i * n + j] != (float)n * (float)(1 + i % 3) * (float)(1 + j % 5))
                return 0;
    return 1;
}

double yardstick_sgemm(struct yardstick *y)
{
    double n = y->size, begin;

    y->c[0] = 0;
    begin = perf_now_us();
    product(y);
    return is_right(y) ? 2 * n * n * n / (perf_now_us() - begin) / 1e3 : 0;
}

int yardstick_init(struct yardstick *y, int size, struct crew *crew)
{
    size_t n = (size_t)size, bytes = n * n * sizeof(float);

    *y = (struct yardstick){.size = size, .crew = crew};
    y->a = perf_touched(bytes);
    y->b = perf_touched(bytes);
    y->c = perf_touched(bytes);
    if (!y->a || !y->b || !y->c)
        return -1;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            y->a[i * n + j] = (float)(1 + i % 3);
            y->b[i * n + j] = (float)(1 + j % 5);
        }
    return 0;
}

void yardstick_release(struct yardstick *y)
{
    free(y->a);
    free(y->b);
    free(y->c);
}

/* ---- the multiply-adds ---- */

#if defined(__x86_64__)
#define FMA_NAME chains_avx512
#define FMA_TARGET __attribute__((target("avx512f")))
#define FMA_BYTES 64
#include "fma.h"
#define FMA_NAME chains_avx2
#define FMA_TARGET __attribute__((target("avx2,fma")))
#define FMA_BYTES 32
#include "fma.h"

static int has_avx512(void)
{
    return __builtin_cpu_supports("avx512f");
}

static int has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#endif
#define FMA_NAME chains_plain
#define FMA_TARGET
#define FMA_BYTES 16
#include "fma.h"

static int has_plain(void)
{
    return 1;
}

static const struct chains {
    const char *name;
    int floats;
    int (*supported)(void);
    int (*run)(int steps);
    const char *kernel;   /* flash with these vectors is flash- and this */
    const char *cores[4]; /* of OpenBLAS, that have them; the first is to be asked for.  None: any will do */
} all_chains[] = {
#if defined(__x86_64__)
    {"AVX-512", 16, has_avx512, chains_avx512, "avx512", {"SkylakeX", "Cooperlake", "Sapphirerapids"}},
    {"AVX2 and FMA", 8, has_avx2, chains_avx2, "avx2", {"Haswell", "Zen"}},
#endif
    {"16-byte vectors", 4, has_plain, chains_plain, "plain", {NULL}},
};

static const char *held_to; /* a kernel's name */

static int is_chosen(const struct chains *chains)
{
    const char *vectors = held_to ? strchr(held_to, '-') : NULL;

    return chains->supported() && (!vectors || strcmp(vectors + 1, chains->kernel) == 0);
}

static const struct chains *widest(void)
{
    size_t i = 0;

    while (i + 1 < sizeof(all_chains) / sizeof(all_chains[0]) && !is_chosen(&all_chains[i]))
        i++;
    return &all_chains[i];
}

#if HAVE_CBLAS
/* Cores of OpenBLAS whose loops have the vectors of these chains. */
static int knows_core(const struct chains *chains, const char *core)
{
    for (const char *const *c = chains->cores; *c; c++)
        if (strcasecmp(*c, core) == 0)
            return 1;
    return !chains->cores[0];
}

void yardstick_choose(const char *kernel, char **argv)
{
    held_to = kernel;
    if (knows_core(widest(), openblas_get_corename()) || getenv("OPENBLAS_CORETYPE"))
        return;
    setenv("OPENBLAS_CORETYPE", widest()->cores[0], 1);
    execv("/proc/self/exe", argv); /* where that fails the header says which core it is */
}
#else
void yardstick_choose(const char *kernel, char **argv)
{
    held_to = kernel;
}
#endif

const char *yardstick_fma_name(void)
{
    return widest()->name;
}

enum { STEPS = 5000000 }; /* a tenth of a second or so */

static void run_chains(void *argument, int index, int thread)
{
    if (!widest()->run(STEPS))
        atomic_store((atomic_int *)argument, 1);
}

double yardstick_fma(struct yardstick *y)
{
    atomic_int wrong = 0;
    double begin = perf_now_us();

    crew_run(y->crew, run_chains, &wrong, y->crew->threads);
    return wrong ? 0 : 2.0 * 12 * widest()->floats * STEPS * y->crew->threads / (perf_now_us() - begin) / 1e3;
}
