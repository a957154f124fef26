/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SCHEDULE_MACHINES_H
#define TEST_SCHEDULE_MACHINES_H

#include "tests/schedule/ranks.h"

/* Machines that two-level rings are tried on. */

enum { SCHEMES = 3, UNEVEN = 22, PROVED_RANKS = 16, MAX_HOSTS = 16 };

/* A builder, what travels, and what is added up for it. */
struct scheme {
    ri_builder *build;
    enum ri_bundle visitor, sum;
    int backward;
};

extern const struct scheme two_level_schemes[SCHEMES]; /* forward, KV-grad, Q-grad */

/* Hosts as a test sees them: size[a] ranks, rank[a][i]; host[r] as a builder gets it. */
struct machine {
    int hosts, ranks, largest;
    int size[MAX_HOSTS];
    int rank[MAX_HOSTS][PROVED_RANKS];
    int32_t host[MAX_RANKS];
};

/* sizes: ranks of each host, ends with 0.  Ranks are numbered host by host. */
struct machine machine_of(const int *sizes);
struct machine machine_equal(int hosts, int size);

extern const int uneven_hosts[UNEVEN][5]; /* for machine_of */

/* All ranks of a scheme; fails the test unless they are accepted.  how: but for ranks and host. */
struct ranks ranks_prove(const struct scheme *scheme, const struct machine *m, struct ri_build how);

#endif
