/* SPDX-License-Identifier: Apache-2.0 */
/* Unique ids: whole, damaged, stale, of another process or machine. */
#include "tests/helper.h"
#include "tests/threads.h"

#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/status.h"
#include "comm/unique_id.h"

enum { FITS_MS = 20000, FITS_NOT_MS = 200 };

static int try_for(const rondo_unique_id_t *id, int rank, int size, int connect_ms)
{
    rondo_config_t config = RONDO_CONFIG_INIT;
    rondo_comm_t comm = NULL;
    int err;

    config.transport = "self";
    config.connect_timeout_ms = connect_ms;
    err = rondo_comm_create(id, rank, size, &config, &comm);
    rondo_comm_destroy(comm);
    return err;
}

static int try_as(const rondo_unique_id_t *id, int rank, int size)
{
    return try_for(id, rank, size, FITS_NOT_MS);
}

static void ids_differ(void **state)
{
    rondo_unique_id_t a, b;

    (void)state;
    assert_int_equal(rondo_unique_id_get(&a), 0);
    assert_int_equal(rondo_unique_id_get(&b), 0);
    assert_memory_not_equal(&a, &b, sizeof(a));
    assert_int_equal(try_as(&a, 0, 1), 0);
    assert_int_equal(try_as(&b, 0, 1), 0);
}

/* At once: the thread never waits for anything, and does not spin, which a deadline would hide. */
static void any_flipped_bit_is_refused_at_once(void **state)
{
    rondo_unique_id_t id, damaged;
    struct rusage before, after;
    clock_t begin;

    (void)state;
    assert_int_equal(rondo_unique_id_get(&id), 0);
    getrusage(RUSAGE_THREAD, &before);
    begin = clock();
    for (int bit = 0; bit < 8 * RONDO_UNIQUE_ID_BYTES; bit++) {
        damaged = id;
        damaged.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        for (int rank = 0; rank < 2; rank++) {
            if (try_as(&damaged, rank, 2) != RONDO_ERR_ID)
                fail_msg("bit %d, rank %d: %s", bit, rank, rondo_last_error());
        }
    }
    getrusage(RUSAGE_THREAD, &after);
    assert_in_range(after.ru_nvcsw - before.ru_nvcsw, 0, 10); /* a page of code may have to be read */
    assert_in_range((clock() - begin) * 1000 / CLOCKS_PER_SEC, 0, 1000); /* ms; 15 are usual */
    assert_int_equal(try_as(&id, 0, 1), 0); /* the good one is as good as ever */
}

static void cut_and_empty_ids_are_refused(void **state)
{
    rondo_unique_id_t id, damaged;

    (void)state;
    assert_int_equal(rondo_unique_id_get(&id), 0);
    for (size_t bytes = 0; bytes < sizeof(id); bytes++) {
        memset(&damaged, 0, sizeof(damaged));
        memcpy(&damaged, &id, bytes);
        if (memcmp(&damaged, &id, sizeof(id)) != 0)
            assert_int_equal(try_as(&damaged, 1, 2), RONDO_ERR_ID);
    }
    memset(&damaged, 0xff, sizeof(damaged));
    assert_int_equal(try_as(&damaged, 0, 1), RONDO_ERR_ID);
    assert_int_equal(try_as(&id, 0, 1), 0);
}

static void an_id_makes_one_communicator(void **state)
{
    rondo_unique_id_t id;

    (void)state;
    assert_int_equal(rondo_unique_id_get(&id), 0);
    assert_int_equal(try_as(&id, 0, 1), 0);
    assert_int_equal(try_as(&id, 0, 2), RONDO_ERR_ID);
    assert_non_null(strstr(rondo_last_error(), "one communicator"));
    assert_int_equal(try_as(&id, 1, 2), RONDO_ERR_TIMEOUT);
    assert_non_null(strstr(rondo_last_error(), "rank 0 of 2"));
}

/* A child inherits the table of sockets; forgetting this one makes it a process like any other. */
static int be_rank_0(void *context)
{
    const rondo_unique_id_t *id = context;
    struct ri_meeting meeting;

    if (ri_unique_id_read(id, &meeting))
        return 2;
    close(ri_unique_id_take_socket(meeting.token));
    return try_as(id, 0, 2) == RONDO_ERR_ID && strstr(rondo_last_error(), "rondo_unique_id_get") ? 0 : 1;
}

static void rank_0_is_where_the_id_was_made(void **state)
{
    rondo_unique_id_t id;
    char text[1024];

    (void)state;
    assert_int_equal(rondo_unique_id_get(&id), 0);
    assert_int_equal(test_in_child(be_rank_0, &id, text, sizeof(text)), 0);
    assert_int_equal(try_as(&id, 0, 1), 0);
}

struct pair {
    rondo_unique_id_t ids[2]; /* what each rank believes */
    int connect_ms;
    int status[2];
    char text[2][256];
};

static void be_one_of_two(void *context, int rank)
{
    struct pair *pair = context;

    pair->status[rank] = try_for(&pair->ids[rank], rank, 2, pair->connect_ms);
    snprintf(pair->text[rank], sizeof(pair->text[rank]), "%s", rondo_last_error());
}

static void another_jobs_id_does_not_fit(void **state)
{
    struct pair pair = { .connect_ms = FITS_NOT_MS };

    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(rondo_unique_id_get(&pair.ids[i]), 0);
    test_threads(2, be_one_of_two, &pair);
    for (int r = 0; r < 2; r++)
        assert_int_equal(pair.status[r], RONDO_ERR_TIMEOUT);
    assert_non_null(strstr(pair.text[0], "rank 1 of 2"));
    assert_non_null(strstr(pair.text[1], "rank 0 of 2"));
    assert_int_equal(try_as(&pair.ids[1], 0, 1), 0);
}

/* As unique_id.c describes its bytes, by other code. */
static void pretend_other_machine(rondo_unique_id_t *id)
{
    uint64_t check = 14695981039346656037u;

    id->bytes[12] ^= 1;
    for (int i = 0; i < 120; i++)
        check = (check ^ id->bytes[i]) * 1099511628211u;
    for (int i = 0; i < 8; i++)
        id->bytes[120 + i] = (uint8_t)(check >> (8 * i));
}

static void loopback_is_for_the_same_machine(void **state)
{
    struct ri_meeting here, there;
    rondo_unique_id_t id;

    (void)state;
    assert_int_equal(rondo_unique_id_get(&id), 0);
    assert_int_equal(ri_unique_id_read(&id, &here), 0);
    assert_true(here.endpoint_count >= 1);
    assert_int_equal(((struct sockaddr_in *)&here.endpoints[0].address)->sin_addr.s_addr,
                     htonl(INADDR_LOOPBACK));
    pretend_other_machine(&id);
    assert_int_equal(ri_unique_id_read(&id, &there), 0);
    for (int i = 0; i < there.endpoint_count && here.endpoint_count > 1; i++)
        assert_int_not_equal(((struct sockaddr_in *)&there.endpoints[i].address)->sin_addr.s_addr,
                             htonl(INADDR_LOOPBACK));
    assert_true(there.endpoint_count < here.endpoint_count || here.endpoint_count == 1);
    close(ri_unique_id_take_socket(here.token));
}

static void the_interface_can_be_chosen(void **state)
{
    struct ri_meeting meeting;
    struct pair pair = { .connect_ms = FITS_MS };

    (void)state;
    setenv("RONDO_INTERFACE", "lo", 1);
    assert_int_equal(rondo_unique_id_get(&pair.ids[0]), 0);
    unsetenv("RONDO_INTERFACE");
    assert_int_equal(ri_unique_id_read(&pair.ids[0], &meeting), 0);
    assert_int_equal(meeting.endpoint_count, 1);
    pair.ids[1] = pair.ids[0];
    test_threads(2, be_one_of_two, &pair);
    assert_int_equal(pair.status[0], 0);
    assert_int_equal(pair.status[1], 0);
}

static void an_unknown_interface_is_named(void **state)
{
    rondo_unique_id_t id = { { 7 } }, before = id;

    (void)state;
    setenv("RONDO_INTERFACE", "nosuch0", 1);
    assert_int_equal(rondo_unique_id_get(&id), RONDO_ERR_ARGUMENT);
    unsetenv("RONDO_INTERFACE");
    assert_non_null(strstr(rondo_last_error(), "RONDO_INTERFACE='nosuch0'"));
    assert_memory_equal(&id, &before, sizeof(id));
}

/* As many descriptors as there are now, and `spare` more. */
static int make_with(void *context)
{
    int next = dup(STDERR_FILENO), spare = *(int *)context;
    struct rlimit limit = { (rlim_t)(next + spare), (rlim_t)(next + spare) };
    rondo_unique_id_t id;
    int err;

    close(next);
    if (setrlimit(RLIMIT_NOFILE, &limit))
        return 2;
    err = rondo_unique_id_get(&id);
    if (err)
        return err != RONDO_ERR_SYSTEM || !strstr(rondo_last_error(), "(ulimit -n), which is");
    return spare == 0; /* it needs one */
}

static void without_descriptors_it_says_what_to_raise(void **state)
{
    static char text[4096];

    (void)state;
    for (int spare = 0; spare < 4; spare++)
        assert_int_equal(test_in_child(make_with, &spare, text, sizeof(text)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_differ),
        cmocka_unit_test(any_flipped_bit_is_refused_at_once),
        cmocka_unit_test(cut_and_empty_ids_are_refused),
        cmocka_unit_test(an_id_makes_one_communicator),
        cmocka_unit_test(rank_0_is_where_the_id_was_made),
        cmocka_unit_test(another_jobs_id_does_not_fit),
        cmocka_unit_test(loopback_is_for_the_same_machine),
        cmocka_unit_test(the_interface_can_be_chosen),
        cmocka_unit_test(an_unknown_interface_is_named),
        cmocka_unit_test(without_descriptors_it_says_what_to_raise),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
