/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_PROBLEM_H
#define TRAIN_PROBLEM_H

#include <stdarg.h>
#include <stdio.h>

enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* What went wrong on this rank, kept until the ranks have agreed on who says it. */
struct problem {
    int exit_code; /* 0: nothing did */
    char text[512];
};

/* Keeps the first problem.  Always returns -1, so that a failing call can end with it. */
__attribute__((format(printf, 3, 4))) static inline int
problem_set(struct problem *p, int exit_code, const char *format, ...)
{
    va_list args;

    if (p->exit_code)
        return -1;
    p->exit_code = exit_code;
    va_start(args, format);
    vsnprintf(p->text, sizeof(p->text), format, args);
    va_end(args);
    return -1;
}

#endif
