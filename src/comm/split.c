/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators of some ranks of another.  The ranks meet through the other's control connections:
 * rank 0 of each part makes an id, and all get to know all ids. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/status.h"
#include "comm/comm.h"
#include "comm/unique_id.h"

#define LIST_BYTES 96 /* of ranks, in error texts */

/* What a rank asks for. */
struct wish {
    int32_t color, key;
};

/* The part that this rank is in: its ranks in the other communicator, in the part's order. */
struct members {
    int *ranks, count;
    int rank; /* this one's in the part; -1: it is in none */
};

static void list_ranks(const int *ranks, int count, char *text, size_t bytes)
{
    size_t used = 0;

    text[0] = '\0';
    for (int i = 0; i < count; i++) {
        if (used + 16 > bytes) {
            snprintf(text + used, bytes - used, "...");
            return;
        }
        used += (size_t)snprintf(text + used, bytes - used, i ? ",%d" : "%d", ranks[i]);
    }
}

/* ---- making one ---- */

/* Adds to an error whose communicator it is about. */
static int blame(const char *what, const struct members *members, int status)
{
    char text[512], list[LIST_BYTES];

    snprintf(text, sizeof(text), "%s", rondo_last_error());
    list_ranks(members->ranks, members->count, list, sizeof(list));
    return ri_error(status, "%s, part of ranks %s: %s", what, list, text);
}

/* The id that nobody will use takes its port back with it. */
static void forget_id(const rondo_unique_id_t *id)
{
    struct ri_meeting meeting;

    if (ri_unique_id_read(id, &meeting) == 0)
        close(ri_unique_id_take_socket(meeting.token));
}

/* ids: [size of comm] */
static int meet(struct rondo_comm *comm, const char *what, const struct members *members,
                rondo_unique_id_t *ids, rondo_comm_t *part)
{
    int leads = members->rank == 0 && members->count > 1;
    rondo_unique_id_t mine = { { 0 } };
    int err = leads ? ri_unique_id_make(comm->config.interface, &mine) : 0;

    leads = leads && !err;
    err = ri_agree(comm, what, NULL, 0, err);
    if (!err)
        err = ri_comm_exchange(comm, what, &mine, sizeof(mine), ids);
    if (err) {
        if (leads)
            forget_id(&mine);
        return err;
    }
    if (members->rank < 0)
        return 0;
    err = ri_comm_create_part(comm, &ids[members->ranks[0]], members->rank, members->count, part);
    return err ? blame(what, members, err) : 0;
}

/* All ranks of comm are here, and of one mind about the parts. */
static int make_parts(struct rondo_comm *comm, const char *what, const struct members *members,
                      rondo_comm_t *part_p)
{
    rondo_unique_id_t *ids = calloc((size_t)comm->size, sizeof(*ids));
    rondo_comm_t part = NULL;
    int err = ids ? 0 : ri_error(RONDO_ERR_MEMORY, "%s: no memory for %d ranks", what, comm->size);

    err = ri_agree(comm, what, NULL, 0, err);
    if (!err)
        err = ri_agree(comm, what, NULL, 0, meet(comm, what, members, ids, &part));
    free(ids);
    if (err)
        rondo_comm_destroy(part);
    else
        *part_p = part;
    return err;
}

/* ---- who is in it ---- */

/* Sorts by key, where equal by rank, as they come: insertion is stable. */
static void choose(const struct wish *wishes, int size, int rank, struct members *members)
{
    members->count = 0;
    members->rank = -1;
    if (wishes[rank].color < 0)
        return;
    for (int r = 0; r < size; r++) {
        int at;

        if (wishes[r].color != wishes[rank].color)
            continue;
        for (at = members->count++; at > 0 && wishes[members->ranks[at - 1]].key > wishes[r].key; at--)
            members->ranks[at] = members->ranks[at - 1];
        members->ranks[at] = r;
    }
    while (members->ranks[++members->rank] != rank)
        ;
}

static int split(struct rondo_comm *comm, const struct wish *mine, rondo_comm_t *part)
{
    struct wish *wishes = calloc((size_t)comm->size, sizeof(*wishes));
    struct members members = { .ranks = calloc((size_t)comm->size, sizeof(*members.ranks)) };
    int err = !part ? ri_error(RONDO_ERR_ARGUMENT, "part is NULL") : 0;

    if (!err && (!wishes || !members.ranks))
        err = ri_error(RONDO_ERR_MEMORY, "split: no memory for %d ranks", comm->size);
    err = ri_agree(comm, "split", NULL, 0, err);
    if (!err)
        err = ri_comm_exchange(comm, "split", mine, sizeof(*mine), wishes);
    if (!err) {
        choose(wishes, comm->size, comm->rank, &members);
        err = make_parts(comm, "split", &members, part);
    }
    free(wishes);
    free(members.ranks);
    return err;
}

static int check_list(const struct rondo_comm *comm, const int *ranks, int count, const rondo_comm_t *part)
{
    if (!part || !ranks)
        return ri_error(RONDO_ERR_ARGUMENT, "%s is NULL", part ? "ranks" : "part");
    if (count < 1 || count > comm->size)
        return ri_error(RONDO_ERR_ARGUMENT, "count is %d; give 1 to %d", count, comm->size);
    for (int i = 0; i < count; i++) {
        if (ranks[i] < 0 || ranks[i] >= comm->size)
            return ri_error(RONDO_ERR_ARGUMENT, "ranks[%d] is %d; ranks are 0 to %d", i, ranks[i],
                            comm->size - 1);
        for (int j = 0; j < i; j++)
            if (ranks[j] == ranks[i])
                return ri_error(RONDO_ERR_ARGUMENT, "ranks[%d] and ranks[%d] are both %d; name a rank once", j,
                                i, ranks[i]);
    }
    return 0;
}

/* All the ranks as text, for the comparison; NULL: no memory. */
static char *whole_list(const int *ranks, int count)
{
    size_t bytes = (size_t)count * 12 + 16;
    char *text = malloc(bytes);

    if (text)
        list_ranks(ranks, count, text, bytes);
    return text;
}

static int subset(struct rondo_comm *comm, const int *ranks, int count, rondo_comm_t *part)
{
    int err = check_list(comm, ranks, count, part);
    struct members members = { .ranks = calloc((size_t)comm->size, sizeof(*members.ranks)), .rank = -1 };
    char *text = err ? NULL : whole_list(ranks, count);
    struct ri_field list = { .name = "ranks", .text = text ? text : "" };

    if (!err && (!text || !members.ranks))
        err = ri_error(RONDO_ERR_MEMORY, "subset: no memory for %d ranks", count);
    err = ri_agree(comm, "subset", &list, 1, err);
    for (int i = 0; i < count && !err; i++) {
        members.ranks[members.count++] = ranks[i];
        if (ranks[i] == comm->rank)
            members.rank = i;
    }
    if (!err)
        err = make_parts(comm, "subset", &members, part);
    free(text);
    free(members.ranks);
    return err;
}

/* ---- public ---- */

static int begin(struct rondo_comm *comm, const char *what)
{
    return comm ? ri_comm_talk_begin(comm, what) : ri_error(RONDO_ERR_ARGUMENT, "comm is NULL");
}

rondo_status_t rondo_comm_split(rondo_comm_t comm, int color, int key, rondo_comm_t *part)
{
    struct wish mine = { color, key };
    int err = begin(comm, "split");

    if (err)
        return err;
    err = split(comm, &mine, part);
    ri_comm_talk_end(comm);
    return err;
}

rondo_status_t rondo_comm_subset(rondo_comm_t comm, const int *ranks, int count, rondo_comm_t *part)
{
    int err = begin(comm, "subset");

    if (err)
        return err;
    err = subset(comm, ranks, count, part);
    ri_comm_talk_end(comm);
    return err;
}
