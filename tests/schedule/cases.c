/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/schedule/cases.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <rondo/status.h>
#include <stdio.h>
#include <string.h>

#include "tests/schedule/ranks.h"

static ri_builder *find_builder(const char *name)
{
    for (const struct ri_builder_entry *entry = ri_builders; entry->name; entry++)
        if (!strcmp(entry->name, name))
            return entry->build;
    fail_msg("there is no builder '%s'", name);
    return NULL;
}

/* The number after `word`, which ends with a colon, in the line; 0 where it is not there. */
static int option(const char *line, const char *word)
{
    const char *at = strstr(line, word), *end = strchr(line, '\n');
    int value = 0;

    if (at && at < end)
        assert_int_equal(sscanf(at + strlen(word), "%d", &value), 1);
    return value;
}

/* Gives the next `count` ranks to a host; returns how many ranks there are then. */
static int add_host(int32_t *host, int ranks, int number, int count)
{
    assert_true(count >= 1 && ranks + count <= MAX_RANKS);
    for (int i = 0; i < count; i++)
        host[ranks + i] = number;
    return ranks + count;
}

/* Fills host[rank] from the line; returns how many ranks there are. */
static int read_machine(const char *line, int32_t *host)
{
    int hosts, size, length, ranks = 0;

    if (sscanf(line, "host:%d gpu:%d", &hosts, &size) == 2) {
        for (int h = 0; h < hosts; h++)
            ranks = add_host(host, ranks, h, size);
        return ranks;
    }
    assert_int_equal(strncmp(line, "hosts:", strlen("hosts:")), 0);
    line += strlen("hosts:");
    for (int h = 0; *line != '\n'; h++, line += length) {
        assert_int_equal(sscanf(line, " %d%n", &size, &length), 1);
        ranks = add_host(host, ranks, h, size);
    }
    return ranks;
}

struct ri_schedule *case_build(const char *text)
{
    int32_t host[MAX_RANKS];
    char scheme[64];
    const char *machine = strstr(text, "\nmachine: "), *rank_line = strstr(text, "\nrank: ");
    struct ri_build build = {.host = host};
    struct ranks all;
    struct ri_schedule *s;
    int rank;

    assert_int_equal(sscanf(text, "schedule: %63s", scheme), 1);
    assert_non_null(machine);
    assert_non_null(rank_line);
    rank = option(rank_line + 1, "rank:");
    build.ranks = read_machine(machine + strlen("\nmachine: "), host);
    build.root = option(text, " root:");
    build.pieces = option(text, " pieces:");
    build.landing = option(text, " landing:");
    build.chunked = option(text, " chunked:");
    ranks_build_as(&all, find_builder(scheme), &build);
    if (option(text, " bind:") && ri_schedule_bind(all.s, all.count))
        fail_msg("%s: %s", scheme, rondo_last_error());
    assert_in_range(rank, 0, all.count - 1);
    s = all.s[rank];
    all.s[rank] = NULL;
    ranks_release(&all);
    return s;
}
