/* SPDX-License-Identifier: Apache-2.0 */
/* The clock of a simulation.  All that ends at one moment ends before anything starts, so that the
 * order in which ranks are looked at gives nobody an advantage but among equals. */
#include "schedule/simulate.h"

#include <stdlib.h>

#include "base/status.h"
#include "schedule/internal.h"
#include "schedule/simulate_run.h"

/* ---- opening messages ---- */

static void touch_link(struct ri_sim *sim, uint32_t link)
{
    if (!sim->link[link].dirty)
        sim->dirty_link[sim->dirty_links++] = link;
    sim->link[link].dirty = 1;
}

static void touch_rank(struct ri_sim *sim, int rank)
{
    if (!sim->rank[rank].dirty)
        sim->dirty_rank[sim->dirty_ranks++] = (uint32_t)rank;
    sim->rank[rank].dirty = 1;
}

static void queue_message(struct ri_sim *sim, uint32_t m, int end)
{
    struct ri_sim_link *link = &sim->link[sim->message[m].link[end]];

    sim->message[m].next[end] = RI_SIM_NONE;
    if (link->first == RI_SIM_NONE)
        link->first = m;
    else /* the last one queues here by the same end: out or in */
        sim->message[link->last].next[end] = m;
    link->last = m;
    touch_link(sim, sim->message[m].link[end]);
}

/* One end of the message of a transfer step is ready. */
static void open_end(struct ri_sim *sim, uint32_t step)
{
    uint32_t m = sim->message_of[step];

    if (++sim->message[m].open < 2)
        return;
    sim->message[m].came = ri_sim_place(sim, m);
    queue_message(sim, m, 0);
    queue_message(sim, m, 1);
}

/* ---- streams: groups of transfers, one after the other ---- */

static int in_stream(const struct ri_sim *sim, int rank, const struct ri_sim_stream *stream,
                     uint32_t at)
{
    const struct ri_step *step = ri_sim_step(sim, rank, sim->order[sim->base[rank] + at]);

    return stream->lanes >> step->lane & 1 && stream->ops >> step->op & 1;
}

static void open_group(struct ri_sim *sim, int rank, struct ri_sim_stream *stream)
{
    for (uint32_t at = stream->first; at < stream->end; at++)
        if (in_stream(sim, rank, stream, at))
            open_end(sim, sim->order[sim->base[rank] + at]);
}

static int bundle_of(const struct ri_sim *sim, int rank, uint32_t step)
{
    return sim->schedules[rank]->slots[ri_step_moved(ri_sim_step(sim, rank, step))->slot].bundle;
}

/* Do two transfers of a stream share a group?  The engine posts sends of one turn and bundle as
 * each becomes ready: blocks that walk together do not wait for each other. */
static int are_together(const struct ri_sim *sim, int rank, const struct ri_sim_stream *stream,
                        uint32_t a, uint32_t b)
{
    return ri_sim_step(sim, rank, a)->turn == ri_sim_step(sim, rank, b)->turn &&
           (stream->at_once || bundle_of(sim, rank, a) == bundle_of(sim, rank, b));
}

static void join_group(struct ri_sim *sim, struct ri_sim_stream *stream, uint32_t step)
{
    stream->left++;
    if (sim->unmet[step] > 0)
        stream->waiting++;
    else if (!stream->at_once)
        open_end(sim, step);
}

/* The group that begins with the next transfer of the stream. */
static void find_group(struct ri_sim *sim, int rank, struct ri_sim_stream *stream)
{
    const uint32_t *order = sim->order + sim->base[rank];
    uint32_t at = stream->end, count = sim->rank[rank].transfers;

    while (at < count && !in_stream(sim, rank, stream, at))
        at++;
    stream->first = stream->end = at;
    stream->left = stream->waiting = 0;
    for (; at < count; at++) {
        if (!in_stream(sim, rank, stream, at))
            continue;
        if (!are_together(sim, rank, stream, order[stream->first], order[at]))
            return;
        stream->end = at + 1;
        join_group(sim, stream, order[at]);
    }
}

/* A group that starts at once is opened when all of it is ready, and the next one comes when it is
 * complete.  The engine posts each send when it is ready, and waits for none to arrive. */
static void try_group(struct ri_sim *sim, int rank, struct ri_sim_stream *stream)
{
    while (stream->left && !stream->waiting) {
        if (stream->at_once) {
            open_group(sim, rank, stream);
            return;
        }
        find_group(sim, rank, stream);
    }
}

static void next_group(struct ri_sim *sim, int rank, struct ri_sim_stream *stream)
{
    find_group(sim, rank, stream);
    try_group(sim, rank, stream);
}

static struct ri_sim_stream *stream_of(struct ri_sim *sim, int rank, const struct ri_step *step)
{
    return &sim->rank[rank].stream[sim->streams == 1 ? 0 : step->lane];
}

static int in_group(const struct ri_sim *sim, int rank, const struct ri_sim_stream *stream,
                    uint32_t step)
{
    const uint32_t *order = sim->order + sim->base[rank];
    uint32_t at = stream->first;

    while (at < stream->end && order[at] != step)
        at++;
    return at < stream->end;
}

/* ---- receives of the engine ---- */

/* Host-driven: a receive is posted when its memory is free, up to one turn ahead of the first turn
 * of its lane that is not complete. */
static void admit_receives(struct ri_sim *sim, int r, int lane)
{
    struct ri_sim_window *window = &sim->rank[r].window[lane];
    const uint32_t *order = sim->order + sim->base[r];
    uint32_t count = sim->rank[r].transfers;
    int32_t horizon;

    while (window->first < count && (sim->state[order[window->first]] == RI_SIM_DONE ||
                                     ri_sim_step(sim, r, order[window->first])->lane != lane))
        window->first++;
    if (window->first == count)
        return;
    horizon = ri_sim_step(sim, r, order[window->first])->turn + 1;
    for (; window->end < count; window->end++) {
        uint32_t step = order[window->end];
        const struct ri_step *it = ri_sim_step(sim, r, step);

        if (it->turn > horizon)
            return;
        if (it->op == RI_RECV && it->lane == lane && !sim->unmet[step])
            open_end(sim, step);
    }
}

/* Whole turns are admitted, so the first one that is not tells of all. */
static int is_admitted(const struct ri_sim *sim, int r, const struct ri_step *step)
{
    const struct ri_sim_rank *rank = &sim->rank[r];
    uint32_t end = rank->window[step->lane].end;

    return end == rank->transfers ||
           step->turn < ri_sim_step(sim, r, sim->order[sim->base[r] + end])->turn;
}

/* ---- ends of steps ---- */

static void transfer_ready(struct ri_sim *sim, int rank, uint32_t step)
{
    const struct ri_step *it = ri_sim_step(sim, rank, step);
    struct ri_sim_stream *stream = stream_of(sim, rank, it);

    if (!(stream->ops >> it->op & 1)) {
        if (is_admitted(sim, rank, it))
            open_end(sim, step);
    } else if (in_group(sim, rank, stream, step)) {
        if (!stream->at_once)
            open_end(sim, step);
        if (--stream->waiting == 0)
            try_group(sim, rank, stream);
    }
}

static void finish_step(struct ri_sim *sim, int rank, uint32_t step)
{
    sim->state[step] = RI_SIM_DONE;
    sim->out->rank[rank].seconds = sim->now;
    for (uint32_t i = sim->first_user[step]; i < sim->first_user[step + 1]; i++) {
        uint32_t user = sim->users[i];

        if (--sim->unmet[user] > 0)
            continue;
        if (ri_step_moves(ri_sim_step(sim, rank, user)))
            transfer_ready(sim, rank, user);
        else
            touch_rank(sim, rank);
    }
}

/* A group is complete when all its messages are: nobody sees one of them before. */
static void finish_group(struct ri_sim *sim, int rank, struct ri_sim_stream *stream)
{
    for (uint32_t at = stream->first; at < stream->end; at++)
        if (in_stream(sim, rank, stream, at))
            finish_step(sim, rank, sim->order[sim->base[rank] + at]);
    next_group(sim, rank, stream);
}

static void finish_end(struct ri_sim *sim, int rank, uint32_t number)
{
    const struct ri_step *step = ri_sim_step(sim, rank, number);
    struct ri_sim_stream *stream = stream_of(sim, rank, step);

    if (stream->at_once) {
        if (--stream->left == 0)
            finish_group(sim, rank, stream);
    } else {
        finish_step(sim, rank, number);
    }
    if (sim->cost->launch == RI_LAUNCH_HOST)
        admit_receives(sim, rank, step->lane);
}

static void finish_message(struct ri_sim *sim, uint32_t m)
{
    const struct ri_sim_message *message = &sim->message[m];

    for (int end = 0; end < 2; end++) {
        sim->link[message->link[end]].busy = 0;
        touch_link(sim, message->link[end]);
        finish_end(sim, message->rank[end], message->step[end]);
    }
}

static int rank_of_step(const struct ri_sim *sim, uint32_t step)
{
    int low = 0, high = sim->ranks - 1;

    while (low < high) {
        int middle = (low + high + 1) / 2;

        if (sim->base[middle] <= step)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static void finish(struct ri_sim *sim, uint32_t what)
{
    if (what < sim->messages) {
        finish_message(sim, what);
    } else {
        int rank = rank_of_step(sim, what - sim->messages);

        sim->rank[rank].busy = 0;
        touch_rank(sim, rank);
        finish_step(sim, rank, what - sim->messages);
    }
}

/* ---- starting ---- */

static void record(struct ri_sim *sim, int rank, uint32_t row, uint32_t step, double seconds)
{
    if (sim->out->events)
        sim->out->events[sim->out->event_count++] =
            (struct ri_event){rank, row, step - sim->base[rank], sim->now, sim->now + seconds};
}

static void start_message(struct ri_sim *sim, uint32_t m)
{
    struct ri_sim_message *message = &sim->message[m];
    uint32_t row = message->lane == RI_LANE_HOST ? RI_ROW_HOST_OUT : RI_ROW_LOCAL_OUT;

    message->state = RI_SIM_UNDER_WAY;
    for (uint32_t end = 0; end < 2; end++) {
        sim->link[message->link[end]].busy = 1;
        record(sim, message->rank[end], row + end, message->step[end], message->seconds);
    }
    ri_sim_push(sim, sim->now + message->seconds, m);
}

/* Lists the waiting messages of the queue whose links are both idle; forgets those that have
 * started. */
static void list_waiting(struct ri_sim *sim, uint32_t l)
{
    struct ri_sim_link *link = &sim->link[l];
    uint32_t *at = &link->first, kept = RI_SIM_NONE;
    int end = l & 1;

    link->dirty = 0;
    while (*at != RI_SIM_NONE) {
        uint32_t m = *at;
        struct ri_sim_message *message = &sim->message[m];

        if (message->state == RI_SIM_WAITING) {
            kept = m;
            at = &message->next[end];
            if (!link->busy && !sim->link[message->link[!end]].busy)
                sim->waiting[sim->waitings++] = (struct ri_sim_waiting){message->came, m};
        } else {
            *at = message->next[end];
        }
    }
    link->last = kept;
}

static int compare_waiting(const void *a, const void *b)
{
    const struct ri_sim_waiting *x = a, *y = b;
    int order = (x->came > y->came) - (x->came < y->came);

    return order ? order : (x->message > y->message) - (x->message < y->message);
}

/* Of those that find both links idle the first that was opened starts, whichever link it waits at. */
static void serve_links(struct ri_sim *sim)
{
    sim->waitings = 0;
    for (uint32_t i = 0; i < sim->dirty_links; i++)
        list_waiting(sim, sim->dirty_link[i]);
    qsort(sim->waiting, sim->waitings, sizeof(*sim->waiting), compare_waiting);
    for (uint32_t i = 0; i < sim->waitings; i++) {
        const struct ri_sim_message *message = &sim->message[sim->waiting[i].message];

        if (message->state == RI_SIM_WAITING && !sim->link[message->link[0]].busy &&
            !sim->link[message->link[1]].busy)
            start_message(sim, sim->waiting[i].message);
    }
}

static double seconds_of(const struct ri_sim *sim, int rank, const struct ri_step *step)
{
    const struct ri_schedule *s = sim->schedules[rank];
    const struct ri_operand *q = &step->from[0], *k = &step->from[1];
    int tokens = s->token_parts;
    double pairs = 0;

    if (step->op != RI_COMPUTE)
        return sim->cost->seconds_per_unit * ri_sim_units(sim, rank, &step->from[0]);
    for (int h = 0; h < s->head_parts; h++) { /* only equal head groups meet */
        int first_q = q->first_part > h * tokens ? q->first_part : h * tokens;
        int first_k = k->first_part > h * tokens ? k->first_part : h * tokens;
        int end_q = q->first_part + q->parts, end_k = k->first_part + k->parts;

        end_q = end_q < (h + 1) * tokens ? end_q : (h + 1) * tokens;
        end_k = end_k < (h + 1) * tokens ? end_k : (h + 1) * tokens;
        if (end_q > first_q && end_k > first_k)
            pairs += (double)(end_q - first_q) * (end_k - first_k);
    }
    return sim->cost->compute_seconds * pairs * q->blocks * k->blocks /
           ((double)s->head_parts * tokens * tokens);
}

/* The engine's choice: the first ready one in program order, but nothing passes a MERGE that waits;
 * in order nothing passes anything. */
static uint32_t choose_work(struct ri_sim *sim, int r)
{
    struct ri_sim_rank *rank = &sim->rank[r];
    const uint32_t *work = sim->order + sim->base[r] + rank->transfers;
    int in_order = sim->cost->in_order || sim->cost->launch != RI_LAUNCH_HOST;

    while (rank->first_work < rank->works && sim->state[work[rank->first_work]] == RI_SIM_DONE)
        rank->first_work++;
    for (uint32_t i = rank->first_work; i < rank->works; i++) {
        if (sim->state[work[i]] != RI_SIM_WAITING)
            continue;
        if (!sim->unmet[work[i]])
            return work[i];
        if (in_order || ri_sim_step(sim, r, work[i])->op == RI_MERGE)
            break;
    }
    return RI_SIM_NONE;
}

static void serve_rank(struct ri_sim *sim, int r)
{
    struct ri_simulated_rank *out = &sim->out->rank[r];
    const struct ri_step *step;
    uint32_t work;
    double seconds;

    sim->rank[r].dirty = 0;
    if (sim->rank[r].busy)
        return;
    work = choose_work(sim, r);
    if (work == RI_SIM_NONE)
        return;
    step = ri_sim_step(sim, r, work);
    seconds = seconds_of(sim, r, step);
    sim->rank[r].busy = 1;
    sim->state[work] = RI_SIM_UNDER_WAY;
    if (step->op == RI_COMPUTE)
        out->compute_seconds += seconds;
    out->exposed_seconds -= seconds; /* what is left of the rank's time at the end */
    record(sim, r, RI_ROW_WORK, work, seconds);
    ri_sim_push(sim, sim->now + seconds, sim->messages + work);
}

static void start_all(struct ri_sim *sim)
{
    for (uint32_t i = 0; i < sim->dirty_ranks; i++)
        serve_rank(sim, (int)sim->dirty_rank[i]);
    serve_links(sim);
    sim->dirty_ranks = sim->dirty_links = 0;
}

/* ---- a run ---- */

static void open_all(struct ri_sim *sim)
{
    for (int r = 0; r < sim->ranks; r++) {
        for (int i = 0; i < sim->streams; i++)
            next_group(sim, r, &sim->rank[r].stream[i]);
        for (int lane = 0; sim->cost->launch == RI_LAUNCH_HOST && lane < RI_LANES; lane++)
            admit_receives(sim, r, lane);
        touch_rank(sim, r);
    }
}

static int all_done(const struct ri_sim *sim)
{
    for (int r = 0; r < sim->ranks; r++)
        for (uint32_t step = sim->base[r]; step < sim->base[r + 1]; step++)
            if (sim->state[step] != RI_SIM_DONE)
                return ri_step_fault(sim->schedules[r], step - sim->base[r],
                                     "never ends: the ranks wait for each other");
    return 0;
}

static int run(struct ri_sim *sim)
{
    struct ri_simulation *out = sim->out;

    open_all(sim);
    start_all(sim);
    while (sim->events > 0) {
        double end = ri_sim_moment_end(sim);

        for (sim->moments++; sim->events > 0 && sim->event[0].time <= end;)
            finish(sim, ri_sim_pop(sim));
        start_all(sim);
    }
    for (int r = 0; r < sim->ranks; r++) {
        out->rank[r].exposed_seconds += out->rank[r].seconds;
        if (out->rank[r].seconds > out->seconds)
            out->seconds = out->rank[r].seconds;
    }
    return all_done(sim);
}

int ri_simulate(struct ri_schedule *const *schedules, int ranks, const struct ri_cost *cost,
                int want_events, struct ri_simulation *simulation)
{
    struct ri_simulation out = {.ranks = ranks};
    struct ri_sim sim = {.schedules = schedules, .ranks = ranks, .cost = cost, .out = &out};
    int err;

    if (ranks < 1)
        return ri_error(RONDO_ERR_ARGUMENT, "ranks %d: a simulation needs one at least", ranks);
    err = ri_sim_init(&sim);
    if (!err)
        err = ri_sim_measure(&sim);
    if (!err && want_events) {
        out.events = calloc((size_t)sim.steps + 1, sizeof(*out.events));
        if (!out.events)
            err = ri_error(RONDO_ERR_MEMORY, "out of memory for a timeline of %u steps", sim.steps);
    }
    if (!err)
        err = run(&sim);
    ri_sim_release(&sim);
    if (err)
        ri_simulation_release(&out);
    else
        *simulation = out;
    return err;
}
