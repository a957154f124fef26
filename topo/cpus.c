/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "topo/cpus.h"

int ri_cpus_has(const struct ri_cpus *cpus, int cpu)
{
    return cpus->words[cpu / 64] >> (cpu % 64) & 1;
}

void ri_cpus_set(struct ri_cpus *cpus, int cpu)
{
    cpus->words[cpu / 64] |= UINT64_C(1) << (cpu % 64);
}

int ri_cpus_next(const struct ri_cpus *cpus, int from)
{
    for (int cpu = from; cpu < RI_CPUS_MOST; cpu++)
        if (ri_cpus_has(cpus, cpu))
            return cpu;
    return -1;
}

int ri_cpus_count(const struct ri_cpus *cpus)
{
    int count = 0;

    for (int i = 0; i < RI_CPUS_MOST / 64; i++)
        count += __builtin_popcountll(cpus->words[i]);
    return count;
}

int ri_cpus_overlap(const struct ri_cpus *a, const struct ri_cpus *b)
{
    for (int i = 0; i < RI_CPUS_MOST / 64; i++)
        if (a->words[i] & b->words[i])
            return 1;
    return 0;
}

void ri_cpus_add(struct ri_cpus *a, const struct ri_cpus *b)
{
    for (int i = 0; i < RI_CPUS_MOST / 64; i++)
        a->words[i] |= b->words[i];
}

/* A number below RI_CPUS_MOST, and what comes after it; NULL: there is none. */
static const char *take_number(const char *text, int *number)
{
    const char *at = text;

    for (*number = 0; *at >= '0' && *at <= '9' && *number < RI_CPUS_MOST; at++)
        *number = *number * 10 + *at - '0';
    return at == text || *number >= RI_CPUS_MOST ? NULL : at;
}

int ri_cpus_parse(const char *text, struct ri_cpus *cpus)
{
    memset(cpus, 0, sizeof(*cpus));
    while (*text) {
        int first, last;

        text = take_number(text, &first);
        if (!text)
            return -1;
        last = first;
        if (*text == '-' && !(text = take_number(text + 1, &last)))
            return -1;
        if (last < first || (*text && *text != ','))
            return -1;
        for (int cpu = first; cpu <= last; cpu++)
            ri_cpus_set(cpus, cpu);
        text += *text == ',';
    }
    return 0;
}

void ri_cpus_print(const struct ri_cpus *cpus, char *text, size_t bytes)
{
    size_t used = 0;

    text[0] = 0;
    for (int first = ri_cpus_next(cpus, 0); first >= 0;) {
        int last = first;

        while (last + 1 < RI_CPUS_MOST && ri_cpus_has(cpus, last + 1))
            last++;
        used += (size_t)(last > first ? snprintf(text + used, bytes - used, "%s%d-%d", used ? "," : "", first, last)
                                      : snprintf(text + used, bytes - used, "%s%d", used ? "," : "", first));
        if (used >= bytes) {
            text[0] = 0;
            return;
        }
        first = ri_cpus_next(cpus, last + 1);
    }
}
