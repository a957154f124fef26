/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/helper.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>

#include "base/status.h"
#include "build-config.h"

static void names_every_status_differently(void **state)
{
    for (int a = RONDO_ERR_VERIFY; a <= RONDO_OK; a++) {
        assert_non_null(rondo_strerror(a));
        assert_string_not_equal(rondo_strerror(a), "unknown status");
        for (int b = RONDO_ERR_VERIFY; b < a; b++)
            assert_string_not_equal(rondo_strerror(a), rondo_strerror(b));
    }
    assert_string_equal(rondo_strerror(RONDO_ERR_TIMEOUT), "timed out");
}

static void names_what_is_no_status(void **state)
{
    const int strange[] = {1, INT_MAX, INT_MIN, INT_MIN + 1, RONDO_ERR_VERIFY - 1};

    for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++)
        assert_string_equal(rondo_strerror(strange[i]), "unknown status");
}

static void records_the_text_and_returns_the_status(void **state)
{
    assert_int_equal(ri_error(RONDO_ERR_ARGUMENT, "rank %d of %d", 5, 4), RONDO_ERR_ARGUMENT);
    assert_string_equal(rondo_last_error(), "rank 5 of 4");
}

static void cuts_a_text_that_is_too_long(void **state)
{
    char text[5000];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    ri_error(RONDO_ERR_ARGUMENT, "%s", text);
    assert_in_range(strlen(rondo_last_error()), 500, sizeof(text) - 2);
    assert_int_equal(strspn(rondo_last_error(), "x"), strlen(rondo_last_error()));
}

static void *fail_elsewhere(void *seen)
{
    *(int *)seen = (int)strlen(rondo_last_error());
    ri_error(RONDO_ERR_SYSTEM, "elsewhere");
    return NULL;
}

static void keeps_the_texts_of_threads_apart(void **state)
{
    pthread_t thread;
    int seen = -1;

    ri_error(RONDO_ERR_SYSTEM, "here");
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &seen), 0);
    pthread_join(thread, NULL);
    assert_int_equal(seen, 0);
    assert_string_equal(rondo_last_error(), "here");
}

static void says_what_to_do_without_descriptors(void **state)
{
    (void)state;
    errno = 7;
    assert_non_null(strstr(ri_errno_text(EMFILE), "raise the limit of descriptors (ulimit -n), which is "));
    assert_string_equal(ri_errno_text(-EACCES), strerror(EACCES));
    assert_non_null(strstr(ri_errno_text(-ENFILE), "fs.file-max"));
    assert_int_equal(errno, 7);
}

static void tells_its_version(void **state)
{
    assert_string_equal(rondo_version(), PACKAGE_VERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_every_status_differently),
        cmocka_unit_test(names_what_is_no_status),
        cmocka_unit_test(records_the_text_and_returns_the_status),
        cmocka_unit_test(cuts_a_text_that_is_too_long),
        cmocka_unit_test(keeps_the_texts_of_threads_apart),
        cmocka_unit_test(says_what_to_do_without_descriptors),
        cmocka_unit_test(tells_its_version),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
