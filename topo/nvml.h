/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_NVML_H
#define RI_NVML_H

#include "topo/source.h"
#include "topo/topo.h"

/* What NVIDIA's management library tells of GPUs and their links.  It is opened at run time; its few types that
 * are needed are declared here. */

struct ri_nvml_pci {
    char legacy_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char id[32];
};

struct ri_nvml_memory {
    unsigned long long total, free, used;
};

/* One of the many values that it has by number. */
struct ri_nvml_field {
    unsigned field, scope;
    long long timestamp, latency;
    unsigned type;
    int status;
    union {
        double real;
        unsigned number;
        unsigned long long wide;
    } value;
};

/* Each returns 0 where it went well.  Those from `memory` on may be NULL: the library is too old. */
struct ri_nvml_calls {
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *count);
    int (*handle)(unsigned index, void **gpu);
    int (*pci)(void *gpu, struct ri_nvml_pci *pci);
    int (*name)(void *gpu, char *text, unsigned bytes);
    int (*uuid)(void *gpu, char *text, unsigned bytes);
    int (*memory)(void *gpu, struct ri_nvml_memory *memory);
    int (*link_state)(void *gpu, unsigned link, int *is_active);
    int (*link_version)(void *gpu, unsigned link, unsigned *version);
    int (*link_pci)(void *gpu, unsigned link, struct ri_nvml_pci *pci);
    int (*link_type)(void *gpu, unsigned link, int *type);
    int (*fields)(void *gpu, int count, struct ri_nvml_field *fields);
    int (*c2c)(void *gpu, unsigned *is_enabled);
};

/* All that the calls tell, as lines; malloc'd, NULL: no memory.
 *     nvml 8
 *     gpu 0 0000:07:00.0 85899345920 GPU-4cf8... NVIDIA A100-SXM4-80GB
 *     link 0 2 0000:c4:00.0 25       GPU 0 has a link of 25 GB/s to a switch (0: a GPU, 1: a processor)
 *     c2c 0                          GPU 0 has a coherent link to its processor
 * Where they fail: "failed 9". */
char *ri_nvml_text(const struct ri_nvml_calls *calls);

/* The same of the library of this machine; "missing" where it cannot be opened. */
char *ri_nvml_library_text(void);

/* Fills in GPUs and links.  Those of NVIDIA that the library does not list are not ours to use, and are taken
 * out.  Returns whether the text was from a library that works. */
int ri_nvml_apply(const char *text, struct ri_topo *topo, int32_t host, struct ri_source *source);

#endif
