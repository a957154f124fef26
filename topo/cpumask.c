/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/cpumask.h"
#include "topo/cpus.h"

enum { WORDS = RI_CPUS_MOST / 32 };

/* Words are as many as commas tell, the highest first. */
static int read_mask(const char *mask, struct ri_cpus *cpus)
{
    int word = 0;

    memset(cpus, 0, sizeof(*cpus));
    for (const char *c = mask; *c; c++)
        word += *c == ',';
    for (; word >= 0; word--) {
        size_t digits = strspn(mask, "0123456789abcdefABCDEF");
        unsigned long bits = strtoul(mask, NULL, 16);

        if (digits == 0 || digits > 8 || mask[digits] != (word ? ',' : 0) || (word >= WORDS && bits))
            return -1;
        for (int bit = 0; bit < 32 && word < WORDS; bit++)
            if (bits >> bit & 1)
                ri_cpus_set(cpus, 32 * word + bit);
        mask += digits + 1;
    }
    return 0;
}

int ri_cpumask_to_list(const char *mask, char *list, size_t bytes)
{
    struct ri_cpus cpus;

    list[0] = 0;
    if (read_mask(mask, &cpus))
        return -1;
    ri_cpus_print(&cpus, list, bytes);
    return ri_cpus_count(&cpus);
}

int ri_cpumask_from_list(const char *list, char *mask, size_t bytes)
{
    struct ri_cpus cpus;
    int top = WORDS - 1;

    mask[0] = 0;
    if (ri_cpus_parse(list, &cpus))
        return -1;
    while (top > 0 && !(uint32_t)(cpus.words[top / 2] >> 32 * (top % 2)))
        top--;
    for (int i = top; i >= 0 && 9 * ((size_t)top + 1) <= bytes; i--)
        mask += sprintf(mask, "%08lx%s", (unsigned long)(uint32_t)(cpus.words[i / 2] >> 32 * (i % 2)), i ? "," : "");
    return ri_cpus_count(&cpus);
}
