/* SPDX-License-Identifier: Apache-2.0 */
/* One plan for batches with other documents, other padding and other keys: results are those of a plan made for
 * each batch, to the bit. */
#include "tests/e2e/attend.h"

#include <stdio.h>

#include "tests/short.h"

#define DOCUMENTS(slots, lengths) { sizeof(slots) / sizeof((slots)[0]), slots, lengths }

enum { BATCHES = 5, RANKS = 3, BY_DOCUMENTS = 0, BY_LAYOUT = 1 };

/* The plan is made for the first batch and bound to each of them; beside it each has a plan of its own. */
struct batches {
    struct masked p[BATCHES];
    struct team *bound[BATCHES], *fresh[BATCHES];
    struct setting s;
    int way;
};

static int is_crossed(const struct masked *p)
{
    return p->is->docs[KEYS] != NULL;
}

static int make_layouts(const struct batches *all, const struct masked *p, rondo_layout_t *layouts)
{
    int err = setting_layout(&all->s, p, QUERIES, RANKS, &layouts[QUERIES]);

    layouts[KEYS] = layouts[QUERIES];
    return err || !is_crossed(p) ? err : setting_layout(&all->s, p, KEYS, RANKS, &layouts[KEYS]);
}

static void free_layouts(rondo_layout_t *layouts)
{
    if (layouts[KEYS] != layouts[QUERIES])
        rondo_layout_destroy(layouts[KEYS]);
    rondo_layout_destroy(layouts[QUERIES]);
}

static int bind(const struct batches *all, rondo_plan_t plan, const struct masked *p, rondo_layout_t *layouts)
{
    if (all->way == BY_LAYOUT)
        return rondo_plan_bind_layout(plan, layouts[QUERIES], is_crossed(p) ? layouts[KEYS] : NULL);
    return rondo_plan_bind(plan, p->tokens[QUERIES], p->cu[QUERIES], p->is->docs[QUERIES]->documents);
}

static int run_batch(struct batches *all, int i, rondo_comm_t comm, int rank, rondo_plan_t plan)
{
    rondo_layout_t layouts[2] = { NULL, NULL };
    int err = make_layouts(all, &all->p[i], layouts);

    err = err ? err : bind(all, plan, &all->p[i], layouts);
    err = err ? err : team_run_plan(all->bound[i], plan, layouts, rank, &all->p[i]);
    free_layouts(layouts);
    return err ? err : team_run(all->fresh[i], comm, rank, &all->p[i], &all->s);
}

static int run_batches(int rank, int ranks, void *arg)
{
    struct batches *all = arg;
    rondo_layout_t layouts[2] = { NULL, NULL };
    rondo_comm_t comm = NULL;
    rondo_plan_t plan = NULL;
    int err = team_join(all->bound[0], rank, &comm);

    (void)ranks;
    err = err ? err : make_layouts(all, &all->p[0], layouts);
    err = err ? err : setting_plan(&all->s, &all->p[0], comm, layouts, NULL, &plan);
    for (int i = 0; i < BATCHES && !err; i++)
        err = run_batch(all, i, comm, rank, plan);
    if (err)
        fprintf(stderr, "# rank %d: %s: %s\n", rank, rondo_strerror(err), rondo_last_error());
    rondo_plan_destroy(plan);
    free_layouts(layouts);
    rondo_comm_destroy(comm);
    return err;
}

static void is_same_batch(const struct batches *all, int i)
{
    const struct answer *a = &all->bound[i]->answer, *b = &all->fresh[i]->answer;
    const struct judged j = judge_answer(all->fresh[i], &all->p[i]);
    size_t q = (size_t)all->p[i].tokens[QUERIES] * 2 * sizeof(float);
    size_t k = (size_t)all->p[i].tokens[KEYS] * 2 * sizeof(float);

    for (int out = 0; out < OUTS; out++)
        assert_true(j.worst[out] <= 1e-5);
    assert_memory_equal(a->o, b->o, q * 32);
    assert_memory_equal(a->lse, b->lse, q);
    assert_memory_equal(a->dq, b->dq, q * 32);
    assert_memory_equal(a->dk, b->dk, k * 32);
    assert_memory_equal(a->dv, b->dv, k * 32);
    assert_memory_equal(a->pairs, b->pairs, RANKS * sizeof(*a->pairs));
}

static void rebind(struct batches *all, const struct mask_case *cases)
{
    for (int i = 0; i < BATCHES; i++) {
        masked_init(&all->p[i], &cases[i], (uint64_t)i + 1);
        all->bound[i] = team_create("self", RANKS, 1, &all->p[i], 1);
        all->fresh[i] = team_create("self", RANKS, 1, &all->p[i], 1);
        team_poison(all->bound[i], &all->p[i]);
        team_poison(all->fresh[i], &all->p[i]);
    }
    assert_int_equal(run_ranks(RANKS, 0, 60, run_batches, all), 0);
    for (int i = 0; i < BATCHES; i++) {
        is_same_batch(all, i);
        team_destroy(all->bound[i]);
        team_destroy(all->fresh[i]);
        masked_release(&all->p[i]);
    }
}

/* ---- batches: the first is the longest, and comes again in the end ---- */

static const int64_t most[] = { 30, 28, 24, 12, 25, 9 }, one[] = { 97 }, some[] = { 0, 1, 17, 0, 10, 5, 0, 3 };
static const int64_t singles[] = { 1, 1, 1, 1, 1, 1, 1, 1 };
static const int64_t most_used[] = { 30, 20, 24, 1, 25, 0 }, one_used[] = { 80 };
static const int64_t some_used[] = { 0, 0, 13, 0, 10, 4, 0, 3 }, singles_used[] = { 1, 0, 1, 1, 0, 1, 1, 0 };
static const int64_t most_keys[] = { 10, 40, 24, 0, 30, 16 }, one_keys[] = { 60 };
static const int64_t some_keys[] = { 3, 2, 0, 20, 1, 0, 9, 5 }, singles_keys[] = { 0, 1, 2, 3, 1, 1, 1, 1 };

static const struct packing whole[BATCHES] = {
    DOCUMENTS(most, NULL), DOCUMENTS(one, NULL), DOCUMENTS(some, NULL), DOCUMENTS(singles, NULL), DOCUMENTS(most, NULL),
}, padded[BATCHES] = {
    DOCUMENTS(most, most_used), DOCUMENTS(one, one_used), DOCUMENTS(some, some_used), DOCUMENTS(singles, singles_used),
    DOCUMENTS(most, NULL),
}, keys[BATCHES] = {
    DOCUMENTS(most_keys, NULL), DOCUMENTS(one_keys, NULL), DOCUMENTS(some_keys, NULL), DOCUMENTS(singles_keys, NULL),
    DOCUMENTS(most_keys, NULL),
};

static int64_t slots_of(const struct packing *docs)
{
    int64_t sum = 0;

    for (int d = 0; d < docs->documents; d++)
        sum += docs->slots[d];
    return sum;
}

/* Masks, deals and backwards change from run to run; q_docs and k_docs: [BATCHES]. */
static void rebind_all(int way, int kinds, const struct packing *q_docs, const struct packing *k_docs)
{
    static const rondo_mask_t masks[] = { RONDO_MASK_CAUSAL, RONDO_MASK_FULL, RONDO_MASK_WINDOW, RONDO_MASK_PREFIX };

    for (int n = 0; n < 4 * kinds; n += test_is_short() ? 5 : 1) {
        rondo_layout_kind_t kind = (rondo_layout_kind_t)(n % kinds);
        struct batches all = { .s = setting_of(kind, n % 2 ? "direct" : "ring", n / 2 % 2 ? "q-grad" : "kv-grad"),
                               .way = way };
        struct mask_case cases[BATCHES];

        all.s.deal = n / kinds % 2 && kind != RONDO_LAYOUT_BALANCED ? RONDO_DEAL_DOCUMENTS : RONDO_DEAL_SEQUENCE;
        all.s.max_documents = 8;
        all.s.chunk_tokens = 5;
        for (int i = 0; i < BATCHES; i++)
            cases[i] = (struct mask_case){
                .group = "batch", .name = "packed", .mask = masks[n / kinds], .params = { .left = 9, .prefix = 7 },
                .tokens = { slots_of(&q_docs[i]), k_docs ? slots_of(&k_docs[i]) : 0 },
                .docs = { &q_docs[i], k_docs ? &k_docs[i] : NULL }, .shape = 5,
            };
        rebind(&all, cases);
    }
}

static void other_documents(void **state)
{
    (void)state;
    rebind_all(BY_DOCUMENTS, 4, whole, NULL);
}

static void other_layouts_with_padding(void **state)
{
    (void)state;
    rebind_all(BY_LAYOUT, 4, padded, NULL);
}

static void other_keys(void **state)
{
    (void)state;
    rebind_all(BY_LAYOUT, 3, whole, keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_documents),
        cmocka_unit_test(other_layouts_with_padding),
        cmocka_unit_test(other_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
