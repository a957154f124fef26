/* SPDX-License-Identifier: Apache-2.0 */
/* When ranks may be held to the NICs that they were assigned. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "topo/topo.h"

struct row {
    const char *what;
    const char *host[2]; /* a NIC each letter: its subnet by Ethernet, - unknown; i, j InfiniBand and r, s RoCE of two
                          * networks */
    int reaches;
};

static void add_nic(struct ri_topo *topo, int32_t host, char kind)
{
    int32_t at = ri_topo_add(topo, RI_TOPO_NIC, host, -1);
    struct ri_topo_nic *nic = &topo->objects[at].nic;

    nic->layer = kind == 'i' || kind == 'j' ? RI_TOPO_INFINIBAND : RI_TOPO_ETHERNET;
    nic->state = RI_TOPO_ACTIVE;
    if (kind == 'i' || kind == 'j' || kind == 'r' || kind == 's')
        strcpy(nic->device, "mlx5_0");
    if (kind != '-' && kind != 'i')
        nic->subnet[0] = kind;
}

/* A rank for each NIC, which it has. */
static int reach_of(const struct row *row)
{
    static struct ri_topo_rank ranks[16];
    struct ri_topo *topo = ri_topo_create();
    int count = 0, reaches;

    for (int h = 0; h < 2; h++) {
        int32_t host = ri_topo_add(topo, RI_TOPO_HOST, -1, h);

        for (const char *kind = row->host[h]; *kind; kind++) {
            add_nic(topo, host, *kind);
            ranks[count].object = host;
            ranks[count++].nic = *kind == ' ' ? -1 : topo->object_count - 1;
        }
    }
    assert_int_equal(topo->error, 0);
    topo->ranks = ranks;
    topo->rank_count = count;
    reaches = ri_topo_nics_reach(topo);
    topo->ranks = NULL;
    ri_topo_destroy(topo);
    return reaches;
}

static void nics_reach_each_other_or_not(void **state)
{
    static const struct row rows[] = {
        { "one network", { "AA", "AA" }, 1 },
        { "a rail each", { "AB", "AB" }, 1 },
        { "rails in another order, one used twice", { "AB", "BAB" }, 1 },
        { "a rail that one host is not on", { "AB", "AA" }, 0 },
        { "networks that do not meet", { "A", "B" }, 0 },
        { "addresses unknown", { "-", "-" }, 0 },
        { "a rank without a NIC", { "A", "A " }, 0 },
        { "InfiniBand", { "ii", "i" }, 1 },
        { "RoCE", { "rr", "rr" }, 1 },
        { "two networks of InfiniBand", { "ij", "ij" }, 0 },
        { "two networks of RoCE", { "rs", "rs" }, 0 },
        { "InfiniBand here, RoCE there", { "i", "r" }, 0 },
        { "RDMA here, Ethernet there", { "r", "A" }, 0 },
        { "nobody", { "", "" }, 0 },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (reach_of(&rows[i]) != rows[i].reaches)
            fail_msg("%s: %d", rows[i].what, !rows[i].reaches);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(nics_reach_each_other_or_not) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
