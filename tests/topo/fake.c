/* SPDX-License-Identifier: Apache-2.0 */
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake.h"

void fake_make(struct fake *fake)
{
    snprintf(fake->root, sizeof(fake->root), "/tmp/rondo-fake-XXXXXX");
    assert_non_null(mkdtemp(fake->root));
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

void fake_remove(struct fake *fake)
{
    assert_int_equal(nftw(fake->root, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* The full name of a path, with all folders before its last slash. */
static void prepare(const struct fake *fake, char full[1024], const char *format, va_list args)
{
    int had = snprintf(full, 1024, "%s", fake->root);

    vsnprintf(full + had, (size_t)(1024 - had), format, args);
    for (char *slash = full + had; (slash = strchr(slash + 1, '/'));) {
        *slash = 0;
        mkdir(full, 0755);
        *slash = '/';
    }
}

void fake_file(const struct fake *fake, const char *text, const char *path, ...)
{
    char full[1024];
    va_list args;
    FILE *file;

    va_start(args, path);
    prepare(fake, full, path, args);
    va_end(args);
    file = fopen(full, "w");
    assert_non_null(file);
    fprintf(file, "%s%s", text, *text ? "\n" : "");
    assert_int_equal(fclose(file), 0);
}

void fake_link(const struct fake *fake, const char *target, const char *path, ...)
{
    char full[1024];
    va_list args;

    va_start(args, path);
    prepare(fake, full, path, args);
    va_end(args);
    assert_int_equal(symlink(target, full), 0);
}

void fake_folder(const struct fake *fake, const char *path, ...)
{
    char full[1024];
    va_list args;

    va_start(args, path);
    prepare(fake, full, path, args);
    va_end(args);
    mkdir(full, 0755);
}

void fake_pci(const struct fake *fake, const char *path, const char *class_code, const char *vendor, int numa)
{
    char text[32];

    snprintf(text, sizeof(text), "%d", numa);
    fake_file(fake, text, "%s/numa_node", path);
    fake_file(fake, class_code, "%s/class", path);
    fake_file(fake, vendor, "%s/vendor", path);
    fake_file(fake, "16.0 GT/s PCIe", "%s/current_link_speed", path);
    fake_file(fake, "16", "%s/current_link_width", path);
    fake_file(fake, "16.0 GT/s PCIe", "%s/max_link_speed", path);
    fake_file(fake, "16", "%s/max_link_width", path);
    fake_link(fake, path, "/sys/bus/pci/devices/%s", strrchr(path, '/') + 1);
}

static const struct ri_topo_object *find(const struct ri_topo *topo, const char *name)
{
    for (int32_t i = 0; i < topo->object_count; i++)
        if (strcmp(topo->objects[i].name, name) == 0)
            return &topo->objects[i];
    return NULL;
}

int fake_has(const struct ri_topo *topo, const char *name)
{
    return find(topo, name) != NULL;
}

const struct ri_topo_object *fake_object(const struct ri_topo *topo, const char *name)
{
    const struct ri_topo_object *object = find(topo, name);

    if (!object)
        fail_msg("no object %s", name);
    return object;
}

struct ri_topo *fake_host(int numa_count)
{
    struct ri_topo *topo = ri_topo_create();
    int32_t host;

    assert_non_null(topo);
    host = ri_topo_add(topo, RI_TOPO_HOST, -1, -1);
    for (int i = 0; i < numa_count; i++)
        ri_topo_add(topo, RI_TOPO_NUMA, host, i);
    return topo;
}

void fake_assert_equal(const struct ri_topo *a, const struct ri_topo *b)
{
    assert_int_equal(a->object_count, b->object_count);
    for (int32_t i = 0; i < a->object_count; i++) {
        assert_string_equal(a->objects[i].name, b->objects[i].name);
        assert_string_equal(a->objects[i].pci, b->objects[i].pci);
        assert_string_equal(a->objects[i].model, b->objects[i].model);
        assert_string_equal(a->objects[i].id, b->objects[i].id);
        assert_int_equal(a->objects[i].kind, b->objects[i].kind);
        assert_int_equal(a->objects[i].parent, b->objects[i].parent);
        assert_int_equal(a->objects[i].number, b->objects[i].number);
        assert_true(a->objects[i].memory_bytes == b->objects[i].memory_bytes);
        assert_true(a->objects[i].link_gbps == b->objects[i].link_gbps);
        assert_true(a->objects[i].full_gbps == b->objects[i].full_gbps);
        assert_string_equal(a->objects[i].nic.device, b->objects[i].nic.device);
        assert_string_equal(a->objects[i].nic.netdev, b->objects[i].nic.netdev);
        assert_string_equal(a->objects[i].nic.card, b->objects[i].nic.card);
        assert_string_equal(a->objects[i].nic.subnet, b->objects[i].nic.subnet);
        assert_string_equal(a->objects[i].nic.bond, b->objects[i].nic.bond);
        assert_string_equal(a->objects[i].nic.unusable, b->objects[i].nic.unusable);
        assert_int_equal(a->objects[i].nic.gid_index, b->objects[i].nic.gid_index);
        assert_int_equal(a->objects[i].nic.mtu, b->objects[i].nic.mtu);
        assert_true(a->objects[i].nic.gbps == b->objects[i].nic.gbps);
    }
    assert_int_equal(a->link_count, b->link_count);
    for (int32_t i = 0; i < a->link_count; i++) {
        assert_int_equal(a->links[i].a, b->links[i].a);
        assert_int_equal(a->links[i].b, b->links[i].b);
        assert_int_equal(a->links[i].count, b->links[i].count);
        assert_true(a->links[i].gbps == b->links[i].gbps);
    }
    assert_string_equal(a->notices ? a->notices : "", b->notices ? b->notices : "");
}
