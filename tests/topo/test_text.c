/* SPDX-License-Identifier: Apache-2.0 */
/* Machines are described in words; what cannot be understood is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "topo/topo.h"

static struct ri_topo *read_text(const char *text)
{
    struct ri_topo *topo = NULL;
    int err = ri_topo_from_text(text, &topo);

    if (err)
        fail_msg("\"%s\": %s", text, rondo_last_error());
    assert_int_equal(topo->error, 0);
    return topo;
}

static int32_t find(const struct ri_topo *topo, int host, enum ri_topo_kind kind, int k)
{
    int32_t at = ri_topo_find(topo, ri_topo_find(topo, -1, RI_TOPO_HOST, host), kind, k);

    assert_true(at >= 0);
    return at;
}

static void hosts_of_one_kind(void **state)
{
    struct ri_topo *topo = read_text("host:2 numa:2 gpu:4 nic:4 nvlink:300 pcie:25 net:12.5");
    const struct ri_topo_object *o = topo->objects;

    assert_int_equal(ri_topo_hosts(topo), 2);
    assert_int_equal(topo->object_count, 2 * (1 + 2 + 4 + 4));
    assert_int_equal(topo->link_count, 2 * 6);
    for (int h = 0; h < 2; h++) {
        int32_t gpu = find(topo, h, RI_TOPO_GPU, 2), nic = find(topo, h, RI_TOPO_NIC, 3);

        assert_int_equal(o[gpu].parent, find(topo, h, RI_TOPO_NUMA, 1));
        assert_int_equal(o[nic].parent, find(topo, h, RI_TOPO_NUMA, 1));
        assert_int_equal(o[find(topo, h, RI_TOPO_NIC, 1)].parent, find(topo, h, RI_TOPO_NUMA, 0));
        assert_true(o[gpu].link_gbps == 25 && o[nic].link_gbps == 25 && o[nic].nic.gbps == 12.5);
        assert_int_equal(o[nic].nic.state, RI_TOPO_ACTIVE);
        assert_true(ri_topo_link_between(topo, gpu, find(topo, h, RI_TOPO_GPU, 0))->gbps == 300);
    }
    assert_string_not_equal(o[0].id, o[ri_topo_find(topo, -1, RI_TOPO_HOST, 1)].id);
    ri_topo_destroy(topo);
}

static void devices_are_dealt_over_switches(void **state)
{
    struct ri_topo *topo = read_text("host:1 package:2 switch:4 gpu:8 nic:4 pcie:31.5 # as sold\n"
                                     "nvlink:200 nvlink-count:8 layer:infiniband net:25 core:96");
    const struct ri_topo_object *o = topo->objects;

    assert_int_equal(ri_topo_count(topo, 0, RI_TOPO_NUMA), 2);
    for (int g = 0; g < 8; g++) {
        int32_t gpu = find(topo, 0, RI_TOPO_GPU, g), nic = find(topo, 0, RI_TOPO_NIC, g / 2);

        assert_int_equal(o[gpu].parent, find(topo, 0, RI_TOPO_BRIDGE, g / 2));
        assert_int_equal(o[gpu].parent, o[nic].parent);
        assert_int_equal(o[ri_topo_above(topo, gpu, RI_TOPO_PACKAGE)].number, g / 4);
        assert_true(o[o[gpu].parent].link_gbps == 31.5);
    }
    assert_int_equal(topo->links[27].count, 8);
    assert_true(topo->links[27].gbps == 200);
    assert_string_equal(o[find(topo, 0, RI_TOPO_NIC, 3)].nic.device, "mlx5_3");
    assert_int_equal(o[find(topo, 0, RI_TOPO_NIC, 3)].nic.layer, RI_TOPO_INFINIBAND);
    assert_string_equal(o[find(topo, 0, RI_TOPO_NUMA, 1)].cpus, "48-95");
    assert_int_equal(o[0].cpu_count, 96);
    ri_topo_destroy(topo);
}

static void hosts_may_differ(void **state)
{
    struct ri_topo *topo = read_text("host:1 gpu:4 nic:1 net:25 name:big net-latency:3 host:2 gpu:3 nic:2 name:small\n"
                                     "nvlink:50 nvlink-group:2 c2c:450 nic-name:ens layer:ethernet gpu-model:X");
    const struct ri_topo_object *o = topo->objects;
    int32_t host = ri_topo_find(topo, -1, RI_TOPO_HOST, 2);

    assert_string_equal(o[0].name, "big");
    assert_string_equal(o[host].name, "small-1");
    assert_int_equal(ri_topo_count(topo, 0, RI_TOPO_GPU), 4);
    assert_int_equal(ri_topo_count(topo, host, RI_TOPO_GPU), 3);
    assert_true(topo->net_latency_us == 3);
    assert_non_null(ri_topo_link_between(topo, find(topo, 2, RI_TOPO_GPU, 0), find(topo, 2, RI_TOPO_GPU, 1)));
    assert_null(ri_topo_link_between(topo, find(topo, 2, RI_TOPO_GPU, 1), find(topo, 2, RI_TOPO_GPU, 2)));
    assert_int_equal(ri_topo_link_between(topo, host, find(topo, 2, RI_TOPO_GPU, 2))->kind, RI_TOPO_C2C);
    assert_string_equal(o[find(topo, 2, RI_TOPO_NIC, 1)].nic.netdev, "ens1");
    assert_string_equal(o[find(topo, 2, RI_TOPO_GPU, 1)].model, "X");
    ri_topo_destroy(topo);
}

static void gpus_joined_by_xgmi(void **state)
{
    struct ri_topo *topo = read_text("host:2 numa:2 gpu:8 gpu-model:MI300X xgmi:64 nic:8 net:50");

    assert_int_equal(topo->link_count, 2 * 28);
    for (int32_t i = 0; i < topo->link_count; i++) {
        assert_int_equal(topo->links[i].kind, RI_TOPO_XGMI);
        assert_int_equal(topo->links[i].count, 1);
        assert_true(topo->links[i].gbps == 64);
    }
    ri_topo_destroy(topo);
}

static void hosts_without_gpus(void **state)
{
    struct ri_topo *topo = read_text("host:2 numa:2 core:16 nic:1 net:1.25");

    assert_int_equal(ri_topo_count(topo, -1, RI_TOPO_GPU), 0);
    assert_string_equal(topo->objects[find(topo, 1, RI_TOPO_NUMA, 0)].cpus, "0-7");
    assert_int_equal(topo->objects[find(topo, 1, RI_TOPO_NUMA, 1)].cpu_count, 8);
    ri_topo_destroy(topo);
}

static void what_is_wrong_is_named(void **state)
{
    static const struct {
        const char *text, *says;
    } wrong[] = {
        { "", "no word" },
        { "# nothing\n", "no word" },
        { "gpu:4", "begins with host:N" },
        { "host:2\n\n gpus:4", "line 3: \"gpus:4\": there is no such word; the nearest is gpu" },
        { "host:2 nvlnk:3", "nearest is nvlink" },
        { "host:2 GPU:3", "nearest is gpu" },
        { "host:2 bandwidth:3", "there is no such word (see" },
        { "host:1 nic:1 net:200Gb/s", "without a unit (200 Gbit/s are 25)" },
        { "host:2 gpu", "a value is missing" },
        { "host:2 gpu:", "a value is missing" },
        { "host:0", "from 1 to 100000" },
        { "host:two", "whole number" },
        { "host:1 gpu:257", "from 0 to 256" },
        { "host:1 gpu:-1", "from 0 to 256" },
        { "host:1 gpu:4.5", "whole number" },
        { "host:1 gpu:4 nvlink:0", "above 0" },
        { "host:1 gpu:4 nvlink:-3", "above 0" },
        { "host:1 gpu:4 nvlink:nan", "GB/s" },
        { "host:1 gpu:4 nvlink:inf", "GB/s" },
        { "host:1 gpu:4 nvlink:1e300", "up to 1000000" },
        { "host:1 gpu:4 nvlink:0x10", "GB/s" },
        { "host:1 net-latency:-1", "microseconds" },
        { "host:1 nic:1 layer:token-ring", "infiniband, roce or ethernet" },
        { "host:1 gpu:1 gpu:2", "has it already" },
        { "host:1 nvlink:3", "nvlink needs gpu" },
        { "host:1 gpu:2 nvlink-count:3", "nvlink-count needs nvlink" },
        { "host:1 net:3", "net needs nic" },
        { "host:1 xgmi:64", "xgmi needs gpu" },
        { "host:1 gpu:2 nvlink:50 xgmi:64", "not by both" },
        { "host:1 package:2 numa:1", "not less than package" },
        { "host:100000 gpu:8", "100000 objects" },
        { "host:300 gpu:256 nvlink:1", "1000000 links" },
        { "host:300 gpu:256 xgmi:1", "1000000 links" },
        { "host:1 host:99999 host:1", "100000 objects" },
        { "host:1 name:0123456789012345678901234567890123456789", "39 characters" },
        { "host:1 name:\a", "cannot be printed" },
        { "host:000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000001",
          "too long" },
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct ri_topo *topo = NULL;

        assert_int_equal(ri_topo_from_text(wrong[i].text, &topo), RONDO_ERR_ARGUMENT);
        assert_null(topo);
        if (!strstr(rondo_last_error(), wrong[i].says))
            fail_msg("\"%s\" says: %s", wrong[i].text, rondo_last_error());
    }
}

static void many_hosts_take_no_time(void **state)
{
    struct ri_topo *topo = read_text("host:5000 numa:2 gpu:8 nic:8 nvlink:300");

    assert_int_equal(ri_topo_hosts(topo), 5000);
    assert_int_equal(topo->link_count, 5000 * 28);
    ri_topo_destroy(topo);
}

/* Every shape keeps the rule of near NICs: a GPU and its NIC are below one switch or NUMA node. */
static void near_nics_for_all_small_shapes(void **state)
{
    for (int places = 1; places <= 4; places++)
        for (int per_place = 1; per_place <= 3; per_place++)
            for (int switches = 0; switches <= 1; switches++) {
                int gpus = 2 * places * per_place, nics = places * per_place;
                struct ri_topo *topo;
                char text[96];

                snprintf(text, sizeof(text), "host:1 %s:%d gpu:%d nic:%d",
                         switches ? "switch" : "numa", places, gpus, nics);
                topo = read_text(text);
                for (int g = 0; g < gpus; g++)
                    assert_int_equal(topo->objects[find(topo, 0, RI_TOPO_GPU, g)].parent,
                                     topo->objects[find(topo, 0, RI_TOPO_NIC, g * nics / gpus)].parent);
                ri_topo_destroy(topo);
            }
}

/* Whatever is read gives a tree or says why not; what gives a tree can be packed and read again. */
static void hostile_texts(void **state)
{
    static const char seed_text[] = "host:2 numa:2 switch:2 gpu:4 nic:4 nvlink:300 nvlink-count:12 pcie:25\n"
                                    "net:12.5 layer:roce name:a # c\nhost:1 package:2 core:9 nic:1 net-latency:5";
    uint32_t seed = 6;
    int good = 0;

    for (int round = 0; round < 4000; round++) {
        char text[sizeof(seed_text)];
        struct ri_topo *topo = NULL;

        memcpy(text, seed_text, sizeof(text));
        for (int edits = 1 + round % 3; edits > 0; edits--) {
            seed = seed * 1664525 + 1013904223;
            text[(seed >> 8) % (sizeof(text) - 1)] =
                round % 2 ? "0123456789:. \n#"[(seed >> 4) % 15] : (char)(seed >> 24);
        }
        if (ri_topo_from_text(text, &topo) == 0) {
            char *packed = ri_topo_pack(topo);
            struct ri_topo *again = NULL;

            assert_non_null(packed);
            assert_int_equal(ri_topo_unpack(packed, &again), 0);
            ri_topo_destroy(again);
            free(packed);
            good++;
        }
        ri_topo_destroy(topo);
    }
    assert_in_range(good, 100, 3900);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_of_one_kind),
        cmocka_unit_test(devices_are_dealt_over_switches),
        cmocka_unit_test(hosts_may_differ),
        cmocka_unit_test(gpus_joined_by_xgmi),
        cmocka_unit_test(hosts_without_gpus),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(many_hosts_take_no_time),
        cmocka_unit_test(near_nics_for_all_small_shapes),
        cmocka_unit_test(hostile_texts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
