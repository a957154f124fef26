/* SPDX-License-Identifier: Apache-2.0 */
/* Which NICs rails take, and what the limit of locked memory means. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fake.h"
#include "topo/nic.h"

static struct ri_topo *cards_with_ports(int cards, int ports)
{
    struct ri_topo *topo = fake_host(0);

    for (int card = 0; card < cards; card++)
        for (int port = 1; port <= ports; port++) {
            int32_t at = ri_topo_add(topo, RI_TOPO_NIC, 0, -1);

            snprintf(topo->objects[at].nic.device, 32, "mlx5_%d", card);
            snprintf(topo->objects[at].nic.card, 40, "card%d", card);
            topo->objects[at].nic.port = port;
            topo->objects[at].nic.gbps = 25;
        }
    return topo;
}

static int distinct_cards(const struct ri_topo *topo, const int32_t *nics, int count)
{
    int distinct = 0;

    for (int i = 0; i < count; i++) {
        int first = 1;

        for (int j = 0; j < i; j++)
            first &= strcmp(topo->objects[nics[i]].nic.card, topo->objects[nics[j]].nic.card) != 0;
        distinct += first;
    }
    return distinct;
}

static void rails_take_adapters_before_ports(void **state)
{
    struct ri_topo *topo = cards_with_ports(8, 2);
    int32_t nics[16], slow;

    for (int most = 0; most <= 16; most++) {
        assert_int_equal(ri_topo_pick_rails(topo, 0, most, nics), most);
        assert_int_equal(distinct_cards(topo, nics, most), most < 8 ? most : 8);
    }
    /* Management, loopback and virtual interfaces do not join. */
    slow = ri_topo_add(topo, RI_TOPO_NIC, 0, -1);
    topo->objects[slow].nic.port = 1;
    topo->objects[slow].nic.gbps = 3.125;
    topo->objects[ri_topo_add(topo, RI_TOPO_NIC, 0, -1)].nic.is_loopback = 1;
    topo->objects[ri_topo_add(topo, RI_TOPO_NIC, 0, -1)].nic.is_virtual = 1;
    assert_int_equal(ri_topo_pick_rails(topo, 0, 16, nics), 16);
    assert_int_equal(nics[15], 16);
    ri_topo_destroy(topo);
}

static void virtual_rails_only_where_there_is_no_other(void **state)
{
    struct ri_topo *topo = cards_with_ports(2, 1);
    int32_t nics[4];

    topo->objects[1].nic.is_virtual = 1;
    assert_int_equal(ri_topo_pick_rails(topo, 0, 4, nics), 1);
    assert_int_equal(nics[0], 2);
    topo->objects[2].nic.is_loopback = 1;
    assert_int_equal(ri_topo_pick_rails(topo, 0, 4, nics), 1);
    assert_int_equal(nics[0], 1);
    ri_topo_destroy(topo);
}

static void locked_memory_matters_to_fabrics_alone(void **state)
{
    char text[512] = "x";

    ri_topo_memlock_text(65536, 0, text, sizeof(text));
    assert_string_equal(text, "");
    ri_topo_memlock_text(-1, 1, text, sizeof(text));
    assert_string_equal(text, "");
    ri_topo_memlock_text(65536, 1, text, sizeof(text));
    assert_non_null(strstr(text, "limit of locked memory (ulimit -l) is 64 KiB"));
    assert_non_null(strstr(text, "unlimited"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rails_take_adapters_before_ports),
        cmocka_unit_test(virtual_rails_only_where_there_is_no_other),
        cmocka_unit_test(locked_memory_matters_to_fabrics_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
