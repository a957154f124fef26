/* SPDX-License-Identifier: Apache-2.0 */
/* Compares what builders write with the texts that lie beside the cases, whose form is in cases.h.
 * RONDO_TEST_UPDATE=1 writes the texts anew; review the difference like code. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <rondo/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/schedule/cases.h"

enum { MAX_CASES = 128, PATH = 4096 };

struct golden {
    char name[64]; /* without .case */
};

static struct golden goldens[MAX_CASES];

static const char *folder(void)
{
    static char path[PATH];
    const char *top = getenv("top_srcdir");

    snprintf(path, sizeof(path), "%s/tests/schedule", top ? top : ".");
    return path;
}

static FILE *open_beside(const struct golden *golden, const char *ending, const char *mode)
{
    char path[PATH + 128];

    snprintf(path, sizeof(path), "%s/%s%s", folder(), golden->name, ending);
    return fopen(path, mode);
}

/* Malloc'd; empty when there is no such file. */
static char *read_all(FILE *file)
{
    char *text = calloc(1, 1 << 16);
    size_t length = 0;

    assert_non_null(text);
    if (file) {
        length = fread(text, 1, (1 << 16) - 1, file);
        assert_true(length < (1 << 16) - 1);
        fclose(file);
    }
    text[length] = 0;
    return text;
}

static struct ri_schedule *build_case(const struct golden *golden)
{
    char *text = read_all(open_beside(golden, ".case", "r"));
    struct ri_schedule *s = case_build(text);

    free(text);
    return s;
}

static void builds_the_text(void **state)
{
    const struct golden *golden = *state;
    const char *update = getenv("RONDO_TEST_UPDATE");
    struct ri_schedule *s = build_case(golden);
    char *text = ri_schedule_print(s), *expected;

    assert_non_null(text);
    if (update && *update && strcmp(update, "0")) {
        FILE *out = open_beside(golden, ".out", "w");

        assert_non_null(out);
        assert_true(fputs(text, out) >= 0);
        assert_int_equal(fclose(out), 0);
    }
    expected = read_all(open_beside(golden, ".out", "r"));
    assert_string_equal(text, expected);
    free(expected);
    free(text);
    ri_schedule_destroy(s);
}

/* What is printed is read back as the same schedule. */
static void reads_the_text_back(void **state)
{
    const struct golden *golden = *state;
    char *expected = read_all(open_beside(golden, ".out", "r")), *again;
    struct ri_schedule *built = build_case(golden), *s = NULL;
    const char *end = NULL;

    if (ri_schedule_parse(expected, &s, &end))
        fail_msg("%s: %s", golden->name, rondo_last_error());
    assert_int_equal(*end, 0);
    again = ri_schedule_print(s);
    assert_string_equal(again, expected);
    assert_true(ri_schedule_hash(s) == ri_schedule_hash(built));
    free(again);
    free(expected);
    ri_schedule_destroy(s);
    ri_schedule_destroy(built);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct golden *)a)->name, ((const struct golden *)b)->name);
}

static int find_cases(void)
{
    DIR *dir = opendir(folder());
    int count = 0;

    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        size_t length = strlen(entry->d_name);

        if (length < 6 || length - 5 >= sizeof(goldens[0].name) ||
            strcmp(entry->d_name + length - 5, ".case") || count == MAX_CASES)
            continue;
        memcpy(goldens[count].name, entry->d_name, length - 5);
        goldens[count++].name[length - 5] = 0;
    }
    if (dir)
        closedir(dir);
    qsort(goldens, (size_t)count, sizeof(goldens[0]), by_name);
    return count;
}

static void cases_are_found(void **state)
{
    assert_true(goldens[0].name[0]);
}

int main(void)
{
    static struct CMUnitTest tests[2 * MAX_CASES + 1];
    static char names[2 * MAX_CASES][96];
    int count = find_cases(), n = 0;

    tests[n++] = (struct CMUnitTest)cmocka_unit_test(cases_are_found);
    for (int i = 0; i < count; i++) {
        snprintf(names[2 * i], sizeof(names[0]), "builds %.63s", goldens[i].name);
        snprintf(names[2 * i + 1], sizeof(names[0]), "reads back %.63s", goldens[i].name);
        tests[n++] = (struct CMUnitTest){names[2 * i], builds_the_text, NULL, NULL, &goldens[i]};
        tests[n++] =
            (struct CMUnitTest){names[2 * i + 1], reads_the_text_back, NULL, NULL, &goldens[i]};
    }
    return _cmocka_run_group_tests("golden", tests, (size_t)n, NULL, NULL);
}
