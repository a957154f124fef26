/* SPDX-License-Identifier: Apache-2.0 */
#include "share.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel_call.h"

/* ---- messages ---- */

enum order { ORDER_PREPARE, ORDER_RUN };

/* MSG_NOSIGNAL: a child that has ended is an error, not a signal. */
static int tell(int way, const void *data, size_t bytes)
{
    ssize_t sent;

    do
        sent = send(way, data, bytes, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)bytes ? 0 : -1;
}

static int hear(int way, void *data, size_t bytes)
{
    ssize_t got;

    do
        got = recv(way, data, bytes, MSG_WAITALL);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)bytes ? 0 : -1;
}

/* ---- tiles ---- */

/* Positions that follow each other in steps, and where they lie. */
struct run {
    int64_t start, count, first;
};

struct shape {
    rondo_layout_t layout;
    int64_t tokens, step, queries;
    int64_t *q_positions; /* [queries] */
    int64_t *k_positions; /* [tokens]: in the order of key runs */
    rondo_tile_t *tiles;
    int tile_count;
};

/* Query i of q sees key j of k iff i - j >= lo. */
static void add_tile(struct shape *shape, const struct run *q, const struct run *k)
{
    int64_t ahead = k->start - q->start, lo = ahead > 0 ? (ahead + shape->step - 1) / shape->step : ahead / shape->step;
    int64_t seen = q->count - lo < k->count ? q->count - lo : k->count;

    if (seen > 0)
        shape->tiles[shape->tile_count++] =
            (rondo_tile_t){.q_first = q->first, .q_count = q->count, .k_first = k->first, .k_count = seen,
                           .lo = lo, .hi = q->count - 1, .q_start = q->start, .q_step = shape->step,
                           .k_start = k->start, .k_step = shape->step,
                           .kind = lo == 0 ? RONDO_TILE_CAUSAL : lo == 1 ? RONDO_TILE_STRICT : RONDO_TILE_BAND};
}

/* Keys lie as the queries do: in as many runs as a step skips tokens. */
static void add_tiles(struct shape *shape, const struct run *q)
{
    struct run k = {0};

    for (k.start = 0; k.start < shape->step && k.start < shape->tokens; k.start++) {
        k.count = (shape->tokens - k.start + shape->step - 1) / shape->step;
        add_tile(shape, q, &k);
        for (int64_t j = 0; j < k.count; j++)
            shape->k_positions[k.first + j] = k.start + j * shape->step;
        k.first += k.count;
    }
}

static int64_t run_length(const struct shape *shape, int64_t first)
{
    int64_t end = first + 1;

    while (end < shape->queries && shape->q_positions[end] - shape->q_positions[end - 1] == shape->step)
        end++;
    return end - first;
}

/* 0, or -1; release it after a failure too. */
static int shape_init(struct shape *shape, const struct share_problem *problem)
{
    const rondo_layout_desc_t *deal = &problem->layout;

    *shape = (struct shape){.tokens = deal->tokens, .step = deal->kind == RONDO_LAYOUT_STRIPED ? deal->ranks : 1};
    if (rondo_layout_create(deal, &shape->layout))
        return -1;
    shape->queries = rondo_layout_tokens(shape->layout, problem->rank);
    shape->q_positions = calloc((size_t)shape->queries + 1, sizeof(*shape->q_positions));
    shape->k_positions = calloc((size_t)shape->tokens, sizeof(*shape->k_positions));
    /* Striped shards are one run, with a tile for each run of keys; others have one for each run of queries. */
    shape->tiles = calloc((size_t)(shape->queries + shape->step), sizeof(*shape->tiles));
    if (!shape->q_positions || !shape->k_positions || !shape->tiles ||
        rondo_layout_positions(shape->layout, problem->rank, shape->q_positions))
        return -1;
    for (int64_t first = 0; first < shape->queries;) {
        struct run q = {shape->q_positions[first], run_length(shape, first), first};

        add_tiles(shape, &q);
        first += q.count;
    }
    return 0;
}

static void shape_release(struct shape *shape)
{
    rondo_layout_destroy(shape->layout);
    free(shape->q_positions);
    free(shape->k_positions);
    free(shape->tiles);
}

/* ---- the child ---- */

static int run_once(struct kernel_call *call)
{
    int err = call_forward(call);

    return err ? err : call_backward(call);
}

static void clear(struct kernel_call *call)
{
    call_clear_forward(call);
    call_clear_backward(call);
}

static double delta_sum(struct kernel_call *call)
{
    double sum = 0;

    call_delta(call);
    for (int64_t i = 0; i < call->delta.batch_stride; i++)
        sum += fabsf(((const float *)call->delta.data)[i]);
    return sum;
}

/* The first run is a warm-up, and makes delta for those after it. */
static int begin(struct kernel_call *call, const struct shape *shape, const struct share_problem *problem,
                 struct share_made *made)
{
    *call = (struct kernel_call){.kernel = rondo_kernel_find("flash"), .tiles = shape->tiles,
                                 .tile_count = shape->tile_count, .q_tokens = shape->queries,
                                 .k_tokens = shape->tokens,
                                 .shape = {.dtype = RONDO_F32, .batch = 1, .q_heads = problem->heads,
                                           .kv_heads = problem->kv_heads, .qk_dim = problem->head_size,
                                           .v_dim = problem->head_size, .scale = problem->scale, .threads = 1}};
    if (call_init(call))
        return -1;
    call_fill(call, shape->q_positions, shape->k_positions);
    clear(call);
    if (call_forward(call))
        return -1;
    made->pairs = (double)call_pairs(call);
    made->delta_sum = delta_sum(call);
    return call_backward(call);
}

/* Until the parent has no more orders, or is gone. */
static void serve(int way)
{
    struct share_problem problem;
    struct share_made made = {0};
    struct kernel_call call = {0};
    struct shape shape = {0};
    int order, err;

    if (hear(way, &problem, sizeof(problem)))
        return;
    err = shape_init(&shape, &problem) || begin(&call, &shape, &problem, &made);
    if (!tell(way, &err, sizeof(err)) && !err && !tell(way, &made, sizeof(made)))
        while (!hear(way, &order, sizeof(order))) {
            if (order == ORDER_PREPARE)
                clear(&call);
            err = order == ORDER_RUN ? run_once(&call) : 0;
            if (tell(way, &err, sizeof(err)))
                break;
        }
    call_release(&call);
    shape_release(&shape);
}

/* ---- the parent ---- */

int share_start(struct share *share)
{
    int ways[2];

    *share = (struct share){.way = -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ways))
        return -1;
    share->child = fork();
    if (share->child == 0) {
        close(ways[0]);
        serve(ways[1]);
        _exit(0);
    }
    close(ways[1]);
    share->way = ways[0];
    return share->child > 0 ? 0 : -1;
}

void share_stop(struct share *share)
{
    if (share->way >= 0)
        close(share->way);
    if (share->child > 0) {
        kill(share->child, SIGKILL);
        while (waitpid(share->child, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    *share = (struct share){.way = -1};
}

static int answer(struct share *share)
{
    int err;

    return hear(share->way, &err, sizeof(err)) || err ? -1 : 0;
}

int share_make(struct share *share, const struct share_problem *problem, struct share_made *made)
{
    return tell(share->way, problem, sizeof(*problem)) || answer(share) || hear(share->way, made, sizeof(*made)) ? -1
                                                                                                                  : 0;
}

static int give(struct share *share, int order)
{
    return tell(share->way, &order, sizeof(order)) || answer(share) ? -1 : 0;
}

int share_prepare(struct share *share)
{
    return give(share, ORDER_PREPARE);
}

int share_run(struct share *share)
{
    return give(share, ORDER_RUN);
}
