/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks stand in rings, rails and groups. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <rondo/status.h>
#include <stdio.h>
#include <string.h>

#include "tests/topo/machines.h"

enum { MOST = 64 };

static void ring_is(const struct ri_topo *topo, const char *expected)
{
    int32_t order[MOST];

    assert_int_equal(ri_topo_ring(topo, order), 0);
    assert_string_equal(machine_numbers_text(order, topo->rank_count), expected);
}

static void rails_are(const struct ri_topo *topo, int rails, const char *expected)
{
    int32_t rail[MOST];

    assert_int_equal(ri_topo_rails(topo, rail), rails);
    assert_string_equal(machine_numbers_text(rail, topo->rank_count), expected);
}

static void groups_are(const struct ri_topo *topo, int size, const char *expected)
{
    int32_t group[MOST];

    assert_int_equal(ri_topo_head_groups(topo, size, group), topo->rank_count / size);
    assert_string_equal(machine_numbers_text(group, topo->rank_count), expected);
}

static void place(struct ri_topo *topo, int ranks, const int32_t *host_of)
{
    assert_int_equal(ri_topo_place(topo, ranks, host_of, NULL), 0);
}

static void a_switch_of_links_keeps_the_natural_order(void **state)
{
    int32_t host;
    struct ri_topo *topo = machine_add(NULL, 2, 2, 2, 1, &host);

    machine_nvlinks(topo, host, 12);
    place(topo, 8, NULL);
    ring_is(topo, "0 1 2 3 4 5 6 7");
    ri_topo_destroy(topo);
}

/* GPUs numbered over the sockets in turn: the ring crosses between these twice only. */
static void a_ring_stays_on_its_socket(void **state)
{
    struct ri_topo *topo = machine_add(NULL, 2, 1, 4, 1, NULL);
    struct ri_topo_lanes lanes;

    for (int g = 0; g < 8; g++)
        topo->objects[ri_topo_find(topo, -1, RI_TOPO_GPU, g)].number = g < 4 ? 2 * g : 2 * (g - 4) + 1;
    place(topo, 8, NULL);
    ring_is(topo, "0 1 3 5 7 2 4 6");
    groups_are(topo, 4, "0 1 0 1 0 1 0 1");
    assert_int_equal(ri_topo_lanes(topo, NULL, &lanes), 0);
    assert_true(lanes.local_gbps == 16 && lanes.local_latency_us == 3);
    assert_true(lanes.host_gbps == 0 && lanes.host_latency_us == 0 && lanes.ranks_per_nic == 4);
    ri_topo_destroy(topo);
}

/* Eight GPUs with six links each, some pairs double. */
static void a_cube_mesh_goes_over_double_links(void **state)
{
    static const char links[8][9] = { "01122000", "10210200", "12020010", "21200001",
                                      "20000112", "02001021", "00101202", "00012120" };
    int32_t host;
    struct ri_topo *topo = machine_add(NULL, 2, 2, 2, 1, &host);

    for (int a = 0; a < 8; a++)
        for (int b = a + 1; b < 8; b++) {
            assert_int_equal(links[a][b], links[b][a]);
            if (links[a][b] > '0')
                ri_topo_link(topo, ri_topo_find(topo, host, RI_TOPO_GPU, a), ri_topo_find(topo, host, RI_TOPO_GPU, b),
                             RI_TOPO_NVLINK, links[a][b] - '0', 25.0 * (links[a][b] - '0'));
        }
    place(topo, 8, NULL);
    ring_is(topo, "0 3 2 1 5 6 7 4");
    groups_are(topo, 2, "0 1 1 0 2 3 3 2");
    ri_topo_destroy(topo);
}

static void sixteen_ranks_go_switch_by_switch(void **state)
{
    const int32_t numbers[] = { 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15 };
    struct ri_topo *topo = machine_add(NULL, 2, 2, 4, 1, NULL);

    for (int g = 0; g < 16; g++)
        topo->objects[ri_topo_find(topo, -1, RI_TOPO_GPU, g)].number = numbers[g];
    place(topo, 16, NULL);
    ring_is(topo, "0 4 8 12 1 5 9 13 2 6 10 14 3 7 11 15");
    groups_are(topo, 4, "0 1 2 3 0 1 2 3 0 1 2 3 0 1 2 3");
    ri_topo_destroy(topo);
}

static void hosts_follow_each_other(void **state)
{
    const int32_t dealt[] = { 1, 0, 1, 0, 1, 0, 1, 0 };
    struct ri_topo *topo = machine_add(NULL, 2, 1, 2, 2, NULL);
    struct ri_topo_lanes lanes;

    machine_add(topo, 2, 1, 2, 2, NULL);
    place(topo, 8, dealt);
    ring_is(topo, "0 2 4 6 1 3 5 7");
    rails_are(topo, 4, "0 0 1 1 2 2 3 3");
    groups_are(topo, 2, "0 1 0 1 2 3 2 3");
    groups_are(topo, 4, "0 1 0 1 0 1 0 1");
    assert_int_equal(ri_topo_lanes(topo, NULL, &lanes), 0);
    assert_true(lanes.local_gbps == 16 && lanes.host_gbps == 24 && lanes.host_latency_us == 5);
    assert_int_equal(lanes.ranks_per_nic, 1);
    ri_topo_destroy(topo);
}

static void uneven_hosts_have_as_many_rails_as_the_smallest(void **state)
{
    const int32_t three_two[] = { 0, 0, 0, 1, 1 }, four_two_one[] = { 0, 0, 0, 0, 1, 1, 2 };
    struct ri_topo *topo = machine_add(NULL, 1, 1, 4, 4, NULL);

    machine_add(topo, 1, 1, 4, 4, NULL);
    machine_add(topo, 1, 1, 4, 4, NULL);
    place(topo, 5, three_two);
    ring_is(topo, "0 1 2 3 4");
    rails_are(topo, 2, "0 1 0 0 1");
    groups_are(topo, 5, "0 0 0 0 0");
    place(topo, 7, four_two_one);
    ring_is(topo, "0 1 2 3 4 5 6");
    rails_are(topo, 1, "0 0 0 0 0 0 0");
    place(topo, 6, four_two_one);
    /* What is left over on two hosts makes one group. */
    groups_are(topo, 3, "0 0 0 1 1 1");
    ri_topo_destroy(topo);
}

static void a_rank_per_host_is_a_ring_of_hosts(void **state)
{
    const int32_t each[] = { 2, 1, 0 };
    struct ri_topo *topo = machine_add(NULL, 1, 1, 2, 1, NULL);
    struct ri_topo_lanes lanes;

    machine_add(topo, 1, 1, 2, 1, NULL);
    machine_add(topo, 1, 1, 2, 1, NULL);
    place(topo, 3, each);
    ring_is(topo, "0 1 2");
    rails_are(topo, 1, "0 0 0");
    groups_are(topo, 1, "0 1 2");
    groups_are(topo, 3, "0 0 0");
    assert_int_equal(ri_topo_lanes(topo, NULL, &lanes), 0);
    assert_true(lanes.local_gbps == 0 && lanes.local_latency_us == 0 && lanes.host_gbps == 24);
    ri_topo_destroy(topo);
}

static void subnets_tell_rails(void **state)
{
    struct ri_topo *topo = machine_add(NULL, 1, 2, 1, 1, NULL);

    machine_add(topo, 1, 2, 1, 1, NULL);
    for (int k = 0; k < 4; k++) {
        struct ri_topo_nic *nic = &topo->objects[ri_topo_find(topo, -1, RI_TOPO_NIC, k)].nic;

        /* Cabled crosswise: the first NIC of one host with the second of the other. */
        snprintf(nic->subnet, sizeof(nic->subnet), "10.%d.0.0/16", k == 0 || k == 3);
    }
    place(topo, 4, NULL);
    rails_are(topo, 2, "0 1 1 0");
    strcpy(topo->objects[ri_topo_find(topo, -1, RI_TOPO_NIC, 3)].nic.subnet, "10.7.0.0/16");
    rails_are(topo, 2, "0 1 0 1");
    ri_topo_destroy(topo);
}

static void shared_nics_are_one_rail(void **state)
{
    struct ri_topo *topo = machine_add(NULL, 2, 1, 2, 1, NULL);
    struct ri_topo_lanes lanes;

    machine_add(topo, 2, 1, 2, 1, NULL);
    place(topo, 8, NULL);
    rails_are(topo, 2, "0 0 1 1 0 0 1 1");
    topo->objects[ri_topo_find(topo, -1, RI_TOPO_NIC, 2)].nic.gbps = 10;
    topo->net_latency_us = 40;
    assert_int_equal(ri_topo_lanes(topo, NULL, &lanes), 0);
    assert_int_equal(lanes.ranks_per_nic, 2);
    assert_true(lanes.host_gbps == 10 && lanes.host_latency_us == 40);
    topo->objects[ri_topo_find(topo, -1, RI_TOPO_NIC, 2)].nic.gbps = 0;
    assert_int_equal(ri_topo_lanes(topo, NULL, &lanes), 0);
    assert_true(lanes.host_gbps == 0);
    ri_topo_destroy(topo);
}

static void lanes_take_the_order_that_is_there(void **state)
{
    const int32_t across[] = { 0, 2, 1, 3 };
    struct ri_topo *topo = machine_add(NULL, 2, 1, 2, 1, NULL);
    struct ri_topo_lanes found, given;
    int32_t order[4];

    place(topo, 4, NULL);
    assert_int_equal(ri_topo_ring(topo, order), 0);
    assert_int_equal(ri_topo_lanes(topo, NULL, &found), 0);
    assert_int_equal(ri_topo_lanes(topo, order, &given), 0);
    assert_true(found.local_gbps == given.local_gbps && found.local_latency_us == given.local_latency_us);
    /* The one link that is slower lies on this order, and not on the best. */
    ri_topo_link(topo, ri_topo_find(topo, -1, RI_TOPO_GPU, 0), ri_topo_find(topo, -1, RI_TOPO_GPU, 2),
                 RI_TOPO_NVLINK, 1, 2);
    assert_int_equal(ri_topo_lanes(topo, across, &given), 0);
    assert_true(given.local_gbps == 2);
    assert_int_equal(ri_topo_lanes(topo, NULL, &found), 0);
    assert_true(found.local_gbps == 16);
    ri_topo_destroy(topo);
}

static void groups_that_do_not_fit_are_refused(void **state)
{
    struct ri_topo *topo = machine_add(NULL, 1, 1, 6, 1, NULL);
    int32_t group[6];

    place(topo, 6, NULL);
    assert_int_equal(ri_topo_head_groups(topo, 4, group), RONDO_ERR_ARGUMENT);
    assert_int_equal(ri_topo_head_groups(topo, 0, group), RONDO_ERR_ARGUMENT);
    groups_are(topo, 6, "0 0 0 0 0 0");
    ri_topo_destroy(topo);
}

/* Worth is reckoned in 64 bits, which such numbers would run over. */
static void any_bandwidth_can_be_described(void **state)
{
    static const int fast[][2] = { { 0, 2 }, { 1, 2 }, { 1, 3 }, { 0, 3 } };
    int32_t host, order[256], group[256];
    struct ri_topo *topo = machine_add(NULL, 1, 1, 4, 1, &host);

    for (int i = 0; i < 4; i++)
        ri_topo_link(topo, ri_topo_find(topo, host, RI_TOPO_GPU, fast[i][0]),
                     ri_topo_find(topo, host, RI_TOPO_GPU, fast[i][1]), RI_TOPO_NVLINK, 1, 5e8);
    place(topo, 4, NULL);
    ring_is(topo, "0 2 1 3");
    groups_are(topo, 2, "0 1 0 1");
    ri_topo_destroy(topo);

    assert_int_equal(ri_topo_from_text("host:1 gpu:256 nvlink:1000000", &topo), 0);
    place(topo, 256, NULL);
    assert_int_equal(ri_topo_ring(topo, order), 0);
    assert_int_equal(ri_topo_head_groups(topo, 128, group), 2);
    for (int r = 0; r < 256; r++) {
        assert_int_equal(order[r], r);
        assert_int_equal(group[r], r / 128);
    }
    ri_topo_destroy(topo);
}

static void no_ranks_are_no_trouble(void **state)
{
    struct ri_topo *topo = machine_add(NULL, 1, 1, 2, 1, NULL);
    struct ri_topo_lanes lanes;
    int32_t none[1] = { 7 };

    assert_int_equal(ri_topo_ring(topo, none), 0);
    assert_int_equal(ri_topo_head_groups(topo, 2, none), 0);
    assert_int_equal(ri_topo_lanes(topo, NULL, &lanes), 0);
    assert_int_equal(lanes.ranks_per_nic, 1);
    assert_int_equal(none[0], 7);
    ri_topo_destroy(topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_switch_of_links_keeps_the_natural_order),
        cmocka_unit_test(a_ring_stays_on_its_socket),
        cmocka_unit_test(a_cube_mesh_goes_over_double_links),
        cmocka_unit_test(sixteen_ranks_go_switch_by_switch),
        cmocka_unit_test(hosts_follow_each_other),
        cmocka_unit_test(uneven_hosts_have_as_many_rails_as_the_smallest),
        cmocka_unit_test(a_rank_per_host_is_a_ring_of_hosts),
        cmocka_unit_test(subnets_tell_rails),
        cmocka_unit_test(shared_nics_are_one_rail),
        cmocka_unit_test(lanes_take_the_order_that_is_there),
        cmocka_unit_test(groups_that_do_not_fit_are_refused),
        cmocka_unit_test(any_bandwidth_can_be_described),
        cmocka_unit_test(no_ranks_are_no_trouble),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
