/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the pictures of rondo-masks(7) with what layouts and tiles are.  RONDO_TEST_UPDATE=1 draws them anew;
 * review the difference like code. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/page.h"
#include "tests/unit/masks_shown.h"

static struct page page;

static int is_named(const struct shown *one, const char *name)
{
    char wanted[128];

    snprintf(wanted, sizeof(wanted), "picture: %s\n", name);
    return !strcmp(one->wanted, wanted);
}

static const struct picture *picture_of(const struct shown *one)
{
    for (int i = 0; i < picture_count; i++)
        if (is_named(one, pictures[i].name))
            return &pictures[i];
    fail_msg("%s shows a picture that is not known: %s", page.path, one->wanted);
    return NULL;
}

static char *print_shown(const struct shown *one)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    assert_non_null(out);
    if (is_named(one, "costs"))
        write_costs(out);
    else
        write_picture(out, picture_of(one));
    assert_int_equal(fclose(out), 0);
    return text;
}

/* ---- tests ---- */

static void is_what_layouts_and_tiles_are(void **state)
{
    const struct shown *one = *state;
    char *text = print_shown(one);

    assert_string_equal(one->text, text);
    free(text);
}

static void shows_every_picture(void **state)
{
    for (int i = 0; i < picture_count; i++) {
        int found = 0;

        for (int n = 0; n < page.shown_count; n++)
            found += is_named(&page.shown[n], pictures[i].name);
        if (found != 1)
            fail_msg("%s shows \"%s\" %d times", page.path, pictures[i].name, found);
    }
}

static void draws_the_pictures(void **state)
{
    assert_int_equal(page_write(&page, print_shown), 0);
}

static int run(void)
{
    static struct CMUnitTest tests[PAGE_MAX_SHOWN + 1] = {cmocka_unit_test(shows_every_picture)};
    const struct CMUnitTest update[] = {cmocka_unit_test(draws_the_pictures)};

    for (int i = 0; i < page.shown_count; i++)
        tests[i + 1] = (struct CMUnitTest){page.shown[i].label, is_what_layouts_and_tiles_are, NULL, NULL,
                                           &page.shown[i]};
    if (page_updates())
        return cmocka_run_group_tests_name("masks_manual", update, NULL, NULL);
    return _cmocka_run_group_tests("masks_manual", tests, (size_t)page.shown_count + 1, NULL, NULL);
}

int main(void)
{
    int failed;

    if (page_read(&page, "man/man7/rondo-masks.7", "picture: "))
        return 1;
    failed = run();
    page_release(&page);
    return failed;
}
