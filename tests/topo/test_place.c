/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks have places and NICs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <rondo/status.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tests/topo/machines.h"
#include "topo/nic.h"

static struct ri_topo_nic *nic_of(struct ri_topo *topo, int k)
{
    return &topo->objects[ri_topo_find(topo, -1, RI_TOPO_NIC, k)].nic;
}

static void place(struct ri_topo *topo, int ranks, const int32_t *host_of)
{
    assert_int_equal(ri_topo_place(topo, ranks, host_of, NULL), 0);
    for (int r = 0; r < ranks; r++) {
        int shares = 0;

        for (int other = 0; other < ranks; other++)
            shares += topo->ranks[r].nic >= 0 && topo->ranks[other].nic == topo->ranks[r].nic;
        assert_int_equal(topo->ranks[r].nic_shares, shares);
    }
}

static void is_at(const struct ri_topo *topo, int r, const char *name)
{
    assert_string_equal(topo->objects[topo->ranks[r].object].name, name);
}

static void ranks_sit_on_gpus_of_their_host(void **state)
{
    const int32_t round_robin[] = { 0, 1, 0, 1, 0 }, outside[] = { 0, 2 };
    struct ri_topo *topo = machine_add(NULL, 2, 1, 2, 1, NULL);

    machine_add(topo, 2, 1, 2, 1, NULL);
    place(topo, 5, round_robin);
    is_at(topo, 0, "gpu 0");
    is_at(topo, 2, "gpu 1");
    is_at(topo, 3, "gpu 1");
    is_at(topo, 4, "gpu 2");
    assert_int_equal(ri_topo_host_of(topo, topo->ranks[3].object), ri_topo_find(topo, -1, RI_TOPO_HOST, 1));
    assert_int_equal(ri_topo_place(topo, 2, outside, NULL), RONDO_ERR_ARGUMENT);
    assert_int_equal(topo->rank_count, 5);
    ri_topo_destroy(topo);
}

static void gpus_go_by_number(void **state)
{
    struct ri_topo *topo = machine_add(NULL, 1, 1, 0, 0, NULL);
    int32_t bridge = ri_topo_find(topo, -1, RI_TOPO_BRIDGE, 0);

    for (int g = 3; g >= 0; g--)
        ri_topo_add(topo, RI_TOPO_GPU, bridge, g);
    place(topo, 4, NULL);
    for (int r = 0; r < 4; r++)
        assert_int_equal(topo->objects[topo->ranks[r].object].number, r);
    ri_topo_destroy(topo);
}

static void without_gpus_enough_numa_nodes_are_filled_in_blocks(void **state)
{
    struct ri_topo *topo = machine_add(NULL, 2, 1, 1, 1, NULL);
    int32_t memory = ri_topo_add(topo, RI_TOPO_NUMA, 0, 2);

    topo->objects[ri_topo_find(topo, -1, RI_TOPO_NUMA, 0)].cpu_count = 4;
    topo->objects[ri_topo_find(topo, -1, RI_TOPO_NUMA, 1)].cpu_count = 4;
    place(topo, 5, NULL);
    is_at(topo, 0, "numa 0");
    is_at(topo, 2, "numa 0");
    is_at(topo, 3, "numa 1");
    is_at(topo, 4, "numa 1");
    assert_string_equal(machine_nics_text(topo), "mlx5_0 mlx5_0 mlx5_0 mlx5_1 mlx5_1");
    topo->objects[memory].cpu_count = 1;
    place(topo, 3, NULL);
    is_at(topo, 2, "numa 2");
    ri_topo_destroy(topo);
}

static void a_bare_host_holds_ranks_too(void **state)
{
    struct ri_topo *topo = machine_add(NULL, 0, 0, 0, 0, NULL);

    place(topo, 2, NULL);
    is_at(topo, 1, "node0");
    assert_int_equal(topo->ranks[1].nic, -1);
    assert_int_equal(topo->ranks[1].nic_shares, 0);
    ri_topo_destroy(topo);
}

static void hosts_fill_one_by_one(void **state)
{
    struct ri_topo *topo = machine_add(NULL, 1, 1, 3, 0, NULL);
    int32_t second;

    machine_add(topo, 1, 1, 2, 0, &second);
    assert_int_equal(ri_topo_place(topo, 0, NULL, NULL), 0);
    assert_int_equal(topo->rank_count, 5);
    assert_true(topo->ranks[2].object < second && topo->ranks[3].object > second);
    /* Twice as many as there are GPUs: 6 and 4. */
    place(topo, 10, NULL);
    assert_true(topo->ranks[5].object < second && topo->ranks[6].object > second);
    is_at(topo, 9, "numa 0");
    ri_topo_destroy(topo);
}

static void a_place_can_be_said(void **state)
{
    struct ri_topo *topo = machine_add(NULL, 1, 1, 2, 0, NULL);
    int32_t second, where[2] = { -1, -1 };

    machine_add(topo, 1, 1, 2, 0, &second);
    where[0] = ri_topo_find(topo, 0, RI_TOPO_GPU, 1);
    assert_int_equal(ri_topo_place(topo, 2, NULL, where), 0);
    assert_int_equal(topo->ranks[0].object, where[0]);
    is_at(topo, 1, "gpu 1");
    where[1] = second;
    assert_int_equal(ri_topo_place(topo, 2, NULL, where), RONDO_ERR_ARGUMENT);
    where[1] = topo->object_count;
    assert_int_equal(ri_topo_place(topo, 2, NULL, where), RONDO_ERR_ARGUMENT);
    ri_topo_destroy(topo);
}

static void four_adapters_serve_two_gpus_each(void **state)
{
    struct ri_topo *topo = machine_add(NULL, 2, 2, 2, 1, NULL);

    place(topo, 8, NULL);
    assert_string_equal(machine_nics_text(topo), "mlx5_0 mlx5_0 mlx5_1 mlx5_1 mlx5_2 mlx5_2 mlx5_3 mlx5_3");
    ri_topo_destroy(topo);
}

/* openucx/ucx#9520: eight adapters of two ports serve eight ranks with a port of each. */
static void adapters_come_before_second_ports(void **state)
{
    struct ri_topo *topo = machine_add(NULL, 1, 1, 8, 16, NULL);
    int32_t rails[8];

    for (int k = 0; k < 16; k++)
        snprintf(nic_of(topo, k)->card, sizeof(nic_of(topo, k)->card), "card%d", k / 2);
    place(topo, 8, NULL);
    assert_string_equal(machine_nics_text(topo), "mlx5_0 mlx5_2 mlx5_4 mlx5_6 mlx5_8 mlx5_10 mlx5_12 mlx5_14");
    assert_int_equal(ri_topo_pick_rails(topo, 0, 8, rails), 8);
    for (int r = 0; r < 8; r++)
        assert_int_equal(rails[r], topo->ranks[r].nic);
    ri_topo_destroy(topo);
}

static void ranks_without_near_nics_take_turns(void **state)
{
    int32_t host;
    struct ri_topo *topo = machine_add(NULL, 0, 0, 0, 0, &host);

    for (int k = 0; k < 3; k++)
        machine_nic(topo, host);
    place(topo, 5, NULL);
    assert_string_equal(machine_nics_text(topo), "mlx5_0 mlx5_1 mlx5_2 mlx5_0 mlx5_1");
    ri_topo_destroy(topo);
}

/* Rank 0 has two NICs as near, rank 1 but one of them. */
static void who_can_choose_leaves_the_only_one(void **state)
{
    struct ri_topo *topo = machine_add(NULL, 1, 1, 0, 0, NULL);
    int32_t outer = ri_topo_find(topo, -1, RI_TOPO_BRIDGE, 0), inner = ri_topo_add(topo, RI_TOPO_BRIDGE, outer, -1);
    int32_t gpu;

    machine_nic(topo, inner);
    machine_nic(topo, ri_topo_add(topo, RI_TOPO_BRIDGE, outer, -1));
    ri_topo_add(topo, RI_TOPO_GPU, outer, 0);
    gpu = ri_topo_add(topo, RI_TOPO_GPU, inner, 1);
    place(topo, 2, NULL);
    assert_int_equal(topo->ranks[1].object, gpu);
    assert_string_equal(machine_nics_text(topo), "mlx5_1 mlx5_0");
    ri_topo_destroy(topo);
}

static void left_out(struct ri_topo *topo, int k, const char *reason)
{
    char why[96];
    int used = ri_topo_nic_is_used(topo, ri_topo_find(topo, -1, RI_TOPO_NIC, k), why);

    assert_string_equal(why, reason);
    assert_int_equal(used, !reason[0]);
}

static void some_nics_are_left_out(void **state)
{
    int32_t host;
    struct ri_topo *topo = machine_add(NULL, 0, 0, 0, 0, &host);

    for (int k = 0; k < 7; k++)
        machine_nic(topo, host);
    strcpy(nic_of(topo, 0)->unusable, "port is down");
    nic_of(topo, 1)->port = 0;
    nic_of(topo, 1)->device[0] = 0;
    nic_of(topo, 2)->is_virtual = 1;
    nic_of(topo, 3)->gbps = 6;
    nic_of(topo, 4)->is_loopback = 1;
    strcpy(nic_of(topo, 5)->bond, "bond0");
    left_out(topo, 0, "port is down");
    left_out(topo, 1, "plain Ethernet, while mlx5_5 has RDMA");
    left_out(topo, 2, "virtual, while mlx5_5 is hardware");
    left_out(topo, 3, "6 GB/s, less than half of mlx5_5");
    left_out(topo, 4, "loopback");
    left_out(topo, 5, "");
    /* With its bond there, a member is the bond's, and the bond is no virtual thing. */
    strcpy(nic_of(topo, 6)->netdev, "bond0");
    nic_of(topo, 6)->is_virtual = 1;
    left_out(topo, 5, "a member of bond0");
    left_out(topo, 6, "");
    place(topo, 2, NULL);
    assert_string_equal(machine_nics_text(topo), "mlx5_6 mlx5_6");
    for (int k = 3; k < 7; k++)
        strcpy(nic_of(topo, k)->unusable, "port is down");
    /* A virtual function with RDMA, as a container has it, before plain Ethernet. */
    place(topo, 1, NULL);
    assert_string_equal(machine_nics_text(topo), "mlx5_2");
    left_out(topo, 1, "plain Ethernet, while mlx5_2 has RDMA");
    strcpy(nic_of(topo, 2)->unusable, "port is down");
    place(topo, 1, NULL);
    assert_string_equal(machine_nics_text(topo), "mlx5_1");
    ri_topo_destroy(topo);
}

/* As on hosts of containers: no NIC is compared with all others for each of all others. */
static void hundreds_of_virtual_nics_take_no_time(void **state)
{
    int32_t host;
    struct ri_topo *topo = machine_add(NULL, 0, 0, 0, 0, &host);
    clock_t begin = clock();

    (void)state;
    for (int k = 0; k < 1004; k++) {
        int32_t nic = machine_nic(topo, host);

        if (k % 251 > 0) {
            topo->objects[nic].nic.is_virtual = 1;
            topo->objects[nic].nic.port = 0;
            snprintf(topo->objects[nic].nic.netdev, sizeof(topo->objects[nic].nic.netdev), "veth%d", k);
        }
    }
    place(topo, 4, NULL);
    assert_string_equal(machine_nics_text(topo), "mlx5_0 mlx5_251 mlx5_502 mlx5_753");
    assert_true(clock() - begin < 10 * CLOCKS_PER_SEC);
    ri_topo_destroy(topo);
}

/* Hosts of containers have hundreds of virtual interfaces.  To find out anew for each of them which is best takes
 * most of a minute here, once for all of a host a moment. */
static void hundreds_of_interfaces_are_no_burden(void **state)
{
    struct ri_topo *topo = ri_topo_create();
    clock_t start;

    for (int h = 0; h < 8; h++) {
        int32_t host = ri_topo_add(topo, RI_TOPO_HOST, -1, h);

        for (int k = 0; k < 300; k++) {
            int32_t at = ri_topo_add(topo, RI_TOPO_NIC, host, k);
            struct ri_topo_object *nic = &topo->objects[at];

            snprintf(nic->name, sizeof(nic->name), "veth%d", k);
            snprintf(nic->nic.netdev, sizeof(nic->nic.netdev), "veth%d", k);
            nic->nic.is_virtual = 1;
            nic->nic.gbps = 1.25;
        }
    }
    start = clock();
    place(topo, 64, NULL);
    assert_true(clock() - start < 3 * CLOCKS_PER_SEC);
    for (int r = 0; r < 64; r++) {
        char name[32];

        snprintf(name, sizeof(name), "veth%d", r % 8);
        assert_string_equal(topo->objects[topo->ranks[r].nic].name, name);
    }
    ri_topo_destroy(topo);
}

static void used_nics_are_those_that_are_not_left_out(void **state)
{
    int32_t host, second;
    struct ri_topo *topo = machine_add(NULL, 1, 1, 1, 3, &host);
    uint8_t used[64] = { 0 };

    machine_add(topo, 1, 1, 1, 2, &second);
    nic_of(topo, 1)->gbps = 3;
    assert_true(topo->object_count <= 64);
    assert_int_equal(ri_topo_used_nics(topo, host, NULL), 2);
    assert_int_equal(ri_topo_used_nics(topo, host, used), 2);
    for (int32_t i = 0; i < topo->object_count; i++)
        assert_int_equal(used[i], i < second && topo->objects[i].kind == RI_TOPO_NIC &&
                         ri_topo_nic_is_used(topo, i, NULL));
    ri_topo_destroy(topo);
}

static void numbers_in_names_are_numbers(void **state)
{
    assert_true(ri_topo_compare_names("mlx5_2", "mlx5_10") < 0);
    assert_true(ri_topo_compare_names("mlx5_10", "mlx5_2") > 0);
    assert_true(ri_topo_compare_names("eth1", "eth1") == 0);
    assert_true(ri_topo_compare_names("eth", "eth1") < 0);
    assert_true(ri_topo_compare_names("ib0", "eth0") > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_sit_on_gpus_of_their_host),
        cmocka_unit_test(gpus_go_by_number),
        cmocka_unit_test(without_gpus_enough_numa_nodes_are_filled_in_blocks),
        cmocka_unit_test(a_bare_host_holds_ranks_too),
        cmocka_unit_test(hosts_fill_one_by_one),
        cmocka_unit_test(a_place_can_be_said),
        cmocka_unit_test(four_adapters_serve_two_gpus_each),
        cmocka_unit_test(adapters_come_before_second_ports),
        cmocka_unit_test(ranks_without_near_nics_take_turns),
        cmocka_unit_test(who_can_choose_leaves_the_only_one),
        cmocka_unit_test(some_nics_are_left_out),
        cmocka_unit_test(hundreds_of_virtual_nics_take_no_time),
        cmocka_unit_test(hundreds_of_interfaces_are_no_burden),
        cmocka_unit_test(used_nics_are_those_that_are_not_left_out),
        cmocka_unit_test(numbers_in_names_are_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
