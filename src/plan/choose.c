/* SPDX-License-Identifier: Apache-2.0 */
/* Names of schemes and the builders behind them. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "plan/plan.h"

struct scheme {
    const char *name;
    ri_builder *build; /* NULL: known, but not built */
};

/* The first one is what "auto" takes. */
static const struct scheme forwards[] = {
    { "ring", ri_build_ring_forward },
    { "two-level", NULL },
    { "all-to-all", NULL },
    { "hybrid", NULL },
    { NULL, NULL },
};

static const struct scheme backwards[] = {
    { "kv-grad", ri_build_ring_kv_grad },
    { "q-grad", NULL },
    { NULL, NULL },
};

/* "ring, two-level": those that are built, or all. */
static void list_names(const struct scheme *schemes, char *text, size_t bytes)
{
    size_t used = 0;

    text[0] = '\0';
    for (const struct scheme *s = schemes; s->name; s++)
        if (s->build && used < bytes)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", used ? ", " : "", s->name);
}

static int find(const char *option, const struct scheme *schemes, const char *name,
                ri_builder **build, const char **found, int *id)
{
    char built[128];

    if (!name || strcmp(name, "auto") == 0)
        name = schemes[0].name;
    list_names(schemes, built, sizeof(built));
    for (int i = 0; schemes[i].name; i++) {
        if (strcmp(schemes[i].name, name) != 0)
            continue;
        if (!schemes[i].build)
            return ri_error(RONDO_ERR_UNSUPPORTED, "%s \"%s\" is not built yet; use auto or %s",
                            option, name, built);
        *build = schemes[i].build;
        *found = schemes[i].name;
        *id = i + 1;
        return 0;
    }
    return ri_error(RONDO_ERR_ARGUMENT, "%s \"%s\" is not known; use auto or %s", option, name, built);
}

int ri_plan_choose(const char *schedule, const char *backward, struct ri_choice *choice)
{
    int err = find("schedule", forwards, schedule, &choice->build[RI_FORWARD],
                   &choice->name[RI_FORWARD], &choice->id[RI_FORWARD]);

    if (err)
        return err;
    if (backward && strcmp(backward, "none") == 0) {
        choice->build[RI_BACKWARD] = NULL;
        choice->name[RI_BACKWARD] = "none";
        choice->id[RI_BACKWARD] = 0;
        return 0;
    }
    return find("backward", backwards, backward, &choice->build[RI_BACKWARD],
                &choice->name[RI_BACKWARD], &choice->id[RI_BACKWARD]);
}

int ri_plan_hash(const struct ri_choice *choice, int ranks, const int32_t *host, int64_t *hash)
{
    uint64_t bits = 0;

    for (int i = 0; i < RI_PASSES; i++) {
        struct ri_schedule *schedule = NULL;
        struct ri_build build = { .ranks = ranks, .host = host };
        int err = choice->build[i] ? choice->build[i](&schedule, &build) : 0;

        if (err)
            return err;
        bits = bits * 0x9e3779b97f4a7c15u + (schedule ? ri_schedule_hash(schedule) : 0);
        ri_schedule_destroy(schedule);
    }
    *hash = (int64_t)bits;
    return 0;
}
