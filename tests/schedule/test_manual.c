/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the texts of rondo-schedules(7) with what builders print.  What the page shows is a case (cases.h) in
 * comments before its text (tests/page.h).  RONDO_TEST_UPDATE=1 writes the texts anew; review the difference
 * like code. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "tests/page.h"
#include "tests/schedule/cases.h"

static struct page page;

static char *print_case(const struct shown *one)
{
    struct ri_schedule *s = case_build(one->wanted);
    char *text = ri_schedule_print(s);

    ri_schedule_destroy(s);
    assert_non_null(text);
    return text;
}

static void is_what_builders_print(void **state)
{
    const struct shown *one = *state;
    char *text = print_case(one);

    assert_string_equal(one->text, text);
    free(text);
}

static void shows_every_builder(void **state)
{
    for (const struct ri_builder_entry *entry = ri_builders; entry->name; entry++) {
        size_t length = strlen(entry->name);
        int found = 0;

        for (int i = 0; i < page.shown_count; i++)
            found = found || !strncmp(page.shown[i].text + strlen("schedule "), entry->name, length);
        if (!found)
            fail_msg("%s shows no text of %s", page.path, entry->name);
    }
}

static void writes_the_texts(void **state)
{
    assert_int_equal(page_write(&page, print_case), 0);
}

static int run(void)
{
    static struct CMUnitTest tests[PAGE_MAX_SHOWN + 1] = {cmocka_unit_test(shows_every_builder)};
    const struct CMUnitTest update[] = {cmocka_unit_test(writes_the_texts)};

    for (int i = 0; i < page.shown_count; i++)
        tests[i + 1] = (struct CMUnitTest){page.shown[i].label, is_what_builders_print, NULL, NULL,
                                           &page.shown[i]};
    if (page_updates())
        return cmocka_run_group_tests_name("manual", update, NULL, NULL);
    return _cmocka_run_group_tests("manual", tests, (size_t)page.shown_count + 1, NULL, NULL);
}

int main(void)
{
    int failed;

    if (page_read(&page, "man/man7/rondo-schedules.7", "schedule: "))
        return 1;
    failed = run();
    page_release(&page);
    return failed;
}
