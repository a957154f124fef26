/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan_options.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build-config.h"

void plan_say(const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "rondo-plan: %s\n", text);
}

static void help(void)
{
    printf(
        "usage: rondo-plan --machine 2x4 [options]\n"
        "Prices the attention schemes on a machine that need not be there.\n\n"
        "  -m, --machine M        HOSTSxRANKS, or the ranks of each host as in 4+2+1\n"
        "      --topo T           instead: a topology, as a file or a text of rondo-topo-text(5); it gives hosts,\n"
        "                         NICs, bandwidths and the order of rings, and options below go before it\n"
        "      --ranks N          of --topo, evenly over its hosts (default: its GPUs, or NUMA nodes)\n"
        "      --local-bandwidth G  of a rank to its host's others, GB/s one way (default 10)\n"
        "      --local-latency U    of a message there, us (default 2)\n"
        "      --host-bandwidth G   of a rank to other hosts, GB/s one way (default 1.25)\n"
        "      --host-latency U     of a message there, us (default 20)\n"
        "      --shared-nic       the ranks of a host share the host bandwidth\n"
        "      --flops G          what a rank computes, GFLOP/s (default 2000)\n"
        "      --bind             blocks of ranks of one host are read in place\n"
        "      --launch HOW       host: by Rondo's engine (default); one: all transfers of a turn\n"
        "                         as a group on one stream; lanes: a stream per lane\n\n"
        "  -t, --tokens N         of the whole sequence (default 16384)\n"
        "      --q-heads N        query heads (default 32)\n"
        "      --kv-heads N       key and value heads (default: as many)\n"
        "      --head-dim N       (default 128)\n"
        "      --v-dim N          of values and outputs (default: --head-dim)\n"
        "      --mask M           causal, which halves the work, or full (default full)\n"
        "      --batch N          sequences (default 1)\n"
        "      --dtype-bytes N    of an element of Q, K, V and dO; sums move as 4 (default 4)\n\n"
        "      --pass P           forward, backward or both (default both)\n"
        "      --schedule S       only ring, two-level or direct\n"
        "      --backward B       only kv-grad or q-grad; none: no backward\n"
        "      --variant V        only own-turns, chunked, 2-pieces ..\n"
        "      --check            also proves every schedule that is listed\n"
        "      --print RANK       prints that rank's schedule of the cheapest in each pass\n"
        "      --timeline AS      writes the cheapest of the first pass as text, svg or chrome\n"
        "      --output FILE      where the timeline goes (default: standard output, where svg and\n"
        "                         chrome stand alone)\n"
        "      --json             prints the list as JSON, alone on standard output\n"
        "      --help, --version\n\n"
        "Returns 0; 1 if a schedule or the output failed; 2 if an option is refused.\n");
}

/* ---- values ---- */

static int parse_count(const char *name, const char *text, int64_t most, int64_t *count)
{
    char *end;
    long long value;

    errno = 0;
    value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < 1 || value > most) {
        plan_say("%s: '%s' is not a number from 1 to %lld", name, text, (long long)most);
        return -1;
    }
    *count = value;
    return 0;
}

/* scale: of the option's unit in ours. */
static int parse_number(const char *name, const char *text, double least, double scale,
                        double *number)
{
    char *end;
    double value;

    errno = 0;
    value = strtod(text, &end);
    if (errno || end == text || *end || !(value >= least && value <= 1e12)) {
        plan_say("%s: '%s' is not a number from %g to 1e12", name, text, least);
        return -1;
    }
    *number = value * scale;
    return 0;
}

/* The place of text in names, which end with NULL. */
static int parse_word(const char *name, const char *text, const char *const *names, int *index)
{
    char all[128] = "";

    for (*index = 0; names[*index]; ++*index) {
        if (strcmp(text, names[*index]) == 0)
            return 0;
        snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", *index ? ", " : "",
                 names[*index]);
    }
    plan_say("%s: '%s' is none of %s", name, text, all);
    return -1;
}

static int add_host(struct plan_options *options, long count)
{
    if (count < 1 || count > PLAN_MAX_RANKS - options->ranks)
        return -1;
    for (long i = 0; i < count; i++)
        options->host[options->ranks++] = options->hosts;
    options->hosts++;
    return 0;
}

static int parse_machine(struct plan_options *options, const char *text)
{
    char *end;
    long first = strtol(text, &end, 10), more;
    int err = end == text || *text < '0' || *text > '9'; /* no space or sign, as strtol takes */

    options->machine = text;
    options->ranks = options->hosts = 0;
    if (!err && *end == 'x' && end[1] >= '0' && end[1] <= '9') {
        more = strtol(end + 1, &end, 10);
        err = first < 1 || first > PLAN_MAX_RANKS;
        for (long h = 0; !err && h < first; h++)
            err = add_host(options, more);
    } else if (!err) {
        err = add_host(options, first);
        while (!err && *end == '+' && end[1] >= '0' && end[1] <= '9') {
            more = strtol(end + 1, &end, 10);
            err = add_host(options, more);
        }
    }
    if (!err && !*end)
        return 0;
    plan_say("--machine: '%s' is neither HOSTSxRANKS, as 2x4, nor ranks of hosts, as 3+2, of at "
             "most %d ranks",
             text, PLAN_MAX_RANKS);
    return -1;
}

/* ---- options ---- */

enum {
    OPT_TOPO = 256,
    OPT_RANKS,
    OPT_LOCAL_BANDWIDTH,
    OPT_LOCAL_LATENCY,
    OPT_HOST_BANDWIDTH,
    OPT_HOST_LATENCY,
    OPT_SHARED_NIC,
    OPT_BIND,
    OPT_FLOPS,
    OPT_LAUNCH,
    OPT_Q_HEADS,
    OPT_KV_HEADS,
    OPT_HEAD_DIM,
    OPT_V_DIM,
    OPT_MASK,
    OPT_BATCH,
    OPT_DTYPE_BYTES,
    OPT_PASS,
    OPT_SCHEDULE,
    OPT_BACKWARD,
    OPT_VARIANT,
    OPT_CHECK,
    OPT_PRINT,
    OPT_TIMELINE,
    OPT_OUTPUT,
    OPT_JSON,
    OPT_HELP,
    OPT_VERSION
};

static const struct option long_options[] = {
    {"machine", required_argument, NULL, 'm'},
    {"topo", required_argument, NULL, OPT_TOPO},
    {"ranks", required_argument, NULL, OPT_RANKS},
    {"local-bandwidth", required_argument, NULL, OPT_LOCAL_BANDWIDTH},
    {"local-latency", required_argument, NULL, OPT_LOCAL_LATENCY},
    {"host-bandwidth", required_argument, NULL, OPT_HOST_BANDWIDTH},
    {"host-latency", required_argument, NULL, OPT_HOST_LATENCY},
    {"shared-nic", no_argument, NULL, OPT_SHARED_NIC},
    {"bind", no_argument, NULL, OPT_BIND},
    {"flops", required_argument, NULL, OPT_FLOPS},
    {"launch", required_argument, NULL, OPT_LAUNCH},
    {"tokens", required_argument, NULL, 't'},
    {"q-heads", required_argument, NULL, OPT_Q_HEADS},
    {"kv-heads", required_argument, NULL, OPT_KV_HEADS},
    {"head-dim", required_argument, NULL, OPT_HEAD_DIM},
    {"v-dim", required_argument, NULL, OPT_V_DIM},
    {"mask", required_argument, NULL, OPT_MASK},
    {"batch", required_argument, NULL, OPT_BATCH},
    {"dtype-bytes", required_argument, NULL, OPT_DTYPE_BYTES},
    {"pass", required_argument, NULL, OPT_PASS},
    {"schedule", required_argument, NULL, OPT_SCHEDULE},
    {"backward", required_argument, NULL, OPT_BACKWARD},
    {"variant", required_argument, NULL, OPT_VARIANT},
    {"check", no_argument, NULL, OPT_CHECK},
    {"print", required_argument, NULL, OPT_PRINT},
    {"timeline", required_argument, NULL, OPT_TIMELINE},
    {"output", required_argument, NULL, OPT_OUTPUT},
    {"json", no_argument, NULL, OPT_JSON},
    {"help", no_argument, NULL, OPT_HELP},
    {"version", no_argument, NULL, OPT_VERSION},
    {NULL, 0, NULL, 0},
};

static int parse_topo(struct plan_options *o, const char *text)
{
    if (!*text) {
        plan_say("--topo: a file or a text is missing, as in --topo 'host:2 gpu:4 nic:4'");
        return -1;
    }
    o->topo = text;
    return 0;
}

/* 1: not one of these. */
static int parse_machine_option(struct plan_options *o, int c)
{
    static const char *const launches[] = {"host", "one", "lanes", NULL};
    int64_t count = 0;
    int index, err;

    switch (c) {
    case 'm':
        return parse_machine(o, optarg);
    case OPT_TOPO:
        return parse_topo(o, optarg);
    case OPT_RANKS:
        err = parse_count("--ranks", optarg, PLAN_MAX_RANKS, &count);
        o->asked_ranks = (int)count;
        return err;
    case OPT_LOCAL_BANDWIDTH:
        return parse_number("--local-bandwidth", optarg, 1e-6, 1e9, &o->bandwidth[RI_LANE_LOCAL]);
    case OPT_LOCAL_LATENCY:
        return parse_number("--local-latency", optarg, 0, 1e-6, &o->latency[RI_LANE_LOCAL]);
    case OPT_HOST_BANDWIDTH:
        return parse_number("--host-bandwidth", optarg, 1e-6, 1e9, &o->bandwidth[RI_LANE_HOST]);
    case OPT_HOST_LATENCY:
        return parse_number("--host-latency", optarg, 0, 1e-6, &o->latency[RI_LANE_HOST]);
    case OPT_SHARED_NIC:
        o->shared_nic = 1;
        return 0;
    case OPT_BIND:
        o->bind = 1;
        return 0;
    case OPT_FLOPS:
        return parse_number("--flops", optarg, 1e-6, 1e9, &o->flops);
    case OPT_LAUNCH:
        err = parse_word("--launch", optarg, launches, &index);
        o->launch = (enum ri_launch)index;
        return err;
    default:
        return 1;
    }
}

static int parse_problem_option(struct plan_options *o, int c)
{
    static const char *const masks[] = {"full", "causal", NULL};

    switch (c) {
    case 't':
        return parse_count("--tokens", optarg, (int64_t)1 << 40, &o->tokens);
    case OPT_Q_HEADS:
        return parse_count("--q-heads", optarg, 65536, &o->q_heads);
    case OPT_KV_HEADS:
        return parse_count("--kv-heads", optarg, 65536, &o->kv_heads);
    case OPT_HEAD_DIM:
        return parse_count("--head-dim", optarg, 65536, &o->head_dim);
    case OPT_V_DIM:
        return parse_count("--v-dim", optarg, 65536, &o->v_dim);
    case OPT_MASK:
        return parse_word("--mask", optarg, masks, &o->causal);
    case OPT_BATCH:
        return parse_count("--batch", optarg, (int64_t)1 << 30, &o->batch);
    case OPT_DTYPE_BYTES:
        return parse_count("--dtype-bytes", optarg, 8, &o->dtype_bytes);
    default:
        return 1;
    }
}

static int parse_pass(struct plan_options *o)
{
    static const char *const passes[] = {"forward", "backward", "both", NULL};
    int index, err = parse_word("--pass", optarg, passes, &index);

    o->forward_wanted = index != 1;
    o->backward_wanted = index != 0;
    return err;
}

static int parse_timeline(struct plan_options *o)
{
    static const char *const kinds[] = {"text", "svg", "chrome", NULL};
    static ri_timeline_writer *const writers[] = {ri_timeline_text, ri_timeline_svg,
                                                  ri_timeline_chrome};
    int index, err = parse_word("--timeline", optarg, kinds, &index);

    if (!err)
        o->timeline = writers[index];
    return err;
}

static int parse_rank(struct plan_options *o)
{
    char *end;
    long value = strtol(optarg, &end, 10);

    if (end == optarg || *end || value < 0 || value >= PLAN_MAX_RANKS) {
        plan_say("--print: '%s' is not a rank", optarg);
        return -1;
    }
    o->print_rank = (int)value;
    return 0;
}

static int parse_output_option(struct plan_options *o, int c)
{
    static const char *const schedules[] = {"auto", "ring", "two-level", "direct", NULL};
    static const char *const backwards[] = {"auto", "kv-grad", "q-grad", "none", NULL};
    int index;

    switch (c) {
    case OPT_PASS:
        return parse_pass(o);
    case OPT_SCHEDULE:
        o->schedule = optarg;
        return parse_word("--schedule", optarg, schedules, &index);
    case OPT_BACKWARD:
        o->backward = optarg;
        return parse_word("--backward", optarg, backwards, &index);
    case OPT_VARIANT:
        o->variant = optarg;
        return 0;
    case OPT_CHECK:
        o->check = 1;
        return 0;
    case OPT_PRINT:
        return parse_rank(o);
    case OPT_TIMELINE:
        return parse_timeline(o);
    case OPT_OUTPUT:
        o->output = optarg;
        return 0;
    case OPT_JSON:
        o->json = 1;
        return 0;
    default:
        return 1;
    }
}

static int parse_option(struct plan_options *options, int c)
{
    int result = parse_machine_option(options, c);

    if (result == 1)
        result = parse_problem_option(options, c);
    if (result == 1)
        result = parse_output_option(options, c);
    if (c == OPT_HELP) {
        help();
        exit(0);
    }
    if (c == OPT_VERSION) {
        printf("rondo-plan %s\n", PACKAGE_VERSION);
        exit(0);
    }
    return result == 0 ? 0 : -1; /* getopt_long has named an option that we do not know */
}

/* What would meet on standard output, where JSON and pictures stand alone. */
static int refuse_outputs(const struct plan_options *o)
{
    int shown = o->timeline && !o->output;

    if (o->output && !o->timeline)
        plan_say("--output %s: there is no --timeline to write", o->output);
    else if (o->json && shown)
        plan_say("--json and --timeline both want standard output; give the timeline an --output");
    else if (o->json && o->print_rank >= 0)
        plan_say("--print %d: JSON stands alone; leave --print or --json out", o->print_rank);
    else if (shown && o->timeline != ri_timeline_text && o->print_rank >= 0)
        plan_say("--print %d: svg and chrome stand alone; give the timeline an --output",
                 o->print_rank);
    else
        return 0;
    return -1;
}

/* What options say of one another. */
static int refuse_together(struct plan_options *o)
{
    if (!o->ranks)
        plan_say("--machine is missing, as --machine 2x4, or --topo");
    else if (o->asked_ranks && !o->topo)
        plan_say("--ranks %d goes with --topo; --machine says its ranks, as 2x4", o->asked_ranks);
    else if (o->tokens < o->ranks)
        plan_say("--tokens %lld: fewer than the %d ranks of --machine %s", (long long)o->tokens,
                 o->ranks, o->machine);
    else if (o->q_heads % o->kv_heads)
        plan_say("--kv-heads %lld does not divide --q-heads %lld", (long long)o->kv_heads,
                 (long long)o->q_heads);
    else if (o->print_rank >= o->ranks)
        plan_say("--print %d: --machine %s has ranks 0 to %d", o->print_rank, o->machine,
                 o->ranks - 1);
    else if (!o->forward_wanted && !o->backward_wanted)
        plan_say("--pass backward and --backward none leave nothing to price");
    else
        return refuse_outputs(o);
    return -1;
}

/* What nobody has given. */
static void set_links(struct plan_options *o)
{
    static const double bandwidth[RI_LANES] = {10e9, 1.25e9}, latency[RI_LANES] = {2e-6, 20e-6};

    for (int lane = 0; lane < RI_LANES; lane++) {
        o->bandwidth[lane] = o->bandwidth[lane] < 0 ? bandwidth[lane] : o->bandwidth[lane];
        o->latency[lane] = o->latency[lane] < 0 ? latency[lane] : o->latency[lane];
    }
    if (o->shared_nic < 0)
        o->shared_nic = 0;
}

int plan_options_parse(struct plan_options *options, int argc, char **argv)
{
    int c;

    *options = (struct plan_options){.tokens = 16384,
                                     .q_heads = 32,
                                     .head_dim = 128,
                                     .batch = 1,
                                     .dtype_bytes = 4,
                                     .bandwidth = {-1, -1},
                                     .latency = {-1, -1},
                                     .shared_nic = -1,
                                     .flops = 2000e9,
                                     .forward_wanted = 1,
                                     .backward_wanted = 1,
                                     .print_rank = -1};
    while ((c = getopt_long(argc, argv, "m:t:", long_options, NULL)) != -1)
        if (parse_option(options, c) < 0)
            return -1;
    if (optind < argc) {
        plan_say("'%s' is no option", argv[optind]);
        return -1;
    }
    if (options->topo && plan_topo_apply(options) < 0)
        return -1;
    set_links(options);
    if (!options->kv_heads)
        options->kv_heads = options->q_heads;
    if (!options->v_dim)
        options->v_dim = options->head_dim;
    if (options->backward && strcmp(options->backward, "none") == 0)
        options->backward_wanted = 0;
    return refuse_together(options);
}
