/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls on topologies: arguments are checked here, the rest is one call down. */
#include <rondo/topo.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/status.h"
#include "comm/comm.h"
#include "topo/topo.h"

struct rondo_topo {
    struct ri_topo *tree;
};

/* ---- making ---- */

/* Takes the tree over, also when it fails. */
static int wrap(struct ri_topo *tree, rondo_topo_t *topo_p)
{
    struct rondo_topo *topo = malloc(sizeof(*topo));

    if (!topo) {
        ri_topo_destroy(tree);
        return ri_error(RONDO_ERR_MEMORY, "no memory for a topology");
    }
    topo->tree = tree;
    *topo_p = topo;
    return 0;
}

rondo_status_t rondo_topo_load(const char *source, rondo_topo_t *topo)
{
    struct ri_topo *tree;
    int err;

    if (!topo)
        return ri_error(RONDO_ERR_ARGUMENT, "topo is NULL");
    err = ri_topo_read(source && strcmp(source, "live") != 0 ? source : NULL, &tree);
    if (err)
        return err;
    err = ri_topo_place(tree, 0, NULL, NULL);
    if (!err)
        return wrap(tree, topo);
    ri_topo_destroy(tree);
    return err;
}

/* A copy, ranks included. */
static struct ri_topo *copy(const struct ri_topo *from)
{
    struct ri_topo *tree = ri_topo_create();
    size_t bytes = (size_t)from->rank_count * sizeof(*from->ranks);

    if (!tree)
        return NULL;
    ri_topo_append(tree, from);
    tree->ranks = bytes ? malloc(bytes) : NULL;
    if (tree->error || (bytes && !tree->ranks)) {
        ri_topo_destroy(tree);
        return NULL;
    }
    if (bytes)
        memcpy(tree->ranks, from->ranks, bytes);
    tree->rank_count = from->rank_count;
    return tree;
}

rondo_status_t rondo_topo_of_comm(rondo_comm_t comm, rondo_topo_t *topo)
{
    struct ri_topo *tree;

    if (!comm || !topo)
        return ri_error(RONDO_ERR_ARGUMENT, "%s is NULL", comm ? "topo" : "comm");
    if (!comm->topo)
        return ri_error(RONDO_ERR_UNSUPPORTED, "the communicator knows no topology: RONDO_TOPO (or topo of its "
                        "config) was off on the first rank of a host, or there was too much of it, which the log says");
    tree = copy(comm->topo);
    return tree ? wrap(tree, topo) : ri_error(RONDO_ERR_MEMORY, "no memory for a topology");
}

rondo_status_t rondo_topo_place(rondo_topo_t topo, int ranks, const int *hosts)
{
    int32_t *host = NULL;
    int count, err;

    if (!topo)
        return ri_error(RONDO_ERR_ARGUMENT, "topo is NULL");
    if (ranks < 0 || ranks > RI_RANKS_MAX || (hosts && ranks == 0))
        return ri_error(RONDO_ERR_ARGUMENT, "ranks is %d; give 1 to %d, or 0 with hosts NULL", ranks, RI_RANKS_MAX);
    if (ranks == 0)
        return ri_topo_place(topo->tree, 0, NULL, NULL);
    host = malloc((size_t)ranks * sizeof(*host));
    if (!host)
        return ri_error(RONDO_ERR_MEMORY, "no memory for %d ranks", ranks);
    count = ri_topo_hosts(topo->tree);
    for (int r = 0; r < ranks; r++)
        host[r] = hosts ? hosts[r] : (int32_t)((int64_t)r * count / ranks);
    err = ri_topo_place(topo->tree, ranks, host, NULL);
    free(host);
    return err;
}

void rondo_topo_destroy(rondo_topo_t topo)
{
    if (!topo)
        return;
    ri_topo_destroy(topo->tree);
    free(topo);
}

/* ---- asking ---- */

static int check(rondo_topo_t topo, const void *out, const char *name)
{
    if (!topo)
        return ri_error(RONDO_ERR_ARGUMENT, "topo is NULL");
    return out ? 0 : ri_error(RONDO_ERR_ARGUMENT, "%s is NULL", name);
}

static int check_struct(rondo_topo_t topo, const void *out, size_t wanted, const char *name, const char *advice)
{
    int err = check(topo, out, name);
    size_t bytes;

    if (err)
        return err;
    memcpy(&bytes, out, sizeof(bytes));
    return bytes == wanted ? 0 : ri_error(RONDO_ERR_ARGUMENT, "%s->struct_bytes is %zu, not %zu: %s", name, bytes, wanted,
                                          advice);
}

static int check_rank(rondo_topo_t topo, const char *name, int rank)
{
    if (rank >= 0 && rank < topo->tree->rank_count)
        return 0;
    return ri_error(RONDO_ERR_ARGUMENT, "%s is %d; the topology has %d ranks", name, rank, (int)topo->tree->rank_count);
}

static int used_nics(const struct ri_topo *tree)
{
    int count = 0;

    for (int32_t i = 0; i < tree->object_count; i++)
        if (tree->objects[i].kind == RI_TOPO_HOST)
            count += ri_topo_used_nics(tree, i, NULL);
    return count;
}

rondo_status_t rondo_topo_query(rondo_topo_t topo, rondo_topo_info_t *info)
{
    struct ri_topo_lanes lanes;
    int err = check_struct(topo, info, sizeof(*info), "info", "start from RONDO_TOPO_INFO_INIT");
    int has_nics = 0;

    if (!err)
        err = ri_topo_lanes(topo->tree, NULL, &lanes);
    if (err)
        return err;
    for (int32_t r = 0; r < topo->tree->rank_count; r++)
        has_nics |= topo->tree->ranks[r].nic >= 0;
    info->hosts = ri_topo_hosts(topo->tree);
    info->numa_nodes = ri_topo_count(topo->tree, -1, RI_TOPO_NUMA);
    info->gpus = ri_topo_count(topo->tree, -1, RI_TOPO_GPU);
    info->nics = used_nics(topo->tree);
    info->ranks = topo->tree->rank_count;
    info->ranks_per_nic = has_nics ? lanes.ranks_per_nic : 0;
    info->local_gbps = lanes.local_gbps;
    info->host_gbps = lanes.host_gbps;
    return 0;
}

static int number_above(const struct ri_topo *tree, int32_t object, enum ri_topo_kind kind)
{
    int32_t at = ri_topo_above(tree, object, kind);

    return at < 0 ? -1 : tree->objects[at].number;
}

rondo_status_t rondo_topo_query_rank(rondo_topo_t topo, int rank, rondo_topo_rank_info_t *info)
{
    const struct ri_topo_rank *at;
    const struct ri_topo *tree;
    int32_t host;
    int err = check_struct(topo, info, sizeof(*info), "info", "start from RONDO_TOPO_RANK_INFO_INIT");

    if (!err)
        err = check_rank(topo, "rank", rank);
    if (err)
        return err;
    tree = topo->tree;
    at = &tree->ranks[rank];
    host = ri_topo_host_of(tree, at->object);
    info->host = 0;
    for (int32_t i = 0; i < host; i++)
        info->host += tree->objects[i].kind == RI_TOPO_HOST;
    info->gpu = number_above(tree, at->object, RI_TOPO_GPU);
    info->numa = number_above(tree, at->object, RI_TOPO_NUMA);
    info->nic_shares = at->nic < 0 ? 0 : at->nic_shares;
    snprintf(info->nic, sizeof(info->nic), "%s", at->nic < 0 ? "" : tree->objects[at->nic].name);
    snprintf(info->host_name, sizeof(info->host_name), "%s", tree->objects[host].name);
    return 0;
}

rondo_status_t rondo_topo_pair(rondo_topo_t topo, int a, int b, rondo_topo_pair_t *pair)
{
    struct ri_topo_path path;
    char level[12];
    int err = check_struct(topo, pair, sizeof(*pair), "pair", "start from RONDO_TOPO_PAIR_INIT");

    if (!err)
        err = check_rank(topo, "a", a);
    if (!err)
        err = check_rank(topo, "b", b);
    if (err)
        return err;
    ri_topo_rank_path(topo->tree, a, b, &path);
    ri_topo_level_text(&path, level);
    snprintf(pair->level, sizeof(pair->level), "%s", level);
    pair->gbps = path.gbps;
    pair->latency_us = path.latency_us;
    return 0;
}

/* ---- orders and groups ---- */

/* Room for a number of every rank, so that the caller's is written only after success. */
static int32_t *room(rondo_topo_t topo, int *err)
{
    int32_t *numbers = calloc((size_t)topo->tree->rank_count + 1, sizeof(*numbers));

    *err = numbers ? 0 : ri_error(RONDO_ERR_MEMORY, "no memory for %d ranks", (int)topo->tree->rank_count);
    return numbers;
}

static int give(rondo_topo_t topo, int32_t *numbers, int result, int *out)
{
    for (int32_t r = 0; result >= 0 && r < topo->tree->rank_count; r++)
        out[r] = numbers[r];
    free(numbers);
    return result < 0 ? result : 0;
}

rondo_status_t rondo_topo_ring(rondo_topo_t topo, int *order)
{
    int err = check(topo, order, "order");
    int32_t *numbers = err ? NULL : room(topo, &err);

    return err ? err : give(topo, numbers, ri_topo_ring(topo->tree, numbers), order);
}

rondo_status_t rondo_topo_rails(rondo_topo_t topo, int *rail, int *rails)
{
    int count, err = check(topo, rail, "rail");
    int32_t *numbers;

    if (!err)
        err = check(topo, rails, "rails");
    numbers = err ? NULL : room(topo, &err);
    if (err)
        return err;
    count = ri_topo_rails(topo->tree, numbers);
    err = give(topo, numbers, count, rail);
    if (!err)
        *rails = count;
    return err;
}

rondo_status_t rondo_topo_head_groups(rondo_topo_t topo, int size, int *group)
{
    int err = check(topo, group, "group");
    int32_t *numbers;

    if (!err && (size < 1 || topo->tree->rank_count % size))
        err = ri_error(RONDO_ERR_ARGUMENT, "size is %d; give what divides the %d ranks", size,
                       (int)topo->tree->rank_count);
    numbers = err ? NULL : room(topo, &err);
    return err ? err : give(topo, numbers, ri_topo_head_groups(topo->tree, size, numbers), group);
}

/* ---- in words ---- */

/* Frees words. */
static int write_out(char *words, char *text, size_t bytes, size_t *needed)
{
    if (!words)
        return ri_error(RONDO_ERR_MEMORY, "no memory for the text of a topology");
    if (needed)
        *needed = strlen(words) + 1;
    if (bytes > 0)
        snprintf(text, bytes, "%s", words);
    free(words);
    return 0;
}

static int check_text(rondo_topo_t topo, const char *text, size_t bytes)
{
    if (topo && !text && bytes > 0)
        return ri_error(RONDO_ERR_ARGUMENT, "text is NULL, and bytes is %zu", bytes);
    return check(topo, topo, "topo");
}

rondo_status_t rondo_topo_explain(rondo_topo_t topo, char *text, size_t bytes, size_t *needed)
{
    int err = check_text(topo, text, bytes);

    return err ? err : write_out(ri_topo_explain(topo->tree), text, bytes, needed);
}

rondo_status_t rondo_topo_print(rondo_topo_t topo, char *text, size_t bytes, size_t *needed)
{
    int err = check_text(topo, text, bytes);

    return err ? err : write_out(ri_topo_pack(topo->tree), text, bytes, needed);
}
