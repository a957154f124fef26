/* SPDX-License-Identifier: Apache-2.0 */
/* A tree from the elements of NCCL's XML:
 *     system > cpu > pci > ... > pci > gpu > nvlink, xgmi, c2c
 *                                    > nic > net
 * A <cpu> is a NUMA node, a <pci> of a bridge's class is a bridge.  Bridges at the top have a host bridge each,
 * since the file does not tell which of them share one.  Every host_hash is a host of its own.
 *
 * Files are edited by hand and written by many versions: a number that is missing or none is unknown, not an error. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "topo/cpumask.h"
#include "topo/decimal.h"
#include "topo/nccl.h"
#include "topo/nccl_links.h"
#include "topo/pack.h"
#include "topo/pci.h"

/* GPUs of a host grow links in pairs where there is a switch, so there is an end to them. */
enum { MAX_DEPTH = 60, MAX_HOSTS = 1024, MAX_GPUS = RI_NCCL_MAX_GPUS, MAX_NICS = 1024, MAX_LINKS = 16384 };

/* 400 Gbit/s are usual; what claims more than 10 Tbit/s was made up by someone. */
static const double max_mbps = 1e7;

struct host {
    char hash[40];
    struct ri_topo *topo; /* of this host alone */
    struct ri_nccl_link *links;
    int link_count, gpu_count, nic_count;
};

/* An element that is open. */
struct frame {
    int32_t object;  /* what stands within hangs below it; -1: nothing can */
    char pci[24];    /* of the nearest <pci>; "": none */
    double pci_gbps;
    int is_device;   /* that <pci> is no bridge */
    int64_t sm, gfx; /* of a <gpu> */
    int32_t gpu;     /* -1: none */
};

struct ri_nccl_reader {
    struct host *hosts;
    int host_count, host, object_count;
    int line, depth;
    int ignored; /* elements that are open and unknown, and all within them */
    struct frame frames[MAX_DEPTH];
};

/* ---- attributes ---- */

typedef const char *const *attributes_t;

/* "": there is none. */
static const char *get(attributes_t attributes, const char *name)
{
    for (; attributes[0]; attributes += 2)
        if (strcmp(attributes[0], name) == 0)
            return attributes[1];
    return "";
}

static int64_t get_whole(attributes_t attributes, const char *name, int64_t high, int64_t fallback)
{
    int64_t value;

    return ri_decimal_read_whole(get(attributes, name), 0, high, &value) == 0 ? value : fallback;
}

static double get_number(attributes_t attributes, const char *name)
{
    double value;

    return ri_decimal_read(get(attributes, name), &value) == 0 && value > 0 ? value : 0;
}

/* Cut where it is too long; lower case, for PCI ids are compared. */
static void get_id(attributes_t attributes, const char *name, char *id, size_t bytes)
{
    snprintf(id, bytes, "%s", get(attributes, name));
    for (; *id; id++)
        *id = (char)tolower((unsigned char)*id);
}

/* "gfx942", "942" or "gfx90a"; 0: unknown. */
static int64_t get_gfx(attributes_t attributes)
{
    const char *text = get(attributes, "gcn");
    int64_t gfx;

    if (strncmp(text, "gfx", 3) == 0)
        text += 3;
    if (strcmp(text, "90a") == 0)
        return 910;
    return ri_decimal_read_whole(text, 0, 100000, &gfx) == 0 ? gfx : 0;
}

/* What our own writer adds is exact; else by link_speed="16.0 GT/s PCIe" link_width="16". */
static double get_pci_gbps(attributes_t attributes)
{
    double exact = get_number(attributes, "gbps");

    if (exact > 0 && exact <= RI_TOPO_MAX_SPEED)
        return exact;
    return ri_pci_gbps(get(attributes, "link_speed"), get(attributes, "link_width"));
}

/* ---- elements ---- */

static int refuse(const struct ri_nccl_reader *reader, const char *element, const char *why)
{
    return ri_error(RONDO_ERR_ARGUMENT, "NCCL topology, line %d: <%.32s> %s", reader->line, element, why);
}

static struct ri_topo *tree_of(const struct ri_nccl_reader *reader)
{
    return reader->hosts[reader->host].topo;
}

static int add(struct ri_nccl_reader *reader, enum ri_topo_kind kind, int32_t parent, int64_t number, int32_t *at)
{
    if (++reader->object_count > RI_TOPO_MAX_OBJECTS)
        return refuse(reader, ri_topo_kind_names[kind], "is one object too many: 100000 are the limit");
    *at = ri_topo_add(tree_of(reader), kind, parent, (int32_t)number);
    return tree_of(reader)->error;
}

/* Makes the host with this hash the one that is read; "": there is one only. */
static int enter_host(struct ri_nccl_reader *reader, const char *hash)
{
    struct host *hosts;
    int32_t at;

    for (reader->host = 0; reader->host < reader->host_count; reader->host++)
        if (strcmp(reader->hosts[reader->host].hash, hash) == 0)
            return 0;
    if (reader->host_count == MAX_HOSTS)
        return refuse(reader, "cpu", "is of one host too many: 1024 are the limit");
    hosts = realloc(reader->hosts, ((size_t)reader->host_count + 1) * sizeof(*hosts));
    if (!hosts)
        return ri_error(RONDO_ERR_MEMORY, "no memory for %d hosts", reader->host_count + 1);
    reader->hosts = hosts;
    hosts = &hosts[reader->host_count];
    memset(hosts, 0, sizeof(*hosts));
    hosts->topo = ri_topo_create();
    if (!hosts->topo)
        return ri_error(RONDO_ERR_MEMORY, "no memory for %d hosts", reader->host_count + 1);
    snprintf(hosts->hash, sizeof(hosts->hash), "%s", hash);
    reader->host_count++;
    if (add(reader, RI_TOPO_HOST, -1, reader->host, &at))
        return hosts->topo->error ? hosts->topo->error : RONDO_ERR_ARGUMENT;
    snprintf(hosts->topo->objects[at].id, sizeof(hosts->topo->objects[at].id), "%s", hash);
    return 0;
}

static void set_cpus(struct ri_topo_object *object, attributes_t attributes)
{
    int count = ri_cpumask_to_list(get(attributes, "affinity"), object->cpus, sizeof(object->cpus));

    object->cpu_count = count > 0 ? count : 0;
}

static int32_t find_numa(const struct ri_topo *topo, int64_t number)
{
    for (int32_t i = 0; i < topo->object_count; i++)
        if (topo->objects[i].kind == RI_TOPO_NUMA && topo->objects[i].number == number)
            return i;
    return -1;
}

static int begin_cpu(struct ri_nccl_reader *reader, struct frame *frame, attributes_t attributes)
{
    int64_t number = get_whole(attributes, "numaid", 100000, -1);
    struct ri_topo_object *numa;
    char hash[40];
    int err;

    if (reader->depth != 2)
        return refuse(reader, "cpu", "stands within something else than <system>");
    get_id(attributes, "host_hash", hash, sizeof(hash));
    err = enter_host(reader, hash);
    frame->object = 0;
    if (err)
        return err;
    if (number < 0) {
        set_cpus(&tree_of(reader)->objects[0], attributes);
        return 0;
    }
    frame->object = find_numa(tree_of(reader), number);
    if (frame->object >= 0)
        return 0;
    err = add(reader, RI_TOPO_NUMA, 0, number, &frame->object);
    if (err)
        return err;
    numa = &tree_of(reader)->objects[frame->object];
    snprintf(numa->model, sizeof(numa->model), "%.15s %.15s %.7s %.7s", get(attributes, "arch"),
             get(attributes, "vendor"), get(attributes, "familyid"), get(attributes, "modelid"));
    if (!*get(attributes, "vendor"))
        numa->model[0] = 0;
    set_cpus(numa, attributes);
    return 0;
}

static int begin_pci(struct ri_nccl_reader *reader, struct frame *frame, attributes_t attributes)
{
    const char *class = get(attributes, "class");
    int32_t parent = frame->object;
    struct ri_topo_object *bridge;
    int err = 0;

    get_id(attributes, "busid", frame->pci, sizeof(frame->pci));
    frame->pci_gbps = get_pci_gbps(attributes);
    /* 0x0680 are other bridges: NVSwitches hang below them, and nothing else. */
    frame->is_device = strncmp(class, "0x0604", 6) != 0;
    if (frame->is_device)
        return 0;
    if (tree_of(reader)->objects[parent].kind != RI_TOPO_BRIDGE)
        err = add(reader, RI_TOPO_ROOT, parent, -1, &parent);
    if (!err)
        err = add(reader, RI_TOPO_BRIDGE, parent, -1, &frame->object);
    if (err)
        return err;
    bridge = &tree_of(reader)->objects[frame->object];
    memcpy(bridge->pci, frame->pci, sizeof(bridge->pci));
    bridge->link_gbps = frame->pci_gbps;
    return 0;
}

/* A device is linked by the <pci> that it stands in, where that is no bridge. */
static void link_device(struct ri_topo_object *object, const struct frame *frame)
{
    memcpy(object->pci, frame->pci, sizeof(object->pci));
    object->link_gbps = frame->is_device ? frame->pci_gbps : 0;
}

static int begin_gpu(struct ri_nccl_reader *reader, struct frame *frame, attributes_t attributes)
{
    struct host *host = &reader->hosts[reader->host];
    struct ri_topo_object *gpu;
    int err;

    if (++host->gpu_count > MAX_GPUS)
        return refuse(reader, "gpu", "is one too many: 256 of a host are the limit");
    err = add(reader, RI_TOPO_GPU, frame->object, get_whole(attributes, "dev", 100000, host->gpu_count - 1),
              &frame->gpu);
    if (err)
        return err;
    gpu = &host->topo->objects[frame->gpu];
    link_device(gpu, frame);
    frame->object = -1;
    frame->sm = get_whole(attributes, "sm", 100000, 0);
    frame->gfx = get_gfx(attributes);
    if (frame->gfx == 910)
        snprintf(gpu->model, sizeof(gpu->model), "AMD gfx90a");
    else if (frame->gfx)
        snprintf(gpu->model, sizeof(gpu->model), "AMD gfx%d", (int)frame->gfx);
    else if (frame->sm)
        snprintf(gpu->model, sizeof(gpu->model), "NVIDIA sm_%d", (int)frame->sm);
    return 0;
}

/* NCCL lists a network device whose place it does not know once below every <cpu>: it is of the host. */
static int is_listed(struct ri_topo *topo, const char *name)
{
    for (int32_t i = 0; i < topo->object_count; i++) {
        struct ri_topo_object *object = &topo->objects[i];

        if (object->kind != RI_TOPO_NIC || object->pci[0] || strcmp(object->name, name) != 0)
            continue;
        object->parent = 0;
        return 1;
    }
    return 0;
}

static void describe_nic(struct ri_topo *topo, struct ri_topo_object *object, attributes_t attributes)
{
    const char *guid = get(attributes, "guid"), *name = get(attributes, "name");
    double mbps = get_number(attributes, "speed"), exact = get_number(attributes, "gbps");
    struct ri_topo_nic *nic = &object->nic;
    int is_rdma = strcmp(get(attributes, "gdr"), "1") == 0 || (*guid && strcmp(guid, "0x0") != 0);

    if (*name)
        snprintf(object->name, sizeof(object->name), "%s", name);
    if (is_rdma)
        snprintf(nic->device, sizeof(nic->device), "%s", name);
    else
        snprintf(nic->netdev, sizeof(nic->netdev), "%s", name);
    nic->port = is_rdma ? (int32_t)get_whole(attributes, "port", 255, 0) : 0;
    /* The guid is that of the adapter. */
    snprintf(nic->card, sizeof(nic->card), "%s", strlen(guid) > 3 ? guid : object->pci[0] ? object->pci : name);
    for (int layer = 1; layer < RI_TOPO_LAYERS; layer++)
        if (strcmp(get(attributes, "layer"), ri_topo_layer_names[layer]) == 0)
            nic->layer = (enum ri_topo_layer)layer;
    nic->state = RI_TOPO_ACTIVE; /* NCCL lists no others */
    nic->gbps = exact > 0 && exact <= RI_TOPO_MAX_SPEED ? exact : mbps <= max_mbps ? mbps / 8000 : 0;
    if (mbps > max_mbps && !(exact > 0))
        ri_topo_notice(topo, "%s claims %.0f Mbit/s, which is not believed", object->name, mbps);
}

static int begin_net(struct ri_nccl_reader *reader, struct frame *frame, attributes_t attributes)
{
    struct ri_topo *topo = tree_of(reader);
    int32_t at;
    int err;

    if (!frame->pci[0] && is_listed(topo, get(attributes, "name")))
        return 0;
    if (++reader->hosts[reader->host].nic_count > MAX_NICS)
        return refuse(reader, "net", "is one too many: 1024 of a host are the limit");
    err = add(reader, RI_TOPO_NIC, frame->object, get_whole(attributes, "dev", 100000, -1), &at);
    if (err)
        return err;
    link_device(&topo->objects[at], frame);
    describe_nic(topo, &topo->objects[at], attributes);
    frame->object = -1;
    return 0;
}

/* ---- links ---- */

static int add_link(struct ri_nccl_reader *reader, const struct ri_nccl_link *link)
{
    struct host *host = &reader->hosts[reader->host];

    if (host->link_count == MAX_LINKS)
        return refuse(reader, "nvlink", "is one too many: 16384 of a host are the limit");
    if ((host->link_count & (host->link_count - 1)) == 0) {
        size_t room = host->link_count ? 2 * (size_t)host->link_count : 1;
        struct ri_nccl_link *links = realloc(host->links, room * sizeof(*links));

        if (!links)
            return ri_error(RONDO_ERR_MEMORY, "no memory for %zu links", room);
        host->links = links;
    }
    host->links[host->link_count++] = *link;
    return 0;
}

/* NVLink and XGMI: what is at the other end is told by its PCI class. */
static enum ri_nccl_end end_of(const char *class)
{
    if (strncmp(class, "0x068001", 8) == 0 || strncmp(class, "0x0600", 6) == 0)
        return RI_NCCL_TO_CPU; /* a bridge of POWER9, or of the host */
    return strncmp(class, "0x0680", 6) == 0 ? RI_NCCL_TO_SWITCH : RI_NCCL_TO_GPU;
}

static int begin_link(struct ri_nccl_reader *reader, const struct frame *frame, enum ri_topo_link_kind kind,
                      attributes_t attributes)
{
    struct ri_nccl_link link = { .gpu = frame->gpu, .end = RI_NCCL_TO_CPU, .kind = kind,
                                 .count = (int)get_whole(attributes, "count", 1000, 1) };
    double each = get_number(attributes, "bw") / 1000, exact = get_number(attributes, "gbps");

    if (frame->gpu < 0)
        return 0;
    if (kind != RI_TOPO_C2C) {
        link.end = end_of(get(attributes, "tclass"));
        get_id(attributes, "target", link.target, sizeof(link.target));
        each = kind == RI_TOPO_XGMI ? ri_nccl_xgmi_gbps(frame->gfx) : ri_nccl_nvlink_gbps(frame->sm);
    }
    link.gbps = exact > 0 ? exact : each * link.count;
    return link.count > 0 && link.gbps <= RI_TOPO_MAX_SPEED ? add_link(reader, &link) : 0;
}

/* ---- reading ---- */

static int begin_known(struct ri_nccl_reader *reader, struct frame *frame, const char *element,
                       attributes_t attributes)
{
    if (strcmp(element, "cpu") == 0)
        return begin_cpu(reader, frame, attributes);
    if (strcmp(element, "nvlink") == 0)
        return begin_link(reader, frame, RI_TOPO_NVLINK, attributes);
    if (strcmp(element, "xgmi") == 0)
        return begin_link(reader, frame, RI_TOPO_XGMI, attributes);
    if (strcmp(element, "c2c") == 0)
        return begin_link(reader, frame, RI_TOPO_C2C, attributes);
    if (frame->object < 0)
        return refuse(reader, element, "stands where nothing can: <pci>, <gpu> and <nic> belong into a <cpu>");
    if (strcmp(element, "pci") == 0)
        return begin_pci(reader, frame, attributes);
    if (strcmp(element, "gpu") == 0)
        return begin_gpu(reader, frame, attributes);
    return strcmp(element, "net") == 0 ? begin_net(reader, frame, attributes) : 0;
}

int ri_nccl_begin(struct ri_nccl_reader *reader, int line, const char *element, const char *const *attributes)
{
    static const char *const known[] = { "cpu", "pci", "gpu", "nic", "net", "nvlink", "xgmi", "c2c" };
    struct frame *frame = &reader->frames[reader->depth];
    int is_known = 0;

    reader->line = line;
    if (reader->depth == 0 && strcmp(element, "system") != 0)
        return refuse(reader, element, "is no topology of NCCL; that begins with <system>");
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        is_known |= strcmp(element, known[i]) == 0;
    if (reader->ignored || (reader->depth && !is_known)) {
        reader->ignored++;
        return 0;
    }
    if (reader->depth == MAX_DEPTH)
        return refuse(reader, element, "stands too deep: 60 elements within another are the limit");
    reader->depth++;
    if (reader->depth == 1) {
        *frame = (struct frame){ .object = -1, .gpu = -1 };
        return 0;
    }
    *frame = frame[-1];
    return begin_known(reader, frame, element, attributes);
}

void ri_nccl_end(struct ri_nccl_reader *reader)
{
    if (reader->ignored)
        reader->ignored--;
    else
        reader->depth--;
}

int ri_nccl_finish(struct ri_nccl_reader *reader, struct ri_topo **topo_p)
{
    struct ri_topo *topo = ri_topo_create();
    int err = topo ? 0 : ri_error(RONDO_ERR_MEMORY, "no memory for a topology");

    for (int h = 0; h < reader->host_count && !err; h++) {
        struct host *host = &reader->hosts[h];

        err = ri_nccl_links_resolve(host->topo, host->links, host->link_count);
        if (err)
            break;
        ri_topo_append(topo, host->topo);
        err = topo->error;
    }
    if (!err && reader->host_count == 0)
        err = ri_error(RONDO_ERR_ARGUMENT, "NCCL topology: there is no <cpu> in it, so no host");
    if (err)
        ri_topo_destroy(topo);
    else
        *topo_p = topo;
    return err;
}

struct ri_nccl_reader *ri_nccl_reader_create(void)
{
    return calloc(1, sizeof(struct ri_nccl_reader));
}

void ri_nccl_reader_destroy(struct ri_nccl_reader *reader)
{
    if (!reader)
        return;
    for (int h = 0; h < reader->host_count; h++) {
        ri_topo_destroy(reader->hosts[h].topo);
        free(reader->hosts[h].links);
    }
    free(reader->hosts);
    free(reader);
}
