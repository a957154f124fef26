/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_WISH_H
#define RI_WISH_H

#include <rondo/attention.h>

#include "comm/comm.h"
#include "plan/plan.h"

/* What a plan is to be made of, as checked, with defaults filled in and the scheme chosen. */
struct ri_wish {
    rondo_attention_desc_t desc;
    struct ri_choice choice;
    const rondo_kernel_t *kernel; /* NULL: refused before it was found */
    int max_in_flight;
    int threads;               /* of the kernel; ranks may differ */
    int landing_slots, pieces; /* as the caller gave them */
    const char *host_transfers; /* likewise, borrowed; NULL: as "auto" */
    int64_t hash;              /* of the schedules */
    struct ri_sight sight;     /* of the caller's layouts; ri_plan_create takes it over */
    double pairs;              /* that are visible, over all ranks */
};

#define RI_WISH_INIT { .desc = RONDO_ATTENTION_DESC_INIT }

/* Local.  Layouts are borrowed until the release, which follows after a failure too. */
int ri_wish_check(rondo_comm_t comm, rondo_layout_t layout, const rondo_attention_desc_t *desc,
                  const rondo_plan_options_t *options, struct ri_wish *wish);
void ri_wish_release(struct ri_wish *wish);

/* Compares everything that ranks must have in common; status: what this rank's own check said.  Of what it
 * refused nothing is read.  Collective. */
int ri_wish_agree(rondo_comm_t comm, const struct ri_wish *wish, int status);

#endif
