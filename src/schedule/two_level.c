/* SPDX-License-Identifier: Apache-2.0 */
/* Two-level rings; two_level.h says what moves. */
#include "schedule/two_level.h"

#include "base/minmax.h"

/* ---- turns ----
 *
 * In a round of hosts with up to 4 ranks, backward:
 *
 *     turns of their own             chunks over the local turns
 *     0  host: visitors              0  local: visitors, hop 0    host: chunk 0
 *     1  local: visitors, hop 0      1  hop 1, sums of step 0     chunk 1, total's chunk 0
 *     2  host: totals                2  hop 2, sums of step 1     chunk 2, total's chunk 1
 *     3  hop 1, sums of step 0       3  sums of step 2            total's chunk 2
 *     4  hop 2, sums of step 1
 *     5  sums of step 2
 *
 * In round 1 the sums of round 0 go home in the turn of hop 0.
 * Without sums there are no turns for them, with one host none for host transfers: then it is the
 * flat ring.  A smaller host leaves its last turns empty.  After the last round the totals have a
 * turn across, whole, for there is nothing to spread them over, and one to their owners. */

static int has_sums(const struct ri_two_level *ring)
{
    return ri_sides_sum(&ring->sides)->slot >= 0;
}

static int has_host_turns(const struct ri_two_level *ring)
{
    return ring->own_turns && ring->hosts->count > 1;
}

/* Hop `step` of the visitors and, one behind, the sums of step - 1. */
static int local_turn(const struct ri_two_level *ring, int round_turn, int step)
{
    if (!has_host_turns(ring))
        return round_turn + step;
    return round_turn + 1 + step + (has_sums(ring) && step > 0);
}

static int visitor_turn(int round_turn, int chunk)
{
    return round_turn + chunk;
}

static int total_turn(const struct ri_two_level *ring, int round_turn, int chunk)
{
    return round_turn + chunk + (has_host_turns(ring) ? 2 : 1);
}

/* Local turns of a round, or as many as chunks need. */
static int round_steps(const struct ri_two_level *ring)
{
    int chunks = ring->own_turns || ring->hosts->count == 1 ? 0 : ring->chunks;

    return ri_max(ring->hosts->largest, chunks + 1);
}

static int round_turns(const struct ri_two_level *ring)
{
    int last = local_turn(ring, 0, round_steps(ring) - 1);

    if (!has_sums(ring))
        return last;
    return ri_max(last, ring->hosts->count > 1 ? total_turn(ring, 0, ring->chunks - 1) : 0) + 1;
}

/* ---- who visits ---- */

/* The host whose blocks visit `host` in a round. */
static int visiting_host(const struct ri_two_level *ring, int host, int round)
{
    int hosts = ring->hosts->count;

    return ((host - round) % hosts + hosts) % hosts;
}

static int is_home(const struct ri_two_level *ring, int round)
{
    return round % ring->hosts->count == 0;
}

/* Where visitor u enters a host; at home that is its owner. */
static int entry(const struct ri_two_level *ring, int host, int u)
{
    return u % ri_hosts_size(ring->hosts, host);
}

/* Where its walk ends. */
static int last_place(const struct ri_two_level *ring, int host, int u)
{
    int size = ri_hosts_size(ring->hosts, host);

    return (entry(ring, host, u) + size - 1) % size;
}

static int our_size(const struct ri_two_level *ring)
{
    return ri_hosts_size(ring->hosts, ring->hosts->host);
}

/* Those that are on this rank in one step of a round: all that entered at one place. */
struct stop {
    int round, step;
    int host;  /* whose blocks they are */
    int entry; /* place where they entered */
    int count;
};

static struct stop stop_at(const struct ri_two_level *ring, int round, int step)
{
    int size = our_size(ring), visitors;
    struct stop stop = {.round = round, .step = step};

    stop.host = visiting_host(ring, ring->hosts->host, round);
    stop.entry = ((ring->hosts->place - step) % size + size) % size;
    visitors = ri_hosts_size(ring->hosts, stop.host) * ring->pieces;
    if (stop.entry < visitors)
        stop.count = (visitors - stop.entry + size - 1) / size;
    return stop;
}

/* The visitor that is the k-th of a stop. */
static int visitor(const struct ri_two_level *ring, const struct stop *stop, int k)
{
    return stop->entry + k * our_size(ring);
}

int ri_two_level_walks(const struct ri_hosts *hosts, int pieces)
{
    int walks = hosts->count == 1 ? 1 : (hosts->largest * pieces - 1) / hosts->smallest + 1;

    return ri_max(walks, pieces);
}

/* ---- where it lies ---- */

/* The k-th visitor of a stop in the slots from `slot` on, shaped as `home`; one chunk of it, or all
 * for chunk -1. */
static struct ri_operand lies(const struct ri_two_level *ring, const struct ri_operand *home,
                              int32_t slot, const struct stop *stop, int k, int chunk)
{
    int u = visitor(ring, stop, k), owners = ri_hosts_size(ring->hosts, stop->host);
    int first = u / owners * ring->chunks + (chunk < 0 ? 0 : chunk);
    struct ri_operand o = *home;

    o.slot = slot;
    o.block = ring->first_block[ring->hosts->first[stop->host] + u % owners];
    o.first_part = (uint16_t)(home->first_part + first);
    o.parts = (uint16_t)(chunk < 0 ? ring->chunks : 1);
    return o;
}

/* The k-th of a row of slots; each kind has a row or two. */
static int32_t in_row(const struct ri_two_level *ring, int32_t slots, int row, int k)
{
    return slots + (row * ring->walks + k) * ri_sides_visitor(&ring->sides)->blocks;
}

static struct ri_operand visitor_at(const struct ri_two_level *ring, const struct stop *stop, int k,
                                    int chunk)
{
    const struct ri_operand *home = ri_sides_visitor(&ring->sides);
    int32_t slot;

    if (stop->step == 0 && is_home(ring, stop->round))
        slot = home->slot;
    else if (stop->step == 0 || (ring->stall && stop->step % 2 == 0))
        slot = in_row(ring, ring->entered, stop->round % 2, k);
    else
        slot = in_row(ring, ring->landing, (stop->step - 1) % 2, k);
    return lies(ring, home, slot, stop, k, chunk);
}

static struct ri_operand total_at(const struct ri_two_level *ring, const struct stop *stop, int k,
                                  int chunk)
{
    return lies(ring, ri_sides_sum(&ring->sides), in_row(ring, ring->totals, stop->round % 2, k),
                stop, k, chunk);
}

static struct ri_operand arrived_at(const struct ri_two_level *ring, const struct stop *stop, int k)
{
    return lies(ring, ri_sides_sum(&ring->sides), in_row(ring, ring->arrived, 0, k), stop, k, -1);
}

/* A total is there from round 1 on: what a host adds to its own blocks goes home at once.  So with
 * M hosts of G ranks the sums of a block hop M(G-1)+1 times on hosts, round 0 with the hop home
 * G-1 times, each later round G-1 times and the total once more to its owner, and M-1 times across;
 * M(G-1) times with one host, and with one rank a host. */
static int has_total(int round)
{
    return round > 0;
}

static int ends_walk(const struct ri_two_level *ring, const struct stop *stop)
{
    return stop->step == our_size(ring) - 1;
}

/* What a stop adds to: at home what stays there; at the end of a walk, when no total came that it
 * would have to join, the total itself. */
static struct ri_operand sum_at(const struct ri_two_level *ring, const struct stop *stop, int k)
{
    const struct ri_operand *home = ri_sides_sum(&ring->sides);
    /* Round 1 begins with the row that round 0 did not end with, whose sums are still leaving. */
    int steps = stop->step + (has_total(stop->round) ? our_size(ring) : 0);
    int32_t slot = in_row(ring, ring->made, (steps + 1) % 2, k);

    if (!has_sums(ring))
        return ri_none;
    if (stop->step == 0 && is_home(ring, stop->round))
        slot = home->slot;
    else if (ends_walk(ring, stop) && has_total(stop->round) && !has_total(stop->round - 1))
        slot = in_row(ring, ring->totals, stop->round % 2, k);
    return lies(ring, home, slot, stop, k, -1);
}

/* ---- what moves ---- */

/* The visitors of a round leave for the next host, those of the next round arrive. */
static void visitors_to_next_host(struct ri_schedule *s, const struct ri_two_level *ring, int round,
                                  int chunk, int turn)
{
    struct stop leaves = stop_at(ring, round, 0), comes = stop_at(ring, round + 1, 0);
    int next = ri_hosts_after(ring->hosts, 1), prev = ri_hosts_after(ring->hosts, -1);

    for (int k = 0; k < leaves.count; k++) {
        int place = entry(ring, next, visitor(ring, &leaves, k));

        ri_schedule_send(s, visitor_at(ring, &leaves, k, chunk),
                         ri_hosts_rank(ring->hosts, next, place), turn);
    }
    for (int k = 0; k < comes.count; k++) {
        int place = entry(ring, prev, visitor(ring, &comes, k));

        ri_schedule_recv(s, visitor_at(ring, &comes, k, chunk),
                         ri_hosts_rank(ring->hosts, prev, place), turn);
    }
}

/* The totals of a round leave for the next host, where they end their walk in the next round. */
static void totals_to_next_host(struct ri_schedule *s, const struct ri_two_level *ring, int round,
                                int chunk, int turn)
{
    int last = our_size(ring) - 1;
    struct stop leaves = stop_at(ring, round, last), comes = stop_at(ring, round + 1, last);
    int next = ri_hosts_after(ring->hosts, 1), prev = ri_hosts_after(ring->hosts, -1);

    for (int k = 0; k < leaves.count; k++) {
        int place = last_place(ring, next, visitor(ring, &leaves, k));

        ri_schedule_send(s, total_at(ring, &leaves, k, chunk),
                         ri_hosts_rank(ring->hosts, next, place), turn);
    }
    for (int k = 0; k < comes.count; k++) {
        int place = last_place(ring, prev, visitor(ring, &comes, k));

        ri_schedule_recv(s, total_at(ring, &comes, k, chunk),
                         ri_hosts_rank(ring->hosts, prev, place), turn);
    }
}

static int32_t neighbour(const struct ri_two_level *ring, int steps)
{
    int size = our_size(ring);

    return ri_hosts_rank(ring->hosts, ring->hosts->host,
                         (ring->hosts->place + steps + size) % size);
}

static void visitors_to_next_rank(struct ri_schedule *s, const struct ri_two_level *ring, int round,
                                  int step, int turn)
{
    struct stop leaves = stop_at(ring, round, step), comes = stop_at(ring, round, step + 1);

    for (int k = 0; k < leaves.count; k++)
        ri_schedule_send(s, visitor_at(ring, &leaves, k, -1), neighbour(ring, 1), turn);
    for (int k = 0; k < comes.count; k++)
        ri_schedule_recv(s, visitor_at(ring, &comes, k, -1), neighbour(ring, -1), turn);
}

/* Does a sum arrive for a step?  What the owner adds stays home. */
static int sum_arrives(const struct ri_two_level *ring, int round, int step)
{
    return has_sums(ring) && step > (is_home(ring, round) ? 1 : 0);
}

/* The sums of step - 1, which step goes on with. */
static void sums_to_next_rank(struct ri_schedule *s, const struct ri_two_level *ring, int round,
                              int step, int turn)
{
    struct stop leaves = stop_at(ring, round, step - 1), comes = stop_at(ring, round, step);

    for (int k = 0; k < leaves.count; k++)
        ri_schedule_send(s, sum_at(ring, &leaves, k), neighbour(ring, 1), turn);
    for (int k = 0; k < comes.count; k++)
        ri_schedule_recv(s, arrived_at(ring, &comes, k), neighbour(ring, -1), turn);
}

/* ---- rounds ---- */

/* What of the host transfers has its place at a step: all at step 0, or a chunk at each. */
static void host_visitors(struct ri_schedule *s, const struct ri_two_level *ring, int round,
                          int step, int round_turn)
{
    if (round < ring->hosts->count - 1 && step < ring->chunks)
        visitors_to_next_host(s, ring, round, step, visitor_turn(round_turn, step));
}

static void host_totals(struct ri_schedule *s, const struct ri_two_level *ring, int round, int step,
                        int round_turn)
{
    int chunk = ring->own_turns ? step : step - 1;

    if (has_sums(ring) && has_total(round - 1) && chunk >= 0 && chunk < ring->chunks)
        totals_to_next_host(s, ring, round - 1, chunk, total_turn(ring, round_turn, chunk));
}

/* Merges stand after the compute that hides the way of what they wait for. */
static void compute_step(struct ri_schedule *s, const struct ri_two_level *ring, int round,
                         int step)
{
    struct stop stop = stop_at(ring, round, step);

    for (int k = 0; k < stop.count; k++)
        ri_sides_compute(s, &ring->sides, visitor_at(ring, &stop, k, -1), sum_at(ring, &stop, k));
    for (int k = 0; sum_arrives(ring, round, step) && k < stop.count; k++)
        ri_schedule_merge(s, RI_MERGE_SUM, arrived_at(ring, &stop, k), sum_at(ring, &stop, k));
}

/* What a round, the first or one past the last, leaves to take home of the blocks that are at home
 * in it. */
static struct ri_operand finished_at(const struct ri_two_level *ring, const struct stop *last,
                                     int k)
{
    return has_total(last->round) ? total_at(ring, last, k, -1) : sum_at(ring, last, k);
}

/* It is on the rank before the owner. */
static void sums_to_owners(struct ri_schedule *s, const struct ri_two_level *ring, int round,
                           int turn)
{
    struct stop last = stop_at(ring, round, our_size(ring) - 1), home = stop_at(ring, round, 0);

    if (our_size(ring) == 1)
        return;
    for (int k = 0; k < last.count; k++)
        ri_schedule_send(s, finished_at(ring, &last, k), neighbour(ring, 1), turn);
    for (int k = 0; k < home.count; k++)
        ri_schedule_recv(s, arrived_at(ring, &home, k), neighbour(ring, -1), turn);
}

/* An owner that is alone has it already. */
static void merge_at_home(struct ri_schedule *s, const struct ri_two_level *ring, int round)
{
    struct stop home = stop_at(ring, round, 0);
    int alone = our_size(ring) == 1;

    for (int k = 0; k < home.count && !(alone && !has_total(round)); k++)
        ri_schedule_merge(s, RI_MERGE_SUM,
                          alone ? total_at(ring, &home, k, -1) : arrived_at(ring, &home, k),
                          sum_at(ring, &home, k));
}

static void append_step(struct ri_schedule *s, const struct ri_two_level *ring, int round, int step,
                        int round_turn)
{
    int turn = local_turn(ring, round_turn, step), size = our_size(ring);
    int finished = has_sums(ring) && round == 1 && step == 0; /* round 0 has: sums go home */

    host_visitors(s, ring, round, step, round_turn);
    if (step < size - 1)
        visitors_to_next_rank(s, ring, round, step, turn);
    if (step < size && sum_arrives(ring, round, step))
        sums_to_next_rank(s, ring, round, step, turn);
    if (finished)
        sums_to_owners(s, ring, 0, turn);
    host_totals(s, ring, round, step, round_turn);
    if (step < size)
        compute_step(s, ring, round, step);
    if (finished)
        merge_at_home(s, ring, 0);
}

static void append_round(struct ri_schedule *s, const struct ri_two_level *ring, int round,
                         int round_turn)
{
    struct stop last = stop_at(ring, round, our_size(ring) - 1);

    for (int step = 0; step < round_steps(ring); step++)
        append_step(s, ring, round, step, round_turn);
    for (int k = 0; has_sums(ring) && has_total(round - 1) && k < last.count; k++)
        ri_schedule_merge(s, RI_MERGE_SUM, sum_at(ring, &last, k), total_at(ring, &last, k, -1));
}

int ri_two_level(struct ri_schedule *s, const struct ri_two_level *ring, int turn)
{
    int hosts = ring->hosts->count;

    for (int round = 0; round < hosts; round++, turn += round_turns(ring))
        append_round(s, ring, round, turn);
    if (!has_sums(ring))
        return turn;
    turn -= hosts == 1 && ring->hosts->largest == 2; /* as in the flat ring */
    if (hosts > 1)
        totals_to_next_host(s, ring, hosts - 1, -1, turn++);
    sums_to_owners(s, ring, hosts > 1 ? hosts : 0, turn);
    merge_at_home(s, ring, hosts > 1 ? hosts : 0);
    return turn + (ring->hosts->largest > 1);
}
