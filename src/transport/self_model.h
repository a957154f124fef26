/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_SELF_MODEL_H
#define RI_SELF_MODEL_H

#include <stddef.h>
#include <stdint.h>

struct ri_config;

/* When a message over a modelled link has arrived.  Pure; times in nanoseconds of ri_now_ns. */

/* All zero: nothing is modelled, messages arrive when they are copied. */
struct ri_self_model {
    int64_t bandwidth; /* bytes/s of a link; 0: without end */
    int64_t latency_us;
    int64_t seed; /* of the random delays; 0: none */
};

/* The outgoing link of one rank and lane: busy until the messages it took have left. */
struct ri_self_link {
    int64_t free_ns;
};

struct ri_self_model ri_self_model(const struct ri_config *config);

/* Random delay of one message, 0 .. 5 ms, fixed by its arguments; 0 for seed 0. */
int64_t ri_self_delay_ns(int64_t seed, int source, uint64_t tag);

/* Puts a message on the link, behind what is on it, and says when the message has arrived. */
int64_t ri_self_due_ns(struct ri_self_link *link, const struct ri_self_model *model, int64_t now_ns,
                       size_t bytes, int source, uint64_t tag);

#endif
