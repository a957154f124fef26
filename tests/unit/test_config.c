/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/helper.h"

#include <string.h>

#include "base/config.h"
#include "base/status.h"

static void forget(void *context, const char *name, const char *value_default, const char *help)
{
    unsetenv(name);
}

static int clear_environment(void **state)
{
    ri_config_visit(forget, NULL);
    return 0;
}

/* Loads with one variable set; what is loaded goes to config, which the caller releases. */
static int load_with(const char *name, const char *value, struct ri_config *config)
{
    int err;

    memset(config, 0x55, sizeof(*config));
    setenv(name, value, 1);
    err = ri_config_load(config);
    unsetenv(name);
    return err;
}

static int64_t field_with(const char *name, const char *value, size_t offset)
{
    struct ri_config config;
    int64_t field;

    assert_int_equal(load_with(name, value, &config), 0);
    memcpy(&field, (char *)&config + offset, sizeof(field));
    ri_config_release(&config);
    return field;
}

#define FIELD_WITH(name, value, field) field_with(name, value, offsetof(struct ri_config, field))

static void has_the_documented_defaults(void **state)
{
    struct ri_config config;

    assert_int_equal(ri_config_load(&config), 0);
    assert_string_equal(config.transport, "auto");
    assert_string_equal(config.host_id, "");
    assert_string_equal(config.interface, "");
    assert_string_equal(config.net_devices, "");
    assert_string_equal(config.progress, "caller");
    assert_int_equal(config.timeout_ms, 1800000);
    assert_int_equal(config.warn_after_ms, 10000);
    assert_int_equal(config.connect_timeout_ms, 30000);
    assert_int_equal(config.spin, 2);
    assert_int_equal(config.yield, 200);
    assert_int_equal(config.self_bandwidth, 0);
    assert_int_equal(config.self_latency_us, 0);
    assert_int_equal(config.self_host_bandwidth, 0);
    assert_int_equal(config.self_host_latency_us, 0);
    assert_int_equal(config.self_shared_nic, 0);
    assert_string_equal(config.trace, "");
    assert_int_equal(config.verify, 0);
    assert_int_equal(config.self_seed, 0);
    ri_config_release(&config);
}

static void takes_durations_in_every_unit(void **state)
{
    assert_int_equal(FIELD_WITH("RONDO_TIMEOUT", "1", timeout_ms), 1000);
    assert_int_equal(FIELD_WITH("RONDO_TIMEOUT", "500ms", timeout_ms), 500);
    assert_int_equal(FIELD_WITH("RONDO_TIMEOUT", "7s", timeout_ms), 7000);
    assert_int_equal(FIELD_WITH("RONDO_TIMEOUT", "2m", timeout_ms), 120000);
    assert_int_equal(FIELD_WITH("RONDO_TIMEOUT", "480h", timeout_ms), 1728000000);
    assert_int_equal(FIELD_WITH("RONDO_CONNECT_TIMEOUT", "0005", connect_timeout_ms), 5000);
    assert_int_equal(FIELD_WITH("RONDO_SELF_LATENCY", "3", self_latency_us), 3);
    assert_int_equal(FIELD_WITH("RONDO_SELF_LATENCY", "3us", self_latency_us), 3);
    assert_int_equal(FIELD_WITH("RONDO_SELF_LATENCY", "3ms", self_latency_us), 3000);
    assert_int_equal(FIELD_WITH("RONDO_SELF_LATENCY", "3s", self_latency_us), 3000000);
}

static void takes_sizes_and_integers(void **state)
{
    assert_int_equal(FIELD_WITH("RONDO_SELF_BANDWIDTH", "0", self_bandwidth), 0);
    assert_int_equal(FIELD_WITH("RONDO_SELF_BANDWIDTH", "64K", self_bandwidth), 65536);
    assert_int_equal(FIELD_WITH("RONDO_SELF_BANDWIDTH", "3M", self_bandwidth), 3 << 20);
    assert_int_equal(FIELD_WITH("RONDO_SELF_BANDWIDTH", "5G", self_bandwidth), INT64_C(5) << 30);
    assert_int_equal(FIELD_WITH("RONDO_SPIN", "0", spin), 0);
    assert_int_equal(FIELD_WITH("RONDO_YIELD", "-1", yield), -1);
    assert_int_equal(FIELD_WITH("RONDO_SELF_SEED", "9223372036854775807", self_seed), INT64_MAX);
}

static void takes_an_empty_value_for_the_default(void **state)
{
    struct ri_config config;

    assert_int_equal(FIELD_WITH("RONDO_TIMEOUT", "", timeout_ms), 1800000);
    assert_int_equal(load_with("RONDO_TRANSPORT", "", &config), 0);
    assert_string_equal(config.transport, "auto");
    ri_config_release(&config);
}

static void takes_strings_as_they_are(void **state)
{
    struct ri_config config;

    assert_int_equal(load_with("RONDO_HOST_ID", " a,b=c ", &config), 0);
    assert_string_equal(config.host_id, " a,b=c ");
    ri_config_release(&config);
    assert_null(config.host_id);
    ri_config_release(&config);
    ri_config_release(NULL);
}

/* The whole text that a refusal gives. */
static void assert_refused(const char *name, const char *value, const char *allowed)
{
    struct ri_config config, untouched;
    char expected[300];

    memset(&untouched, 0x55, sizeof(untouched));
    assert_int_equal(load_with(name, value, &config), RONDO_ERR_ARGUMENT);
    assert_memory_equal(&config, &untouched, sizeof(config));
    sprintf(expected, "%s='%s' is refused: give %s", name, value, allowed);
    assert_string_equal(rondo_last_error(), expected);
}

static void refuses_bad_durations_by_name_value_and_range(void **state)
{
    static const char *const bad[] = {"abc", "10x", "-1", "0", "1e9", "99999999999999999999", "64K",
                                      "0ms", "481h", "1.5", "+1", " 1", "1 s", "1S", "ms", "-",
                                      "9223372036854775807", "9223372036854775808h", "0x10"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_refused("RONDO_TIMEOUT", bad[i],
                       "seconds, or with ms, s, m or h, from 1ms to 480h");
    assert_refused("RONDO_SELF_LATENCY", "11s", "microseconds, or with us, ms or s, from 0 to 10s");
}

static void refuses_bad_sizes_and_integers(void **state)
{
    static const char *const bad_sizes[] = {"abc", "10x", "-1", "1e9", "99999999999999999999",
                                            "64KB", "64k", "9223372036854775807G", "1048577G"};
    static const char *const bad_counts[] = {"abc", "10x", "-2", "1e9", "99999999999999999999",
                                             "64K", "1000000001", "-9223372036854775809"};

    for (size_t i = 0; i < sizeof(bad_sizes) / sizeof(bad_sizes[0]); i++)
        assert_refused("RONDO_SELF_BANDWIDTH", bad_sizes[i],
                       "a whole number, or one with K, M or G, from 0 to 1048576G");
    for (size_t i = 0; i < sizeof(bad_counts) / sizeof(bad_counts[0]); i++)
        assert_refused("RONDO_YIELD", bad_counts[i], "a whole number, from -1 to 1000000000");
}

/* A child, because the warning comes once per process. */
static int load_twice(void *context)
{
    struct ri_config config;

    for (int i = 0; i < 2; i++) {
        if (ri_config_load(&config))
            return 1;
        ri_config_release(&config);
    }
    return 0;
}

static void warns_once_of_an_unknown_name(void **state)
{
    char text[1000];

    setenv("RONDO_SPIN", "10", 1);     /* right, and in use */
    setenv("RONDO_YEILD", "10", 1);    /* misspelt */
    setenv("RONDO_SELF_SEED", "1", 1); /* right, and not in use */
    setenv("RONDO_UCX_TLS", "tcp", 1);
    setenv("RONDO_TEST_UPDATE", "1", 1);
    assert_int_equal(test_in_child(load_twice, NULL, text, sizeof(text)), 0);
    assert_string_equal(text, "rondo warn base: RONDO_YEILD is set, but no variable has this name; "
                              "the nearest is RONDO_YIELD\n");
    unsetenv("RONDO_UCX_TLS");
    unsetenv("RONDO_TEST_UPDATE");
}

static void warns_on_one_rank_and_can_be_silenced(void **state)
{
    char text[1000];

    setenv("RONDO_RANK", "1", 1);
    assert_int_equal(test_in_child(load_twice, NULL, text, sizeof(text)), 0);
    assert_string_equal(text, "");
    setenv("RONDO_RANK", "0", 1);
    assert_int_equal(test_in_child(load_twice, NULL, text, sizeof(text)), 0);
    assert_non_null(strstr(text, "RONDO_YEILD"));
    setenv("RONDO_LOG", "error", 1);
    assert_int_equal(test_in_child(load_twice, NULL, text, sizeof(text)), 0);
    assert_string_equal(text, "");
    unsetenv("RONDO_YEILD");
}

static void survives_odd_unknown_names(void **state)
{
    char text[4000], longer[1000];

    memset(longer, 'Q', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = 0;
    memcpy(longer, "RONDO_", 6);
    setenv(longer, "1", 1);
    setenv("RONDO_", "1", 1);
    setenv("RONDO_TEST_", "1", 1);
    assert_int_equal(test_in_child(load_twice, NULL, text, sizeof(text)), 0);
    assert_non_null(strstr(text, "RONDO_QQQ"));
    assert_non_null(strstr(text, "base: RONDO_ is set"));
    assert_non_null(strstr(text, "base: RONDO_TEST_ is set"));
    unsetenv(longer);
    unsetenv("RONDO_");
    unsetenv("RONDO_TEST_");
}

struct visited {
    int count;
    char last_name[64];
};

static void check_row(void *context, const char *name, const char *value_default, const char *help)
{
    struct visited *visited = context;

    assert_int_equal(strncmp(name, "RONDO_", 6), 0);
    assert_true(strcmp(visited->last_name, name) < 0);
    assert_non_null(value_default);
    assert_true(strlen(help) > 10);
    snprintf(visited->last_name, sizeof(visited->last_name), "%s", name);
    visited->count++;
}

static void visits_every_variable_in_order_with_help(void **state)
{
    struct visited visited = {0, ""};

    ri_config_visit(check_row, &visited);
    assert_int_equal(visited.count, 38);
}

int main(void)
{
    /* The warning comes once per process: what looks at it comes before the first load here. */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(warns_once_of_an_unknown_name, clear_environment),
        cmocka_unit_test_setup(warns_on_one_rank_and_can_be_silenced, clear_environment),
        cmocka_unit_test_setup(survives_odd_unknown_names, clear_environment),
        cmocka_unit_test_setup(has_the_documented_defaults, clear_environment),
        cmocka_unit_test_setup(takes_durations_in_every_unit, clear_environment),
        cmocka_unit_test_setup(takes_sizes_and_integers, clear_environment),
        cmocka_unit_test_setup(takes_an_empty_value_for_the_default, clear_environment),
        cmocka_unit_test_setup(takes_strings_as_they_are, clear_environment),
        cmocka_unit_test_setup(refuses_bad_durations_by_name_value_and_range, clear_environment),
        cmocka_unit_test_setup(refuses_bad_sizes_and_integers, clear_environment),
        cmocka_unit_test_setup(visits_every_variable_in_order_with_help, clear_environment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
