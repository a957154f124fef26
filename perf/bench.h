/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PERF_BENCH_H
#define PERF_BENCH_H

#include <stddef.h>

#include <rondo/rondo.h>

#include "options.h"
#include "print.h"

/* What all programs of perf/ do in the same way: options, ranks that come together, a header, a row
 * for each size, an exit status.  A program is what is left of it. */

struct perf_bench {
    const struct perf_program *program;
    struct perf_options options;
    struct perf_report report; /* rank 0's */
    int mpi;                   /* started by MPI: it carries the id, and is finished at the end */
    rondo_comm_t comm;
    rondo_comm_info_t info;
    double wrong; /* faults found, over all ranks and sizes; equal on all ranks */
};

struct perf_program {
    struct perf_about about;
    void *own;     /* of the program: what its own options write */
    int min_ranks; /* fewer are refused, and `fewer` says why: "1 rank has no hop" */
    const char *fewer;
    const char *peer; /* what --peer mpi calls: "MPI_Sendrecv" */

    /* Before ranks come together: 0, or 1 with the reason on stderr.  NULL: all options are well. */
    int (*refuse)(const struct perf_options *options);
    const struct perf_column *table; /* NULL: `columns` chooses one */
    const struct perf_column *(*columns)(const struct perf_options *options);
    /* Rank 0's header lines beside those of all programs.  NULL: none. */
    void (*header)(struct perf_bench *bench);
    /* Collective.  Verifies and times one size, and gives the report its rows on rank 0; `first`: of
     * the sizes.  A RONDO_ERR_*, said by perf_failed, ends the program. */
    int (*size)(struct perf_bench *bench, size_t bytes, int first);
};

/* The whole program: returns its exit status. */
int perf_main(const struct perf_program *program, int argc, char **argv);

/* Says on stderr what failed on this rank, if anything did, and passes the status on. */
int perf_failed(const struct perf_bench *bench, const char *what, rondo_status_t status);

/* Header lines on rank 0: how the plan's messages move, and with -f all that it says of itself. */
void perf_print_plan(struct perf_bench *bench, rondo_plan_t plan);

/* Cores that this process may use. */
int perf_allowed_cores(void);

#endif
