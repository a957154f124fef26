/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs of folders that stand for machines, and NVIDIA's library with one of our own in its place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fake.h"
#include "topo/find.h"
#include "topo/nvml.h"

/* ---- the library ---- */

enum machine { FOUR_IN_PAIRS, EIGHT_ON_SWITCHES, TWO_COHERENT };

static enum machine machine;
static int fault; /* of its init */
static int is_open;
static int numbers[8];

static int mock_init(void)
{
    is_open += !fault;
    return fault;
}

static int mock_shutdown(void)
{
    is_open--;
    return 0;
}

static int mock_count(unsigned *count)
{
    *count = machine == FOUR_IN_PAIRS ? 4 : machine == EIGHT_ON_SWITCHES ? 8 : 2;
    return 0;
}

static int mock_handle(unsigned index, void **gpu)
{
    numbers[index] = (int)index;
    *gpu = &numbers[index];
    return 0;
}

static int mock_pci(void *gpu, struct ri_nvml_pci *pci)
{
    memset(pci, 0, sizeof(*pci));
    pci->bus = 0x10u + 0x10u * (unsigned)*(int *)gpu;
    return 0;
}

static int mock_name(void *gpu, char *text, unsigned bytes)
{
    (void)gpu;
    snprintf(text, bytes, "NVIDIA A100-SXM4-80GB");
    return 0;
}

static int mock_uuid(void *gpu, char *text, unsigned bytes)
{
    snprintf(text, bytes, "GPU-%d", *(int *)gpu);
    return 0;
}

static int mock_memory(void *gpu, struct ri_nvml_memory *memory)
{
    (void)gpu;
    memory->total = 80ull << 30;
    return 0;
}

static int mock_link_state(void *gpu, unsigned link, int *is_active)
{
    (void)gpu;
    *is_active = 1;
    return link < 12 ? 0 : 2;
}

static int mock_link_version(void *gpu, unsigned link, unsigned *version)
{
    (void)gpu;
    (void)link;
    *version = 4; /* 3.0 */
    return 0;
}

/* In pairs: 4 links to the partner, the others to nothing; on switches: 12 to six of them. */
static int mock_link_pci(void *gpu, unsigned link, struct ri_nvml_pci *pci)
{
    int partner = *(int *)gpu ^ 1;

    memset(pci, 0, sizeof(*pci));
    pci->bus = machine == EIGHT_ON_SWITCHES ? 0xc0u + link / 2 : 0x10u + 0x10u * (unsigned)partner;
    return machine != EIGHT_ON_SWITCHES && (link >= 4 || machine == TWO_COHERENT);
}

static int mock_link_type(void *gpu, unsigned link, int *type)
{
    (void)gpu;
    (void)link;
    *type = machine == EIGHT_ON_SWITCHES ? 2 : 0;
    return 0;
}

static int mock_fields(void *gpu, int count, struct ri_nvml_field *fields)
{
    (void)gpu;
    assert_int_equal(count, 1);
    assert_int_equal(fields->field, 90);
    fields->status = 0;
    fields->value.number = machine == FOUR_IN_PAIRS ? 14062 : 25781;
    return 0;
}

static int mock_c2c(void *gpu, unsigned *is_enabled)
{
    (void)gpu;
    *is_enabled = machine == TWO_COHERENT;
    return 0;
}

static const struct ri_nvml_calls calls = {
    mock_init,   mock_shutdown,   mock_count,        mock_handle,   mock_pci,       mock_name,   mock_uuid,
    mock_memory, mock_link_state, mock_link_version, mock_link_pci, mock_link_type, mock_fields, mock_c2c,
};

/* ---- machines ---- */

/* GPUs at buses 10, 20 ..., the first half of them on NUMA node 0. */
static void make_gpus(const struct fake *fake, int count)
{
    for (int i = 0; i < count; i++) {
        char path[128];

        snprintf(path, sizeof(path), "/sys/devices/pci0000:0%x/0000:0%x:01.0/0000:%x0:00.0", i, i, i + 1);
        fake_pci(fake, path, "0x030200", "0x10de", 2 * i / count);
        fake_file(fake, "2.5 GT/s PCIe", "%s/current_link_speed", path);
    }
}

/* Finds the GPUs of a fake machine, and again from its recording, which must give the same. */
static struct ri_topo *find_gpus(const struct fake *fake, int numa_count, const char *nvml)
{
    struct ri_source *source = ri_source_open(fake->root), *recorded = NULL;
    struct ri_topo *topo = fake_host(numa_count), *again = fake_host(numa_count);
    char *recording;

    if (nvml)
        ri_source_note(source, "nvml", nvml);
    ri_topo_add_gpus(source, topo, 0);
    assert_int_equal(topo->error, 0);
    recording = ri_source_recording(source);
    assert_non_null(recording);
    assert_int_equal(ri_source_replay(recording, strlen(recording), &recorded), 0);
    ri_topo_add_gpus(recorded, again, 0);
    fake_assert_equal(topo, again);
    free(recording);
    ri_source_close(recorded);
    ri_source_close(source);
    ri_topo_destroy(again);
    return topo;
}

static struct ri_topo *find_with_library(enum machine which, int gpus)
{
    struct fake fake;
    struct ri_topo *topo;
    char *text;

    machine = which;
    fault = 0;
    text = ri_nvml_text(&calls);
    assert_non_null(text);
    assert_int_equal(is_open, 0);
    fake_make(&fake);
    make_gpus(&fake, gpus);
    topo = find_gpus(&fake, 2, text);
    free(text);
    fake_remove(&fake);
    return topo;
}

static int32_t gpu_at(const struct ri_topo *topo, int number)
{
    for (int32_t i = 0; i < topo->object_count; i++)
        if (topo->objects[i].kind == RI_TOPO_GPU && topo->objects[i].number == number)
            return i;
    fail_msg("no GPU %d", number);
    return -1;
}

/* ---- tests ---- */

static void gpus_are_found_by_their_class(void **state)
{
    struct fake fake;
    struct ri_topo *topo;
    const struct ri_topo_object *gpu;

    fake_make(&fake);
    make_gpus(&fake, 2);
    fake_pci(&fake, "/sys/devices/pci0000:60/0000:61:00.0", "0x030000", "0x1a03", 0); /* console of a server */
    fake_pci(&fake, "/sys/devices/pci0000:60/0000:62:00.0", "0x030000", "0x1002", 0);
    fake_pci(&fake, "/sys/devices/pci0000:60/0000:63:00.0", "0x040300", "0x10de", 0); /* sound of a GPU */
    fake_pci(&fake, "/sys/devices/pci0000:60/0000:1a:00.0", "0x038000", "0x1002", -1);
    fake_file(&fake, "68702699520", "/sys/devices/pci0000:60/0000:1a:00.0/mem_info_vram_total");
    fake_file(&fake, "8", "/sys/devices/pci0000:01/0000:01:01.0/0000:20:00.0/current_link_width");
    fake_file(&fake, "Model: \t\t NVIDIA A800-SXM4-80GB\nIRQ:   \t\t 67\nGPU UUID: \t GPU-4cf8\nVideo BIOS:",
              "/proc/driver/nvidia/gpus/0000:10:00.0/information");
    fake_file(&fake, "Model: \t\t Unknown\nGPU UUID: \t GPU-????????",
              "/proc/driver/nvidia/gpus/0000:20:00.0/information");
    topo = find_gpus(&fake, 2, "missing\n");
    assert_int_equal(ri_topo_count(topo, 0, RI_TOPO_GPU), 3);
    gpu = fake_object(topo, "gpu 0");
    assert_string_equal(gpu->pci, "0000:10:00.0");
    assert_string_equal(gpu->model, "NVIDIA A800-SXM4-80GB");
    assert_string_equal(gpu->id, "GPU-4cf8");
    /* The link sleeps, and would run at its full speed. */
    assert_float_equal(gpu->link_gbps, 31.5, 0.02);
    assert_true(gpu->full_gbps == 0);
    gpu = fake_object(topo, "gpu 2");
    assert_string_equal(gpu->pci, "0000:20:00.0");
    assert_string_equal(gpu->id, "");
    assert_float_equal(gpu->link_gbps, 15.75, 0.02);
    assert_float_equal(gpu->full_gbps, 31.5, 0.02);
    assert_true(ri_topo_above(topo, gpu_at(topo, 2), RI_TOPO_NUMA) == 2);
    assert_true(fake_object(topo, "gpu 1")->memory_bytes == 68702699520);
    assert_true(ri_topo_above(topo, gpu_at(topo, 1), RI_TOPO_NUMA) == -1);
    assert_non_null(strstr(topo->notices, "links between GPUs are unknown"));
    ri_topo_destroy(topo);
    fake_remove(&fake);
}

/* The bridge above has the same link, which must not count as slow for that. */
static void sleeping_gpus_have_fast_links(void **state)
{
    static const char bridge[] = "/sys/devices/pci0000:00/0000:00:01.0";
    struct ri_topo *topo = NULL;
    struct ri_source *source;
    struct fake fake;

    fake_make(&fake);
    make_gpus(&fake, 2);
    fake_pci(&fake, bridge, "0x060400", "0x8086", 0);
    fake_file(&fake, "2.5 GT/s PCIe", "%s/current_link_speed", bridge);
    fake_file(&fake, "8.0 GT/s PCIe", "/sys/devices/pci0000:01/0000:01:01.0/max_link_speed");
    source = ri_source_open(fake.root);
    assert_int_equal(ri_topo_discover(source, &topo), 0);
    assert_float_equal(topo->objects[gpu_at(topo, 0)].link_gbps, 31.5, 0.02);
    assert_true(topo->objects[gpu_at(topo, 0)].full_gbps == 0);
    /* A slow slot remains one. */
    assert_float_equal(topo->objects[gpu_at(topo, 1)].link_gbps, 15.75, 0.02);
    ri_topo_destroy(topo);
    ri_source_close(source);
    fake_remove(&fake);
}

static void pairs_are_linked(void **state)
{
    struct ri_topo *topo = find_with_library(FOUR_IN_PAIRS, 4);
    const struct ri_topo_link *link = ri_topo_link_between(topo, gpu_at(topo, 0), gpu_at(topo, 1));

    assert_non_null(link);
    assert_int_equal(link->count, 4);
    /* A small card, whose links are slower than their version may be. */
    assert_float_equal(link->gbps, 4 * 14.062, 1e-6);
    assert_non_null(ri_topo_link_between(topo, gpu_at(topo, 2), gpu_at(topo, 3)));
    assert_null(ri_topo_link_between(topo, gpu_at(topo, 1), gpu_at(topo, 2)));
    assert_int_equal(topo->link_count, 2);
    assert_string_equal(topo->objects[gpu_at(topo, 3)].id, "GPU-3");
    assert_string_equal(topo->objects[gpu_at(topo, 3)].model, "NVIDIA A100-SXM4-80GB");
    assert_true(topo->objects[gpu_at(topo, 3)].memory_bytes == 80ll << 30);
    assert_null(topo->notices);
    ri_topo_destroy(topo);
}

static void switches_link_all_pairs(void **state)
{
    struct ri_topo *topo = find_with_library(EIGHT_ON_SWITCHES, 8);

    assert_int_equal(topo->link_count, 28);
    for (int32_t i = 0; i < topo->link_count; i++) {
        assert_int_equal(topo->links[i].count, 12);
        assert_true(topo->links[i].gbps == 300);
    }
    ri_topo_destroy(topo);
}

static void a_processor_may_be_linked(void **state)
{
    struct ri_topo *topo = find_with_library(TWO_COHERENT, 2);
    const struct ri_topo_link *link = ri_topo_link_between(topo, 1, gpu_at(topo, 0));

    assert_int_equal(topo->link_count, 2);
    assert_non_null(link);
    assert_int_equal(link->kind, RI_TOPO_C2C);
    assert_true(link->gbps == 450);
    ri_topo_destroy(topo);
}

static void links_that_are_there_are_not_counted_twice(void **state)
{
    struct fake fake;
    struct ri_topo *topo = fake_host(2);
    struct ri_source *source;
    char *text;

    for (int i = 0; i < 2; i++) {
        int32_t at = ri_topo_add(topo, RI_TOPO_GPU, 1, i);

        snprintf(topo->objects[at].pci, 24, "0000:%d0:00.0", i + 1);
    }
    ri_topo_link(topo, 3, 4, RI_TOPO_NVLINK, 12, 300);
    fake_make(&fake);
    make_gpus(&fake, 4);
    machine = FOUR_IN_PAIRS;
    text = ri_nvml_text(&calls);
    source = ri_source_open(fake.root);
    ri_source_note(source, "nvml", text);
    ri_topo_add_gpus(source, topo, 0);
    assert_int_equal(ri_topo_count(topo, 0, RI_TOPO_GPU), 4);
    assert_int_equal(topo->link_count, 1);
    assert_int_equal(topo->links[0].count, 12);
    free(text);
    ri_source_close(source);
    ri_topo_destroy(topo);
    fake_remove(&fake);
}

/* A container with two GPUs of eight, whose links lead to those that it may not use. */
static void gpus_of_others_are_taken_out(void **state)
{
    static const char text[] = "nvml 2\n"
                               "gpu 0 0000:30:00.0 1024 GPU-a NVIDIA A100\n"
                               "link 0 0 0000:40:00.0 25\nlink 0 0 0000:10:00.0 25\n"
                               "gpu 1 0000:40:00.0 1024 - NVIDIA A100\n"
                               "link 1 255 0000:30:00.0 25\nlink 1 0 0000:50:00.0 25\n";
    struct fake fake;
    struct ri_topo *topo;

    fake_make(&fake);
    make_gpus(&fake, 8);
    topo = find_gpus(&fake, 2, text);
    assert_int_equal(ri_topo_count(topo, 0, RI_TOPO_GPU), 2);
    assert_string_equal(fake_object(topo, "gpu 1")->pci, "0000:40:00.0");
    assert_string_equal(fake_object(topo, "gpu 1")->id, "");
    assert_int_equal(topo->link_count, 1);
    assert_int_equal(topo->links[0].count, 1);
    assert_non_null(strstr(topo->notices, "6 GPUs of this host are not listed by NVIDIA's library"));
    ri_topo_destroy(topo);
    fake_remove(&fake);
}

static void a_library_that_fails_is_one_notice(void **state)
{
    struct fake fake;
    struct ri_topo *topo;
    char *text;

    fault = 9;
    text = ri_nvml_text(&calls);
    assert_string_equal(text, "failed 9\n");
    fake_make(&fake);
    topo = find_gpus(&fake, 1, text);
    assert_null(topo->notices);
    assert_int_equal(topo->object_count, 2);
    ri_topo_destroy(topo);
    make_gpus(&fake, 2);
    topo = find_gpus(&fake, 1, text);
    assert_string_equal(topo->notices, "links between GPUs are unknown: NVIDIA's library fails with code 9\n");
    ri_topo_destroy(topo);
    free(text);
    fault = 0;
    fake_remove(&fake);
}

static void amd_links_are_read(void **state)
{
    struct fake fake;
    struct ri_topo *topo;
    const struct ri_topo_link *link;

    fake_make(&fake);
    fake_file(&fake, "0", "/sys/class/kfd/kfd/topology/nodes/0/gpu_id");
    for (int i = 1; i <= 3; i++) {
        char path[64], text[128];

        snprintf(path, sizeof(path), "/sys/devices/pci0000:%d0/0000:%d1:00.0", i, i);
        fake_pci(&fake, path, "0x120000", "0x1002", 0);
        fake_file(&fake, "AMD Instinct MI300X", "%s/product_name", path);
        snprintf(text, sizeof(text), "simd_count 1216\nlocation_id %d\ndomain 0", (i << 4 | 1) << 8);
        fake_file(&fake, text, "/sys/class/kfd/kfd/topology/nodes/%d/properties", i);
        fake_file(&fake, "4711", "/sys/class/kfd/kfd/topology/nodes/%d/gpu_id", i);
        for (int j = 0; j <= 3; j++) {
            snprintf(text, sizeof(text), "type %d\nnode_from %d\nnode_to %d\nmax_bandwidth 64000", j ? 11 : 2, i, j);
            fake_file(&fake, text, "/sys/class/kfd/kfd/topology/nodes/%d/io_links/%d/properties", i, j);
        }
    }
    topo = find_gpus(&fake, 1, NULL);
    assert_int_equal(topo->link_count, 3);
    link = ri_topo_link_between(topo, gpu_at(topo, 0), gpu_at(topo, 2));
    assert_int_equal(link->kind, RI_TOPO_XGMI);
    assert_true(link->gbps == 64);
    assert_string_equal(fake_object(topo, "gpu 1")->model, "AMD Instinct MI300X");
    assert_null(topo->notices);
    ri_topo_destroy(topo);
    fake_remove(&fake);
}

static void mutated_texts_do_no_harm(void **state)
{
    static const char sound[] = "nvml 4\ngpu 0 0000:10:00.0 85899345920 GPU-0 NVIDIA\nlink 0 0 0000:20:00.0 25\n"
                                "gpu 1 0000:20:00.0 85899345920 GPU-1 NVIDIA\nlink 1 0 0000:10:00.0 25\n"
                                "gpu 2 0000:30:00.0 1 - x\nlink 2 2 0000:c4:00.0 25\nc2c 2\n";
    struct fake fake;
    struct ri_source *source;
    unsigned seed = 4711;

    fake_make(&fake);
    make_gpus(&fake, 3);
    source = ri_source_open(fake.root);
    for (int round = 0; round < 3000; round++) {
        struct ri_topo *topo = fake_host(2);
        char text[sizeof(sound)];

        memcpy(text, sound, sizeof(sound));
        for (int i = 0; i < 1 + round % 8; i++) {
            seed = seed * 1103515245u + 12345u;
            text[7 + (seed >> 8) % (sizeof(sound) - 8)] = "0123456789 -\ngpulink\x80.:%"[(seed >> 20) % 24];
        }
        ri_source_note(source, "nvml", text);
        ri_topo_add_gpus(source, topo, 0);
        assert_int_equal(topo->error, 0);
        ri_topo_destroy(topo);
    }
    ri_source_close(source);
    fake_remove(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpus_are_found_by_their_class),
        cmocka_unit_test(sleeping_gpus_have_fast_links),
        cmocka_unit_test(pairs_are_linked),
        cmocka_unit_test(switches_link_all_pairs),
        cmocka_unit_test(a_processor_may_be_linked),
        cmocka_unit_test(links_that_are_there_are_not_counted_twice),
        cmocka_unit_test(gpus_of_others_are_taken_out),
        cmocka_unit_test(a_library_that_fails_is_one_notice),
        cmocka_unit_test(amd_links_are_read),
        cmocka_unit_test(mutated_texts_do_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
