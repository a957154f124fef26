/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/topo_measure.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <rondo/rondo.h>

enum { ALL_GOOD, SOME_SHORT, USAGE }; /* exit status; what fails is as bad as what is short */

static const double most_seconds = 86400;
/* A wait of a rank for its partner, or for a pair that is measured; RONDO_TIMEOUT goes before. */
enum { TIMEOUT_MS = 30000 };

/* ---- words ---- */

/* As the launcher numbers it; -1: nobody says. */
static int launched_rank(void)
{
    const char *text = getenv("RONDO_RANK");

    if (!text || !*text)
        text = getenv("RANK");
    return text && *text ? atoi(text) : -1;
}

static void say(int rank, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(int rank, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (rank >= 0)
        fprintf(stderr, "rondo-topo measure: rank %d: %s\n", rank, text);
    else
        fprintf(stderr, "rondo-topo measure: %s\n", text);
}

/* What all ranks see alike is said by the first. */
static int refuse(const char *option, const char *text, const char *why)
{
    if (launched_rank() <= 0)
        fprintf(stderr, "rondo-topo measure: %s '%s': %s\nTry 'rondo-topo measure --help'.\n", option, text, why);
    return -1;
}

static void help(void)
{
    printf("usage: rondo-run -n RANKS rondo-topo measure [options]\n"
           "Measures messages between every two ranks, and shows what they cost beside what the topology lets\n"
           "expect.  Also under torchrun, or any launcher that sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.\n\n"
           "      --seconds S    how long about, all pairs together (default 20)\n"
           "      --short F      a pair falls short below this share of the expected GB/s (default 0.7)\n"
           "      --together     disjoint pairs at once, to see what they take from each other; by default one\n"
           "                     pair at a time\n"
           "      --json         the same for programs\n"
           "      --record FILE  the topology with the speeds that were measured, for RONDO_TOPO=FILE and\n"
           "                     rondo-topo --input FILE\n"
           "      --help\n\n"
           "Returns 0; 1 if some pair falls short, or if measuring failed; 2 if an option is refused.\n");
}

/* ---- options ---- */

static int parse_number(const char *option, const char *text, double least, double most, const char *why, double *value)
{
    char *end;
    double number;

    errno = 0;
    number = strtod(text, &end);
    if (errno || end == text || *end || !(number >= least && number <= most))
        return refuse(option, text, why);
    *value = number;
    return 0;
}

enum { OPT_SECONDS = 256, OPT_SHORT, OPT_TOGETHER, OPT_JSON, OPT_RECORD, OPT_HELP };

static const struct option long_options[] = {
    { "seconds", required_argument, NULL, OPT_SECONDS }, { "short", required_argument, NULL, OPT_SHORT },
    { "together", no_argument, NULL, OPT_TOGETHER },     { "json", no_argument, NULL, OPT_JSON },
    { "record", required_argument, NULL, OPT_RECORD },   { "help", no_argument, NULL, OPT_HELP },
    { NULL, 0, NULL, 0 },
};

static int parse_option(struct measure_options *o, int c, const char *word)
{
    switch (c) {
    case OPT_SECONDS:
        return parse_number("--seconds", optarg, 0.1, most_seconds, "no number from 0.1 to 86400", &o->seconds);
    case OPT_SHORT:
        return parse_number("--short", optarg, 0, 1000, "no share of the expected bandwidth, as 0.7", &o->least_share);
    case OPT_TOGETHER:
        o->together = 1;
        return 0;
    case OPT_JSON:
        o->json = 1;
        return 0;
    case OPT_RECORD:
        o->record = optarg;
        return *optarg ? 0 : refuse("--record", "", "a file is missing");
    case OPT_HELP:
        if (launched_rank() <= 0)
            help();
        exit(fflush(stdout) ? SOME_SHORT : ALL_GOOD);
    case ':':
        return refuse("option", word, "something must follow it");
    default:
        return refuse("option", word, "there is none, or not so");
    }
}

/* argv[0] is "measure". */
static int parse(struct measure_options *o, int argc, char **argv)
{
    int c;

    *o = (struct measure_options){ .seconds = 20, .least_share = 0.7 };
    optind = 1;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":", long_options, NULL)) != -1)
        if (parse_option(o, c, argv[optind - 1]))
            return -1;
    if (optind < argc)
        return refuse("word", argv[optind], "only options may follow measure");
    if (o->record && o->together)
        return refuse("--record", o->record, "records pairs that are measured alone; leave --together out");
    return 0;
}

/* ---- the program ---- */

static int join(struct measure *m)
{
    rondo_config_t config = RONDO_CONFIG_INIT;
    const char *timeout = getenv("RONDO_TIMEOUT");
    int err;

    if (!timeout || !*timeout)
        config.timeout_ms = TIMEOUT_MS;
    err = rondo_comm_create_env(&config, &m->comm);
    if (!err)
        err = rondo_comm_query(m->comm, &m->info);
    return err;
}

static int report(const struct measure *m)
{
    if (m->options.json)
        measure_print_json(stdout, m);
    else
        measure_print(stdout, m);
    if (fflush(stdout) || ferror(stdout)) {
        say(-1, "standard output: %s", strerror(errno));
        return SOME_SHORT;
    }
    if (m->options.record && measure_record(m)) {
        say(-1, "--record %s: %s", m->options.record, rondo_last_error());
        return SOME_SHORT;
    }
    return measure_count_short(m) ? SOME_SHORT : ALL_GOOD;
}

static int run(struct measure *m)
{
    int err = join(m);

    if (!err && m->info.size < 2) {
        say(-1, "1 rank has no pair; start several: rondo-run -n 2 rondo-topo measure, or torchrun");
        return USAGE;
    }
    if (!err)
        err = measure_learn(m);
    if (!err)
        err = measure_all(m);
    if (!err)
        return m->info.rank == 0 ? report(m) : ALL_GOOD;
    say(m->comm ? m->info.rank : launched_rank(), "%s: %s", rondo_strerror(err), rondo_last_error());
    if (m->comm)
        rondo_comm_abort(m->comm);
    return SOME_SHORT;
}

int topo_measure(int argc, char **argv)
{
    struct measure m = { .info = RONDO_COMM_INFO_INIT };
    int result;

    if (parse(&m.options, argc, argv))
        return USAGE;
    result = run(&m);
    rondo_comm_destroy(m.comm);
    ri_topo_destroy(m.topo);
    free(m.host_of);
    free(m.gbps);
    return result;
}
