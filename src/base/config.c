/* SPDX-License-Identifier: Apache-2.0 */
#include "base/config.h"
#include "base/letters.h"

#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"

enum kind {
    KIND_STRING,
    KIND_INTEGER,
    KIND_SIZE,        /* bytes, with K, M or G (powers of 1024) */
    KIND_DURATION_MS, /* kept in milliseconds; a bare number is seconds */
    KIND_DURATION_US, /* kept in microseconds, and so is a bare number */
    KIND_ELSEWHERE    /* known here, read by another file or program */
};

struct unit {
    const char *suffix;
    int64_t factor;
};

#define KIBI INT64_C(1024)
#define SECOND_MS INT64_C(1000)
#define SECOND_US INT64_C(1000000)

/* The first unit is the bare number's. */
static const struct unit integer_units[] = {{"", 1}, {NULL, 0}};
static const struct unit size_units[] = {
    {"", 1}, {"K", KIBI}, {"M", KIBI * KIBI}, {"G", KIBI * KIBI * KIBI}, {NULL, 0}};
static const struct unit ms_units[] = {{"", SECOND_MS}, {"ms", 1},
                                       {"s", SECOND_MS}, {"m", 60 * SECOND_MS},
                                       {"h", 3600 * SECOND_MS}, {NULL, 0}};
static const struct unit us_units[] = {
    {"", 1}, {"us", 1}, {"ms", 1000}, {"s", SECOND_US}, {NULL, 0}};

static const struct {
    const struct unit *units;
    const char *form;
} kinds[] = {
    [KIND_INTEGER] = {integer_units, "a whole number"},
    [KIND_SIZE] = {size_units, "a whole number, or one with K, M or G"},
    [KIND_DURATION_MS] = {ms_units, "seconds, or with ms, s, m or h"},
    [KIND_DURATION_US] = {us_units, "microseconds, or with us, ms or s"},
};

struct variable {
    const char *name; /* ends in '*' when it names a family */
    enum kind kind;
    const char *value_default;
    const char *min, *max; /* in the variable's own form; strings have none */
    size_t offset;         /* of the field of struct ri_config */
    const char *help;
};

#define FIELD(name) offsetof(struct ri_config, name)

static const struct variable variables[] = {
    {"RONDO_CHUNK", KIND_SIZE, "0", "0", "1048576G", FIELD(chunk_bytes),
     "bytes of the chunks that blocks are sent in, also inside a host, but for what is read in place there; "
     "0: plans choose, between hosts"},
    {"RONDO_CONNECT_TIMEOUT", KIND_DURATION_MS, "30s", "1ms", "480h", FIELD(connect_timeout_ms),
     "how long the ranks of a new communicator wait for each other"},
    {"RONDO_COST_FLOPS", KIND_SIZE, "50G", "1", "1048576G", FIELD(cost_flops),
     "operations per second of a rank's kernel, for choosing a scheme"},
    {"RONDO_COST_HOST_BANDWIDTH", KIND_SIZE, "0", "0", "1048576G", FIELD(cost_host_bandwidth),
     "bytes per second of a rank's link between hosts, for choosing a scheme; 0: of its NIC, where the topology "
     "knows it, else 1G"},
    {"RONDO_COST_HOST_LATENCY", KIND_DURATION_US, "-1", "-1", "10s", FIELD(cost_host_latency_us),
     "latency of a message between hosts, for choosing a scheme; -1: as a description of the topology says, else 20"},
    {"RONDO_COST_LOCAL_BANDWIDTH", KIND_SIZE, "0", "0", "1048576G", FIELD(cost_local_bandwidth),
     "bytes per second between two ranks of a host, for choosing a scheme; 0: as a description of the topology says, "
     "else 8G"},
    {"RONDO_COST_LOCAL_LATENCY", KIND_DURATION_US, "-1", "-1", "10s", FIELD(cost_local_latency_us),
     "latency of a message inside a host, for choosing a scheme; -1: as a description of the topology says, else 2"},
    {"RONDO_COST_SHARED_NIC", KIND_INTEGER, "-1", "-1", "1", FIELD(cost_shared_nic),
     "1: the ranks of a host share one link to the others, 0: each has its own, for choosing a scheme; -1: as the "
     "topology says, else 0"},
    {"RONDO_HOST_ID", KIND_STRING, "", NULL, NULL, FIELD(host_id),
     "ranks with equal text count as one host; empty: the machine's own identity"},
    {"RONDO_INTERFACE", KIND_STRING, "", NULL, NULL, FIELD(interface),
     "network interface of the bootstrap connections; empty: any"},
    {"RONDO_JOB", KIND_ELSEWHERE, "", NULL, NULL, 0,
     "set by rondo-run: a name that all ranks of one job share"},
    {"RONDO_LOCAL_RANK", KIND_ELSEWHERE, "", NULL, NULL, 0,
     "set by rondo-run: index among the ranks of this host"},
    {"RONDO_LOCAL_SIZE", KIND_ELSEWHERE, "", NULL, NULL, 0,
     "set by rondo-run: number of ranks of this host"},
    {"RONDO_LOG", KIND_ELSEWHERE, "warn", NULL, NULL, 0,
     "error, warn, info, debug or trace, and component:level, separated by commas; components are "
     "base, comm, plan, transport and verify"},
    {"RONDO_LOG_FILE", KIND_ELSEWHERE, "", NULL, NULL, 0,
     "appends the log to this file (%h: host, %p: process); empty: stderr"},
    {"RONDO_NET_DEVICES", KIND_STRING, "", NULL, NULL, FIELD(net_devices),
     "network devices of this rank for transport ucx, such as eth1 or mlx5_0:1; empty: UCX's choice"},
    {"RONDO_PROGRESS", KIND_STRING, "caller", NULL, NULL, FIELD(progress),
     "who moves messages: caller, the threads that are inside Rondo; thread, one of Rondo's own, too, which "
     "computes nothing"},
    {"RONDO_RANK", KIND_ELSEWHERE, "", NULL, NULL, 0, "set by rondo-run: this process's rank"},
    {"RONDO_ROOT", KIND_ELSEWHERE, "", NULL, NULL, 0,
     "set by rondo-run: address and port at which rank 0 listens"},
    {"RONDO_ROOT_FD", KIND_ELSEWHERE, "", NULL, NULL, 0,
     "set by rondo-run for rank 0: the descriptor that listens there already"},
    {"RONDO_SELF_BANDWIDTH", KIND_SIZE, "0", "0", "1048576G", FIELD(self_bandwidth),
     "bytes per second of the link that transport self models; 0: no limit"},
    {"RONDO_SELF_HOST_BANDWIDTH", KIND_SIZE, "0", "0", "1048576G", FIELD(self_host_bandwidth),
     "the same between hosts; 0: as RONDO_SELF_BANDWIDTH"},
    {"RONDO_SELF_HOST_LATENCY", KIND_DURATION_US, "0", "0", "10s", FIELD(self_host_latency_us),
     "delay of that link between hosts; 0: as RONDO_SELF_LATENCY"},
    {"RONDO_SELF_LATENCY", KIND_DURATION_US, "0", "0", "10s", FIELD(self_latency_us),
     "delay of the link that transport self models"},
    {"RONDO_SELF_SEED", KIND_INTEGER, "0", "0", "9223372036854775807", FIELD(self_seed),
     "nonzero: transport self delays messages at random, alike for one seed"},
    {"RONDO_SELF_SHARED_NIC", KIND_INTEGER, "0", "0", "1", FIELD(self_shared_nic),
     "1: the ranks of a host share one link between hosts, else each has its own"},
    {"RONDO_SIZE", KIND_ELSEWHERE, "", NULL, NULL, 0, "set by rondo-run: number of ranks"},
    {"RONDO_SPIN", KIND_INTEGER, "2", "0", "1000000000", FIELD(spin),
     "idle progress calls before a wait first yields the processor"},
    {"RONDO_TEST_*", KIND_ELSEWHERE, "", NULL, NULL, 0, "switches of the tests"},
    {"RONDO_THREADS", KIND_INTEGER, "0", "0", "1024", FIELD(threads),
     "threads that a kernel may compute with, of plans that do not say, the one that waits among them; 0 or "
     "1: that one alone"},
    {"RONDO_TIMEOUT", KIND_DURATION_MS, "1800s", "1ms", "480h", FIELD(timeout_ms),
     "how long a wait lasts before it ends with an error"},
    {"RONDO_TOPO", KIND_STRING, "live", NULL, NULL, FIELD(topo),
     "the topology of the hosts: live, what each rank finds; off; or, in its place, a file that rondo-topo "
     "reads, or a text as of rondo-topo-text(5)"},
    {"RONDO_TRACE", KIND_STRING, "", NULL, NULL, FIELD(trace),
     "writes what happened to this file (%r: rank), in the trace format of Chrome; empty: no trace"},
    {"RONDO_TRANSPORT", KIND_STRING, "auto", NULL, NULL, FIELD(transport),
     "auto, self, shm, ucx or shm+ucx (shm inside hosts): what moves the bytes"},
    {"RONDO_UCX_*", KIND_ELSEWHERE, "", NULL, NULL, 0,
     "settings of Rondo's private UCX: RONDO_UCX_TLS is to Rondo what UCX_TLS is to others; those of one "
     "of UCX's transports, as UCX_TCP_SNDBUF, have UCX's name alone"},
    {"RONDO_VERIFY", KIND_INTEGER, "0", "0", "1", FIELD(verify),
     "1: each plan's first forward and backward are computed again in fp64 on one rank, and compared"},
    {"RONDO_WARN_AFTER", KIND_DURATION_MS, "10s", "0", "480h", FIELD(warn_after_ms),
     "when nothing has moved in a wait for so long, and for ten times that, a line says what it waits for; 0: "
     "never"},
    {"RONDO_YIELD", KIND_INTEGER, "200", "-1", "1000000000", FIELD(yield),
     "idle yields before a wait sleeps on descriptors, after 50 us at most; -1: it never sleeps"},
};

enum { VARIABLE_COUNT = sizeof(variables) / sizeof(variables[0]) };

/* [-]digits[unit] -> value; -1: not of that form, or more than 64 bits hold. */
static int number_parse(const char *text, const struct unit *units, int64_t *value)
{
    int negative = *text == '-';
    int64_t number = 0;

    text += negative;
    if (*text < '0' || *text > '9')
        return -1;
    for (; *text >= '0' && *text <= '9'; text++)
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, *text - '0', &number))
            return -1;
    for (; units->suffix; units++)
        if (strcmp(text, units->suffix) == 0) {
            *value = negative ? -number : number;
            return __builtin_mul_overflow(*value, units->factor, value) ? -1 : 0;
        }
    return -1;
}

/* Stores text, or the default where text is empty, in the variable's field. */
static int number_store(const struct variable *variable, const char *text, int64_t *field)
{
    const struct unit *units = kinds[variable->kind].units;
    int64_t value, min, max;

    if (number_parse(variable->min, units, &min) || number_parse(variable->max, units, &max))
        return ri_error(RONDO_ERR_INTERNAL, "%s: its range is not in form", variable->name);
    if (number_parse(text, units, &value) || value < min || value > max)
        return ri_error(RONDO_ERR_ARGUMENT, "%s='%.64s' is refused: give %s, from %s to %s",
                        variable->name, text, kinds[variable->kind].form, variable->min,
                        variable->max);
    *field = value;
    return 0;
}

static int variable_store(const struct variable *variable, const char *text,
                          struct ri_config *config)
{
    void *field = (char *)config + variable->offset;
    char *copy;

    if (variable->kind == KIND_ELSEWHERE)
        return 0;
    if (!text || !*text)
        text = variable->value_default;
    if (variable->kind != KIND_STRING)
        return number_store(variable, text, field);
    copy = strdup(text);
    if (!copy)
        return ri_error(RONDO_ERR_MEMORY, "%s: no memory for its value", variable->name);
    *(char **)field = copy;
    return 0;
}

/* name[0..length) is the variable's, or of the family that it names. */
static int variable_matches(const struct variable *variable, const char *name, size_t length)
{
    size_t own = strlen(variable->name);

    if (variable->name[own - 1] == '*')
        return length >= own && strncmp(variable->name, name, own - 1) == 0;
    return length == own && strncmp(variable->name, name, own) == 0;
}

static const char *nearest_name(const char *name, size_t length)
{
    const char *nearest = NULL;
    int best = INT_MAX;

    for (int i = 0; i < VARIABLE_COUNT; i++) {
        int distance = ri_letters_apart(name, length, variables[i].name);

        if (distance < best) {
            best = distance;
            nearest = variables[i].name;
        }
    }
    return nearest;
}

static int is_known(const char *name, size_t length)
{
    for (int i = 0; i < VARIABLE_COUNT; i++)
        if (variable_matches(&variables[i], name, length))
            return 1;
    return 0;
}

/* One job warns once: all its ranks have the same environment, so rank 0 speaks for them. */
static enum ri_log_level unknown_level(void)
{
    const char *rank = getenv("RONDO_RANK");

    if (!rank)
        rank = getenv("RANK");
    return !rank || strcmp(rank, "0") == 0 ? RI_LOG_WARN : RI_LOG_INFO;
}

static void warn_unknown(void)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    static const char prefix[] = "RONDO_";
    enum ri_log_level level = unknown_level();

    if (atomic_flag_test_and_set(&warned))
        return;
    for (char **entry = environ; entry && *entry; entry++) {
        size_t length = strcspn(*entry, "=");

        if (strncmp(*entry, prefix, sizeof(prefix) - 1) != 0 || is_known(*entry, length))
            continue;
        ri_log(level, "base", "%.*s is set, but no variable has this name; the nearest is %s",
               (int)(length < 64 ? length : 64), *entry, nearest_name(*entry, length));
    }
}

int ri_config_load(struct ri_config *config)
{
    struct ri_config loaded = {0};
    int err;

    warn_unknown();
    for (int i = 0; i < VARIABLE_COUNT; i++) {
        err = variable_store(&variables[i], getenv(variables[i].name), &loaded);
        if (err)
            goto release_loaded;
    }
    *config = loaded;
    return 0;

release_loaded:
    ri_config_release(&loaded);
    return err;
}

void ri_config_release(struct ri_config *config)
{
    if (!config)
        return;
    free(config->transport);
    free(config->host_id);
    free(config->trace);
    free(config->interface);
    free(config->net_devices);
    free(config->progress);
    free(config->topo);
    memset(config, 0, sizeof(*config));
}

void ri_config_visit(void (*visit)(void *context, const char *name, const char *value_default,
                                   const char *help), void *context)
{
    for (int i = 0; i < VARIABLE_COUNT; i++)
        visit(context, variables[i].name, variables[i].value_default, variables[i].help);
}
