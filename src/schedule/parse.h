/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_SCHEDULE_PARSE_H
#define RI_SCHEDULE_PARSE_H

#include <stddef.h>
#include <stdint.h>

#include "schedule/internal.h"

/* Shared by parse.c (words, header, slots) and parse_step.c. */

/* A word of the text. */
struct token {
    const char *start;
    size_t length;
};

/* What was written of a step but is derived: compared with the derivation at the end. */
struct written {
    int line;
    uint32_t adds;            /* bit k: to[k] had a plus */
    uint32_t first_dep, deps; /* in parser.deps */
    int has_after;
};

enum { AT_HEADER, AT_HOSTS, AT_OWNERS, AT_SLOTS, AT_STEPS };

struct parser {
    const char *at;  /* next character */
    int line, place; /* place: AT_*, what came last */
    struct ri_schedule *s;
    struct written *written; /* [step_count] */
    uint32_t *deps;
    uint32_t written_room, dep_count, dep_room;
};

/* RONDO_ERR_ARGUMENT with line, word and reason. */
int ri_parse_fault(const struct parser *p, struct token token, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int ri_parse_no_memory(void);

/* The next word of the line; of length 0 where the line ends. */
struct token ri_parse_token(struct parser *p);
int ri_parse_is(struct token token, const char *word);
/* Index among count names, or -1. */
int ri_parse_find(struct token token, const char *const *names, int count);

/* Digits at *at, at most to `end`; moves *at behind them.  -1: none, or more than `most`. */
int64_t ri_parse_digits(const char **at, const char *end, int64_t most);
int ri_parse_number(const struct parser *p, struct token token, int least, int most,
                    int32_t *value);
int ri_parse_expect(struct parser *p, const char *word);
int ri_parse_expect_number(struct parser *p, const char *word, int least, int most, int32_t *value);

/* Reads a step, whose number is `word`; what follows it on the line is left to the caller. */
int ri_parse_step(struct parser *p, struct token word);

#endif
