/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char comment[] = ".\\\" ", block_end[] = "\n.Ed\n";

static int read_content(struct page *page)
{
    enum { ROOM = 1 << 18 };
    FILE *file = fopen(page->path, "r");
    size_t length;

    page->content = calloc(1, ROOM);
    if (!file || !page->content)
        return -1;
    length = fread(page->content, 1, ROOM - 1, file);
    fclose(file);
    return length < ROOM - 1 ? 0 : -1;
}

static const char *next_line(const char *line)
{
    const char *end = strchr(line, '\n');

    return end ? end + 1 : line + strlen(line);
}

static int is_comment(const char *line)
{
    return !strncmp(line, comment, strlen(comment));
}

/* The comments from `line` on without their marks; *end is the line behind them. */
static char *uncomment(const char *line, const char **end)
{
    char *text;

    for (*end = line; is_comment(*end);)
        *end = next_line(*end);
    text = calloc(1, (size_t)(*end - line) + 1);
    for (; text && line < *end; line = next_line(line))
        strncat(text, line + strlen(comment), (size_t)(next_line(line) - line) - strlen(comment));
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

/* The text whose comments begin at `at`. */
static int read_shown(struct page *page, const char *at)
{
    struct shown *one = &page->shown[page->shown_count++];
    const char *block;

    one->wanted = uncomment(at, &block);
    if (!one->wanted || strncmp(block, ".Bd -literal", 12))
        return -1;
    one->begin = next_line(block);
    one->end = strstr(one->begin - 1, block_end);
    if (!one->end)
        return -1;
    one->end++;
    one->text = unescape(one->begin, one->end);
    snprintf(one->label, sizeof(one->label), "%d: %.*s", page->shown_count, (int)strcspn(one->wanted, "\n"),
             one->wanted);
    return one->text ? 0 : -1;
}

static int find_shown(struct page *page, const char *mark)
{
    char start[64];

    snprintf(start, sizeof(start), "%s%s", comment, mark);
    for (const char *at = strstr(page->content, start); at; at = strstr(at, start)) {
        if (page->shown_count == PAGE_MAX_SHOWN || read_shown(page, at))
            return -1;
        at = page->shown[page->shown_count - 1].end;
    }
    return 0;
}

int page_read(struct page *page, const char *name, const char *mark)
{
    const char *top = getenv("top_srcdir");

    *page = (struct page){ .content = NULL };
    snprintf(page->path, sizeof(page->path), "%s/%s", top ? top : ".", name);
    if (!read_content(page) && !find_shown(page, mark))
        return 0;
    printf("Bail out! %s cannot be read, or its text %d is out of form\n", page->path, page->shown_count);
    page_release(page);
    return -1;
}

static void write_escaped(FILE *file, const char *text)
{
    for (; *text; text++) {
        if (*text == '-')
            fputc('\\', file);
        fputc(*text, file);
    }
}

int page_write(const struct page *page, char *(*print)(const struct shown *shown))
{
    FILE *file = fopen(page->path, "w");
    const char *from = page->content;

    if (!file)
        return -1;
    for (int i = 0; i < page->shown_count; i++) {
        char *text = print(&page->shown[i]);

        fwrite(from, 1, (size_t)(page->shown[i].begin - from), file);
        write_escaped(file, text);
        from = page->shown[i].end;
        free(text);
    }
    fputs(from, file);
    return fclose(file) ? -1 : 0;
}

void page_release(struct page *page)
{
    for (int i = 0; i < page->shown_count; i++) {
        free(page->shown[i].wanted);
        free(page->shown[i].text);
    }
    free(page->content);
    *page = (struct page){ .content = NULL };
}

int page_updates(void)
{
    const char *update = getenv("RONDO_TEST_UPDATE");

    return update && *update && strcmp(update, "0");
}
