/* SPDX-License-Identifier: Apache-2.0 */
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

void fake_device(const struct fake *fake, const char *name, const char *pci, const char *image, int numa)
{
    fake_pci(fake, pci, "0x020700", "0x15b3", numa);
    fake_link(fake, pci, "/sys/class/infiniband/%s/device", name);
    fake_file(fake, "1: CA", "/sys/class/infiniband/%s/node_type", name);
    fake_file(fake, image, "/sys/class/infiniband/%s/sys_image_guid", name);
    fake_file(fake, "MT4123", "/sys/class/infiniband/%s/hca_type", name);
    fake_file(fake, "20.31.1014", "/sys/class/infiniband/%s/fw_ver", name);
}

void fake_port(const struct fake *fake, const char *name, int port, const char *layer, const char *state,
                      const char *lid)
{
    char folder[96];

    snprintf(folder, sizeof(folder), "/sys/class/infiniband/%s/ports/%d", name, port);
    fake_file(fake, state, "%s/state", folder);
    fake_file(fake, layer, "%s/link_layer", folder);
    fake_file(fake, lid, "%s/lid", folder);
    fake_file(fake, "200 Gb/sec (4X HDR)", "%s/rate", folder);
    fake_file(fake, "5: LinkUp", "%s/phys_state", folder);
    fake_file(fake, "fe80:0000:0000:0000:0a00:27ff:fe00:0001", "%s/gids/0", folder);
    fake_file(fake, "IB/RoCE v1", "%s/gid_attrs/types/0", folder);
}

void fake_gid(const struct fake *fake, const char *name, int index, const char *gid, const char *type,
                     const char *netdev)
{
    char folder[96];

    snprintf(folder, sizeof(folder), "/sys/class/infiniband/%s/ports/1", name);
    fake_file(fake, gid, "%s/gids/%d", folder, index);
    fake_file(fake, type, "%s/gid_attrs/types/%d", folder, index);
    fake_file(fake, netdev, "%s/gid_attrs/ndevs/%d", folder, index);
}

void fake_interface(const struct fake *fake, const char *name, const char *pci, const char *type,
                           const char *speed, const char *operstate)
{
    fake_file(fake, type, "/sys/class/net/%s/type", name);
    fake_file(fake, speed, "/sys/class/net/%s/speed", name);
    fake_file(fake, operstate, "/sys/class/net/%s/operstate", name);
    fake_file(fake, strcmp(operstate, "up") == 0 ? "1" : "0", "/sys/class/net/%s/carrier", name);
    fake_file(fake, "9000", "/sys/class/net/%s/mtu", name);
    if (pci) {
        fake_link(fake, pci, "/sys/class/net/%s/device", name);
        fake_folder(fake, "%s/net/%s", pci, name);
    }
}

struct ri_topo *fake_nics(const struct fake *fake, int numa_count, const char *notes[][2])
{
    struct ri_source *source = ri_source_open(fake->root), *recorded = NULL;
    struct ri_topo *topo = fake_host(numa_count), *again = fake_host(numa_count);
    char *recording;

    for (; notes && (*notes)[0]; notes++)
        ri_source_note(source, (*notes)[0], (*notes)[1]);
    ri_topo_add_nics(source, topo, 0);
    assert_int_equal(topo->error, 0);
    recording = ri_source_recording(source);
    assert_non_null(recording);
    assert_int_equal(ri_source_replay(recording, strlen(recording), &recorded), 0);
    ri_topo_add_nics(recorded, again, 0);
    fake_assert_equal(topo, again);
    free(recording);
    ri_source_close(recorded);
    ri_source_close(source);
    ri_topo_destroy(again);
    return topo;
}
