/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's XML is read and written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "build-config.h"
#include "topo/cpumask.h"
#include "topo/topo.h"

#ifdef HAVE_EXPAT
static const int can_read = 1;
#else
static const int can_read = 0;
#endif

#define CPU "arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"85\">"

static struct ri_topo *read_xml(const char *xml)
{
    struct ri_topo *topo = NULL;

    if (ri_topo_from_nccl_xml(xml, strlen(xml), &topo))
        fail_msg("%s", rondo_last_error());
    assert_int_equal(topo->error, 0);
    return topo;
}

/* Two GPUs and a NIC of two ports below a switch, two more GPUs that are linked to it and to a processor. */
static const char small[] =
    "<?xml version=\"1.0\"?>\n<system version=\"1\">\n"
    "<cpu numaid=\"0\" affinity=\"0000000f,ffffffff\" " CPU
    "<pci busid=\"0000:10:00.0\" class=\"0x060400\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">"
    "<pci busid=\"0000:1A:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"8\">"
    "<gpu dev=\"0\" sm=\"80\" rank=\"0\" gdr=\"1\"><nvlink target=\"0000:1b:00.0\" count=\"4\" tclass=\"0x030200\"/>"
    "<nvlink target=\"0000:2c:00.0\" count=\"2\" tclass=\"0x030200\"/></gpu></pci>"
    "<pci busid=\"0000:1b:00.0\" class=\"0x030200\" link_speed=\"Unknown\" link_width=\"0\">"
    "<gpu dev=\"1\" sm=\"80\" rank=\"1\"><nvlink target=\"0000:1a:00.0\" count=\"4\" tclass=\"0x030200\"/>"
    "<nvlink target=\"0000:99:00.0\" count=\"4\" tclass=\"0x030200\"/></gpu></pci>"
    "<pci busid=\"0000:1d:00.0\" class=\"0x020700\" link_speed=\"5.0 GT/s PCIe\" link_width=\"16\"><nic>"
    "<net name=\"mlx5_0\" dev=\"0\" speed=\"200000\" port=\"1\" guid=\"0xabcd\" gdr=\"1\"/>"
    "<net name=\"mlx5_1\" dev=\"1\" speed=\"0\" port=\"2\" guid=\"0xabcd\" gdr=\"1\"/></nic></pci></pci>"
    "<nic><net name=\"eth0\" dev=\"2\" speed=\"10000\" port=\"0\" guid=\"0x0\"/></nic></cpu>\n"
    "<cpu numaid=\"1\" affinity=\"fffffff0,00000000\" " CPU "<new><thing/></new>"
    "<pci busid=\"0000:2c:00.0\" class=\"0x030200\" link_speed=\"32 GT/s\" link_width=\"16\">"
    "<gpu dev=\"2\" sm=\"90\"><c2c bw=\"44712\" count=\"10\"/></gpu></pci>"
    "<nic><net name=\"eth0\" dev=\"2\" speed=\"10000\" port=\"0\" guid=\"0x0\"/></nic></cpu></system>\n";

static void a_file_is_read(void **state)
{
    struct ri_topo *topo;
    const struct ri_topo_object *o;
    int32_t gpu[3], nic[3], numa1;

    if (!can_read)
        skip();
    topo = read_xml(small);
    o = topo->objects;
    for (int k = 0; k < 3; k++) {
        gpu[k] = ri_topo_find(topo, 0, RI_TOPO_GPU, k);
        nic[k] = ri_topo_find(topo, 0, RI_TOPO_NIC, k);
        assert_true(gpu[k] > 0 && nic[k] > 0);
    }
    numa1 = ri_topo_find(topo, 0, RI_TOPO_NUMA, 1);
    assert_int_equal(ri_topo_count(topo, -1, RI_TOPO_NIC), 3);
    assert_string_equal(o[1].cpus, "0-35");
    assert_int_equal(o[numa1].cpu_count, 28);
    assert_string_equal(o[gpu[0]].pci, "0000:1a:00.0");
    assert_int_equal(o[gpu[0]].parent, o[gpu[1]].parent);
    assert_int_equal(o[gpu[0]].parent, o[nic[0]].parent);
    assert_int_equal(o[gpu[2]].parent, numa1);
    assert_true(o[gpu[0]].link_gbps > 15.7 && o[gpu[0]].link_gbps < 15.8);
    assert_true(o[gpu[1]].link_gbps == 0);
    assert_true(o[nic[0]].link_gbps == 8 && o[nic[0]].nic.gbps == 25 && o[nic[1]].nic.gbps == 0);
    assert_string_equal(o[nic[0]].nic.card, o[nic[1]].nic.card);
    assert_string_equal(o[nic[2]].nic.netdev, "eth0");
    assert_int_equal(o[nic[2]].parent, 0); /* listed below both processors */
    assert_int_equal(topo->link_count, 3);
    assert_int_equal(ri_topo_link_between(topo, gpu[0], gpu[1])->count, 4);
    assert_true(ri_topo_link_between(topo, gpu[0], gpu[1])->gbps == 100);
    assert_int_equal(ri_topo_link_between(topo, gpu[0], gpu[2])->count, 2); /* one end tells of it */
    assert_true(ri_topo_link_between(topo, gpu[2], numa1)->gbps == 447.12);
    assert_non_null(strstr(topo->notices, "0000:99:00.0"));
    ri_topo_destroy(topo);
}

static void switches_join_all_gpus_of_a_host(void **state)
{
    static const char gpu[] = "<pci busid=\"000%d:1%d:00.0\" class=\"0x030200\"><gpu dev=\"%d\" sm=\"90\">"
                              "<nvlink target=\"0000:07:00.0\" count=\"5\" tclass=\"0x068000\"/>"
                              "<nvlink target=\"0000:08:00.0\" count=\"%d\" tclass=\"0x068000\"/></gpu></pci>";
    char xml[4096], *at = xml;
    struct ri_topo *topo;

    if (!can_read)
        skip();
    at += sprintf(at, "<system version=\"2\">");
    for (int h = 0; h < 2; h++) {
        at += sprintf(at, "<cpu host_hash=\"0x%d\" numaid=\"0\" affinity=\"\" " CPU, h + 7);
        for (int g = 0; g < 3; g++)
            at += sprintf(at, gpu, h, g, g, g == 2 ? 4 : 13);
        at += sprintf(at, "</cpu>");
    }
    sprintf(at, "</system>");
    topo = read_xml(xml);
    assert_int_equal(ri_topo_hosts(topo), 2);
    assert_string_equal(topo->objects[ri_topo_find(topo, -1, RI_TOPO_HOST, 1)].id, "0x8");
    assert_int_equal(topo->link_count, 6);
    assert_int_equal(topo->links[0].count, 18);
    assert_true(topo->links[0].gbps == 450);
    assert_int_equal(topo->links[1].count, 9); /* as many as the one that has fewer */
    ri_topo_destroy(topo);
}

static void what_is_wrong_is_named(void **state)
{
    static const struct {
        const char *xml, *says;
    } wrong[] = {
        { "", "NCCL topology" },
        { "<graphs/>", "begins with <system>" },
        { "<system></system>", "no <cpu>" },
        { "<system>\n<pci busid=\"1\"></pci></system>", "line 2: <pci>" },
        { "<system>\n<cpu>\n</system>", "line 3" },
        { "<system><cpu><cpu/></cpu></system>", "within something else" },
        { "<system><cpu><gpu><net name=\"x\"/></gpu></cpu></system>", "stands where nothing can" },
        { "<!DOCTYPE x [<!ENTITY a \"b\">]><system/>", "document type" },
        { "<!DOCTYPE x SYSTEM \"/etc/passwd\"><system/>", "document type" },
    };

    if (!can_read)
        skip();
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct ri_topo *topo = NULL;

        assert_int_equal(ri_topo_from_nccl_xml(wrong[i].xml, strlen(wrong[i].xml), &topo), RONDO_ERR_ARGUMENT);
        assert_null(topo);
        if (!strstr(rondo_last_error(), wrong[i].says))
            fail_msg("%s says: %s", wrong[i].xml, rondo_last_error());
    }
}

static void no_file_is_deep_or_long(void **state)
{
    static char xml[17 << 20];
    struct ri_topo *topo = NULL;
    char *at = xml;

    if (!can_read)
        skip();
    at += sprintf(at, "<system><cpu>");
    for (int i = 0; i < 100; i++)
        at += sprintf(at, "<pci class=\"0x060400\">");
    assert_int_equal(ri_topo_from_nccl_xml(xml, (size_t)(at - xml), &topo), RONDO_ERR_ARGUMENT);
    assert_non_null(strstr(rondo_last_error(), "too deep"));
    assert_int_equal(ri_topo_from_nccl_xml(xml, sizeof(xml), &topo), RONDO_ERR_ARGUMENT);
    assert_non_null(strstr(rondo_last_error(), "16 MiB"));
}

/* Without expat the package is named, with it the file is looked at. */
static void a_missing_expat_is_named(void **state)
{
    struct ri_topo *topo = NULL;
    int err = ri_topo_from_nccl_xml("<other/>", 8, &topo);

    assert_null(topo);
    assert_int_equal(err, can_read ? RONDO_ERR_ARGUMENT : RONDO_ERR_UNSUPPORTED);
    assert_int_equal(strstr(rondo_last_error(), "expat") == NULL, can_read);
}

static void assert_same_paths(const struct ri_topo *a, const struct ri_topo *b, enum ri_topo_kind x,
                              enum ri_topo_kind y)
{
    int n = ri_topo_count(a, 0, x), m = ri_topo_count(a, 0, y);

    assert_int_equal(ri_topo_count(b, 0, x), n);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            struct ri_topo_path p, q;

            ri_topo_path(a, ri_topo_find(a, 0, x, i), ri_topo_find(a, 0, y, j), &p);
            ri_topo_path(b, ri_topo_find(b, 0, x, i), ri_topo_find(b, 0, y, j), &q);
            assert_int_equal(p.level, q.level);
            assert_int_equal(p.links, q.links);
            assert_true(p.gbps == q.gbps);
        }
}

static void machines_come_back(void **state)
{
    static const char *const texts[] = {
        "host:1 numa:2 switch:4 gpu:8 nic:8 nvlink:300 nvlink-count:12 pcie:25 net:12.5 layer:infiniband core:96",
        "host:1 gpu:4 nic:1 net:3.1 pcie:12.7",
        "host:1 numa:2 gpu:4 nic:2 nvlink:112.5 nvlink-count:4 nvlink-group:2 net:1.25 layer:ethernet",
        "host:1 numa:1 gpu:1 nic:1 c2c:450 pcie:63 net:50 layer:roce",
        "host:1 switch:2 gpu:3 nic:3 pcie:31.5 core:7",
        "host:1 numa:4 core:64 nic:1",
    };

    if (!can_read)
        skip();
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct ri_topo *topo = NULL, *back;
        char *xml, *again;

        assert_int_equal(ri_topo_from_text(texts[i], &topo), 0);
        xml = ri_topo_to_nccl_xml(topo, 0);
        assert_non_null(xml);
        back = read_xml(xml);
        assert_same_paths(topo, back, RI_TOPO_GPU, RI_TOPO_GPU);
        assert_same_paths(topo, back, RI_TOPO_GPU, RI_TOPO_NIC);
        assert_same_paths(topo, back, RI_TOPO_NIC, RI_TOPO_NIC);
        for (int k = 0; k < ri_topo_count(topo, 0, RI_TOPO_NIC); k++) {
            const struct ri_topo_object *a = &topo->objects[ri_topo_find(topo, 0, RI_TOPO_NIC, k)];
            const struct ri_topo_object *b = &back->objects[ri_topo_find(back, 0, RI_TOPO_NIC, k)];

            assert_string_equal(a->name, b->name);
            assert_true(a->nic.gbps == b->nic.gbps && a->link_gbps == b->link_gbps);
        }
        again = ri_topo_to_nccl_xml(back, 0);
        assert_string_equal(again, xml);
        free(again);
        free(xml);
        ri_topo_destroy(back);
        ri_topo_destroy(topo);
    }
}

/* NCCL reads switches as such, and speeds of its table. */
static void it_is_written_as_nccl_writes(void **state)
{
    static const char text[] = "host:2 gpu:8 nvlink:450 gpu-model:H100 pcie:63 nic:1 net:50 layer:roce";
    struct ri_topo *topo = NULL;
    char *xml;

    assert_int_equal(ri_topo_from_text(text, &topo), 0);
    xml = ri_topo_to_nccl_xml(topo, ri_topo_find(topo, -1, RI_TOPO_HOST, 1));
    assert_non_null(strstr(xml, "<nvlink target=\"fffffff:ff:ff.0\" count=\"18\" tclass=\"0x068000\""));
    assert_non_null(strstr(xml, "sm=\"90\""));
    assert_non_null(strstr(xml, "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\""));
    assert_non_null(strstr(xml, "<net name=\"mlx5_0\" dev=\"0\" speed=\"400000\" port=\"1\""));
    assert_null(strstr(xml, "numaid=\"0\""));
    free(xml);
    strcpy(topo->objects[ri_topo_find(topo, 0, RI_TOPO_NIC, 0)].nic.device, "<\"&\x01>");
    xml = ri_topo_to_nccl_xml(topo, 0);
    assert_non_null(strstr(xml, "&#60;&#34;&#38;?&#62;"));
    free(xml);
    ri_topo_destroy(topo);
}

static void masks_are_lists(void **state)
{
    static const struct {
        const char *mask, *list;
        int count;
    } same[] = {
        { "0000000f", "0-3", 4 }, { "00000001,80000000", "31-32", 2 }, { "00000005", "0,2", 2 }, { "00000000", "", 0 },
        { "ffffffff,00000000,ffffffff", "0-31,64-95", 64 },
    };
    char list[64], mask[64];

    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        assert_int_equal(ri_cpumask_to_list(same[i].mask, list, sizeof(list)), same[i].count);
        assert_string_equal(list, same[i].list);
        assert_int_equal(ri_cpumask_from_list(same[i].list, mask, sizeof(mask)), same[i].count);
        assert_string_equal(mask, same[i].mask);
    }
    assert_int_equal(ri_cpumask_to_list("55555555,55555555,55555555", list, 16), 48);
    assert_string_equal(list, "");
    assert_int_equal(ri_cpumask_to_list("", list, sizeof(list)), -1);
    assert_int_equal(ri_cpumask_to_list("12,,3", list, sizeof(list)), -1);
    assert_int_equal(ri_cpumask_to_list("123456789", list, sizeof(list)), -1);
    assert_int_equal(ri_cpumask_from_list("3-1", mask, sizeof(mask)), -1);
    assert_int_equal(ri_cpumask_from_list("99999", mask, sizeof(mask)), -1);
    assert_int_equal(ri_cpumask_from_list("x", mask, sizeof(mask)), -1);
}

/* Damaged files are refused or give a tree that can be packed. */
static void hostile_files(void **state)
{
    uint32_t seed = 606;
    int good = 0;

    if (!can_read)
        skip();
    for (int round = 0; round < 4000; round++) {
        char xml[sizeof(small)];
        struct ri_topo *topo = NULL, *back = NULL;

        memcpy(xml, small, sizeof(small));
        for (int edits = 1 + round % 3; edits > 0; edits--) {
            seed = seed * 1664525 + 1013904223;
            xml[(seed >> 8) % (sizeof(small) - 1)] =
                round % 2 ? "0123456789abx<\"> /"[(seed >> 4) % 18] : (char)(seed >> 24);
        }
        if (ri_topo_from_nccl_xml(xml, strlen(xml), &topo) == 0) {
            char *text = ri_topo_pack(topo), *written = ri_topo_to_nccl_xml(topo, 0);

            assert_int_equal(ri_topo_unpack(text, &back), 0);
            ri_topo_destroy(back);
            ri_topo_destroy(read_xml(written));
            free(written);
            free(text);
            good++;
        }
        ri_topo_destroy(topo);
    }
    assert_in_range(good, 100, 3900);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_read),
        cmocka_unit_test(switches_join_all_gpus_of_a_host),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(no_file_is_deep_or_long),
        cmocka_unit_test(a_missing_expat_is_named),
        cmocka_unit_test(machines_come_back),
        cmocka_unit_test(it_is_written_as_nccl_writes),
        cmocka_unit_test(masks_are_lists),
        cmocka_unit_test(hostile_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
