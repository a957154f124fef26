/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators that are cut from others: who is in them, in which order, and what is refused. */
#include "tests/group.h"

#include <rondo/collectives.h>

enum { PARTS = 3 };

/* What each rank asks for, and what came of it. */
struct asked {
    int color, key;
    const int *ranks;
    int count;
    rondo_comm_t part;
    int rank, size; /* in the part; size 0: none */
    long sum;       /* over the part of 1 << the rank in the whole */
};

static struct asked asked[RANKS_MAX];

static int sum_over(rondo_comm_t comm, double mine, long *sum)
{
    rondo_request_t request = NULL;
    double total = 0;
    int err = rondo_all_reduce(comm, &mine, &total, 1, RONDO_F64, NULL, &request);

    if (!err)
        err = rondo_wait(&request, -1);
    *sum = (long)total;
    return err;
}

static int look_at(struct asked *it, int rank)
{
    rondo_comm_info_t info = RONDO_COMM_INFO_INIT;
    int err;

    it->size = 0;
    if (!it->part)
        return 0;
    err = rondo_comm_query(it->part, &info);
    it->rank = info.rank;
    it->size = info.size;
    return err ? err : sum_over(it->part, (double)(1L << rank), &it->sum);
}

static void split_once(struct group *group, int index)
{
    struct member *it = &group->members[index];
    struct asked *mine = &asked[index];
    int err;

    mine->part = (rondo_comm_t)mine; /* to be overwritten, or not */
    if (mine->ranks)
        err = rondo_comm_subset(it->comm, mine->ranks, mine->count, &mine->part);
    else
        err = rondo_comm_split(it->comm, mine->color, mine->key, &mine->part);
    note(it, err);
    if (err && mine->part != (rondo_comm_t)mine)
        note(it, ri_error(RONDO_ERR_INTERNAL, "the output was written"));
    if (!err)
        note(it, look_at(mine, index));
    if (!err)
        rondo_comm_destroy(mine->part);
}

static void run_split(struct group *group, int count)
{
    group_init(group, count);
    group->then = split_once;
    run_group(group);
}

static void expect_part(const int *ranks, int count)
{
    long sum = 0;

    for (int i = 0; i < count; i++)
        sum += 1L << ranks[i];
    for (int i = 0; i < count; i++) {
        const struct asked *it = &asked[ranks[i]];

        if (it->rank != i || it->size != count || it->sum != sum)
            fail_msg("rank %d is %d of %d, sum %ld; expected %d of %d, %ld", ranks[i], it->rank, it->size,
                     it->sum, i, count, sum);
    }
}

static void colors_make_parts_and_keys_order_them(void **state)
{
    static const int colors[] = { 4, 0, RONDO_COLOR_NONE, 4, 0, 9, 4, -7 }, keys[] = { 5, 0, 0, -5, 0, 1, 5, 2 };
    static const int four[] = { 3, 0, 6 }, zero[] = { 1, 4 }, nine[] = { 5 };
    struct group group;

    (void)state;
    memset(asked, 0, sizeof(asked));
    for (int r = 0; r < 8; r++)
        asked[r] = (struct asked){ .color = colors[r], .key = keys[r] };
    run_split(&group, 8);
    all_are_good(&group);
    expect_part(four, 3);
    expect_part(zero, 2);
    expect_part(nine, 1);
    assert_null(asked[2].part);
    assert_null(asked[7].part);
}

static void a_list_makes_one_part_in_its_order(void **state)
{
    static const int lists[PARTS][4] = { { 5, 2, 0, 1 }, { 3 }, { 1, 0 } };
    static const int counts[PARTS] = { 4, 1, 2 };
    struct group group;

    (void)state;
    for (int i = 0; i < PARTS; i++) {
        memset(asked, 0, sizeof(asked));
        for (int r = 0; r < 6; r++)
            asked[r] = (struct asked){ .ranks = lists[i], .count = counts[i] };
        run_split(&group, 6);
        all_are_good(&group);
        expect_part(lists[i], counts[i]);
        assert_null(asked[4].part);
    }
}

static void one_rank_alone_can_be_cut(void **state)
{
    static const int only[] = { 0 };
    struct group group;

    (void)state;
    asked[0] = (struct asked){ .color = 3 };
    run_split(&group, 1);
    all_are_good(&group);
    expect_part(only, 1);
    asked[0] = (struct asked){ .color = RONDO_COLOR_NONE };
    run_split(&group, 1);
    all_are_good(&group);
    assert_null(asked[0].part);
}

/* ---- refusals ---- */

static void refuse_list(const int *ranks, int count, const char *text)
{
    struct group group;

    for (int r = 0; r < 3; r++)
        asked[r] = (struct asked){ .ranks = ranks, .count = count };
    run_split(&group, 3);
    all_say(&group, RONDO_ERR_ARGUMENT, text);
}

static void bad_lists_are_refused_on_every_rank(void **state)
{
    static const int far[] = { 0, 3 }, below[] = { -1, 2 }, twice[] = { 2, 1, 2 };

    (void)state;
    refuse_list(far, 2, "ranks[1] is 3; ranks are 0 to 2");
    refuse_list(below, 2, "ranks[0] is -1; ranks are 0 to 2");
    refuse_list(twice, 3, "ranks[0] and ranks[2] are both 2");
    refuse_list(far, 0, "count is 0; give 1 to 3");
    refuse_list(far, 4, "count is 4; give 1 to 3");
}

static void lists_that_differ_are_named_on_every_rank(void **state)
{
    static const int list[] = { 2, 0, 1 }, other[] = { 2, 1, 0 }, bad[] = { 7 };
    struct group group;

    (void)state;
    for (int r = 0; r < 4; r++)
        asked[r] = (struct asked){ .ranks = r == 3 ? other : list, .count = 3 };
    run_split(&group, 4);
    all_say(&group, RONDO_ERR_MISMATCH, "subset: ranks is 2,0,1 on rank 0 and 2,1,0 on rank 3");
    asked[3].count = 1;
    run_split(&group, 4);
    all_say(&group, RONDO_ERR_MISMATCH, "subset: ranks is 2,0,1 on rank 0 and 2 on rank 3");
    asked[3].ranks = bad;
    run_split(&group, 4);
    assert_int_equal(group.members[3].status, RONDO_ERR_ARGUMENT);
    group.members[3] = group.members[0];
    all_say(&group, RONDO_ERR_PEER, "subset is refused on rank 3: ranks[0] is 7");
}

static void split_or_subset(struct group *group, int index)
{
    static const int list[] = { 0 };
    struct member *it = &group->members[index];
    rondo_comm_t part = NULL;

    if (index == 1)
        note(it, rondo_comm_subset(it->comm, list, 1, &part));
    else
        note(it, rondo_comm_split(it->comm, 0, 0, &part));
    assert_null(part);
}

static void different_calls_are_told_apart(void **state)
{
    struct group group;

    (void)state;
    group_init(&group, 3);
    group.then = split_or_subset;
    run_group(&group);
    all_say(&group, RONDO_ERR_MISMATCH, "rank 0 is in split with 0 values, rank 1 in subset with 1");
}

static void split_into_nothing(struct group *group, int index)
{
    struct member *it = &group->members[index];
    rondo_comm_t part = NULL;
    long sum;
    int err = rondo_comm_split(it->comm, 0, 0, index == 2 ? NULL : &part);

    note(it, err);
    if (!err || part)
        note(it, ri_error(RONDO_ERR_INTERNAL, "it was made"));
    if (sum_over(it->comm, 1, &sum) || sum != 3) /* a refusal is no failure */
        note(it, ri_error(RONDO_ERR_INTERNAL, "the communicator does not work any more"));
}

static void a_null_part_is_refused_on_every_rank(void **state)
{
    struct group group;

    (void)state;
    group_init(&group, 3);
    group.then = split_into_nothing;
    run_group(&group);
    assert_int_equal(group.members[2].status, RONDO_ERR_ARGUMENT);
    group.members[2] = group.members[0];
    all_say(&group, RONDO_ERR_PEER, "split is refused on rank 2: part is NULL");
    assert_int_equal(rondo_comm_split(NULL, 0, 0, NULL), RONDO_ERR_ARGUMENT);
    assert_int_equal(rondo_comm_subset(NULL, NULL, 0, NULL), RONDO_ERR_ARGUMENT);
}

static void one_does_not_split(struct group *group, int index)
{
    struct member *it = &group->members[index];
    rondo_comm_t part = NULL;

    if (index == 1) {
        note(it, wait_for_nothing(it->comm, 10000));
        return;
    }
    if (index == 0) /* it says who is missing, however late it came */
        it->comm->config.timeout_ms = 500;
    note(it, rondo_comm_split(it->comm, 0, 0, &part));
}

static void a_rank_that_does_not_come_is_named(void **state)
{
    struct group group;

    (void)state;
    group_init(&group, 3);
    group.then = one_does_not_split;
    run_group(&group);
    all_say(&group, RONDO_ERR_TIMEOUT, "rank 1 did not come");
}

/* ---- settings ---- */

static void check_settings(struct group *group, int index)
{
    struct member *it = &group->members[index];
    rondo_comm_info_t info = RONDO_COMM_INFO_INIT;
    rondo_comm_t part = NULL;
    int err = rondo_comm_split(it->comm, 0, -index, &part);

    if (!err)
        err = rondo_comm_query(part, &info);
    if (!err && (info.hosts != 2 || info.host != !(index % 2) || info.local_size != 2 ||
                 strcmp(info.transport, "self") || part->config.timeout_ms != CONNECT_MS))
        err = ri_error(RONDO_ERR_INTERNAL, "hosts %d, host %d, local size %d, transport %s, timeout %d",
                       info.hosts, info.host, info.local_size, info.transport, (int)part->config.timeout_ms);
    note(it, err);
    rondo_comm_destroy(part);
}

static void settings_and_hosts_are_inherited(void **state)
{
    struct group group;

    (void)state;
    group_init(&group, 4);
    for (int r = 0; r < 4; r++)
        group.members[r].host_id = r % 2 ? "left" : "right"; /* rank 3 comes first in the part */
    group.then = check_settings;
    setenv("RONDO_HOST_ID", "changed since", 1);
    run_group(&group);
    unsetenv("RONDO_HOST_ID");
    all_are_good(&group);
}

/* ---- lives ---- */

static void cut_again(struct group *group, int index)
{
    struct member *it = &group->members[index];
    rondo_comm_t half = NULL, quarter = NULL, *all[3] = { &it->comm, &half, &quarter };
    long sums[3] = { 0, 0, 0 };
    int err = rondo_comm_split(it->comm, index / 4, 0, &half);

    if (!err)
        err = rondo_comm_split(half, index / 2, 0, &quarter);
    for (int i = 2; i >= 0 && !err; i--)
        err = sum_over(*all[i], 1, &sums[i]);
    if (!err && (sums[0] != 8 || sums[1] != 4 || sums[2] != 2))
        err = ri_error(RONDO_ERR_INTERNAL, "sums are %ld, %ld, %ld", sums[0], sums[1], sums[2]);
    note(it, err);
    for (int i = 0; i < 3; i++) { /* in an order of each rank's own */
        rondo_comm_destroy(*all[(i + index) % 3]);
        *all[(i + index) % 3] = NULL;
    }
}

static void parts_are_cut_again_and_destroyed_in_any_order(void **state)
{
    int64_t best_ns = INT64_MAX;
    struct group group;

    (void)state;
    for (int i = 0; i < 4; i++) {
        int64_t begin_ns = ri_now_ns();

        group_init(&group, 8);
        group.then = cut_again;
        run_group(&group);
        all_are_good(&group);
        if (ri_now_ns() - begin_ns < best_ns)
            best_ns = ri_now_ns() - begin_ns;
    }
    assert_true(best_ns < 5000000000); /* nobody waits in vain for the others */
}

static void outlive(struct group *group, int index)
{
    struct member *it = &group->members[index];
    rondo_comm_t part = NULL;
    long sum = 0;
    int err = rondo_comm_split(it->comm, 0, -index, &part);

    rondo_comm_destroy(it->comm);
    it->comm = NULL;
    for (int i = 0; i < 50 && !err; i++)
        err = sum_over(part, 1, &sum);
    if (!err && sum != 5)
        err = ri_error(RONDO_ERR_INTERNAL, "the sum is %ld", sum);
    note(it, err);
    rondo_comm_destroy(part);
}

static void a_part_outlives_what_it_was_cut_from(void **state)
{
    struct group group;

    (void)state;
    group_init(&group, 5);
    group.then = outlive;
    run_group(&group);
    all_are_good(&group);
}

/* ---- failures stay where they are ---- */

static atomic_int cut;

static void one_part_fails(struct group *group, int index)
{
    struct member *it = &group->members[index];
    rondo_comm_t part = NULL;
    long sum = 0;
    int err = rondo_comm_split(it->comm, index / 2, 0, &part);

    if (everyone_is_here(&cut, group->count))
        err = ri_error(RONDO_ERR_TIMEOUT, "a member did not come");
    if (!err && index == 0)
        rondo_comm_abort(part);
    if (!err && index == 1 && wait_for_nothing(part, 10000) != RONDO_ERR_PEER)
        err = ri_error(RONDO_ERR_INTERNAL, "the part did not fail");
    for (int i = 0; i < 20 && !err && index >= 2; i++)
        err = sum_over(part, 1, &sum);
    if (!err)
        err = sum_over(it->comm, 1, &sum); /* the whole has not failed, nor has the other part */
    if (!err && sum != 4)
        err = ri_error(RONDO_ERR_INTERNAL, "the sum is %ld", sum);
    note(it, err);
    rondo_comm_destroy(part);
}

static void a_part_fails_alone(void **state)
{
    struct group group;

    (void)state;
    group_init(&group, 4);
    group.then = one_part_fails;
    cut = 0;
    run_group(&group);
    all_are_good(&group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(colors_make_parts_and_keys_order_them),
        cmocka_unit_test(a_list_makes_one_part_in_its_order),
        cmocka_unit_test(one_rank_alone_can_be_cut),
        cmocka_unit_test(bad_lists_are_refused_on_every_rank),
        cmocka_unit_test(lists_that_differ_are_named_on_every_rank),
        cmocka_unit_test(different_calls_are_told_apart),
        cmocka_unit_test(a_null_part_is_refused_on_every_rank),
        cmocka_unit_test(a_rank_that_does_not_come_is_named),
        cmocka_unit_test(settings_and_hosts_are_inherited),
        cmocka_unit_test(parts_are_cut_again_and_destroyed_in_any_order),
        cmocka_unit_test(a_part_outlives_what_it_was_cut_from),
        cmocka_unit_test(a_part_fails_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
