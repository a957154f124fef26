/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/schedule/ranks.h"

#include <rondo/status.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void ranks_build_as(struct ranks *all, ri_builder *build, const struct ri_build *how)
{
    memset(all, 0, sizeof(*all));
    all->count = how->ranks;
    for (int r = 0; r < how->ranks; r++) {
        struct ri_build one = *how;

        one.rank = r;
        if (build(&all->s[r], &one))
            fail_msg("rank %d of %d: %s", r, how->ranks, rondo_last_error());
    }
}

void ranks_build(struct ranks *all, ri_builder *build, int ranks, const int32_t *host, int root)
{
    ranks_build_as(all, build, &(struct ri_build){.ranks = ranks, .host = host, .root = root});
}

void ranks_parse(struct ranks *all, int ranks, char *(*text)(int rank, int ranks))
{
    memset(all, 0, sizeof(*all));
    all->count = ranks;
    for (int r = 0; r < ranks; r++) {
        char *one = text(r, ranks);

        if (ri_schedule_parse(one, &all->s[r], NULL))
            fail_msg("%s in\n%s", rondo_last_error(), one);
        free(one);
    }
}

void ranks_release(struct ranks *all)
{
    for (int r = 0; r < all->count; r++)
        ri_schedule_destroy(all->s[r]);
    all->count = 0;
}

void ranks_accept(struct ranks *all, enum ri_goal goal)
{
    struct ri_check check;

    if (ri_schedule_check(all->s, all->count, goal, &check))
        fail_msg("%d ranks: %s", all->count, check.message);
}

__attribute__((format(printf, 2, 0))) static void append(struct draft *d, const char *format,
                                                         va_list args)
{
    char line[512];
    int length = vsnprintf(line, sizeof(line), format, args);

    assert_true(length < (int)sizeof(line));
    d->text = realloc(d->text, d->length + (size_t)length + 2);
    assert_non_null(d->text);
    memcpy(d->text + d->length, line, (size_t)length);
    d->length += (size_t)length;
    d->text[d->length] = 0;
}

void draft_line(struct draft *d, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    append(d, format, args);
    va_end(args);
    strcpy(d->text + d->length++, "\n");
}

void draft_step(struct draft *d, int turn, int host_lane, const char *format, ...)
{
    char start[64], line[256];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (turn < 0)
        snprintf(start, sizeof(start), "%d . .", d->steps++);
    else
        snprintf(start, sizeof(start), "%d %d %s", d->steps++, turn, host_lane ? "host" : "local");
    draft_line(d, "%s %s", start, line);
}
