/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/schedule/play_game.h"

#include <stdlib.h>

static uint32_t below(struct game *g, uint32_t end)
{
    g->random = g->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(g->random >> 33) % end;
}

static int reads(const struct player *p, int step, int at)
{
    for (int k = 0; k < 2; k++)
        for (int n = 0; n < count(&p->s->steps[step].from[k]); n++)
            if (place(p, &p->s->steps[step].from[k], n) == at)
                return 1;
    return 0;
}

static int writes(const struct player *p, int step, int at)
{
    for (int k = 0; k < 2; k++)
        for (int n = 0; n < count(&p->s->steps[step].to[k]); n++)
            if (place(p, &p->s->steps[step].to[k], n) == at)
                return 1;
    return 0;
}

/* Steps that read at least one place of what `recv` brings, before that place is written again. */
static int users(const struct player *p, int recv)
{
    const struct ri_operand *o = &p->s->steps[recv].to[0];
    int used = 0;

    for (int i = recv + 1; i < (int)p->s->step_count; i++) {
        int uses = 0;

        for (int n = 0; n < count(o); n++) {
            int at = place(p, o, n), over = 0;

            for (int k = recv + 1; k < i; k++)
                over = over || writes(p, k, at);
            uses = uses || (!over && reads(p, i, at));
        }
        used += uses;
    }
    return used;
}

/* The nth step that is `op` with `peer`, or -1. */
static int nth_with(const struct ri_schedule *s, enum ri_op op, int peer, int nth)
{
    for (uint32_t i = 0; i < s->step_count; i++)
        if (s->steps[i].op == op && s->steps[i].peer == peer && nth-- == 0)
            return (int)i;
    return -1;
}

static void find_mates(struct game *g, int r)
{
    struct player *p = &g->p[r];
    int seen[2][MAX_RANKS] = {{0}};

    for (uint32_t i = 0; i < p->s->step_count; i++) {
        const struct ri_step *step = &p->s->steps[i];
        enum ri_op other = step->op == RI_SEND ? RI_RECV : RI_SEND;

        if (ri_step_moves(step))
            p->mate[i] =
                nth_with(g->p[step->peer].s, other, r, seen[step->op == RI_SEND][step->peer]++);
    }
}

static int sit_down(const struct game *g, struct player *p, const struct ri_schedule *s)
{
    int places = 0;

    p->s = s;
    p->running = -1;
    p->first = calloc(s->slot_count + 1, sizeof(*p->first));
    for (uint32_t i = 0; p->first && i < s->slot_count; i++) {
        p->first[i] = places;
        places += s->slots[i].parts;
    }
    p->cells = calloc((size_t)places + 1, sizeof(*p->cells));
    p->views = calloc((size_t)places + 1, sizeof(*p->views));
    p->state = calloc(s->step_count + 1, 1);
    p->mate = calloc(s->step_count + 1, sizeof(*p->mate));
    p->left = calloc(s->step_count + 1, sizeof(*p->left));
    if (!p->first || !p->cells || !p->views || !p->state || !p->mate || !p->left)
        return -1;
    for (int n = 0; n < places; n++)
        p->views[n] = (struct view){s->rank, n, -1, 0, 0};
    for (uint32_t i = 0; i < s->slot_count; i++)
        for (int part = 0; s->slots[i].kind == RI_IN && part < s->slots[i].parts; part++)
            p->cells[p->first[i] + part] =
                (struct cell){.value = play_input(g, s, (int)i, part), .full = 1};
    for (uint32_t i = 0; i < s->step_count; i++)
        if (s->steps[i].bind && s->steps[i].op == RI_RECV)
            p->left[i] = users(p, (int)i) + 1;
    return 0;
}

/* May it start, as far as its own rank and the readers of its memory are concerned? */
static int ready(const struct game *g, const struct player *p, int i)
{
    const struct ri_step *step = &p->s->steps[i];

    for (uint32_t d = 0; d < step->deps; d++)
        if (p->state[p->s->deps[step->first_dep + d]] != DONE)
            return 0;
    for (int k = 0; k < 2 && !binds(g, step) && !g->how->waits_for_no_reader; k++)
        for (int n = 0; n < count(&step->to[k]); n++)
            if (p->cells[place(p, &step->to[k], n)].readers)
                return 0;
    return 1;
}

static void begin(struct game *g, struct player *p, int i)
{
    const struct ri_step *step = &p->s->steps[i];

    p->state[i] = POSTED;
    for (int k = 0; k < 4; k++) {
        for (int n = 0; n < count(operand(step, k)); n++) {
            struct view *view = &p->views[place(p, operand(step, k), n)];
            struct cell *cell = &p->cells[place(p, operand(step, k), n)];

            if (k < 2) {
                if (view->writing || shown(g, view)->writing)
                    broken(g, "reads what is being written");
                view->reading++;
                shown(g, view)->reading++;
                continue;
            }
            if (view->writing || view->reading ||
                (!binds(g, step) && (cell->writing || cell->reading)))
                broken(g, "writes what is in use");
            view->writing++;
            cell->writing += !binds(g, step);
        }
    }
}

static void let_go(struct game *g, struct player *p, int recv)
{
    const struct ri_operand *o = &p->s->steps[recv].to[0];

    if (--p->left[recv] || g->how->releases_when_bound)
        return;
    for (int n = 0; n < count(o); n++)
        shown(g, &p->views[place(p, o, n)])->readers--;
}

/* Several operands of one step may read what one RECV brought. */
static void end(struct game *g, struct player *p, int i)
{
    const struct ri_step *step = &p->s->steps[i];
    int told[64], tellings = 0;

    p->state[i] = DONE;
    for (int k = 0; k < 4; k++) {
        for (int n = 0; n < count(operand(step, k)); n++) {
            int at = place(p, operand(step, k), n), known = 0;
            struct view *view = &p->views[at];

            if (k >= 2) {
                view->writing--;
                p->cells[at].writing -= !binds(g, step);
                continue;
            }
            view->reading--;
            shown(g, view)->reading--;
            for (int t = 0; t < tellings; t++)
                known = known || told[t] == view->by;
            if (view->by >= 0 && !known && tellings < 64)
                told[tellings++] = view->by;
        }
    }
    for (int t = 0; t < tellings; t++)
        let_go(g, p, told[t]);
    if (binds(g, step) && step->op == RI_RECV)
        let_go(g, p, i);
}

/* ---- moves of the game: each returns whether there was one ---- */

static int start_work(struct game *g, struct player *p)
{
    for (uint32_t i = 0; p->running < 0 && i < p->s->step_count; i++) {
        if (ri_step_moves(&p->s->steps[i]) || p->state[i] == DONE)
            continue;
        if (ready(g, p, (int)i)) {
            begin(g, p, (int)i);
            p->running = (int)i;
            return 1;
        }
        if (!g->passes || p->s->steps[i].op == RI_MERGE)
            return 0;
    }
    return 0;
}

static int end_work(struct game *g, struct player *p)
{
    if (p->running < 0)
        return 0;
    play_work(g, p, p->running);
    end(g, p, p->running);
    p->running = -1;
    return 1;
}

static int in_stream(const struct game *g, const struct ri_step *step, int stream)
{
    return ri_step_moves(step) && (g->how->streams == PLAY_ONE || step->lane == stream);
}

/* The turn that a stream is at; -1: none is left. */
static int turn_of(const struct game *g, const struct player *p, int stream)
{
    int turn = -1;

    for (uint32_t i = 0; i < p->s->step_count; i++)
        if (in_stream(g, &p->s->steps[i], stream) && p->state[i] != DONE &&
            (turn < 0 || p->s->steps[i].turn < turn))
            turn = p->s->steps[i].turn;
    return turn;
}

/* All of a group is ready before anything of it is posted. */
static int may_post(const struct game *g, const struct player *p, int step)
{
    const struct ri_step *mine = &p->s->steps[step];

    if (p->state[step] != WAITS || !ready(g, p, step))
        return 0;
    if (g->how->streams != PLAY_FREE && turn_of(g, p, mine->lane) != mine->turn)
        return 0;
    for (uint32_t i = 0; i < p->s->step_count; i++) {
        if (!in_stream(g, &p->s->steps[i], mine->lane) || p->state[i] != WAITS)
            continue;
        if (g->how->streams == PLAY_FREE
                ? (int)i < step
                : p->s->steps[i].turn == mine->turn && !ready(g, p, (int)i))
            return 0;
    }
    return 1;
}

static int post(struct game *g, struct player *p)
{
    uint32_t from = below(g, p->s->step_count);

    for (uint32_t n = 0; n < p->s->step_count; n++) {
        int i = (int)((from + n) % p->s->step_count);

        if (ri_step_moves(&p->s->steps[i]) && may_post(g, p, i)) {
            begin(g, p, i);
            return 1;
        }
    }
    return 0;
}

static int join(struct game *g, struct player *p)
{
    uint32_t from = below(g, p->s->step_count);

    for (uint32_t n = 0; n < p->s->step_count; n++) {
        int i = (int)((from + n) % p->s->step_count), mate = p->mate[i];
        struct player *peer = &g->p[ri_step_moves(&p->s->steps[i]) ? p->s->steps[i].peer : 0];

        if (p->s->steps[i].op != RI_SEND || p->state[i] != POSTED || mate < 0 ||
            peer->state[mate] != POSTED)
            continue;
        play_meet(g, p, i, peer, mate);
        p->state[i] = peer->state[mate] = MET;
        return 1;
    }
    return 0;
}

/* Messages end when they have met; groups when all of theirs have. */
static int complete(struct game *g, struct player *p)
{
    int any = 0;

    for (int stream = 0; stream < 2; stream++) {
        int turn = turn_of(g, p, stream), all = 1;

        for (uint32_t i = 0; i < p->s->step_count; i++)
            if (in_stream(g, &p->s->steps[i], stream) && p->s->steps[i].turn == turn)
                all = all && (p->state[i] == MET || p->state[i] == DONE);
        for (uint32_t i = 0; i < p->s->step_count; i++) {
            if (!in_stream(g, &p->s->steps[i], stream) || p->state[i] != MET ||
                (g->how->streams != PLAY_FREE && !(all && p->s->steps[i].turn == turn)))
                continue;
            end(g, p, (int)i);
            any = 1;
            if (g->how->streams == PLAY_FREE)
                return 1;
        }
    }
    return any;
}

static int move(struct game *g)
{
    static int (*const moves[])(struct game *, struct player *) = {start_work, end_work, post, join,
                                                                   complete};
    uint32_t all = (uint32_t)g->ranks * 5, from = below(g, all);

    for (uint32_t n = 0; n < all; n++) {
        uint32_t at = (from + n) % all;

        if (g->p[at / 5].s->step_count && moves[at % 5](g, &g->p[at / 5]))
            return 1;
    }
    return 0;
}

static int is_done(const struct player *p)
{
    for (uint32_t i = 0; i < p->s->step_count; i++)
        if (p->state[i] != DONE)
            return 0;
    return 1;
}

static void leave(struct player *p)
{
    free(p->first);
    free(p->cells);
    free(p->views);
    free(p->state);
    free(p->mate);
    free(p->left);
}

const char *play(const struct ranks *all, const struct play *how)
{
    struct game *g = calloc(1, sizeof(*g));
    const char *why = "out of memory";

    if (!g)
        return why;
    g->how = how;
    g->ranks = all->count;
    g->random = mix(how->seed, 1);
    g->passes = (int)below(g, 2);
    for (int r = 0; r < all->count; r++)
        if (sit_down(g, &g->p[r], all->s[r]))
            broken(g, why);
    for (int r = 0; r < all->count && !g->why; r++)
        find_mates(g, r);
    while (!g->why && move(g))
        ;
    for (int r = 0; r < all->count && !g->why; r++)
        if (!is_done(&g->p[r]))
            broken(g, "deadlock");
    for (int r = 0; r < all->count && !g->why; r++)
        play_look_at_results(g, &g->p[r]);
    for (int r = 0; r < all->count; r++)
        leave(&g->p[r]);
    why = g->why;
    free(g);
    return why;
}
