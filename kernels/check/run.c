/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the kernel under check, and all that must hold of any call. */
#include <math.h>
#include <string.h>

#include "kernels/check/problem.h"

enum { GUARD_BYTES = 256 };

/* A workspace of exactly the bytes that the kernel asked for; all bits of it, and of the guard behind it, are set,
 * so that every number is a NaN. */
struct workspace {
    unsigned char *memory;
    size_t bytes;
};

static int make_workspace(struct ri_probe *c, const struct ri_problem *p, struct workspace *w)
{
    const rondo_kernel_t *kernel = c->kernel;

    w->bytes = kernel->workspace_bytes ? kernel->workspace_bytes(kernel->context, &p->shape) : 0;
    w->memory = ri_probe_alloc(c, w->bytes + GUARD_BYTES);
    if (!w->memory)
        return RONDO_ERR_MEMORY;
    memset(w->memory, 0xff, w->bytes + GUARD_BYTES);
    return 0;
}

static int check_workspace(struct ri_probe *c, const struct workspace *w)
{
    for (size_t i = 0; i < GUARD_BYTES; i++)
        if (w->memory[w->bytes + i] != 0xff)
            return ri_probe_say(c, RONDO_ERR_VERIFY, "byte %zu of a workspace of %zu bytes was written",
                                w->bytes + i, w->bytes);
    return 0;
}

/* The tokens that a call may write. */
struct tokens {
    struct ri_rows queries, keys;
};

static int make_tokens(struct ri_probe *c, const struct ri_problem *p, const rondo_tile_t *tiles, int count,
                       struct tokens *tokens)
{
    unsigned char *q_live = ri_probe_alloc(c, (size_t)p->n.q_tokens);
    unsigned char *k_live = ri_probe_alloc(c, (size_t)p->n.k_tokens);

    if (!q_live || !k_live)
        return RONDO_ERR_MEMORY;
    for (int t = 0; t < count; t++) {
        memset(q_live + tiles[t].q_first, 1, (size_t)tiles[t].q_count);
        memset(k_live + tiles[t].k_first, 1, (size_t)tiles[t].k_count);
    }
    *tokens = (struct tokens){ { 0, p->n.q_tokens, q_live }, { 0, p->n.k_tokens, k_live } };
    return 0;
}

/* A tensor of a call, and which tokens of it the call may write: of what it only reads, none. */
struct watched {
    const char *name;
    const struct ri_box *box;
    struct ri_rows rows;
};
static const struct ri_rows no_rows = { 0, 0, NULL };

static void keep_all(const struct watched *list, int count)
{
    for (int i = 0; i < count; i++)
        ri_box_keep(list[i].box);
}

static int check_all(struct ri_probe *c, const struct watched *list, int count)
{
    char where[128];

    for (int i = 0; i < count; i++)
        if (ri_box_changed(list[i].box, list[i].rows, where, sizeof(where)))
            return ri_probe_say(c, RONDO_ERR_VERIFY, "%s%s was written, which is not the call's to write",
                                list[i].name, where);
    return 0;
}

/* As a kernel is given it, which may not be thread-safe. */
static int poll(void *poller)
{
    struct ri_polls *polls = poller;

    if (!pthread_equal(pthread_self(), polls->caller))
        __atomic_fetch_add(&polls->strangers, 1, __ATOMIC_RELAXED);
    else
        polls->count++;
    return polls->answer;
}

/* What the call returned, and what it has polled. */
static int check_status(struct ri_probe *c, const struct ri_problem *p, const char *pass, int status)
{
    int wanted = p->polls && p->polls->count ? p->polls->answer : 0;

    if (p->polls && p->polls->strangers)
        return ri_probe_say(c, RONDO_ERR_VERIFY, "%s polled in another thread than the one that was called", pass);
    if (status != wanted && wanted)
        return ri_probe_say(c, RONDO_ERR_VERIFY, "%s returned %d, where a poll had said %d", pass, status, wanted);
    if (status != wanted)
        return ri_probe_say(c, RONDO_ERR_VERIFY, "%s returned %d", pass, status);
    return 0;
}

static int call_forward(struct ri_probe *c, struct ri_problem *p, const rondo_tile_t *tiles, int count,
                        const struct ri_box *o, const struct ri_box *lse)
{
    const rondo_kernel_t *kernel = c->kernel;
    struct workspace w;
    struct tokens tokens = { no_rows, no_rows };
    rondo_kernel_forward_t args = {
        .struct_bytes = sizeof(args), .shape = &p->shape, .tiles = tiles, .tile_count = count,
        .q_tokens = p->n.q_tokens, .k_tokens = p->n.k_tokens, .q = p->q.view, .k = p->k.view, .v = p->v.view,
        .o = o->view, .lse = lse->view, .seed = p->seed,
        .poll = p->polls ? poll : NULL, .poller = p->polls,
    };
    int err = make_workspace(c, p, &w), status;

    if (!err)
        err = make_tokens(c, p, tiles, count, &tokens);
    if (err)
        return err;
    const struct watched list[] = { { "q", &p->q, no_rows }, { "k", &p->k, no_rows }, { "v", &p->v, no_rows },
                                    { "o", o, tokens.queries }, { "lse", lse, tokens.queries } };
    enum { COUNT = sizeof(list) / sizeof(list[0]) };
    args.workspace = w.memory;
    keep_all(list, COUNT);
    status = kernel->forward(kernel->context, &args);
    err = check_status(c, p, "forward", status);
    if (!err)
        err = check_workspace(c, &w);
    return err ? err : check_all(c, list, COUNT);
}

/* Folds row (b, i, h) of the partial into the running result. */
static void fold_row(struct ri_problem *p, int64_t b, int64_t i, int h)
{
    const struct ri_box *o = &p->out[RI_OUT_O], *lse = &p->out[RI_OUT_LSE];
    double old = ri_box_get(lse, b, i, h, 0), new = ri_box_get(&p->part_lse, b, i, h, 0);
    double top = old > new ? old : new; /* a NaN of the partial stays */
    double share = new == -INFINITY ? 0 : exp(new - top), rest = old == -INFINITY ? 0 : exp(old - top);

    if (share == 0)
        return;
    for (int d = 0; d < p->n.v_dim; d++) {
        double kept = rest == 0 ? 0 : rest * ri_box_get(o, b, i, h, d);

        ri_box_set(o, b, i, h, d, (kept + share * ri_box_get(&p->part_o, b, i, h, d)) / (rest + share));
    }
    ri_box_set(lse, b, i, h, 0, top + log(rest + share));
}

/* A row without keys must say so in full: (0, -inf). */
static int check_empty_row(struct ri_probe *c, const struct ri_problem *p, int64_t b, int64_t i, int h)
{
    if (ri_box_get(&p->part_lse, b, i, h, 0) != -INFINITY)
        return 0;
    for (int d = 0; d < p->n.v_dim; d++)
        if (ri_box_get(&p->part_o, b, i, h, d) != 0)
            return ri_probe_say(c, RONDO_ERR_VERIFY, "o[batch %d][token %d][head %d][dim %d]: got %g, wanted 0 "
                                "beside an lse of -inf", (int)b, (int)i, h, d, ri_box_get(&p->part_o, b, i, h, d));
    return 0;
}

static int one_partial(struct ri_probe *c, struct ri_problem *p, const rondo_tile_t *tile)
{
    int err;

    ri_box_poison(&p->part_o);
    ri_box_poison(&p->part_lse);
    err = call_forward(c, p, tile, 1, &p->part_o, &p->part_lse);
    for (int64_t b = 0; b < p->n.batch && !err; b++)
        for (int64_t i = tile->q_first; i < tile->q_first + tile->q_count && !err; i++)
            for (int h = 0; h < p->n.q_heads && !err; h++) {
                err = check_empty_row(c, p, b, i, h);
                fold_row(p, b, i, h);
            }
    return err;
}

int ri_run_forward(struct ri_probe *c, struct ri_problem *p, const rondo_tile_t *tiles, int count)
{
    struct ri_probe_block *mark = c->blocks;
    int err = 0;

    if (c->kernel->flags & RONDO_KERNEL_MERGES)
        err = call_forward(c, p, tiles, count, &p->out[RI_OUT_O], &p->out[RI_OUT_LSE]);
    else
        for (int t = 0; t < count && !err; t++)
            err = one_partial(c, p, &tiles[t]);
    ri_probe_release(c, mark);
    return err;
}

static int call_backward(struct ri_probe *c, struct ri_problem *p, const rondo_tile_t *tiles, int count)
{
    const rondo_kernel_t *kernel = c->kernel;
    int needs_o = (kernel->flags & RONDO_KERNEL_NEEDS_O) != 0, err, status;
    const struct ri_box *dq = &p->out[RI_OUT_DQ], *dk = &p->out[RI_OUT_DK], *dv = &p->out[RI_OUT_DV];
    struct workspace w;
    struct tokens tokens = { no_rows, no_rows };
    rondo_kernel_backward_t args = {
        .struct_bytes = sizeof(args), .shape = &p->shape, .tiles = tiles, .tile_count = count,
        .q_tokens = p->n.q_tokens, .k_tokens = p->n.k_tokens, .q = p->q.view, .k = p->k.view, .v = p->v.view,
        .d_o = p->d_o.view, .lse = p->row_lse.view, .dq = dq->view, .dk = dk->view, .dv = dv->view, .seed = p->seed,
        .poll = p->polls ? poll : NULL, .poller = p->polls,
    };

    if (needs_o)
        args.o = p->row_o.view;
    else
        args.delta = p->delta.view;
    err = make_workspace(c, p, &w);
    if (!err)
        err = make_tokens(c, p, tiles, count, &tokens);
    if (err)
        return err;
    const struct watched list[] = { { "q", &p->q, no_rows }, { "k", &p->k, no_rows }, { "v", &p->v, no_rows },
                                    { "dO", &p->d_o, no_rows }, { "lse", &p->row_lse, no_rows },
                                    { "delta", &p->delta, no_rows }, { "o", &p->row_o, no_rows },
                                    { "dq", dq, tokens.queries }, { "dk", dk, tokens.keys },
                                    { "dv", dv, tokens.keys } };
    enum { COUNT = sizeof(list) / sizeof(list[0]) };
    args.workspace = w.memory;
    keep_all(list, COUNT);
    status = kernel->backward(kernel->context, &args);
    err = check_status(c, p, "backward", status);
    if (!err)
        err = check_workspace(c, &w);
    return err ? err : check_all(c, list, COUNT);
}

int ri_run_backward(struct ri_probe *c, struct ri_problem *p, const rondo_tile_t *tiles, int count)
{
    int at_once = c->kernel->flags & RONDO_KERNEL_MERGES ? count : 1, err = 0;
    struct ri_probe_block *mark = c->blocks;

    for (int t = 0; t < count && !err; t += at_once)
        err = call_backward(c, p, tiles + t, at_once);
    ri_probe_release(c, mark);
    return err;
}
