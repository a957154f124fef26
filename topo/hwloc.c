/* SPDX-License-Identifier: Apache-2.0 */
/* What hwloc knows of a host: of this one, of a folder that stands for its root, or of XML that it has written.
 *
 * hwloc finds such a folder by the variable HWLOC_FSROOT alone, which is of the whole process: it is set while
 * one is loaded, by the thread that does, and then put back, so nobody should do that beside others that read the
 * environment.  As such folders are often odd, hwloc is then told to be silent, too (HWLOC_HIDE_ERRORS, unless it
 * is set; for so long, too).  Discovery of this machine sets nothing. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "build-config.h"
#include "topo/find.h"
#include "topo/source.h"
#include "topo/topo.h"

#ifdef HAVE_HWLOC

#include "topo/hwloc_build.h"
#include "topo/hwloc_xml.h"

enum { MOST_XML_BYTES = 64 << 20 };

/* hwloc leaves out devices unless told otherwise.  Caches stay though the tree has none, since in XML a NUMA node
 * may hang at one, and would be taken for the node of all that is above it.  What it would learn by starting a
 * GPU's runtime is not worth that: a process may fork later, and a runtime takes memory.  Its pci component adds
 * only names to what /sys says, and leaks.  Its x86 component asks each processor that it finds, ours even for another
 * machine, and moves the thread there for that, be it busy or not. */
static hwloc_topology_t make(int is_xml)
{
    static const char *const unwanted[] = { "cuda", "opencl", "levelzero", "gl", "pci", "x86" };
    hwloc_topology_t hwloc;

    if (hwloc_topology_init(&hwloc))
        return NULL;
    for (size_t i = 0; i < sizeof(unwanted) / sizeof(*unwanted); i++)
        hwloc_topology_set_components(hwloc, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, unwanted[i]);
    hwloc_topology_set_flags(hwloc, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    hwloc_topology_set_type_filter(hwloc, HWLOC_OBJ_BRIDGE, HWLOC_TYPE_FILTER_KEEP_ALL);
    hwloc_topology_set_type_filter(hwloc, HWLOC_OBJ_OS_DEVICE, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    hwloc_topology_set_type_filter(hwloc, HWLOC_OBJ_PCI_DEVICE,
                                   is_xml ? HWLOC_TYPE_FILTER_KEEP_ALL : HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    return hwloc;
}

static int build_host(hwloc_topology_t hwloc, struct ri_topo **topo)
{
    struct ri_hwloc_build build = { .hwloc = hwloc, .topo = ri_topo_create() };
    int err;

    if (!build.topo)
        return ri_error(RONDO_ERR_MEMORY, "no memory for a topology");
    ri_hwloc_places(&build);
    ri_hwloc_bridges(&build);
    ri_hwloc_gpus(&build);
    ri_hwloc_nics(&build);
    free(build.devices);
    err = build.topo->error;
    if (err) {
        ri_topo_destroy(build.topo);
        return err;
    }
    *topo = build.topo;
    return 0;
}

static int load_xml(const char *xml, size_t bytes, hwloc_topology_t hwloc)
{
    char *text = malloc(bytes + 1);
    int err;

    if (!text)
        return ri_error(RONDO_ERR_MEMORY, "no memory to read hwloc XML of %zu bytes", bytes);
    memcpy(text, xml, bytes);
    text[bytes] = 0;
    err = ri_hwloc_xml_check(text);
    if (!err && (hwloc_topology_set_xmlbuffer(hwloc, text, (int)bytes + 1) || hwloc_topology_load(hwloc)))
        err = ri_error(RONDO_ERR_ARGUMENT, "hwloc (interface %x.%x) cannot read this XML; it should be what lstopo "
                       "of that or an older version has written", hwloc_get_api_version() >> 16,
                       hwloc_get_api_version() >> 8 & 0xff);
    free(text);
    return err;
}

static int from_xml(const char *xml, size_t bytes, struct ri_topo **topo)
{
    hwloc_topology_t hwloc;
    int err;

    if (bytes > MOST_XML_BYTES)
        return ri_error(RONDO_ERR_ARGUMENT, "hwloc XML of %zu bytes; at most %d are read", bytes, MOST_XML_BYTES);
    hwloc = make(1);
    if (!hwloc)
        return ri_error(RONDO_ERR_SYSTEM, "hwloc does not start");
    err = load_xml(xml, bytes, hwloc);
    if (!err)
        err = build_host(hwloc, topo);
    hwloc_topology_destroy(hwloc);
    return err;
}

int ri_topo_from_hwloc_xml(const char *xml, size_t bytes, struct ri_topo **topo)
{
    struct ri_topo *made;
    int err = from_xml(xml, bytes, &made);

    if (err)
        return err;
    err = ri_topo_fold_bridges(made);
    if (err) {
        ri_topo_destroy(made);
        return err;
    }
    *topo = made;
    return 0;
}

static int load_with_root(hwloc_topology_t hwloc, const char *root)
{
    const char *had = getenv("HWLOC_FSROOT");
    char *kept = had ? strdup(had) : NULL;
    int is_silent = getenv("HWLOC_HIDE_ERRORS") != NULL, err = -1;

    if (had && !kept)
        return -1;
    if (!setenv("HWLOC_FSROOT", root, 1) && !setenv("HWLOC_HIDE_ERRORS", "2", 0))
        err = hwloc_topology_load(hwloc);
    if (kept)
        setenv("HWLOC_FSROOT", kept, 1);
    else
        unsetenv("HWLOC_FSROOT");
    if (!is_silent)
        unsetenv("HWLOC_HIDE_ERRORS");
    free(kept);
    return err;
}

/* Libraries would tell of GPUs that are here. */
static int load_below(hwloc_topology_t hwloc, const char *root)
{
    static const char *const unwanted[] = { "nvml", "rsmi" };

    for (size_t i = 0; i < sizeof(unwanted) / sizeof(*unwanted); i++)
        hwloc_topology_set_components(hwloc, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, unwanted[i]);
    return load_with_root(hwloc, root);
}

static void keep_xml(struct ri_source *source, hwloc_topology_t hwloc)
{
    char *xml;
    int bytes;

    if (!ri_source_is_kept(source) || hwloc_topology_export_xmlbuffer(hwloc, &xml, &bytes, 0))
        return;
    ri_source_note(source, "hwloc.xml", xml);
    hwloc_free_xmlbuffer(hwloc, xml);
}

static int from_files(struct ri_source *source, struct ri_topo **topo)
{
    hwloc_topology_t hwloc = make(0);
    int err;

    if (!hwloc)
        return ri_error(RONDO_ERR_SYSTEM, "hwloc does not start");
    err = ri_source_is_live(source) ? hwloc_topology_load(hwloc) : load_below(hwloc, ri_source_root(source));
    if (err) {
        err = ri_error(RONDO_ERR_SYSTEM, "hwloc finds nothing that it can use below '%s/sys'",
                       ri_source_root(source));
    } else {
        keep_xml(source, hwloc);
        err = build_host(hwloc, topo);
    }
    hwloc_topology_destroy(hwloc);
    return err;
}

int ri_topo_from_hwloc(struct ri_source *source, struct ri_topo **topo)
{
    char *xml = ri_source_ask(source, "hwloc.xml");
    int err;

    if (xml) {
        err = from_xml(xml, strlen(xml), topo);
        free(xml);
        return err;
    }
    if (!ri_source_root(source))
        return ri_error(RONDO_ERR_UNSUPPORTED, "the recording was made without hwloc");
    return from_files(source, topo);
}

#else

int ri_topo_from_hwloc_xml(const char *xml, size_t bytes, struct ri_topo **topo)
{
    (void)xml;
    (void)bytes;
    (void)topo;
    return ri_error(RONDO_ERR_UNSUPPORTED, "this Rondo was built without hwloc, which reads its own XML");
}

int ri_topo_from_hwloc(struct ri_source *source, struct ri_topo **topo)
{
    (void)source;
    (void)topo;
    return ri_error(RONDO_ERR_UNSUPPORTED, "this Rondo was built without hwloc");
}

#endif
