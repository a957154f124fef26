/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/nvml.h"

enum { MAX_GPUS = 64, MAX_LINKS = 36 };
enum { SPEED_OF_LINKS = 90 }; /* the field with the MB/s of a link */

/* ---- the library ---- */

static const struct {
    const char *name;
    size_t offset;
    int is_needed;
} symbols[] = {
    { "nvmlInit_v2", offsetof(struct ri_nvml_calls, init), 1 },
    { "nvmlShutdown", offsetof(struct ri_nvml_calls, shutdown), 1 },
    { "nvmlDeviceGetCount_v2", offsetof(struct ri_nvml_calls, count), 1 },
    { "nvmlDeviceGetHandleByIndex_v2", offsetof(struct ri_nvml_calls, handle), 1 },
    { "nvmlDeviceGetPciInfo_v3", offsetof(struct ri_nvml_calls, pci), 1 },
    { "nvmlDeviceGetName", offsetof(struct ri_nvml_calls, name), 1 },
    { "nvmlDeviceGetUUID", offsetof(struct ri_nvml_calls, uuid), 1 },
    { "nvmlDeviceGetMemoryInfo", offsetof(struct ri_nvml_calls, memory), 0 },
    { "nvmlDeviceGetNvLinkState", offsetof(struct ri_nvml_calls, link_state), 0 },
    { "nvmlDeviceGetNvLinkVersion", offsetof(struct ri_nvml_calls, link_version), 0 },
    { "nvmlDeviceGetNvLinkRemotePciInfo_v2", offsetof(struct ri_nvml_calls, link_pci), 0 },
    { "nvmlDeviceGetNvLinkRemoteDeviceType", offsetof(struct ri_nvml_calls, link_type), 0 },
    { "nvmlDeviceGetFieldValues", offsetof(struct ri_nvml_calls, fields), 0 },
    { "nvmlDeviceGetC2cModeInfoV", offsetof(struct ri_nvml_calls, c2c), 0 },
};

/* Whether the library has all that is needed. */
static int load(void *library, struct ri_nvml_calls *calls)
{
    memset(calls, 0, sizeof(*calls));
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *symbol = dlsym(library, symbols[i].name);

        if (!symbol && symbols[i].is_needed)
            return 0;
        memcpy((char *)calls + symbols[i].offset, &symbol, sizeof(symbol));
    }
    return 1;
}

char *ri_nvml_library_text(void)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    struct ri_nvml_calls calls;
    char *text;

    if (!library)
        return strdup("missing\n");
    text = load(library, &calls) ? ri_nvml_text(&calls) : strdup("missing\n");
    dlclose(library);
    return text;
}

/* ---- asking it ---- */

static void id_of(const struct ri_nvml_pci *pci, char id[24])
{
    snprintf(id, 24, "%04x:%02x:%02x.0", pci->domain, pci->bus & 0xff, pci->device & 0xff);
}

/* GB/s of a link one way that are data, by the version as NVML counts it: 1.0 has 20, 2.0 to 4.0 have 25, 5.0
 * has 50.  The speed that NVML reports counts what corrects errors, too, but is less than that on smaller
 * cards. */
static double rate_of(const struct ri_nvml_calls *calls, void *gpu, unsigned link)
{
    static const double rates[] = { 0, 20, 25, 25, 25, 25, 25, 50 };
    struct ri_nvml_field speed = { .field = SPEED_OF_LINKS, .status = -1 };
    unsigned version = 0;
    double rate = 0, reported = 0;

    if (calls->link_version && calls->link_version(gpu, link, &version) == 0 &&
        version < sizeof(rates) / sizeof(rates[0]))
        rate = rates[version];
    if (calls->fields && calls->fields(gpu, 1, &speed) == 0 && speed.status == 0)
        reported = speed.value.number / 1000.0;
    if (reported > 0 && reported < 1000 && (rate == 0 || reported < rate))
        rate = reported;
    return rate > 0 ? rate : 25;
}

static void write_links(const struct ri_nvml_calls *calls, void *gpu, unsigned index, FILE *out)
{
    for (unsigned link = 0; link < MAX_LINKS && calls->link_state && calls->link_pci; link++) {
        struct ri_nvml_pci pci = { .id = "" };
        int is_active = 0, type = 255;
        char id[24];

        if (calls->link_state(gpu, link, &is_active) || !is_active || calls->link_pci(gpu, link, &pci))
            continue;
        if (!calls->link_type || calls->link_type(gpu, link, &type))
            type = 255;
        /* Virtual machines do not see the switches, whose place is all ones then. */
        if (type == 255 && pci.domain >= 0xfffffff)
            type = 2;
        id_of(&pci, id);
        fprintf(out, "link %u %d %s %.6g\n", index, type, id, rate_of(calls, gpu, link));
    }
}

static void write_gpu(const struct ri_nvml_calls *calls, unsigned index, FILE *out)
{
    struct ri_nvml_memory memory = { 0, 0, 0 };
    struct ri_nvml_pci pci = { .id = "" };
    char id[24], name[96] = "", uuid[96] = "-";
    unsigned is_coherent = 0;
    void *gpu;

    if (calls->handle(index, &gpu) || calls->pci(gpu, &pci))
        return;
    if (calls->name(gpu, name, sizeof(name)))
        name[0] = 0;
    if (calls->uuid(gpu, uuid, sizeof(uuid)) || !uuid[0])
        snprintf(uuid, sizeof(uuid), "-");
    if (calls->memory && calls->memory(gpu, &memory))
        memory.total = 0;
    id_of(&pci, id);
    fprintf(out, "gpu %u %s %llu %s %s\n", index, id, memory.total, uuid, name);
    write_links(calls, gpu, index, out);
    if (calls->c2c && calls->c2c(gpu, &is_coherent) == 0 && is_coherent)
        fprintf(out, "c2c %u\n", index);
}

char *ri_nvml_text(const struct ri_nvml_calls *calls)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    unsigned count = 0;
    int err;

    if (!out)
        return NULL;
    err = calls->init();
    if (!err) {
        err = calls->count(&count);
        if (!err)
            fprintf(out, "nvml %u\n", count);
        for (unsigned i = 0; !err && i < count && i < MAX_GPUS; i++)
            write_gpu(calls, i, out);
        calls->shutdown();
    }
    if (err)
        fprintf(out, "failed %d\n", err);
    if (fclose(out)) {
        free(text);
        return NULL;
    }
    return text;
}
