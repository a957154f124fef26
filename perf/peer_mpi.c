/* SPDX-License-Identifier: Apache-2.0 */
#include "peer.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>

int perf_peer_built(void)
{
    return 1;
}

int perf_peer_launched(void)
{
    return getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMI_SIZE") || getenv("PMIX_RANK");
}

void perf_peer_start(int *rank, int *size)
{
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, rank);
    MPI_Comm_size(MPI_COMM_WORLD, size);
}

void perf_peer_finish(void)
{
    MPI_Finalize();
}

const char *perf_peer_version(void)
{
    static char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;

    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\n")] = '\0';
    return version;
}

void perf_peer_broadcast(void *bytes, size_t count)
{
    MPI_Bcast(bytes, (int)count, MPI_BYTE, 0, MPI_COMM_WORLD);
}

void perf_peer_barrier(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

void perf_peer_hop(char *from, char *to, size_t bytes)
{
    int rank, size;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Sendrecv(from, (int)bytes, MPI_BYTE, (rank + 1) % size, 0, to, (int)bytes, MPI_BYTE,
                 (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Of the hop that is under way. */
static MPI_Request hop[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};

void perf_peer_begin(char *from, char *to, size_t bytes)
{
    int rank, size;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Irecv(to, (int)bytes, MPI_BYTE, (rank + size - 1) % size, 0, MPI_COMM_WORLD, &hop[0]);
    MPI_Isend(from, (int)bytes, MPI_BYTE, (rank + 1) % size, 0, MPI_COMM_WORLD, &hop[1]);
}

void perf_peer_move(void)
{
    int done;

    MPI_Testall(2, hop, &done, MPI_STATUSES_IGNORE);
}

void perf_peer_end(void)
{
    MPI_Waitall(2, hop, MPI_STATUSES_IGNORE);
}

void perf_peer_hops(char *buffers[2], size_t bytes, int hops)
{
    for (int i = 0; i < hops; i++)
        perf_peer_hop(buffers[i % 2], buffers[1 - i % 2], bytes);
}

void perf_peer_token(char *out, char *in, size_t bytes, int rounds)
{
    int rank, size, next, previous;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    next = (rank + 1) % size;
    previous = (rank + size - 1) % size;
    for (int i = 0; i < rounds; i++) {
        if (rank == 0)
            MPI_Send(out, (int)bytes, MPI_BYTE, next, 0, MPI_COMM_WORLD);
        MPI_Recv(in, (int)bytes, MPI_BYTE, previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank > 0)
            MPI_Send(out, (int)bytes, MPI_BYTE, next, 0, MPI_COMM_WORLD);
    }
}

/* The word of the receiver has tag 1. */
static void one_window(char *out, char *in, int partner, int bytes, int window,
                       MPI_Request *requests)
{
    int n = 0;

    for (int i = 0; i < window && in; i++)
        MPI_Irecv(in, bytes, MPI_BYTE, partner, 0, MPI_COMM_WORLD, &requests[n++]);
    for (int i = 0; i < window && out; i++)
        MPI_Isend(out, bytes, MPI_BYTE, partner, 0, MPI_COMM_WORLD, &requests[n++]);
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    if (in)
        MPI_Send(NULL, 0, MPI_BYTE, partner, 1, MPI_COMM_WORLD);
    if (out)
        MPI_Recv(NULL, 0, MPI_BYTE, partner, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

void perf_peer_windows(char *out, char *in, int partner, size_t bytes, int window, int windows)
{
    MPI_Request *requests = malloc(2 * (size_t)window * sizeof(MPI_Request));

    if (!requests)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < windows && requests; i++)
        one_window(out, in, partner, (int)bytes, window, requests);
    free(requests);
}
