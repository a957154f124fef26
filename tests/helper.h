/* SPDX-License-Identifier: Apache-2.0 */
/* A few lines over cmocka that several test programs use. */
#ifndef RONDO_TEST_HELPER_H
#define RONDO_TEST_HELPER_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs body in a child, where it may set variables and exhaust what happens once per process, and
 * keeps what it wrote to stderr.  Returns the child's exit status: body's return value, or 128 + the
 * signal that ended it. */
static inline int test_in_child(int (*body)(void *context), void *context, char *text,
                                size_t text_bytes)
{
    int ends[2], status = 0;
    size_t used = 0;
    ssize_t count;
    pid_t child = -1;

    fflush(NULL);
    if (pipe(ends) || (child = fork()) < 0)
        fail_msg("no pipe or no child");
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        _exit(body(context));
    }
    close(ends[1]);
    while (used + 1 < text_bytes &&
           (count = read(ends[0], text + used, text_bytes - 1 - used)) > 0)
        used += (size_t)count;
    text[used] = 0;
    close(ends[0]);
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Load only adds time, and not as much to every try: the first of 20 tries that takes less than enough_ms,
 * or the shortest.  So the bound is that of an idle machine, and what always takes longer is found. */
static inline int64_t test_shortest_ms(int64_t (*try_ms)(void), int64_t enough_ms)
{
    int64_t best_ms = INT64_MAX;

    for (int i = 0; i < 20 && best_ms >= enough_ms; i++) {
        int64_t ms = try_ms();

        best_ms = ms < best_ms ? ms : best_ms;
    }
    return best_ms;
}

#endif
