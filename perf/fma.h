/* SPDX-License-Identifier: Apache-2.0 */
/* Chains of multiply-adds, once for each set of instructions: included by fma.c, behind
 *   FMA_NAME      of the function
 *   FMA_TARGET    function attributes that switch the instruction set on
 *   FMA_BYTES     of a vector
 * Twelve chains, a factor and a term are all that sixteen registers hold, and more than the latency of an
 * operation times how many are begun in a cycle.  Each chain is x = x / 2 + 1 / 2, which goes to 1. */

FMA_TARGET static int FMA_NAME(int steps)
{
    typedef float vec __attribute__((vector_size(FMA_BYTES)));
    vec half = (vec){0} + 0.5f, end[12];
    vec x0 = half, x1 = half + 1, x2 = half + 2, x3 = half + 3, x4 = half + 4, x5 = half + 5;
    vec x6 = -half, x7 = -half - 1, x8 = -half - 2, x9 = -half - 3, x10 = -half - 4, x11 = -half - 5;
    int right = 1;

    for (int s = 0; s < steps; s++) {
        x0 = x0 * half + half, x1 = x1 * half + half, x2 = x2 * half + half;
        x3 = x3 * half + half, x4 = x4 * half + half, x5 = x5 * half + half;
        x6 = x6 * half + half, x7 = x7 * half + half, x8 = x8 * half + half;
        x9 = x9 * half + half, x10 = x10 * half + half, x11 = x11 * half + half;
    }
    end[0] = x0, end[1] = x1, end[2] = x2, end[3] = x3, end[4] = x4, end[5] = x5;
    end[6] = x6, end[7] = x7, end[8] = x8, end[9] = x9, end[10] = x10, end[11] = x11;
    for (int i = 0; i < 12; i++)
        for (size_t k = 0; k < FMA_BYTES / sizeof(float); k++)
            right &= end[i][k] > 0.999f && end[i][k] < 1.001f;
    return right;
}

#undef FMA_NAME
#undef FMA_TARGET
#undef FMA_BYTES
