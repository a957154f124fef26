/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/self_model.h"

#include "base/config.h"
#include "base/minmax.h"

static const int64_t delay_max_ns = 5000000;

struct ri_self_model ri_self_model(const struct ri_config *config)
{
    struct ri_self_lane near = { config->self_bandwidth, config->self_latency_us };
    struct ri_self_lane far = { config->self_host_bandwidth, config->self_host_latency_us };

    if (far.bandwidth == 0)
        far.bandwidth = near.bandwidth;
    if (far.latency_us == 0)
        far.latency_us = near.latency_us;
    return (struct ri_self_model){ .lanes = { near, far }, .seed = config->self_seed,
                                   .shared_nic = (int)config->self_shared_nic };
}

/* Spreads every bit of `value` over the whole word (two rounds of multiply and shift). */
static uint64_t scatter(uint64_t value)
{
    value = (value ^ (value >> 32)) * 0x9e3779b97f4a7c15u;
    value = (value ^ (value >> 29)) * 0xd1342543de82ef95u;
    return value ^ (value >> 32);
}

int64_t ri_self_delay_ns(int64_t seed, int source, uint64_t tag)
{
    uint64_t key = (uint64_t)seed;

    if (seed == 0)
        return 0;
    key = scatter(key + 1);
    key = scatter(key + (uint64_t)source + 1);
    key = scatter(key + tag + 1);
    return (int64_t)(key % (uint64_t)(delay_max_ns + 1));
}

int64_t ri_self_start_ns(const struct ri_self_link *out, const struct ri_self_link *in, int64_t now_ns)
{
    return ri_max64(now_ns, ri_max64(out->free_ns, in->free_ns));
}

int64_t ri_self_due_ns(struct ri_self_link *out, struct ri_self_link *in,
                       const struct ri_self_lane *lane, int64_t now_ns, size_t bytes)
{
    int64_t due_ns = ri_self_start_ns(out, in, now_ns) + lane->latency_us * 1000;

    if (lane->bandwidth > 0)
        due_ns += (int64_t)((double)bytes * 1e9 / (double)lane->bandwidth);
    out->free_ns = in->free_ns = due_ns;
    return due_ns;
}
