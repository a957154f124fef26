/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PERF_OPTIONS_H
#define PERF_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

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
    int peer;              /* --peer */
    int timeout_ms;        /* of every wait; 0: the library's */
    const char *json_path; /* NULL: none; borrowed from argv */
    void *own;             /* what the program's own options write */
};

/* An option that one program has beside those. */
struct perf_extra {
    const char *name;     /* without dashes; NULL ends a list */
    const char *argument; /* as --help shows it; NULL: the option has none */
    const char *help;     /* starts behind name and argument; lines after the first are indented by 18 */
    const char *wanted;   /* "a whole number, 1 or more": said when take refuses */
    int (*take)(void *own, const char *text); /* 0, or -1: refused; text NULL without an argument */
};

/* What a program says of itself in --help, lines ending in a newline, and what it takes. */
struct perf_about {
    const char *name;
    const char *summary;
    const char *columns;
    const struct perf_extra *extras; /* NULL: none */
    size_t min_bytes, max_bytes;     /* unless -m says otherwise */
    int iterations, warmup;          /* unless -i and -x say otherwise; iterations 0: both by size */
    int sizeless;                    /* it has no sizes in bytes and no iterations: no -m, -i, -x and -c */
    int alone;                       /* it has no ranks that wait for each other: no --no-yield */
    int peerless;                    /* it has nothing to compare with: no --peer */
    int repetitions;                 /* unless --alternate says otherwise; 0: 7 */
    const char *peer;                /* what --peer takes; NULL: "mpi", or nothing where it is sizeless */
    const char *peer_help;           /* of a peer that is not mpi */
};

enum perf_parsed { PERF_RUN, PERF_ANSWERED, PERF_REFUSED };

/* PERF_ANSWERED: --help or --version was printed; PERF_REFUSED: stderr names option and value. */
enum perf_parsed perf_options_parse(struct perf_options *options, void *own,
                                    const struct perf_about *about, int argc, char **argv);

/* For take: a whole number in [min, max] that ends at `stop`.  0, or -1. */
int perf_parse_number(const char *text, char stop, int64_t min, int64_t max, int64_t *value);

/* For take: QK:V, two head sizes.  0, or -1. */
int perf_parse_dims(const char *text, int *qk_dim, int *v_dim);

/* Timed iterations and warm-up for a size. */
int perf_iterations(const struct perf_options *options, size_t bytes);
int perf_warmup(const struct perf_options *options, size_t bytes);

#endif
