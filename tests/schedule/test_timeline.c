/* SPDX-License-Identifier: Apache-2.0 */
/* Timelines of a ring of two, whose every event is known. */
#include <fenv.h>
#include <rondo/status.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schedule/timeline.h"
#include "tests/schedule/machine.h"
#include "tests/schedule/ranks.h"

/* K crosses in 1; each kernel takes 4. */
static char *write_with(ri_timeline_writer *writer, int want_events, int *status)
{
    struct ri_cost cost = table_cost(4);
    struct ri_simulation out;
    struct ranks all;
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);

    assert_non_null(to);
    cost.lane[RI_LANE_LOCAL].latency_seconds = 0;
    ranks_build(&all, ri_build_ring_forward, 2, NULL, 0);
    assert_int_equal(ri_simulate(all.s, 2, &cost, want_events, &out), 0);
    *status = writer(to, all.s, &out);
    fclose(to);
    ri_simulation_release(&out);
    ranks_release(&all);
    return text;
}

static char *written(ri_timeline_writer *writer)
{
    int status;
    char *text = write_with(writer, 1, &status);

    assert_int_equal(status, 0);
    return text;
}

static int count(const char *text, const char *word)
{
    int n = 0;

    for (; (text = strstr(text, word)); text += strlen(word))
        n++;
    return n;
}

/* Of 100 columns for 8 s a kernel has 50, and the hop 12.5. */
static void text_shows_rows_of_columns(void **state)
{
    char *text = written(ri_timeline_text), wanted[512], half[51];

    memset(half, '0', 50);
    half[50] = 0;
    snprintf(wanted, sizeof(wanted), "rank 0   work      |%s", half);
    assert_non_null(strstr(text, wanted));
    memset(half, '1', 50);
    snprintf(wanted, sizeof(wanted), "%s|\nrank 0   local out |0000000000000...", half);
    assert_non_null(strstr(text, wanted));
    assert_non_null(strstr(text, "rank 1   local in  |0000000000000..."));
    assert_null(strstr(text, "host in"));
    assert_int_equal(count(text, "\n"), 1 + 2 * 3);
    free(text);
}

static void json_names_ranks_rows_and_steps(void **state)
{
    char *text = written(ri_timeline_chrome);

    assert_int_equal(count(text, "\"ph\":\"M\""), 2 * (1 + 3));
    assert_int_equal(count(text, "\"ph\":\"X\""), 2 * 4);
    assert_int_equal(count(text, "{"), count(text, "}"));
    assert_int_equal(count(text, "},\n]"), 0);
    assert_non_null(strstr(text, "\"pid\":1,\"tid\":0,\"ts\":4000000.000,\"dur\":4000000.000,"
                                 "\"name\":\"Q1 K0\",\"cat\":\"compute\""));
    assert_non_null(strstr(text, "\"pid\":0,\"tid\":2,\"ts\":0.000,\"dur\":1000000.000,"
                                 "\"name\":\"K1\",\"cat\":\"recv\",\"args\":{\"step\":1,"
                                 "\"turn\":0,\"peer\":1}"));
    free(text);
}

static void svg_has_a_bar_with_a_title_for_each_event(void **state)
{
    char *text = written(ri_timeline_svg);

    assert_int_equal(count(text, "<title>"), 2 * 4);
    assert_int_equal(count(text, "<title>"), count(text, "</title>"));
    assert_int_equal(count(text, "<text"), count(text, "</text>"));
    assert_int_equal(strncmp(text, "<?xml", 5), 0);
    assert_string_equal(text + strlen(text) - 7, "</svg>\n");
    assert_int_equal(count(text, ">rank 0<"), 1);
    assert_int_equal(count(text, ">Q1 K0</text>"), 1);
    free(text);
}

/* Nothing takes any time: still a timeline, of nothing, and no 0/0 is made a column. */
static void a_run_of_no_time_is_no_fault(void **state)
{
    static ri_timeline_writer *const writers[] = {ri_timeline_text, ri_timeline_svg,
                                                  ri_timeline_chrome};
    struct ri_cost cost = table_cost(0);
    struct ri_simulation out;
    struct ranks all;

    ranks_build(&all, ri_build_ring_forward, 1, NULL, 0);
    assert_int_equal(ri_simulate(all.s, 1, &cost, 1, &out), 0);
    for (int i = 0; i < 3; i++) {
        FILE *to = fopen("/dev/null", "w");

        assert_non_null(to);
        feclearexcept(FE_ALL_EXCEPT);
        assert_int_equal(writers[i](to, all.s, &out), 0);
        assert_int_equal(fetestexcept(FE_INVALID | FE_DIVBYZERO), 0);
        fclose(to);
    }
    ri_simulation_release(&out);
    ranks_release(&all);
}

static void says_when_nothing_can_be_written(void **state)
{
    static ri_timeline_writer *const writers[] = {ri_timeline_text, ri_timeline_svg,
                                                  ri_timeline_chrome};
    int status;

    for (int i = 0; i < 3; i++) {
        free(write_with(writers[i], 0, &status));
        assert_int_equal(status, RONDO_ERR_ARGUMENT);
        assert_non_null(strstr(rondo_last_error(), "has no events"));
    }
}

static void a_full_device_is_an_error(void **state)
{
    struct ri_cost cost = table_cost(1);
    struct ri_simulation out;
    struct ranks all;
    FILE *full = fopen("/dev/full", "w");

    assert_non_null(full);
    ranks_build(&all, ri_build_ring_forward, 2, NULL, 0);
    assert_int_equal(ri_simulate(all.s, 2, &cost, 1, &out), 0);
    assert_int_equal(ri_timeline_chrome(full, all.s, &out), RONDO_ERR_SYSTEM);
    fclose(full);
    ri_simulation_release(&out);
    ranks_release(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_shows_rows_of_columns),
        cmocka_unit_test(json_names_ranks_rows_and_steps),
        cmocka_unit_test(svg_has_a_bar_with_a_title_for_each_event),
        cmocka_unit_test(a_run_of_no_time_is_no_fault),
        cmocka_unit_test(says_when_nothing_can_be_written),
        cmocka_unit_test(a_full_device_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
