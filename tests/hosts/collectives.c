/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives over ranks of several hosts, each against what it must give: collectives FOLDER.  The
 * folder is one that all ranks see. */
#include <rondo/rondo.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static rondo_comm_info_t me = RONDO_COMM_INFO_INIT;

static int complain(const char *what)
{
    fprintf(stderr, "rank %d: %s: %s\n", me.rank, what, rondo_last_error());
    return 1;
}

static int await(rondo_status_t started, rondo_request_t *request)
{
    return started ? started : rondo_wait(request, 30000);
}

/* Element i of rank r is r + i % 7, so that sums of few ranks are exact. */
static int all_reduce(rondo_comm_t comm, size_t count)
{
    rondo_comm_info_t info = RONDO_COMM_INFO_INIT;
    rondo_request_t request = NULL;
    float *data = malloc(2 * count * sizeof(*data)), *sum = data + count;
    int bad;

    if (!data || rondo_comm_query(comm, &info))
        return complain("query");
    for (size_t i = 0; i < count; i++)
        data[i] = (float)(info.rank + (int)(i % 7));
    bad = await(rondo_all_reduce(comm, data, sum, count, RONDO_F32, NULL, &request), &request) != 0;
    for (size_t i = 0; i < count && !bad; i++)
        bad = sum[i] != (float)(info.size * (info.size - 1) / 2 + info.size * (int)(i % 7));
    free(data);
    return bad ? complain("all-reduce") : 0;
}

static int broadcast(rondo_comm_t comm, size_t bytes, int root)
{
    rondo_request_t request = NULL;
    unsigned char *data = malloc(bytes);
    int bad;

    if (!data)
        return complain("memory");
    for (size_t i = 0; i < bytes; i++)
        data[i] = me.rank == root ? (unsigned char)(i * 31 + (size_t)root) : 255;
    bad = await(rondo_broadcast(comm, data, bytes, root, NULL, &request), &request) != 0;
    for (size_t i = 0; i < bytes && !bad; i++)
        bad = data[i] != (unsigned char)(i * 31 + (size_t)root);
    free(data);
    return bad ? complain("broadcast") : 0;
}

/* Who leaves the barrier sees what every rank did before it came. */
static int barrier(rondo_comm_t comm, const char *folder, int turn)
{
    rondo_request_t request = NULL;
    char path[512];
    FILE *mark;

    snprintf(path, sizeof(path), "%s/came.%d.%d", folder, turn, me.rank);
    mark = fopen(path, "w");
    if (!mark || fclose(mark))
        return complain(path);
    if (await(rondo_barrier(comm, NULL, &request), &request))
        return complain("barrier");
    for (int r = 0; r < me.size; r++) {
        snprintf(path, sizeof(path), "%s/came.%d.%d", folder, turn, r);
        if (access(path, F_OK))
            return complain("a barrier that did not wait for all");
    }
    return 0;
}

/* The ranks of each host, then those with one local rank: a part is on one host, or on all that have
 * such a rank. */
static int split(rondo_comm_t comm)
{
    rondo_comm_info_t info = RONDO_COMM_INFO_INIT;
    rondo_comm_t part[2] = { NULL, NULL };
    int bad = rondo_comm_split(comm, me.host, me.rank, &part[0]) ||
              rondo_comm_split(comm, me.local_rank, -me.rank, &part[1]);

    bad = bad || rondo_comm_query(part[0], &info) || info.hosts != 1 || info.size != me.local_size ||
          info.rank != me.local_rank;
    bad = bad || rondo_comm_query(part[1], &info) || info.hosts != info.size || info.local_size != 1;
    for (int i = 0; i < 2 && !bad; i++)
        bad = all_reduce(part[i], 100000);
    rondo_comm_destroy(part[0]);
    rondo_comm_destroy(part[1]);
    return bad ? complain("split") : 0;
}

static int run_all(rondo_comm_t world, const char *folder)
{
    static const size_t counts[] = { 1, 1000, 262144 };
    int bad = barrier(world, folder, 0);

    for (int i = 0; i < 3 && !bad; i++)
        bad = all_reduce(world, counts[i]);
    for (int root = 0; root < me.size && !bad; root++)
        bad = broadcast(world, root % 2 ? 300001 : 5, root);
    for (int turn = 1; turn < 4 && !bad; turn++)
        bad = barrier(world, folder, turn);
    return bad ? bad : split(world);
}

int main(int argc, char **argv)
{
    rondo_comm_t world = NULL;
    int bad;

    if (argc != 2) {
        fprintf(stderr, "usage: collectives FOLDER\n");
        return 2;
    }
    if (rondo_comm_create_env(NULL, &world) || rondo_comm_query(world, &me))
        return complain("no communicator");
    bad = run_all(world, argv[1]);
    rondo_comm_destroy(world);
    return bad;
}
