/* SPDX-License-Identifier: Apache-2.0 */
/* Sentences that the golden cases do not show. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "tests/topo/machines.h"

static void says(const struct ri_topo *topo, const char *sentence)
{
    char *text = ri_topo_explain(topo);

    assert_non_null(text);
    if (!strstr(text, sentence))
        fail_msg("\"%s\" is not in:\n%s", sentence, text);
    free(text);
}

static void says_that_there_is_nothing_to_say(void **state)
{
    struct ri_topo *topo = machine_add(NULL, 1, 1, 2, 1, NULL);

    says(topo, "no ranks are placed\n");
    assert_int_equal(ri_topo_place(topo, 1, NULL, NULL), 0);
    says(topo, "all ranks are on node0: no hop crosses hosts\nring of node0: 0, alone\n");
    ri_topo_destroy(topo);
}

/* Sockets in turn: a hop is as fast everywhere, but not as near. */
static void says_what_the_order_of_numbers_would_be(void **state)
{
    struct ri_topo *topo = machine_add(NULL, 2, 1, 4, 1, NULL);
    int32_t gpu;

    for (int g = 0; g < 8; g++) {
        gpu = ri_topo_find(topo, -1, RI_TOPO_GPU, g);
        topo->objects[gpu].number = g < 4 ? 2 * g : 2 * (g - 4) + 1;
    }
    assert_int_equal(ri_topo_place(topo, 8, NULL, NULL), 0);
    says(topo, "; in order of numbers it is the same, but all hops have 128 GB/s together, not 176\n");
    for (int g = 0; g < 8; g++)
        topo->objects[ri_topo_find(topo, -1, RI_TOPO_GPU, g)].link_gbps = 12;
    says(topo, "; in order of numbers it is the same, but all hops take 24 us together, not 15\n");
    ri_topo_destroy(topo);
}

static void says_that_a_large_ring_was_searched(void **state)
{
    struct ri_topo *topo = machine_add(NULL, 1, 1, 13, 1, NULL);

    assert_int_equal(ri_topo_place(topo, 13, NULL, NULL), 0);
    says(topo, "; no better order was found\n");
    ri_topo_destroy(topo);
}

static void says_which_nics_are_idle_and_why(void **state)
{
    struct ri_topo *topo = machine_add(NULL, 1, 1, 1, 2, NULL);
    int32_t first = ri_topo_find(topo, -1, RI_TOPO_NIC, 0), second = ri_topo_find(topo, -1, RI_TOPO_NIC, 1);

    assert_int_equal(ri_topo_place(topo, 1, NULL, NULL), 0);
    says(topo, "rank 0 on gpu 0: mlx5_0, PIX, 24 GB/s; as near: mlx5_1 (0 ranks)\n");
    says(topo, "mlx5_1 of node0 is spare: each rank has one that is nearer, or less used\n");
    strcpy(topo->objects[first].nic.unusable, "port is down");
    ri_topo_assign_nics(topo);
    says(topo, "rank 0 on gpu 0: mlx5_1, PIX, 24 GB/s; no other is as near\n");
    says(topo, "mlx5_0 of node0 is left out: port is down\n");
    strcpy(topo->objects[second].nic.unusable, "it has no address");
    ri_topo_assign_nics(topo);
    says(topo, "rank 0 on gpu 0: no NIC, as node0 has none that can be used\n");
    ri_topo_destroy(topo);
}

static void says_how_rails_were_told(void **state)
{
    struct ri_topo *topo = machine_add(NULL, 1, 2, 1, 1, NULL);

    machine_add(topo, 1, 2, 1, 1, NULL);
    for (int k = 0; k < 4; k++)
        strcpy(topo->objects[ri_topo_find(topo, -1, RI_TOPO_NIC, k)].nic.subnet, k % 3 ? "10.1.0.0/16" : "10.0.0.0/16");
    assert_int_equal(ri_topo_place(topo, 4, NULL, NULL), 0);
    says(topo, "2 rails between hosts, by subnet: 0 3 | 1 2\n");
    topo->objects[ri_topo_find(topo, -1, RI_TOPO_NIC, 0)].nic.subnet[0] = 0;
    says(topo, "2 rails between hosts, by the place of a NIC on its host: 0 2 | 1 3\n");
    ri_topo_destroy(topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_that_there_is_nothing_to_say),
        cmocka_unit_test(says_what_the_order_of_numbers_would_be),
        cmocka_unit_test(says_that_a_large_ring_was_searched),
        cmocka_unit_test(says_which_nics_are_idle_and_why),
        cmocka_unit_test(says_how_rails_were_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
