/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "topo/find.h"
#include "topo/kfd.h"
#include "topo/nvml.h"
#include "topo/pci.h"

#define DEVICES "/sys/bus/pci/devices"

enum { NVIDIA = 0x10de, AMD = 0x1002 };
enum { MAX_GPUS = 256 };

static int32_t end_of_host(const struct ri_topo *topo, int32_t host)
{
    int32_t end = host + 1;

    while (end < topo->object_count && topo->objects[end].kind != RI_TOPO_HOST)
        end++;
    return end;
}

static long long device_number(struct ri_source *source, const char *id, const char *file, long long fallback)
{
    char path[96];

    snprintf(path, sizeof(path), DEVICES "/%s/%s", id, file);
    return ri_source_number(source, path, fallback);
}

/* One line of text, or ""; what a line of a recording could not hold ends it. */
static void device_text(struct ri_source *source, const char *id, const char *file, char *text, size_t bytes)
{
    char path[96];

    snprintf(path, sizeof(path), DEVICES "/%s/%s", id, file);
    if (ri_source_text(source, path, text, bytes))
        text[0] = 0;
    text[strcspn(text, "\n\r\t")] = 0;
}

/* ---- those on PCI ---- */

/* A VGA of AMD may be the console of a server, and those of others are. */
static int is_gpu(struct ri_source *source, const char *id)
{
    long long class_code = device_number(source, id, "class", 0) >> 8, vendor;

    if (class_code >> 8 != 0x03 && class_code != 0x1200)
        return 0;
    vendor = device_number(source, id, "vendor", 0);
    if (vendor == NVIDIA)
        return class_code == 0x0300 || class_code == 0x0302;
    return vendor == AMD && class_code != 0x0300 && class_code != 0x0301;
}

static int compare_ids(const void *left, const void *right)
{
    return strcmp(left, right);
}

/* Their ids in order of PCI, which is that of nvidia-smi; returns how many. */
static int list_gpus(struct ri_source *source, char (*ids)[24])
{
    char *names = ri_source_list(source, DEVICES), *rest, *name;
    int count = 0;

    for (name = names ? strtok_r(names, "\n", &rest) : NULL; name; name = strtok_r(NULL, "\n", &rest))
        if (strlen(name) < sizeof(ids[0]) && count < MAX_GPUS && is_gpu(source, name))
            snprintf(ids[count++], sizeof(ids[0]), "%s", name);
    free(names);
    qsort(ids, (size_t)count, sizeof(ids[0]), compare_ids);
    return count;
}

static void append_missing(struct ri_source *source, struct ri_topo *topo, int32_t host)
{
    char(*ids)[24] = calloc(MAX_GPUS, sizeof(*ids));
    int count = ids ? list_gpus(source, ids) : 0;

    for (int i = 0; i < count; i++) {
        struct ri_pci pci;
        char link[64];
        int32_t at;

        snprintf(link, sizeof(link), DEVICES "/%s", ids[i]);
        if (ri_pci_find(topo, host, RI_TOPO_GPU, ids[i]) >= 0 || ri_pci_read(source, link, &pci) || pci.is_virtual)
            continue;
        at = ri_topo_add(topo, RI_TOPO_GPU, ri_pci_parent(topo, host, &pci), -1);
        if (at >= 0)
            snprintf(topo->objects[at].pci, sizeof(topo->objects[at].pci), "%s", ids[i]);
    }
    free(ids);
}

/* ---- what is known of one ---- */

/* The value of a line "Model: \t NVIDIA A100-SXM4-80GB". */
static void find_value(const char *text, const char *key, char *value, size_t bytes)
{
    const char *line = text, *end;

    value[0] = 0;
    while (strncmp(line, key, strlen(key)) != 0) {
        line = strchr(line, '\n');
        if (!line)
            return;
        line++;
    }
    line += strlen(key);
    line += strspn(line, " \t");
    end = line + strcspn(line, "\n");
    while (end > line && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    snprintf(value, bytes, "%.*s", (int)(end - line), line);
}

/* The driver's own words, which containers often see without its library. */
static void read_nvidia(struct ri_source *source, struct ri_topo_object *gpu)
{
    char path[96], text[1024], value[64];

    snprintf(path, sizeof(path), "/proc/driver/nvidia/gpus/%s/information", gpu->pci);
    if (ri_source_text(source, path, text, sizeof(text)))
        return;
    find_value(text, "Model:", value, sizeof(value));
    if (value[0])
        snprintf(gpu->model, sizeof(gpu->model), "%s", value);
    find_value(text, "GPU UUID:", value, sizeof(value));
    /* Before the first use of a GPU it is all question marks. */
    if (value[0] && !strchr(value, '?') && !gpu->id[0])
        snprintf(gpu->id, sizeof(gpu->id), "%s", value);
}

static void read_amd(struct ri_source *source, struct ri_topo_object *gpu)
{
    char text[64];
    long long memory = device_number(source, gpu->pci, "mem_info_vram_total", 0);

    device_text(source, gpu->pci, "product_name", text, sizeof(text));
    if (text[0] && !gpu->model[0])
        snprintf(gpu->model, sizeof(gpu->model), "%s", text);
    device_text(source, gpu->pci, "unique_id", text, sizeof(text));
    if (text[0] && !gpu->id[0])
        snprintf(gpu->id, sizeof(gpu->id), "%s", text);
    if (memory > 0 && gpu->memory_bytes == 0)
        gpu->memory_bytes = memory;
}

static void describe(struct ri_source *source, struct ri_topo_object *gpu)
{
    long long vendor = device_number(source, gpu->pci, "vendor", 0);
    double link, full;
    char folder[64];

    if (vendor == NVIDIA)
        read_nvidia(source, gpu);
    else if (vendor == AMD)
        read_amd(source, gpu);
    snprintf(folder, sizeof(folder), DEVICES "/%s", gpu->pci);
    ri_pci_busy_link(source, folder, &link, &full);
    if (link > 0) {
        gpu->link_gbps = link;
        gpu->full_gbps = full > link * 1.01 ? full : 0;
    }
}

/* Those without a number get the next ones, in order of the tree; they were appended in order of PCI. */
static void number_gpus(struct ri_topo *topo, int32_t host)
{
    int32_t next = 0;

    for (int32_t i = host + 1; i < end_of_host(topo, host); i++)
        if (topo->objects[i].kind == RI_TOPO_GPU && topo->objects[i].number >= next)
            next = topo->objects[i].number + 1;
    for (int32_t i = host + 1; i < end_of_host(topo, host); i++)
        if (topo->objects[i].kind == RI_TOPO_GPU && topo->objects[i].number < 0) {
            topo->objects[i].number = next++;
            snprintf(topo->objects[i].name, sizeof(topo->objects[i].name), "gpu %d", (int)topo->objects[i].number);
        }
}

/* ---- NVIDIA's library ---- */

static int count_nvidia(struct ri_source *source, const struct ri_topo *topo, int32_t host)
{
    int count = 0;

    for (int32_t i = host + 1; i < end_of_host(topo, host); i++)
        count += topo->objects[i].kind == RI_TOPO_GPU && topo->objects[i].pci[0] &&
                 device_number(source, topo->objects[i].pci, "vendor", 0) == NVIDIA;
    return count;
}

static int is_listed(const char *text, const char *pci)
{
    unsigned index;
    char id[24];

    for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
        if (sscanf(text, "gpu %u %23s", &index, id) == 2 && strcmp(id, pci) == 0)
            return 1;
    return 0;
}

/* Containers see all GPUs of a host in /sys, and may use those that the library lists. */
static void take_out_unlisted(struct ri_source *source, struct ri_topo *topo, int32_t host, const char *text)
{
    int taken = 0;

    for (int32_t i = end_of_host(topo, host) - 1; i > host; i--) {
        const char *pci = topo->objects[i].pci;

        if (topo->objects[i].kind != RI_TOPO_GPU || !pci[0] || device_number(source, pci, "vendor", 0) != NVIDIA ||
            is_listed(text, pci))
            continue;
        ri_topo_remove(topo, i);
        taken++;
    }
    if (taken)
        ri_topo_notice(topo, "%d GPU%s of this host %s not listed by NVIDIA's library, and not ours to use", taken,
                       taken == 1 ? "" : "s", taken == 1 ? "is" : "are");
}

static void add_nvml(struct ri_source *source, struct ri_topo *topo, int32_t host)
{
    int count = count_nvidia(source, topo, host);
    int32_t links = topo->link_count;
    char *text;

    if (count == 0)
        return;
    if (ri_source_is_live(source)) {
        text = ri_nvml_library_text();
        ri_source_note(source, "nvml", text ? text : "");
        free(text);
    }
    text = ri_source_ask(source, "nvml");
    if (text && ri_nvml_apply(text, topo, host, source))
        take_out_unlisted(source, topo, host, text);
    else if (text && strncmp(text, "failed ", 7) == 0)
        ri_topo_notice(topo, "links between GPUs are unknown: NVIDIA's library fails with code %d", atoi(text + 7));
    else if (count > 1 && links == 0)
        ri_topo_notice(topo, "links between GPUs are unknown: libnvidia-ml.so.1 cannot be opened (a container: give it "
                             "the capability utility)");
    free(text);
}

void ri_topo_add_gpus(struct ri_source *source, struct ri_topo *topo, int32_t host)
{
    append_missing(source, topo, host);
    add_nvml(source, topo, host);
    ri_kfd_add(source, topo, host);
    for (int32_t i = host + 1; i < end_of_host(topo, host); i++)
        if (topo->objects[i].kind == RI_TOPO_GPU && topo->objects[i].pci[0])
            describe(source, &topo->objects[i]);
    number_gpus(topo, host);
}
