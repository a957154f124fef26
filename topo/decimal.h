/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_DECIMAL_H
#define RI_DECIMAL_H

#include <stdint.h>

/* Numbers of texts that travel between machines: with a point, whatever the locale of the process says. */

enum { RI_DECIMAL_ROOM = 32 };

/* The shortest text that reads back as the same number, bit for bit.  Of finite numbers. */
void ri_decimal_print(double value, char text[RI_DECIMAL_ROOM]);
/* All of text as a finite number, "12.5" or "1e-3", or as a whole one within low and high.  0, or -1. */
int ri_decimal_read(const char *text, double *value);
int ri_decimal_read_whole(const char *text, int64_t low, int64_t high, int64_t *value);

#endif
