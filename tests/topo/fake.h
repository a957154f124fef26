/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_TOPO_FAKE_H
#define TESTS_TOPO_FAKE_H

#include "topo/source.h"
#include "topo/topo.h"

/* A folder that stands for "/" of a machine that is not here. */

struct fake {
    char root[64];
};

void fake_make(struct fake *fake);
void fake_remove(struct fake *fake);
/* Writes a file with its folders, and a newline at its end; "" makes it empty. */
void fake_file(const struct fake *fake, const char *text, const char *path, ...) __attribute__((format(printf, 3, 4)));
/* A link at path to an absolute path within the folder. */
void fake_link(const struct fake *fake, const char *target, const char *path, ...)
    __attribute__((format(printf, 3, 4)));
void fake_folder(const struct fake *fake, const char *path, ...) __attribute__((format(printf, 2, 3)));

/* A PCI function below "/sys/devices/pci0000:BUS..." with its entry in /sys/bus/pci/devices. */
void fake_pci(const struct fake *fake, const char *path, const char *class_code, const char *vendor, int numa);

/* The object of this name on the first host; fails the test where there is none. */
const struct ri_topo_object *fake_object(const struct ri_topo *topo, const char *name);
/* Whether there is one at all. */
int fake_has(const struct ri_topo *topo, const char *name);

/* A host with NUMA nodes 0 .. count-1. */
struct ri_topo *fake_host(int numa_count);

/* Fails unless both trees are the same in all fields. */
void fake_assert_equal(const struct ri_topo *a, const struct ri_topo *b);

#endif
