/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dropout.h"

#include <rondo/kernel.h>

int rondo_dropout_keeps(uint64_t seed, int64_t batch, int q_head, int64_t q_position, int64_t k_position,
                        float dropout)
{
    uint64_t stream = ri_dropout_stream(seed, batch, q_head);

    return ri_dropout_word(stream, q_position, k_position) >= ri_dropout_threshold(dropout);
}
