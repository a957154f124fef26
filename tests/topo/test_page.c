/* SPDX-License-Identifier: Apache-2.0 */
/* What rondo-topo-text(5) shows can be read, and it tells of all words and fields. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "tests/page.h"
#include "topo/pack.h"
#include "topo/topo.h"

#define PAGE "man/man5/rondo-topo-text.5"

static struct page page;

static void every_example_is_read(void **state)
{
    int blocks = 0;

    for (const char *at = page.content; (at = strstr(at, ".Bd -literal")); at++)
        blocks++;
    assert_int_equal(blocks, page.shown_count);
    assert_in_range(blocks, 5, PAGE_MAX_SHOWN);
    for (int i = 0; i < page.shown_count; i++) {
        const char *text = page.shown[i].text;
        struct ri_topo *topo = NULL;
        char found[128];
        int packed = strncmp(text, RI_TOPO_PACK_HEADER, strlen(RI_TOPO_PACK_HEADER)) == 0;

        if (packed ? ri_topo_unpack(text, &topo) : ri_topo_from_text(text, &topo))
            fail_msg("%s: %s", page.shown[i].label, rondo_last_error());
        snprintf(found, sizeof(found), "reads: %d hosts, %d GPUs, %d NICs, %d links\n", ri_topo_hosts(topo),
                 ri_topo_count(topo, -1, RI_TOPO_GPU), ri_topo_count(topo, -1, RI_TOPO_NIC), (int)topo->link_count);
        assert_string_equal(found, page.shown[i].wanted);
        ri_topo_destroy(topo);
    }
}

/* The page has a tag for each word of the table in text.c. */
static void every_word_has_its_tag(void **state)
{
    const char *top = getenv("top_srcdir");
    char path[4096], line[256], word[32], tag[64];
    FILE *file;
    int words = 0;

    snprintf(path, sizeof(path), "%s/topo/text.c", top ? top : ".");
    file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        if (sscanf(line, "    [%*[A-Z0-9_]] = { \"%31[a-z0-9-]\"", word) != 1)
            continue;
        snprintf(tag, sizeof(tag), "Cm %s : Ns Ar", word);
        if (!strstr(page.content, tag))
            fail_msg("there is no \"%s\" in " PAGE, tag);
        words++;
    }
    fclose(file);
    assert_int_equal(words, 19);
}

/* ... and every tag is a word. */
static void every_tag_is_a_word(void **state)
{
    for (const char *at = page.content; (at = strstr(at, "\n.It Cm ")); at++) {
        struct ri_topo *topo = NULL;
        char word[32], text[64];

        if (sscanf(at, "\n.It Cm %31[a-z0-9-] : Ns", word) != 1 || strncmp(strchr(at, 'm') + 2 + strlen(word), " :", 2))
            continue;
        snprintf(text, sizeof(text), "host:1 %s:!", word);
        if (ri_topo_from_text(text, &topo) && strstr(rondo_last_error(), "no such word"))
            fail_msg("%s", rondo_last_error());
        ri_topo_destroy(topo);
    }
}

static void every_field_is_told(void **state)
{
    for (int i = 0; i < RI_TOPO_FIELDS; i++) {
        char *fields = strstr(page.content, ".Ss Packed trees");

        assert_non_null(fields);
        if (!strstr(fields, ri_topo_fields[i].name))
            fail_msg("%s is not in " PAGE, ri_topo_fields[i].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_example_is_read),
        cmocka_unit_test(every_word_has_its_tag),
        cmocka_unit_test(every_tag_is_a_word),
        cmocka_unit_test(every_field_is_told),
    };
    int failed;

    if (page_read(&page, PAGE, "reads: "))
        return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    page_release(&page);
    return failed;
}
