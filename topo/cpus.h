/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_CPUS_H
#define RI_CPUS_H

#include <stddef.h>
#include <stdint.h>

/* A set of processors, as Linux writes it: "0-31,64-95". */

enum { RI_CPUS_MOST = 8192 };

struct ri_cpus {
    uint64_t words[RI_CPUS_MOST / 64];
};

/* 0, or -1 where the text is no list or has numbers from RI_CPUS_MOST on; "" is the empty set. */
int ri_cpus_parse(const char *text, struct ri_cpus *cpus);
/* "" where the list does not fit: half a list would be a wrong one. */
void ri_cpus_print(const struct ri_cpus *cpus, char *text, size_t bytes);
int ri_cpus_count(const struct ri_cpus *cpus);
int ri_cpus_has(const struct ri_cpus *cpus, int cpu);
void ri_cpus_set(struct ri_cpus *cpus, int cpu);
/* The lowest from `from` on; -1: none. */
int ri_cpus_next(const struct ri_cpus *cpus, int from);
int ri_cpus_overlap(const struct ri_cpus *a, const struct ri_cpus *b);
/* Adds those of b to a. */
void ri_cpus_add(struct ri_cpus *a, const struct ri_cpus *b);

#endif
