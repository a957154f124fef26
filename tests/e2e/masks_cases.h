/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_MASKS_CASES_H
#define TEST_MASKS_CASES_H

#include "tests/e2e/masks.h"

/* Every mask, documents, keys of another length, and what changes scores. */
extern const struct mask_case mask_cases[];
extern const int mask_case_count;

#endif
