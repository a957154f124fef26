/* SPDX-License-Identifier: Apache-2.0 */
/* Soft-cap, dropout, both with 16-bit types, threads, and polls. */
#include <float.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "kernels/check/problem.h"

/* What a case wants of a middling problem of three tiles, in which positions go up in steps. */
struct wish {
    float scale, softcap, dropout;
    int64_t first_batch;
    int first_head;
    uint64_t seed;
    rondo_dtype_t dtype;
};

enum { TILES = 3, LONG_TOKENS = 512, LONG_NS = 20000000 };

static void make_tiles(rondo_tile_t *tiles)
{
    tiles[0] = ri_tile_causal(0, 50, 0, 50);
    tiles[1] = ri_tile_full(50, 41, 3, 70);
    tiles[2] = ri_tile_band(53, 30, 80, 29, -5, 9);
    for (int t = 0; t < TILES; t++) {
        tiles[t].q_start = 1000 * t + 17;
        tiles[t].q_step = 2 + t;
        tiles[t].k_start = 500 * t + 11;
        tiles[t].k_step = 5 - t;
    }
}

static int make(struct ri_probe *c, const struct wish *w, const rondo_tile_t *tiles, struct ri_problem **p)
{
    const struct ri_problem_spec spec = { .batch = 2, .q_tokens = 91, .k_tokens = 110, .q_heads = 4, .kv_heads = 2,
                                          .qk_dim = 24, .v_dim = 16, .tiles = tiles, .tile_count = TILES,
                                          .dtype = w->dtype, .softcap = w->softcap, .dropout = w->dropout };
    int err = ri_problem_make(c, &spec, p);

    if (err)
        return err;
    if (w->scale > 0)
        (*p)->shape.scale = w->scale;
    (*p)->shape.first_batch = w->first_batch;
    (*p)->shape.first_head = w->first_head;
    (*p)->seed += w->seed;
    return 0;
}

static int with_wish(struct ri_probe *c, const void *data)
{
    rondo_tile_t tiles[TILES];
    struct ri_problem *p;
    int err;

    make_tiles(tiles);
    err = make(c, data, tiles, &p);
    return err ? err : ri_check_problem(c, p);
}

/* A caller's threads: three of them take the next index until none is left. */
struct team {
    void (*task)(void *argument, int index, int thread);
    void *argument;
    int count;
    atomic_int next, threads;
};

static void work_as(struct team *team, int thread)
{
    int index;

    while (index = atomic_fetch_add(&team->next, 1), index < team->count)
        team->task(team->argument, index, thread);
}

static void *work(void *argument)
{
    struct team *team = argument;

    work_as(team, atomic_fetch_add(&team->threads, 1));
    return NULL;
}

static void run_in_threads(void *runner, void (*task)(void *argument, int index, int thread), void *argument,
                           int count)
{
    struct team team = { .task = task, .argument = argument, .count = count, .threads = 1 };
    pthread_t threads[2];
    int started = 0;

    while (started < 2 && pthread_create(&threads[started], NULL, work, &team) == 0)
        started++;
    work_as(&team, 0);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

/* Last things first, each in another thread by name. */
static void run_backwards(void *runner, void (*task)(void *argument, int index, int thread), void *argument, int count)
{
    for (int index = count - 1; index >= 0; index--)
        task(argument, index, index % 3);
}

typedef void run_hook(void *runner, void (*task)(void *argument, int index, int thread), void *argument, int count);

static int run_with(struct ri_probe *c, struct ri_problem *p, int threads, run_hook *hook)
{
    p->shape.threads = threads;
    p->shape.run = hook;
    return ri_check_problem(c, p);
}

/* Fresh problems of the same numbers: alone, with three threads, and in the opposite order. */
static int threads(struct ri_probe *c, const void *data)
{
    run_hook *const hooks[] = { run_in_threads, run_backwards };
    int first = c->backward ? RI_OUT_DQ : RI_OUT_O, last = c->backward ? RI_OUT_DV : RI_OUT_LSE;
    unsigned char *copies[RI_OUTPUTS];
    rondo_tile_t tiles[TILES];
    struct ri_problem *p;
    int err;

    make_tiles(tiles);
    err = make(c, data, tiles, &p);
    if (!err)
        err = run_with(c, p, 1, NULL);
    for (int i = first; i <= last && !err; i++) {
        copies[i] = ri_box_copy(c, &p->out[i]);
        err = copies[i] ? 0 : RONDO_ERR_MEMORY;
    }
    for (int h = 0; h < 2 && !err; h++) {
        err = make(c, data, tiles, &p);
        if (!err)
            err = run_with(c, p, 3, hooks[h]);
        for (int i = first; i <= last && !err; i++)
            err = ri_compare_bits(c, p, (enum ri_output)i, copies[i], (struct ri_rows){ 0, p->out[i].tokens, NULL });
    }
    return err;
}

/* A kernel may poll by a clock, or by what it has computed: who never does shows in a call that lasts. */
static int polls_when_it_lasts(struct ri_probe *c, struct ri_polls *watch)
{
    const rondo_tile_t tile = ri_tile_full(0, LONG_TOKENS, 0, LONG_TOKENS);
    const struct ri_problem_spec spec = { .batch = 1, .q_tokens = LONG_TOKENS, .k_tokens = LONG_TOKENS, .q_heads = 4,
                                          .kv_heads = 2, .qk_dim = 64, .v_dim = 64, .tiles = &tile, .tile_count = 1 };
    struct ri_problem *p;
    int64_t begin_ns;
    int err = ri_problem_make(c, &spec, &p);

    if (err)
        return err;
    p->polls = watch;
    begin_ns = ri_now_ns();
    err = c->backward ? ri_run_backward(c, p, &tile, 1) : ri_run_forward(c, p, &tile, 1);
    if (!err && !watch->count && ri_now_ns() - begin_ns > LONG_NS)
        return ri_probe_say(c, RONDO_ERR_VERIFY, "in a call of %lld ms it has not polled, and its flags say "
                            "that it does (RONDO_KERNEL_POLLS)", (long long)((ri_now_ns() - begin_ns) / 1000000));
    return err;
}

/* In threads: only the caller's polls, and nothing changes.  Then a poll ends the call. */
static int polls(struct ri_probe *c, const void *data)
{
    struct ri_polls watch = { .caller = pthread_self() };
    rondo_tile_t tiles[TILES];
    struct ri_problem *p;
    int err;

    make_tiles(tiles);
    err = make(c, data, tiles, &p);
    if (err)
        return err;
    p->polls = &watch;
    err = run_with(c, p, 3, run_in_threads);
    watch.answer = 77;
    watch.count = 0;
    if (!err)
        err = c->backward ? ri_run_backward(c, p, tiles, TILES) : ri_run_forward(c, p, tiles, TILES);
    p->shape.threads = 1;
    p->shape.run = NULL;
    watch.count = 0;
    if (!err)
        err = c->backward ? ri_run_backward(c, p, tiles, TILES) : ri_run_forward(c, p, tiles, TILES);
    ri_probe_release(c, NULL);
    return err || watch.count ? err : polls_when_it_lasts(c, &watch);
}

/* The seed counts, and counts in the backward: two seeds drop different weights, as the oracle says of each. */
static int two_seeds(struct ri_probe *c, const void *data)
{
    struct wish w = *(const struct wish *)data;
    int err = with_wish(c, &w);

    ri_probe_release(c, NULL);
    w.seed = UINT64_C(0x9d5c3b7a12345678);
    return err ? err : with_wish(c, &w);
}

#define WISH(...) (const struct wish[]){ { __VA_ARGS__ } }
#define WITH(name, needs, ...) { name, with_wish, WISH(__VA_ARGS__), RI_PROBE_BOTH, needs, 0 }

/* With scale 2.5, scores are of size 12, and the largest about four times a cap of 12.  Under the largest of caps
 * scores are as they are, and under the smallest all are about 0. */
const struct ri_probe_case ri_probe_options[] = {
    WITH("positions_in_steps", 0, .scale = 0),
    WITH("softcap_30", RONDO_KERNEL_SOFTCAP, .softcap = 30),
    WITH("softcap_1", RONDO_KERNEL_SOFTCAP, .softcap = 1),
    WITH("softcap_near_4", RONDO_KERNEL_SOFTCAP, .softcap = 12, .scale = 2.5f),
    WITH("softcap_largest", RONDO_KERNEL_SOFTCAP, .softcap = FLT_MAX),
    WITH("softcap_large", RONDO_KERNEL_SOFTCAP, .softcap = 1e30f),
    WITH("softcap_small", RONDO_KERNEL_SOFTCAP, .softcap = 1e-30f),
    WITH("softcap_denormal", RONDO_KERNEL_SOFTCAP, .softcap = 1e-40f),
    WITH("dropout_10", RONDO_KERNEL_DROPOUT, .dropout = 0.1f),
    WITH("dropout_50", RONDO_KERNEL_DROPOUT, .dropout = 0.5f),
    WITH("dropout_of_a_part", RONDO_KERNEL_DROPOUT, .dropout = 0.5f, .first_batch = 3, .first_head = 5),
    { "dropout_two_seeds", two_seeds, WISH(.dropout = 0.3f), RI_PROBE_BOTH, RONDO_KERNEL_DROPOUT, 0 },
    WITH("dropout_softcap", RONDO_KERNEL_DROPOUT | RONDO_KERNEL_SOFTCAP, .dropout = 0.2f, .softcap = 2),
    WITH("bf16_all", RONDO_KERNEL_BF16 | RONDO_KERNEL_DROPOUT | RONDO_KERNEL_SOFTCAP, .dropout = 0.2f, .softcap = 2,
         .dtype = RONDO_BF16),
    WITH("f16_all", RONDO_KERNEL_F16 | RONDO_KERNEL_DROPOUT | RONDO_KERNEL_SOFTCAP, .dropout = 0.2f, .softcap = 2,
         .dtype = RONDO_F16),
    { "threads", threads, WISH(.scale = 0), RI_PROBE_BOTH, 0, 0 },
    { "threads_bf16", threads, WISH(.dtype = RONDO_BF16), RI_PROBE_BOTH, RONDO_KERNEL_BF16, 0 },
    { "threads_dropout", threads, WISH(.dropout = 0.2f), RI_PROBE_BOTH, RONDO_KERNEL_DROPOUT, 0 },
    { "polls", polls, WISH(.scale = 0), RI_PROBE_BOTH, RONDO_KERNEL_POLLS, 0 },
    { NULL, NULL, NULL, 0, 0, 0 },
};
