/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RONDO_TEST_SHORT_H
#define RONDO_TEST_SHORT_H

#include <stdlib.h>

/* Is RONDO_TEST_SHORT set?  Then programs that compute much run fewer cases: make check-tsan asks for
 * it, since its programs take ten times as long. */
static inline int test_is_short(void)
{
    return getenv("RONDO_TEST_SHORT") != NULL;
}

#endif
