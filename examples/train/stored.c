/* SPDX-License-Identifier: Apache-2.0 */
#include "stored.h"

#include <string.h>

size_t stored_bytes(rondo_dtype_t dtype)
{
    return dtype == RONDO_BF16 ? sizeof(uint16_t) : sizeof(float);
}

/* bf16 is the upper half of a float.  What is not a number stays so: its lower half may hold all that says
 * it, and rounding could carry it into the sign. */
static uint16_t narrow(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    if (x != x)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float widen(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

float *stored_floats(rondo_dtype_t dtype, void *stored, float *work)
{
    return dtype == RONDO_BF16 ? work : stored;
}

void stored_write(rondo_dtype_t dtype, void *stored, const float *work, int64_t count)
{
    uint16_t *halves = stored;

    if (dtype != RONDO_BF16)
        return;
    for (int64_t i = 0; i < count; i++)
        halves[i] = narrow(work[i]);
}

float *stored_read(rondo_dtype_t dtype, void *stored, float *work, int64_t count)
{
    const uint16_t *halves = stored;

    if (dtype != RONDO_BF16)
        return stored;
    for (int64_t i = 0; i < count; i++)
        work[i] = widen(halves[i]);
    return work;
}
