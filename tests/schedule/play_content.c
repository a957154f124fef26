/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/schedule/play_game.h"

static int adds_up(int bundle)
{
    return bundle == RI_O || bundle == RI_DQ || bundle == RI_DK || bundle == RI_R;
}

static int block_of(const struct ri_schedule *s, int slot)
{
    int nth = 0;

    for (int i = 0; i < slot; i++)
        nth +=
            s->slots[i].bundle == s->slots[slot].bundle && s->slots[i].kind == s->slots[slot].kind;
    for (int b = 0; b < s->blocks; b++)
        if (s->owner[b] == s->rank && nth-- == 0)
            return b;
    return -1;
}

uint64_t play_input(const struct game *g, const struct ri_schedule *s, int slot, int part)
{
    int whose = g->how->goal == RI_GOAL_ATTENTION ? block_of(s, slot) : s->rank;

    return tag(s->slots[slot].bundle, whose, part);
}

/* What comes from a rank is word of it, be it a vector that was copied to a block. */
static void see(const struct game *g, struct player *p, uint64_t value)
{
    for (int r = 0; r < g->ranks; r++)
        p->seen[r] |= value == tag(RI_X, r, 0) || value == tag(RI_R, r, 0);
}

static uint64_t take(struct game *g, struct player *p, const struct ri_step *step, int n)
{
    const struct ri_operand *o = &step->from[0];
    struct cell *cell = shown(g, &p->views[place(p, o, n)]);

    if (!cell->full)
        broken(g, "reads what is empty");
    if (adds_up(p->s->slots[o->slot].bundle) && p->s->slots[o->slot].kind != RI_IN)
        cell->full = 0;
    return cell->value;
}

static void put(struct game *g, struct player *p, int i, int k, int n, uint64_t value)
{
    const struct ri_step *step = &p->s->steps[i];
    int at = place(p, &step->to[k], n), adds = !(step->stores >> k & 1);
    struct cell *cell = &p->cells[at];

    if (p->s->slots[step->to[k].slot].kind == RI_IN)
        broken(g, "writes the caller's input");
    if (adds && (!cell->full || step->op == RI_RECV || step->op == RI_COPY))
        broken(g, "adds to nothing");
    p->views[at] = (struct view){p->s->rank, at, -1, p->views[at].reading, p->views[at].writing};
    cell->value = adds ? cell->value + value : value;
    cell->full = 1;
    see(g, p, cell->value);
}

void play_meet(struct game *g, struct player *a, int send, struct player *b, int recv)
{
    const struct ri_step *x = &a->s->steps[send], *y = &b->s->steps[recv];

    if (count(&x->from[0]) != count(&y->to[0]) || x->lane != y->lane || x->bind != y->bind ||
        a->s->slots[x->from[0].slot].bundle != b->s->slots[y->to[0].slot].bundle) {
        broken(g, "two ends differ");
        return;
    }
    for (int n = 0; n < count(&x->from[0]); n++) {
        struct view *from = &a->views[place(a, &x->from[0], n)];
        int at = place(b, &y->to[0], n);

        if (!binds(g, x)) {
            put(g, b, recv, 0, n, take(g, a, x, n));
            continue;
        }
        if (!shown(g, from)->full)
            broken(g, "reads what is empty");
        b->views[at].rank = from->rank;
        b->views[at].cell = from->cell;
        b->views[at].by = recv;
        see(g, b, shown(g, from)->value);
        if (!g->how->releases_when_bound)
            shown(g, from)->readers++;
    }
}

/* What one part of one side gets from all parts of the other side. */
static uint64_t contribution(const struct game *g, const struct player *p,
                             const struct ri_step *step, int k, int n)
{
    const struct ri_operand *mine = &step->from[k], *others = &step->from[1 - k];
    uint64_t sum = 0;

    for (int m = 0; m < count(others); m++) {
        int part = mine->first_part + n % mine->parts;
        int other = others->first_part + m % others->parts;
        uint64_t a = tag(k ? RI_K : RI_Q, mine->block + n / mine->parts, part);
        uint64_t b = tag(k ? RI_Q : RI_K, others->block + m / others->parts, other);

        if (part / p->s->token_parts == other / p->s->token_parts)
            sum += k ? mix(b, a) : mix(a, b);
    }
    return sum;
}

static void compute(struct game *g, struct player *p, int i)
{
    const struct ri_step *step = &p->s->steps[i];

    for (int k = 0; k < 2; k++) {
        for (int n = 0; n < count(&step->from[k]); n++) {
            const struct ri_operand *o = &step->from[k];
            const struct cell *cell = shown(g, &p->views[place(p, o, n)]);

            if (!cell->full || cell->value != tag(k ? RI_K : RI_Q, o->block + n / o->parts,
                                                  o->first_part + n % o->parts))
                broken(g, "computes on what it does not name");
        }
        for (int n = 0; n < count(&step->to[k]); n++)
            put(g, p, i, k, n, contribution(g, p, step, k, n));
    }
}

void play_work(struct game *g, struct player *p, int i)
{
    const struct ri_step *step = &p->s->steps[i];
    int bundle = p->s->slots[step->to[0].slot < 0 ? step->to[1].slot : step->to[0].slot].bundle;

    if (step->op == RI_COMPUTE) {
        compute(g, p, i);
        return;
    }
    if (step->op == RI_MERGE && (step->merge == RI_MERGE_LSE) != (bundle == RI_O))
        broken(g, "merges in the wrong way");
    for (int n = 0; n < count(&step->from[0]); n++)
        put(g, p, i, 0, n, take(g, p, step, n));
}

static uint64_t whole_sum(const struct ri_schedule *s, int bundle, int block, int part)
{
    int first = part / s->token_parts * s->token_parts;
    uint64_t sum = 0;

    for (int other = 0; other < s->blocks; other++) {
        for (int run = first; run < first + s->token_parts; run++) {
            uint64_t q = bundle == RI_DK ? tag(RI_Q, other, run) : tag(RI_Q, block, part);
            uint64_t k = bundle == RI_DK ? tag(RI_K, block, part) : tag(RI_K, other, run);

            sum += mix(q, k);
        }
    }
    return sum;
}

/* The rank's `out` slots of a bundle hold what they must; returns how many there are. */
static int look_at_outs(struct game *g, const struct player *p, enum ri_bundle bundle,
                        uint64_t (*expected)(const struct ri_schedule *, int))
{
    const struct ri_schedule *s = p->s;
    int outs = 0;

    for (uint32_t i = 0; i < s->slot_count; i++) {
        if (s->slots[i].kind != RI_OUT || s->slots[i].bundle != bundle)
            continue;
        outs++;
        for (int part = 0; part < s->head_parts * s->token_parts; part++)
            if (part >= s->slots[i].parts || !p->cells[p->first[i] + part].full ||
                p->cells[p->first[i] + part].value != expected(s, part))
                broken(g, "a result is wrong");
    }
    return outs;
}

static uint64_t sum_of_all(const struct ri_schedule *s, int part)
{
    uint64_t sum = 0;

    for (int r = 0; r < s->ranks; r++)
        sum += tag(RI_R, r, part);
    return sum;
}

static uint64_t of_root(const struct ri_schedule *s, int part)
{
    return tag(RI_X, s->owner[0], part);
}

static void look_at_attention(struct game *g, const struct player *p)
{
    const struct ri_schedule *s = p->s;

    for (uint32_t i = 0; i < s->slot_count; i++) {
        for (int part = 0; s->slots[i].kind == RI_OUT && part < s->slots[i].parts; part++) {
            const struct cell *cell = &p->cells[p->first[i] + part];

            if (!cell->full ||
                cell->value != whole_sum(s, s->slots[i].bundle, block_of(s, (int)i), part))
                broken(g, "a result is wrong");
        }
    }
}

static void look_at_collective(struct game *g, const struct player *p)
{
    int is_root = p->s->owner[0] == p->s->rank;

    if (g->how->goal == RI_GOAL_ALL_REDUCE && !look_at_outs(g, p, RI_X, sum_of_all))
        broken(g, "there is no sum");
    if (g->how->goal == RI_GOAL_BROADCAST && !look_at_outs(g, p, RI_X, of_root) && !is_root)
        broken(g, "there is no block");
    for (int r = 0; g->how->goal == RI_GOAL_BARRIER && r < g->ranks; r++)
        if (!p->seen[r] && r != p->s->rank)
            broken(g, "has no word of a rank");
}

void play_look_at_results(struct game *g, const struct player *p)
{
    const struct ri_schedule *s = p->s;

    if (g->how->goal == RI_GOAL_ATTENTION)
        look_at_attention(g, p);
    else
        look_at_collective(g, p);
    for (uint32_t i = 0; i < s->slot_count; i++)
        for (int part = 0; part < s->slots[i].parts; part++)
            if (p->cells[p->first[i] + part].readers)
                broken(g, "a reader is left");
}
