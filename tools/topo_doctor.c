/* SPDX-License-Identifier: Apache-2.0 */
/* rondo-topo doctor: its options, and what it prints. */
#include "tools/topo_doctor.h"

#include <errno.h>
#include <getopt.h>
#include <rondo/status.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "build-config.h"
#include "tools/doctor.h"
#include "tools/topo_options.h"
#include "tools/topo_text.h"

enum { EXIT_FAILED = 1, EXIT_USAGE = 2, SCHEMA_VERSION = 1 };

struct options {
    const char *input; /* NULL: this machine */
    int ranks;         /* of a host; 0: as many as there are GPUs, or else NUMA nodes */
    enum doctor_fabric fabric;
    int json;
};

/* ---- the command line ---- */

static void help(void)
{
    printf("usage: rondo-topo doctor [options]\n"
           "Says what is wrong with this machine for the ranks that are to run on it, and what to do.\n\n"
           "  -i, --input WHAT    a recording of another machine (rondo-topo --record), or any description of\n"
           "                      one that rondo-topo reads; default: this machine\n"
           "  -n, --ranks N       how many ranks each host has (default: one for each GPU, or else NUMA node)\n"
           "      --fabric WHICH  yes: hosts are to talk over InfiniBand or RoCE; no: over TCP, or there is one\n"
           "                      alone; auto (default): yes where there is a port that can be used\n"
           "      --json          the same for a program\n"
           "      --help, --version\n\n"
           "Returns 0 if nothing fails, warnings or not; 1 if something does, or the input cannot be read; 2 if\n"
           "an option is refused.\n");
}

enum { OPT_FABRIC = 256, OPT_JSON, OPT_HELP, OPT_VERSION };

static const struct option long_options[] = {
    { "input", required_argument, NULL, 'i' },
    { "ranks", required_argument, NULL, 'n' },
    { "fabric", required_argument, NULL, OPT_FABRIC },
    { "json", no_argument, NULL, OPT_JSON },
    { "help", no_argument, NULL, OPT_HELP },
    { "version", no_argument, NULL, OPT_VERSION },
    { NULL, 0, NULL, 0 },
};

static int parse_ranks(struct options *options, const char *text)
{
    char *end;
    long ranks = strtol(text, &end, 10);

    if (*text < '0' || *text > '9' || *end || ranks < 1 || ranks > TOPO_MAX_RANKS) {
        topo_say("--ranks: '%s' is not a number from 1 to %d", text, TOPO_MAX_RANKS);
        return -1;
    }
    options->ranks = (int)ranks;
    return 0;
}

static int parse_fabric(struct options *options, const char *text)
{
    static const char *const names[] = { "auto", "yes", "no" };

    for (int i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0) {
            options->fabric = (enum doctor_fabric)i;
            return 0;
        }
    topo_say("--fabric: '%s' is none of yes, no and auto", text);
    return -1;
}

static int parse_option(struct options *options, int c)
{
    switch (c) {
    case 'i':
        options->input = optarg;
        return 0;
    case 'n':
        return parse_ranks(options, optarg);
    case OPT_FABRIC:
        return parse_fabric(options, optarg);
    case OPT_JSON:
        options->json = 1;
        return 0;
    case OPT_HELP:
        help();
        exit(fflush(stdout) || ferror(stdout));
    case OPT_VERSION:
        printf("rondo-topo %s\n", PACKAGE_VERSION);
        exit(fflush(stdout) || ferror(stdout));
    default:
        return -1; /* getopt_long has named the option */
    }
}

static int parse(struct options *options, int argc, char **argv)
{
    static char name[] = "rondo-topo doctor"; /* before what getopt_long has to say */
    int c;

    argv[0] = name;
    *options = (struct options){ .fabric = DOCTOR_FABRIC_AUTO };
    while ((c = getopt_long(argc, argv, "i:n:", long_options, NULL)) != -1)
        if (parse_option(options, c) < 0)
            return -1;
    if (optind < argc) {
        topo_say("'%s' is no option of doctor; a machine goes behind --input", argv[optind]);
        return -1;
    }
    return 0;
}

/* ---- text ---- */

static void print_one(const struct doctor_finding *finding)
{
    const char *name = finding->verdict == DOCTOR_FAIL ? "FAIL" : doctor_verdict_names[finding->verdict];

    printf("%s  %-10s ", name, finding->check);
    topo_plain_string(stdout, finding->text);
    if (finding->remedy[0]) {
        printf("\n                 -> ");
        topo_plain_string(stdout, finding->remedy);
    }
    printf("\n");
}

static void print_text(const struct doctor_finding findings[DOCTOR_CHECKS])
{
    for (int i = 0; i < DOCTOR_CHECKS; i++)
        print_one(&findings[i]);
    printf("\n%d checks: %d passed, %d skipped, %d warned, %d failed\n", DOCTOR_CHECKS,
           doctor_count(findings, DOCTOR_PASS), doctor_count(findings, DOCTOR_SKIP),
           doctor_count(findings, DOCTOR_WARN), doctor_count(findings, DOCTOR_FAIL));
}

/* ---- JSON ---- */

static void put_text(const char *name, const char *text)
{
    printf(", \"%s\": ", name);
    topo_json_string(stdout, text);
}

static void print_json(const struct options *options, const struct doctor_facts *facts,
                       const struct doctor_finding findings[DOCTOR_CHECKS])
{
    printf("{\"schema\": \"rondo-topo-doctor\", \"version\": %d", SCHEMA_VERSION);
    put_text("source", options->input ? options->input : "this machine");
    printf(",\n \"ranks\": %d, \"fabric\": %s,\n \"checks\": [", facts->ranks, facts->wants_fabric ? "true" : "false");
    for (int i = 0; i < DOCTOR_CHECKS; i++) {
        printf("%s\n  {\"verdict\": \"%s\"", i ? "," : "", doctor_verdict_names[findings[i].verdict]);
        put_text("check", findings[i].check);
        put_text("text", findings[i].text);
        put_text("remedy", findings[i].remedy);
        printf("}");
    }
    printf("\n ],\n \"counts\": {");
    for (int v = 0; v < DOCTOR_VERDICTS; v++)
        printf("%s\"%s\": %d", v ? ", " : "", doctor_verdict_names[v],
               doctor_count(findings, (enum doctor_verdict)v));
    printf("}}\n");
}

/* ---- the whole ---- */

static int judge(const struct options *options, struct ri_source *source, struct ri_topo *topo)
{
    struct doctor_finding findings[DOCTOR_CHECKS];
    struct doctor_facts facts;

    if (source)
        doctor_look(source);
    if (doctor_gather(source, topo, options->ranks, options->fabric, &facts)) {
        topo_say("%s", rondo_last_error());
        return EXIT_FAILED;
    }
    doctor_judge(&facts, findings);
    if (options->json)
        print_json(options, &facts, findings);
    else
        print_text(findings);
    if (fflush(stdout) || ferror(stdout)) {
        topo_say("standard output: %s", strerror(errno));
        return EXIT_FAILED;
    }
    return doctor_count(findings, DOCTOR_FAIL) ? EXIT_FAILED : 0;
}

int topo_doctor(int argc, char **argv)
{
    struct ri_source *source = NULL;
    struct ri_topo *topo = NULL;
    struct options options;
    int result;

    if (parse(&options, argc, argv) < 0) {
        fprintf(stderr, "Try 'rondo-topo doctor --help'.\n");
        return EXIT_USAGE;
    }
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of output like any other */
    if (ri_topo_read_source(options.input, &topo, &source)) {
        topo_say("%s", rondo_last_error());
        return EXIT_FAILED;
    }
    result = judge(&options, source, topo);
    ri_topo_destroy(topo);
    ri_source_close(source);
    return result;
}
