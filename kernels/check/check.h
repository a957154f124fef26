/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_KERNEL_CHECK_CHECK_H
#define RI_KERNEL_CHECK_CHECK_H

#include <rondo/kernel.h>
#include <rondo/status.h>

/* What rondo_kernel_check is made of.  All that happens in a case returns 0, RI_PROBE_SKIPPED,
 * RONDO_ERR_VERIFY (the kernel is at fault) or another RONDO_ERR_* (the check itself cannot go on), with a
 * text in the check. */
enum { RI_PROBE_SKIPPED = 1 };

struct ri_probe_block; /* memory of a case */

struct ri_probe {
    const rondo_kernel_t *kernel;
    double tolerance; /* of fp32 sums of unit-variance numbers */
    uint64_t seed;
    int large;
    const char *name; /* of the case */
    int backward;     /* which pass of a case that has both */
    struct ri_probe_block *blocks;
    char text[1024];
};

/* Sets the text, which begins with the case's name, and returns `status`. */
int ri_probe_say(struct ri_probe *c, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Zeroed memory, 64-byte aligned, until ri_probe_release; NULL: none is left, and the text says so. */
void *ri_probe_alloc(struct ri_probe *c, size_t bytes);
/* Address space that takes memory only where it is touched; NULL: none is to be had. */
void *ri_probe_map(struct ri_probe *c, size_t bytes);
/* Frees what came after `mark`, which is what c->blocks was: after a call, and between the problems of a case. */
void ri_probe_release(struct ri_probe *c, struct ri_probe_block *mark);

/* Which calls a case makes; one with both runs twice, and counts as two. */
enum ri_probe_pass { RI_PROBE_FORWARD = 1, RI_PROBE_BACKWARD = 2, RI_PROBE_BOTH = 3 };

struct ri_probe_case {
    const char *name;
    int (*run)(struct ri_probe *c, const void *data);
    const void *data;
    enum ri_probe_pass pass;
    unsigned needs; /* RONDO_KERNEL_* of what it can do */
    int large;      /* takes memory and time */
};

/* One table a file; each ends with a case without a name. */
extern const struct ri_probe_case ri_probe_tiles[], ri_probe_shapes[], ri_probe_sums[], ri_probe_numbers[],
    ri_probe_properties[], ri_probe_options[];

#endif
