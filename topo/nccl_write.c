/* SPDX-License-Identifier: Apache-2.0 */
/* One host as NCCL's XML, for NCCL_TOPO_FILE and for reading it again.  NCCL wants PCI ids, speeds and widths of
 * its table, processors by vendor: what the tree does not know is filled in.  Our own attributes gbps and layer,
 * which NCCL passes over, keep what its words cannot say. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/cpumask.h"
#include "topo/decimal.h"
#include "topo/nccl_links.h"
#include "topo/topo.h"

/* What a GPU whose links exceed this has must be behind a switch: no GPU has so many of its own. */
enum { MAX_OWN_LINKS = 18 };

struct writer {
    FILE *out;
    const struct ri_topo *topo;
    int32_t host;
    int depth;
    int nets; /* so far */
    int has_switch;
};

/* Speeds and widths that NCCL knows, by what they carry. */
static const struct pci_rate {
    double gbps;
    const char *speed, *width;
} pci_rates[] = {
    { 3.938, "8.0 GT/s PCIe", "4" },    { 7.877, "8.0 GT/s PCIe", "8" },    { 15.754, "8.0 GT/s PCIe", "16" },
    { 31.508, "16.0 GT/s PCIe", "16" }, { 63.015, "32.0 GT/s PCIe", "16" }, { 121, "64.0 GT/s PCIe", "16" },
};

static void put(struct writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A line, indented. */
static void put(struct writer *w, const char *format, ...)
{
    va_list args;

    fprintf(w->out, "%*s", 2 * w->depth, "");
    va_start(args, format);
    vfprintf(w->out, format, args);
    va_end(args);
    fputc('\n', w->out);
}

/* The text as it may stand in an attribute; what cannot be in XML becomes a question mark. */
static const char *escape(const char *text, char escaped[400])
{
    char *to = escaped;

    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (c == '<' || c == '>' || c == '&' || c == '"')
            to += sprintf(to, "&#%d;", c);
        else
            *to++ = c < ' ' || c >= 0x7f ? '?' : (char)c;
    }
    *to = 0;
    return escaped;
}

/* An attribute that keeps a speed, "": unknown. */
static const char *exact(double gbps, char text[64])
{
    char number[RI_DECIMAL_ROOM];

    text[0] = 0;
    if (gbps > 0) {
        ri_decimal_print(gbps, number);
        snprintf(text, 64, " gbps=\"%s\"", number);
    }
    return text;
}

/* ---- PCI ---- */

/* Devices of described machines have no PCI ids, so they get some: by index, in a domain that no machine uses. */
static const char *busid(const struct writer *w, int32_t object, char id[24])
{
    const char *pci = w->topo->objects[object].pci;
    unsigned k = (unsigned)(object - w->host);

    if (pci[0] && pci[strspn(pci, "0123456789abcdef:.")] == 0)
        snprintf(id, 24, "%s", pci);
    else
        snprintf(id, 24, "%04x:%02x:%02x.0", 0xf000u + (k >> 13), k >> 5 & 0xff, k & 31);
    return id;
}

static void open_pci(struct writer *w, int32_t at, const char *class)
{
    double gbps = w->topo->objects[at].link_gbps;
    const struct pci_rate unknown = { 0, "", "0" }, *rate = &unknown;
    char id[24], keep[64];

    for (size_t i = 0; gbps > 0 && i < sizeof(pci_rates) / sizeof(pci_rates[0]); i++)
        if (i == 0 || gbps >= 0.9 * pci_rates[i].gbps)
            rate = &pci_rates[i];
    put(w, "<pci busid=\"%s\" class=\"%s\" link_speed=\"%s\" link_width=\"%s\"%s>", busid(w, at, id), class,
        rate->speed, rate->width, exact(gbps, keep));
    w->depth++;
}

static void close_element(struct writer *w, const char *element)
{
    w->depth--;
    put(w, "</%s>", element);
}

/* ---- GPUs ---- */

static int sm_of(const char *model)
{
    static const struct {
        const char *name;
        int sm;
    } known[] = { { "P100", 60 }, { "V100", 70 },  { "A100", 80 }, { "A800", 80 }, { "A40", 86 },  { "L20", 89 },
                  { "L40", 89 },  { "H100", 90 },  { "H800", 90 }, { "H20", 90 },  { "H200", 90 }, { "B200", 100 } };
    const char *at = strstr(model, "sm_");

    if (at)
        return atoi(at + 3);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strstr(model, known[i].name))
            return known[i].sm;
    return 80;
}

static int joins_gpus(const struct writer *w, const struct ri_topo_link *link)
{
    return link->kind == RI_TOPO_NVLINK && link->a > w->host && ri_topo_host_of(w->topo, link->a) == w->host &&
           w->topo->objects[link->a].kind == RI_TOPO_GPU && w->topo->objects[link->b].kind == RI_TOPO_GPU;
}

/* Links to switches look like equal links between all GPUs, more than these could have of their own. */
static int has_switch(const struct writer *w)
{
    int gpus = ri_topo_count(w->topo, w->host, RI_TOPO_GPU), pairs = 0;
    const struct ri_topo_link *first = NULL;

    for (int32_t i = 0; i < w->topo->link_count; i++) {
        const struct ri_topo_link *link = &w->topo->links[i];

        if (!joins_gpus(w, link))
            continue;
        first = first ? first : link;
        pairs += link->count == first->count && link->gbps == first->gbps;
    }
    return first && gpus > 2 && pairs == gpus * (gpus - 1) / 2 && first->count * (gpus - 1) > MAX_OWN_LINKS;
}

static void put_link(struct writer *w, const struct ri_topo_link *link, int32_t other)
{
    int is_gpu = w->topo->objects[other].kind == RI_TOPO_GPU;
    char id[24], keep[64];

    exact(link->gbps, keep);
    if (link->kind == RI_TOPO_C2C)
        put(w, "<c2c bw=\"%.0f\" count=\"%d\"%s/>", link->gbps * 1000 / (link->count > 0 ? link->count : 1),
            (int)link->count, keep);
    else if (link->kind == RI_TOPO_XGMI)
        put(w, "<xgmi target=\"%s\" count=\"%d\" tclass=\"%s\"%s/>", busid(w, other, id), (int)link->count,
            is_gpu ? "0x038000" : "0x060000", keep);
    else
        put(w, "<nvlink target=\"%s\" count=\"%d\" tclass=\"%s\"%s/>", busid(w, other, id), (int)link->count,
            is_gpu ? "0x030200" : "0x068001", keep);
}

static void put_links(struct writer *w, int32_t gpu)
{
    const struct ri_topo *topo = w->topo;
    int switched = 0;

    for (int32_t i = 0; i < topo->link_count; i++) {
        const struct ri_topo_link *link = &topo->links[i];
        char keep[64];

        if (link->a != gpu && link->b != gpu)
            continue;
        if (!w->has_switch || !joins_gpus(w, link))
            put_link(w, link, link->a == gpu ? link->b : link->a);
        else if (switched++ == 0)
            put(w, "<nvlink target=\"fffffff:ff:ff.0\" count=\"%d\" tclass=\"0x068000\"%s/>", (int)link->count,
                exact(link->gbps, keep));
    }
}

static void put_gpu(struct writer *w, int32_t at)
{
    const struct ri_topo_object *gpu = &w->topo->objects[at];
    const char *gfx = strstr(gpu->model, "gfx");
    char escaped[400];

    open_pci(w, at, gfx ? "0x038000" : "0x030200");
    if (gfx)
        put(w, "<gpu dev=\"%d\" gcn=\"%s\" rank=\"%d\" gdr=\"1\">", (int)gpu->number, escape(gfx + 3, escaped),
            (int)gpu->number);
    else
        put(w, "<gpu dev=\"%d\" sm=\"%d\" rank=\"%d\" gdr=\"1\">", (int)gpu->number, sm_of(gpu->model),
            (int)gpu->number);
    w->depth++;
    put_links(w, at);
    close_element(w, "gpu");
    close_element(w, "pci");
}

/* ---- NICs ---- */

/* A card that NCCL named goes by that name; others by a hash of theirs, FNV-1a. */
static void guid_of(const struct ri_topo_nic *nic, char guid[24])
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (const char *c = nic->card; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
    if (!nic->device[0])
        snprintf(guid, 24, "0x0");
    else if (strncmp(nic->card, "0x", 2) == 0 && strspn(nic->card + 2, "0123456789abcdef") == strlen(nic->card) - 2)
        snprintf(guid, 24, "%.20s", nic->card);
    else
        snprintf(guid, 24, "0x%llx", (unsigned long long)hash);
}

static int is_left_out(const struct ri_topo_object *object)
{
    return object->kind != RI_TOPO_NIC || object->nic.is_loopback || object->nic.unusable[0];
}

static void put_net(struct writer *w, const struct ri_topo_object *object)
{
    const struct ri_topo_nic *nic = &object->nic;
    char escaped[400], guid[24], keep[64], layer[32] = "";

    guid_of(nic, guid);
    if (nic->layer != RI_TOPO_LAYER_UNKNOWN)
        snprintf(layer, sizeof(layer), " layer=\"%s\"", ri_topo_layer_names[nic->layer]);
    put(w, "<net name=\"%s\" dev=\"%d\" speed=\"%.0f\" port=\"%d\" guid=\"%s\" maxconn=\"131072\" gdr=\"%d\"%s%s/>",
        escape(nic->device[0] ? nic->device : nic->netdev[0] ? nic->netdev : object->name, escaped), w->nets++,
        nic->gbps * 8000, (int)nic->port, guid, nic->device[0] != 0, layer,
        exact(nic->gbps, keep));
}

/* Do both stand in one <pci>: ports of one function? */
static int is_one_function(const struct ri_topo_object *a, const struct ri_topo_object *b)
{
    return !is_left_out(a) && !is_left_out(b) && a->parent == b->parent && a->pci[0] && strcmp(a->pci, b->pci) == 0;
}

static void put_nic(struct writer *w, int32_t at)
{
    const struct ri_topo_object *objects = w->topo->objects;

    if (is_left_out(&objects[at]))
        return;
    for (int32_t i = w->host; i < at; i++)
        if (is_one_function(&objects[i], &objects[at]))
            return;
    open_pci(w, at, objects[at].nic.layer == RI_TOPO_INFINIBAND ? "0x020700" : "0x020000");
    put(w, "<nic>");
    w->depth++;
    put_net(w, &objects[at]);
    for (int32_t i = at + 1; i < w->topo->object_count && objects[i].kind != RI_TOPO_HOST; i++)
        if (is_one_function(&objects[i], &objects[at]))
            put_net(w, &objects[i]);
    close_element(w, "nic");
    close_element(w, "pci");
}

/* ---- hosts ---- */

static void put_below(struct writer *w, int32_t parent)
{
    const struct ri_topo_object *objects = w->topo->objects;

    for (int32_t i = parent + 1; i < w->topo->object_count && objects[i].kind != RI_TOPO_HOST; i++) {
        if (objects[i].parent != parent)
            continue;
        if (objects[i].kind == RI_TOPO_GPU)
            put_gpu(w, i);
        else if (objects[i].kind == RI_TOPO_NIC)
            put_nic(w, i);
        else if (objects[i].kind == RI_TOPO_ROOT || objects[i].kind == RI_TOPO_PACKAGE)
            put_below(w, i);
        if (objects[i].kind != RI_TOPO_BRIDGE)
            continue;
        open_pci(w, i, "0x060400");
        put_below(w, i);
        close_element(w, "pci");
    }
}

/* at: a NUMA node, or a host for what lies in none of its own. */
static void put_cpu(struct writer *w, int32_t at)
{
    const struct ri_topo_object *object = &w->topo->objects[at], *host = &w->topo->objects[w->host];
    char arch[16] = "x86_64", vendor[16] = "GenuineIntel", family[8] = "6", model[8] = "85", mask[2304], hash[80] = "";

    if (object->kind == RI_TOPO_NUMA)
        sscanf(object->model, "%15s %15s %7s %7s", arch, vendor, family, model);
    if (strncmp(host->id, "0x", 2) == 0 && strspn(host->id + 2, "0123456789abcdef") == strlen(host->id) - 2)
        snprintf(hash, sizeof(hash), " host_hash=\"%s\"", host->id);
    ri_cpumask_from_list(object->cpus, mask, sizeof(mask));
    put(w, "<cpu%s numaid=\"%d\" affinity=\"%s\" arch=\"%s\" vendor=\"%s\" familyid=\"%s\" modelid=\"%s\">", hash,
        object->kind == RI_TOPO_NUMA ? (int)object->number : -1, mask, arch, vendor, family, model);
    w->depth++;
    put_below(w, at);
    close_element(w, "cpu");
}

/* Whether anything of PCI is in no NUMA node. */
static int has_others(const struct writer *w)
{
    const struct ri_topo_object *objects = w->topo->objects;

    for (int32_t i = w->host + 1; i < w->topo->object_count && objects[i].kind != RI_TOPO_HOST; i++)
        if (objects[i].kind > RI_TOPO_NUMA && ri_topo_above(w->topo, i, RI_TOPO_NUMA) < 0)
            return 1;
    return 0;
}

static void put_system(struct writer *w)
{
    int nodes = ri_topo_count(w->topo, w->host, RI_TOPO_NUMA);

    put(w, "<system version=\"1\">");
    w->depth++;
    for (int k = 0; k < nodes; k++)
        put_cpu(w, ri_topo_find(w->topo, w->host, RI_TOPO_NUMA, k));
    if (nodes == 0 || has_others(w))
        put_cpu(w, w->host);
    close_element(w, "system");
}

char *ri_topo_to_nccl_xml(const struct ri_topo *topo, int32_t host)
{
    char *text = NULL;
    size_t bytes;
    struct writer w = { .topo = topo, .host = host, .out = open_memstream(&text, &bytes) };

    if (!w.out)
        return NULL;
    w.has_switch = has_switch(&w);
    put_system(&w);
    if (fclose(w.out)) {
        free(text);
        return NULL;
    }
    return text;
}
