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

#endif
