/* SPDX-License-Identifier: Apache-2.0 */
/* Built without MPI: there is no peer, and the options say so before anything else is called. */
#include "peer.h"

int perf_peer_built(void)
{
    return 0;
}

int perf_peer_launched(void)
{
    return 0;
}

void perf_peer_start(int *rank, int *size)
{
    *rank = 0;
    *size = 1;
}

void perf_peer_finish(void)
{
}

const char *perf_peer_version(void)
{
    return "none";
}

void perf_peer_broadcast(void *bytes, size_t count)
{
}

void perf_peer_barrier(void)
{
}

void perf_peer_hops(char *buffers[2], size_t bytes, int hops)
{
}

void perf_peer_hop(char *from, char *to, size_t bytes)
{
}

void perf_peer_begin(char *from, char *to, size_t bytes)
{
}

void perf_peer_move(void)
{
}

void perf_peer_end(void)
{
}

void perf_peer_windows(char *out, char *in, int partner, size_t bytes, int window, int windows)
{
}

void perf_peer_token(char *out, char *in, size_t bytes, int rounds)
{
}
