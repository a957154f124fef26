/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators of threads of one process, over transport self: how they begin and end. */
#include "tests/group.h"

#include <dirent.h>
#include <fcntl.h>

static int open_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    if (!dir)
        fail_msg("no /proc/self/fd");
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* ---- beginning and ending ---- */

static void one_rank_needs_nobody(void **state)
{
    rondo_comm_info_t info = RONDO_COMM_INFO_INIT;
    struct group group;

    (void)state;
    group_init(&group, 1);
    group.keep = 1;
    run_group(&group);
    all_are_good(&group);
    assert_int_equal(rondo_comm_query(group.members[0].comm, &info), 0);
    assert_int_equal(info.rank, 0);
    assert_int_equal(info.size, 1);
    assert_int_equal(info.host, 0);
    assert_int_equal(info.hosts, 1);
    assert_int_equal(info.local_rank, 0);
    assert_int_equal(info.local_size, 1);
    assert_string_equal(info.transport, "self");
    assert_null(group.members[0].comm->bootstrap);
    rondo_comm_destroy(group.members[0].comm);
}

static void every_size_comes_together(void **state)
{
    static const int sizes[] = { 2, 3, 5, 8, 17, 33, 64 };
    struct group group;

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        group_init(&group, sizes[i]);
        run_group(&group);
        all_are_good(&group);
    }
}

static int64_t meet_as_eight(void)
{
    int64_t begin_ns = ri_now_ns();
    struct group group;

    group_init(&group, 8);
    run_group(&group);
    all_are_good(&group);
    return (ri_now_ns() - begin_ns) / 1000000;
}

/* Nobody waits for a moment to pass, as a rank does that tries again or asks now and then. */
static void eight_ranks_are_quick(void **state)
{
    (void)state;
    assert_in_range(test_shortest_ms(meet_as_eight, 200), 0, 199);
}

static void cycles_leave_nothing_open(void **state)
{
    struct group group;
    int before;

    (void)state;
    group_init(&group, 2);
    run_group(&group);
    before = open_fds();
    for (int i = 0; i < 100; i++) {
        group_init(&group, 2);
        run_group(&group);
        all_are_good(&group);
    }
    assert_int_equal(open_fds(), before);
}

static int open_fds_without_cloexec(void)
{
    int count = 0;

    for (int fd = 0; fd < 1024; fd++) {
        int flags = fcntl(fd, F_GETFD);

        count += flags >= 0 && !(flags & FD_CLOEXEC);
    }
    return count;
}

static void no_descriptor_survives_exec(void **state)
{
    int before = open_fds_without_cloexec();
    struct group group;

    (void)state;
    group_init(&group, 4);
    group.keep = 1;
    run_group(&group);
    all_are_good(&group);
    assert_int_equal(open_fds_without_cloexec(), before);
    for (int r = 0; r < 4; r++)
        rondo_comm_destroy(group.members[r].comm);
}

static void null_is_no_communicator(void **state)
{
    rondo_comm_info_t info = RONDO_COMM_INFO_INIT;

    (void)state;
    rondo_comm_destroy(NULL);
    assert_int_equal(rondo_comm_query(NULL, &info), RONDO_ERR_ARGUMENT);
    assert_int_equal(rondo_comm_abort(NULL), RONDO_ERR_ARGUMENT);
}

static void bad_arguments_are_named(void **state)
{
    static const struct {
        int rank, size;
        const char *text;
    } cases[] = {
        { 0, 0, "size is 0" }, { 0, -1, "size is -1" }, { 0, 32769, "size is 32769; give 1 to 32768" },
        { -1, 2, "rank is -1" }, { 2, 2, "rank is 2" },
    };
    rondo_comm_t comm = (rondo_comm_t)&cases; /* must stay untouched */
    rondo_config_t config = { 0 };
    rondo_unique_id_t id;

    (void)state;
    assert_int_equal(rondo_unique_id_get(NULL), RONDO_ERR_ARGUMENT);
    assert_int_equal(rondo_unique_id_get(&id), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(rondo_comm_create(&id, cases[i].rank, cases[i].size, NULL, &comm),
                         RONDO_ERR_ARGUMENT);
        assert_non_null(strstr(rondo_last_error(), cases[i].text));
    }
    assert_int_equal(rondo_comm_create(NULL, 0, 1, NULL, &comm), RONDO_ERR_ARGUMENT);
    assert_non_null(strstr(rondo_last_error(), "id is NULL"));
    assert_int_equal(rondo_comm_create(&id, 0, 1, NULL, NULL), RONDO_ERR_ARGUMENT);
    assert_non_null(strstr(rondo_last_error(), "comm is NULL"));
    assert_int_equal(rondo_comm_create(&id, 0, 1, &config, &comm), RONDO_ERR_ARGUMENT);
    assert_non_null(strstr(rondo_last_error(), "struct_bytes is 0"));
    assert_ptr_equal(comm, &cases);
}

static void a_short_config_is_an_older_one(void **state)
{
    rondo_config_t config = RONDO_CONFIG_INIT;
    rondo_unique_id_t id;
    rondo_comm_t comm = NULL;

    (void)state;
    config.struct_bytes = offsetof(rondo_config_t, host_id);
    config.transport = "self";
    config.host_id = (const char *)1; /* beyond the caller's struct */
    assert_int_equal(rondo_unique_id_get(&id), 0);
    assert_int_equal(rondo_comm_create(&id, 0, 1, &config, &comm), 0);
    rondo_comm_destroy(comm);
}

static void query_respects_the_callers_size(void **state)
{
    rondo_comm_info_t info = { .struct_bytes = offsetof(rondo_comm_info_t, host), .host = 77 };
    struct group group;

    (void)state;
    group_init(&group, 1);
    group.keep = 1;
    run_group(&group);
    assert_int_equal(rondo_comm_query(group.members[0].comm, &info), 0);
    assert_int_equal(info.size, 1);
    assert_int_equal(info.host, 77);
    info.struct_bytes = 0;
    assert_int_equal(rondo_comm_query(group.members[0].comm, &info), RONDO_ERR_ARGUMENT);
    assert_int_equal(rondo_comm_query(group.members[0].comm, NULL), RONDO_ERR_ARGUMENT);
    rondo_comm_destroy(group.members[0].comm);
}

/* ---- hosts ---- */

static void hosts_are_numbered_by_first_rank(void **state)
{
    /* 3 ranks on x, 5 on y, mixed: local ranks 0..2 and 0..4 */
    static const char *const hosts[] = { "y", "x", "y", "y", "x", "y", "x", "y" };
    static const int host[] = { 0, 1, 0, 0, 1, 0, 1, 0 }, local[] = { 0, 0, 1, 2, 1, 3, 2, 4 };
    struct group group;

    (void)state;
    group_init(&group, 8);
    for (int r = 0; r < 8; r++)
        group.members[r].host_id = hosts[r];
    group.keep = 1;
    run_group(&group);
    all_are_good(&group);
    for (int r = 0; r < 8; r++) {
        rondo_comm_info_t info = RONDO_COMM_INFO_INIT;

        assert_int_equal(rondo_comm_query(group.members[r].comm, &info), 0);
        assert_int_equal(info.hosts, 2);
        assert_int_equal(info.host, host[r]);
        assert_int_equal(info.local_rank, local[r]);
        assert_int_equal(info.local_size, host[r] ? 3 : 5);
        assert_memory_equal(group.members[r].comm->host, host, sizeof(host));
    }
    for (int r = 0; r < 8; r++)
        rondo_comm_destroy(group.members[r].comm);
}

static void one_machine_is_one_host(void **state)
{
    struct group group;

    (void)state;
    group_init(&group, 3);
    group.keep = 1;
    run_group(&group);
    all_are_good(&group);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(group.members[r].comm->host_count, 1);
        assert_int_equal(group.members[r].comm->local_rank, r);
    }
    for (int r = 0; r < 3; r++)
        rondo_comm_destroy(group.members[r].comm);
}

/* ---- trouble at the beginning ---- */

/* Returns how long the slowest took. */
static int64_t miss_a_rank(void)
{
    struct group group;
    int64_t most_ms = 0;

    group_init(&group, 3);
    for (int r = 0; r < 3; r++)
        group.members[r].size = 4;
    group.members[0].connect_ms = 700; /* it says who is missing, however late it came */
    run_group(&group);
    all_say(&group, RONDO_ERR_TIMEOUT, "rank 3");
    for (int r = 0; r < 3; r++)
        most_ms = group.members[r].took_ms > most_ms ? group.members[r].took_ms : most_ms;
    return most_ms;
}

static void a_missing_rank_is_named_by_all(void **state)
{
    (void)state;
    assert_in_range(test_shortest_ms(miss_a_rank, 1400), 690, 1399);
}

static void a_missing_rank_0_is_named(void **state)
{
    struct group group;

    (void)state;
    group_init(&group, 2);
    group.members[0].rank = 1;
    group.members[1].rank = 2;
    group.members[0].size = group.members[1].size = 3;
    group.members[0].connect_ms = group.members[1].connect_ms = 300;
    run_group(&group);
    all_say(&group, RONDO_ERR_TIMEOUT, "rank 0 of 3");
    all_say(&group, RONDO_ERR_TIMEOUT, "it accepts connections, but rank 0 has not answered");
}

static int64_t wait_as_long_as_set(void)
{
    struct group group;

    group_init(&group, 1);
    group.members[0].size = 2;
    group.members[0].connect_ms = 0;
    setenv("RONDO_CONNECT_TIMEOUT", "200ms", 1);
    run_group(&group);
    unsetenv("RONDO_CONNECT_TIMEOUT");
    all_say(&group, RONDO_ERR_TIMEOUT, "rank 1 of 2");
    return group.members[0].took_ms;
}

static void the_deadline_may_come_from_the_environment(void **state)
{
    (void)state;
    assert_in_range(test_shortest_ms(wait_as_long_as_set, 400), 190, 399);
}

static void sizes_that_differ_are_named_by_all(void **state)
{
    struct group group;

    (void)state;
    group_init(&group, 3);
    group.members[2].size = 5;
    run_group(&group);
    all_say(&group, RONDO_ERR_MISMATCH, "rank 2 believes in a group of 5 ranks, rank 0 in 3");
}

static void a_number_that_is_taken_is_named(void **state)
{
    struct group group;
    int refused = 0;

    (void)state;
    group_init(&group, 3);
    group.members[2].rank = 1; /* so that nobody is rank 2 */
    group.members[0].connect_ms = 1500;
    run_group(&group);
    assert_int_equal(group.members[0].status, RONDO_ERR_TIMEOUT);
    assert_non_null(strstr(group.members[0].text, "rank 2 of 3"));
    assert_non_null(strstr(group.members[0].text, "two processes say that they are rank 1"));
    for (int r = 1; r < 3; r++) {
        if (group.members[r].status == RONDO_ERR_MISMATCH) {
            assert_non_null(strstr(group.members[r].text, "two processes say that they are rank 1"));
            refused++;
        } else {
            assert_int_equal(group.members[r].status, RONDO_ERR_TIMEOUT);
        }
    }
    assert_int_equal(refused, 1);
}

static void a_refusal_on_one_rank_reaches_all(void **state)
{
    struct group group;

    (void)state;
    group_init(&group, 4);
    group.members[2].transport = "pigeon";
    run_group(&group);
    assert_int_equal(group.members[2].status, RONDO_ERR_ARGUMENT);
    assert_non_null(strstr(group.members[2].text, "RONDO_TRANSPORT='pigeon' is not known; there is: auto, self, shm"));
    for (int r = 0; r < 4; r++) {
        if (r == 2)
            continue;
        assert_int_equal(group.members[r].status, RONDO_ERR_PEER);
        assert_non_null(strstr(group.members[r].text, "refused on rank 2"));
        assert_non_null(strstr(group.members[r].text, "pigeon"));
    }
}

static void a_bad_variable_reaches_all(void **state)
{
    struct group group;

    (void)state;
    group_init(&group, 2);
    setenv("RONDO_SPIN", "many", 1);
    run_group(&group);
    unsetenv("RONDO_SPIN");
    all_say(&group, RONDO_ERR_ARGUMENT, "RONDO_SPIN='many'");
}

/* ---- several at once ---- */

static void groups_coexist(void **state)
{
    static const int first[] = { 5, 2, 7 }, second[] = { 0, 1, 3, 4, 6 };
    struct group a, b;
    struct test_thread threads[8];

    (void)state;
    group_init(&a, 3);
    group_init(&b, 5);
    a.keep = b.keep = 1;
    test_threads_start(threads, 3, run_member, &a);
    test_threads_start(threads + 3, 5, run_member, &b);
    test_threads_join(threads, 8);
    all_are_good(&a);
    all_are_good(&b);
    for (int i = 0; i < 3; i++) /* ranks are those of the group, in the caller's order, not the world's */
        assert_int_equal(a.members[i].comm->rank, i);
    for (int i = 0; i < 5; i++)
        assert_int_equal(b.members[i].comm->rank, i);
    assert_memory_not_equal(a.members[0].comm->token, b.members[0].comm->token, 16);
    assert_int_equal(sizeof(first) / sizeof(first[0]) + sizeof(second) / sizeof(second[0]), 8);
    for (int i = 0; i < 3; i++)
        rondo_comm_destroy(a.members[i].comm);
    for (int i = 0; i < 5; i++)
        assert_int_equal(wait_for_nothing(b.members[i].comm, 60), 0);
    for (int i = 0; i < 5; i++)
        rondo_comm_destroy(b.members[i].comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_needs_nobody),
        cmocka_unit_test(every_size_comes_together),
        cmocka_unit_test(eight_ranks_are_quick),
        cmocka_unit_test(cycles_leave_nothing_open),
        cmocka_unit_test(no_descriptor_survives_exec),
        cmocka_unit_test(null_is_no_communicator),
        cmocka_unit_test(bad_arguments_are_named),
        cmocka_unit_test(a_short_config_is_an_older_one),
        cmocka_unit_test(query_respects_the_callers_size),
        cmocka_unit_test(hosts_are_numbered_by_first_rank),
        cmocka_unit_test(one_machine_is_one_host),
        cmocka_unit_test(a_missing_rank_is_named_by_all),
        cmocka_unit_test(a_missing_rank_0_is_named),
        cmocka_unit_test(the_deadline_may_come_from_the_environment),
        cmocka_unit_test(sizes_that_differ_are_named_by_all),
        cmocka_unit_test(a_number_that_is_taken_is_named),
        cmocka_unit_test(a_refusal_on_one_rank_reaches_all),
        cmocka_unit_test(a_bad_variable_reaches_all),
        cmocka_unit_test(groups_coexist),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
