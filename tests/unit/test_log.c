/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/helper.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/log.h"

static char text[8192]; /* what the child wrote to stderr */

/* One line of each level, so that a setting shows which pass. */
static int write_all_levels(void *component)
{
    for (int level = RI_LOG_ERROR; level <= RI_LOG_TRACE; level++)
        ri_log((enum ri_log_level)level, component, "line %d", level);
    return 0;
}

static int lines_of(const char *setting, const char *component)
{
    int lines = 0;

    if (setting)
        setenv("RONDO_LOG", setting, 1);
    else
        unsetenv("RONDO_LOG");
    unsetenv("RONDO_LOG_FILE");
    assert_int_equal(test_in_child(write_all_levels, (void *)component, text, sizeof(text)), 0);
    for (const char *c = text; *c; c++)
        lines += *c == '\n';
    return lines;
}

static void is_silent_below_warn_unless_asked(void **state)
{
    assert_int_equal(lines_of(NULL, "plan"), 2);
    assert_string_equal(text, "rondo error plan: line 0\nrondo warn plan: line 1\n");
    assert_int_equal(lines_of("", "plan"), 2);
}

static void takes_every_level(void **state)
{
    assert_int_equal(lines_of("error", "plan"), 1);
    assert_int_equal(lines_of("warn", "plan"), 2);
    assert_int_equal(lines_of("info", "plan"), 3);
    assert_int_equal(lines_of("debug", "plan"), 4);
    assert_int_equal(lines_of("trace", "plan"), 5);
}

static void takes_a_level_for_one_component(void **state)
{
    assert_int_equal(lines_of("error,plan:debug", "plan"), 4);
    assert_int_equal(lines_of("error,plan:debug", "engine"), 1);
    assert_int_equal(lines_of("plan:error", "plan"), 1);
    assert_int_equal(lines_of("plan:error", "planner"), 2);
    assert_int_equal(lines_of("trace, plan:error,plan:info", "plan"), 3);
}

static void warns_of_a_malformed_setting_and_goes_on(void **state)
{
    static const char *const malformed[] = {"loud", "plan:", ":debug", "plan:loud", "debug;", "7",
                                            "a_component_with_a_name_of_no_end:debug"};

    for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
        assert_int_equal(lines_of(malformed[i], "plan"), 3);
        assert_memory_equal(text, "rondo warn base: RONDO_LOG: ", 28);
    }
    assert_int_equal(lines_of("loud,debug", "plan"), 5);
    assert_non_null(strstr(text, "'loud'"));
}

static void warns_of_an_unknown_component(void **state)
{
    assert_int_equal(lines_of("plam:debug,info", "plan"), 3 + 1);
    assert_non_null(strstr(text, "'plam' is ignored; components are base, comm, plan, transport, verify"));
}

static void bounds_the_number_of_rules(void **state)
{
    char setting[300] = "plan:debug";

    for (int i = 1; i < 15; i++)
        strcat(setting, ",plan:debug");
    strcat(setting, ",comm:debug,base:debug");
    assert_int_equal(lines_of(setting, "comm"), 4 + 1);
    assert_int_equal(lines_of(setting, "base"), 2 + 1);
}

static int write_awkward_text(void *context)
{
    char longer[4000];

    memset(longer, 'y', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = 0;
    ri_log_rank(3);
    ri_log(RI_LOG_WARN, "comm", "first\nsecond\r%s", "third");
    ri_log(RI_LOG_WARN, "comm", "%s", longer);
    ri_log_rank(-1);
    errno = EBADF;
    ri_log(RI_LOG_WARN, "comm", "last");
    return errno == EBADF ? 0 : 1;
}

static void keeps_one_line_per_event_and_errno(void **state)
{
    const char *second;

    unsetenv("RONDO_LOG");
    assert_int_equal(test_in_child(write_awkward_text, NULL, text, sizeof(text)), 0);
    second = strstr(text, "\nrondo[3] warn comm: yyy");
    assert_non_null(second);
    assert_memory_equal(text, "rondo[3] warn comm: first second third\n", 39);
    assert_string_equal(strchr(second + 1, '\n'), "\nrondo warn comm: last\n");
}

static void *write_from_thread(void *context)
{
    ri_log(RI_LOG_WARN, "comm", "unranked");
    return NULL;
}

static int write_from_two_threads(void *context)
{
    pthread_t thread;

    ri_log_rank(7);
    if (pthread_create(&thread, NULL, write_from_thread, NULL))
        return 1;
    pthread_join(thread, NULL);
    ri_log(RI_LOG_WARN, "comm", "ranked");
    return 0;
}

static void gives_each_thread_its_own_rank(void **state)
{
    unsetenv("RONDO_LOG");
    assert_int_equal(test_in_child(write_from_two_threads, NULL, text, sizeof(text)), 0);
    assert_string_equal(text, "rondo warn comm: unranked\nrondo[7] warn comm: ranked\n");
}

static int write_own_pid(void *path)
{
    char host[256] = "";

    ri_log(RI_LOG_WARN, "comm", "to the file");
    gethostname(host, sizeof(host) - 1);
    sprintf(path, "test_log.%s.%ld.%%x", host, (long)getpid());
    dprintf(STDERR_FILENO, "%s", (char *)path);
    return 0;
}

static void appends_to_a_file_named_by_host_and_process(void **state)
{
    char path[400], line[100] = "";
    FILE *file;

    unsetenv("RONDO_LOG");
    setenv("RONDO_LOG_FILE", "test_log.%h.%p.%x", 1);
    assert_int_equal(test_in_child(write_own_pid, path, text, sizeof(text)), 0);
    file = fopen(text, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof(line), file));
    fclose(file);
    remove(text);
    assert_string_equal(line, "rondo warn comm: to the file\n");
}

static void goes_to_stderr_when_the_file_cannot_be(void **state)
{
    char longer[3000];

    unsetenv("RONDO_LOG");
    setenv("RONDO_LOG_FILE", "/nonexistent/folder/log", 1);
    assert_int_equal(test_in_child(write_all_levels, (void *)"plan", text, sizeof(text)), 0);
    assert_non_null(strstr(text, "'/nonexistent/folder/log' cannot be opened"));
    assert_non_null(strstr(text, "rondo warn plan: line 1\n"));

    memset(longer, 'z', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = 0;
    setenv("RONDO_LOG_FILE", longer, 1);
    assert_int_equal(test_in_child(write_all_levels, (void *)"plan", text, sizeof(text)), 0);
    assert_non_null(strstr(text, "is longer than 1023 bytes"));
    assert_non_null(strstr(text, "rondo warn plan: line 1\n"));
    unsetenv("RONDO_LOG_FILE");
}

static int ask_what_is_on(void *context)
{
    return ri_log_on(RI_LOG_DEBUG, "plan") && !ri_log_on(RI_LOG_TRACE, "plan") &&
                   ri_log_on(RI_LOG_WARN, "comm") && !ri_log_on(RI_LOG_INFO, "comm")
               ? 0
               : 1;
}

static void tells_what_would_be_written(void **state)
{
    setenv("RONDO_LOG", "warn,plan:debug", 1);
    assert_int_equal(test_in_child(ask_what_is_on, NULL, text, sizeof(text)), 0);
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_silent_below_warn_unless_asked),
        cmocka_unit_test(takes_every_level),
        cmocka_unit_test(takes_a_level_for_one_component),
        cmocka_unit_test(warns_of_a_malformed_setting_and_goes_on),
        cmocka_unit_test(warns_of_an_unknown_component),
        cmocka_unit_test(bounds_the_number_of_rules),
        cmocka_unit_test(keeps_one_line_per_event_and_errno),
        cmocka_unit_test(gives_each_thread_its_own_rank),
        cmocka_unit_test(appends_to_a_file_named_by_host_and_process),
        cmocka_unit_test(goes_to_stderr_when_the_file_cannot_be),
        cmocka_unit_test(tells_what_would_be_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
