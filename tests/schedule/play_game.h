/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SCHEDULE_PLAY_GAME_H
#define TEST_SCHEDULE_PLAY_GAME_H

#include "tests/schedule/play.h"

/* Shared by play.c (who may move) and play_content.c (what a move does to content). */

enum state { WAITS, POSTED, MET, DONE };

struct cell {
    uint64_t value;
    int full, writing, reading;
    int readers; /* counted, as the engine would */
};

/* What a place of a slot shows, and who of this rank is at it. */
struct view {
    int rank, cell, by; /* by: the RECV that bound it, or -1 */
    int reading, writing;
};

struct player {
    const struct ri_schedule *s;
    int *first;              /* [slots] */
    struct cell *cells;      /* [places] */
    struct view *views;      /* [places] */
    uint8_t *state;          /* [steps] */
    int *mate, *left;        /* [steps]; left: of a bound RECV, steps that are still to read it */
    int running;             /* the work under way, or -1 */
    uint8_t seen[MAX_RANKS]; /* of which ranks something came here */
};

struct game {
    struct player p[MAX_RANKS];
    int ranks, passes;
    const struct play *how;
    uint64_t random;
    const char *why;
};

static inline uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ (b * 0x9e3779b97f4a7c15u)) + 0x632be59bd9b4e019u;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static inline uint64_t tag(int bundle, int block, int part)
{
    return mix((uint64_t)bundle << 32 | (uint64_t)block, (uint64_t)part + 1);
}

static inline void broken(struct game *g, const char *why)
{
    if (!g->why)
        g->why = why;
}

static inline const struct ri_operand *operand(const struct ri_step *step, int k)
{
    return k < 2 ? &step->from[k] : &step->to[k - 2];
}

static inline int count(const struct ri_operand *o)
{
    return o->slot < 0 ? 0 : o->blocks * o->parts;
}

static inline int place(const struct player *p, const struct ri_operand *o, int n)
{
    int slot = o->slot + n / o->parts;

    return p->first[slot] + (o->first_part + n % o->parts) % p->s->slots[slot].parts;
}

static inline struct cell *shown(struct game *g, const struct view *view)
{
    return &g->p[view->rank].cells[view->cell];
}

static inline int binds(const struct game *g, const struct ri_step *step)
{
    return g->how->binding && step->bind;
}

/* What the caller puts there.  Of attention, its i-th slot of a bundle is the rank's i-th block;
 * else all that it gives is the rank's own. */
uint64_t play_input(const struct game *g, const struct ri_schedule *s, int slot, int part);
/* Content moves when both ends are posted; work is done as one. */
void play_meet(struct game *g, struct player *a, int send, struct player *b, int recv);
void play_work(struct game *g, struct player *p, int step);
void play_look_at_results(struct game *g, const struct player *p);

#endif
