/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is registered once for all messages that lie in it.  On what UCX does with TCP and shared
 * memory it costs nothing and brings nothing; a NIC of RDMA needs it for each message. */
#include "transport/ucx_private.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

/* Does not overlap others. */
struct ri_ucx_range {
    char *base;
    size_t bytes;
    ucp_mem_h handle;
};

/* Of the first range that ends behind `at`; they are sorted. */
static int range_index(const struct ri_ucx *self, const char *at)
{
    int low = 0, high = self->range_count;

    while (low < high) {
        int middle = (low + high) / 2;

        if (self->ranges[middle].base + self->ranges[middle].bytes <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

ucp_mem_h ri_ucx_handle(const struct ri_ucx *self, const char *base, size_t bytes)
{
    int i = range_index(self, base);

    if (i == self->range_count || base < self->ranges[i].base ||
        bytes > self->ranges[i].bytes - (size_t)(base - self->ranges[i].base))
        return NULL;
    return self->ranges[i].handle;
}

static int make_room(struct ri_ucx *self)
{
    int room = self->range_room ? 2 * self->range_room : 8;
    struct ri_ucx_range *ranges;

    if (self->range_count < self->range_room)
        return 1;
    ranges = realloc(self->ranges, (size_t)room * sizeof(*ranges));
    if (!ranges)
        return 0;
    self->ranges = ranges;
    self->range_room = room;
    return 1;
}

void ri_ucx_map(struct ri_ucx *self, void *base, size_t bytes)
{
    ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
        .address = base,
        .length = bytes,
    };
    int i = range_index(self, base);
    ucs_status_t status;
    ucp_mem_h handle;

    if (!bytes || !make_room(self) ||
        (i < self->range_count && self->ranges[i].base < (char *)base + bytes))
        return;
    status = ucp_mem_map(self->context, &params, &handle);
    if (status != UCS_OK) {
        ri_log(RI_LOG_INFO, "transport", "UCX does not register %zu bytes, and will for each message: %s",
               bytes, ucs_status_string(status));
        return;
    }
    memmove(&self->ranges[i + 1], &self->ranges[i], (size_t)(self->range_count - i) * sizeof(*self->ranges));
    self->ranges[i] = (struct ri_ucx_range){ base, bytes, handle };
    self->range_count++;
}

void ri_ucx_unmap(struct ri_ucx *self, const void *base)
{
    int i = range_index(self, base);

    if (i == self->range_count || self->ranges[i].base != (const char *)base)
        return;
    ucp_mem_unmap(self->context, self->ranges[i].handle);
    self->range_count--;
    memmove(&self->ranges[i], &self->ranges[i + 1], (size_t)(self->range_count - i) * sizeof(*self->ranges));
}

void ri_ucx_unmap_all(struct ri_ucx *self)
{
    while (self->range_count)
        ri_ucx_unmap(self, self->ranges[self->range_count - 1].base);
    free(self->ranges);
    self->ranges = NULL;
    self->range_room = 0;
}
