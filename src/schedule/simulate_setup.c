/* SPDX-License-Identifier: Apache-2.0 */
/* What a simulation needs before its clock starts: messages, links, streams, and the reverse of the
 * dependencies.  Volumes and memory follow from these alone. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "schedule/internal.h"
#include "schedule/simulate_run.h"

const char *const ri_row_names[RI_ROWS] = {"work", "local out", "local in", "host out", "host in"};

/* ---- numbers of steps ---- */

static int32_t host_of(const struct ri_sim *sim, int rank)
{
    return sim->schedules[0]->host[rank];
}

static int allocate(struct ri_sim *sim)
{
    size_t ranks = (size_t)sim->ranks, steps = (size_t)sim->steps + 1;

    sim->order = calloc(steps, sizeof(*sim->order));
    sim->unmet = calloc(steps, sizeof(*sim->unmet));
    sim->first_user = calloc(steps + 1, sizeof(*sim->first_user));
    sim->message_of = calloc(steps, sizeof(*sim->message_of));
    sim->state = calloc(steps, sizeof(*sim->state));
    sim->rank = calloc(ranks, sizeof(*sim->rank));
    sim->dirty_rank = calloc(ranks, sizeof(*sim->dirty_rank));
    sim->link = calloc(sim->links, sizeof(*sim->link));
    sim->dirty_link = calloc(sim->links, sizeof(*sim->dirty_link));
    sim->out->rank = calloc(ranks, sizeof(*sim->out->rank));
    return sim->order && sim->unmet && sim->first_user && sim->message_of && sim->state &&
                   sim->rank && sim->dirty_rank && sim->link && sim->dirty_link && sim->out->rank
               ? 0
               : ri_error(RONDO_ERR_MEMORY, "out of memory for a simulation of %u steps",
                          sim->steps);
}

static int number_steps(struct ri_sim *sim)
{
    sim->base = calloc((size_t)sim->ranks + 1, sizeof(*sim->base));
    if (!sim->base)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for a simulation of %d ranks", sim->ranks);
    for (int r = 0; r < sim->ranks; r++) {
        const struct ri_schedule *s = sim->schedules[r];

        if (s->rank != r || s->ranks != sim->ranks)
            return ri_error(
                RONDO_ERR_ARGUMENT,
                "schedule %s is of rank %d of %d, but stands at place %d of %d: give the "
                "schedules of all ranks in order",
                s->name, s->rank, s->ranks, r, sim->ranks);
        sim->base[r + 1] = sim->base[r] + s->step_count;
    }
    sim->steps = sim->base[sim->ranks];
    return 0;
}

/* ---- dependencies ---- */

static int list_users(struct ri_sim *sim)
{
    size_t total = 1;
    uint32_t *fill;

    for (int r = 0; r < sim->ranks; r++)
        total += sim->schedules[r]->dep_count;
    sim->users = calloc(total, sizeof(*sim->users));
    if (!sim->users)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for %zu dependencies", total);
    for (int r = 0; r < sim->ranks; r++)
        for (uint32_t i = 0; i < sim->schedules[r]->dep_count; i++)
            sim->first_user[sim->base[r] + sim->schedules[r]->deps[i] + 1]++;
    for (uint32_t i = 0; i < sim->steps; i++)
        sim->first_user[i + 1] += sim->first_user[i];
    fill = sim->unmet; /* cursors, until the counts below are needed */
    memcpy(fill, sim->first_user, sim->steps * sizeof(*fill));
    for (int r = 0; r < sim->ranks; r++)
        for (uint32_t i = 0; i < sim->schedules[r]->step_count; i++) {
            const struct ri_schedule *s = sim->schedules[r];

            for (uint32_t d = 0; d < s->steps[i].deps; d++)
                sim->users[fill[sim->base[r] + s->deps[s->steps[i].first_dep + d]]++] =
                    sim->base[r] + i;
        }
    for (int r = 0; r < sim->ranks; r++)
        for (uint32_t i = 0; i < sim->schedules[r]->step_count; i++)
            sim->unmet[sim->base[r] + i] = sim->schedules[r]->steps[i].deps;
    return 0;
}

/* Transfers by turn, and by program order in one turn; behind them the work. */
static int order_steps(struct ri_sim *sim, int r)
{
    const struct ri_schedule *s = sim->schedules[r];
    struct ri_sim_rank *rank = &sim->rank[r];
    uint32_t *order = sim->order + sim->base[r];
    uint32_t *at = calloc((size_t)s->turns + 1, sizeof(*at)), work;

    if (!at)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for %u turns", s->turns);
    for (uint32_t i = 0; i < s->step_count; i++)
        if (ri_step_moves(&s->steps[i])) {
            if ((uint32_t)s->steps[i].turn >= s->turns)
                goto underived;
            at[s->steps[i].turn + 1]++, rank->transfers++;
        }
    for (uint32_t t = 0; t < s->turns; t++)
        at[t + 1] += at[t];
    work = rank->transfers;
    for (uint32_t i = 0; i < s->step_count; i++)
        order[ri_step_moves(&s->steps[i]) ? at[s->steps[i].turn]++ : work++] = sim->base[r] + i;
    rank->works = s->step_count - rank->transfers;
    free(at);
    return 0;

underived:
    free(at);
    return ri_error(RONDO_ERR_ARGUMENT,
                    "schedule %s, rank %d: a turn is not below its %u turns: derive it", s->name, r,
                    s->turns);
}

/* ---- messages ---- */

struct end {
    int32_t from, to;
    uint32_t step; /* in the one numbering */
};

static int compare_ends(const void *a, const void *b)
{
    const struct end *x = a, *y = b;

    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    return x->step < y->step ? -1 : x->step > y->step;
}

/* The steps of all ranks that send, or receive, so that k-th meets k-th of each pair. */
static struct end *list_ends(const struct ri_sim *sim, enum ri_op op, uint32_t *count)
{
    struct end *ends = calloc((size_t)sim->steps + 1, sizeof(*ends));

    *count = 0;
    for (int r = 0; ends && r < sim->ranks; r++)
        for (uint32_t i = 0; i < sim->schedules[r]->step_count; i++) {
            const struct ri_step *step = &sim->schedules[r]->steps[i];

            if (step->op == op)
                ends[(*count)++] = op == RI_SEND ? (struct end){r, step->peer, sim->base[r] + i}
                                                 : (struct end){step->peer, r, sim->base[r] + i};
        }
    if (ends)
        qsort(ends, *count, sizeof(*ends), compare_ends);
    return ends;
}

double ri_sim_units(const struct ri_sim *sim, int rank, const struct ri_operand *o)
{
    const struct ri_schedule *s = sim->schedules[rank];

    return sim->cost->block[s->slots[o->slot].bundle] * o->blocks * o->parts / ri_schedule_parts(s);
}

/* Of those that share a NIC with `rank`, itself among them, the first. */
static int32_t first_sharer(const struct ri_sim *sim, int rank)
{
    int sharing = sim->cost->shared_nic == 1 ? sim->ranks : sim->cost->shared_nic, place = 0;
    int32_t first = rank;

    for (int r = 0; r < rank; r++)
        place += host_of(sim, r) == host_of(sim, rank);
    for (place %= sharing; place > 0; place--)
        do
            first--;
        while (host_of(sim, first) != host_of(sim, rank));
    return first;
}

/* Links: of each lane, one out and one in per rank; of the host lane, one for all that share it. */
static uint32_t link_of(const struct ri_sim *sim, int rank, int lane, int in)
{
    int32_t owner = lane == RI_LANE_HOST && sim->cost->shared_nic > 0 ? first_sharer(sim, rank) : rank;

    return (uint32_t)((owner * RI_LANES + lane) * 2 + in);
}

static int ends_agree(const struct ri_sim *sim, const struct end *send, const struct end *recv)
{
    const struct ri_step *a = ri_sim_step(sim, send->from, send->step);
    const struct ri_step *b = ri_sim_step(sim, recv->to, recv->step);
    const struct ri_operand *x = ri_step_moved(a), *y = ri_step_moved(b);

    return sim->schedules[send->from]->slots[x->slot].bundle ==
               sim->schedules[recv->to]->slots[y->slot].bundle &&
           ri_same_content(x, y) && a->lane == b->lane && a->turn == b->turn && a->bind == b->bind;
}

static void make_message(struct ri_sim *sim, uint32_t m, const struct end *send,
                         const struct end *recv)
{
    const struct ri_step *step = ri_sim_step(sim, send->from, send->step);
    const struct ri_operand *what = ri_step_moved(step);
    const struct ri_link_cost *price = &sim->cost->lane[step->lane];
    struct ri_sim_message *message = &sim->message[m];

    *message = (struct ri_sim_message){
        .rank = {send->from, send->to},
        .step = {send->step, recv->step},
        .link = {link_of(sim, send->from, step->lane, 0), link_of(sim, send->to, step->lane, 1)},
        .lane = step->lane,
        .bundle = sim->schedules[send->from]->slots[what->slot].bundle,
        .units = step->bind ? 0 : ri_sim_units(sim, send->from, what)};
    message->seconds = price->latency_seconds + message->units / price->bandwidth;
    sim->message_of[send->step] = sim->message_of[recv->step] = m;
}

static int unmet_end(const struct ri_sim *sim, const struct end *end, int is_send)
{
    int rank = is_send ? end->from : end->to;

    return ri_step_fault(sim->schedules[rank], end->step - sim->base[rank],
                         "nobody meets it; prove the schedules with ri_schedule_check first");
}

static int pair_ends(struct ri_sim *sim, const struct end *sends, uint32_t send_count,
                     const struct end *recvs, uint32_t recv_count)
{
    for (uint32_t i = 0; i < send_count || i < recv_count; i++) {
        int order = i >= send_count ? 1
                    : i >= recv_count
                        ? -1
                        : (sends[i].from > recvs[i].from) - (sends[i].from < recvs[i].from);

        if (!order)
            order = (sends[i].to > recvs[i].to) - (sends[i].to < recvs[i].to);
        if (order > 0)
            return unmet_end(sim, &recvs[i], 0);
        if (order < 0 || !ends_agree(sim, &sends[i], &recvs[i]))
            return unmet_end(sim, &sends[i], 1);
        make_message(sim, i, &sends[i], &recvs[i]);
    }
    return 0;
}

static int make_messages(struct ri_sim *sim)
{
    uint32_t send_count, recv_count;
    struct end *sends = list_ends(sim, RI_SEND, &send_count);
    struct end *recvs = list_ends(sim, RI_RECV, &recv_count);
    size_t events = (size_t)send_count + (size_t)sim->ranks + 1;
    int err;

    sim->messages = send_count;
    sim->message = calloc((size_t)send_count + 1, sizeof(*sim->message));
    sim->event = calloc(events, sizeof(*sim->event)); /* all that can be under way at a time */
    sim->waiting =
        calloc(2 * (size_t)send_count + 1, sizeof(*sim->waiting)); /* at both its links */
    if (sends && recvs && sim->message && sim->event && sim->waiting)
        err = pair_ends(sim, sends, send_count, recvs, recv_count);
    else
        err = ri_error(RONDO_ERR_MEMORY, "out of memory for %u messages", send_count);
    free(sends);
    free(recvs);
    return err;
}

/* ---- links and streams ---- */

enum { SENDS = 1 << RI_SEND, RECVS = 1 << RI_RECV };

static void make_streams(struct ri_sim *sim)
{
    int together = sim->cost->launch == RI_LAUNCH_ONE, host = sim->cost->launch == RI_LAUNCH_HOST;

    sim->streams = together ? 1 : RI_LANES;
    for (int r = 0; r < sim->ranks; r++)
        for (int i = 0; i < sim->streams; i++)
            sim->rank[r].stream[i] =
                (struct ri_sim_stream){.lanes = (uint8_t)(together ? ~0 : 1 << i),
                                       .ops = host ? SENDS : SENDS | RECVS,
                                       .at_once = (uint8_t)!host};
    for (uint32_t i = 0; i < sim->links; i++)
        sim->link[i].first = sim->link[i].last = RI_SIM_NONE;
}

static int check_cost(const struct ri_cost *cost)
{
    for (int lane = 0; lane < RI_LANES; lane++)
        if (!(cost->lane[lane].bandwidth > 0) || !(cost->lane[lane].latency_seconds >= 0))
            return ri_error(
                RONDO_ERR_ARGUMENT,
                "cost of the %s lane: bandwidth %g must be above 0, latency %g not below",
                ri_lane_names[lane], cost->lane[lane].bandwidth, cost->lane[lane].latency_seconds);
    for (int b = 0; b < RI_BUNDLES; b++)
        if (!(cost->block[b] >= 0))
            return ri_error(RONDO_ERR_ARGUMENT, "cost of a block of %s: %g is below 0",
                            ri_bundle_names[b], cost->block[b]);
    if (cost->shared_nic < 0)
        return ri_error(RONDO_ERR_ARGUMENT, "cost: %d ranks share a NIC; give 0 for none, 1 for all of a host, or more",
                        cost->shared_nic);
    if (!(cost->compute_seconds >= 0) || !(cost->seconds_per_unit >= 0))
        return ri_error(RONDO_ERR_ARGUMENT, "cost of compute %g s, of moves %g s/unit: below 0",
                        cost->compute_seconds, cost->seconds_per_unit);
    if ((unsigned)cost->launch >= RI_LAUNCHES)
        return ri_error(RONDO_ERR_ARGUMENT, "cost: launch %d is none of enum ri_launch",
                        (int)cost->launch);
    return 0;
}

int ri_sim_init(struct ri_sim *sim)
{
    int err = check_cost(sim->cost);

    if (err)
        return err;
    err = number_steps(sim);
    if (err)
        return err;
    for (int r = 0; r < sim->ranks; r++)
        if (host_of(sim, r) < 0 || host_of(sim, r) >= sim->ranks)
            return ri_error(RONDO_ERR_ARGUMENT, "host %d of rank %d: hosts are 0 to %d",
                            host_of(sim, r), r, sim->ranks - 1);
    sim->links = (uint32_t)sim->ranks * RI_LANES * 2;
    err = allocate(sim);
    for (int r = 0; !err && r < sim->ranks; r++)
        err = order_steps(sim, r);
    if (!err)
        err = list_users(sim);
    if (!err)
        err = make_messages(sim);
    if (!err)
        make_streams(sim);
    return err;
}

void ri_sim_release(struct ri_sim *sim)
{
    free(sim->base);
    free(sim->order);
    free(sim->unmet);
    free(sim->first_user);
    free(sim->users);
    free(sim->message_of);
    free(sim->state);
    free(sim->rank);
    free(sim->dirty_rank);
    free(sim->link);
    free(sim->dirty_link);
    free(sim->message);
    free(sim->event);
    free(sim->waiting);
}

void ri_simulation_release(struct ri_simulation *simulation)
{
    if (!simulation)
        return;
    free(simulation->rank);
    free(simulation->events);
    memset(simulation, 0, sizeof(*simulation));
}

/* ---- volumes and memory ---- */

static int measure_memory(struct ri_sim *sim, int r)
{
    const struct ri_schedule *s = sim->schedules[r];
    double blocks[RI_BUNDLES] = {0}, units = 0;

    for (uint32_t i = 0; i < s->slot_count; i++) {
        double share = (double)s->slots[i].parts / ri_schedule_parts(s);

        if (!ri_slot_is_ours(&s->slots[i]) || ri_slot_is_bound(s, (int32_t)i))
            continue;
        blocks[s->slots[i].bundle] += share;
        units += share * sim->cost->block[s->slots[i].bundle];
    }
    if (r == 0 || units > sim->out->own_units) {
        sim->out->own_units = units;
        memcpy(sim->out->own_blocks, blocks, sizeof(blocks));
    }
    return 0;
}

int ri_sim_measure(struct ri_sim *sim)
{
    int err = 0;

    for (uint32_t m = 0; m < sim->messages; m++) {
        const struct ri_sim_message *message = &sim->message[m];

        sim->out->rank[message->rank[0]].sent[message->lane][message->bundle] += message->units;
    }
    for (int r = 0; r < sim->ranks; r++)
        for (int lane = 0; lane < RI_LANES; lane++) {
            double sum = 0;

            for (int b = 0; b < RI_BUNDLES; b++)
                sum += sim->out->rank[r].sent[lane][b];
            if (sum > sim->out->sent[lane])
                sim->out->sent[lane] = sum;
        }
    for (int r = 0; !err && r < sim->ranks; r++)
        err = measure_memory(sim, r);
    return err;
}
