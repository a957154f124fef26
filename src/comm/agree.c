/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "comm/bootstrap.h"
#include "comm/comm.h"

enum { FIELDS_MAX = 64 };

/* What a rank tells the others.  Of one size, so that ranks in different calls still understand each
 * other; all ranks run one version of the library. */
struct opinion {
    char what[48];
    char refusal[192]; /* when status < 0 */
    int32_t status, count;
    int64_t values[FIELDS_MAX];
};

static int refused(const struct rondo_comm *comm, const struct opinion *all, int local_status,
                   const char *local_text)
{
    if (local_status < 0)
        return ri_error(local_status, "%s", local_text);
    for (int r = 0; r < comm->size; r++)
        if (all[r].status < 0)
            return ri_error(RONDO_ERR_PEER, "%s is refused on rank %d: %.*s", all[r].what, r,
                            (int)sizeof(all[r].refusal), all[r].refusal);
    return 0;
}

/* All ranks compare with rank 0, so that they find the same field and the same two ranks. */
static int compare(const struct rondo_comm *comm, const struct opinion *all, const struct ri_field *fields,
                   int count)
{
    for (int r = 1; r < comm->size; r++)
        if (strcmp(all[r].what, all[0].what) != 0 || all[r].count != all[0].count)
            return ri_error(RONDO_ERR_MISMATCH, "rank 0 is in %s with %d values, rank %d in %s with %d",
                            all[0].what, all[0].count, r, all[r].what, all[r].count);
    for (int i = 0; i < count; i++)
        for (int r = 1; r < comm->size; r++)
            if (all[r].values[i] != all[0].values[i])
                return ri_error(RONDO_ERR_MISMATCH,
                                "%s: %s is %" PRId64 " on rank 0 and %" PRId64 " on rank %d", all[0].what,
                                fields[i].name, all[0].values[i], all[r].values[i], r);
    return 0;
}

/* While a rank waits for the others to agree, one of them may wait for what this rank has under way. */
static int move_requests(void *context)
{
    struct rondo_comm *comm = context;

    if (!comm->active || !comm->advance)
        return 0;
    comm->advance(comm);
    return 1;
}

int ri_agree_until(struct rondo_comm *comm, const char *what, const struct ri_field *fields, int count,
                   int local_status, int64_t deadline_ns)
{
    struct opinion mine = { .status = local_status, .count = count };
    struct opinion *all;
    char text[sizeof(mine.refusal)];
    int err;

    if (comm->size == 1)
        return local_status;
    if (comm->failed)
        return ri_error(comm->failed, "%s", comm->failure);
    snprintf(text, sizeof(text), "%s", local_status < 0 ? rondo_last_error() : "");
    if (count < 0 || count > FIELDS_MAX)
        mine.status = local_status = ri_error(RONDO_ERR_INTERNAL, "%s compares %d values", what, count);
    snprintf(mine.what, sizeof(mine.what), "%s", what);
    memcpy(mine.refusal, text, sizeof(text));
    for (int i = 0; i < count && i < FIELDS_MAX; i++)
        mine.values[i] = fields[i].value;
    all = malloc((size_t)comm->size * sizeof(*all));
    if (!all)
        return ri_comm_fail(comm, ri_error(RONDO_ERR_MEMORY, "no memory to compare %d ranks", comm->size));
    comm->bootstrap->aside = move_requests;
    comm->bootstrap->aside_context = comm;
    err = ri_bootstrap_allgather(comm->bootstrap, &mine, sizeof(mine), all, deadline_ns);
    if (err)
        err = ri_comm_fail(comm, err);
    if (err && local_status < 0) /* the cause, which the caller would lose */
        err = ri_error(local_status, "%s", text);
    if (!err)
        err = refused(comm, all, local_status, text);
    if (!err)
        err = compare(comm, all, fields, count);
    free(all);
    return err;
}

int ri_agree(struct rondo_comm *comm, const char *what, const struct ri_field *fields, int count,
             int local_status)
{
    return ri_agree_until(comm, what, fields, count, local_status,
                          ri_now_ns() + comm->config.timeout_ms * 1000000);
}
