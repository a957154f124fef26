/* SPDX-License-Identifier: Apache-2.0 */
/* The list in rondo-environment(7) is the table of settings, in words.  RONDO_TEST_UPDATE=1 writes it anew;
 * review the difference like code. */
#include "tests/helper.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/config.h"

static const char begin_mark[] = ".\\\" begin table\n", end_mark[] = ".\\\" end table\n";

static const char *page_path(void)
{
    static char path[4096];
    const char *top = getenv("top_srcdir");

    snprintf(path, sizeof(path), "%s/man/man7/rondo-environment.7", top ? top : ".");
    return path;
}

static char *read_page(void)
{
    enum { ROOM = 1 << 17 };
    char *page = calloc(1, ROOM);
    FILE *file = fopen(page_path(), "r");

    assert_non_null(page);
    assert_non_null(file);
    assert_true(fread(page, 1, ROOM - 1, file) < ROOM - 1);
    fclose(file);
    return page;
}

/* Words that begin with '-' would be read as hyphens. */
static void print_text(FILE *out, const char *text)
{
    fputc(toupper((unsigned char)text[0]), out);
    for (const char *c = text + 1; *c; c++)
        if (*c == '-' && !isalnum((unsigned char)c[-1]))
            fputs("\\-", out);
        else
            fputc(*c, out);
    fputs(".\n", out);
}

static void print_item(void *context, const char *name, const char *value_default, const char *help)
{
    FILE *out = context;

    fprintf(out, ".It Ev %s", name);
    if (*value_default)
        fprintf(out, " Pq %s", value_default);
    fputc('\n', out);
    print_text(out, help);
}

static char *print_list(void)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    assert_non_null(out);
    fputs(".Bl -tag -width \"RONDO_CONNECT_TIMEOUT\"\n", out);
    ri_config_visit(print_item, out);
    fputs(".El\n", out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void write_page(const char *page, const char *begin, const char *list, const char *end)
{
    FILE *file = fopen(page_path(), "w");

    assert_non_null(file);
    fprintf(file, "%.*s%s%s", (int)(begin - page), page, list, end);
    assert_int_equal(fclose(file), 0);
}

static void the_page_lists_the_table(void **state)
{
    char *page = read_page(), *list = print_list(), *begin = strstr(page, begin_mark), *end;

    assert_non_null(begin);
    begin += strlen(begin_mark);
    end = strstr(begin, end_mark);
    assert_non_null(end);
    if (getenv("RONDO_TEST_UPDATE"))
        write_page(page, begin, list, end);
    else
        assert_true(strlen(list) == (size_t)(end - begin) && !strncmp(begin, list, strlen(list)));
    free(list);
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_lists_the_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
