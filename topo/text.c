/* SPDX-License-Identifier: Apache-2.0 */
/* Machines in few words: "host:2 numa:2 gpu:4 nic:4 nvlink:300 pcie:25 net:12.5".  The words are those of
 * rondo-topo-text(5). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/letters.h"
#include "base/status.h"
#include "topo/decimal.h"
#include "topo/pack.h"
#include "topo/topo.h"

enum word {
    HOST, PACKAGE, NUMA, SWITCH, GPU, NIC, CORE, NVLINK, NVLINK_COUNT, NVLINK_GROUP, XGMI, C2C, PCIE, NET,
    NET_LATENCY, NAME, GPU_MODEL, NIC_NAME, LAYER, WORDS,
    NONE = WORDS
};

enum kind { COUNT, SPEED, LATENCY, STRING };

enum { MAX_PER_HOST = 256 /* of each kind of object */, MAX_STRING = 40 };

/* needs: a word without which this one says nothing. */
static const struct {
    const char *name;
    enum kind kind;
    int low, high; /* of a COUNT */
    enum word needs;
} words[WORDS] = {
    [HOST] = { "host", COUNT, 1, RI_TOPO_MAX_OBJECTS, NONE },
    [PACKAGE] = { "package", COUNT, 1, MAX_PER_HOST, NONE },
    [NUMA] = { "numa", COUNT, 1, MAX_PER_HOST, NONE },
    [SWITCH] = { "switch", COUNT, 1, MAX_PER_HOST, NONE },
    [GPU] = { "gpu", COUNT, 0, MAX_PER_HOST, NONE },
    [NIC] = { "nic", COUNT, 0, MAX_PER_HOST, NONE },
    [CORE] = { "core", COUNT, 1, 65536, NONE },
    [NVLINK] = { "nvlink", SPEED, 0, 0, GPU },
    [NVLINK_COUNT] = { "nvlink-count", COUNT, 1, 1000, NVLINK },
    [NVLINK_GROUP] = { "nvlink-group", COUNT, 2, MAX_PER_HOST, NVLINK },
    [XGMI] = { "xgmi", SPEED, 0, 0, GPU },
    [C2C] = { "c2c", SPEED, 0, 0, GPU },
    [PCIE] = { "pcie", SPEED, 0, 0, NONE },
    [NET] = { "net", SPEED, 0, 0, NIC },
    [NET_LATENCY] = { "net-latency", LATENCY, 0, 0, NONE },
    [NAME] = { "name", STRING, 0, 0, NONE },
    [GPU_MODEL] = { "gpu-model", STRING, 0, 0, GPU },
    [NIC_NAME] = { "nic-name", STRING, 0, 0, NIC },
    [LAYER] = { "layer", STRING, 0, 0, NIC },
};

/* Hosts that are alike, as they were described. */
struct group {
    int line;
    uint8_t given[WORDS];
    double number[WORDS];
    char string[WORDS][MAX_STRING];
};

/* What is being read. */
struct reader {
    const char *at;
    int line;
    char token[96];
    int is_cut; /* the token was longer */
    struct ri_topo *topo;
    int hosts;
};

/* ---- tokens ---- */

static int is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void skip_blanks(struct reader *reader)
{
    for (; is_blank(*reader->at) || *reader->at == '#'; reader->at++) {
        if (*reader->at == '#')
            reader->at += strcspn(reader->at, "\n");
        if (!*reader->at)
            return;
        reader->line += *reader->at == '\n';
    }
}

/* 0 at the end of the text. */
static int next_token(struct reader *reader)
{
    size_t length = 0;

    skip_blanks(reader);
    for (; *reader->at && !is_blank(*reader->at); reader->at++, length++)
        if (length + 1 < sizeof(reader->token))
            reader->token[length] = *reader->at;
    reader->is_cut = length + 1 > sizeof(reader->token);
    reader->token[reader->is_cut ? sizeof(reader->token) - 1 : length] = 0;
    return length > 0;
}

/* The word that was meant, where that can be guessed: at most half of its letters differ; or NULL. */
static const char *nearest_word(const char *name)
{
    int best = (int)(strlen(name) + 1) / 2 + 1;
    const char *nearest = NULL;

    for (int w = 0; w < WORDS; w++) {
        int apart = ri_letters_apart(name, strlen(name), words[w].name);

        if (apart < best) {
            best = apart;
            nearest = words[w].name;
        }
    }
    return nearest;
}

/* ---- words ---- */

static int refuse_token(const struct reader *reader, const char *why)
{
    return ri_error(RONDO_ERR_ARGUMENT, "topology text, line %d: \"%s\": %s (see rondo-topo-text(5))", reader->line,
                    reader->token, why);
}

/* Splits the token into its word and its value; the word, or an error. */
static int find_word(const struct reader *reader, const char **value)
{
    size_t length = strcspn(reader->token, ":");
    char name[sizeof(reader->token)], why[160];
    const char *nearest;

    if (reader->is_cut)
        return refuse_token(reader, "that is too long for a word and its value");
    snprintf(name, sizeof(name), "%.*s", (int)length, reader->token);
    for (int w = 0; w < WORDS; w++) {
        if (strcmp(name, words[w].name) != 0)
            continue;
        *value = reader->token + length + 1;
        if (reader->token[length] && **value)
            return w;
        snprintf(why, sizeof(why), "a value is missing; write %s:VALUE", name);
        return refuse_token(reader, why);
    }
    nearest = nearest_word(name);
    snprintf(why, sizeof(why), "there is no such word%s%s", nearest ? "; the nearest is " : "",
             nearest ? nearest : "");
    return refuse_token(reader, why);
}

static int read_count(const struct reader *reader, enum word w, const char *value, struct group *group)
{
    int64_t count;
    char why[128];

    if (ri_decimal_read_whole(value, words[w].low, words[w].high, &count) == 0) {
        group->number[w] = (double)count;
        return 0;
    }
    snprintf(why, sizeof(why), "%s is a whole number from %d to %d", words[w].name, words[w].low, words[w].high);
    return refuse_token(reader, why);
}

static int read_speed(const struct reader *reader, enum word w, const char *value, struct group *group)
{
    int is_speed = words[w].kind == SPEED;
    double number;
    char why[128];

    if (ri_decimal_read(value, &number) == 0 && number >= (is_speed ? 1e-6 : 0) && number <= 1e6) {
        group->number[w] = number;
        return 0;
    }
    snprintf(why, sizeof(why), "%s is %s up to 1000000", words[w].name,
             is_speed ? "GB/s one way, without a unit (200 Gbit/s are 25), above 0 and" : "in microseconds, from 0");
    return refuse_token(reader, why);
}

static int read_string(const struct reader *reader, enum word w, const char *value, struct group *group)
{
    char why[96];

    for (const char *c = value; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return refuse_token(reader, "a character in it cannot be printed");
    if (strlen(value) >= MAX_STRING) {
        snprintf(why, sizeof(why), "%s is at most %d characters long", words[w].name, MAX_STRING - 1);
        return refuse_token(reader, why);
    }
    if (w == LAYER && strcmp(value, "infiniband") != 0 && strcmp(value, "roce") != 0 && strcmp(value, "ethernet") != 0)
        return refuse_token(reader, "layer is infiniband, roce or ethernet");
    snprintf(group->string[w], MAX_STRING, "%s", value);
    return 0;
}

static int read_value(const struct reader *reader, enum word w, const char *value, struct group *group)
{
    if (group->given[w])
        return refuse_token(reader, "this host has it already; more hosts begin with host:N");
    group->given[w] = 1;
    switch (words[w].kind) {
    case COUNT:
        return read_count(reader, w, value, group);
    case STRING:
        return read_string(reader, w, value, group);
    default:
        return read_speed(reader, w, value, group);
    }
}

/* ---- hosts ---- */

static int count_of(const struct group *group, enum word w)
{
    return (int)group->number[w];
}

/* NUMA nodes of a host: one a package where only those are known. */
static int numa_nodes(const struct group *group)
{
    return group->given[NUMA] ? count_of(group, NUMA) : count_of(group, PACKAGE);
}

/* Which of several places the i-th of n things goes to: equal shares in order, or spread where they are few. */
static int share(int i, int n, int places)
{
    return (int)((int64_t)i * places / n);
}

/* A name for the k-th of several. */
static void name_numbered(char *text, size_t bytes, const char *name, int k)
{
    snprintf(text, bytes, "%s%d", name, k);
}

static int32_t add_host(struct reader *reader, const struct group *group, int k)
{
    struct ri_topo_object *host;
    int32_t at = ri_topo_add(reader->topo, RI_TOPO_HOST, -1, reader->hosts);

    if (at < 0)
        return -1;
    host = &reader->topo->objects[at];
    snprintf(host->id, sizeof(host->id), "text:%d", reader->hosts++);
    if (group->given[NAME] && count_of(group, HOST) == 1)
        snprintf(host->name, sizeof(host->name), "%s", group->string[NAME]);
    else if (group->given[NAME])
        snprintf(host->name, sizeof(host->name), "%s-%d", group->string[NAME], k);
    return at;
}

/* Cores from .. to - 1 are those of an object. */
static void set_cores(struct ri_topo *topo, int32_t at, int from, int to)
{
    struct ri_topo_object *object;

    if (at < 0 || from == to)
        return;
    object = &topo->objects[at];
    object->cpu_count = to - from;
    if (to - from == 1)
        snprintf(object->cpus, sizeof(object->cpus), "%d", from);
    else
        snprintf(object->cpus, sizeof(object->cpus), "%d-%d", from, to - 1);
}

/* First core of the i-th of n shares. */
static int first_core(const struct group *group, int i, int n)
{
    return (int)((int64_t)count_of(group, CORE) * i / n);
}

/* places: what PCI devices or switches are put on; how many. */
static int add_numa(struct ri_topo *topo, const struct group *group, int32_t host, int32_t *places)
{
    int packages = count_of(group, PACKAGE), nodes = numa_nodes(group);
    int32_t package[MAX_PER_HOST];

    set_cores(topo, host, 0, count_of(group, CORE));
    for (int i = 0; i < packages; i++)
        package[i] = ri_topo_add(topo, RI_TOPO_PACKAGE, host, i);
    for (int i = 0; i < nodes; i++) {
        places[i] = ri_topo_add(topo, RI_TOPO_NUMA, packages ? package[share(i, nodes, packages)] : host, i);
        set_cores(topo, places[i], first_core(group, i, nodes), first_core(group, i + 1, nodes));
    }
    if (nodes)
        return nodes;
    places[0] = host;
    return 1;
}

/* Every switch has a host bridge of its own; the speed is that of its way up. */
static int add_switches(struct ri_topo *topo, const struct group *group, int32_t *places, int place_count)
{
    int switches = count_of(group, SWITCH);
    int32_t above[MAX_PER_HOST];

    if (switches == 0)
        return place_count;
    memcpy(above, places, (size_t)place_count * sizeof(*above));
    for (int i = 0; i < switches; i++) {
        int32_t root = ri_topo_add(topo, RI_TOPO_ROOT, above[share(i, switches, place_count)], i);

        places[i] = ri_topo_add(topo, RI_TOPO_BRIDGE, root, i);
        if (places[i] >= 0) {
            snprintf(topo->objects[places[i]].name, sizeof(topo->objects[places[i]].name), "switch %d", i);
            topo->objects[places[i]].link_gbps = group->number[PCIE];
        }
    }
    return switches;
}

static void link_gpus(struct ri_topo *topo, const struct group *group, const int32_t *gpu, int gpus)
{
    int size = group->given[NVLINK_GROUP] ? count_of(group, NVLINK_GROUP) : gpus;
    /* NVLink 2 to 4 carry 25 GB/s each way. */
    int links = group->given[NVLINK_COUNT] ? count_of(group, NVLINK_COUNT) : (int)(group->number[NVLINK] / 25);

    for (int a = 0; a < gpus && group->given[NVLINK]; a++)
        for (int b = a + 1; b < gpus && b / size == a / size; b++)
            ri_topo_link(topo, gpu[a], gpu[b], RI_TOPO_NVLINK, links > 0 ? links : 1, group->number[NVLINK]);
    for (int a = 0; a < gpus && group->given[XGMI]; a++)
        for (int b = a + 1; b < gpus; b++)
            ri_topo_link(topo, gpu[a], gpu[b], RI_TOPO_XGMI, 1, group->number[XGMI]);
}

static void add_gpus(struct ri_topo *topo, const struct group *group, const int32_t *places, int place_count)
{
    int gpus = count_of(group, GPU);
    int32_t gpu[MAX_PER_HOST];

    for (int i = 0; i < gpus; i++) {
        gpu[i] = ri_topo_add(topo, RI_TOPO_GPU, places[share(i, gpus, place_count)], i);
        if (gpu[i] < 0)
            return;
        topo->objects[gpu[i]].link_gbps = group->number[PCIE];
        snprintf(topo->objects[gpu[i]].model, sizeof(topo->objects[gpu[i]].model), "%s", group->string[GPU_MODEL]);
    }
    link_gpus(topo, group, gpu, gpus);
    for (int i = 0; i < gpus && group->given[C2C]; i++) {
        int32_t numa = ri_topo_above(topo, gpu[i], RI_TOPO_NUMA);

        ri_topo_link(topo, gpu[i], numa < 0 ? ri_topo_host_of(topo, gpu[i]) : numa, RI_TOPO_C2C, 1,
                     group->number[C2C]);
    }
}

/* Its adapter has no other port.  RDMA devices are named as such, others as network devices. */
static void describe_nic(struct ri_topo_object *object, const struct group *group)
{
    const char *layer = group->string[LAYER];
    int is_rdma = strcmp(layer, "infiniband") == 0 || strcmp(layer, "roce") == 0;
    const char *name = group->given[NIC_NAME]           ? group->string[NIC_NAME]
                       : is_rdma                        ? "mlx5_"
                       : strcmp(layer, "ethernet") == 0 ? "eth"
                                                        : "nic";
    struct ri_topo_nic *nic = &object->nic;

    name_numbered(object->name, sizeof(object->name), name, object->number);
    snprintf(nic->card, sizeof(nic->card), "card %d", object->number);
    object->link_gbps = group->number[PCIE];
    nic->gbps = group->number[NET];
    nic->state = RI_TOPO_ACTIVE;
    if (layer[0])
        nic->layer = strcmp(layer, "infiniband") == 0 ? RI_TOPO_INFINIBAND : RI_TOPO_ETHERNET;
    nic->port = is_rdma;
    if (is_rdma)
        snprintf(nic->device, sizeof(nic->device), "%.31s", object->name);
    else
        snprintf(nic->netdev, sizeof(nic->netdev), "%.15s", object->name);
}

static void build_host(struct reader *reader, const struct group *group, int k)
{
    int32_t places[MAX_PER_HOST] = { 0 }, host = add_host(reader, group, k);
    struct ri_topo *topo = reader->topo;
    int place_count, nics = count_of(group, NIC);

    if (host < 0)
        return;
    place_count = add_numa(topo, group, host, places);
    place_count = add_switches(topo, group, places, place_count);
    add_gpus(topo, group, places, place_count);
    for (int i = 0; i < nics; i++) {
        int32_t nic = ri_topo_add(topo, RI_TOPO_NIC, places[share(i, nics, place_count)], i);

        if (nic >= 0)
            describe_nic(&topo->objects[nic], group);
    }
}

/* ---- groups ---- */

static int refuse_group(const struct group *group, const char *why)
{
    return ri_error(RONDO_ERR_ARGUMENT, "topology text, the hosts of line %d: %s (see rondo-topo-text(5))",
                    group->line, why);
}

/* What one word alone cannot tell. */
static int check_group(const struct reader *reader, const struct group *group)
{
    int64_t hosts = count_of(group, HOST), gpus = count_of(group, GPU);
    int64_t objects = 1 + count_of(group, PACKAGE) + numa_nodes(group) + 2 * (int64_t)count_of(group, SWITCH) + gpus +
                      count_of(group, NIC);
    int64_t links = group->given[NVLINK] || group->given[XGMI] ? gpus * (gpus + 1) / 2 : gpus;

    char why[64];

    for (int w = 0; w < WORDS; w++) {
        if (!group->given[w] || words[w].needs == NONE || group->given[words[w].needs])
            continue;
        snprintf(why, sizeof(why), "%s needs %s, too", words[w].name, words[words[w].needs].name);
        return refuse_group(group, why);
    }
    if (group->given[NVLINK] && group->given[XGMI])
        return refuse_group(group, "GPUs are joined by nvlink or by xgmi, not by both");
    if (group->given[NUMA] && count_of(group, NUMA) < count_of(group, PACKAGE))
        return refuse_group(group, "a package has a NUMA node at least, so numa is not less than package");
    if (reader->topo->object_count + hosts * objects > RI_TOPO_MAX_OBJECTS ||
        reader->topo->link_count + hosts * links > RI_TOPO_MAX_LINKS)
        return refuse_group(group, "with them there are more than 100000 objects or 1000000 links; take fewer hosts");
    return 0;
}

static int build_group(struct reader *reader, const struct group *group)
{
    int err = check_group(reader, group);

    for (int k = 0; k < count_of(group, HOST) && !err; k++) {
        build_host(reader, group, k);
        err = reader->topo->error;
    }
    if (group->number[NET_LATENCY] > reader->topo->net_latency_us)
        reader->topo->net_latency_us = group->number[NET_LATENCY];
    return err;
}

static int read_groups(struct reader *reader)
{
    struct group group = { 0 };
    int err = 0;

    while (!err && next_token(reader)) {
        const char *value = "";
        int w = find_word(reader, &value);

        if (w < 0)
            return w;
        if (w == HOST) {
            err = group.line ? build_group(reader, &group) : 0;
            memset(&group, 0, sizeof(group));
            group.line = reader->line;
        }
        if (!group.line)
            return refuse_token(reader, "a description begins with host:N");
        if (!err)
            err = read_value(reader, w, value, &group);
    }
    if (err)
        return err;
    if (!group.line)
        return ri_error(RONDO_ERR_ARGUMENT, "topology text: no word in it; write \"host:2 gpu:4 nic:1\" or the like");
    return build_group(reader, &group);
}

int ri_topo_from_text(const char *text, struct ri_topo **topo_p)
{
    struct reader reader = { .at = text, .line = 1, .topo = ri_topo_create() };
    int err;

    if (!reader.topo)
        return ri_error(RONDO_ERR_MEMORY, "no memory for a topology");
    err = read_groups(&reader);
    if (err)
        ri_topo_destroy(reader.topo);
    else
        *topo_p = reader.topo;
    return err;
}
