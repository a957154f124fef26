/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the texts of rondo-schedules(7) with what builders print.  In the page a case (cases.h)
 * stands in comments right before the literal block that shows its text:
 *     .\" schedule: ring_forward
 *     .\" machine: host:1 gpu:4
 *     .\" rank: 1
 *     .Bd -literal
 * RONDO_TEST_UPDATE=1 writes the texts anew; review the difference like code. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/schedule/cases.h"

enum { MAX_SHOWN = 64, CASE_LINES = 3 };

static const char case_start[] = ".\\\" schedule: ", block_end[] = "\n.Ed\n";

/* One text that the page shows. */
struct shown {
    char label[128]; /* for the test's name */
    char *wanted;    /* the case, as in cases.h */
    char *text;      /* what the page says it prints, without escapes */
    const char *begin, *end; /* where in the page it stands */
};

static char *page;
static struct shown shown[MAX_SHOWN];
static int shown_count;

/* ---- reading the page ---- */

static const char *page_path(void)
{
    static char path[4096];
    const char *top = getenv("top_srcdir");

    snprintf(path, sizeof(path), "%s/man/man7/rondo-schedules.7", top ? top : ".");
    return path;
}

static int read_page(void)
{
    enum { ROOM = 1 << 18 };
    FILE *file = fopen(page_path(), "r");
    size_t length;

    page = calloc(1, ROOM);
    if (!file || !page) {
        perror(page_path());
        return -1;
    }
    length = fread(page, 1, ROOM - 1, file);
    fclose(file);
    return length < ROOM - 1 ? 0 : -1;
}

static const char *next_line(const char *line)
{
    const char *end = strchr(line, '\n');

    return end ? end + 1 : line + strlen(line);
}

/* The three comments at `line` without their marks. */
static char *uncomment(const char *line)
{
    char *text = calloc(1, (size_t)(next_line(next_line(next_line(line))) - line) + 1);

    for (int i = 0; text && i < CASE_LINES; i++, line = next_line(line))
        if (!strncmp(line, ".\\\" ", 4))
            strncat(text, line + 4, (size_t)(next_line(line) - line) - 4);
    return text;
}

/* Hyphens are written as \- in the page, so that readers can copy them. */
static char *unescape(const char *begin, const char *end)
{
    char *text = calloc(1, (size_t)(end - begin) + 1), *out = text;

    for (; text && begin < end; begin++)
        if (begin[0] != '\\' || begin[1] != '-')
            *out++ = *begin;
    return text;
}

static int find_shown(void)
{
    for (const char *at = strstr(page, case_start); at; at = strstr(at, case_start)) {
        struct shown *one = &shown[shown_count++];
        const char *block = next_line(next_line(next_line(at)));

        if (shown_count == MAX_SHOWN || strncmp(block, ".Bd -literal", 12))
            return -1;
        one->begin = next_line(block);
        one->end = strstr(one->begin - 1, block_end);
        if (!one->end)
            return -1;
        one->end++;
        one->wanted = uncomment(at);
        one->text = unescape(one->begin, one->end);
        if (!one->wanted || !one->text)
            return -1;
        snprintf(one->label, sizeof(one->label), "%d: %.*s", shown_count,
                 (int)strcspn(one->wanted, "\n"), one->wanted);
        at = one->end;
    }
    return 0;
}

/* ---- tests ---- */

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

        for (int i = 0; i < shown_count; i++)
            found = found || !strncmp(shown[i].text + strlen("schedule "), entry->name, length);
        if (!found)
            fail_msg("%s shows no text of %s", page_path(), entry->name);
    }
}

/* ---- writing it anew ---- */

static void write_escaped(FILE *file, const char *text)
{
    for (; *text; text++) {
        if (*text == '-')
            fputc('\\', file);
        fputc(*text, file);
    }
}

static void writes_the_texts(void **state)
{
    FILE *file = fopen(page_path(), "w");
    const char *from = page;

    assert_non_null(file);
    for (int i = 0; i < shown_count; i++) {
        char *text = print_case(&shown[i]);

        fwrite(from, 1, (size_t)(shown[i].begin - from), file);
        write_escaped(file, text);
        from = shown[i].end;
        free(text);
    }
    fputs(from, file);
    assert_int_equal(fclose(file), 0);
}

static int updates(void)
{
    const char *update = getenv("RONDO_TEST_UPDATE");

    return update && *update && strcmp(update, "0");
}

static int run(void)
{
    static struct CMUnitTest tests[MAX_SHOWN + 1] = {cmocka_unit_test(shows_every_builder)};
    const struct CMUnitTest update[] = {cmocka_unit_test(writes_the_texts)};

    for (int i = 0; i < shown_count; i++)
        tests[i + 1] = (struct CMUnitTest){shown[i].label, is_what_builders_print, NULL, NULL,
                                           &shown[i]};
    if (updates())
        return cmocka_run_group_tests_name("manual", update, NULL, NULL);
    return _cmocka_run_group_tests("manual", tests, (size_t)shown_count + 1, NULL, NULL);
}

int main(void)
{
    int failed;

    if (read_page() || find_shown()) {
        printf("Bail out! %s cannot be read, or its text %d is out of form\n", page_path(),
               shown_count);
        return 1;
    }
    failed = run();
    for (int i = 0; i < shown_count; i++) {
        free(shown[i].wanted);
        free(shown[i].text);
    }
    free(page);
    return failed;
}
