/* SPDX-License-Identifier: Apache-2.0 */
/* A process that is one rank, started by a launcher: it takes its place from the environment, and at the
 * end every rank has what came of all. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/e2e/attention.h"

int join_ranks(struct test *t, rondo_comm_t *comm, int *rank)
{
    rondo_comm_info_t info = RONDO_COMM_INFO_INIT;
    int err = rondo_comm_create_env(NULL, comm);

    if (!err)
        err = rondo_comm_query(*comm, &info);
    if (err) {
        fprintf(stderr, "# no communicator: %s\n", rondo_last_error());
        return err;
    }
    *rank = info.rank;
    if (info.size > MAX_RANKS) {
        fprintf(stderr, "# %d ranks are more than %d\n", info.size, MAX_RANKS);
        return RONDO_ERR_ARGUMENT;
    }
    t->transport = info.transport, t->ranks = info.size, t->hosts = info.hosts;
    if (host_of(info.rank, info.size, info.hosts) != info.host) {
        fprintf(stderr, "# rank %d is on host %d of %d, but blocks of ranks are wanted, larger ones first\n",
                info.rank, info.host, info.hosts);
        return RONDO_ERR_ARGUMENT;
    }
    return 0;
}

/* The outcomes of one rank, one after the other. */
static void copy_outcomes(struct test *t, int rank, struct outcome *flat, int into_test)
{
    for (int s = 0; s < t->scheme_count; s++)
        for (int kind = 0; kind < LAYOUTS; kind++)
            for (int i = 0; i < t->problem_count; i++, flat++) {
                struct outcome *at = &t->outcomes[s][kind][i][rank];

                if (into_test)
                    *at = *flat;
                else
                    *flat = *at;
            }
}

int share_outcomes(rondo_comm_t comm, int rank, struct test *t)
{
    size_t bytes = (size_t)(t->scheme_count * LAYOUTS * t->problem_count) * sizeof(struct outcome);
    struct outcome *flat = malloc(bytes);
    int err = flat ? 0 : RONDO_ERR_MEMORY;

    for (int r = 0; r < t->ranks && !err; r++) {
        rondo_request_t request = NULL;

        copy_outcomes(t, rank, flat, 0);
        err = rondo_broadcast(comm, flat, bytes, r, NULL, &request);
        if (!err)
            err = rondo_wait(&request, 60000);
        if (!err)
            copy_outcomes(t, r, flat, 1);
    }
    free(flat);
    if (err)
        fprintf(stderr, "# rank %d: outcomes: %s\n", rank, rondo_last_error());
    return err;
}
