/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/cpumask.h"

enum { WORDS = 256, CPUS = 32 * WORDS };

struct set {
    uint32_t words[WORDS];
};

static int has(const struct set *set, int cpu)
{
    return cpu < CPUS && set->words[cpu / 32] >> cpu % 32 & 1;
}

static int count(const struct set *set)
{
    int n = 0;

    for (int cpu = 0; cpu < CPUS; cpu++)
        n += has(set, cpu);
    return n;
}

/* Shifts in word by word, as the highest comes first. */
static int read_mask(const char *mask, struct set *set)
{
    memset(set, 0, sizeof(*set));
    for (;;) {
        size_t digits = strspn(mask, "0123456789abcdefABCDEF");

        if (digits == 0 || digits > 8 || (mask[digits] && mask[digits] != ',') || set->words[WORDS - 1])
            return -1;
        memmove(set->words + 1, set->words, (WORDS - 1) * sizeof(set->words[0]));
        set->words[0] = (uint32_t)strtoul(mask, NULL, 16);
        if (!mask[digits])
            return 0;
        mask += digits + 1;
    }
}

static int read_list(const char *list, struct set *set)
{
    memset(set, 0, sizeof(*set));
    while (*list) {
        char *end;
        long first = strtol(list, &end, 10), last = first;

        if (end == list)
            return -1;
        if (*end == '-') {
            list = end + 1;
            last = strtol(list, &end, 10);
        }
        if (end == list || first < 0 || last < first || last >= CPUS || (*end && *end != ','))
            return -1;
        for (long cpu = first; cpu <= last; cpu++)
            set->words[cpu / 32] |= UINT32_C(1) << cpu % 32;
        list = end + (*end == ',');
    }
    return 0;
}

int ri_cpumask_to_list(const char *mask, char *list, size_t bytes)
{
    struct set set;
    size_t length = 0;

    list[0] = 0;
    if (read_mask(mask, &set))
        return -1;
    for (int cpu = 0; cpu < CPUS; cpu++) {
        int last = cpu;

        if (!has(&set, cpu))
            continue;
        while (has(&set, last + 1))
            last++;
        length += (size_t)snprintf(list + length, bytes - length, last > cpu ? "%s%d-%d" : "%s%d", length ? "," : "",
                                   cpu, last);
        if (length >= bytes) {
            list[0] = 0;
            break;
        }
        cpu = last;
    }
    return count(&set);
}

int ri_cpumask_from_list(const char *list, char *mask, size_t bytes)
{
    struct set set;
    int top = WORDS - 1;

    mask[0] = 0;
    if (read_list(list, &set))
        return -1;
    while (top > 0 && !set.words[top])
        top--;
    if (9 * ((size_t)top + 1) > bytes)
        return count(&set);
    for (int i = top; i >= 0; i--)
        mask += sprintf(mask, "%08lx%s", (unsigned long)set.words[i], i ? "," : "");
    return count(&set);
}
