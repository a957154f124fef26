/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_CPUMASK_H
#define RI_CPUMASK_H

#include <stddef.h>

/* Sets of processors as the kernel writes them: lists "0-31,64-95", and masks "ffffffff,00000000,ffffffff" of 32
 * each, the highest first.  Up to 8192 processors. */

/* How many there are, or -1: that is no mask.  list is "" where it would be too long. */
int ri_cpumask_to_list(const char *mask, char *list, size_t bytes);
/* As many; mask is "" where it would be too long or list is none. */
int ri_cpumask_from_list(const char *list, char *mask, size_t bytes);

#endif
