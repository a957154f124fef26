/* SPDX-License-Identifier: Apache-2.0 */
/* Two-level rings over all ranks: how many parts and slots, and what is refused. */
#include <stdlib.h>

#include "base/minmax.h"
#include "base/status.h"
#include "schedule/internal.h"
#include "schedule/two_level.h"

/* Landing slots of a walk that keep no ring waiting: of those from the host before, one is sent on
 * while one arrives; of those from the rank before, one is computed on while one arrives. */
static int free_landings(const struct ri_hosts *hosts)
{
    return ri_min(2, hosts->count - 1) + ri_min(2, hosts->largest - 1);
}

/* Decides parts.  Nothing is cut where nothing crosses hosts. */
static int cut_blocks(struct ri_two_level *ring, struct ri_schedule *s,
                      const struct ri_build *build)
{
    int several = ring->hosts->count > 1;

    if (build->pieces < 0 || build->pieces > RI_MAX_PARTS)
        return ri_error(RONDO_ERR_ARGUMENT, "%s: %d pieces of a block, allowed are 0 to %d",
                        s->name, build->pieces, (int)RI_MAX_PARTS);
    ring->pieces = several && build->pieces ? build->pieces : 1;
    ring->own_turns = !several || !build->chunked;
    ring->chunks = ring->own_turns || ring->hosts->largest < 3 ? 1 : ring->hosts->largest - 1;
    if (ring->pieces > RI_MAX_PARTS / ring->chunks)
        return ri_error(RONDO_ERR_ARGUMENT,
                        "%s: %d pieces in %d chunks, allowed are %d in all; give fewer pieces",
                        s->name, ring->pieces, ring->chunks, (int)RI_MAX_PARTS);
    s->token_parts = ring->pieces * ring->chunks;
    ring->walks = ri_two_level_walks(ring->hosts, ring->pieces);
    if (ring->walks > RI_MAX_PLACES / ring->chunks)
        return ri_error(RONDO_ERR_ARGUMENT,
                        "%s: %d pieces enter a host at one rank, allowed are %d; give fewer pieces",
                        s->name, ring->walks, (int)RI_MAX_PLACES / ring->chunks);
    return 0;
}

/* One landing slot fewer than free_landings will do where that is 4, unless a chunk of what lies
 * there still has to leave for the next host. */
static int choose_landings(struct ri_two_level *ring, const char *name,
                           const struct ri_build *build)
{
    int enough = free_landings(ring->hosts);
    int needed = enough == 4 && ring->own_turns ? 3 : enough;

    if (build->landing < 0 || (build->landing && build->landing < needed))
        return ri_error(RONDO_ERR_ARGUMENT,
                        "%s: landing %d: %d hosts of up to %d ranks%s need %d, and %d not to wait; "
                        "give 0 for the default",
                        name, build->landing, ring->hosts->count, ring->hosts->largest,
                        ring->own_turns ? "" : " with chunks", needed, enough);
    ring->stall = build->landing && build->landing < enough;
    return 0;
}

static void make_slots(struct ri_two_level *ring, struct ri_schedule *s, enum ri_way way)
{
    const struct ri_sides *sides = &ring->sides;
    int walks = ring->walks, parts = ring->chunks;

    ring->sides = ri_sides_home(s, way);
    ring->entered = ri_sides_landing_slots(s, sides, 2 * walks, parts);
    ring->landing = ri_sides_landing_slots(s, sides, (ring->stall ? 1 : 2) * walks, parts);
    if (way == RI_WAY_FORWARD)
        return;
    ring->made = ri_sides_sum_slots(s, sides, 2 * walks, parts);
    ring->arrived = ri_sides_sum_slots(s, sides, walks, parts);
    ring->totals = ri_sides_sum_slots(s, sides, 2 * walks, parts);
}

static int append_over_all(struct ri_schedule *s, const struct ri_build *build, enum ri_way way)
{
    struct ri_hosts hosts;
    struct ri_two_level ring = {.hosts = &hosts};
    int err = ri_hosts_init(&hosts, s, build->order);

    if (!err)
        err = cut_blocks(&ring, s, build);
    if (!err)
        err = choose_landings(&ring, s->name, build);
    if (!err) {
        make_slots(&ring, s, way);
        ring.first_block = hosts.ranks; /* blocks have the numbers of their owners */
        ri_two_level(s, &ring, 0);
    }
    ri_hosts_release(&hosts);
    return err;
}

static int build_two_level(struct ri_schedule **schedule, const struct ri_build *build,
                           const char *name, enum ri_way way)
{
    struct ri_schedule *s;
    int err = ri_schedule_begin(&s, name, build->rank, build->ranks, build->host);

    if (err)
        return err;
    err = append_over_all(s, build, way);
    if (err) {
        ri_schedule_destroy(s);
        return err;
    }
    return ri_sides_end(schedule, s);
}

int ri_build_two_level_forward(struct ri_schedule **schedule, const struct ri_build *build)
{
    return build_two_level(schedule, build, "two_level_forward", RI_WAY_FORWARD);
}

int ri_build_two_level_kv_grad(struct ri_schedule **schedule, const struct ri_build *build)
{
    return build_two_level(schedule, build, "two_level_kv_grad", RI_WAY_KV_GRAD);
}

int ri_build_two_level_q_grad(struct ri_schedule **schedule, const struct ri_build *build)
{
    return build_two_level(schedule, build, "two_level_q_grad", RI_WAY_Q_GRAD);
}
