/* SPDX-License-Identifier: Apache-2.0 */
/* This host is discovered, and hosts that are folders. */
#include "tests/helper.h"

#include <sched.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/status.h"
#include "build-config.h"
#include "tests/topo/fake.h"
#include "topo/cpus.h"
#include "topo/find.h"
#include "topo/source.h"
#include "topo/topo.h"

static struct ri_topo *discover(struct ri_source *source)
{
    struct ri_topo *topo = NULL;
    int err = ri_topo_discover(source, &topo);

    if (err)
        fail_msg("%d: %s", err, rondo_last_error());
    assert_int_equal(ri_topo_hosts(topo), 1);
    return topo;
}

/* The tree of a source, after its recording has given the same one. */
static struct ri_topo *discover_twice(struct ri_source *source)
{
    struct ri_topo *topo, *again;
    struct ri_source *replay = NULL;
    char *text;

    ri_source_keep(source);
    topo = discover(source);
    text = ri_source_recording(source);
    assert_int_equal(ri_source_replay(text, strlen(text), &replay), 0);
    again = discover(replay);
    fake_assert_equal(topo, again);
    assert_int_equal(topo->notices ? strcmp(topo->notices, again->notices) : again->notices != NULL, 0);
    ri_source_close(replay);
    ri_topo_destroy(again);
    free(text);
    return topo;
}

static struct ri_topo *discover_below(const struct fake *fake)
{
    struct ri_source *source = ri_source_open(fake->root);
    struct ri_topo *topo = discover_twice(source);

    ri_source_close(source);
    return topo;
}

static int lines_of(const char *text)
{
    int lines = 0;

    for (; text && *text; text++)
        lines += *text == '\n';
    return lines;
}

static int moves;

/* In place of that of the C library, also for libraries. */
int sched_setaffinity(pid_t pid, size_t bytes, const cpu_set_t *mask)
{
    moves++;
    return (int)syscall(SYS_sched_setaffinity, pid, bytes, mask);
}

/* ---- this host ---- */

/* It is large, and only for those who have no machine but a recording. */
static void xml_is_made_only_for_a_recording(void **state)
{
    (void)state;
    for (int kept = 0; kept < 2; kept++) {
        struct ri_source *source = ri_source_open("");
        struct ri_topo *topo;
        char *xml;

        if (kept)
            ri_source_keep(source);
        assert_int_equal(ri_source_is_kept(source), kept);
        topo = discover(source);
        xml = ri_source_ask(source, "hwloc.xml");
#ifdef HAVE_HWLOC
        assert_int_equal(xml != NULL, kept);
#endif
        free(xml);
        ri_topo_destroy(topo);
        ri_source_close(source);
    }
}

/* Of a program that computes. */
static void the_thread_and_the_environment_are_left_alone(void **state)
{
    struct ri_source *source = ri_source_open("");
    struct ri_topo *topo;
    struct fake fake;

    (void)state;
    moves = 0;
    topo = discover(source);
    assert_int_equal(moves, 0);
    ri_topo_destroy(topo);
    ri_source_close(source);
    unsetenv("HWLOC_HIDE_ERRORS");
    fake_make(&fake);
    fake_file(&fake, "0-1", "/sys/devices/system/cpu/online");
    source = ri_source_open(fake.root);
    ri_topo_destroy(discover(source));
    ri_source_close(source);
    fake_remove(&fake);
    assert_null(getenv("HWLOC_HIDE_ERRORS"));
    assert_null(getenv("HWLOC_FSROOT"));
}

static void this_host_is_found(void **state)
{
    struct ri_source *source = ri_source_open("");
    struct ri_topo *topo = discover_twice(source);
    char name[64], *locked = ri_source_ask(source, "limits/memlock");
    cpu_set_t mask;

    (void)state;
    assert_int_equal(gethostname(name, sizeof(name)), 0);
    assert_string_equal(topo->objects[0].name, name);
    assert_true(strlen(topo->objects[0].id) > 36);
    if (sched_getaffinity(0, sizeof(mask), &mask) == 0)
        assert_int_equal(topo->objects[0].cpu_count, CPU_COUNT(&mask));
    assert_non_null(locked);
    free(locked);
    ri_topo_destroy(topo);
    ri_source_close(source);
}

/* CASES.md, B154; in a child, whose mask is its own. */
static int with_one_processor(void *context)
{
    struct ri_source *source = ri_source_open("");
    struct ri_topo *topo = NULL;
    cpu_set_t mask, one;
    int first = 0, all, failed;

    (void)context;
    if (sched_getaffinity(0, sizeof(mask), &mask))
        return 77;
    all = CPU_COUNT(&mask);
    while (!CPU_ISSET(first, &mask))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    if (sched_setaffinity(0, sizeof(one), &one) || ri_topo_discover(source, &topo))
        return 1;
    failed = topo->objects[0].cpu_count != 1 || atoi(topo->objects[0].cpus) != first;
    if (all > 1)
        failed |= !topo->notices || !strstr(topo->notices, "this process may use 1 of");
    ri_topo_destroy(topo);
    ri_source_close(source);
    return failed;
}

static void an_affinity_mask_counts(void **state)
{
    char text[1024];
    int result = test_in_child(with_one_processor, NULL, text, sizeof(text));

    (void)state;
    if (result == 77)
        skip();
    assert_int_equal(result, 0);
    assert_string_equal(text, "");
}

/* ---- hosts that are folders ---- */

/* hwloc finds a folder by a variable, which may be the caller's, too. */
static void variables_are_put_back(void **state)
{
    struct fake fake;

    (void)state;
    fake_make(&fake);
    fake_file(&fake, "0", "/sys/devices/system/node/online");
    assert_int_equal(setenv("HWLOC_FSROOT", "/of/the/caller", 1), 0);
    ri_topo_destroy(discover_below(&fake));
    assert_string_equal(getenv("HWLOC_FSROOT"), "/of/the/caller");
    unsetenv("HWLOC_FSROOT");
    ri_topo_destroy(discover_below(&fake));
    assert_null(getenv("HWLOC_FSROOT"));
    fake_remove(&fake);
}

/* Two containers of one machine, whose names differ at the end alone. */
static void long_names_make_two_hosts(void **state)
{
    char ids[2][64];

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct fake fake;
        struct ri_topo *topo;

        fake_make(&fake);
        fake_file(&fake, "5f5f0e23-0d7c-4b7b-8d0b-1f0d6a1f7f4c", "/proc/sys/kernel/random/boot_id");
        fake_file(&fake, i ? "a-job-of-many-ranks-worker-1" : "a-job-of-many-ranks-worker-0",
                  "/proc/sys/kernel/hostname");
        topo = discover_below(&fake);
        memcpy(ids[i], topo->objects[0].id, sizeof(ids[i]));
        ri_topo_destroy(topo);
        fake_remove(&fake);
    }
    assert_string_not_equal(ids[0], ids[1]);
}

/* CASES.md, B153. */
static void no_processors_in_sys_make_one_node(void **state)
{
    struct fake fake;
    struct ri_topo *topo;

    (void)state;
    fake_make(&fake);
    topo = discover_below(&fake);
    assert_int_equal(topo->object_count, 1);
    assert_int_equal(topo->objects[0].cpu_count, 0);
    assert_int_equal(lines_of(topo->notices), 1);
    assert_non_null(strstr(topo->notices, "treated as one node"));
    ri_topo_destroy(topo);

    fake_file(&fake, "processor\t: 0\nmodel name\t: a processor: fast\n\nprocessor\t: 1\n\nprocessor\t: 2\n\n"
              "processor\t: 3\n", "/proc/cpuinfo");
    topo = discover_below(&fake);
    assert_int_equal(topo->object_count, 1);
    assert_int_equal(topo->objects[0].cpu_count, 4);
    assert_int_equal(lines_of(topo->notices), 1);
    ri_topo_destroy(topo);
    fake_remove(&fake);
}

static void add_cpu(const struct fake *fake, int cpu)
{
    char text[16];

    snprintf(text, sizeof(text), "%d", cpu / 2);
    fake_file(fake, text, "/sys/devices/system/cpu/cpu%d/topology/physical_package_id", cpu);
    snprintf(text, sizeof(text), "%d", cpu % 2);
    fake_file(fake, text, "/sys/devices/system/cpu/cpu%d/topology/core_id", cpu);
    snprintf(text, sizeof(text), "%x", 1 << cpu);
    fake_file(fake, text, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings", cpu);
    snprintf(text, sizeof(text), "%x", 3 << cpu / 2 * 2);
    fake_file(fake, text, "/sys/devices/system/cpu/cpu%d/topology/core_siblings", cpu);
}

static void add_node(const struct fake *fake, int node, const char *map, const char *list)
{
    fake_file(fake, map, "/sys/devices/system/node/node%d/cpumap", node);
    fake_file(fake, list, "/sys/devices/system/node/node%d/cpulist", node);
    fake_file(fake, "Node 0 MemTotal:       1048576 kB", "/sys/devices/system/node/node%d/meminfo", node);
}

/* Two packages with two processors and a NUMA node each. */
static void make_host(struct fake *fake)
{
    fake_make(fake);
    fake_file(fake, "0-3", "/sys/devices/system/cpu/online");
    fake_file(fake, "0-3", "/sys/devices/system/cpu/possible");
    fake_file(fake, "0-3", "/sys/devices/system/cpu/present");
    for (int cpu = 0; cpu < 4; cpu++)
        add_cpu(fake, cpu);
    fake_file(fake, "0-1", "/sys/devices/system/node/online");
    fake_file(fake, "0-1", "/sys/devices/system/node/possible");
    add_node(fake, 0, "3", "0-1");
    add_node(fake, 1, "c", "2-3");
    fake_file(fake, "far", "/proc/sys/kernel/hostname");
    fake_file(fake, "01234567-89ab-cdef-0123-456789abcdef", "/proc/sys/kernel/random/boot_id");
}

static void assert_two_nodes(const struct ri_topo *topo)
{
    assert_int_equal(ri_topo_count(topo, 0, RI_TOPO_PACKAGE), 2);
    assert_int_equal(ri_topo_count(topo, 0, RI_TOPO_NUMA), 2);
    for (int n = 0; n < 2; n++) {
        const struct ri_topo_object *node = &topo->objects[ri_topo_find(topo, 0, RI_TOPO_NUMA, n)];

        assert_int_equal(node->number, n);
        assert_int_equal(node->cpu_count, 2);
        assert_string_equal(node->cpus, n ? "2-3" : "0-1");
        assert_true(node->memory_bytes == INT64_C(1) << 30);
        assert_int_equal(topo->objects[node->parent].kind, RI_TOPO_PACKAGE);
        assert_int_equal(topo->objects[node->parent].number, n);
    }
}

static void nodes_are_found_with_and_without_hwloc(void **state)
{
    struct ri_source *source;
    struct ri_topo *topo;
    struct fake fake;

    (void)state;
    make_host(&fake);
    topo = discover_below(&fake);
    assert_two_nodes(topo);
    assert_string_equal(topo->objects[0].name, "far");
    assert_string_equal(topo->objects[0].id, "01234567-89ab-cdef-0123-456789abcdef far");
    assert_int_equal(topo->objects[0].cpu_count, 4);
#ifdef HAVE_HWLOC
    assert_null(topo->notices);
#endif
    ri_topo_destroy(topo);

    source = ri_source_open(fake.root);
    assert_int_equal(ri_topo_from_sys(source, &topo), 0);
    assert_two_nodes(topo);
    assert_string_equal(topo->objects[0].cpus, "0-3");
    ri_topo_destroy(topo);
    ri_source_close(source);
    fake_remove(&fake);
}

/* CASES.md, B157, of what /sys says. */
static void crossing_nodes_make_one(void **state)
{
    static const char *const lists[] = { "1-3", "3" }; /* crosses; leaves out 2 */

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct ri_source *source;
        struct ri_topo *topo;
        struct fake fake;

        make_host(&fake);
        add_node(&fake, 1, i ? "8" : "e", lists[i]);
        source = ri_source_open(fake.root);
        assert_int_equal(ri_topo_from_sys(source, &topo), 0);
        assert_int_equal(topo->object_count, 1);
        assert_int_equal(topo->objects[0].cpu_count, 4);
        assert_int_equal(lines_of(topo->notices), 1);
        ri_topo_destroy(topo);
        ri_source_close(source);
        fake_remove(&fake);
    }
}

#ifdef HAVE_HWLOC
static void add_gpu(const struct fake *fake, const char *root, const char *id, const char *cpus, int node)
{
    static const char config[64]; /* of no bridge, and without capabilities */
    char path[128], text[256];
    FILE *out;

    snprintf(path, sizeof(path), "/sys/devices/pci%s/%s", root, id);
    snprintf(text, sizeof(text), "%d", node);
    fake_file(fake, text, "%s/numa_node", path);
    fake_file(fake, cpus, "%s/local_cpus", path);
    fake_file(fake, "0x030200", "%s/class", path);
    fake_file(fake, "0x10de", "%s/vendor", path);
    fake_file(fake, "0x20b2", "%s/device", path);
    fake_file(fake, "2.5 GT/s PCIe", "%s/current_link_speed", path); /* it sleeps */
    fake_file(fake, "16.0 GT/s PCIe", "%s/max_link_speed", path);
    fake_file(fake, "8", "%s/current_link_width", path);
    fake_file(fake, "16", "%s/max_link_width", path);
    snprintf(text, sizeof(text), "%s%s/config", fake->root, path);
    out = fopen(text, "w");
    assert_non_null(out);
    assert_int_equal(fwrite(config, 1, sizeof(config), out), sizeof(config));
    fclose(out);
    snprintf(text, sizeof(text), "../../../devices/pci%s/%s", root, id);
    fake_link(fake, text, "/sys/bus/pci/devices/%s", id);
}

/* CASES.md, B158. */
static void devices_of_no_node_hang_at_the_host(void **state)
{
    static const int nodes[] = { 1, -1, 7 };
    static const char *const cpus[] = { "c", "f", "0" };
    struct ri_topo *topo;
    struct fake fake;

    (void)state;
    make_host(&fake);
    for (int i = 0; i < 3; i++) {
        char root[16], id[24];

        snprintf(root, sizeof(root), "0000:%d0", i + 1);
        snprintf(id, sizeof(id), "%s:00.0", root);
        add_gpu(&fake, root, id, cpus[i], nodes[i]);
    }
    topo = discover_below(&fake);
    assert_int_equal(ri_topo_count(topo, 0, RI_TOPO_GPU), 3);
    for (int i = 0; i < 3; i++) {
        int32_t gpu = ri_topo_find(topo, 0, RI_TOPO_GPU, i), node = ri_topo_above(topo, gpu, RI_TOPO_NUMA);

        assert_int_equal(node < 0 ? -1 : topo->objects[node].number, i ? -1 : 1);
        assert_true(topo->objects[gpu].link_gbps > 15.7 && topo->objects[gpu].link_gbps < 15.8);
        assert_true(topo->objects[gpu].full_gbps > 31.5 && topo->objects[gpu].full_gbps < 31.6);
    }
    ri_topo_destroy(topo);
    fake_remove(&fake);
}
#endif

static void cgroups_are_noticed(void **state)
{
    struct ri_topo *topo;
    struct fake fake;

    (void)state;
    make_host(&fake);
    fake_file(&fake, "MemTotal:       2097152 kB", "/proc/meminfo");
    fake_file(&fake, "0::/jobs/7", "/proc/self/cgroup");
    fake_file(&fake, "max 100000", "/sys/fs/cgroup/jobs/7/cpu.max");
    fake_file(&fake, "150000 100000", "/sys/fs/cgroup/jobs/cpu.max");
    fake_file(&fake, "1073741824", "/sys/fs/cgroup/jobs/7/memory.max");
    fake_file(&fake, "max", "/sys/fs/cgroup/jobs/memory.max");
    topo = discover_below(&fake);
    assert_non_null(topo->notices);
    assert_non_null(strstr(topo->notices, "this process may use 1.5 of 4 processors (cgroup cpu.max)"));
    assert_non_null(strstr(topo->notices, "this process may use 1.0 of 2.0 GiB of memory (cgroup memory.max)"));
    ri_topo_destroy(topo);

    /* Version 1; the folder of the group is one of the machine, not to be seen in its container. */
    fake_file(&fake, "5:memory:/docker/a\n4:cpu,cpuacct:/docker/a", "/proc/self/cgroup");
    fake_file(&fake, "300000", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
    fake_file(&fake, "100000", "/sys/fs/cgroup/cpu/cpu.cfs_period_us");
    fake_file(&fake, "9223372036854771712", "/sys/fs/cgroup/memory/memory.limit_in_bytes");
    topo = discover_below(&fake);
    assert_non_null(topo->notices);
    assert_non_null(strstr(topo->notices, "this process may use 3.0 of 4 processors (cgroup cpu.cfs_quota_us)"));
    assert_null(strstr(topo->notices, "GiB"));
    ri_topo_destroy(topo);
    fake_remove(&fake);
}

static void sets_of_processors(void **state)
{
    static const char *const bad[] = { "a", "1-", "-1", "2-1", "1,,2", "8192", "0-99999999999", "1 2", ",1" };
    struct ri_cpus cpus;
    char text[16];

    (void)state;
    assert_int_equal(ri_cpus_parse("0-2,5,8190-8191", &cpus), 0);
    assert_int_equal(ri_cpus_count(&cpus), 6);
    ri_cpus_print(&cpus, text, sizeof(text));
    assert_string_equal(text, "0-2,5,8190-8191");
    ri_cpus_print(&cpus, text, 15);
    assert_string_equal(text, "");
    assert_int_equal(ri_cpus_next(&cpus, 6), 8190);
    assert_int_equal(ri_cpus_parse("", &cpus), 0);
    assert_int_equal(ri_cpus_count(&cpus), 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_int_equal(ri_cpus_parse(bad[i], &cpus), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(xml_is_made_only_for_a_recording),
        cmocka_unit_test(this_host_is_found),
        cmocka_unit_test(the_thread_and_the_environment_are_left_alone),
        cmocka_unit_test(an_affinity_mask_counts),
        cmocka_unit_test(variables_are_put_back),
        cmocka_unit_test(long_names_make_two_hosts),
        cmocka_unit_test(no_processors_in_sys_make_one_node),
        cmocka_unit_test(nodes_are_found_with_and_without_hwloc),
        cmocka_unit_test(crossing_nodes_make_one),
#ifdef HAVE_HWLOC
        cmocka_unit_test(devices_of_no_node_hang_at_the_host),
#endif
        cmocka_unit_test(cgroups_are_noticed),
        cmocka_unit_test(sets_of_processors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
