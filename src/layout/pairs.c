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

int64_t rondo_layout_pairs(rondo_layout_t layout, int rank, rondo_mask_t mask)
{
    struct ri_sight sight;
    int64_t pairs;

    if (check_layout(layout))
        return -1;
    if (rank < 0 || rank >= layout->ranks) {
        ri_error(RONDO_ERR_ARGUMENT, "rank %d is not one of the layout's %d ranks", rank, layout->ranks);
        return -1;
    }
    if (ri_sight_init(&sight, layout, layout, mask, NULL))
        return -1;
    pairs = ri_sight_query_pairs(&sight, rank);
    ri_sight_release(&sight);
    return pairs;
}
