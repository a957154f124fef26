/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks of a communicator tell each other: what they mean to do, and what went wrong. */
#include "tests/group.h"

#include <sched.h>
#include <stdatomic.h>

/* ---- agreement ---- */

enum { FIELDS = 5 };

static int odd_field, odd_rank, local_status[RANKS_MAX];

static void agree_on_fields(struct group *group, int index)
{
    static const char *const names[FIELDS] = { "tokens", "q_heads", "kv_heads", "qk_dim", "scale bits" };
    struct member *it = &group->members[index];
    struct ri_field fields[FIELDS];
    int status = local_status[index];

    for (int i = 0; i < FIELDS; i++)
        fields[i] = (struct ri_field){ names[i], 1000 + i + (i == odd_field && index == odd_rank) };
    if (status)
        ri_error(status, "v is NULL");
    note(it, ri_agree(it->comm, "attention plan", fields, FIELDS, status));
}

static void agreement_is_found(void **state)
{
    struct group group;

    (void)state;
    group_init(&group, 4);
    group.then = agree_on_fields;
    odd_field = -1;
    run_group(&group);
    all_are_good(&group);
}

static void each_field_that_differs_is_named_by_all(void **state)
{
    static const char *const texts[FIELDS] = {
        "attention plan: tokens is 1000 on rank 0 and 1001 on rank 2",
        "attention plan: q_heads is 1001 on rank 0 and 1002 on rank 2",
        "attention plan: kv_heads is 1002 on rank 0 and 1003 on rank 2",
        "attention plan: qk_dim is 1003 on rank 0 and 1004 on rank 2",
        "attention plan: scale bits is 1004 on rank 0 and 1005 on rank 2",
    };
    struct group group;

    (void)state;
    for (odd_field = 0, odd_rank = 2; odd_field < FIELDS; odd_field++) {
        group_init(&group, 4);
        group.then = agree_on_fields;
        run_group(&group);
        all_say(&group, RONDO_ERR_MISMATCH, texts[odd_field]);
    }
    odd_field = 1;
    odd_rank = 0;
    group_init(&group, 3);
    group.then = agree_on_fields;
    run_group(&group);
    all_say(&group, RONDO_ERR_MISMATCH, "attention plan: q_heads is 1002 on rank 0 and 1001 on rank 1");
    odd_field = -1;
}

static void a_refused_argument_on_one_rank_reaches_all(void **state)
{
    struct group group;

    (void)state;
    group_init(&group, 4);
    group.then = agree_on_fields;
    odd_field = -1;
    local_status[1] = RONDO_ERR_ARGUMENT;
    run_group(&group);
    local_status[1] = 0;
    assert_int_equal(group.members[1].status, RONDO_ERR_ARGUMENT);
    assert_string_equal(group.members[1].text, "v is NULL");
    for (int r = 0; r < 4; r++) {
        if (r == 1)
            continue;
        assert_int_equal(group.members[r].status, RONDO_ERR_PEER);
        assert_string_equal(group.members[r].text, "attention plan is refused on rank 1: v is NULL");
    }
}

static void agree_in_different_calls(struct group *group, int index)
{
    struct member *it = &group->members[index];
    struct ri_field field = { "count", 7 };

    note(it, ri_agree(it->comm, index == 1 ? "all-reduce" : "broadcast", &field, 1, 0));
}

static void different_calls_are_named_by_all(void **state)
{
    struct group group;

    (void)state;
    group_init(&group, 3);
    group.then = agree_in_different_calls;
    run_group(&group);
    all_say(&group, RONDO_ERR_MISMATCH, "rank 0 is in broadcast");
    all_say(&group, RONDO_ERR_MISMATCH, "rank 1 in all-reduce");
}

static void agree_too_late(struct group *group, int index)
{
    struct member *it = &group->members[index];
    int status = index == 1 ? ri_error(RONDO_ERR_TRANSPORT, "rank 2 does not answer") : 0;

    note(it, ri_agree_until(it->comm, "connecting", NULL, 0, status, ri_now_ns() - 1));
}

static void a_late_agreement_does_not_lose_the_cause(void **state)
{
    struct group group;

    (void)state;
    group_init(&group, 3);
    group.then = agree_too_late;
    run_group(&group);
    assert_int_equal(group.members[1].status, RONDO_ERR_TRANSPORT);
    assert_string_equal(group.members[1].text, "rank 2 does not answer");
}

/* ---- trouble later ---- */

static int leaver;

static void one_aborts(struct group *group, int index)
{
    struct member *it = &group->members[index];

    if (index == leaver) {
        assert_int_equal(rondo_comm_abort(it->comm), 0);
        assert_int_equal(rondo_comm_abort(it->comm), 0);
        note(it, wait_for_nothing(it->comm, 1));
    } else {
        note(it, wait_for_nothing(it->comm, 10000));
    }
}

static void an_abort_reaches_all(void **state)
{
    char text[64];

    (void)state;
    for (leaver = 0; leaver < 3; leaver++) {
        struct group group;

        group_init(&group, 3);
        group.then = one_aborts;
        run_group(&group);
        snprintf(text, sizeof(text), "rank %d gave up: it called rondo_comm_abort", leaver);
        for (int r = 0; r < 3; r++) {
            assert_int_equal(group.members[r].status, RONDO_ERR_PEER);
            if (r != leaver)
                assert_string_equal(group.members[r].text, text);
        }
    }
}

static void one_fails(struct group *group, int index)
{
    struct member *it = &group->members[index];

    if (index == 1)
        note(it, ri_comm_give_up(it->comm, ri_error(RONDO_ERR_KERNEL, "kernel 'x' returned 7 in step 3")));
    else
        note(it, wait_for_nothing(it->comm, 10000));
    if (index == 1)
        assert_int_equal(ri_comm_give_up(it->comm, RONDO_ERR_TIMEOUT), RONDO_ERR_KERNEL);
}

static void a_failure_reaches_all_with_its_reason(void **state)
{
    struct group group;

    (void)state;
    group_init(&group, 4);
    group.then = one_fails;
    run_group(&group);
    assert_int_equal(group.members[1].status, RONDO_ERR_KERNEL);
    for (int r = 0; r < 4; r++) {
        if (r != 1)
            assert_int_equal(group.members[r].status, RONDO_ERR_PEER);
        assert_non_null(strstr(group.members[r].text, "kernel 'x' returned 7 in step 3"));
        assert_true(r == 1 || strstr(group.members[r].text, "rank 1 gave up"));
    }
}

static int fail_in_child(void *context)
{
    struct group *group = context;

    setenv("RONDO_LOG", "info", 1);
    run_group(group);
    return group->members[1].status != RONDO_ERR_KERNEL;
}

static int count(const char *text, const char *word)
{
    int found = 0;

    for (; (text = strstr(text, word)); text++)
        found++;
    return found;
}

static void a_failure_is_an_error_where_it_is_found(void **state)
{
    static char text[65536];
    struct group group;

    (void)state;
    group_init(&group, 4);
    group.then = one_fails;
    assert_int_equal(test_in_child(fail_in_child, &group, text, sizeof(text)), 0);
    assert_int_equal(count(text, "] error "), 1);
    assert_int_equal(count(text, "rondo[1] error comm: the communicator has failed: kernel 'x'"), 1);
    assert_int_equal(count(text, "info comm: the communicator has failed: rank 1 gave up"), 3);
}

static void one_leaves(struct group *group, int index)
{
    struct member *it = &group->members[index];

    if (index != leaver)
        note(it, wait_for_nothing(it->comm, 250));
}

static void a_clean_leave_is_no_death(void **state)
{
    (void)state;
    for (leaver = 0; leaver < 3; leaver++) {
        struct group group;

        group_init(&group, 3);
        group.then = one_leaves;
        run_group(&group);
        all_are_good(&group);
    }
}

/* Until all see that the leaver has left; those who leave before the last has seen it are as good. */
static void watch_one_leave(struct group *group, int index)
{
    struct member *it = &group->members[index];
    int64_t end_ns = ri_now_ns() + 10000000000;
    struct ri_idle idle = { 0 };
    int err = 0;

    if (index == leaver || ri_comm_enter(it->comm))
        return;
    while (!err && !ri_comm_has_left(it->comm, leaver) && ri_now_ns() < end_ns) {
        err = ri_comm_progress(it->comm);
        if (!err)
            err = ri_comm_idle(it->comm, &idle);
    }
    if (!err && !ri_comm_has_left(it->comm, leaver))
        err = ri_error(RONDO_ERR_TIMEOUT, "nobody said that rank %d has left", leaver);
    if (!err && (ri_comm_has_left(it->comm, index) || ri_comm_has_left(it->comm, group->count) ||
                 ri_comm_has_left(it->comm, -1)))
        err = ri_error(RONDO_ERR_INTERNAL, "one is said to have left who has not");
    note(it, ri_comm_leave(it->comm, err));
}

static void a_leave_is_seen_by_all(void **state)
{
    (void)state;
    for (leaver = 0; leaver < 3; leaver++) {
        struct group group;

        group_init(&group, 4);
        group.then = watch_one_leave;
        run_group(&group);
        all_are_good(&group);
    }
}

/* What rank 0 passes on meets ranks that have closed their connections. */
static void watch_all_leave(struct group *group, int index)
{
    struct member *it = &group->members[index];
    int64_t end_ns = ri_now_ns() + 10000000000;
    int left = 0, err = ri_comm_enter(it->comm);
    struct ri_idle idle = { 0 };

    while (index == 0 && !err && left < group->count - 1 && ri_now_ns() < end_ns) {
        err = ri_comm_progress(it->comm);
        if (!err)
            err = ri_comm_idle(it->comm, &idle);
        left = 0;
        for (int r = 1; r < group->count; r++)
            left += ri_comm_has_left(it->comm, r);
    }
    if (index == 0 && !err && left < group->count - 1)
        err = ri_error(RONDO_ERR_TIMEOUT, "only %d ranks have left", left);
    note(it, ri_comm_leave(it->comm, err));
}

static void all_may_leave_at_once(void **state)
{
    struct group group;

    (void)state;
    for (int i = 0; i < 10; i++) {
        group_init(&group, 16);
        group.then = watch_all_leave;
        run_group(&group);
        all_are_good(&group);
    }
}

static void leave_or_agree(struct group *group, int index)
{
    struct member *it = &group->members[index];

    if (index != leaver)
        note(it, ri_agree(it->comm, "a plan", NULL, 0, 0));
}

static void an_agreement_with_one_who_left_fails_at_once(void **state)
{
    char text[64];

    (void)state;
    for (leaver = 0; leaver < 3; leaver++) {
        struct group group;

        group_init(&group, 3);
        group.then = leave_or_agree;
        run_group(&group);
        snprintf(text, sizeof(text), "rank %d has destroyed this communicator", leaver);
        group.members[leaver].status = RONDO_ERR_PEER;
        snprintf(group.members[leaver].text, sizeof(group.members[leaver].text), "%s", text);
        all_say(&group, RONDO_ERR_PEER, text);
    }
}

/* ---- requests under way ---- */

static atomic_int advanced;

/* As if rank 0 had a request under way, and rank 1 waited for it before it agrees. */
static int move_for_rank_1(struct ri_family *family, int computes)
{
    (void)family;
    advanced += computes;
    return 1;
}

static void agree_while_one_waits(struct group *group, int index)
{
    struct member *it = &group->members[index];
    int64_t end_ns = ri_now_ns() + 10000000000;

    it->comm->active = index ? NULL : (struct rondo_request *)it; /* nobody looks into it */
    ri_family_set_advance(it->comm->family, move_for_rank_1);
    while (index == 1 && advanced < 20 && ri_now_ns() < end_ns)
        sched_yield();
    note(it, ri_agree(it->comm, "a plan", NULL, 0, advanced < 20 && index ? RONDO_ERR_TIMEOUT : 0));
    it->comm->active = NULL;
}

static void requests_move_while_ranks_agree(void **state)
{
    struct group group;

    (void)state;
    group_init(&group, 2);
    group.then = agree_while_one_waits;
    advanced = 0;
    run_group(&group);
    all_are_good(&group);
}

static int fail_aside(struct ri_family *family, int computes)
{
    (void)computes;
    ri_comm_fail(ri_family_first(family), ri_error(RONDO_ERR_KERNEL, "kernel 'x' returned 7"));
    return 0;
}

static void fail_while_agreeing(struct group *group, int index)
{
    struct member *it = &group->members[index];

    it->comm->active = index == leaver ? (struct rondo_request *)it : NULL;
    ri_family_set_advance(it->comm->family, fail_aside);
    note(it, index == 2 ? wait_for_nothing(it->comm, 10000) : ri_agree(it->comm, "a plan", NULL, 0, 0));
    it->comm->active = NULL;
}

static void a_request_that_fails_ends_the_agreement(void **state)
{
    (void)state;
    for (leaver = 0; leaver < 2; leaver++) {
        struct group group;

        group_init(&group, 3);
        group.then = fail_while_agreeing;
        run_group(&group);
        for (int r = 0; r < 3; r++) {
            assert_int_equal(group.members[r].status, r == leaver ? RONDO_ERR_KERNEL : RONDO_ERR_PEER);
            assert_non_null(strstr(group.members[r].text, "kernel 'x' returned 7"));
        }
    }
}

static void one_comes_not(struct group *group, int index)
{
    struct member *it = &group->members[index];

    if (index == leaver) {
        note(it, wait_for_nothing(it->comm, 10000));
        return;
    }
    if (index == 0 || leaver == 0) /* else rank 0 says who is missing, however late it came */
        it->comm->config.timeout_ms = 500;
    note(it, ri_agree(it->comm, "a plan", NULL, 0, 0));
}

static void a_rank_that_does_not_come_is_named_by_all(void **state)
{
    (void)state;
    for (leaver = 0; leaver < 3; leaver += 2) {
        struct group group;

        group_init(&group, 3);
        group.then = one_comes_not;
        run_group(&group);
        all_say(&group, RONDO_ERR_TIMEOUT, leaver ? "rank 2 did not come" : "rank 0 did not come");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_is_an_error_where_it_is_found), /* before the log has read its level */
        cmocka_unit_test(agreement_is_found),
        cmocka_unit_test(each_field_that_differs_is_named_by_all),
        cmocka_unit_test(a_refused_argument_on_one_rank_reaches_all),
        cmocka_unit_test(different_calls_are_named_by_all),
        cmocka_unit_test(a_late_agreement_does_not_lose_the_cause),
        cmocka_unit_test(an_abort_reaches_all),
        cmocka_unit_test(a_failure_reaches_all_with_its_reason),
        cmocka_unit_test(a_clean_leave_is_no_death),
        cmocka_unit_test(a_leave_is_seen_by_all),
        cmocka_unit_test(all_may_leave_at_once),
        cmocka_unit_test(an_agreement_with_one_who_left_fails_at_once),
        cmocka_unit_test(requests_move_while_ranks_agree),
        cmocka_unit_test(a_request_that_fails_ends_the_agreement),
        cmocka_unit_test(a_rank_that_does_not_come_is_named_by_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
