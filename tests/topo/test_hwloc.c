/* SPDX-License-Identifier: Apache-2.0 */
/* Trees of what hwloc has written. */
#include "tests/helper.h"

#include <string.h>

#include "base/status.h"
#include "build-config.h"
#include "topo/find.h"
#include "topo/topo.h"

#define SETS(cpus, nodes)                                                                                  \
    " cpuset=\"" cpus "\" complete_cpuset=\"" cpus "\" nodeset=\"" nodes "\" complete_nodeset=\"" nodes "\""
#define PU(n, cpus, nodes) "<object type=\"PU\" os_index=\"" n "\" gp_index=\"1" n "\"" SETS(cpus, nodes) "/>"
#define MACHINE(cpus, nodes)                                                                               \
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"               \
    "<topology version=\"2.0\"><object type=\"Machine\" os_index=\"0\" gp_index=\"1\"" SETS(cpus, nodes)     \
    " allowed_cpuset=\"" cpus "\" allowed_nodeset=\"" nodes "\"><info name=\"HostName\" value=\"deep\"/>"
#define NODE(n, cpus, nodes)                                                                               \
    "<object type=\"NUMANode\" os_index=\"" n "\" gp_index=\"2" n "\"" SETS(cpus, nodes)                     \
    " local_memory=\"1073741824\"/>"
#define SOCKET(n, cpus, nodes)                                                                            \
    "<object type=\"Package\" os_index=\"" n "\" gp_index=\"3" n "\"" SETS(cpus, nodes) ">"
#define HOST_BRIDGE(gp, buses)                                                                             \
    "<object type=\"Bridge\" gp_index=\"" gp "\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"" buses "\">"
#define BRIDGE(gp, depth, id, buses, speed)                                                                \
    "<object type=\"Bridge\" gp_index=\"" gp "\" bridge_type=\"1-1\" depth=\"" depth "\" bridge_pci=\"" buses \
    "\" pci_busid=\"" id "\" pci_type=\"0604 [1000:c030] [1000:c030] b0\" pci_link_speed=\"" speed "\">"
#define PCI(gp, id, type, speed)                                                                           \
    "<object type=\"PCIDev\" gp_index=\"" gp "\" pci_busid=\"" id "\" pci_type=\"" type                      \
    " [0000:0000] a1\" pci_link_speed=\"" speed "\">"
#define OS(gp, type, name) "<object type=\"OSDev\" gp_index=\"" gp "\" name=\"" name "\" osdev_type=\"" type "\">"
#define INFO(name, value) "<info name=\"" name "\" value=\"" value "\"/>"
#define END "</object>"

/* Node 0: a switch with two GPUs and an adapter with one RDMA port and its network device, whose numbers run
 * against PCI; a console.  Node 1: a GPU that no library names, and an adapter of two ports.  Nowhere: an
 * Ethernet adapter. */
static const char machine[] = MACHINE("0x0000000f", "0x00000003")
    SOCKET("0", "0x00000003", "0x00000001") NODE("0", "0x00000003", "0x00000001")
    PU("0", "0x00000001", "0x00000001") PU("1", "0x00000002", "0x00000001")
    HOST_BRIDGE("100", "0000:[16-1f]")
    BRIDGE("101", "1", "0000:16:02.0", "0000:[17-1b]", "31.500000")
    BRIDGE("102", "2", "0000:17:00.0", "0000:[18-1b]", "15.750000")
    BRIDGE("103", "3", "0000:18:00.0", "0000:[19-19]", "31.500000")
    PCI("104", "0000:19:00.0", "0302 [10de:20b2]", "31.500000") OS("105", "1", "nvml1")
    INFO("GPUModel", "NVIDIA A100-SXM4-80GB") INFO("NVIDIAUUID", "GPU-b") END OS("106", "5", "cuda1")
    INFO("CUDAGlobalMemorySize", "83886080") END END END
    BRIDGE("107", "3", "0000:18:01.0", "0000:[1a-1a]", "31.500000")
    PCI("108", "0000:1a:00.0", "0302 [10de:20b2]", "31.500000") OS("109", "1", "nvml0")
    INFO("NVIDIAUUID", "GPU-a") END OS("110", "5", "cuda0") END END END
    BRIDGE("111", "3", "0000:18:02.0", "0000:[1b-1b]", "31.500000")
    PCI("112", "0000:1b:00.0", "0207 [15b3:101b]", "31.500000") OS("113", "2", "ib0")
    INFO("Address", "00:00:10:27:fe:80:00:00:00:00:00:00:0c:42:a1:03:00:11:22:33") END OS("114", "3", "mlx5_0")
    INFO("NodeGUID", "0c42:a103:0011:2233") INFO("SysImageGUID", "0c42:a103:0011:2230")
    INFO("Port1State", "4") INFO("Port1LID", "0x7") END END END
    END END
    BRIDGE("115", "1", "0000:16:03.0", "0000:[1c-1c]", "0.250000")
    PCI("116", "0000:1c:00.0", "0300 [1a03:2000]", "0.250000") OS("117", "1", "card0") END END END
    PCI("118", "0000:16:05.0", "0680 [10de:1af1]", "1.000000") END
    END END
    SOCKET("1", "0x0000000c", "0x00000002") NODE("1", "0x0000000c", "0x00000002")
    PU("2", "0x00000004", "0x00000002") PU("3", "0x00000008", "0x00000002")
    HOST_BRIDGE("200", "0000:[80-8f]")
    PCI("201", "0000:80:01.0", "0302 [10de:20b2]", "0.000000") INFO("PCIDevice", "GA100") END
    PCI("202", "0000:80:02.0", "0200 [15b3:1007]", "7.880000") OS("203", "2", "eth3") INFO("Port", "2")
    INFO("Address", "0c:42:a1:11:22:33") END OS("204", "3", "mlx4_0") INFO("NodeGUID", "e41d:2d03:0011:2233")
    INFO("Port1State", "1") INFO("Port2State", "4") INFO("Port2LID", "0x0") END END
    END END
    HOST_BRIDGE("300", "0001:[00-01]")
    PCI("301", "0001:00:01.0", "0200 [8086:1521]", "0.500000") INFO("PCIDevice", "I350 Virtual Function")
    OS("302", "2", "eth0") INFO("Address", "0c:42:a1:11:22:34") END END
    END END
    "<distances2hetero nbobjs=\"4\" kind=\"25\" name=\"NVLinkBandwidth\"><indexes length=\"42\">OSDev:105 OSDev:109 "
    "PCIDev:118 Package:30 </indexes><u64values length=\"84\">1000000 0 300000 50000 0 1000000 300000 0 "
    "300000 300000 1000000 0 50000 0 0 1000000 </u64values></distances2hetero></topology>\n";

static struct ri_topo *read_xml(const char *xml)
{
    struct ri_topo *topo = NULL;
    int err = ri_topo_from_hwloc_xml(xml, strlen(xml), &topo);

    if (err)
        fail_msg("%d: %s", err, rondo_last_error());
    return topo;
}

static const struct ri_topo_object *kth(const struct ri_topo *topo, enum ri_topo_kind kind, int k)
{
    int32_t at = ri_topo_find(topo, -1, kind, k);

    assert_in_range(at, 0, topo->object_count);
    return &topo->objects[at];
}

static void packages_and_nodes_are_found(void **state)
{
    struct ri_topo *topo = read_xml(machine);

    (void)state;
    assert_string_equal(kth(topo, RI_TOPO_HOST, 0)->name, "deep");
    assert_string_equal(kth(topo, RI_TOPO_HOST, 0)->cpus, "0-3");
    assert_int_equal(kth(topo, RI_TOPO_HOST, 0)->cpu_count, 4);
    assert_int_equal(ri_topo_count(topo, 0, RI_TOPO_PACKAGE), 2);
    assert_int_equal(ri_topo_count(topo, 0, RI_TOPO_NUMA), 2);
    assert_string_equal(kth(topo, RI_TOPO_NUMA, 1)->cpus, "2-3");
    assert_int_equal(kth(topo, RI_TOPO_NUMA, 1)->number, 1);
    assert_int_equal(kth(topo, RI_TOPO_NUMA, 1)->memory_bytes, 1073741824);
    assert_int_equal(kth(topo, RI_TOPO_NUMA, 1)->parent, ri_topo_find(topo, 0, RI_TOPO_PACKAGE, 1));
    assert_null(topo->notices);
    ri_topo_destroy(topo);
}

static void a_switch_is_one_bridge(void **state)
{
    struct ri_topo *topo = read_xml(machine);
    int32_t bridge = ri_topo_find(topo, 0, RI_TOPO_BRIDGE, 0);

    (void)state;
    assert_int_equal(ri_topo_count(topo, 0, RI_TOPO_BRIDGE), 1);
    assert_int_equal(ri_topo_count(topo, 0, RI_TOPO_ROOT), 3);
    assert_string_equal(topo->objects[bridge].pci, "0000:17:00.0");
    assert_true(topo->objects[bridge].link_gbps > 15.7 && topo->objects[bridge].link_gbps < 15.8);
    assert_true(topo->objects[bridge].full_gbps == 0);
    assert_int_equal(kth(topo, RI_TOPO_GPU, 0)->parent, bridge);
    assert_int_equal(kth(topo, RI_TOPO_GPU, 1)->parent, bridge);
    assert_int_equal(kth(topo, RI_TOPO_NIC, 0)->parent, bridge);
    assert_string_equal(topo->objects[topo->objects[bridge].parent].pci, "0000:16");
    ri_topo_destroy(topo);
}

static void a_card_is_one_gpu(void **state)
{
    struct ri_topo *topo = read_xml(machine);

    (void)state;
    assert_int_equal(ri_topo_count(topo, 0, RI_TOPO_GPU), 3);
    assert_string_equal(kth(topo, RI_TOPO_GPU, 0)->pci, "0000:1a:00.0"); /* cuda0 */
    assert_string_equal(kth(topo, RI_TOPO_GPU, 0)->id, "GPU-a");
    assert_string_equal(kth(topo, RI_TOPO_GPU, 1)->model, "NVIDIA A100-SXM4-80GB");
    assert_true(kth(topo, RI_TOPO_GPU, 1)->memory_bytes == INT64_C(83886080) * 1024);
    assert_string_equal(kth(topo, RI_TOPO_GPU, 2)->pci, "0000:80:01.0"); /* by class */
    assert_int_equal(kth(topo, RI_TOPO_GPU, 2)->number, 2);
    assert_string_equal(kth(topo, RI_TOPO_GPU, 2)->name, "gpu 2");
    assert_int_equal(ri_topo_above(topo, ri_topo_find(topo, 0, RI_TOPO_GPU, 2), RI_TOPO_NUMA),
                     ri_topo_find(topo, 0, RI_TOPO_NUMA, 1));
    ri_topo_destroy(topo);
}

static void gpus_are_linked_through_a_switch(void **state)
{
    static const char subtype[] = "<object type=\"PCIDev\" subtype=\"NVSwitch\"";
    char xml[sizeof(machine) + sizeof(subtype)];
    const char *at = strstr(machine, "<object type=\"PCIDev\" gp_index=\"118\"");
    size_t plain = strlen("<object type=\"PCIDev\"");
    const struct ri_topo_link *link;
    struct ri_topo *topo;

    (void)state;
    snprintf(xml, sizeof(xml), "%.*s%s%s", (int)(at - machine), machine, subtype, at + plain);
    topo = read_xml(xml);
    assert_int_equal(topo->link_count, 2);
    link = ri_topo_link_between(topo, ri_topo_find(topo, 0, RI_TOPO_GPU, 0), ri_topo_find(topo, 0, RI_TOPO_GPU, 1));
    assert_non_null(link);
    assert_int_equal(link->count, 12);
    assert_true(link->gbps == 300);
    link = ri_topo_link_between(topo, ri_topo_find(topo, 0, RI_TOPO_NUMA, 0), ri_topo_find(topo, 0, RI_TOPO_GPU, 1));
    assert_non_null(link);
    assert_int_equal(link->count, 2);
    ri_topo_destroy(topo);
}

static void each_port_is_one_nic(void **state)
{
    struct ri_topo *topo = read_xml(machine);
    const struct ri_topo_object *nic = kth(topo, RI_TOPO_NIC, 0);

    (void)state;
    assert_int_equal(ri_topo_count(topo, 0, RI_TOPO_NIC), 4);
    assert_string_equal(nic->name, "mlx5_0");
    assert_string_equal(nic->nic.device, "mlx5_0");
    assert_string_equal(nic->nic.netdev, "ib0");
    assert_string_equal(nic->nic.card, "0c42:a103:0011:2230");
    assert_int_equal(nic->nic.layer, RI_TOPO_INFINIBAND);
    assert_int_equal(nic->nic.state, RI_TOPO_ACTIVE);
    assert_int_equal(nic->nic.lid, 7);
    assert_string_equal(nic->nic.unusable, "");
    nic = kth(topo, RI_TOPO_NIC, 1);
    assert_string_equal(nic->name, "mlx4_0");
    assert_string_equal(nic->nic.netdev, "");
    assert_string_equal(nic->nic.unusable, "port is down");
    nic = kth(topo, RI_TOPO_NIC, 2);
    assert_string_equal(nic->name, "mlx4_0:2");
    assert_int_equal(nic->nic.port, 2);
    assert_string_equal(nic->nic.netdev, "eth3");
    assert_int_equal(nic->nic.layer, RI_TOPO_ETHERNET);
    assert_string_equal(nic->nic.card, "e41d:2d03:0011:2233");
    assert_int_equal(nic->nic.is_virtual, 0);
    nic = kth(topo, RI_TOPO_NIC, 3);
    assert_string_equal(nic->name, "eth0");
    assert_int_equal(nic->nic.is_virtual, 1);
    assert_string_equal(nic->nic.card, "0001:00:01");
    assert_int_equal(topo->objects[nic->parent].parent, 0); /* where it is, nobody knows: at the host */
    ri_topo_destroy(topo);
}

/* Virtual machines say such things; see CASES.md, B157. */
static void contradictions_make_one_node(void **state)
{
    static const char crossing[] = MACHINE("0x0000000f", "0x00000003")
        SOCKET("0", "0x00000007", "0x00000001") NODE("0", "0x00000007", "0x00000001")
        PU("0", "0x00000001", "0x00000001") PU("1", "0x00000002", "0x00000001") END
        SOCKET("1", "0x0000000c", "0x00000002") NODE("1", "0x0000000c", "0x00000002")
        PU("2", "0x00000004", "0x00000002") PU("3", "0x00000008", "0x00000002")
        HOST_BRIDGE("200", "0000:[80-8f]") PCI("201", "0000:80:01.0", "0302 [10de:20b2]", "0.000000") END END
        END END "</topology>\n";
    static const char outside[] = MACHINE("0x0000000f", "0x00000001")
        SOCKET("0", "0x00000003", "0x00000001") NODE("0", "0x00000003", "0x00000001")
        PU("0", "0x00000001", "0x00000001") PU("1", "0x00000002", "0x00000001") END
        SOCKET("1", "0x0000000c", "0x0")
        PU("2", "0x00000004", "0x0") PU("3", "0x00000008", "0x0") END END "</topology>\n";
    const char *const texts[] = { crossing, outside };

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct ri_topo *topo = read_xml(texts[i]);

        assert_int_equal(ri_topo_count(topo, 0, RI_TOPO_NUMA), 0);
        assert_int_equal(ri_topo_count(topo, 0, RI_TOPO_PACKAGE), 0);
        assert_int_equal(ri_topo_count(topo, 0, RI_TOPO_GPU), 1 - i);
        assert_int_equal(kth(topo, RI_TOPO_HOST, 0)->cpu_count, 4);
        assert_non_null(topo->notices);
        assert_non_null(strstr(topo->notices, "treated as one node"));
        assert_ptr_equal(strchr(topo->notices, '\n'), topo->notices + strlen(topo->notices) - 1);
        ri_topo_destroy(topo);
    }
}

/* hwloc has dropped the second package, which crossed the first. */
static void a_lost_package_costs_no_node(void **state)
{
    static const char text[] = MACHINE("0x0000000f", "0x00000003")
        SOCKET("0", "0x00000003", "0x00000001") NODE("0", "0x00000003", "0x00000001")
        PU("0", "0x00000001", "0x00000001") PU("1", "0x00000002", "0x00000001") END
        "<object type=\"Group\" gp_index=\"9\"" SETS("0x0000000c", "0x00000002") ">"
        NODE("1", "0x0000000c", "0x00000002") PU("2", "0x00000004", "0x00000002") PU("3", "0x00000008", "0x00000002")
        END END "</topology>\n";
    struct ri_topo *topo = read_xml(text);

    (void)state;
    assert_int_equal(ri_topo_count(topo, 0, RI_TOPO_PACKAGE), 1);
    assert_int_equal(ri_topo_count(topo, 0, RI_TOPO_NUMA), 2);
    assert_int_equal(kth(topo, RI_TOPO_NUMA, 1)->parent, 0);
    assert_non_null(strstr(topo->notices, "in no package"));
    ri_topo_destroy(topo);
}

static void memory_alone_is_no_node(void **state)
{
    static const char text[] = MACHINE("0x00000003", "0x00000007") NODE("0", "0x00000003", "0x00000001")
        NODE("1", "0x00000003", "0x00000002") NODE("2", "0x0", "0x00000004") PU("0", "0x00000001", "0x00000007")
        PU("1", "0x00000002", "0x00000007") END "</topology>\n";
    struct ri_topo *topo = read_xml(text);

    (void)state;
    assert_int_equal(ri_topo_count(topo, 0, RI_TOPO_NUMA), 1);
    assert_non_null(strstr(topo->notices, "memory without processors of their own are left out: 2"));
    ri_topo_destroy(topo);
}

static void other_texts_are_refused(void **state)
{
    static const char *const texts[] = { "", "<", "<topology", "<system version=\"1\"/>", "rondo-recording 1\n",
                                         "<topology version=\"9.0\"></topology>" };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        struct ri_topo *topo = NULL;

        assert_int_equal(ri_topo_from_hwloc_xml(texts[i], strlen(texts[i]), &topo), RONDO_ERR_ARGUMENT);
        assert_null(topo);
        assert_non_null(strstr(rondo_last_error(), "hwloc"));
    }
}

/* hwloc 2.9 would crash. */
static void objects_that_lack_sets_are_refused(void **state)
{
    static const char *const lacks[] = { " cpuset=", " complete_cpuset=", " nodeset=", " complete_nodeset=" };

    (void)state;
    for (int i = 0; i < 4; i++) {
        char xml[sizeof(machine)];
        struct ri_topo *topo = NULL;

        strcpy(xml, machine);
        *strstr(strstr(xml, "\"PU\""), lacks[i]) = '_';
        assert_int_equal(ri_topo_from_hwloc_xml(xml, strlen(xml), &topo), RONDO_ERR_ARGUMENT);
        assert_null(topo);
        assert_non_null(strstr(rondo_last_error(), "hwloc XML, line 3"));
    }
}

/* As quickly as others: no tag is looked through more than once. */
static void many_objects_are_refused(void **state)
{
    static const char *const tags[] = { "<object", "<object \"", "<object/>", "<object>", "<object></object>" };
    static const char *const why[] = { "does not end", "does not end", "too many", "too deep", "too many" };

    (void)state;
    for (int i = 0; i < 5; i++) {
        size_t count = 1000000, length = strlen(tags[i]), bytes = 0;
        char *xml = malloc(count * length + 32);
        struct ri_topo *topo = NULL;

        bytes = (size_t)sprintf(xml, "<topology version=\"2.0\">");
        for (size_t k = 0; k < count; k++, bytes += length)
            memcpy(xml + bytes, tags[i], length);
        assert_int_equal(ri_topo_from_hwloc_xml(xml, bytes, &topo), RONDO_ERR_ARGUMENT);
        assert_non_null(strstr(rondo_last_error(), why[i]));
        free(xml);
    }
}

/* Bridges of a made tree, so that also those are seen that hwloc would not give. */
static void folding_keeps_what_branches(void **state)
{
    struct ri_topo *topo = ri_topo_create();
    int32_t host = ri_topo_add(topo, RI_TOPO_HOST, -1, 0), bare = ri_topo_add(topo, RI_TOPO_ROOT, host, -1);
    int32_t root = ri_topo_add(topo, RI_TOPO_ROOT, host, -1), port = ri_topo_add(topo, RI_TOPO_BRIDGE, root, -1);
    int32_t up = ri_topo_add(topo, RI_TOPO_BRIDGE, port, -1), a, b;

    (void)state;
    ri_topo_add(topo, RI_TOPO_BRIDGE, bare, -1);
    topo->objects[port].link_gbps = 8;
    topo->objects[port].full_gbps = 16;
    topo->objects[up].link_gbps = 16;
    a = ri_topo_add(topo, RI_TOPO_GPU, ri_topo_add(topo, RI_TOPO_BRIDGE, up, -1), 0);
    b = ri_topo_add(topo, RI_TOPO_GPU, ri_topo_add(topo, RI_TOPO_BRIDGE, up, -1), 1);
    ri_topo_link(topo, a, b, RI_TOPO_NVLINK, 1, 25);
    assert_int_equal(topo->error, 0);
    assert_int_equal(ri_topo_fold_bridges(topo), 0);
    assert_int_equal(topo->object_count, 5); /* host, root, bridge, two GPUs */
    assert_int_equal(topo->objects[2].kind, RI_TOPO_BRIDGE);
    assert_int_equal(topo->objects[2].parent, 1);
    assert_true(topo->objects[2].link_gbps == 8);
    assert_true(topo->objects[2].full_gbps == 16);
    assert_int_equal(topo->objects[3].parent, 2);
    assert_int_equal(topo->objects[4].parent, 2);
    assert_true(topo->objects[4].link_gbps == 0);
    assert_int_equal(topo->links[0].a, 3);
    assert_int_equal(topo->links[0].b, 4);
    assert_int_equal(ri_topo_fold_bridges(topo), 0);
    assert_int_equal(topo->object_count, 5);
    ri_topo_destroy(topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packages_and_nodes_are_found),
        cmocka_unit_test(a_switch_is_one_bridge),
        cmocka_unit_test(a_card_is_one_gpu),
        cmocka_unit_test(gpus_are_linked_through_a_switch),
        cmocka_unit_test(each_port_is_one_nic),
        cmocka_unit_test(contradictions_make_one_node),
        cmocka_unit_test(a_lost_package_costs_no_node),
        cmocka_unit_test(memory_alone_is_no_node),
        cmocka_unit_test(other_texts_are_refused),
        cmocka_unit_test(objects_that_lack_sets_are_refused),
        cmocka_unit_test(many_objects_are_refused),
        cmocka_unit_test(folding_keeps_what_branches),
    };

#ifdef HAVE_HWLOC
    return cmocka_run_group_tests(tests, NULL, NULL);
#else
    (void)tests;
    return 77;
#endif
}
