/* SPDX-License-Identifier: Apache-2.0 */
/* One run of all ranks: a thread each, which sleeps whenever nothing can be done. */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include <rondo/status.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/trace.h"
#include "engine/engine.h"
#include "tests/engine/modelled.h"

/* A kernel is cut as plans do it: messages move between two pieces. */
static const int64_t piece_ns = 1000000, patience_ns = (int64_t)60 * 1000000000;

struct run;

struct rank {
    struct run *run;
    pthread_t thread;
    int rank;
    const struct ri_schedule *schedule;
    struct ri_transport *transport;
    struct ri_engine *engine;
    struct ri_program program;
    struct ri_xfer *xfers;           /* [step_count] those of other steps are never posted */
    uint32_t *first_xfer, *pieces;   /* [step_count + 1], [step_count] */
    char **slots;                    /* [slot_count] */
    int64_t kernel_start_ns, end_ns; /* of the current step; of the run */
};

struct run {
    const struct modelled *modelled;
    struct ri_config config;
    pthread_barrier_t gate;
    int64_t start_ns;
    struct rank ranks[MODELLED_RANKS];
};

static void give_up(const struct rank *r, const char *what)
{
    fprintf(stderr, "%s, rank %d: %s\n", r->schedule->name, r->rank, what);
    exit(1);
}

/* Zeroed; the process ends when there is none. */
static void *memory(size_t count, size_t bytes)
{
    void *p = calloc(count + 1, bytes);

    if (!p) {
        perror("modelled");
        exit(1);
    }
    return p;
}

static void sleep_until(int64_t ns)
{
    struct timespec at = {ns / 1000000000, ns % 1000000000};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL))
        ;
}

/* ---- content ---- */

/* What part `part` of block `block` of Q or K is filled with: sums tell which parts are in them. */
static uint64_t weight(int bundle, int block, int part)
{
    uint64_t x = ((uint64_t)bundle << 40 | (uint64_t)block << 20 | (uint64_t)part) + 1;

    x = (x ^ x >> 31) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
    return x ^ x >> 32;
}

static size_t part_bytes(const struct rank *r, int slot)
{
    const struct ri_schedule *s = r->schedule;

    return (size_t)r->run->modelled->cost->block[s->slots[slot].bundle] / (size_t)s->token_parts;
}

static uint64_t *place(const struct rank *r, const struct ri_operand *o, int part)
{
    size_t room = r->schedule->slots[o->slot].parts, at = (size_t)(o->first_part + part) % room;

    return (uint64_t *)(r->slots[o->slot] + at * part_bytes(r, o->slot));
}

static void add(const struct rank *r, const struct ri_operand *to, int part, uint64_t value)
{
    uint64_t *words = place(r, to, part);

    for (size_t i = 0; i < part_bytes(r, to->slot) / 8; i++)
        words[i] += value;
}

static void clear(const struct rank *r, const struct ri_operand *to)
{
    for (int p = 0; p < to->parts; p++)
        memset(place(r, to, p), 0, part_bytes(r, to->slot));
}

/* Each part of one side gains every part of the other. */
static void compute(const struct rank *r, const struct ri_step *step)
{
    for (int side = 0; side < 2; side++) {
        const struct ri_operand *to = &step->to[side], *from = &step->from[!side];

        if (to->slot < 0)
            continue;
        if (step->stores >> side & 1)
            clear(r, to);
        for (int p = 0; p < to->parts; p++)
            for (int other = 0; other < from->parts; other++)
                add(r, to, p, *place(r, from, other));
    }
}

static void merge(const struct rank *r, const struct ri_step *step)
{
    const struct ri_operand *from = &step->from[0], *to = &step->to[0];

    if (step->op == RI_COPY || step->stores & 1)
        clear(r, to);
    for (int p = 0; p < to->parts; p++) {
        const uint64_t *words = place(r, from, p);
        uint64_t *sum = place(r, to, p);

        for (size_t i = 0; i < part_bytes(r, to->slot) / 8; i++)
            sum[i] += words[i];
    }
}

/* The caller's Q and K. */
static void fill(const struct rank *r)
{
    for (int slot = 0; slot < 2; slot++) {
        struct ri_operand whole = ri_operand(r->schedule, slot, r->rank);

        for (int p = 0; p < whole.parts; p++)
            add(r, &whole, p, weight(slot, r->rank, p));
    }
}

/* Does every word of the slot hold the sum over all blocks and parts of the other side? */
static int is_right(const struct rank *r, int slot, int other)
{
    const struct ri_operand whole = ri_operand(r->schedule, slot, r->rank);
    uint64_t wanted = 0;

    for (int b = 0; b < r->schedule->blocks; b++)
        for (int p = 0; p < r->schedule->token_parts; p++)
            wanted += weight(other, b, p);
    for (int p = 0; p < whole.parts; p++)
        for (size_t i = 0; i < part_bytes(r, slot) / 8; i++)
            if (place(r, &whole, p)[i] != wanted)
                return 0;
    return 1;
}

/* ---- work ---- */

/* Seconds of a COMPUTE: its share of a whole pair of blocks. */
static double kernel_seconds(const struct rank *r, const struct ri_step *step)
{
    double parts = r->schedule->token_parts;

    return r->run->modelled->cost->compute_seconds * step->from[0].parts / parts *
           step->from[1].parts / parts;
}

/* Ends of pieces are fixed when the kernel starts, as on a device: a late one delays no other. */
static int run_piece(void *owner, uint32_t index, uint32_t piece)
{
    struct rank *r = owner;
    const struct ri_step *step = &r->schedule->steps[index];

    if (step->op != RI_COMPUTE) {
        merge(r, step);
        return 0;
    }
    if (piece == 0)
        r->kernel_start_ns = ri_now_ns();
    if (r->run->modelled->cost->compute_seconds > 0)
        sleep_until(r->kernel_start_ns +
                    (int64_t)(kernel_seconds(r, step) * 1e9 * (piece + 1) / r->pieces[index]));
    if (piece + 1 == r->pieces[index])
        compute(r, step);
    return 0;
}

/* ---- making ---- */

static void open_transport(struct run *run, struct rank *r, const uint8_t *token,
                           const void **address, size_t *bytes)
{
    struct ri_transport_params params = {.rank = r->rank,
                                         .ranks = run->modelled->ranks,
                                         .token = token,
                                         .host = r->schedule->host,
                                         .config = &run->config};

    if (ri_transport_self.open(&params, &r->transport, address, bytes))
        give_up(r, rondo_last_error());
    if (run->modelled->trace &&
        ri_trace_create(run->modelled->trace, r->rank, &r->transport->trace))
        give_up(r, rondo_last_error());
}

static struct ri_xfer message_of(const struct rank *r, const struct ri_step *step, uint64_t tag)
{
    const struct ri_operand *what = ri_step_moved(step);
    int room = r->schedule->slots[what->slot].parts;
    size_t bytes = part_bytes(r, what->slot) * what->parts;

    if (what->blocks != 1 || what->first_part % room + what->parts > room)
        give_up(r, "a message is not one run of bytes");
    return (struct ri_xfer){.tag = tag,
                            .peer = step->peer,
                            .send = step->op == RI_SEND,
                            .lane = step->lane,
                            .rows = 1,
                            .row_bytes = bytes,
                            .row_stride = bytes,
                            .base = (char *)place(r, what, 0)};
}

static uint32_t piece_count(const struct rank *r, const struct ri_step *step)
{
    if (ri_step_moves(step))
        return 0;
    return step->op == RI_COMPUTE ? 1 + (uint32_t)(kernel_seconds(r, step) * 1e9 / (double)piece_ns)
                                  : 1;
}

static void make_slots(struct rank *r)
{
    const struct ri_schedule *s = r->schedule;

    r->slots = memory(s->slot_count, sizeof(*r->slots));
    for (uint32_t i = 0; i < s->slot_count; i++) {
        size_t bytes = part_bytes(r, (int)i);

        if (bytes % 8 || s->head_parts != 1)
            give_up(r, "a part is no run of words");
        r->slots[i] = memory(s->slots[i].parts, bytes);
    }
    fill(r);
}

static void make_program(struct rank *r)
{
    const struct ri_schedule *s = r->schedule;
    uint64_t tags[2][MODELLED_RANKS] = {{0}};

    r->xfers = memory(s->step_count, sizeof(*r->xfers));
    r->first_xfer = memory(s->step_count, sizeof(*r->first_xfer));
    r->pieces = memory(s->step_count, sizeof(*r->pieces));
    for (uint32_t i = 0; i < s->step_count; i++) {
        const struct ri_step *step = &s->steps[i];

        r->first_xfer[i] = i;
        r->pieces[i] = piece_count(r, step);
        if (ri_step_moves(step))
            r->xfers[i] = message_of(r, step, tags[step->op == RI_SEND][step->peer]++);
    }
    r->first_xfer[s->step_count] = s->step_count;
    r->program = (struct ri_program){.schedule = s,
                                     .transport = r->transport,
                                     .xfers = r->xfers,
                                     .first_xfer = r->first_xfer,
                                     .pieces = r->pieces,
                                     .run = run_piece,
                                     .owner = r};
    if (ri_engine_create(s, &r->engine))
        give_up(r, rondo_last_error());
}

static struct ri_config config_of(const struct ri_cost *cost)
{
    const struct ri_link_cost *near = &cost->lane[RI_LANE_LOCAL], *far = &cost->lane[RI_LANE_HOST];

    return (struct ri_config){.self_bandwidth = (int64_t)near->bandwidth,
                              .self_latency_us = (int64_t)(near->latency_seconds * 1e6 + .5),
                              .self_host_bandwidth = (int64_t)far->bandwidth,
                              .self_host_latency_us = (int64_t)(far->latency_seconds * 1e6 + .5),
                              .self_shared_nic = cost->shared_nic};
}

static struct run *make_run(const struct modelled *modelled)
{
    static uint8_t token[16] = "modelled";
    const void *addresses[MODELLED_RANKS];
    size_t bytes[MODELLED_RANKS];
    struct run *run = memory(1, sizeof(*run));

    run->modelled = modelled;
    run->config = config_of(modelled->cost);
    for (int i = 0; i < modelled->ranks; i++) {
        struct rank *r = &run->ranks[i];

        r->run = run, r->rank = i, r->schedule = modelled->schedules[i];
        open_transport(run, r, token, &addresses[i], &bytes[i]);
        make_slots(r);
        make_program(r);
    }
    for (int i = 0; i < modelled->ranks; i++)
        if (ri_transport_self.connect(run->ranks[i].transport, addresses, bytes,
                                      ri_now_ns() + patience_ns))
            give_up(&run->ranks[i], rondo_last_error());
    return run;
}

static void destroy_run(struct run *run)
{
    for (int i = 0; i < run->modelled->ranks; i++) {
        struct rank *r = &run->ranks[i];

        ri_engine_destroy(r->engine);
        ri_trace_destroy(r->transport->trace);
        ri_transport_self.close(r->transport);
        for (uint32_t slot = 0; slot < r->schedule->slot_count; slot++)
            free(r->slots[slot]);
        free(r->slots);
        free(r->xfers);
        free(r->first_xfer);
        free(r->pieces);
    }
    free(run);
}

/* ---- running ---- */

static void await_event(const struct rank *r)
{
    struct pollfd event = {.fd = r->transport->ops->event_fd(r->transport), .events = POLLIN};

    if (r->transport->ops->arm(r->transport) == 1)
        poll(&event, 1, 1000);
}

static void *run_rank(void *arg)
{
    struct rank *r = arg;
    char where[160];
    int idle, peer, state = 0;

    prctl(PR_SET_TIMERSLACK, 1UL); /* a sleep ends 50 us late otherwise */
    pthread_barrier_wait(&r->run->gate);
    while (state == 0) {
        state = ri_engine_progress(r->engine, NULL, &idle);
        if (state == 0 && idle)
            await_event(r);
        if (state == 0 && ri_now_ns() > r->run->start_ns + patience_ns) {
            ri_engine_where(r->engine, where, sizeof(where), &peer);
            give_up(r, where);
        }
    }
    r->end_ns = ri_now_ns();
    if (state < 0)
        give_up(r, rondo_last_error());
    return NULL;
}

static void look_at(const struct rank *r, struct modelled_result *result)
{
    const struct ri_engine_stats *stats = ri_engine_stats(r->engine);
    double seconds = (double)(r->end_ns - r->run->start_ns) * 1e-9;
    int right = is_right(r, 2, RI_K) && (!r->run->modelled->backward || is_right(r, 3, RI_Q));

    if (seconds > result->seconds)
        result->seconds = seconds;
    for (int lane = 0; lane < RI_LANES; lane++)
        if (stats->sent_bytes[lane] > result->sent_bytes[lane])
            result->sent_bytes[lane] = stats->sent_bytes[lane];
    result->wrong_ranks += !right;
}

/* All post their first messages before any goes on, in order of ranks: of two that want one link at
 * once the same goes first as in a simulation. */
static void start_all(struct run *run)
{
    run->start_ns = ri_now_ns();
    for (int i = 0; i < run->modelled->ranks; i++)
        if (ri_engine_start(run->ranks[i].engine, &run->ranks[i].program))
            give_up(&run->ranks[i], rondo_last_error());
    pthread_barrier_wait(&run->gate);
}

void modelled_run(const struct modelled *modelled, struct modelled_result *result)
{
    struct run *run = make_run(modelled);

    *result = (struct modelled_result){0};
    pthread_barrier_init(&run->gate, NULL, (unsigned)modelled->ranks + 1);
    for (int i = 0; i < modelled->ranks; i++)
        if (pthread_create(&run->ranks[i].thread, NULL, run_rank, &run->ranks[i]))
            give_up(&run->ranks[i], "no thread");
    start_all(run);
    for (int i = 0; i < modelled->ranks; i++)
        pthread_join(run->ranks[i].thread, NULL);
    for (int i = 0; i < modelled->ranks; i++)
        look_at(&run->ranks[i], result);
    pthread_barrier_destroy(&run->gate);
    destroy_run(run);
}
