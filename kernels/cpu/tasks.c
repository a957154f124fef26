/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/tasks.h"

#include <limits.h>

#include "base/status.h"

int ri_tasks_run(const rondo_kernel_shape_t *shape, void (*task)(void *argument, int index, int thread),
                 void *argument)
{
    int count;

    if (shape->batch > INT_MAX / shape->kv_heads)
        return ri_error(RONDO_ERR_ARGUMENT, "kernel: batch %lld of %d kv_heads are more than %d tasks",
                        (long long)shape->batch, shape->kv_heads, INT_MAX);
    count = (int)shape->batch * shape->kv_heads;
    if (shape->run && shape->threads > 1) {
        shape->run(shape->runner, task, argument, count);
        return 0;
    }
    for (int i = 0; i < count; i++)
        task(argument, i, 0);
    return 0;
}
