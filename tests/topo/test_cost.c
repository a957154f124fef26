/* SPDX-License-Identifier: Apache-2.0 */
/* How far apart objects are, and how wide the way between them is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "tests/topo/machines.h"

static int32_t gpu_of(const struct ri_topo *topo, int k)
{
    return ri_topo_find(topo, -1, RI_TOPO_GPU, k);
}

static void path_is(const struct ri_topo *topo, int32_t a, int32_t b, const char *level, double gbps)
{
    struct ri_topo_path path, back;
    char text[12], wanted[64], got[64];

    ri_topo_path(topo, a, b, &path);
    ri_topo_path(topo, b, a, &back);
    ri_topo_level_text(&path, text);
    snprintf(got, sizeof(got), "%s %g", text, path.gbps);
    snprintf(wanted, sizeof(wanted), "%s %g", level, gbps);
    assert_string_equal(got, wanted);
    assert_int_equal(path.level, back.level);
    assert_true(path.gbps == back.gbps);
    assert_true(path.latency_us == back.latency_us && path.latency_us > 0);
}

/* Two switches a NUMA node, two GPUs each; a switch below one more bridge. */
static void levels_are_those_of_nvidia_smi(void **state)
{
    struct ri_topo *topo = machine_add(NULL, 2, 2, 2, 1, NULL);
    int32_t bridge = ri_topo_find(topo, -1, RI_TOPO_BRIDGE, 0);
    int32_t below = ri_topo_add(topo, RI_TOPO_GPU, ri_topo_add(topo, RI_TOPO_BRIDGE, bridge, -1), 8);
    int32_t root = ri_topo_above(topo, bridge, RI_TOPO_ROOT);
    int32_t beside = ri_topo_add(topo, RI_TOPO_GPU, ri_topo_add(topo, RI_TOPO_BRIDGE, root, -1), 9);

    path_is(topo, gpu_of(topo, 0), gpu_of(topo, 0), "X", 300);
    path_is(topo, gpu_of(topo, 0), gpu_of(topo, 1), "PIX", 24);
    path_is(topo, gpu_of(topo, 0), below, "PXB", 12);
    path_is(topo, gpu_of(topo, 0), beside, "PHB", 12);
    path_is(topo, gpu_of(topo, 0), gpu_of(topo, 2), "NODE", 20);
    path_is(topo, gpu_of(topo, 0), gpu_of(topo, 4), "SYS", 16);
    ri_topo_destroy(topo);
}

static void direct_links_come_first(void **state)
{
    int32_t host, c2c;
    struct ri_topo *topo = machine_add(NULL, 1, 2, 2, 1, &host);

    machine_nvlinks(topo, host, 12);
    path_is(topo, gpu_of(topo, 0), gpu_of(topo, 3), "NV12", 300);
    c2c = ri_topo_find(topo, host, RI_TOPO_NUMA, 0);
    path_is(topo, gpu_of(topo, 0), c2c, "PHB", 24);
    ri_topo_link(topo, gpu_of(topo, 0), c2c, RI_TOPO_C2C, 1, 0);
    path_is(topo, gpu_of(topo, 0), c2c, "NV1", 450);
    /* To a NIC elsewhere at the node the way is by the memory, so PCIe ends only at the NIC. */
    path_is(topo, gpu_of(topo, 0), ri_topo_find(topo, host, RI_TOPO_NIC, 1), "NODE", 24);
    path_is(topo, gpu_of(topo, 0), ri_topo_find(topo, host, RI_TOPO_NIC, 0), "PIX", 24);
    ri_topo_destroy(topo);
}

static void narrow_links_count_on_the_way(void **state)
{
    struct ri_topo *topo = machine_add(NULL, 1, 2, 2, 0, NULL);

    topo->objects[ri_topo_find(topo, -1, RI_TOPO_BRIDGE, 1)].link_gbps = 3;
    path_is(topo, gpu_of(topo, 0), gpu_of(topo, 2), "NODE", 3);
    path_is(topo, gpu_of(topo, 2), gpu_of(topo, 3), "PIX", 24);
    ri_topo_destroy(topo);
}

static void an_unknown_place_is_equally_far(void **state)
{
    int32_t host, lost;
    struct ri_topo *topo = machine_add(NULL, 2, 1, 2, 1, &host);

    lost = ri_topo_add(topo, RI_TOPO_GPU, host, 4);
    for (int g = 0; g < 4; g++)
        path_is(topo, lost, gpu_of(topo, g), "SYS", 12);
    path_is(topo, host, ri_topo_find(topo, host, RI_TOPO_NIC, 0), "SYS", 16);
    ri_topo_destroy(topo);
}

/* Nothing is known of it that could be crossed: only links count. */
static void a_flat_host_narrows_nothing(void **state)
{
    int32_t host, gpu, nic;
    struct ri_topo *topo = machine_add(NULL, 0, 0, 0, 0, &host);

    gpu = ri_topo_add(topo, RI_TOPO_GPU, host, 0);
    nic = machine_nic(topo, host);
    topo->objects[gpu].link_gbps = 50;
    path_is(topo, gpu, nic, "SYS", 24);
    topo->objects[nic].link_gbps = 0;
    path_is(topo, gpu, nic, "SYS", 25);
    path_is(topo, host, nic, "SYS", 25);
    ri_topo_link(topo, host, gpu, RI_TOPO_C2C, 1, 450);
    path_is(topo, gpu, host, "NV1", 450);
    path_is(topo, gpu, nic, "SYS", 25);
    ri_topo_destroy(topo);
}

static void memory_is_copied(void **state)
{
    struct ri_topo *topo = machine_add(NULL, 2, 0, 0, 0, NULL);
    int32_t first = ri_topo_find(topo, -1, RI_TOPO_NUMA, 0);
    int32_t beside = ri_topo_add(topo, RI_TOPO_NUMA, topo->objects[first].parent, 2);
    int32_t where[] = { -1, -1, -1, -1, first, beside };
    struct ri_topo_path path;

    path_is(topo, first, first, "X", 8);
    path_is(topo, first, ri_topo_find(topo, -1, RI_TOPO_NUMA, 1), "SYS", 6);
    path_is(topo, first, beside, "SYS", 7);
    assert_int_equal(ri_topo_place(topo, 6, NULL, where), 0);
    ri_topo_rank_path(topo, 0, 4, &path);
    assert_int_equal(path.level, RI_TOPO_SELF);
    assert_true(path.gbps == 8);
    ri_topo_rank_path(topo, 4, 5, &path);
    assert_true(path.gbps == 7);
    ri_topo_destroy(topo);
}

static void measured_copies_go_before(void **state)
{
    struct ri_topo *topo = machine_add(NULL, 2, 1, 1, 1, NULL);
    int32_t first = ri_topo_find(topo, -1, RI_TOPO_NUMA, 0), second = ri_topo_find(topo, -1, RI_TOPO_NUMA, 1);
    struct ri_topo_path path;

    topo->objects[first].copy_gbps = 3.5;
    topo->objects[first].copy_latency_us = 0.25;
    topo->objects[0].copy_gbps = 2.5; /* the host, where both packages meet */
    path_is(topo, first, first, "X", 3.5);
    ri_topo_path(topo, first, first, &path);
    assert_true(path.latency_us == 0.25);
    path_is(topo, first, second, "SYS", 2.5);
    path_is(topo, second, second, "X", 8);
    /* Of devices nothing was measured. */
    path_is(topo, gpu_of(topo, 0), ri_topo_find(topo, second, RI_TOPO_NIC, 0), "SYS", 16);
    ri_topo_destroy(topo);
}

static void hosts_are_joined_by_their_nearest_nics(void **state)
{
    int32_t second;
    struct ri_topo *topo = machine_add(NULL, 2, 2, 2, 1, NULL);

    machine_add(topo, 2, 2, 2, 1, &second);
    path_is(topo, gpu_of(topo, 0), gpu_of(topo, 8), "NET", 24);
    topo->objects[ri_topo_find(topo, -1, RI_TOPO_NIC, 0)].nic.gbps = 12.5;
    path_is(topo, gpu_of(topo, 0), gpu_of(topo, 8), "NET", 12.5);
    path_is(topo, gpu_of(topo, 2), gpu_of(topo, 8), "NET", 24);
    /* Down: the next one is at the node. */
    strcpy(topo->objects[ri_topo_find(topo, -1, RI_TOPO_NIC, 0)].nic.unusable, "port is down");
    path_is(topo, gpu_of(topo, 0), gpu_of(topo, 8), "NET", 20);
    for (int k = 1; k < 4; k++)
        strcpy(topo->objects[ri_topo_find(topo, -1, RI_TOPO_NIC, k)].nic.unusable, "port is down");
    path_is(topo, gpu_of(topo, 0), gpu_of(topo, 8), "NET", 1.25);
    ri_topo_destroy(topo);
}

static void ranks_share_their_nic(void **state)
{
    struct ri_topo *topo = machine_add(NULL, 2, 2, 2, 1, NULL);
    struct ri_topo_path path;

    machine_add(topo, 2, 2, 2, 1, NULL);
    assert_int_equal(ri_topo_place(topo, 16, NULL, NULL), 0);
    ri_topo_rank_path(topo, 0, 8, &path);
    assert_int_equal(path.level, RI_TOPO_NET);
    assert_true(path.gbps == 12.5 && path.latency_us == 5);
    topo->net_latency_us = 17;
    ri_topo_rank_path(topo, 0, 8, &path);
    assert_true(path.latency_us == 17);
    ri_topo_rank_path(topo, 0, 1, &path);
    assert_int_equal(path.level, RI_TOPO_PIX);
    ri_topo_destroy(topo);
}

static int is_usual(const char *text, int a, int b)
{
    struct ri_topo_path path = { 0 };
    struct ri_topo *topo;

    assert_int_equal(ri_topo_from_text(text, &topo), 0);
    assert_int_equal(ri_topo_place(topo, ri_topo_count(topo, -1, RI_TOPO_GPU), NULL, NULL), 0);
    ri_topo_rank_path(topo, a, b, &path);
    ri_topo_destroy(topo);
    return path.is_usual;
}

/* Whether the narrowest place is one that a text tells of, or one of the tables. */
static void what_is_usual_is_not_known(void **state)
{
    assert_false(is_usual("host:1 numa:2 gpu:4 nvlink:300", 0, 3));
    assert_true(is_usual("host:1 numa:2 gpu:4", 0, 3));
    assert_false(is_usual("host:1 numa:2 gpu:4 pcie:8", 0, 3));
    assert_true(is_usual("host:1 numa:2 gpu:4 pcie:63", 0, 3)); /* over what is usual between sockets */
    assert_true(is_usual("host:2 gpu:2 nic:2 net:50", 0, 2));
    assert_false(is_usual("host:2 gpu:2 nic:2 net:5", 0, 2)); /* whatever the PCI link is */
    assert_false(is_usual("host:2 gpu:2 nic:2 net:50 pcie:63", 0, 2));
    assert_true(is_usual("host:2 gpu:2 nic:2 pcie:63", 0, 2));
    assert_true(is_usual("host:2 gpu:2", 0, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_are_those_of_nvidia_smi),
        cmocka_unit_test(direct_links_come_first),
        cmocka_unit_test(narrow_links_count_on_the_way),
        cmocka_unit_test(an_unknown_place_is_equally_far),
        cmocka_unit_test(a_flat_host_narrows_nothing),
        cmocka_unit_test(memory_is_copied),
        cmocka_unit_test(measured_copies_go_before),
        cmocka_unit_test(hosts_are_joined_by_their_nearest_nics),
        cmocka_unit_test(ranks_share_their_nic),
        cmocka_unit_test(what_is_usual_is_not_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
