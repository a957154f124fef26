/* SPDX-License-Identifier: Apache-2.0 */
/* Network adapters that are not what they look like at first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fake_nics.h"
#include "topo/nic.h"

/* A port of InfiniBand is as good with its IPoIB interface in a bond. */
static void bonds_of_ipoib_leave_ports_alone(void **state)
{
    struct fake fake;
    struct ri_topo *topo;
    int32_t rails[4];

    (void)state;
    fake_make(&fake);
    fake_device(&fake, "mlx5_0", PCI_A, "b859:9f03:00ad:0001", 0);
    fake_device(&fake, "mlx5_1", PCI_B, "b859:9f03:00ad:0002", 0);
    fake_port(&fake, "mlx5_0", 1, "InfiniBand", "4: ACTIVE", "0x1");
    fake_port(&fake, "mlx5_1", 1, "InfiniBand", "4: ACTIVE", "0x2");
    fake_interface(&fake, "ib0", PCI_A, "32", "200000", "up");
    fake_interface(&fake, "ib1", PCI_B, "32", "200000", "up");
    fake_interface(&fake, "bond0", NULL, "32", "200000", "up");
    fake_file(&fake, "ib0 ib1", "/sys/class/net/bond0/bonding/slaves");
    fake_file(&fake, "active-backup 1", "/sys/class/net/bond0/bonding/mode");
    fake_link(&fake, "/sys/class/net/bond0", "/sys/class/net/ib0/master");
    fake_link(&fake, "/sys/class/net/bond0", "/sys/class/net/ib1/master");
    topo = fake_nics(&fake, 1, NULL);
    assert_string_equal(fake_object(topo, "mlx5_1")->nic.netdev, "ib1");
    assert_false(fake_object(topo, "bond0")->nic.is_virtual);
    assert_int_equal(ri_topo_pick_rails(topo, 0, 4, rails), 2);
    assert_string_equal(topo->objects[rails[0]].name, "mlx5_0");
    assert_string_equal(topo->objects[rails[1]].name, "mlx5_1");
    ri_topo_destroy(topo);
    fake_remove(&fake);
}

/* /sys shows RDMA devices of all network namespaces, and interfaces of ours. */
static void interfaces_of_other_namespaces_are_not_taken(void **state)
{
    static const char *const netdevs[] = { "eth0", "ens1f0", "bond0", "eth3" };
    struct fake fake;
    struct ri_topo *topo;

    (void)state;
    fake_make(&fake);
    fake_interface(&fake, "eth0", NULL, "1", "10000", "up"); /* our end of a pair */
    fake_interface(&fake, "bond0", NULL, "1", "-1", "up");
    fake_file(&fake, "eth7 eth8", "/sys/class/net/bond0/bonding/slaves");
    for (int i = 0; i < 4; i++) {
        char name[16], pci[96], image[32];

        snprintf(name, sizeof(name), "mlx5_%d", i);
        snprintf(pci, sizeof(pci), "/sys/devices/pci0000:%d0/0000:%d0:01.0/0000:%d1:00.0", i + 1, i + 1, i + 1);
        snprintf(image, sizeof(image), "b859:9f03:00ad:%04d", i);
        fake_device(&fake, name, pci, image, 0);
        fake_port(&fake, name, 1, "Ethernet", "4: ACTIVE", "0x0");
        fake_gid(&fake, name, 0, "fe80:0000:0000:0000:0a00:27ff:fe00:0001", "RoCE v2", netdevs[i]);
    }
    fake_interface(&fake, "eth3", "/sys/devices/pci0000:40/0000:40:01.0/0000:41:00.0", "1", "200000", "up");
    topo = fake_nics(&fake, 1, NULL);
    assert_string_equal(fake_object(topo, "mlx5_0")->nic.netdev, "");
    assert_string_equal(fake_object(topo, "mlx5_1")->nic.netdev, "");
    assert_string_equal(fake_object(topo, "mlx5_2")->nic.netdev, "bond0");
    assert_string_equal(fake_object(topo, "mlx5_3")->nic.netdev, "eth3");
    assert_true(fake_object(topo, "eth0")->nic.is_virtual);
    ri_topo_destroy(topo);
    fake_remove(&fake);
}

/* Their kinds of RDMA are not ours, though libraries know them. */
static void iwarp_and_efa_are_not_used(void **state)
{
    static const char *notes[][2] = { { "verbs", "listed 2\nopen iw0 1\nport iw0 1 4 2 0 1024 12.5\nopen rdmap0s6 1\n"
                                                 "port rdmap0s6 1 4 0 0 4096 12.5\n" }, { NULL, NULL } };
    struct fake fake;
    struct ri_topo *topo;

    (void)state;
    fake_make(&fake);
    fake_device(&fake, "iw0", PCI_A, "b859:9f03:00ad:0001", 0);
    fake_device(&fake, "rdmap0s6", PCI_B, "0000:0000:0000:0000", 0);
    fake_file(&fake, "4: RNIC", "/sys/class/infiniband/iw0/node_type");
    fake_file(&fake, "7: unspecified", "/sys/class/infiniband/rdmap0s6/node_type");
    fake_port(&fake, "iw0", 1, "Ethernet", "4: ACTIVE", "0x0");
    fake_port(&fake, "rdmap0s6", 1, "Unspecified", "4: ACTIVE", "0x0");
    topo = fake_nics(&fake, 1, notes);
    assert_int_equal(ri_topo_count(topo, 0, RI_TOPO_NIC), 2);
    assert_non_null(strstr(fake_object(topo, "iw0")->nic.unusable, "iWARP"));
    assert_non_null(strstr(fake_object(topo, "rdmap0s6")->nic.unusable, "EFA"));
    assert_int_equal(fake_object(topo, "rdmap0s6")->nic.port, 0);
    ri_topo_destroy(topo);
    fake_remove(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bonds_of_ipoib_leave_ports_alone),
        cmocka_unit_test(interfaces_of_other_namespaces_are_not_taken),
        cmocka_unit_test(iwarp_and_efa_are_not_used),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
