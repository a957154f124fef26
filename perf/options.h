/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PERF_OPTIONS_H
#define PERF_OPTIONS_H

#include <stddef.h>

/* What every program of perf/ takes on its command line: the OSU letters, and ours. */
struct perf_options {
    size_t min_bytes, max_bytes; /* sizes double from min to max */
    int iterations;              /* timed per repetition; 0: by size */
    int warmup;                  /* -1: a tenth of the iterations */
    int repetitions;             /* medians are taken over them */
    int full;                    /* -f: all columns */
    int check;                   /* -c: verify as many iterations as are timed */
    int csv;
    int spin;              /* --no-yield */
    int peer;              /* --peer mpi */
    int qk_dim, v_dim;     /* --dims; 0: by size */
    int timeout_ms;        /* of every wait; 0: the library's */
    const char *json_path; /* NULL: none; borrowed from argv */
};

/* What a program says of itself in --help: name, and lines that end in a newline. */
struct perf_about {
    const char *name;
    const char *summary;
    const char *columns;
};

enum perf_parsed { PERF_RUN, PERF_ANSWERED, PERF_REFUSED };

/* PERF_ANSWERED: --help or --version was printed; PERF_REFUSED: stderr names option and value. */
enum perf_parsed perf_options_parse(struct perf_options *options, const struct perf_about *about,
                                    int argc, char **argv);

/* Timed iterations and warm-up for a size. */
int perf_iterations(const struct perf_options *options, size_t bytes);
int perf_warmup(const struct perf_options *options, size_t bytes);

#endif
