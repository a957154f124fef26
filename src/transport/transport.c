/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/transport.h"

#include <stdio.h>
#include <string.h>

#include "build-config.h"

static const struct ri_transport_ops *const transports[] = {
    &ri_transport_self,
    &ri_transport_shm,
#ifdef HAVE_UCX
    &ri_transport_ucx,
    &ri_transport_route,
#endif
};

/* All that may be left out, and what puts it in. */
static const struct {
    const char *name, *remedy;
} optional[] = {
    { "ucx", "build with UCX (configure --with-ucx)" },
    { "shm+ucx", "build with UCX (configure --with-ucx)" },
};

static const size_t transport_count = sizeof(transports) / sizeof(transports[0]);

const struct ri_transport_ops *ri_transport_find(const char *name)
{
    for (size_t i = 0; i < transport_count; i++)
        if (strcmp(transports[i]->name, name) == 0)
            return transports[i];
    return NULL;
}

const char *ri_transport_remedy(const char *name)
{
    for (size_t i = 0; i < sizeof(optional) / sizeof(optional[0]); i++)
        if (strcmp(optional[i].name, name) == 0)
            return optional[i].remedy;
    return NULL;
}

const char *ri_transport_names(void)
{
    static _Thread_local char names[64];
    size_t used = 0;

    for (size_t i = 0; i < transport_count; i++)
        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i ? ", " : "",
                                 transports[i]->name);
    return names;
}
