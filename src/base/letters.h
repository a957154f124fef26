/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_LETTERS_H
#define RI_LETTERS_H

#include <stddef.h>

/* Letters to insert, delete or replace to turn a[0..length) into b, small ones or capitals alike; only the
 * first 63 of either count. */
int ri_letters_apart(const char *a, size_t length, const char *b);

#endif
