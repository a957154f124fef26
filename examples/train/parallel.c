/* SPDX-License-Identifier: Apache-2.0 */
#include "parallel.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

int parallel_init(struct parallel *p, const char *transport, struct problem *problem)
{
    rondo_config_t config = RONDO_CONFIG_INIT;
    rondo_status_t status;

    memset(p, 0, sizeof(*p));
    p->info = (rondo_comm_info_t)RONDO_COMM_INFO_INIT;
    config.transport = transport;
    status = rondo_comm_create_env(&config, &p->comm);
    if (!status)
        status = rondo_comm_query(p->comm, &p->info);
    if (status)
        return problem_set(problem, EXIT_FAILED, "communicator: %s: %s", rondo_strerror(status),
                           rondo_last_error());
    return 0;
}

void parallel_release(struct parallel *p)
{
    rondo_comm_destroy(p->comm);
    p->comm = NULL;
}

int parallel_refused(const struct parallel *p, const char *what, rondo_status_t status)
{
    int usage = status == RONDO_ERR_ARGUMENT || status == RONDO_ERR_UNSUPPORTED;

    if (p->info.rank == 0)
        fprintf(stderr, "rondo-train: %s: %s: %s\n", what, rondo_strerror(status),
                rondo_last_error());
    return usage ? EXIT_USAGE : EXIT_FAILED;
}

int parallel_failed(const struct parallel *p, const char *what, rondo_status_t status)
{
    fprintf(stderr, "rondo-train: rank %d: %s: %s: %s\n", p->info.rank, what,
            rondo_strerror(status), rondo_last_error());
    return EXIT_FAILED;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Waits for a collective that has just been started with this status. */
static rondo_status_t finish(struct parallel *p, rondo_status_t status, rondo_request_t request)
{
    double start = now();

    if (!status)
        status = rondo_wait(&request, -1);
    if (p->info.size > 1)
        p->reduce_seconds += now() - start;
    return status;
}

rondo_status_t parallel_sum_floats(struct parallel *p, float *data, size_t count)
{
    rondo_request_t request = NULL;
    rondo_status_t status =
        rondo_all_reduce(p->comm, data, data, count, RONDO_F32, NULL, &request);

    return finish(p, status, request);
}

rondo_status_t parallel_sum_doubles(struct parallel *p, double *data, size_t count)
{
    rondo_request_t request = NULL;
    rondo_status_t status =
        rondo_all_reduce(p->comm, data, data, count, RONDO_F64, NULL, &request);

    return finish(p, status, request);
}

rondo_status_t parallel_broadcast(struct parallel *p, void *data, size_t bytes, int root)
{
    rondo_request_t request = NULL;
    rondo_status_t status = rondo_broadcast(p->comm, data, bytes, root, NULL, &request);

    return finish(p, status, request);
}

/* Every rank puts its value into a place of its own, so that the sum is the list of all. */
static rondo_status_t gather(struct parallel *p, double value, double *values)
{
    memset(values, 0, (size_t)p->info.size * sizeof(*values));
    values[p->info.rank] = value;
    return parallel_sum_doubles(p, values, (size_t)p->info.size);
}

int parallel_agree(struct parallel *p, const struct problem *problem)
{
    double *codes = calloc((size_t)p->info.size, sizeof(*codes));
    rondo_status_t status;
    int code = 0;

    if (!codes)
        return parallel_failed(p, "out of memory", RONDO_ERR_MEMORY);
    status = gather(p, problem->exit_code, codes);
    if (status)
        code = parallel_failed(p, "agreement", status);
    for (int rank = 0; rank < p->info.size && code == 0; rank++) {
        code = (int)codes[rank];
        if (code && rank == p->info.rank)
            fprintf(stderr, "rondo-train: %s\n", problem->text);
    }
    free(codes);
    return code;
}

rondo_status_t parallel_same(struct parallel *p, uint64_t hash, int *same)
{
    /* A double holds 32 bits whole, and so does the sum over any number of ranks. */
    double halves[2] = { (double)(hash >> 32), (double)(hash & 0xffffffffu) };
    double sums[4] = { halves[0], halves[1], 0.0, 0.0 };
    rondo_status_t status = parallel_sum_doubles(p, sums, 2);

    if (status)
        return status;
    *same = sums[0] == halves[0] * p->info.size && sums[1] == halves[1] * p->info.size;
    sums[2] = !*same;
    status = parallel_sum_doubles(p, sums + 2, 1);
    if (!status)
        *same = sums[2] == 0.0;
    return status;
}
