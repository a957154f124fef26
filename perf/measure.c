/* SPDX-License-Identifier: Apache-2.0 */
#include "measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double perf_now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

double perf_pause(double us)
{
    double begin = perf_now_us(), now = begin;

    while (now - begin < us)
        now = perf_now_us();
    return now - begin;
}

void *perf_touched(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);

    if (memory)
        memset(memory, 0, bytes);
    return memory;
}

rondo_status_t perf_wait(rondo_status_t started, rondo_request_t *request)
{
    return started ? started : rondo_wait(request, -1);
}

rondo_status_t perf_barrier(rondo_comm_t comm)
{
    rondo_request_t request = NULL;

    return perf_wait(rondo_barrier(comm, NULL, &request), &request);
}

/* A sum in which each rank has a row of its own. */
rondo_status_t perf_max_over_ranks(rondo_comm_t comm, double *data, size_t count)
{
    rondo_comm_info_t info = RONDO_COMM_INFO_INIT;
    rondo_status_t status = rondo_comm_query(comm, &info);
    size_t ranks = (size_t)info.size;
    rondo_request_t request = NULL;
    double *rows;

    if (status)
        return status;
    rows = calloc(ranks * count + 1, sizeof(*rows));
    if (!rows)
        return RONDO_ERR_MEMORY;
    memcpy(rows + (size_t)info.rank * count, data, count * sizeof(*rows));
    status = rondo_all_reduce(comm, rows, rows, ranks * count, RONDO_F64, NULL, &request);
    status = perf_wait(status, &request);
    for (size_t r = 0; !status && r < ranks; r++)
        for (size_t i = 0; i < count; i++)
            data[i] = r && data[i] > rows[r * count + i] ? data[i] : rows[r * count + i];
    free(rows);
    return status;
}

rondo_status_t perf_sum_over_ranks(rondo_comm_t comm, double *data, size_t count)
{
    rondo_request_t request = NULL;

    return perf_wait(rondo_all_reduce(comm, data, data, count, RONDO_F64, NULL, &request),
                     &request);
}

double perf_algbw(double ranks, double bytes, double us)
{
    return ranks * bytes / us / 1e3;
}

double perf_busbw(double ranks, double bytes, double us)
{
    return (ranks - 1) * bytes / us / 1e3;
}

int perf_ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double perf_quantile(const double *data, size_t count, double share)
{
    size_t i = (size_t)ceil(share * (double)count);

    return data[i > 0 ? i - 1 : 0];
}

double perf_median(double *data, size_t count)
{
    qsort(data, count, sizeof(*data), perf_ascending);
    return (data[(count - 1) / 2] + data[count / 2]) / 2;
}
