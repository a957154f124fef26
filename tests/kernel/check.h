/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_KERNEL_CHECK_H
#define TESTS_KERNEL_CHECK_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/kernel/oracle.h"

/* Runs a kernel on a list of tiles of a problem, in a workspace of exactly the bytes that it asked
 * for, full of NaN, and checks that it returned 0 and stayed inside. */
void run_forward(const rondo_kernel_t *kernel, struct problem *p, const rondo_tile_t *tiles,
                 int count);
void run_backward(const rondo_kernel_t *kernel, struct problem *p, const rondo_tile_t *tiles,
                  int count);

/* Fails, naming the element and the problem, unless |got - want| <= 1e-5 * max(1, |want|): fp32
 * sums of unit-variance input lose a few 1e-6.  Checks the poison between elements too. */
void check_box(const struct box *got, const double *want, const struct problem *p,
               const char *what);

/* The whole problem in one call, forward and backward, against the oracle. */
void check_problem(const rondo_kernel_t *kernel, struct problem *p);

/* check_problem() of a fresh problem with scale 1/sqrt(qk_dim). */
void check_fresh(const rondo_kernel_t *kernel, struct dims n, const rondo_tile_t *tiles, int count,
                 enum strides strides);

float default_scale(struct dims n);

/* A packed copy of a box's elements, to compare bits with; the caller frees it. */
float *box_copy(const struct box *x);

/* Cases, each for one kernel: the initial state of a test. */
void every_kind_and_size(void **kernel);
void head_counts_and_batches(void **kernel);
void head_sizes(void **kernel);
void strides_and_gaps(void **kernel);
void tile_lists(void **kernel);
void long_rows(void **kernel);
void split_and_merge_in_any_order(void **kernel);
void slices_of_rows(void **kernel);
void gradients_add(void **kernel);
void gradients_are_difference_quotients(void **kernel);
void zero_keys_give_the_mean(void **kernel);
void constant_values_come_back(void **kernel);
void zero_d_o_gives_zero_gradients(void **kernel);
void later_keys_never_change_earlier_rows(void **kernel);
void hidden_rows_never_change_gradients(void **kernel);
void empty_rows_stay(void **kernel);
void hugely_negative_scores_count(void **kernel);
void large_scores_do_not_overflow(void **kernel);
void scores_in_and_out_of_range(void **kernel);
void scores_of_minus_infinity_weigh_nothing(void **kernel);
void seen_nan_is_reported(void **kernel);
void rows_without_lse_add_nothing(void **kernel);
void two_runs_give_the_same_bits(void **kernel);
void other_types_are_refused(void **kernel);

#endif
