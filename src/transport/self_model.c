/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/self_model.h"

#include "base/config.h"

static const int64_t delay_max_ns = 5000000;

struct ri_self_model ri_self_model(const struct ri_config *config)
{
    struct ri_self_model model = {
        .bandwidth = config->self_bandwidth,
        .latency_us = config->self_latency_us,
        .seed = config->self_seed,
    };

    return model;
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

int64_t ri_self_due_ns(struct ri_self_link *link, const struct ri_self_model *model, int64_t now_ns,
                       size_t bytes, int source, uint64_t tag)
{
    int64_t start_ns = link->free_ns > now_ns ? link->free_ns : now_ns;

    if (model->bandwidth > 0)
        start_ns += (int64_t)((double)bytes * 1e9 / (double)model->bandwidth);
    link->free_ns = start_ns;
    return start_ns + model->latency_us * 1000 +
           ri_self_delay_ns(model->seed, source, tag);
}
