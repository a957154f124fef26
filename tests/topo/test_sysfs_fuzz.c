/* SPDX-License-Identifier: Apache-2.0 */
/* Files of /sys with anything in them: less is known, and nothing breaks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "fake.h"
#include "topo/find.h"
#include "topo/nic.h"

#define PCI "/sys/devices/pci0000:16/0000:16:02.0/0000:17:00.0"
#define GPU "/sys/devices/pci0000:16/0000:16:02.0/0000:18:00.0"
#define PORT "/sys/class/infiniband/mlx5_0/ports/1"

/* All that is read of adapters and GPUs. */
static const char *const files[][2] = {
    { "/sys/class/infiniband/mlx5_0/node_type", "1: CA" },
    { "/sys/class/infiniband/mlx5_0/sys_image_guid", "b859:9f03:00ad:0000" },
    { "/sys/class/infiniband/mlx5_0/hca_type", "MT4123" },
    { "/sys/class/infiniband/mlx5_0/fw_ver", "20.31.1014" },
    { PORT "/state", "4: ACTIVE" },
    { PORT "/link_layer", "Ethernet" },
    { PORT "/lid", "0x1" },
    { PORT "/rate", "200 Gb/sec (4X HDR)" },
    { PORT "/phys_state", "5: LinkUp" },
    { PORT "/gids/0", "fe80:0000:0000:0000:0a00:27ff:fe00:0001" },
    { PORT "/gids/1", "0000:0000:0000:0000:0000:ffff:0a4d:0005" },
    { PORT "/gid_attrs/types/1", "RoCE v2" },
    { PORT "/gid_attrs/ndevs/1", "eth0" },
    { "/sys/class/net/eth0/type", "1" },
    { "/sys/class/net/eth0/speed", "200000" },
    { "/sys/class/net/eth0/operstate", "up" },
    { "/sys/class/net/eth0/carrier", "1" },
    { "/sys/class/net/eth0/mtu", "9000" },
    { "/sys/class/net/eth0/dev_port", "0" },
    { "/sys/class/net/bond0/type", "1" },
    { "/sys/class/net/bond0/bonding/slaves", "eth0 eth1" },
    { "/sys/class/net/bond0/bonding/mode", "802.3ad 4" },
    { "/sys/class/net/bond0/operstate", "up" },
    { PCI "/numa_node", "0" },
    { PCI "/current_link_speed", "16.0 GT/s PCIe" },
    { PCI "/max_link_width", "16" },
    { GPU "/class", "0x030200" },
    { GPU "/vendor", "0x10de" },
    { "/proc/driver/nvidia/gpus/0000:18:00.0/information", "Model: \t NVIDIA A100\nGPU UUID: \t GPU-1" },
    { "/sys/class/kfd/kfd/topology/nodes/1/gpu_id", "4711" },
    { "/sys/class/kfd/kfd/topology/nodes/1/properties", "location_id 6144\ndomain 0" },
    { "/sys/class/kfd/kfd/topology/nodes/1/io_links/0/properties", "type 11\nnode_to 2\nmax_bandwidth 64000" },
};
enum { FILES = sizeof(files) / sizeof(files[0]) };

static void make_machine(struct fake *fake)
{
    fake_make(fake);
    fake_pci(fake, PCI, "0x020000", "0x15b3", 0);
    fake_pci(fake, GPU, "0x030200", "0x10de", 0);
    fake_link(fake, PCI, "/sys/class/infiniband/mlx5_0/device");
    fake_link(fake, PCI, "/sys/class/net/eth0/device");
    fake_link(fake, "/sys/class/net/bond0", "/sys/class/net/eth0/master");
    fake_folder(fake, PCI "/net/eth0");
    for (int i = 0; i < FILES; i++)
        fake_file(fake, files[i][1], "%s", files[i][0]);
}

/* All values are numbers that somebody may reckon with. */
static void check(const struct ri_topo *topo)
{
    assert_int_equal(topo->error, 0);
    for (int32_t i = 0; i < topo->object_count; i++) {
        const struct ri_topo_object *object = &topo->objects[i];

        assert_true(object->parent < i);
        assert_true(object->nic.gbps >= 0 && object->nic.gbps < 1e6);
        assert_true(object->link_gbps >= 0 && object->link_gbps < 1e6);
        assert_true(object->full_gbps >= 0 && object->full_gbps < 1e6);
        assert_true(object->nic.mtu >= 0 && object->nic.gid_index >= -1 && object->memory_bytes >= 0);
        assert_true(object->nic.state < RI_TOPO_STATES && object->nic.layer < RI_TOPO_LAYERS);
        assert_null(strpbrk(object->model, "\n\r"));
        assert_null(strpbrk(object->nic.card, "\n\r"));
    }
}

static struct ri_topo *find(struct ri_source *source)
{
    struct ri_topo *topo = fake_host(2);

    ri_topo_add_nics(source, topo, 0);
    ri_topo_add_gpus(source, topo, 0);
    check(topo);
    return topo;
}

static void any_file_may_hold_anything(void **state)
{
    static const char *const texts[] = {
        "", " ", "-", "-1", "0", "garbage", "nan", "inf", "0x", "1e308", "99999999999999999999999", "-9223372036854775808",
        "4294967295", "\t\t\n\n", "%s%n", "a\nb\nc", "\xff\xfe\x80", "255: ACTIVE", "2147483648",
    };
    enum { TEXTS = sizeof(texts) / sizeof(texts[0]) };
    const size_t huge_bytes = (1 << 20) + 5;
    char *huge = malloc(huge_bytes + 1);
    struct fake fake;

    assert_non_null(huge);
    memset(huge, '7', huge_bytes);
    huge[huge_bytes] = 0;
    make_machine(&fake);
    for (int i = 0; i < FILES; i++) {
        for (int t = 0; t <= TEXTS; t++) {
            struct ri_source *source = ri_source_open(fake.root);

            fake_file(&fake, t < TEXTS ? texts[t] : huge, "%s", files[i][0]);
            ri_topo_destroy(find(source));
            ri_source_close(source);
        }
        fake_file(&fake, files[i][1], "%s", files[i][0]);
    }
    free(huge);
    fake_remove(&fake);
}

static unsigned next_random(unsigned *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 8;
}

/* Is this a byte of a value?  Lines of values begin with a blank. */
static int is_value(const char *text, size_t at)
{
    size_t start = at;

    while (start > 0 && text[start - 1] != '\n')
        start--;
    return text[start] == ' ' && at > start && text[at] != '\n';
}

/* What a recording holds has been through people's hands. */
static void recordings_may_be_damaged(void **state)
{
    struct fake fake;
    struct ri_source *source;
    struct ri_topo *topo;
    char *recording, *damaged;
    unsigned seed = 20250101;
    int replayed = 0;
    size_t bytes;

    make_machine(&fake);
    source = ri_source_open(fake.root);
    ri_source_note(source, "addresses/eth0", "10.77.0.5/24\n");
    ri_source_note(source, "verbs", "listed 1\nopen mlx5_0 1\nport mlx5_0 1 4 2 0 4096 25\n");
    ri_source_note(source, "nvml", "nvml 1\ngpu 0 0000:18:00.0 1024 GPU-1 NVIDIA A100\nlink 0 2 0000:c4:00.0 25\n");
    topo = find(source);
    assert_string_equal(fake_object(topo, "mlx5_0")->nic.subnet, "10.77.0.0/24");
    ri_topo_destroy(topo);
    recording = ri_source_recording(source);
    bytes = strlen(recording);
    damaged = malloc(bytes + 1);
    assert_non_null(damaged);
    for (int round = 0; round < 4000; round++) {
        struct ri_source *again = NULL;

        memcpy(damaged, recording, bytes + 1);
        for (int i = 0; i < 1 + round % 12; i++) {
            unsigned at = next_random(&seed) % (unsigned)bytes, with = next_random(&seed);

            if (is_value(damaged, at))
                damaged[at] = with % 3 ? (char)(' ' + (with >> 4) % 95) : "0123456789:/. -x"[with >> 4 & 15];
        }
        if (ri_source_replay(damaged, bytes, &again))
            continue;
        replayed++;
        ri_topo_destroy(find(again));
        ri_source_close(again);
    }
    /* Else the loop has shown nothing. */
    assert_true(replayed > 3000);
    free(damaged);
    free(recording);
    ri_source_close(source);
    fake_remove(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_file_may_hold_anything),
        cmocka_unit_test(recordings_may_be_damaged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
