/* SPDX-License-Identifier: Apache-2.0 */
/* The suite can fail: a kernel that does one thing wrong is found, by the case that is for it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include <rondo/status.h>

#include "tests/kernel/plain.h"

enum {
    ABLE = RONDO_KERNEL_BF16 | RONDO_KERNEL_F16 | RONDO_KERNEL_SOFTCAP | RONDO_KERNEL_DROPOUT,
    ALL = ABLE | RONDO_KERNEL_MERGES,
    POLLS = ALL | RONDO_KERNEL_POLLS
};

static const struct {
    enum fault fault;
    unsigned flags;
    const char *found_by;
} faults[] = {
    { FAULT_BAND, ALL, "forward.tile_window" },
    { FAULT_BAND, ALL, "backward.tile_bottom_right" },
    { FAULT_STRICT, ALL, "forward.tile_strict" },
    { FAULT_V_HEAD_STRIDE, ALL, "forward.strides_heads_first" },
    { FAULT_DO_PACKED, ALL, "backward.strides_mixed" },
    { FAULT_OUTSIDE, ALL, "forward.tiles_gaps_between" },
    { FAULT_FAR_WRITE, ALL, "backward.tiles_gaps_between" },
    { FAULT_NO_SCALE, ALL, "forward.heads_mha_1" },
    { FAULT_EMPTY_LSE, ABLE, "forward.empty_rows" },
    { FAULT_EMPTY_O, ABLE, "forward.empty_rows" },
    { FAULT_DQ_TWICE, ALL, "backward.tile_full" },
    { FAULT_DK_SET, ALL, "backward.gradients_add" },
    { FAULT_DV_SET, ALL, "backward.merge_slices_of_rows" },
    { FAULT_HIDDEN_V, ALL, "forward.hidden_nan" },
    { FAULT_KV_HEAD, ALL, "forward.heads_gqa_8_2" },
    { FAULT_LOCAL_POSITIONS, ALL, "forward.dropout_10" },
    { FAULT_BACKWARD_SEED, ALL, "backward.dropout_two_seeds" },
    { FAULT_NO_KEEP_FACTOR, ALL, "backward.dropout_50" },
    { FAULT_DROPPED_LSE, ALL, "forward.dropout_50" },
    { FAULT_FIRST_HEAD, ALL, "forward.dropout_of_a_part" },
    { FAULT_FIRST_BATCH, ALL, "backward.dropout_of_a_part" },
    { FAULT_NO_CAP, ALL, "forward.softcap_30" },
    { FAULT_CAP_SLOPE, ALL, "backward.softcap_near_4" },
    { FAULT_NO_DELTA, ALL, "backward.tile_causal" },
    { FAULT_WORKSPACE, ALL, "forward.size_64" },
    { FAULT_RUNNING, ALL, "forward.merge_any_order" },
    { FAULT_RUNNING, ALL, "forward.merge_sink" },
    { FAULT_NAN_LOST, ALL, "forward.seen_nan" },
    { FAULT_SMALL_MASKED, ALL, "forward.hugely_negative" },
    { FAULT_NO_TOP, ALL, "forward.large_scores" },
    { FAULT_SHORT_OFFSETS, ALL, "forward.strides_far_tokens" },
    { FAULT_SHORT_OFFSETS, ALL, "forward.strides_far_heads" },
    { FAULT_SHORT_OFFSETS, ALL, "backward.strides_far_batches" },
    { FAULT_ALIGNED, ALL, "forward.unaligned_1" },
    { FAULT_GAPS, ALL, "forward.strides_gaps" },
    { FAULT_F16, ALL, "forward.f16_40" },
    { FAULT_NO_LSE_TEST, ALL, "backward.rows_without_lse" },
    { FAULT_CHANCE, ALL, "forward.same_bits" },
    { FAULT_THREADS, ALL, "forward.threads" },
    { FAULT_INPUT, ALL, "forward.heads_mqa_4" },
    { FAULT_REFUSES, ALL, "backward.sizes_192_128" },
    { FAULT_FIRST_TILE, ALL, "forward.tiles_zigzag" },
    { FAULT_ONE_DIM, ALL, "forward.sizes_15_17" },
    { FAULT_POLL_LOST, POLLS, "forward.polls" },
    { FAULT_POLL_LOST, POLLS, "backward.polls" },
    { FAULT_POLL_ABSENT, POLLS, "backward.polls" },
    { FAULT_POLL_STRANGER, POLLS, "forward.polls" },
    { FAULT_LSE_BASE_2, ALL, "forward.tile_full" },
};

static int run(struct plain *p, const char *only, int *failed,
               void (*report)(void *, const char *, int, const char *), void *owner)
{
    rondo_kernel_check_options_t options = RONDO_KERNEL_CHECK_OPTIONS_INIT;
    rondo_kernel_t kernel = plain_kernel(p);

    options.only = only;
    options.report = report;
    options.owner = owner;
    return rondo_kernel_check(&kernel, &options, failed);
}

static void must_name_case(void *owner, const char *name, int status, const char *text)
{
    if (status < 0 && strncmp(text, name, strlen(name)) != 0)
        fail_msg("%s: the text is \"%s\"", name, text);
}

static void faults_are_found(void **state)
{
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        struct plain p = { faults[i].flags, faults[i].fault, 0 };
        int failed = 0;

        assert_int_equal(run(&p, faults[i].found_by, &failed, must_name_case, NULL), RONDO_OK);
        if (!failed)
            fail_msg("fault %d is not found by %s", (int)faults[i].fault, faults[i].found_by);
        p.fault = FAULT_NONE;
        assert_int_equal(run(&p, faults[i].found_by, &failed, must_name_case, NULL), RONDO_OK);
        assert_int_equal(failed, 0);
    }
}

static void count_skipped(void *owner, const char *name, int status, const char *text)
{
    int *skipped = owner;

    assert_true(status == 0 || (status == 1 && text[0]));
    *skipped += status == 1;
}

static void what_is_lacking_is_skipped(void **state)
{
    struct plain p = { RONDO_KERNEL_MERGES, FAULT_NONE, 0 };
    int failed = -1, skipped = 0;

    assert_int_equal(run(&p, "dropout_50", &failed, count_skipped, &skipped), RONDO_OK);
    assert_int_equal(skipped, 2);
    assert_int_equal(run(&p, "softcap_1", &failed, count_skipped, &skipped), RONDO_OK);
    assert_int_equal(skipped, 4);
    assert_int_equal(run(&p, "bf16_40", &failed, count_skipped, &skipped), RONDO_OK);
    assert_int_equal(run(&p, "f16_40", &failed, count_skipped, &skipped), RONDO_OK);
    assert_int_equal(skipped, 10); /* the second names both */
    assert_int_equal(failed, 0);
}

static void refuses(const rondo_kernel_t *kernel, const rondo_kernel_check_options_t *options, int *failed,
                    const char *word)
{
    assert_int_equal(rondo_kernel_check(kernel, options, failed), RONDO_ERR_ARGUMENT);
    if (!strstr(rondo_last_error(), word))
        fail_msg("\"%s\" does not say \"%s\"", rondo_last_error(), word);
}

static void bad_arguments_are_refused(void **state)
{
    rondo_kernel_check_options_t options = RONDO_KERNEL_CHECK_OPTIONS_INIT, bad = options;
    struct plain p = { ALL, FAULT_NONE, 0 };
    rondo_kernel_t kernel = plain_kernel(&p), broken = kernel;
    int failed = 77;

    refuses(NULL, &options, &failed, "kernel");
    refuses(&kernel, NULL, &failed, "options");
    refuses(&kernel, &options, NULL, "failed");
    broken.struct_bytes = 8;
    refuses(&broken, &options, &failed, "kernel.struct_bytes is 8");
    broken = kernel;
    broken.forward = NULL;
    refuses(&broken, &options, &failed, "kernel.forward");
    broken = kernel;
    broken.name = NULL;
    refuses(&broken, &options, &failed, "kernel.name");
    broken = kernel;
    broken.flags |= 1u << 20;
    refuses(&broken, &options, &failed, "does not know 0x100000");
    bad.struct_bytes = 1;
    refuses(&kernel, &bad, &failed, "options.struct_bytes is 1");
    bad = options;
    bad.tolerance = 0;
    refuses(&kernel, &bad, &failed, "options.tolerance is 0");
    bad.tolerance = 1.5f;
    refuses(&kernel, &bad, &failed, "options.tolerance is 1.5");
    bad = options;
    bad.only = "no such case";
    refuses(&kernel, &bad, &failed, "\"no such case\"");
    assert_int_equal(failed, 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_are_found),
        cmocka_unit_test(what_is_lacking_is_skipped),
        cmocka_unit_test(bad_arguments_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
