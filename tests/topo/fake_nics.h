/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_TOPO_FAKE_NICS_H
#define TESTS_TOPO_FAKE_NICS_H

#include "fake.h"

/* Network adapters of a fake machine. */

#define PCI_A "/sys/devices/pci0000:16/0000:16:02.0/0000:17:00.0"
#define PCI_A1 "/sys/devices/pci0000:16/0000:16:02.0/0000:17:00.1"
#define PCI_B "/sys/devices/pci0000:64/0000:64:02.0/0000:65:00.0"

/* An RDMA device of a PCI function; image: its sys_image_guid. */
void fake_device(const struct fake *fake, const char *name, const char *pci, const char *image, int numa);
/* A port of 200 Gbit/s with a GID of its link alone. */
void fake_port(const struct fake *fake, const char *name, int port, const char *layer, const char *state,
               const char *lid);
void fake_gid(const struct fake *fake, const char *name, int index, const char *gid, const char *type,
              const char *netdev);
/* pci NULL: it has no device. */
void fake_interface(const struct fake *fake, const char *name, const char *pci, const char *type, const char *speed,
                    const char *operstate);

/* Finds the NICs of a fake machine, and again from its recording, which must give the same. */
struct ri_topo *fake_nics(const struct fake *fake, int numa_count, const char *notes[][2]);

#endif
