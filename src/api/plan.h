/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_API_PLAN_H
#define RI_API_PLAN_H

#include "api/request.h"
#include "plan/plan.h"

/* What the handle of a plan points at. */
struct rondo_plan {
    struct rondo_comm *comm;
    struct ri_plan *plan;
    struct rondo_request *requests; /* [plan->max_in_flight] */
};

#endif
