/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_STATUS_H
#define RI_STATUS_H

#include <rondo/status.h>

/* Records the text that rondo_last_error() gives this thread and returns `status`, so that a fault is
 * reported where it is detected: `return ri_error(RONDO_ERR_ARGUMENT, "rank %d ...", rank);`.
 * Texts name the argument, its value and what to do next. */
int ri_error(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The words for an errno, positive or negative, with what to do where that is known: for no descriptors, raise
 * the limit.  Valid until the next call on this thread; errno stays. */
const char *ri_errno_text(int fault);

#ifdef RI_ANALYZER
/* What no analysis of one file can know: a fault is never 0. */
#define ri_error(...)                                                                              \
    ({                                                                                             \
        int ri_fault = ri_error(__VA_ARGS__);                                                      \
                                                                                                   \
        if (ri_fault >= 0)                                                                         \
            __builtin_unreachable();                                                               \
        ri_fault;                                                                                  \
    })
#endif

#endif
