/* SPDX-License-Identifier: Apache-2.0 */
/* Network adapters, read from folders that stand for machines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fake_nics.h"
#include "topo/find.h"
#include "topo/nic.h"

static int32_t numa_above(const struct ri_topo *topo, const char *name)
{
    int32_t numa = ri_topo_above(topo, (int32_t)(fake_object(topo, name) - topo->objects), RI_TOPO_NUMA);

    return numa < 0 ? -1 : topo->objects[numa].number;
}

/* ---- machines ---- */

static void four_adapters_on_two_nodes(void **state)
{
    struct fake fake;
    struct ri_topo *topo;
    const struct ri_topo_object *nic;

    fake_make(&fake);
    for (int i = 0; i < 4; i++) {
        char name[16], pci[96], image[32];

        snprintf(name, sizeof(name), "mlx5_%d", i);
        snprintf(pci, sizeof(pci), "/sys/devices/pci0000:%d0/0000:%d0:01.0/0000:%d1:00.0", i + 1, i + 1, i + 1);
        snprintf(image, sizeof(image), "b859:9f03:00ad:%04d", i);
        fake_device(&fake, name, pci, image, i / 2);
        fake_port(&fake, name, 1, "InfiniBand", "4: ACTIVE", "0x1a");
    }
    fake_file(&fake, "8", "/sys/devices/pci0000:40/0000:40:01.0/0000:41:00.0/current_link_width");
    topo = fake_nics(&fake, 2, NULL);
    assert_int_equal(ri_topo_count(topo, 0, RI_TOPO_NIC), 4);
    assert_int_equal(numa_above(topo, "mlx5_0"), 0);
    assert_int_equal(numa_above(topo, "mlx5_1"), 0);
    assert_int_equal(numa_above(topo, "mlx5_2"), 1);
    nic = fake_object(topo, "mlx5_3");
    assert_int_equal(numa_above(topo, "mlx5_3"), 1);
    assert_string_equal(nic->pci, "0000:41:00.0");
    assert_string_equal(topo->objects[nic->parent].pci, "0000:40:01.0");
    assert_int_equal(topo->objects[nic->parent].kind, RI_TOPO_BRIDGE);
    assert_string_equal(topo->objects[topo->objects[nic->parent].parent].pci, "0000:40");
    assert_string_equal(nic->model, "MT4123 fw 20.31.1014");
    assert_int_equal(nic->nic.layer, RI_TOPO_INFINIBAND);
    assert_int_equal(nic->nic.state, RI_TOPO_ACTIVE);
    assert_int_equal(nic->nic.port, 1);
    assert_int_equal(nic->nic.lid, 26);
    assert_int_equal(nic->nic.gid_index, -1);
    assert_true(nic->nic.gbps == 25);
    assert_string_equal(nic->nic.subnet, "fe80:0000:0000:0000");
    assert_string_equal(nic->nic.card, "b859:9f03:00ad:0003");
    assert_string_equal(nic->nic.unusable, "");
    assert_float_equal(nic->link_gbps, 15.75, 0.01);
    assert_float_equal(nic->full_gbps, 31.5, 0.02);
    assert_true(fake_object(topo, "mlx5_2")->full_gbps == 0);
    assert_null(topo->notices);
    ri_topo_destroy(topo);
    fake_remove(&fake);
}

static void roce_and_its_interface_are_one(void **state)
{
    static const char *notes[][2] = { { "addresses/eth0", "10.77.0.5/24\nfe80::1/64\n" }, { NULL, NULL } };
    struct fake fake;
    struct ri_topo *topo;
    const struct ri_topo_nic *nic;

    fake_make(&fake);
    fake_device(&fake, "mlx5_0", PCI_A, "b859:9f03:00ad:0000", 0);
    fake_port(&fake, "mlx5_0", 1, "Ethernet", "4: ACTIVE", "0x1");
    fake_gid(&fake, "mlx5_0", 0, "fe80:0000:0000:0000:0a00:27ff:fe00:0001", "IB/RoCE v1", "eth0");
    fake_gid(&fake, "mlx5_0", 1, "fe80:0000:0000:0000:0a00:27ff:fe00:0001", "RoCE v2", "eth0");
    fake_gid(&fake, "mlx5_0", 2, "0000:0000:0000:0000:0000:ffff:0a4d:0005", "IB/RoCE v1", "eth0");
    fake_gid(&fake, "mlx5_0", 3, "0000:0000:0000:0000:0000:ffff:0a4d:0005", "RoCE v2", "eth0");
    fake_interface(&fake, "eth0", PCI_A, "1", "200000", "up");
    topo = fake_nics(&fake, 2, notes);
    assert_int_equal(ri_topo_count(topo, 0, RI_TOPO_NIC), 1);
    nic = &fake_object(topo, "mlx5_0")->nic;
    assert_string_equal(nic->netdev, "eth0");
    assert_string_equal(nic->subnet, "10.77.0.0/24");
    assert_int_equal(nic->gid_index, 3);
    assert_int_equal(nic->layer, RI_TOPO_ETHERNET);
    assert_int_equal(nic->lid, 1);
    assert_int_equal(nic->mtu, 9000);
    assert_false(nic->is_virtual);
    assert_string_equal(nic->unusable, "");
    ri_topo_destroy(topo);
    fake_remove(&fake);
}

static void two_ports_of_one_function(void **state)
{
    struct fake fake;
    struct ri_topo *topo;

    fake_make(&fake);
    fake_device(&fake, "mlx4_0", PCI_A, "0002:c903:0000:0003", 0);
    fake_port(&fake, "mlx4_0", 1, "InfiniBand", "4: ACTIVE", "0x7");
    fake_port(&fake, "mlx4_0", 2, "Ethernet", "4: ACTIVE", "0x0");
    fake_interface(&fake, "ib0", PCI_A, "32", "-1", "up");
    fake_interface(&fake, "ib0.8001", PCI_A, "32", "-1", "up");
    fake_interface(&fake, "eth2", PCI_A, "1", "40000", "up");
    fake_file(&fake, "1", "/sys/class/net/eth2/dev_port");
    topo = fake_nics(&fake, 1, NULL);
    assert_int_equal(ri_topo_count(topo, 0, RI_TOPO_NIC), 3);
    assert_string_equal(fake_object(topo, "mlx4_0")->nic.netdev, "ib0");
    assert_string_equal(fake_object(topo, "mlx4_0:2")->nic.netdev, "eth2");
    assert_int_equal(fake_object(topo, "mlx4_0:2")->nic.port, 2);
    assert_string_equal(fake_object(topo, "mlx4_0")->nic.card, fake_object(topo, "mlx4_0:2")->nic.card);
    assert_true(fake_object(topo, "ib0.8001")->nic.is_virtual);
    ri_topo_destroy(topo);
    fake_remove(&fake);
}

static void only_active_ports_are_used(void **state)
{
    static const struct {
        const char *state, *layer, *lid, *unusable;
        enum ri_topo_state is;
    } ports[] = {
        { "1: DOWN", "InfiniBand", "0x0", "port is down", RI_TOPO_DOWN },
        { "2: INIT", "InfiniBand", "0x0", "port is in state INIT: is a subnet manager running?", RI_TOPO_INIT },
        { "3: ARMED", "InfiniBand", "0x3", "port is in state ARMED: the subnet manager has not activated it yet",
          RI_TOPO_ARMED },
        { "4: ACTIVE", "InfiniBand", "0x3", "", RI_TOPO_ACTIVE },
        { "5: ACTIVE_DEFER", "InfiniBand", "0x3", "", RI_TOPO_ACTIVE },
        { "4: ACTIVE", "InfiniBand", "0x0", "no LID yet: is a subnet manager running?", RI_TOPO_ACTIVE },
        { "4: ACTIVE", "Ethernet", "0x0", "", RI_TOPO_ACTIVE },
        { "4: ACTIVE", "Ethernet", "0x1", "", RI_TOPO_ACTIVE },
        { "", "Ethernet", "0x1", "state of the port is unknown", RI_TOPO_STATE_UNKNOWN },
    };
    const int count = (int)(sizeof(ports) / sizeof(ports[0]));
    struct fake fake;
    struct ri_topo *topo;
    int32_t rails[16];

    fake_make(&fake);
    for (int i = 0; i < count; i++) {
        char name[16], image[32];

        snprintf(name, sizeof(name), "mlx5_%d", i);
        snprintf(image, sizeof(image), "b859:9f03:00ad:%04d", i);
        fake_file(&fake, image, "/sys/class/infiniband/%s/sys_image_guid", name);
        fake_port(&fake, name, 1, ports[i].layer, ports[i].state, ports[i].lid);
    }
    topo = fake_nics(&fake, 0, NULL);
    for (int i = 0; i < count; i++) {
        const struct ri_topo_nic *nic = &topo->objects[ri_topo_find(topo, 0, RI_TOPO_NIC, i)].nic;

        assert_string_equal(nic->unusable, ports[i].unusable);
        assert_int_equal(nic->state, ports[i].is);
        assert_true((nic->gbps > 0) == (nic->state != RI_TOPO_DOWN));
        assert_int_equal(nic->gid_index, strcmp(ports[i].layer, "Ethernet") == 0 ? 0 : -1);
    }
    assert_int_equal(ri_topo_pick_rails(topo, 0, 16, rails), 4);
    /* All down: nothing is used. */
    for (int i = 0; i < count; i++)
        snprintf(topo->objects[ri_topo_find(topo, 0, RI_TOPO_NIC, i)].nic.unusable, 8, "down");
    assert_int_equal(ri_topo_pick_rails(topo, 0, 16, rails), 0);
    ri_topo_destroy(topo);
    fake_remove(&fake);
}

static void a_node_that_is_unknown_is_no_node(void **state)
{
    static const int nodes[] = { -1, 0, 7 };
    struct fake fake;
    struct ri_topo *topo;

    fake_make(&fake);
    for (int i = 0; i < 3; i++) {
        char name[16], pci[96];

        snprintf(name, sizeof(name), "mlx5_%d", i);
        snprintf(pci, sizeof(pci), "/sys/devices/pci0000:%d0/0000:%d0:01.0", i + 1, i + 1);
        fake_device(&fake, name, pci, "0000:0000:0000:0000", nodes[i]);
        fake_port(&fake, name, 1, "InfiniBand", "4: ACTIVE", "0x1");
    }
    topo = fake_nics(&fake, 2, NULL);
    assert_int_equal(numa_above(topo, "mlx5_0"), -1);
    assert_int_equal(numa_above(topo, "mlx5_1"), 0);
    assert_int_equal(numa_above(topo, "mlx5_2"), -1);
    assert_string_equal(fake_object(topo, "mlx5_2")->nic.card, "0000:30:01");
    ri_topo_destroy(topo);
    fake_remove(&fake);
}

static void bonds_stand_where_their_members_do(void **state)
{
    static const char *notes[][2] = { { "addresses/bond0", "fd00:77::5/64\n" }, { NULL, NULL } };
    struct fake fake;
    struct ri_topo *topo;
    const struct ri_topo_object *bond;

    fake_make(&fake);
    fake_pci(&fake, PCI_A, "0x020000", "0x8086", 0);
    fake_pci(&fake, PCI_A1, "0x020000", "0x8086", 0);
    fake_file(&fake, "eth0 eth1", "/sys/class/net/bonding_masters");
    fake_interface(&fake, "bond0", NULL, "1", "-1", "up");
    fake_file(&fake, "eth0 eth1", "/sys/class/net/bond0/bonding/slaves");
    fake_file(&fake, "802.3ad 4", "/sys/class/net/bond0/bonding/mode");
    fake_interface(&fake, "eth0", PCI_A, "1", "25000", "up");
    fake_interface(&fake, "eth1", PCI_A1, "1", "25000", "up");
    fake_link(&fake, "/sys/class/net/bond0", "/sys/class/net/eth0/master");
    fake_link(&fake, "/sys/class/net/bond0", "/sys/class/net/eth1/master");
    topo = fake_nics(&fake, 1, notes);
    assert_int_equal(ri_topo_count(topo, 0, RI_TOPO_NIC), 3);
    bond = fake_object(topo, "bond0");
    assert_true(bond->nic.gbps == 6.25);
    assert_false(bond->nic.is_virtual);
    assert_string_equal(bond->nic.subnet, "fd00:77::/64");
    assert_string_equal(topo->objects[bond->parent].pci, "0000:16:02.0");
    assert_string_equal(fake_object(topo, "eth1")->nic.bond, "bond0");
    assert_string_equal(fake_object(topo, "eth1")->nic.unusable, "member of bond0");
    assert_string_equal(fake_object(topo, "eth1")->nic.card, "0000:17:00");
    ri_topo_destroy(topo);
    fake_remove(&fake);
}

static void virtual_ones_are_told_apart(void **state)
{
    struct fake fake;
    struct ri_topo *topo;

    fake_make(&fake);
    fake_pci(&fake, PCI_A, "0x020000", "0x15b3", 0);
    fake_pci(&fake, PCI_B, "0x020000", "0x15b3", 1);
    fake_link(&fake, PCI_A, PCI_B "/physfn");
    fake_interface(&fake, "lo", NULL, "772", "-1", "unknown");
    fake_interface(&fake, "veth1", NULL, "1", "10000", "up");
    fake_interface(&fake, "docker0", NULL, "1", "10000", "up");
    fake_interface(&fake, "ifb0", NULL, "1", "-1", "down");
    fake_interface(&fake, "eth0", PCI_A, "1", "100000", "up");
    fake_interface(&fake, "eth1", PCI_A, "1", "100000", "down");
    fake_interface(&fake, "eth2", PCI_B, "1", "100000", "up");
    fake_interface(&fake, "eth3", PCI_A, "1", "100000", "up");
    fake_file(&fake, "pf0vf1", "/sys/class/net/eth3/phys_port_name");
    fake_file(&fake, "8000.024200000000", "/sys/class/net/docker0/bridge/bridge_id");
    fake_link(&fake, "/sys/class/net/docker0", "/sys/class/net/veth1/master");
    fake_file(&fake, "1", "/sys/class/net/lo/carrier");
    topo = fake_nics(&fake, 2, NULL);
    assert_true(fake_object(topo, "lo")->nic.is_loopback);
    assert_int_equal(fake_object(topo, "lo")->parent, 0);
    assert_true(fake_object(topo, "veth1")->nic.is_virtual);
    assert_string_equal(fake_object(topo, "veth1")->nic.unusable, "port of the bridge docker0");
    assert_true(fake_object(topo, "docker0")->nic.is_virtual);
    assert_true(fake_object(topo, "docker0")->nic.gbps == 0);
    assert_false(fake_has(topo, "ifb0"));
    assert_false(fake_object(topo, "eth0")->nic.is_virtual);
    assert_true(fake_object(topo, "eth0")->nic.gbps == 12.5);
    assert_string_equal(fake_object(topo, "eth1")->nic.unusable, "interface is down");
    assert_true(fake_object(topo, "eth2")->nic.is_virtual);
    assert_string_equal(fake_object(topo, "eth2")->nic.card, "0000:17:00");
    assert_true(fake_object(topo, "eth3")->nic.is_virtual);
    ri_topo_destroy(topo);
    fake_remove(&fake);
}

static void what_a_library_found_is_filled_in(void **state)
{
    struct fake fake;
    struct ri_topo *topo = fake_host(2);
    struct ri_source *source;
    int32_t root, bridge, nic, unnamed;

    root = ri_topo_add(topo, RI_TOPO_ROOT, 1, -1);
    strcpy(topo->objects[root].pci, "0000:16");
    bridge = ri_topo_add(topo, RI_TOPO_BRIDGE, root, -1);
    strcpy(topo->objects[bridge].pci, "0000:16:02.0");
    nic = ri_topo_add(topo, RI_TOPO_NIC, bridge, -1);
    strcpy(topo->objects[nic].name, "mlx5_0");
    strcpy(topo->objects[nic].pci, "0000:17:00.0");
    strcpy(topo->objects[nic].model, "ConnectX-6");
    unnamed = ri_topo_add(topo, RI_TOPO_NIC, 2, -1);
    strcpy(topo->objects[unnamed].pci, "0000:65:00.0");
    fake_make(&fake);
    fake_device(&fake, "mlx5_0", PCI_A, "b859:9f03:00ad:0000", 0);
    fake_port(&fake, "mlx5_0", 1, "InfiniBand", "4: ACTIVE", "0x1");
    fake_device(&fake, "mlx5_1", PCI_A1, "b859:9f03:00ad:0000", 0);
    fake_port(&fake, "mlx5_1", 1, "InfiniBand", "1: DOWN", "0x0");
    fake_pci(&fake, PCI_B, "0x020000", "0x15b3", 1);
    fake_interface(&fake, "eth0", PCI_B, "1", "100000", "up");
    source = ri_source_open(fake.root);
    ri_topo_add_nics(source, topo, 0);
    ri_source_close(source);
    assert_int_equal(ri_topo_count(topo, 0, RI_TOPO_NIC), 3);
    assert_int_equal(ri_topo_count(topo, 0, RI_TOPO_BRIDGE), 1);
    assert_true(topo->objects[nic].nic.gbps == 25);
    assert_string_equal(topo->objects[nic].model, "ConnectX-6");
    assert_string_equal(topo->objects[unnamed].name, "eth0");
    assert_int_equal(fake_object(topo, "mlx5_1")->parent, bridge);
    assert_string_equal(fake_object(topo, "mlx5_1")->nic.card, topo->objects[nic].nic.card);
    ri_topo_destroy(topo);
    fake_remove(&fake);
}

static void a_file_that_cannot_be_read_is_one_notice(void **state)
{
    struct fake fake;
    struct ri_topo *topo;

    fake_make(&fake);
    fake_device(&fake, "mlx5_0", PCI_A, "b859:9f03:00ad:0000", 0);
    fake_port(&fake, "mlx5_0", 1, "InfiniBand", "4: ACTIVE", "0x1");
    fake_device(&fake, "mlx5_1", PCI_B, "b859:9f03:00ad:0001", 0);
    /* Folders where files should be: nobody can read them, root neither. */
    fake_folder(&fake, "/sys/class/infiniband/mlx5_1/ports/1/rate");
    fake_folder(&fake, "/sys/class/infiniband/mlx5_1/ports/1/lid");
    fake_file(&fake, "4: ACTIVE", "/sys/class/infiniband/mlx5_1/ports/1/state");
    fake_file(&fake, "InfiniBand", "/sys/class/infiniband/mlx5_1/ports/1/link_layer");
    topo = fake_nics(&fake, 1, NULL);
    assert_true(fake_object(topo, "mlx5_0")->nic.gbps == 25);
    assert_true(fake_object(topo, "mlx5_1")->nic.gbps == 0);
    assert_string_equal(fake_object(topo, "mlx5_1")->nic.unusable, "");
    assert_non_null(topo->notices);
    assert_non_null(strstr(topo->notices, "2 files of network adapters cannot be read, first "
                                          "/sys/class/infiniband/mlx5_1/ports/1/rate: "));
    assert_ptr_equal(strchr(topo->notices, '\n') + 1, topo->notices + strlen(topo->notices));
    ri_topo_destroy(topo);
    fake_remove(&fake);
}

static void no_folders_are_no_adapters(void **state)
{
    struct fake fake;
    struct ri_topo *topo;

    fake_make(&fake);
    topo = fake_nics(&fake, 1, NULL);
    assert_int_equal(topo->object_count, 2);
    assert_null(topo->notices);
    ri_topo_destroy(topo);
    fake_remove(&fake);
}

static void networks_of_addresses(void **state)
{
    static const char *const cases[][2] = {
        { "", "" },
        { "10.77.0.5/24\n", "10.77.0.0/24" },
        { "169.254.3.4/16\nfe80::1/64\n", "" },
        { "fd00:1::5/64\n192.168.7.9/22\n", "192.168.4.0/22" },
        { "fe80::1/64\n2001:db8:1:2:3::1/64\n", "2001:db8:1:2::/64" },
        { "10.1.2.3/32\n", "" },
        { "10.1.2.3/31\n10.9.8.7/16\n", "10.9.0.0/16" },
        { "127.0.0.1/8\n::1/128\n", "" },
        { "10.1.2.3\n10.1.2.3/\n10.1.2.3/x\n/24\nabc/24\n10.1.2.3/-1\n10.1.2.3/99", "" },
    };
    char subnet[48];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ri_netdev_subnet(cases[i][0], subnet);
        assert_string_equal(subnet, cases[i][1]);
    }
}

static void rates_are_read(void **state)
{
    assert_true(ri_rdma_rate("200 Gb/sec (4X HDR)") == 25);
    assert_true(ri_rdma_rate("2.5 Gb/sec (1X SDR)") == 0.3125);
    assert_true(ri_rdma_rate("") == 0);
    assert_true(ri_rdma_rate("200") == 0);
    assert_true(ri_rdma_rate("-200 Gb/sec") == 0);
    assert_true(ri_rdma_rate("nan Gb/sec") == 0);
    assert_true(ri_rdma_rate("1e300 Gb/sec") == 0);
    assert_float_equal(ri_pci_gbps("16.0 GT/s PCIe", "16"), 31.5, 0.02);
    assert_float_equal(ri_pci_gbps("2.5 GT/s", "1"), 0.25, 1e-9);
    assert_float_equal(ri_pci_gbps("32.0 GT/s PCIe", "16"), 63, 0.02);
    assert_true(ri_pci_gbps("Unknown", "16") == 0);
    assert_true(ri_pci_gbps("16.0 GT/s PCIe", "0") == 0);
    assert_true(ri_pci_gbps("nan", "nan") == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_adapters_on_two_nodes),
        cmocka_unit_test(roce_and_its_interface_are_one),
        cmocka_unit_test(two_ports_of_one_function),
        cmocka_unit_test(only_active_ports_are_used),
        cmocka_unit_test(a_node_that_is_unknown_is_no_node),
        cmocka_unit_test(bonds_stand_where_their_members_do),
        cmocka_unit_test(virtual_ones_are_told_apart),
        cmocka_unit_test(what_a_library_found_is_filled_in),
        cmocka_unit_test(a_file_that_cannot_be_read_is_one_notice),
        cmocka_unit_test(no_folders_are_no_adapters),
        cmocka_unit_test(networks_of_addresses),
        cmocka_unit_test(rates_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
