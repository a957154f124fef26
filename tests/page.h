/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_PAGE_H
#define TESTS_PAGE_H

/* Texts of a manual page that the code prints.  Each is a literal block right behind comments that say what to
 * print, the first of them beginning with a mark:
 *     .\" schedule: ring_forward
 *     .\" machine: host:1 gpu:4
 *     .\" rank: 1
 *     .Bd -literal
 *     ...
 *     .Ed
 */

enum { PAGE_MAX_SHOWN = 64 };

struct shown {
    char label[128];         /* for the name of a test */
    char *wanted;            /* the comments, without their marks */
    char *text;              /* the block, without escapes */
    const char *begin, *end; /* where in the page it stands */
};

struct page {
    char path[4096];
    char *content;
    struct shown shown[PAGE_MAX_SHOWN];
    int shown_count;
};

/* name: below the folder of sources; mark: "schedule: ".  0, or says what is wrong, for TAP, and is -1. */
int page_read(struct page *page, const char *name, const char *mark);
/* Writes the page anew with what print says of each text (the caller's to free).  0 or -1. */
int page_write(const struct page *page, char *(*print)(const struct shown *shown));
void page_release(struct page *page);

/* Whether RONDO_TEST_UPDATE asks for page_write. */
int page_updates(void);

#endif
