/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "topo/hwloc_build.h"

int32_t ri_hwloc_index(hwloc_obj_t object)
{
    return object ? (int32_t)(intptr_t)object->userdata - 1 : -1;
}

void ri_hwloc_set_index(hwloc_obj_t object, int32_t index)
{
    object->userdata = (void *)(intptr_t)(index + 1);
}

const char *ri_hwloc_info(hwloc_obj_t object, const char *name)
{
    const char *text = object ? hwloc_obj_get_info_by_name(object, name) : NULL;

    return text ? text : "";
}

static hwloc_obj_t next_of(struct ri_hwloc_build *build, hwloc_obj_type_t type, hwloc_obj_t previous)
{
    return hwloc_get_next_obj_by_type(build->hwloc, type, previous);
}

static hwloc_obj_t package_of(hwloc_obj_t object)
{
    while (object && object->type != HWLOC_OBJ_PACKAGE)
        object = object->parent;
    return object;
}

/* ---- packages and NUMA nodes ---- */

static void set_cpus(struct ri_topo_object *object, hwloc_const_bitmap_t cpus)
{
    int count = hwloc_bitmap_weight(cpus);

    if (count <= 0)
        return;
    object->cpu_count = count;
    if (hwloc_bitmap_list_snprintf(object->cpus, sizeof(object->cpus), cpus) >= (int)sizeof(object->cpus))
        object->cpus[0] = 0; /* half a list would be a wrong one */
}

static void add_host(struct ri_hwloc_build *build)
{
    hwloc_obj_t machine = hwloc_get_root_obj(build->hwloc);
    struct ri_topo_object *host;

    build->host = ri_topo_add(build->topo, RI_TOPO_HOST, -1, 0);
    if (build->host < 0)
        return;
    host = &build->topo->objects[build->host];
    if (*ri_hwloc_info(machine, "HostName"))
        snprintf(host->name, sizeof(host->name), "%s", ri_hwloc_info(machine, "HostName"));
    snprintf(host->model, sizeof(host->model), "%s", ri_hwloc_info(machine, "DMIProductName"));
    set_cpus(host, hwloc_topology_get_allowed_cpuset(build->hwloc));
}

/* Memory without processors of its own: a node has none, or only those of a node before it (HBM beside DDR). */
static int is_memory_only(struct ri_hwloc_build *build, hwloc_obj_t node)
{
    if (hwloc_bitmap_iszero(node->cpuset))
        return 1;
    for (hwloc_obj_t other = next_of(build, HWLOC_OBJ_NUMANODE, NULL); other != node;
         other = next_of(build, HWLOC_OBJ_NUMANODE, other))
        if (hwloc_bitmap_isequal(other->cpuset, node->cpuset))
            return 1;
    return 0;
}

static int overlaps_another(struct ri_hwloc_build *build, hwloc_obj_type_t type, hwloc_obj_t object)
{
    for (hwloc_obj_t other = next_of(build, type, object); other; other = next_of(build, type, other))
        if (hwloc_bitmap_intersects(object->cpuset, other->cpuset) &&
            !(type == HWLOC_OBJ_NUMANODE && is_memory_only(build, other)))
            return 1;
    return 0;
}

/* Do the objects of a type, if there are any, hold all processors between them? */
static int leaves_out(struct ri_hwloc_build *build, hwloc_obj_type_t type)
{
    hwloc_bitmap_t all = hwloc_bitmap_alloc();
    int is_bad = !all, count = 0;

    for (hwloc_obj_t at = next_of(build, type, NULL); at && !is_bad; at = next_of(build, type, at)) {
        is_bad = hwloc_bitmap_or(all, all, at->cpuset) != 0;
        count++;
    }
    if (!is_bad && count > 0)
        is_bad = !hwloc_bitmap_isincluded(hwloc_topology_get_topology_cpuset(build->hwloc), all);
    hwloc_bitmap_free(all);
    return is_bad;
}

/* Do packages and NUMA nodes divide the processors, each in a way that one can believe? */
static int is_contradictory(struct ri_hwloc_build *build)
{
    for (hwloc_obj_t at = next_of(build, HWLOC_OBJ_PACKAGE, NULL); at; at = next_of(build, HWLOC_OBJ_PACKAGE, at))
        if (overlaps_another(build, HWLOC_OBJ_PACKAGE, at))
            return 1;
    for (hwloc_obj_t at = next_of(build, HWLOC_OBJ_NUMANODE, NULL); at; at = next_of(build, HWLOC_OBJ_NUMANODE, at)) {
        hwloc_obj_t package = package_of(at);

        if (is_memory_only(build, at))
            continue;
        if (overlaps_another(build, HWLOC_OBJ_NUMANODE, at) ||
            (package && !hwloc_bitmap_isincluded(at->cpuset, package->cpuset)))
            return 1;
    }
    return leaves_out(build, HWLOC_OBJ_NUMANODE);
}

static void add_packages(struct ri_hwloc_build *build)
{
    for (hwloc_obj_t at = next_of(build, HWLOC_OBJ_PACKAGE, NULL); at; at = next_of(build, HWLOC_OBJ_PACKAGE, at)) {
        int32_t package = ri_topo_add(build->topo, RI_TOPO_PACKAGE, build->host, (int32_t)at->os_index);

        if (package < 0)
            return;
        set_cpus(&build->topo->objects[package], at->cpuset);
        snprintf(build->topo->objects[package].model, sizeof(build->topo->objects[package].model), "%s",
                 ri_hwloc_info(at, "CPUModel"));
        ri_hwloc_set_index(at, package);
    }
}

static void add_nodes(struct ri_hwloc_build *build)
{
    int left_out = 0;

    for (hwloc_obj_t at = next_of(build, HWLOC_OBJ_NUMANODE, NULL); at; at = next_of(build, HWLOC_OBJ_NUMANODE, at)) {
        hwloc_obj_t package = package_of(at);
        int32_t node;

        if (is_memory_only(build, at)) {
            left_out++;
            continue;
        }
        node = ri_topo_add(build->topo, RI_TOPO_NUMA, package ? ri_hwloc_index(package) : build->host,
                           (int32_t)at->os_index);
        if (node < 0)
            return;
        set_cpus(&build->topo->objects[node], at->cpuset);
        build->topo->objects[node].memory_bytes = (int64_t)at->attr->numanode.local_memory;
        ri_hwloc_set_index(at, node);
    }
    if (left_out)
        ri_topo_notice(build->topo, "NUMA nodes that are memory without processors of their own are left out: %d",
                       left_out);
}

void ri_hwloc_places(struct ri_hwloc_build *build)
{
    add_host(build);
    build->is_flat = is_contradictory(build);
    if (build->is_flat) {
        ri_topo_notice(build->topo, "packages and NUMA nodes contradict each other or leave processors out; the host "
                       "is treated as one node");
        return;
    }
    if (leaves_out(build, HWLOC_OBJ_PACKAGE)) /* hwloc drops a package that crosses another */
        ri_topo_notice(build->topo, "some processors are in no package; their NUMA nodes stand at the host");
    add_packages(build);
    add_nodes(build);
}

/* ---- PCI ---- */

static const struct hwloc_pcidev_attr_s *pci_of(hwloc_obj_t object)
{
    if (object->type == HWLOC_OBJ_PCI_DEVICE)
        return &object->attr->pcidev;
    if (object->type == HWLOC_OBJ_BRIDGE && object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI)
        return &object->attr->bridge.upstream.pci;
    return NULL;
}

void ri_hwloc_pci_id(hwloc_obj_t device, char id[24])
{
    const struct hwloc_pcidev_attr_s *pci = pci_of(device);

    if (pci)
        snprintf(id, 24, "%04x:%02x:%02x.%01x", (unsigned)pci->domain, pci->bus, pci->dev, pci->func);
    else if (device->type == HWLOC_OBJ_BRIDGE)
        snprintf(id, 24, "%04x:%02x", (unsigned)device->attr->bridge.downstream.pci.domain,
                 device->attr->bridge.downstream.pci.secondary_bus);
    else
        id[0] = 0;
}

static int is_io(hwloc_obj_t object)
{
    return object->type == HWLOC_OBJ_BRIDGE || object->type == HWLOC_OBJ_PCI_DEVICE ||
           object->type == HWLOC_OBJ_OS_DEVICE;
}

hwloc_obj_t ri_hwloc_part(hwloc_obj_t device, int k)
{
    enum { MOST_PARTS = 256 }; /* those behind are left out: each is looked for from the first one on */

    if (device->type == HWLOC_OBJ_OS_DEVICE)
        return k == 0 ? device : NULL;
    if (k >= MOST_PARTS)
        return NULL;
    for (hwloc_obj_t at = device->io_first_child; at; at = at->next_sibling)
        if (at->type == HWLOC_OBJ_OS_DEVICE && k-- == 0)
            return at;
    return NULL;
}

/* Where devices of a place hang: its NUMA node, where it is of one; else the package that it is in; what hwloc
 * knows no place of stands at the whole machine, and here at the host. */
static int32_t place_of(struct ri_hwloc_build *build, hwloc_obj_t place)
{
    hwloc_obj_t node = NULL;
    int nodes = 0;

    if (build->is_flat)
        return build->host;
    for (hwloc_obj_t at = next_of(build, HWLOC_OBJ_NUMANODE, NULL); at; at = next_of(build, HWLOC_OBJ_NUMANODE, at))
        if (ri_hwloc_index(at) >= 0 && place->nodeset && hwloc_bitmap_isset(place->nodeset, at->os_index)) {
            node = at;
            nodes++;
        }
    if (nodes == 1)
        return ri_hwloc_index(node);
    return package_of(place) ? ri_hwloc_index(package_of(place)) : build->host;
}

static int leads_to_devices(hwloc_obj_t object)
{
    if (object->type != HWLOC_OBJ_BRIDGE)
        return ri_hwloc_is_gpu(object) || ri_hwloc_is_nic(object);
    for (hwloc_obj_t at = object->io_first_child; at; at = at->next_sibling)
        if (leads_to_devices(at))
            return 1;
    return 0;
}

static void collect(struct ri_hwloc_build *build, hwloc_obj_t object, int32_t parent)
{
    struct ri_hwloc_device *devices = realloc(build->devices, (size_t)(build->device_count + 1) * sizeof(*devices));

    if (!devices) {
        if (!build->topo->error)
            build->topo->error = ri_error(RONDO_ERR_MEMORY, "no memory for %d devices", build->device_count + 1);
        return;
    }
    build->devices = devices;
    devices[build->device_count++] = (struct ri_hwloc_device){ object, parent };
}

static void add_bridge(struct ri_hwloc_build *build, hwloc_obj_t object, int32_t parent);

static void descend(struct ri_hwloc_build *build, hwloc_obj_t object, int32_t parent)
{
    if (!leads_to_devices(object))
        return;
    if (object->type == HWLOC_OBJ_BRIDGE)
        add_bridge(build, object, parent);
    else
        collect(build, object, parent);
}

static void add_bridge(struct ri_hwloc_build *build, hwloc_obj_t object, int32_t parent)
{
    int is_root = object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST;
    int32_t bridge = ri_topo_add(build->topo, is_root ? RI_TOPO_ROOT : RI_TOPO_BRIDGE, parent, -1);
    struct ri_topo_object *at;

    if (bridge < 0)
        return;
    at = &build->topo->objects[bridge];
    ri_hwloc_pci_id(object, at->pci);
    snprintf(at->name, sizeof(at->name), "%s %s", ri_topo_kind_names[at->kind], at->pci);
    if (!is_root)
        at->link_gbps = object->attr->bridge.upstream.pci.linkspeed;
    ri_hwloc_set_index(object, bridge);
    for (hwloc_obj_t child = object->io_first_child; child; child = child->next_sibling)
        descend(build, child, bridge);
}

void ri_hwloc_bridges(struct ri_hwloc_build *build)
{
    static const int depths[] = { HWLOC_TYPE_DEPTH_BRIDGE, HWLOC_TYPE_DEPTH_PCI_DEVICE, HWLOC_TYPE_DEPTH_OS_DEVICE };

    for (int d = 0; d < 3; d++)
        for (hwloc_obj_t at = hwloc_get_next_obj_by_depth(build->hwloc, depths[d], NULL); at;
             at = hwloc_get_next_obj_by_depth(build->hwloc, depths[d], at))
            if (at->parent && !is_io(at->parent))
                descend(build, at, place_of(build, at->parent));
}
