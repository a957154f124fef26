/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/table.h"

#include <stdio.h>
#include <string.h>

static const rondo_kernel_t *const kernels[] = {
    &ri_kernel_flash,
    &ri_kernel_reference,
};

const rondo_kernel_t *rondo_kernel_find(const char *name)
{
    if (!name)
        return NULL;
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        if (strcmp(kernels[i]->name, name) == 0)
            return kernels[i];
    return ri_kernel_flash_with(name);
}

const char *ri_kernel_names(char *text, size_t bytes)
{
    const rondo_kernel_t *kernel;
    int used = snprintf(text, bytes, "%s", kernels[0]->name);

    for (int i = 0; kernel = ri_kernel_flash_at(i), kernel && (size_t)used < bytes; i++)
        used += snprintf(text + used, bytes - (size_t)used, ", %s", kernel->name);
    for (size_t i = 1; i < sizeof kernels / sizeof kernels[0] && (size_t)used < bytes; i++)
        used += snprintf(text + used, bytes - (size_t)used, " or %s", kernels[i]->name);
    return text;
}
