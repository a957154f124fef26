/* SPDX-License-Identifier: Apache-2.0 */
/* How much work a mask gives to each rank of a layout. */
#include <inttypes.h>

#include "base/minmax.h"
#include "base/status.h"
#include "layout/sight.h"

static int check_layout(const struct rondo_layout *layout)
{
    if (!layout)
        return ri_error(RONDO_ERR_ARGUMENT, "layout is NULL");
    if (layout->tokens > INT32_MAX)
        return ri_error(RONDO_ERR_ARGUMENT,
                        "pairs of %" PRId64 " tokens are not counted: %" PRId32 " are the most",
                        layout->tokens, INT32_MAX);
    return RONDO_OK;
}

int64_t rondo_layout_pairs(rondo_layout_t layout, int rank, rondo_mask_t mask, const rondo_mask_params_t *params)
{
    struct ri_sight sight;
    int64_t pairs;

    if (check_layout(layout))
        return -1;
    if (rank < 0 || rank >= layout->ranks) {
        ri_error(RONDO_ERR_ARGUMENT, "rank %d is not one of the layout's %d ranks", rank, layout->ranks);
        return -1;
    }
    if (ri_sight_init(&sight, layout, layout, mask, params))
        return -1;
    pairs = ri_sight_query_pairs(&sight, rank);
    ri_sight_release(&sight);
    return pairs;
}

rondo_status_t rondo_layout_balance(rondo_layout_t layout, rondo_mask_t mask, const rondo_mask_params_t *params,
                                    double *ratio)
{
    struct ri_sight sight;
    int64_t most = 0, all = 0;
    int err = check_layout(layout);

    if (err)
        return err;
    if (!ratio)
        return ri_error(RONDO_ERR_ARGUMENT, "ratio is NULL: it receives the largest work over the mean");
    err = ri_sight_init(&sight, layout, layout, mask, params);
    if (err)
        return err;
    for (int r = 0; r < layout->ranks; r++) {
        int64_t pairs = ri_sight_query_pairs(&sight, r);

        most = ri_max64(most, pairs);
        all += pairs;
    }
    ri_sight_release(&sight);
    *ratio = all ? (double)most * layout->ranks / (double)all : 1;
    return RONDO_OK;
}
