/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "build-config.h"

#define RANKS_MAX 4096
#define SECONDS_MAX 1000000.0

void say(const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "rondo-run: %s\n", text);
}

static void help(void)
{
    printf("usage: rondo-run -n RANKS [options] [--] COMMAND [ARGUMENT...]\n"
           "Starts RANKS copies of COMMAND on this machine and waits for them.\n\n"
           "  -n, --ranks N      how many ranks\n"
           "      --hosts M      pretend that the ranks are on M hosts, in blocks (default 1)\n"
           "  -p, --prefix       begin every line of output with its rank: [3]\n"
           "      --timeout S    end the job after S seconds, with status 124\n"
           "      --grace S      after the first failure, S seconds to SIGTERM for the rest,\n"
           "                     and S more to SIGKILL (default 5)\n"
           "      --help, --version\n\n"
           "Each rank finds RONDO_RANK, RONDO_SIZE, RONDO_LOCAL_RANK, RONDO_LOCAL_SIZE, RONDO_ROOT and\n"
           "RONDO_JOB in its environment.  Returns the first status that is not 0, 128 + the signal for a\n"
           "rank that a signal ended.  INT, TERM, HUP, QUIT, USR1 and USR2 are passed on to the ranks.\n");
}

static int parse_count(const char *name, const char *text, int *count)
{
    char *end;
    long value;

    errno = 0;
    value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < 1 || value > RANKS_MAX) {
        say("%s: '%s' is not a number from 1 to %d", name, text, RANKS_MAX);
        return -1;
    }
    *count = (int)value;
    return 0;
}

static int parse_seconds(const char *name, const char *text, int64_t *ms)
{
    char *end;
    double value;

    errno = 0;
    value = strtod(text, &end);
    if (errno || end == text || *end || !(value >= 0.001 && value <= SECONDS_MAX)) {
        say("%s: '%s' is not a number of seconds from 0.001 to %.0f", name, text, SECONDS_MAX);
        return -1;
    }
    *ms = (int64_t)(value * 1000);
    return 0;
}

enum { OPT_HOSTS = 256, OPT_TIMEOUT, OPT_GRACE, OPT_HELP, OPT_VERSION };

static const struct option long_options[] = {
    { "ranks", required_argument, NULL, 'n' },       { "prefix", no_argument, NULL, 'p' },
    { "hosts", required_argument, NULL, OPT_HOSTS }, { "timeout", required_argument, NULL, OPT_TIMEOUT },
    { "grace", required_argument, NULL, OPT_GRACE }, { "help", no_argument, NULL, OPT_HELP },
    { "version", no_argument, NULL, OPT_VERSION },   { NULL, 0, NULL, 0 },
};

static int parse_option(struct options *options, int c)
{
    switch (c) {
    case 'n':
        return parse_count("-n", optarg, &options->ranks);
    case 'p':
        options->prefix = 1;
        return 0;
    case OPT_HOSTS:
        return parse_count("--hosts", optarg, &options->hosts);
    case OPT_TIMEOUT:
        return parse_seconds("--timeout", optarg, &options->timeout_ms);
    case OPT_GRACE:
        return parse_seconds("--grace", optarg, &options->grace_ms);
    case OPT_HELP:
        help();
        exit(0);
    case OPT_VERSION:
        printf("rondo-run %s\n", PACKAGE_VERSION);
        exit(0);
    default:
        return -1; /* getopt_long has named the option */
    }
}

int options_parse(struct options *options, int argc, char **argv)
{
    int c;

    *options = (struct options){ .hosts = 1, .grace_ms = 5000 };
    while ((c = getopt_long(argc, argv, "+n:p", long_options, NULL)) != -1)
        if (parse_option(options, c) < 0)
            return -1;
    if (!options->ranks) {
        say("-n RANKS is missing");
        return -1;
    }
    if (options->hosts > options->ranks) {
        say("--hosts %d: there are only %d ranks (-n)", options->hosts, options->ranks);
        return -1;
    }
    if (optind == argc) {
        say("no command to run");
        return -1;
    }
    options->command = argv + optind;
    return 0;
}
