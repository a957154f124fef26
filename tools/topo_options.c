/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/topo_options.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build-config.h"

void topo_say(const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "rondo-topo: %s\n", text);
}

static void help(void)
{
    printf("usage: rondo-topo [options]\n"
           "       rondo-topo doctor [options]: what is wrong here; see its --help\n"
           "       rondo-topo measure [options]: what pairs of ranks carry; see its --help\n"
           "Shows what this machine is made of, what it costs its ranks to talk, and which NIC is whose.\n\n"
           "  -i, --input WHAT    a recording, an hwloc or NCCL XML file, a file of --pack or in the text\n"
           "                      form, or such a text itself: 'host:2 gpu:4 nic:4' (default: this machine)\n"
           "  -n, --ranks N       how many ranks, host after host (default: a rank for each GPU, or else for\n"
           "                      each NUMA node)\n"
           "      --hosts-of LIST the host of each rank, as in 0,0,1,1\n\n"
           "      --tree          the tree of hosts, in place of the matrix\n"
           "      --json          all that is known, as JSON\n"
           "      --xml           one host in the form of NCCL's topology files\n"
           "      --host K        which one, from 0 (default 0)\n"
           "      --svg FILE      a picture; - is standard output\n"
           "      --png FILE      the same in pixels\n"
           "      --explain       why these rings and these NICs, in words\n"
           "      --pack          the tree as text that --input reads\n"
           "      --record FILE   also keeps all that was read, for --input on another machine\n"
           "      --help, --version\n\n"
           "Returns 0; 1 if the input cannot be read or the output failed; 2 if an option is refused.\n");
}

enum {
    OPT_HOSTS_OF = 256, OPT_TREE, OPT_JSON, OPT_XML, OPT_HOST, OPT_SVG, OPT_PNG, OPT_EXPLAIN, OPT_PACK,
    OPT_RECORD, OPT_HELP, OPT_VERSION
};

static const struct option long_options[] = {
    { "input", required_argument, NULL, 'i' },
    { "ranks", required_argument, NULL, 'n' },
    { "hosts-of", required_argument, NULL, OPT_HOSTS_OF },
    { "tree", no_argument, NULL, OPT_TREE },
    { "json", no_argument, NULL, OPT_JSON },
    { "xml", no_argument, NULL, OPT_XML },
    { "host", required_argument, NULL, OPT_HOST },
    { "svg", required_argument, NULL, OPT_SVG },
    { "png", required_argument, NULL, OPT_PNG },
    { "explain", no_argument, NULL, OPT_EXPLAIN },
    { "pack", no_argument, NULL, OPT_PACK },
    { "record", required_argument, NULL, OPT_RECORD },
    { "help", no_argument, NULL, OPT_HELP },
    { "version", no_argument, NULL, OPT_VERSION },
    { NULL, 0, NULL, 0 },
};

/* Digits alone; strtol would take spaces and signs as well. */
static int parse_digits(const char *text, int most, int *value, const char **end)
{
    long number;
    char *after;

    if (*text < '0' || *text > '9')
        return -1;
    errno = 0;
    number = strtol(text, &after, 10);
    if (errno || number > most)
        return -1;
    *value = (int)number;
    *end = after;
    return 0;
}

static int parse_count(const char *name, const char *text, int least, int most, int *count)
{
    const char *end;

    if (parse_digits(text, most, count, &end) == 0 && !*end && *count >= least)
        return 0;
    topo_say("%s: '%s' is not a number from %d to %d", name, text, least, most);
    return -1;
}

static int parse_hosts_of(struct topo_options *o, const char *text)
{
    const char *at = text;
    int host, count = 0;

    do {
        if (count == TOPO_MAX_RANKS) {
            topo_say("--hosts-of: more than %d ranks", TOPO_MAX_RANKS);
            return -1;
        }
        if (parse_digits(at, TOPO_MAX_RANKS - 1, &host, &at) || (*at && *at != ',')) {
            topo_say("--hosts-of: '%s' is no list of hosts, as in 0,0,1,1; what is wrong begins at '%.20s'",
                     text, at);
            return -1;
        }
        o->host_of[count++] = host;
    } while (*at++ == ',');
    if (o->ranks && o->ranks != count) {
        topo_say("--hosts-of '%s' has %d ranks, --ranks says %d; leave --ranks out", text, count, o->ranks);
        return -1;
    }
    o->ranks = count;
    o->has_hosts = 1;
    return 0;
}

static int parse_ranks(struct topo_options *o, const char *text)
{
    int ranks;

    if (parse_count("--ranks", text, 1, TOPO_MAX_RANKS, &ranks))
        return -1;
    if (o->has_hosts && o->ranks != ranks) {
        topo_say("--ranks %d, but --hosts-of has %d; leave --ranks out", ranks, o->ranks);
        return -1;
    }
    o->ranks = ranks;
    return 0;
}

static int choose(struct topo_options *o, enum topo_form form, const char *name, const char *output)
{
    if (o->form_option) {
        topo_say("%s and %s: one form of output at a time", o->form_option, name);
        return -1;
    }
    if (output && !*output) {
        topo_say("%s: a file is missing; - is standard output", name);
        return -1;
    }
    o->form = form;
    o->form_option = name;
    o->output = output;
    return 0;
}

static int parse_form(struct topo_options *o, int c)
{
    switch (c) {
    case OPT_TREE:
        return choose(o, TOPO_TREE, "--tree", NULL);
    case OPT_JSON:
        return choose(o, TOPO_JSON, "--json", NULL);
    case OPT_XML:
        return choose(o, TOPO_XML, "--xml", NULL);
    case OPT_SVG:
        return choose(o, TOPO_SVG, "--svg", optarg);
    case OPT_PNG:
        return choose(o, TOPO_PNG, "--png", optarg);
    case OPT_EXPLAIN:
        return choose(o, TOPO_EXPLAIN, "--explain", NULL);
    case OPT_PACK:
        return choose(o, TOPO_PACK, "--pack", NULL);
    default:
        return -1; /* getopt_long has named the option */
    }
}

static int parse_option(struct topo_options *o, int c)
{
    switch (c) {
    case 'i':
        o->input = optarg;
        return 0;
    case 'n':
        return parse_ranks(o, optarg);
    case OPT_HOSTS_OF:
        return parse_hosts_of(o, optarg);
    case OPT_HOST:
        o->has_host = 1;
        return parse_count("--host", optarg, 0, 1000000, &o->host);
    case OPT_RECORD:
        o->record = optarg;
        return 0;
    case OPT_HELP:
        help();
        exit(fflush(stdout) || ferror(stdout));
    case OPT_VERSION:
        printf("rondo-topo %s\n", PACKAGE_VERSION);
        exit(fflush(stdout) || ferror(stdout));
    default:
        return parse_form(o, c);
    }
}

/* What options say of one another. */
static int refuse_together(const struct topo_options *o)
{
    if (o->has_host && o->form != TOPO_XML)
        topo_say("--host %d: only --xml shows a single host", o->host);
    else if (o->input && !*o->input)
        topo_say("--input: a file or a text is missing, as in --input 'host:2 gpu:4 nic:4'");
    else if (o->record && o->input)
        topo_say("--record keeps what this machine says; leave --input out");
    else if (o->record && !*o->record)
        topo_say("--record: a file is missing");
    else
        return 0;
    return -1;
}

int topo_options_parse(struct topo_options *options, int argc, char **argv)
{
    int c;

    *options = (struct topo_options){ .form = TOPO_SCREEN };
    while ((c = getopt_long(argc, argv, "i:n:", long_options, NULL)) != -1)
        if (parse_option(options, c) < 0)
            return -1;
    if (optind < argc) {
        topo_say("'%s' is no option; a machine goes behind --input", argv[optind]);
        return -1;
    }
    return refuse_together(options);
}
