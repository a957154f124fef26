/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_MASKS_TYPES_H
#define TEST_MASKS_TYPES_H

#include "tests/e2e/choice.h"

extern const char *const dtype_names[]; /* ends with NULL; "f32" is not of the table */

/* Errors of types of 16 bits over more and more ranks against one: a table, or without `all` a short case, as
 * TAP from test number *number on.  Returns how many rows are wrong. */
int run_types(const struct choice *dtypes, const char *kernel, int all, int *number);

#endif
