/* SPDX-License-Identifier: Apache-2.0 */
/* What a chunk that failed is told as, while the stamp of its peer has not come. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <string.h>

#include "base/status.h"
#include "plan/plan.h"

/* A chunk from rank 1 that has failed with this status. */
static int ask(int status, const struct ri_stamp *answer)
{
    struct rondo_layout layout = { .tokens = 8, .ranks = 2 };
    struct ri_plan plan = { .place = { .rank = 0, .ranks = 2 }, .layout = { &layout, &layout } };
    struct ri_pass pass = { .plan = &plan };
    struct ri_message message = { .tensor = RI_T_K };
    struct ri_xfer xfer = { .peer = 1, .state = RI_XFER_FAILED, .status = status };
    struct ri_stamp stamps[4] = { { 0 } };
    struct ri_run run = { .pass = &pass, .xfers = &xfer, .stamps = stamps };

    pass.messages = &message;
    if (answer) {
        stamps[3] = ri_stamp_of(&run);
        stamps[3].tokens = answer->tokens;
    }
    return ri_run_arrived(&run, 0, 0, 1);
}

static void a_lost_connection_is_told_at_once(void **state)
{
    (void)state;
    assert_int_equal(ask(RONDO_ERR_PEER, NULL), 0);
    assert_int_equal(ask(RONDO_ERR_TRANSPORT, NULL), 0);
}

static void another_size_waits_for_the_stamp(void **state)
{
    const struct ri_stamp other = { .tokens = 9 };

    (void)state;
    assert_true(ask(RONDO_ERR_MISMATCH, NULL) > 0);
    assert_int_equal(ask(RONDO_ERR_MISMATCH, &other), RONDO_ERR_MISMATCH);
    assert_non_null(strstr(rondo_last_error(), "9 on rank 1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_connection_is_told_at_once),
        cmocka_unit_test(another_size_waits_for_the_stamp),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
