/* SPDX-License-Identifier: Apache-2.0 */
/* The whole model on one rank, through a plan: loss against the model in double, gradients of all
 * weights against difference quotients of that. */
#include "check.h"
#include "reference.h"

#include <stdlib.h>

#include <rondo/rondo.h>

static const struct model_sizes sizes = { 2, 8, 4, 2, 4, 10, 7 };

enum { TOKENS = 13 };

struct rig {
    rondo_comm_t comm;
    rondo_layout_t layout;
    rondo_plan_t plan;
    struct weights w, g;
    struct acts acts;
    int32_t tokens[TOKENS], targets[TOKENS];
    double *w64; /* [w.count] */
};

static void make_plan(struct rig *r)
{
    rondo_layout_desc_t layout = RONDO_LAYOUT_DESC_INIT;
    rondo_attention_desc_t desc = RONDO_ATTENTION_DESC_INIT;
    rondo_unique_id_t id;

    layout.tokens = TOKENS;
    layout.ranks = 1;
    desc.q_heads = sizes.q_heads;
    desc.kv_heads = sizes.kv_heads;
    desc.qk_dim = sizes.head_dim;
    assert_int_equal(rondo_unique_id_get(&id), RONDO_OK);
    assert_int_equal(rondo_comm_create(&id, 0, 1, NULL, &r->comm), RONDO_OK);
    assert_int_equal(rondo_layout_create(&layout, &r->layout), RONDO_OK);
    assert_int_equal(rondo_attention_plan(r->comm, r->layout, &desc, NULL, &r->plan), RONDO_OK);
}

static int set_up(void **state)
{
    struct rig *r = calloc(1, sizeof(*r));
    int64_t positions[TOKENS];
    uint64_t random = 77;

    make_plan(r);
    assert_int_equal(weights_init(&r->w, &sizes), 0);
    assert_int_equal(weights_init(&r->g, &sizes), 0);
    weights_randomise(&r->w, &sizes, 3);
    r->w64 = calloc(r->w.count, sizeof(*r->w64));
    for (size_t i = 0; i < r->w.count; i++) {
        r->w.arena[i] += 0.1f * (float)random_normal(&random); /* gains other than 1 */
        r->w64[i] = (double)r->w.arena[i];
    }
    for (int t = 0; t < TOKENS; t++) {
        positions[t] = t;
        r->tokens[t] = (int32_t)(random_bits(&random) % (uint64_t)sizes.vocab);
        r->targets[t] = (int32_t)(random_bits(&random) % (uint64_t)sizes.vocab);
    }
    r->targets[TOKENS - 1] = RONDO_IGNORE;
    assert_int_equal(acts_init(&r->acts, NULL, &sizes, RONDO_F32, TOKENS), 0);
    acts_fit(&r->acts, positions, TOKENS);
    *state = r;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *r = *state;

    acts_release(&r->acts);
    weights_release(&r->w);
    weights_release(&r->g);
    rondo_plan_destroy(r->plan);
    rondo_layout_destroy(r->layout);
    rondo_comm_destroy(r->comm);
    free(r->w64);
    free(r);
    return 0;
}

/* Forward, loss, backward with scale 1; returns the summed loss. */
static double run(struct rig *r)
{
    struct loss_sum loss;

    memset(r->g.arena, 0, r->g.count * sizeof(float));
    assert_int_equal(model_forward(&sizes, &r->w, &r->acts, r->plan, r->tokens), RONDO_OK);
    loss = cross_entropy_forward(r->acts.logits, r->targets, TOKENS, sizes.vocab);
    assert_int_equal(loss.valid, TOKENS - 1);
    cross_entropy_backward(r->acts.logits, r->targets, TOKENS, sizes.vocab, 1.0f);
    assert_int_equal(model_backward(&sizes, &r->w, &r->g, &r->acts, r->plan, r->tokens),
                     RONDO_OK);
    return loss.nats;
}

static double loss64(void *context)
{
    struct rig *r = context;

    return reference_model(&sizes, r->w64, r->tokens, r->targets, TOKENS);
}

static void loss_agrees(void **state)
{
    struct rig *r = *state;

    check_close(run(r), loss64(r), 2e-6, "loss", 0);
}

/* Every weight of every tensor. */
static void gradients_agree(void **state)
{
    struct rig *r = *state;

    run(r);
    for (int i = 0; i < model_tensors(&sizes); i++) {
        struct model_tensor tensor = model_tensor(&sizes, i);

        for (size_t j = tensor.first; j < tensor.first + tensor.count; j++)
            check_close((double)r->g.arena[j], reference_slope(loss64, r, r->w64 + j), 2e-5,
                        tensor.name, (int64_t)(j - tensor.first));
    }
}

/* pytorch/torchtitan#1522: recomputing the forward must change nothing. */
static void second_forward_is_bitwise_the_first(void **state)
{
    struct rig *r = *state;
    size_t bytes = r->g.count * sizeof(float);
    float *first = malloc(bytes);
    double loss = run(r);

    memcpy(first, r->g.arena, bytes);
    assert_int_equal(model_forward(&sizes, &r->w, &r->acts, r->plan, r->tokens), RONDO_OK);
    assert_true(run(r) == loss);
    assert_memory_equal(r->g.arena, first, bytes);
    free(first);
}

static void later_tokens_change_no_earlier_logits(void **state)
{
    struct rig *r = *state;
    size_t bytes = (size_t)(8 * sizes.vocab) * sizeof(float);
    float first[8 * 7];

    assert_int_equal(model_forward(&sizes, &r->w, &r->acts, r->plan, r->tokens), RONDO_OK);
    memcpy(first, r->acts.logits, bytes);
    for (int t = 8; t < TOKENS; t++)
        r->tokens[t] = (r->tokens[t] + 1) % sizes.vocab;
    assert_int_equal(model_forward(&sizes, &r->w, &r->acts, r->plan, r->tokens), RONDO_OK);
    assert_memory_equal(r->acts.logits, first, bytes);
}

static void tensors_tile_the_arena(void **state)
{
    struct rig *r = *state;
    size_t next = 0;

    for (int i = 0; i < model_tensors(&sizes); i++) {
        struct model_tensor tensor = model_tensor(&sizes, i);

        assert_true(tensor.first == next && tensor.count > 0);
        next += tensor.count;
    }
    assert_true(next == r->w.count);
    assert_ptr_equal(r->w.embedding, r->w.arena);
    assert_ptr_equal(r->w.layers[0].attn_norm, r->w.arena + 7 * 8);
    assert_ptr_equal(r->w.head, r->w.arena + r->w.count - 7 * 8);
}

static void start_depends_on_the_seed_alone(void **state)
{
    struct rig *r = *state;
    size_t bytes = r->w.count * sizeof(float);

    weights_randomise(&r->w, &sizes, 9);
    weights_randomise(&r->g, &sizes, 9);
    assert_memory_equal(r->w.arena, r->g.arena, bytes);
    weights_randomise(&r->g, &sizes, 10);
    assert_memory_not_equal(r->w.arena, r->g.arena, bytes);
    assert_true(r->w.layers[1].ffn_norm[3] == 1.0f);
}

static void perturbing_moves_by_one_unit_in_the_last_place(void **state)
{
    struct rig *r = *state;
    size_t up = 0;

    memcpy(r->g.arena, r->w.arena, r->w.count * sizeof(float));
    weights_perturb(&r->w, 4);
    for (size_t i = 0; i < r->w.count; i++) {
        assert_true(r->w.arena[i] != r->g.arena[i]);
        assert_true(nextafterf(r->w.arena[i], r->g.arena[i]) == r->g.arena[i]);
        up += r->w.arena[i] > r->g.arena[i];
    }
    assert_true(up > r->w.count / 3 && up < r->w.count / 3 * 2);
}

static void impossible_sizes_are_named(void **state)
{
    struct model_sizes s = sizes;

    assert_null(model_sizes_refused(&s));
    s.head_dim = 5;
    assert_string_equal(model_sizes_refused(&s), "head-dim");
    s = sizes;
    s.kv_heads = 3;
    assert_string_equal(model_sizes_refused(&s), "kv-heads");
    s = sizes;
    s.q_heads = 1 << 20;
    assert_string_equal(model_sizes_refused(&s), "q-heads");
    s = sizes;
    s.layers = 0;
    assert_string_equal(model_sizes_refused(&s), "layers");
    s = sizes;
    s.hidden = -1;
    assert_string_equal(model_sizes_refused(&s), "hidden");
}

static void empty_shard_has_activations(void **state)
{
    struct acts a;

    assert_int_equal(acts_init(&a, NULL, &sizes, RONDO_F32, 0), 0);
    acts_fit(&a, NULL, 0);
    assert_non_null(a.arena);
    acts_release(&a);
    acts_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(loss_agrees, set_up, tear_down),
        cmocka_unit_test_setup_teardown(gradients_agree, set_up, tear_down),
        cmocka_unit_test_setup_teardown(second_forward_is_bitwise_the_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(later_tokens_change_no_earlier_logits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tensors_tile_the_arena, set_up, tear_down),
        cmocka_unit_test_setup_teardown(start_depends_on_the_seed_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(perturbing_moves_by_one_unit_in_the_last_place, set_up,
                                        tear_down),
        cmocka_unit_test(impossible_sizes_are_named),
        cmocka_unit_test(empty_shard_has_activations),
    };

    return cmocka_run_group_tests_name("train model", tests, NULL, NULL);
}
