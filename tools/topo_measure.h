/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RONDO_TOOLS_TOPO_MEASURE_H
#define RONDO_TOOLS_TOPO_MEASURE_H

#include <stdint.h>
#include <stdio.h>

#include <rondo/comm.h>

#include "topo/topo.h"

/* rondo-topo measure: what messages between every two ranks really cost, beside what the topology says. */

struct measure_options {
    double seconds;     /* all pairs together, about */
    double least_share; /* of the expected bandwidth; below it a pair falls short */
    int together;       /* the pairs of a round at once; 0: one pair at a time */
    int json;
    const char *record; /* file; NULL: none */
};

/* Of one level, over all of its pairs that were measured. */
struct measure_level {
    int pairs; /* each way counts */
    int known; /* of those, whose expectation is */
    double least_gbps, median_gbps, most_gbps, expected_gbps; /* expected: the median of it */
    double latency_us, expected_latency_us;                   /* medians */
};

struct measure {
    rondo_comm_t comm;
    rondo_comm_info_t info;
    struct measure_options options;
    struct ri_topo *topo; /* of the communicator, its ranks where their memory is */
    int32_t *host_of;     /* [ranks] */
    double *gbps;         /* [ranks][ranks] from row to column; 0: not measured */
    double *latency_us;   /* [ranks][ranks] half of there and back; behind gbps in one piece of memory */
    double took_seconds;
};

/* The subcommand: argv[0] is "measure".  Exit status. */
int topo_measure(int argc, char **argv);

/* ---- topo_measure_pairs.c ---- */

/* The partner of a rank in a round of a tournament: each meets each other once in ranks - 1 rounds, or in
 * as many as there are ranks where that is odd; -1: it has none in this round. */
int measure_partner(int rank, int round, int ranks);
int measure_rounds(int ranks);
/* Collective.  Fills gbps and latency_us on all ranks. */
int measure_all(struct measure *m);

/* ---- topo_measure_expect.c ---- */

/* Local: what the communicator knows of its hosts. */
int measure_learn(struct measure *m);
/* What a message from the memory of rank a to that of b should cost. */
void measure_expect(const struct measure *m, int a, int b, struct ri_topo_path *path);
/* Does anything say so, and not only what is usual? */
int measure_is_known(const struct measure *m, int a, int b);
int measure_is_short(const struct measure *m, int a, int b);
int measure_count_short(const struct measure *m);
void measure_level(const struct measure *m, enum ri_topo_level which, struct measure_level *level);
/* The middle one of those values; sorts them.  0: there are none. */
double measure_median(double *values, int count);

/* ---- topo_measure_record.c ---- */

/* Speeds of the topology become those that were measured; writes it to a file. */
int measure_record(const struct measure *m);

/* ---- topo_measure_print.c, topo_measure_json.c ---- */

/* On a terminal a line that is written anew; nothing elsewhere.  done == steps: it goes. */
void measure_progress(int done, int steps);

void measure_print(FILE *to, const struct measure *m);
void measure_print_json(FILE *to, const struct measure *m);

#endif
