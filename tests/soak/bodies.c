/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks do again and again. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "tests/api/shard.h"
#include "tests/soak/soak.h"

/* ---- lining up ---- */

long soak_count(const struct soak *s)
{
    int last = 0;

    while (last + 1 < SOAK_MARKS && s->marks[last + 1])
        last++;
    return s->marks[last];
}

static int line_up(struct soak *s)
{
    int64_t deadline_ns = ri_now_ns() + 2 * HERE_NS;
    int generation = atomic_load(&s->generation);

    if (atomic_fetch_add(&s->arrived, 1) + 1 == s->ranks) {
        atomic_store(&s->arrived, 0);
        atomic_fetch_add(&s->generation, 1);
        return 0;
    }
    while (atomic_load(&s->generation) == generation && ri_now_ns() < deadline_ns)
        sched_yield();
    return expect(atomic_load(&s->generation) != generation, "a rank did not come to be looked at");
}

int soak_note(struct soak *s, int rank, long done)
{
    for (int m = 0; m < SOAK_MARKS; m++) {
        if (s->marks[m] != done || !done)
            continue;
        for (int r = 0; r <= s->ranks; r++) { /* one after the other: looking opens files */
            if (line_up(s))
                return 1;
            if (r == rank)
                sample_take(&s->samples[rank][m]);
        }
    }
    return 0;
}

int soak_comm(struct soak *s, int meeting, int rank, int ranks, rondo_comm_t *comm)
{
    rondo_config_t config = RONDO_CONFIG_INIT;
    rondo_comm_info_t info = RONDO_COMM_INFO_INIT;
    char host[16];

    snprintf(host, sizeof(host), "h%d", rank * s->hosts / s->ranks);
    config.transport = s->transport;
    config.host_id = host;
    if (expect(!meet(&s->meetings[meeting], rank, ranks, &config, comm), "rank %d: no communicator: %s", rank,
               rondo_last_error()))
        return 1;
    rondo_comm_query(*comm, &info);
    if (rank == 0)
        snprintf(s->actual, sizeof(s->actual), "%s", info.transport);
    return 0;
}

/* ---- starts of several plans ---- */

enum { LAYERS = 4, LENGTHS = 4 };

struct layer {
    rondo_plan_t plan;
    rondo_layout_kind_t kind;
    struct problem problems[LENGTHS];
    struct shard shards[LENGTHS];
};

static const int64_t lengths[LENGTHS] = { 24, 17, 9, 2 }; /* the last leaves a rank of three without tokens */

static int layer_init(struct layer *layer, int index, rondo_comm_t comm, int rank, int ranks)
{
    static const char *const schedules[LAYERS] = { "ring", "ring", "direct", NULL };
    static const char *const backwards[LAYERS] = { "kv-grad", "q-grad", "kv-grad", NULL };
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    rondo_attention_desc_t desc;
    rondo_layout_t layout;
    int err = 0;

    layer->kind = (rondo_layout_kind_t)(index % 3);
    options.schedule = schedules[index];
    options.backward = backwards[index];
    options.max_in_flight = 2;
    for (int i = 0; i < LENGTHS; i++) {
        layer->problems[i] = (struct problem){ .batch = 2, .tokens = lengths[i], .causal = index % 2, .q_heads = 4,
                                               .kv_heads = 2, .qk_dim = 8, .v_dim = 4 };
        problem_init(&layer->problems[i], (uint64_t)(index * LENGTHS + i));
        layout = layout_of(layer->kind, lengths[i], ranks);
        shard_init(&layer->shards[i], layout, rank, &layer->problems[i]);
        desc = desc_of(&layer->problems[i]);
        if (i == 0)
            err = rondo_attention_plan(comm, layout, &desc, &options, &layer->plan);
        rondo_layout_destroy(layout);
    }
    return expect(!err, "plan: %s", rondo_last_error());
}

static void layer_release(struct layer *layer)
{
    rondo_plan_destroy(layer->plan);
    for (int i = 0; i < LENGTHS; i++) {
        shard_release(&layer->shards[i]);
        problem_release(&layer->problems[i]);
    }
}

static int bind(struct layer *layer, int length)
{
    return expect(!rondo_plan_bind(layer->plan, lengths[length], NULL, 0), "bind: %s", rondo_last_error());
}

/* Two starts: forward and backward, compared with fp64. */
static int both(struct layer *layer, int length)
{
    struct shard *s = &layer->shards[length];

    shard_clear(s);
    if (bind(layer, length) || expect(!shard_both(layer->plan, s), "starts: %s", rondo_last_error()))
        return 1;
    return expect(shard_forward_error(s, &layer->problems[length]) <= SHARD_BAR &&
                      shard_backward_error(s, &layer->problems[length]) <= SHARD_BAR, "results are off");
}

/* Two starts: the forwards of two plans, under way together. */
static int together(struct layer *first, struct layer *second, int length)
{
    rondo_attention_fwd_t forward[2] = { shard_forward_tensors(&first->shards[length]),
                                         shard_forward_tensors(&second->shards[length]) };
    rondo_request_t request[2] = { NULL, NULL };
    int bad = bind(first, length) + bind(second, length);

    if (bad)
        return bad;
    bad += expect(!rondo_attention_forward(first->plan, &forward[0], NULL, &request[0]) &&
                      !rondo_attention_forward(second->plan, &forward[1], NULL, &request[1]), "start: %s",
                  rondo_last_error());
    for (int i = 0; i < 2; i++)
        bad += expect(!rondo_wait(&request[i], WAIT_MS), "wait: %s", rondo_last_error());
    return bad;
}

int soak_starts(struct soak *s, int rank)
{
    struct layer *layers = calloc(LAYERS, sizeof(*layers));
    rondo_comm_t comm = NULL;
    int bad = !layers || soak_comm(s, 0, rank, s->ranks, &comm);

    for (int i = 0; i < LAYERS && !bad; i++)
        bad += layer_init(&layers[i], i, comm, rank, s->ranks);
    for (long done = 0; done < soak_count(s) && !bad;) {
        struct layer *layer = &layers[done / 2 % LAYERS], *next = &layers[(done / 2 + 1) % LAYERS];
        int length = (int)(done / 2 / LAYERS % LENGTHS);

        bad += done / 2 % 7 == 6 ? together(layer, next, length) : both(layer, length);
        done += 2;
        bad += bad ? 0 : soak_note(s, rank, done);
    }
    for (int i = 0; layers && i < LAYERS; i++)
        layer_release(&layers[i]);
    rondo_comm_destroy(comm);
    free(layers);
    return bad;
}

/* ---- forwards of one plan ---- */

static int inference_plan(rondo_comm_t comm, rondo_layout_t layout, const struct problem *p, rondo_plan_t *plan)
{
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    rondo_attention_desc_t desc = desc_of(p);

    options.schedule = "ring";
    options.backward = "none";
    return expect(!rondo_attention_plan(comm, layout, &desc, &options, plan), "plan: %s", rondo_last_error());
}

int soak_small(struct soak *s, int rank)
{
    struct problem p = { .batch = 1, .tokens = 2 * s->ranks, .q_heads = 1, .kv_heads = 1, .qk_dim = 4, .v_dim = 4 };
    rondo_layout_t layout = layout_of(RONDO_LAYOUT_CONTIGUOUS, p.tokens, s->ranks);
    rondo_comm_t comm = NULL;
    rondo_plan_t plan = NULL;
    struct shard shard;
    int bad;

    problem_init(&p, 3);
    shard_init(&shard, layout, rank, &p);
    bad = soak_comm(s, 0, rank, s->ranks, &comm) || inference_plan(comm, layout, &p, &plan);
    for (long done = 1; done <= soak_count(s) && !bad; done++) {
        bad += expect(!shard_forward(plan, &shard), "forward %ld: %s", done, rondo_last_error());
        bad += bad ? 0 : soak_note(s, rank, done);
    }
    if (!bad)
        bad += expect(shard_forward_error(&shard, &p) <= SHARD_BAR, "results are off");
    rondo_plan_destroy(plan);
    shard_release(&shard);
    problem_release(&p);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

/* ---- fresh buffers ---- */

/* Q, K, V and O of one forward in pages that no forward before had, at an address of their own; each [room]
 * numbers.  Of the communicator's memory, or mapped. */
struct fresh {
    rondo_comm_t of;
    float *memory;
    size_t bytes;
};

static int fresh_init(struct fresh *fresh, rondo_comm_t of, size_t room)
{
    void *memory = NULL;

    *fresh = (struct fresh){ .of = of, .bytes = 4 * room * sizeof(float) };
    if (of && expect(!rondo_mem_alloc(of, fresh->bytes, &memory), "alloc: %s", rondo_last_error()))
        return 1;
    if (!of)
        memory = mmap(NULL, fresh->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (expect(memory != MAP_FAILED, "no memory"))
        return 1;
    fresh->memory = memory;
    return 0;
}

static int fresh_release(struct fresh *fresh)
{
    if (fresh->of)
        return expect(!rondo_mem_free(fresh->of, fresh->memory), "free: %s", rondo_last_error());
    if (fresh->memory)
        munmap(fresh->memory, fresh->bytes);
    return 0;
}

/* Every weight is equal, so O is the mean of V, which is `value` + rank. */
static int fresh_forward(rondo_plan_t plan, const struct fresh *fresh, size_t room, float *lse, int rank, int ranks,
                         float value)
{
    rondo_attention_fwd_t forward = RONDO_ATTENTION_FWD_INIT;
    rondo_request_t request = NULL;
    float *o = fresh->memory + 3 * room, mean = value + (float)(ranks - 1) / 2;

    for (size_t i = 0; i < room; i++)
        fresh->memory[2 * room + i] = value + (float)rank;
    forward.q = fresh->memory;
    forward.k = fresh->memory + room;
    forward.v = fresh->memory + 2 * room;
    forward.o = o;
    forward.lse = lse;
    if (expect(!rondo_attention_forward(plan, &forward, NULL, &request) && !rondo_wait(&request, WAIT_MS), "%s",
               rondo_last_error()))
        return 1;
    return expect(o[0] > mean - 0.01f && o[0] < mean + 0.01f && o[room - 1] > mean - 0.01f &&
                      o[room - 1] < mean + 0.01f, "o is %g and %g, not %g", (double)o[0], (double)o[room - 1],
                  (double)mean);
}

enum { FRESH_BATCH = 64, FRESH_DIM = 128, FRESH_TOKENS = 4 };

int soak_fresh(struct soak *s, int rank)
{
    struct problem p = { .batch = FRESH_BATCH, .tokens = FRESH_TOKENS * s->ranks, .q_heads = 1, .kv_heads = 1,
                         .qk_dim = FRESH_DIM, .v_dim = FRESH_DIM };
    rondo_layout_t layout = layout_of(RONDO_LAYOUT_CONTIGUOUS, p.tokens, s->ranks);
    static _Thread_local float lse[FRESH_BATCH * FRESH_TOKENS];
    rondo_comm_t comm = NULL;
    rondo_plan_t plan = NULL;
    struct fresh fresh[2] = { { 0 } }; /* the one before goes when the next is there, which so lies elsewhere */
    int bad = soak_comm(s, 0, rank, s->ranks, &comm) || inference_plan(comm, layout, &p, &plan);

    for (long done = 1; done <= soak_count(s) && !bad; done++) {
        int64_t n = 1 + done % FRESH_TOKENS;
        size_t room = (size_t)n * FRESH_BATCH * FRESH_DIM;

        bad += expect(!rondo_plan_bind(plan, n * s->ranks, NULL, 0), "bind: %s", rondo_last_error()) ||
               fresh_init(&fresh[done % 2], done / 2 % 2 ? comm : NULL, room) ||
               fresh_forward(plan, &fresh[done % 2], room, lse, rank, s->ranks, (float)(done % 100)) ||
               fresh_release(&fresh[1 - done % 2]) || soak_note(s, rank, done);
    }
    bad += fresh_release(&fresh[soak_count(s) % 2]);
    rondo_plan_destroy(plan);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

/* ---- memory of the communicator ---- */

enum { BLOCKS = 8 };

static int blocks_once(rondo_comm_t comm, long round)
{
    void *blocks[BLOCKS] = { NULL };
    int bad = 0;

    for (int i = 0; i < BLOCKS && !bad; i++) {
        size_t bytes = (size_t)1 << (6 + 2 * ((round + i) % BLOCKS)); /* 64 bytes to 1 MiB */

        bad += expect(!rondo_mem_alloc(comm, bytes, &blocks[i]), "alloc: %s", rondo_last_error());
        if (!bad)
            memset(blocks[i], 1, bytes);
    }
    for (int i = 0; i < BLOCKS; i++) /* in another order */
        bad += expect(!rondo_mem_free(comm, blocks[(i * 3 + (int)(round % 5)) % BLOCKS]), "free: %s", rondo_last_error());
    return bad;
}

int soak_memory(struct soak *s, int rank)
{
    rondo_comm_t comm = NULL;
    int bad = soak_comm(s, 0, rank, s->ranks, &comm);
    struct sample before, after;

    sample_take(&before);
    for (long done = 1; done <= soak_count(s) && !bad; done++) {
        bad += blocks_once(comm, done) || soak_note(s, rank, done);
    }
    sample_take(&after);
    if (!bad)
        bad += expect(before.shm_kib == after.shm_kib && before.pinned_kib == after.pinned_kib,
                      "%ld KiB shared and %ld pinned before, %ld and %ld after", before.shm_kib, before.pinned_kib,
                      after.shm_kib, after.pinned_kib);
    rondo_comm_destroy(comm);
    return bad;
}

/* ---- communicators ---- */

static int reduce_once(rondo_comm_t comm, int ranks)
{
    rondo_request_t request = NULL;
    float one[64], sum[64];

    for (int i = 0; i < 64; i++)
        one[i] = 1;
    if (expect(!rondo_all_reduce(comm, one, sum, 64, RONDO_F32, NULL, &request) && !rondo_wait(&request, WAIT_MS),
               "all_reduce: %s", rondo_last_error()))
        return 1;
    return expect(sum[63] > (float)ranks - 0.5f && sum[63] < (float)ranks + 0.5f, "%d ranks have a sum of %g",
                  ranks, (double)sum[63]);
}

/* Ranks 0 and 1 on the one side, the others on the other; both parts are used. */
static int split_once(rondo_comm_t comm, int rank, int ranks, rondo_comm_t *part)
{
    if (expect(!rondo_comm_split(comm, rank / 2, -rank, part), "split: %s", rondo_last_error()))
        return 1;
    return reduce_once(*part, rank < 2 ? 2 : ranks - 2);
}

static int forward_once(rondo_comm_t comm, int ranks, int rank)
{
    struct problem p = { .batch = 1, .tokens = 2 * ranks, .q_heads = 1, .kv_heads = 1, .qk_dim = 4, .v_dim = 4 };
    rondo_layout_t layout = layout_of(RONDO_LAYOUT_CONTIGUOUS, p.tokens, ranks);
    rondo_plan_t plan = NULL;
    struct shard shard;
    int bad;

    problem_init(&p, 5);
    shard_init(&shard, layout, rank, &p);
    bad = inference_plan(comm, layout, &p, &plan) ||
          expect(!shard_forward(plan, &shard), "forward: %s", rondo_last_error()) ||
          expect(shard_forward_error(&shard, &p) <= SHARD_BAR, "results are off");
    rondo_plan_destroy(plan);
    shard_release(&shard);
    problem_release(&p);
    rondo_layout_destroy(layout);
    return bad;
}

/* Of all ranks in every other round, then of all but the last. */
static int comm_once(struct soak *s, int rank, long round)
{
    int ranks = s->ranks - (int)(round % 2), bad;
    rondo_comm_t comm = NULL, part = NULL;

    if (rank >= ranks)
        return 0;
    bad = soak_comm(s, (int)(round % SOAK_MEETINGS), rank, ranks, &comm);
    if (!bad && rank == 0) /* nobody has been there since all had the communicator before this one */
        memset(&s->meetings[(round + 2) % SOAK_MEETINGS], 0, sizeof(s->meetings[0]));
    bad = bad || reduce_once(comm, ranks) || (round % 4 == 0 && split_once(comm, rank, ranks, &part)) ||
          (round % 8 < 2 && forward_once(comm, ranks, rank));
    if (round % 3 == 0) {
        rondo_comm_destroy(part);
        part = NULL;
    }
    rondo_comm_destroy(comm);
    rondo_comm_destroy(part);
    return bad;
}

int soak_comms(struct soak *s, int rank)
{
    int bad = 0;

    for (long done = 1; done <= soak_count(s) && !bad; done++)
        bad += comm_once(s, rank, done - 1) || soak_note(s, rank, done);
    return bad;
}
