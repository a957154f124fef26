/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what ri_schedule_print writes, by hand or by it. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/status.h"
#include "schedule/parse.h"

int ri_parse_fault(const struct parser *p, struct token token, const char *format, ...)
{
    char reason[256];
    int shown = token.length < 60 ? (int)token.length : 60;
    va_list args;

    va_start(args, format);
    vsnprintf(reason, sizeof(reason), format, args);
    va_end(args);
    return ri_error(RONDO_ERR_ARGUMENT, "schedule text, line %d, '%.*s': %s", p->line, shown,
                    token.start, reason);
}

int ri_parse_no_memory(void)
{
    return ri_error(RONDO_ERR_MEMORY, "schedule text: out of memory");
}

static int is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

struct token ri_parse_token(struct parser *p)
{
    struct token token;

    while (is_space(*p->at))
        p->at++;
    token.start = p->at;
    while (*p->at && *p->at != '\n' && !is_space(*p->at))
        p->at++;
    token.length = (size_t)(p->at - token.start);
    return token;
}

int ri_parse_is(struct token token, const char *word)
{
    return token.length == strlen(word) && !memcmp(token.start, word, token.length);
}

int ri_parse_find(struct token token, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (ri_parse_is(token, names[i]))
            return i;
    return -1;
}

int64_t ri_parse_digits(const char **at, const char *end, int64_t most)
{
    int64_t value = 0;
    const char *start = *at;

    for (; *at < end && **at >= '0' && **at <= '9'; ++*at) {
        value = value * 10 + (**at - '0');
        if (value > most)
            return -1;
    }
    return *at > start ? value : -1;
}

int ri_parse_number(const struct parser *p, struct token token, int least, int most, int32_t *value)
{
    const char *at = token.start, *end = token.start + token.length;
    int64_t read = ri_parse_digits(&at, end, most);

    if (read < least || at != end)
        return ri_parse_fault(p, token, "a number from %d to %d is wanted here", least, most);
    *value = (int32_t)read;
    return 0;
}

int ri_parse_expect(struct parser *p, const char *word)
{
    struct token token = ri_parse_token(p);

    return ri_parse_is(token, word) ? 0 : ri_parse_fault(p, token, "'%s' is wanted here", word);
}

int ri_parse_expect_number(struct parser *p, const char *word, int least, int most, int32_t *value)
{
    int err = ri_parse_expect(p, word);

    return err ? err : ri_parse_number(p, ri_parse_token(p), least, most, value);
}

static int expect_end(struct parser *p)
{
    struct token token = ri_parse_token(p);

    return token.length ? ri_parse_fault(p, token, "the line should end here") : 0;
}

static int read_header(struct parser *p, struct token word)
{
    int32_t ranks = 0, rank = 0, heads = 0, tokens = 0;
    struct token name = ri_parse_token(p);
    char copy[64];
    int err;

    if (!ri_parse_is(word, "schedule"))
        return ri_parse_fault(p, word, "'schedule' is wanted here");
    if (!name.length || name.length >= sizeof(copy))
        return ri_parse_fault(p, name, "a name of 1 to %zu characters is wanted here",
                              sizeof(copy) - 1);
    memcpy(copy, name.start, name.length);
    copy[name.length] = 0;
    err = ri_parse_expect_number(p, "ranks", 1, RI_RANKS_MAX, &ranks);
    if (!err)
        err = ri_parse_expect_number(p, "rank", 0, ranks - 1, &rank);
    if (!err)
        err = ri_parse_expect_number(p, "heads", 1, RI_MAX_PARTS, &heads);
    if (!err)
        err = ri_parse_expect_number(p, "tokens", 1, RI_MAX_PARTS / (heads ? heads : 1), &tokens);
    if (!err)
        err = ri_schedule_begin(&p->s, copy, rank, ranks, NULL);
    if (err)
        return err;
    p->s->head_parts = heads;
    p->s->token_parts = tokens;
    p->place = AT_HEADER;
    return 0;
}

static int read_hosts(struct parser *p, struct token word)
{
    int err =
        p->place == AT_HEADER ? 0 : ri_parse_fault(p, word, "comes after the first line, once");

    for (int32_t r = 0; !err && r < p->s->ranks; r++)
        err = ri_parse_number(p, ri_parse_token(p), 0, RI_RANKS_MAX - 1, &p->s->host[r]);
    p->place = AT_HOSTS;
    return err;
}

static int read_owners(struct parser *p, struct token word)
{
    uint32_t room = 0, count = 0;
    int32_t *owners = NULL;
    int err = p->place == AT_HOSTS ? 0 : ri_parse_fault(p, word, "comes after the hosts, once");

    for (struct token t = ri_parse_token(p); !err && t.length; t = ri_parse_token(p)) {
        int32_t *moved = ri_grow(owners, &room, count, sizeof(*owners));

        if (!moved) {
            err = ri_parse_no_memory();
            break;
        }
        owners = moved;
        err = count < RI_MAX_BLOCKS
                  ? ri_parse_number(p, t, 0, p->s->ranks - 1, &owners[count++])
                  : ri_parse_fault(p, t, "more blocks than %d", (int)RI_MAX_BLOCKS);
    }
    if (!err && !count)
        err = ri_parse_fault(p, word, "names no block");
    if (err) {
        free(owners);
        return err;
    }
    free(p->s->owner);
    p->s->owner = owners;
    p->s->blocks = (int32_t)count;
    p->place = AT_OWNERS;
    return 0;
}

static int read_slot(struct parser *p, struct token word)
{
    int32_t index, parts = ri_schedule_parts(p->s);
    struct token token = ri_parse_token(p), bundle_name = ri_parse_token(p),
                 kind_name = ri_parse_token(p);
    int bundle = ri_parse_find(bundle_name, ri_bundle_names, RI_BUNDLES);
    int kind = ri_parse_find(kind_name, ri_kind_names, RI_OWN + 1);
    int err;

    if (p->place == AT_HEADER || p->place == AT_STEPS)
        return ri_parse_fault(p, word, "slots come after the hosts and before the steps");
    err = ri_parse_number(p, token, (int)p->s->slot_count, (int)p->s->slot_count, &index);
    if (!err && bundle < 0)
        err = ri_parse_fault(p, bundle_name, "no such bundle");
    if (!err && kind < 0)
        err = ri_parse_fault(p, kind_name, "no such kind of slot");
    token = ri_parse_token(p);
    if (!err && token.length)
        err = ri_parse_is(token, "parts")
                  ? ri_parse_number(p, ri_parse_token(p), 1, parts, &parts)
                  : ri_parse_fault(p, token, "'parts' or nothing is wanted here");
    if (!err)
        ri_schedule_slot(p->s, (enum ri_bundle)bundle, (enum ri_slot_kind)kind, parts);
    p->place = AT_SLOTS;
    return err ? err : p->s->error;
}

static int read_line(struct parser *p, struct token word)
{
    int err;

    if (!p->s)
        err = read_header(p, word);
    else if (ri_parse_is(word, "hosts"))
        err = read_hosts(p, word);
    else if (ri_parse_is(word, "owners"))
        err = read_owners(p, word);
    else if (ri_parse_is(word, "slot"))
        err = read_slot(p, word);
    else
        err = ri_parse_step(p, word);
    return err ? err : expect_end(p);
}

static int read_lines(struct parser *p)
{
    int err = 0;

    for (p->line = 1; !err; p->line++) {
        const char *start = p->at;
        struct token word = ri_parse_token(p);

        if (word.length && p->s && ri_parse_is(word, "schedule")) {
            p->at = start;
            return 0;
        }
        if (word.length)
            err = read_line(p, word);
        if (!err && !*p->at)
            break;
        if (*p->at)
            p->at++; /* the line's end */
    }
    return err;
}

/* What was written of the derived must be what was derived. */
static int compare_written(const struct parser *p, uint32_t i)
{
    const struct ri_step *step = &p->s->steps[i];
    const struct written *w = &p->written[i];

    for (int k = 0; k < 2; k++)
        if (step->to[k].slot >= 0 && (w->adds >> k & 1) == (step->stores >> k & 1))
            return ri_error(RONDO_ERR_ARGUMENT,
                            "schedule text, line %d: step %u %s slot %d, the text says "
                            "otherwise",
                            w->line, (unsigned)i, step->stores >> k & 1 ? "stores into" : "adds to",
                            (int)step->to[k].slot);
    if (w->has_after &&
        (w->deps != step->deps || memcmp(p->deps + w->first_dep, p->s->deps + step->first_dep,
                                         step->deps * sizeof(*p->deps))))
        return ri_error(RONDO_ERR_ARGUMENT,
                        "schedule text, line %d: step %u comes after other steps than "
                        "'after' says",
                        w->line, (unsigned)i);
    return 0;
}

static int parse(struct parser *p)
{
    int err = read_lines(p);

    if (err)
        return err;
    if (!p->s || p->place == AT_HEADER)
        return ri_error(RONDO_ERR_ARGUMENT, "schedule text, line %d: ends before '%s'", p->line,
                        p->s ? "hosts" : "schedule");
    err = ri_schedule_derive(p->s);
    for (uint32_t i = 0; !err && i < p->s->step_count; i++)
        err = compare_written(p, i);
    return err;
}

int ri_schedule_parse(const char *text, struct ri_schedule **schedule, const char **end)
{
    struct parser p = {.at = text};
    int err = parse(&p);

    free(p.written);
    free(p.deps);
    if (err) {
        ri_schedule_destroy(p.s);
        return err;
    }
    *schedule = p.s;
    if (end)
        *end = p.at;
    return 0;
}
