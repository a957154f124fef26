/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RONDO_TOOLS_OPTIONS_H
#define RONDO_TOOLS_OPTIONS_H

#include <stdint.h>

/* The command line of rondo-run. */
struct options {
    int ranks, hosts;
    int prefix;
    int64_t timeout_ms; /* 0: none */
    int64_t grace_ms;   /* from the first failure to SIGTERM, and from there to SIGKILL */
    char **command;
};

/* --help and --version print and exit.  -1: refused, and said why on standard error. */
int options_parse(struct options *options, int argc, char **argv);

/* One line on standard error. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
