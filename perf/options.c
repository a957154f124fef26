/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rondo/status.h>

#include "peer.h"

enum {
    OPT_ALTERNATE = 256,
    OPT_CSV,
    OPT_JSON,
    OPT_NO_YIELD,
    OPT_PEER,
    OPT_TIMEOUT,
    OPT_VERSION,
    OPT_EXTRA, /* and those after it: the program's own, in their order */
    EXTRAS_MAX = 16
};

static const struct option common_options[] = {{"alternate", required_argument, NULL, OPT_ALTERNATE},
                                               {"csv", no_argument, NULL, OPT_CSV},
                                               {"full", no_argument, NULL, 'f'},
                                               {"help", no_argument, NULL, 'h'},
                                               {"iterations", required_argument, NULL, 'i'},
                                               {"json", required_argument, NULL, OPT_JSON},
                                               {"message-size", required_argument, NULL, 'm'},
                                               {"no-yield", no_argument, NULL, OPT_NO_YIELD},
                                               {"peer", required_argument, NULL, OPT_PEER},
                                               {"timeout", required_argument, NULL, OPT_TIMEOUT},
                                               {"validation", no_argument, NULL, 'c'},
                                               {"version", no_argument, NULL, OPT_VERSION},
                                               {"warmup", required_argument, NULL, 'x'}};

enum { COMMON = sizeof(common_options) / sizeof(common_options[0]) };

static int has_option(const struct perf_about *about, int letter)
{
    switch (letter) {
    case 'c':
    case 'i':
    case 'm':
    case 'x':
        return !about->sizeless;
    case OPT_NO_YIELD:
        return !about->alone;
    case OPT_PEER:
        return !about->peerless && (!about->sizeless || about->peer);
    default:
        return 1;
    }
}

/* all: [COMMON + EXTRAS_MAX + 1] */
static void list_options(const struct perf_about *about, struct option *all)
{
    const struct perf_extra *extras = about->extras;

    for (int i = 0; i < COMMON; i++)
        if (has_option(about, common_options[i].val))
            *all++ = common_options[i];
    for (int i = 0; extras && extras[i].name && i < EXTRAS_MAX; i++)
        *all++ = (struct option){extras[i].name,
                                 extras[i].argument ? required_argument : no_argument, NULL,
                                 OPT_EXTRA + i};
    *all = (struct option){NULL, 0, NULL, 0};
}

static int repetitions_of(const struct perf_about *about)
{
    return about->repetitions ? about->repetitions : 7;
}

static void print_size_options(const struct perf_about *about)
{
    printf("  -m [MIN:]MAX    sizes in bytes, doubled from MIN to MAX [%zu:%zu]\n", about->min_bytes,
           about->max_bytes);
    if (about->iterations)
        printf("  -i N            timed iterations per repetition [%d]\n"
               "  -x N            iterations before the timed ones [%d]\n",
               about->iterations, about->warmup);
    else
        printf("  -i N            timed iterations per repetition [1000 to 8 KiB, 100 to 8 MiB, then 20]\n"
               "  -x N            iterations before the timed ones [a tenth of -i]\n");
    printf("  -c              verify as many iterations as are timed, not only two\n");
}

static void print_help(const struct perf_about *about)
{
    printf("usage: %s [options]\n%s\n", about->name, about->summary);
    if (!about->sizeless)
        print_size_options(about);
    printf("  -f              all columns\n"
           "  --alternate N   repetitions; medians over them are printed [%d]\n",
           repetitions_of(about));
    if (about->peer)
        printf("  --peer %-9s%s\n", about->peer, about->peer_help);
    else if (has_option(about, OPT_PEER))
        printf("  --peer mpi      time the same with MPI in each repetition (built with MPI: %s)\n",
               perf_peer_built() ? "yes" : "no");
    if (has_option(about, OPT_NO_YIELD))
        printf("  --no-yield      spin while waiting: never yield, never sleep\n");
    printf("  --timeout S     deadline of every wait, in seconds [%s]\n"
           "  --csv           comma-separated rows\n"
           "  --json FILE     everything, unrounded\n",
           about->alone ? "120" : "the library's");
    for (const struct perf_extra *e = about->extras; e && e->name; e++) {
        const char *argument = e->argument ? e->argument : "";

        printf("  --%s %-*s %s\n", e->name, (int)(12 - strlen(e->name)), argument, e->help);
    }
    printf("  --help, --version\n\n%s", about->columns);
}

static int refuse(const struct perf_about *about, const char *option, const char *text,
                  const char *wanted)
{
    fprintf(stderr, "%s: %s '%s' is refused: give %s\n", about->name, option, text, wanted);
    return -1;
}

int perf_parse_number(const char *text, char stop, int64_t min, int64_t max, int64_t *value)
{
    char *end;
    long long number;

    if (*text < '0' || *text > '9')
        return -1;
    errno = 0;
    number = strtoll(text, &end, 10);
    if (errno || *end != stop || number < min || number > max)
        return -1;
    *value = number;
    return 0;
}

int perf_parse_dims(const char *text, int *qk_dim, int *v_dim)
{
    const char *colon = strchr(text, ':');
    int64_t qk, v;

    if (!colon || perf_parse_number(text, ':', 1, 65536, &qk) ||
        perf_parse_number(colon + 1, '\0', 1, 65536, &v))
        return -1;
    *qk_dim = (int)qk;
    *v_dim = (int)v;
    return 0;
}

static int parse_count(const char *text, int64_t min, int *value)
{
    int64_t number;

    if (perf_parse_number(text, '\0', min, INT_MAX, &number))
        return -1;
    *value = (int)number;
    return 0;
}

/* MAX, MIN:MAX or MIN:, as OSU reads them; what is left out keeps its default. */
static int parse_sizes(const char *text, struct perf_options *options)
{
    int64_t limit = INT64_C(1) << 40;
    int64_t min = (int64_t)options->min_bytes, max = (int64_t)options->max_bytes;
    const char *colon = strchr(text, ':');
    const char *rest = colon ? colon + 1 : text;

    if (colon && perf_parse_number(text, ':', 1, limit, &min))
        return -1;
    if ((!colon || *rest) && perf_parse_number(rest, '\0', 1, limit, &max))
        return -1;
    if (!colon && min > max)
        min = max;
    if (min > max)
        return -1;
    options->min_bytes = (size_t)min;
    options->max_bytes = (size_t)max;
    return 0;
}

static int parse_timeout(const char *text, int *timeout_ms)
{
    int seconds;

    if (parse_count(text, 1, &seconds) || seconds > INT_MAX / 1000)
        return -1;
    *timeout_ms = seconds * 1000;
    return 0;
}

static int parse_peer(struct perf_options *options, const struct perf_about *about)
{
    const char *peer = about->peer ? about->peer : "mpi";

    if (strcmp(optarg, peer) != 0)
        return refuse(about, "--peer", optarg, peer);
    if (!about->peer && !perf_peer_built()) {
        fprintf(stderr, "%s: --peer mpi: this program was built without MPI\n", about->name);
        return -1;
    }
    options->peer = 1;
    return 0;
}

static int take_extra(struct perf_options *options, const struct perf_about *about, int index)
{
    const struct perf_extra *extra = &about->extras[index];
    char dashed[40];

    if (extra->take(options->own, optarg) == 0)
        return 0;
    snprintf(dashed, sizeof(dashed), "--%s", extra->name);
    return refuse(about, dashed, optarg ? optarg : "", extra->wanted);
}

/* Options that carry a value. */
static int take_value(struct perf_options *options, const struct perf_about *about, int letter)
{
    switch (letter) {
    case 'i':
        return parse_count(optarg, 1, &options->iterations)
                   ? refuse(about, "-i", optarg, "a whole number, 1 or more")
                   : 0;
    case 'm':
        return parse_sizes(optarg, options)
                   ? refuse(about, "-m", optarg, "[MIN:]MAX in bytes, 1 to 2^40, MIN <= MAX")
                   : 0;
    case 'x':
        return parse_count(optarg, 0, &options->warmup)
                   ? refuse(about, "-x", optarg, "a whole number, 0 or more")
                   : 0;
    case OPT_ALTERNATE:
        return parse_count(optarg, 1, &options->repetitions)
                   ? refuse(about, "--alternate", optarg, "a whole number, 1 or more")
                   : 0;
    case OPT_JSON:
        options->json_path = optarg;
        return 0;
    case OPT_TIMEOUT:
        return parse_timeout(optarg, &options->timeout_ms)
                   ? refuse(about, "--timeout", optarg, "seconds, 1 to 2147483")
                   : 0;
    case OPT_PEER:
        return parse_peer(options, about);
    default:
        return take_extra(options, about, letter - OPT_EXTRA);
    }
}

enum perf_parsed perf_options_parse(struct perf_options *options, void *own,
                                    const struct perf_about *about, int argc, char **argv)
{
    struct option all[COMMON + EXTRAS_MAX + 1];
    int letter;

    *options = (struct perf_options){.min_bytes = about->min_bytes,
                                     .max_bytes = about->max_bytes,
                                     .iterations = about->iterations,
                                     .warmup = about->iterations ? about->warmup : -1,
                                     .repetitions = repetitions_of(about),
                                     .own = own};
    list_options(about, all);
    while ((letter = getopt_long(argc, argv, about->sizeless ? "fh" : "cfhi:m:x:", all, NULL)) != -1) {
        switch (letter) {
        case 'c':
            options->check = 1;
            break;
        case 'f':
            options->full = 1;
            break;
        case OPT_CSV:
            options->csv = 1;
            break;
        case OPT_NO_YIELD:
            options->spin = 1;
            break;
        case 'h':
            print_help(about);
            return PERF_ANSWERED;
        case OPT_VERSION:
            printf("%s %s\n", about->name, rondo_version());
            return PERF_ANSWERED;
        case '?':
            fprintf(stderr, "%s: try --help\n", about->name);
            return PERF_REFUSED;
        default:
            if (take_value(options, about, letter))
                return PERF_REFUSED;
        }
    }
    if (optind < argc) {
        refuse(about, "argument", argv[optind], "options only");
        return PERF_REFUSED;
    }
    return PERF_RUN;
}

int perf_iterations(const struct perf_options *options, size_t bytes)
{
    if (options->iterations > 0)
        return options->iterations;
    return bytes <= 8192 ? 1000 : bytes <= 8388608 ? 100 : 20;
}

int perf_warmup(const struct perf_options *options, size_t bytes)
{
    if (options->warmup >= 0)
        return options->warmup;
    return (perf_iterations(options, bytes) + 9) / 10;
}
