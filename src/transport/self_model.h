/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_SELF_MODEL_H
#define RI_SELF_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "transport/transport.h"

/* When a message over a modelled link has arrived.  Pure; times in nanoseconds of ri_now_ns. */

struct ri_self_lane {
    int64_t bandwidth; /* bytes/s of a link; 0: without end */
    int64_t latency_us;
};

/* All zero: nothing is modelled, messages arrive when they are copied. */
struct ri_self_model {
    struct ri_self_lane lanes[RI_TRANSPORT_LANES];
    int64_t seed;   /* of the random delays; 0: none */
    int shared_nic; /* ranks of one host have one link each way on the host lane */
};

/* One way of a rank on one lane: busy until the messages it took have passed. */
struct ri_self_link {
    int64_t free_ns;
};

struct ri_self_model ri_self_model(const struct ri_config *config);

/* Random delay of one message, 0 .. 5 ms, fixed by its arguments; 0 for seed 0. */
int64_t ri_self_delay_ns(int64_t seed, int source, uint64_t tag);

/* When a message that is ready at now_ns finds both idle. */
int64_t ri_self_start_ns(const struct ri_self_link *out, const struct ri_self_link *in, int64_t now_ns);

/* Puts a message on the sender's way out and the receiver's way in, behind what is on both, and says
 * when it has passed: both are taken for the latency and the time of its bytes. */
int64_t ri_self_due_ns(struct ri_self_link *out, struct ri_self_link *in,
                       const struct ri_self_lane *lane, int64_t now_ns, size_t bytes);

#endif
