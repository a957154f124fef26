/* SPDX-License-Identifier: Apache-2.0 */
/* The verifier of rondo_ring finds what it is there to find. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "perf/ring_block.h"

enum { RANKS = 3, RANK = 1, TOKENS = 4, QK = 3, V = 2 };

/* Blocks of all ranks, as a ring would bring them to RANK. */
struct ring {
    struct ring_check check;
    float k[RANKS][TOKENS * QK], v[RANKS][TOKENS * V];
};

static void set_up(struct ring *ring, uint32_t iteration)
{
    struct ring_shape shape = {.ranks = RANKS, .tokens = TOKENS, .qk_dim = QK, .v_dim = V};

    memset(ring, 0, sizeof(*ring));
    for (int r = 0; r < RANKS; r++) {
        shape.rank = r;
        ring_fill(&shape, iteration, ring->k[r], ring->v[r]);
    }
    shape.rank = RANK;
    ring->check.shape = shape;
}

static rondo_tile_t full_tile(int owner, int64_t q_first, int64_t q_count)
{
    return (rondo_tile_t){.q_first = q_first,
                          .q_count = q_count,
                          .k_first = 0,
                          .k_count = TOKENS,
                          .lo = 1 - TOKENS,
                          .hi = q_count - 1,
                          .q_start = RANK * TOKENS + q_first,
                          .q_step = 1,
                          .k_start = owner * TOKENS,
                          .k_step = 1,
                          .kind = RONDO_TILE_FULL};
}

static void give(struct ring *ring, int slot, rondo_tile_t tile)
{
    rondo_kernel_forward_t args = {.struct_bytes = sizeof(args), .tiles = &tile, .tile_count = 1};

    args.k = (rondo_tensor_t){ring->k[slot], TOKENS * QK, QK, QK};
    args.v = (rondo_tensor_t){ring->v[slot], TOKENS * V, V, V};
    assert_int_equal(ring_forward(&ring->check, &args), 0);
}

/* A block in one piece; slot: whose bytes are really there. */
static void give_block(struct ring *ring, int owner, int slot)
{
    give(ring, slot, full_tile(owner, 0, TOKENS));
}

static void a_good_rotation_passes(void **state)
{
    struct ring ring;

    set_up(&ring, 7);
    ring_check_begin(&ring.check, 7);
    give_block(&ring, 1, 1);
    give(&ring, 0, full_tile(0, 0, 3)); /* in two pieces */
    give(&ring, 0, full_tile(0, 3, 1));
    give_block(&ring, 2, 2);
    assert_int_equal(ring_check_end(&ring.check), 0);
    assert_string_equal(ring.check.first, "");
}

static void a_stale_iteration_is_found(void **state)
{
    struct ring ring;

    set_up(&ring, 7);
    ring_check_begin(&ring.check, 8);
    give_block(&ring, 1, 1);
    give_block(&ring, 0, 0);
    give_block(&ring, 2, 2);
    assert_true(ring_check_end(&ring.check) > RANKS * TOKENS * (QK + V) / 2);
    assert_non_null(strstr(ring.check.first, "instead of"));
}

static void another_ranks_bytes_are_found(void **state)
{
    struct ring ring;

    set_up(&ring, 1);
    ring_check_begin(&ring.check, 1);
    give_block(&ring, 1, 1);
    give_block(&ring, 0, 2);
    give_block(&ring, 2, 2);
    assert_int_equal(ring_check_end(&ring.check), TOKENS * (QK + V));
}

static void one_wrong_element_is_found(void **state)
{
    struct ring ring;

    for (int i = 0; i < TOKENS * V; i++) {
        set_up(&ring, 2);
        ring.v[2][i] += 1;
        ring_check_begin(&ring.check, 2);
        give_block(&ring, 1, 1);
        give_block(&ring, 0, 0);
        give_block(&ring, 2, 2);
        assert_int_equal(ring_check_end(&ring.check), 1);
    }
}

static void a_slot_overwritten_in_mid_block_is_found(void **state)
{
    struct ring ring;

    set_up(&ring, 3);
    ring_check_begin(&ring.check, 3);
    give_block(&ring, 1, 1);
    give(&ring, 0, full_tile(0, 0, 2));
    ring.k[0][0] += 1;
    give(&ring, 0, full_tile(0, 2, 2));
    give_block(&ring, 2, 2);
    assert_int_equal(ring_check_end(&ring.check), 1);
}

static void the_wrong_order_is_found(void **state)
{
    struct ring ring;

    set_up(&ring, 4);
    ring_check_begin(&ring.check, 4);
    give_block(&ring, 1, 1);
    give_block(&ring, 2, 2);
    give_block(&ring, 0, 0);
    assert_int_equal(ring_check_end(&ring.check), 2);
}

static void a_missing_block_is_found(void **state)
{
    struct ring ring;

    set_up(&ring, 5);
    ring_check_begin(&ring.check, 5);
    give_block(&ring, 1, 1);
    give_block(&ring, 0, 0);
    assert_int_equal(ring_check_end(&ring.check), 1);
    ring_check_begin(&ring.check, 5);
    assert_int_equal(ring_check_end(&ring.check), 1);
}

static void queries_left_out_are_found(void **state)
{
    struct ring ring;

    set_up(&ring, 6);
    ring_check_begin(&ring.check, 6);
    give_block(&ring, 1, 1);
    give(&ring, 0, full_tile(0, 0, TOKENS - 1));
    give_block(&ring, 2, 2);
    assert_int_equal(ring_check_end(&ring.check), 1);
}

static void does_nothing_when_off(void **state)
{
    struct ring ring;

    set_up(&ring, 1);
    give_block(&ring, 2, 0);
    assert_int_equal(ring.check.blocks, 0);
    assert_int_equal(ring.check.wrong, 0);
}

static void shapes_hold_their_bytes(void **state)
{
    struct ring_shape shape;
    size_t multiple;

    for (size_t bytes = 8; bytes <= 70000; bytes += 8) {
        assert_int_equal(ring_shape_init(&shape, bytes, 0, 0, &multiple), 0);
        assert_true(shape.tokens > 0 && shape.qk_dim > 0 && shape.v_dim > 0);
        assert_int_equal(
            (size_t)shape.tokens * (size_t)(shape.qk_dim + shape.v_dim) * sizeof(float), bytes);
    }
    assert_int_equal(ring_shape_init(&shape, 0, 0, 0, &multiple), -1);
    assert_int_equal(ring_shape_init(&shape, 12, 0, 0, &multiple), -1);
    assert_int_equal(multiple, 8);
    assert_int_equal(ring_shape_init(&shape, 4096, 64, 64, &multiple), 0);
    assert_int_equal(shape.tokens, 8);
    assert_int_equal(ring_shape_init(&shape, 4000, 64, 64, &multiple), -1);
    assert_int_equal(multiple, 512);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_rotation_passes),
        cmocka_unit_test(a_stale_iteration_is_found),
        cmocka_unit_test(another_ranks_bytes_are_found),
        cmocka_unit_test(one_wrong_element_is_found),
        cmocka_unit_test(a_slot_overwritten_in_mid_block_is_found),
        cmocka_unit_test(the_wrong_order_is_found),
        cmocka_unit_test(a_missing_block_is_found),
        cmocka_unit_test(queries_left_out_are_found),
        cmocka_unit_test(does_nothing_when_off),
        cmocka_unit_test(shapes_hold_their_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
