/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that run settings, where their results come together, and a kernel that counts. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/e2e/masks_run.h"

/* ---- the team ---- */

static size_t take_memory(char **at, size_t bytes)
{
    *at += (bytes + 63) / 64 * 64;
    return (bytes + 63) / 64 * 64;
}

/* Lays an answer out in memory, or with base NULL says what it takes. */
static size_t lay_out(struct answer *a, char *base, const struct masked *p, int ranks)
{
    size_t q = (size_t)(p->batch * p->tokens[QUERIES] * p->q_heads) * sizeof(float);
    size_t k = (size_t)(p->batch * p->tokens[KEYS] * p->kv_heads) * sizeof(float);
    size_t pairs = (size_t)(p->tokens[QUERIES] * p->tokens[KEYS]);
    size_t bytes[] = { q * (size_t)p->v_dim, q, q * (size_t)p->qk_dim, k * (size_t)p->qk_dim, k * (size_t)p->v_dim,
                       (size_t)(ranks * p->q_heads) * sizeof(float), (size_t)ranks * sizeof(*a->pairs), pairs, pairs };
    char *at = base, *parts[9];
    size_t sum = 0;

    for (int i = 0; i < 9; i++) {
        parts[i] = at;
        sum += take_memory(&at, bytes[i]);
    }
    if (base) {
        a->o = (float *)parts[0], a->lse = (float *)parts[1], a->dq = (float *)parts[2];
        a->dk = (float *)parts[3], a->dv = (float *)parts[4], a->d_sinks = (float *)parts[5];
        a->pairs = (uint64_t (*)[2])parts[6];
        a->met[0] = (_Atomic uint8_t *)parts[7], a->met[1] = (_Atomic uint8_t *)parts[8];
    }
    return sum;
}

struct team *team_create(const char *transport, int ranks, int hosts, const struct masked *problems, int count)
{
    struct team *team = shared_memory(sizeof(*team));

    team->transport = transport, team->ranks = ranks, team->hosts = hosts;
    for (int i = 0; i < count; i++) {
        size_t bytes = lay_out(NULL, NULL, &problems[i], ranks);

        team->answer_bytes = bytes > team->answer_bytes ? bytes : team->answer_bytes;
    }
    team->answer_memory = shared_memory(team->answer_bytes);
    return team;
}

void team_destroy(struct team *team)
{
    shared_memory_release(team->answer_memory, team->answer_bytes);
    shared_memory_release(team, sizeof(*team));
}

int team_gather(struct team *team)
{
    int round = atomic_load(&team->round);

    if (atomic_fetch_add(&team->come, 1) + 1 == team->ranks) {
        atomic_store(&team->come, 0);
        atomic_fetch_add(&team->round, 1);
    }
    while (atomic_load(&team->round) == round && !atomic_load(&team->failed))
        sched_yield();
    return atomic_load(&team->failed) ? RONDO_ERR_PEER : 0;
}

void team_fail(struct team *team)
{
    atomic_store(&team->failed, 1);
}

void team_poison(struct team *team, const struct masked *p)
{
    struct answer *a = &team->answer;

    lay_out(a, team->answer_memory, p, team->ranks);
    memset(team->answer_memory, 0xff, (size_t)((char *)a->pairs - (char *)team->answer_memory));
    memset(a->pairs, 0, (size_t)team->ranks * sizeof(*a->pairs));
    for (int pass = 0; pass < 2; pass++)
        memset((void *)a->met[pass], 0, (size_t)(p->tokens[QUERIES] * p->tokens[KEYS]));
    atomic_store(&a->strays, 0);
}

int team_join(struct team *team, int rank, rondo_comm_t *comm)
{
    rondo_config_t config = RONDO_CONFIG_INIT;
    char host[16];

    snprintf(host, sizeof(host), "host%d", host_of(rank, team->ranks, team->hosts));
    config.transport = team->transport;
    config.host_id = host;
    return meet(&team->meeting, rank, team->ranks, &config, comm);
}

/* ---- a kernel that counts ---- */

struct counter {
    const rondo_kernel_t *kernel;
    struct answer *answer;
    int64_t tokens[2];
};

static void count_pair(struct counter *c, int pass, int64_t i, int64_t j)
{
    if (i < 0 || i >= c->tokens[QUERIES] || j < 0 || j >= c->tokens[KEYS])
        atomic_fetch_add(&c->answer->strays, 1);
    else
        atomic_fetch_add_explicit(&c->answer->met[pass][i * c->tokens[KEYS] + j], 1, memory_order_relaxed);
}

/* Pair by pair, by what the band says and not by its kind. */
static void count_tiles(struct counter *c, int pass, const rondo_kernel_shape_t *shape, const rondo_tile_t *tiles,
                        int count)
{
    if (shape->first_batch || shape->first_head)
        return;
    for (const rondo_tile_t *t = tiles; t < tiles + count; t++)
        for (int64_t i = 0; i < t->q_count; i++)
            for (int64_t j = 0; j < t->k_count; j++)
                if (t->kind == RONDO_TILE_FULL || (t->lo <= i - j && i - j <= t->hi))
                    count_pair(c, pass, t->q_start + i * t->q_step, t->k_start + j * t->k_step);
}

static size_t counted_workspace(void *context, const rondo_kernel_shape_t *shape)
{
    const rondo_kernel_t *kernel = ((struct counter *)context)->kernel;

    return kernel->workspace_bytes ? kernel->workspace_bytes(kernel->context, shape) : 0;
}

static int counted_forward(void *context, const rondo_kernel_forward_t *args)
{
    struct counter *c = context;

    count_tiles(c, 0, args->shape, args->tiles, args->tile_count);
    return c->kernel->forward(c->kernel->context, args);
}

static int counted_backward(void *context, const rondo_kernel_backward_t *args)
{
    struct counter *c = context;

    count_tiles(c, 1, args->shape, args->tiles, args->tile_count);
    return c->kernel->backward(c->kernel->context, args);
}

static rondo_kernel_t counted(struct counter *c, const char *name)
{
    rondo_kernel_t kernel;

    c->kernel = rondo_kernel_find(name ? name : "flash");
    kernel = *c->kernel;
    kernel.context = c;
    kernel.workspace_bytes = counted_workspace;
    kernel.forward = counted_forward;
    kernel.backward = counted_backward;
    return kernel;
}

/* ---- all of it ---- */

static int run(struct team *team, rondo_comm_t comm, int rank, const struct masked *p, const struct setting *s,
               rondo_layout_t *layouts)
{
    struct counter counter = { .answer = &team->answer, .tokens = { p->tokens[QUERIES], p->tokens[KEYS] } };
    rondo_kernel_t kernel = counted(&counter, s->kernel);
    rondo_plan_t plan = NULL;
    int err = setting_plan(s, p, comm, layouts, &kernel, &plan);

    if (!err)
        err = team_run_plan(team, plan, layouts, rank, p);
    rondo_plan_destroy(plan);
    return err;
}

int team_run(struct team *team, rondo_comm_t comm, int rank, const struct masked *p, const struct setting *s)
{
    rondo_layout_t layouts[2] = { NULL, NULL };
    int is_crossed = p->is->tokens[KEYS] || p->is->docs[KEYS];
    int err = setting_layout(s, p, QUERIES, team->ranks, &layouts[QUERIES]);

    layouts[KEYS] = layouts[QUERIES];
    if (!err && is_crossed)
        err = setting_layout(s, p, KEYS, team->ranks, &layouts[KEYS]);
    if (!err)
        err = run(team, comm, rank, p, s, layouts);
    if (is_crossed)
        rondo_layout_destroy(layouts[KEYS]);
    rondo_layout_destroy(layouts[QUERIES]);
    return err;
}

struct attend {
    struct team *team;
    const struct masked *problem;
    const struct setting *setting;
};

static int attend(int rank, int ranks, void *arg)
{
    struct attend *a = arg;
    rondo_comm_t comm = NULL;
    int err = team_join(a->team, rank, &comm);

    (void)ranks;
    if (!err)
        err = team_run(a->team, comm, rank, a->problem, a->setting);
    if (err)
        fprintf(stderr, "# rank %d: %s: %s\n", rank, rondo_strerror(err), rondo_last_error());
    rondo_comm_destroy(comm);
    return err;
}

int team_attend(struct team *team, const struct masked *p, const struct setting *s)
{
    struct attend a = { team, p, s };

    memset(&team->meeting, 0, sizeof(team->meeting));
    team_poison(team, p);
    return run_ranks(team->ranks, ranks_want_processes(team->transport), 60, attend, &a);
}
