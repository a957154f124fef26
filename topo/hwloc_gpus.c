/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "topo/hwloc_build.h"

/* Libraries that name GPUs, by whom we believe most about their order; each gives a card a name of its own. */
enum family { CUDA, NVML, RSMI, ZE, OPENCL, NOBODY };
static const char *const families[] = { "cuda", "nvml", "rsmi", "ze", "opencl" };

/* Who calls a device of the operating system a GPU.  NOBODY: it is none. */
static enum family family_of(hwloc_obj_t part, int *number)
{
    for (int f = 0; f < NOBODY && part->name; f++) {
        size_t length = strlen(families[f]);
        const char *digits = part->name + length;

        if (strncmp(part->name, families[f], length) != 0 || *digits < '0' || *digits > '9')
            continue;
        if (f == OPENCL && strcmp(ri_hwloc_info(part, "OpenCLDeviceType"), "CPU") == 0)
            continue;
        *number = atoi(digits);
        if (f == OPENCL && strchr(digits, 'd')) /* platform and device: "opencl0d1" */
            *number = *number * 1000 + atoi(strchr(digits, 'd') + 1);
        return f;
    }
    return NOBODY;
}

/* The most believed name of a card. */
static enum family name_of(hwloc_obj_t device, int *number, hwloc_obj_t *best)
{
    enum family found = NOBODY;
    hwloc_obj_t part;

    *best = NULL;
    *number = 0;
    for (int k = 0; (part = ri_hwloc_part(device, k)); k++) {
        int n = 0;
        enum family family = family_of(part, &n);

        if (family < found) {
            found = family;
            *number = n;
            *best = part;
        }
    }
    return found;
}

/* PCI functions that no library names: accelerators by their class.  A VGA of AMD is as likely the console of a
 * server, and those of ASPEED and Matrox always are. */
static int has_gpu_class(hwloc_obj_t device)
{
    const struct hwloc_pcidev_attr_s *pci;
    enum { NVIDIA = 0x10de, AMD = 0x1002 };

    if (device->type != HWLOC_OBJ_PCI_DEVICE)
        return 0;
    pci = &device->attr->pcidev;
    switch (pci->class_id) {
    case 0x0300: /* VGA */
        return pci->vendor_id == NVIDIA;
    case 0x0302: /* 3D controller */
        return pci->vendor_id == NVIDIA || pci->vendor_id == AMD;
    case 0x0380: /* other display: MI100, MI200 */
    case 0x1200: /* processing accelerator: MI300 */
        return pci->vendor_id == AMD;
    default:
        return 0;
    }
}

int ri_hwloc_is_gpu(hwloc_obj_t device)
{
    hwloc_obj_t best;
    int number;
    enum family family = name_of(device, &number, &best);

    /* Without a PCI function one card would show once for each library, so the first of them counts. */
    if (device->type == HWLOC_OBJ_OS_DEVICE)
        return family == CUDA;
    return family != NOBODY || has_gpu_class(device);
}

/* ---- order ---- */

struct gpu {
    const struct ri_hwloc_device *device;
    hwloc_obj_t best; /* NULL: known by its PCI class only */
    enum family family;
    int number;
    int place; /* in order of hwloc, which is that of PCI */
};

static int compare(const void *left, const void *right)
{
    const struct gpu *a = left, *b = right;

    if (a->family != b->family)
        return a->family < b->family ? -1 : 1;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return a->place < b->place ? -1 : 1;
}

/* The best name that all GPUs have, or else the best of each, or else their order on PCI. */
static struct gpu *sort_gpus(struct ri_hwloc_build *build, int *count)
{
    struct gpu *gpus = calloc((size_t)build->device_count + 1, sizeof(*gpus));

    *count = 0;
    if (!gpus)
        return NULL;
    for (int i = 0; i < build->device_count; i++) {
        struct gpu *gpu = &gpus[*count];

        if (!ri_hwloc_is_gpu(build->devices[i].object))
            continue;
        gpu->device = &build->devices[i];
        gpu->family = name_of(gpu->device->object, &gpu->number, &gpu->best);
        gpu->place = (*count)++;
    }
    qsort(gpus, (size_t)*count, sizeof(*gpus), compare);
    return gpus;
}

/* ---- what is known of one ---- */

/* The first of these that a device or any of its names tells. */
static const char *first_info(hwloc_obj_t device, const char *const *names)
{
    for (; *names; names++) {
        hwloc_obj_t part;

        for (int k = 0; (part = ri_hwloc_part(device, k)); k++)
            if (*ri_hwloc_info(part, *names))
                return ri_hwloc_info(part, *names);
        if (*ri_hwloc_info(device, *names))
            return ri_hwloc_info(device, *names);
    }
    return "";
}

static void describe(struct ri_topo_object *object, hwloc_obj_t device)
{
    static const char *const model[] = { "GPUModel", "PCIDevice", NULL };
    static const char *const id[] = { "NVIDIAUUID", "AMDUUID", "LevelZeroUUID", NULL };
    static const char *const kibibytes[] = { "CUDAGlobalMemorySize", "RSMIVRAMSize", "OpenCLGlobalMemorySize", NULL };
    long long memory = atoll(first_info(device, kibibytes));

    ri_hwloc_pci_id(device, object->pci);
    snprintf(object->model, sizeof(object->model), "%s", first_info(device, model));
    snprintf(object->id, sizeof(object->id), "%s", first_info(device, id));
    if (memory > 0 && memory < INT64_MAX / 1024)
        object->memory_bytes = memory * 1024;
    if (device->type == HWLOC_OBJ_PCI_DEVICE)
        object->link_gbps = device->attr->pcidev.linkspeed;
}

/* ---- links ---- */

/* The object of the tree that a row of a matrix is about; -1: none.  Links to a processor are links to its memory,
 * so to its NUMA node where it has one. */
static int32_t end_of(const struct ri_topo *topo, hwloc_obj_t object)
{
    int32_t end;

    if (object && object->type == HWLOC_OBJ_OS_DEVICE && ri_hwloc_index(object) < 0)
        object = object->parent;
    end = ri_hwloc_index(object);
    if (end >= 0 && topo->objects[end].kind == RI_TOPO_PACKAGE && ri_topo_count(topo, end, RI_TOPO_NUMA) == 1)
        return ri_topo_find(topo, end, RI_TOPO_NUMA, 0);
    return end;
}

static int is_switch(hwloc_obj_t object)
{
    return object && object->subtype && strcmp(object->subtype, "NVSwitch") == 0;
}

/* GB/s from row i into switches. */
static double into_switches(const struct hwloc_distances_s *matrix, unsigned i)
{
    double gbps = 0;

    for (unsigned j = 0; j < matrix->nbobjs; j++)
        if (j != i && is_switch(matrix->objs[j]))
            gbps += (double)matrix->values[(size_t)i * matrix->nbobjs + j] / 1000;
    return gbps;
}

/* How many links a bundle has.  NVLink: 25 GB/s each, the first generation 20, and from 18 of 25 on they are
 * those of 50.  XGMI: 50 where that comes out even. */
static int links_of(enum ri_topo_link_kind kind, double gbps)
{
    static const double nvlink[] = { 25, 20, 0 }, wide_nvlink[] = { 50, 0 }, xgmi[] = { 50, 0 };
    const double *each = kind == RI_TOPO_XGMI ? xgmi : gbps > 450 ? wide_nvlink : nvlink;

    for (; *each; each++) {
        int count = (int)(gbps / *each + 0.5);

        if (count > 0 && gbps - count * *each < 0.01 && count * *each - gbps < 0.01)
            return count;
    }
    return 1;
}

static void add_links(struct ri_hwloc_build *build, const struct hwloc_distances_s *matrix,
                      enum ri_topo_link_kind kind)
{
    for (unsigned i = 0; i < matrix->nbobjs; i++)
        for (unsigned j = i + 1; j < matrix->nbobjs; j++) {
            int32_t a = end_of(build->topo, matrix->objs[i]), b = end_of(build->topo, matrix->objs[j]);
            double gbps = (double)matrix->values[(size_t)i * matrix->nbobjs + j] / 1000;
            double here = into_switches(matrix, i), there = into_switches(matrix, j);

            if (a < 0 || b < 0 || a == b)
                continue;
            gbps += here < there ? here : there;
            if (gbps > 0)
                ri_topo_link(build->topo, a, b, kind, links_of(kind, gbps), gbps);
        }
}

static void add_matrix(struct ri_hwloc_build *build, const char *name, enum ri_topo_link_kind kind)
{
    struct hwloc_distances_s *matrix = NULL;
    unsigned count = 1;

    if (hwloc_distances_get_by_name(build->hwloc, name, &count, &matrix, 0) || count == 0 || !matrix)
        return;
    add_links(build, matrix, kind);
    hwloc_distances_release(build->hwloc, matrix);
}

void ri_hwloc_gpus(struct ri_hwloc_build *build)
{
    int count;
    struct gpu *gpus = sort_gpus(build, &count);

    if (!gpus && !build->topo->error)
        build->topo->error = ri_error(RONDO_ERR_MEMORY, "no memory for the GPUs of %d devices", build->device_count);
    for (int i = 0; i < count; i++) {
        hwloc_obj_t device = gpus[i].device->object, part;
        int32_t gpu = ri_topo_add(build->topo, RI_TOPO_GPU, gpus[i].device->parent, i);

        if (gpu < 0)
            break;
        describe(&build->topo->objects[gpu], device);
        ri_hwloc_set_index(device, gpu);
        for (int k = 0; (part = ri_hwloc_part(device, k)); k++)
            ri_hwloc_set_index(part, gpu);
    }
    free(gpus);
    add_matrix(build, "NVLinkBandwidth", RI_TOPO_NVLINK);
    add_matrix(build, "XGMIBandwidth", RI_TOPO_XGMI);
}
