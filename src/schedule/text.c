/* SPDX-License-Identifier: Apache-2.0 */
/* A schedule as text, and as a number. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/internal.h"

/* A growing string; text is NULL once memory ran out. */
struct text {
    char *text;
    size_t length, room;
};

static void put(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct text *t, const char *format, ...)
{
    va_list args, again;
    int more;

    va_start(args, format);
    va_copy(again, args);
    more = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (t->text && t->length + (size_t)more + 1 > t->room) {
        char *moved = realloc(t->text, 2 * (t->length + (size_t)more + 1));

        t->room = 2 * (t->length + (size_t)more + 1);
        if (!moved)
            free(t->text);
        t->text = moved;
    }
    if (t->text) {
        vsnprintf(t->text + t->length, t->room - t->length, format, again);
        t->length += (size_t)more;
    }
    va_end(again);
}

static void pad(struct text *t, size_t line_start, size_t column)
{
    while (t->text && t->length < line_start + column)
        put(t, " ");
}

static void trim(struct text *t)
{
    while (t->text && t->length && t->text[t->length - 1] == ' ')
        t->text[--t->length] = 0;
}

/* s3:K4, of several blocks s3:K4-7, of some parts s3:K4.0+2, of one s3:K4.0. */
static void put_operand(struct text *t, const struct ri_schedule *s, const struct ri_operand *o)
{
    put(t, "s%d:%s%d", (int)o->slot, ri_bundle_names[s->slots[o->slot].bundle], (int)o->block);
    if (o->blocks > 1)
        put(t, "-%d", (int)o->block + o->blocks - 1);
    if (o->parts == ri_schedule_parts(s))
        return;
    put(t, ".%d", o->first_part);
    if (o->parts > 1)
        put(t, "+%d", o->parts);
}

/* The sign tells what matters for sums only: read-only content is always replaced. */
static void put_target(struct text *t, const struct ri_schedule *s, const struct ri_step *step,
                       int k)
{
    if (step->to[k].slot < 0)
        return;
    put_operand(t, s, &step->to[k]);
    put(t, "%s ", step->stores >> k & 1 ? "" : "+");
}

static void put_work(struct text *t, const struct ri_schedule *s, const struct ri_step *step)
{
    for (int k = 0; k < 2; k++) {
        if (step->from[k].slot >= 0) {
            put_operand(t, s, &step->from[k]);
            put(t, " ");
        }
    }
    if (step->op == RI_COMPUTE || step->op == RI_COPY || step->op == RI_MERGE)
        put(t, "-> ");
    put_target(t, s, step, 0);
    put_target(t, s, step, 1);
    if (step->op == RI_SEND)
        put(t, "to %d ", (int)step->peer);
    if (step->op == RI_RECV)
        put(t, "from %d ", (int)step->peer);
    if (step->bind)
        put(t, "bind ");
}

static void put_step(struct text *t, const struct ri_schedule *s, uint32_t i)
{
    const struct ri_step *step = &s->steps[i];
    size_t start = t->length;
    char name[16];

    snprintf(name, sizeof(name), "%s%s", ri_op_names[step->op],
             step->op != RI_MERGE          ? ""
             : step->merge == RI_MERGE_LSE ? " lse"
                                           : " sum");
    if (ri_step_moves(step))
        put(t, "%3u %3d %-5s %-9s ", (unsigned)i, (int)step->turn, ri_lane_names[step->lane], name);
    else
        put(t, "%3u   . .     %-9s ", (unsigned)i, name);
    put_work(t, s, step);
    if (step->deps) {
        pad(t, start, 63);
        put(t, "after");
        for (uint32_t d = 0; d < step->deps; d++)
            put(t, " %u", (unsigned)s->deps[step->first_dep + d]);
    }
    trim(t);
    put(t, "\n");
}

static void put_numbers(struct text *t, const char *word, const int32_t *numbers, int count)
{
    put(t, "%s", word);
    for (int i = 0; i < count; i++)
        put(t, " %d", (int)numbers[i]);
    put(t, "\n");
}

/* True when block b is rank b's, which goes without saying. */
static int usual_owners(const struct ri_schedule *s)
{
    if (s->blocks != s->ranks)
        return 0;
    for (int32_t b = 0; b < s->blocks; b++)
        if (s->owner[b] != b)
            return 0;
    return 1;
}

char *ri_schedule_print(const struct ri_schedule *s)
{
    struct text t = {.text = malloc(4096), .room = 4096};

    put(&t, "schedule %s ranks %d rank %d heads %d tokens %d\n", s->name, (int)s->ranks,
        (int)s->rank, (int)s->head_parts, (int)s->token_parts);
    put_numbers(&t, "hosts", s->host, s->ranks);
    if (!usual_owners(s))
        put_numbers(&t, "owners", s->owner, s->blocks);
    for (uint32_t i = 0; i < s->slot_count; i++) {
        put(&t, "slot %u %s %s", (unsigned)i, ri_bundle_names[s->slots[i].bundle],
            ri_kind_names[s->slots[i].kind]);
        if (s->slots[i].parts != ri_schedule_parts(s))
            put(&t, " parts %d", s->slots[i].parts);
        put(&t, "\n");
    }
    for (uint32_t i = 0; i < s->step_count; i++)
        put_step(&t, s, i);
    return t.text;
}

/* FNV-1a over 64-bit words, closed by a mixer so that every bit of the result depends on all. */
static void mix(uint64_t *hash, int64_t value)
{
    *hash = (*hash ^ (uint64_t)value) * 0x100000001b3u;
    *hash ^= *hash >> 29;
}

static void mix_operand(uint64_t *hash, const struct ri_operand *o)
{
    mix(hash, o->slot);
    if (o->slot < 0)
        return;
    mix(hash, o->block);
    mix(hash, o->blocks);
    mix(hash, o->first_part);
    mix(hash, o->parts);
}

static void mix_step(uint64_t *hash, const struct ri_schedule *s, const struct ri_step *step)
{
    mix(hash, step->op);
    mix(hash, step->merge);
    mix(hash, step->lane);
    mix(hash, step->bind);
    mix(hash, step->peer);
    mix(hash, step->turn);
    mix(hash, step->stores);
    for (int k = 0; k < RI_OPERANDS; k++)
        mix_operand(hash, ri_step_operand(step, k));
    mix(hash, step->deps);
    for (uint32_t d = 0; d < step->deps; d++)
        mix(hash, s->deps[step->first_dep + d]);
}

uint64_t ri_schedule_hash(const struct ri_schedule *s)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (const char *c = s->name; *c; c++)
        mix(&hash, *c);
    mix(&hash, s->rank);
    mix(&hash, s->ranks);
    mix(&hash, s->head_parts);
    mix(&hash, s->token_parts);
    for (int32_t r = 0; r < s->ranks; r++)
        mix(&hash, s->host[r]);
    mix(&hash, s->blocks);
    for (int32_t b = 0; b < s->blocks; b++)
        mix(&hash, s->owner[b]);
    mix(&hash, s->slot_count);
    for (uint32_t i = 0; i < s->slot_count; i++)
        mix(&hash, s->slots[i].bundle * 0x1000000 + s->slots[i].kind * 0x10000 + s->slots[i].parts);
    mix(&hash, s->step_count);
    for (uint32_t i = 0; i < s->step_count; i++)
        mix_step(&hash, s, &s->steps[i]);
    return hash * 0x9e3779b97f4a7c15u ^ hash >> 32;
}
