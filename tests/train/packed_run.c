/* SPDX-License-Identifier: Apache-2.0 */
#include "packed_run.h"

#include "check.h"

#include "examples/train/sequence.h"
#include "tests/ranks.h"

const struct model_sizes packed_sizes = { 2, 8, 4, 2, 4, 10, PACKED_VOCAB };

struct shared {
    struct meeting meeting;
    struct packed *c;
    float *gradients; /* [ranks][count] */
    double nats[8];
    int64_t valid[8];
};

struct packed packed_case(int ranks)
{
    struct packed c;
    uint64_t random = 11;

    memset(&c, 0, sizeof(c));
    c.ranks = ranks;
    c.options = (struct options){ .layout = "zigzag", .deal = "sequence", .dtype = "fp32",
                                  .schedule = "ring", .backward = "auto", .sizes = packed_sizes };
    for (int t = 0; t < PACKED_TOKENS; t++)
        c.tokens[t] = (int32_t)(random_bits(&random) % PACKED_VOCAB);
    return c;
}

void packed_documents(struct packed *c)
{
    static const int64_t edges[] = { 0, 1, 9, 10, 24, 29 };

    c->documents = 5;
    memcpy(c->edges, edges, sizeof(edges));
}

void packed_weights(struct weights *w)
{
    uint64_t random = 77;

    if (weights_init(w, &packed_sizes))
        abort();
    weights_randomise(w, &packed_sizes, 3);
    for (size_t i = 0; i < w->count; i++)
        w->arena[i] += 0.1f * (float)random_normal(&random); /* gains other than 1 */
}

/* Forward, loss and backward of the documents that s->edges has; leaves what came of it in shared. */
static rondo_status_t one_step(struct shared *shared, struct sequence *s, struct parallel *p,
                               struct weights *w, struct weights *g, struct acts *a)
{
    struct packed *c = shared->c;
    int rank = p->info.rank;
    int64_t positions[PACKED_TOKENS];
    struct loss_sum loss;
    rondo_status_t status = sequence_cut(s, p);

    acts_fit(a, s->positions, s->n);
    memset(g->arena, 0, g->count * sizeof(float));
    if (!status)
        status = model_forward(&packed_sizes, w, a, s->plan, s->shard);
    if (!status)
        status = rondo_layout_positions(s->layout, rank, positions);
    if (status)
        return status;
    for (int64_t i = 0; i < s->n; i++) {
        memcpy(c->logits[positions[i]], a->logits + i * PACKED_VOCAB, sizeof(c->logits[0]));
        c->counted[positions[i]] = s->targets[i] != RONDO_IGNORE;
    }
    loss = cross_entropy_forward(a->logits, s->targets, s->n, PACKED_VOCAB);
    shared->nats[rank] = loss.nats;
    shared->valid[rank] = loss.valid;
    cross_entropy_backward(a->logits, s->targets, s->n, PACKED_VOCAB, 1.0f);
    status = model_backward(&packed_sizes, w, g, a, s->plan, s->shard);
    memcpy(shared->gradients + (size_t)rank * g->count, g->arena, g->count * sizeof(float));
    return status;
}

/* Binds, and steps; before that, with other documents when the case says so. */
static rondo_status_t steps(struct shared *shared, struct sequence *s, struct parallel *p,
                            struct weights *w, struct weights *g, struct acts *a)
{
    static const int64_t others[] = { 0, 13, 14, PACKED_TOKENS };
    struct packed *c = shared->c;
    rondo_status_t status = RONDO_OK;

    memcpy(s->whole, c->tokens, sizeof(c->tokens));
    if (c->rebind) {
        memcpy(s->edges, others, sizeof(others));
        status = sequence_fit(s, p, 3);
        if (!status)
            status = one_step(shared, s, p, w, g, a);
    }
    if (!status && c->documents) {
        memcpy(s->edges, c->edges, sizeof(c->edges));
        status = sequence_fit(s, p, c->documents);
    }
    return status ? status : one_step(shared, s, p, w, g, a);
}

static int rank_main(int rank, int ranks, void *arg)
{
    struct shared *shared = arg;
    struct packed *c = shared->c;
    struct parallel p = { .info = RONDO_COMM_INFO_INIT };
    rondo_config_t config = RONDO_CONFIG_INIT;
    struct sequence s;
    struct weights w, g;
    struct acts a;
    rondo_status_t status;

    config.transport = "self";
    if (meet(&shared->meeting, rank, ranks, &config, &p.comm) || rondo_comm_query(p.comm, &p.info) ||
        weights_init(&g, &packed_sizes))
        return 1;
    packed_weights(&w);
    if (sequence_init(&s, &p, &c->options, PACKED_TOKENS, c->documents ? PACKED_MOST : 0, 0))
        return 1;
    if (acts_init(&a, p.comm, &packed_sizes, options_dtype(&c->options), s.room))
        return 1;
    status = s.n <= s.room ? steps(shared, &s, &p, &w, &g, &a) : RONDO_ERR_INTERNAL;
    acts_release(&a);
    sequence_release(&s);
    weights_release(&w);
    weights_release(&g);
    rondo_comm_destroy(p.comm);
    return status != RONDO_OK;
}

/* Sums over ranks in double, in their order. */
static void collect(struct packed *c, const struct shared *shared)
{
    c->gradients = calloc(c->count, sizeof(*c->gradients));
    c->nats = 0.0;
    c->valid = 0;
    for (int r = 0; r < c->ranks; r++) {
        c->nats += shared->nats[r];
        c->valid += shared->valid[r];
        for (size_t i = 0; i < c->count; i++)
            c->gradients[i] += (double)shared->gradients[(size_t)r * c->count + i];
    }
}

void packed_run(struct packed *c)
{
    struct shared shared;
    struct weights w;

    memset(&shared, 0, sizeof(shared));
    packed_weights(&w);
    c->count = w.count;
    weights_release(&w);
    packed_release(c);
    shared.c = c;
    shared.gradients = calloc((size_t)c->ranks * c->count, sizeof(float));
    assert_int_equal(run_ranks(c->ranks, 0, 60, rank_main, &shared), 0);
    collect(c, &shared);
    free(shared.gradients);
}

void packed_release(struct packed *c)
{
    free(c->gradients);
    c->gradients = NULL;
}

double packed_difference(const struct packed *a, const struct packed *b)
{
    double difference = 0.0, size = 0.0;

    for (size_t i = 0; i < a->count; i++) {
        difference += (a->gradients[i] - b->gradients[i]) * (a->gradients[i] - b->gradients[i]);
        size += a->gradients[i] * a->gradients[i];
    }
    return sqrt(difference / size);
}
