/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/table.h"

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
