/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RONDO_TOOLS_PLAN_PRINT_H
#define RONDO_TOOLS_PLAN_PRINT_H

#include "schedule/candidates.h"
#include "tools/plan_options.h"

/* One pass with its candidates, cheapest first. */
struct plan_pass {
    const char *name; /* "forward", "backward" */
    struct ri_cost cost;
    struct ri_candidate list[RI_MAX_CANDIDATES];
    int count;
    int proved[RI_MAX_CANDIDATES]; /* with --check */
};

void plan_print_table(const struct plan_options *options, const struct plan_pass *passes,
                      int count);
void plan_print_json(const struct plan_options *options, const struct plan_pass *passes, int count);

#endif
