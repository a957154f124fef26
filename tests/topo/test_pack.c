/* SPDX-License-Identifier: Apache-2.0 */
/* A packed tree comes back as it was; a damaged one is refused or is a tree. */
#include <float.h>
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "topo/decimal.h"
#include "topo/topo.h"

/* All fields are used, with characters that need care. */
static struct ri_topo *odd_tree(void)
{
    struct ri_topo *topo = ri_topo_create();
    int32_t host = ri_topo_add(topo, RI_TOPO_HOST, -1, 0), numa, root, gpu, other, nic;
    struct ri_topo_nic *n;

    strcpy(topo->objects[host].name, "n\xc3\xb6" "de = 50%");
    strcpy(topo->objects[host].id, "4c4c4544");
    numa = ri_topo_add(topo, RI_TOPO_NUMA, ri_topo_add(topo, RI_TOPO_PACKAGE, host, 0), 0);
    strcpy(topo->objects[numa].cpus, "0-31,64-95");
    topo->objects[numa].cpu_count = 64;
    topo->objects[numa].memory_bytes = INT64_C(540000000001);
    root = ri_topo_add(topo, RI_TOPO_ROOT, numa, -1);
    other = ri_topo_add(topo, RI_TOPO_BRIDGE, ri_topo_add(topo, RI_TOPO_BRIDGE, root, 0), 1);
    gpu = ri_topo_add(topo, RI_TOPO_GPU, other, 0);
    topo->objects[gpu].link_gbps = 1.0 / 3;
    topo->objects[gpu].full_gbps = 31.507692307692309;
    topo->objects[numa].copy_gbps = 5.25;
    topo->objects[numa].copy_latency_us = 0.7;
    strcpy(topo->objects[gpu].model, "A GPU");
    nic = ri_topo_add(topo, RI_TOPO_NIC, host, 0);
    n = &topo->objects[nic].nic;
    *n = (struct ri_topo_nic){ .layer = RI_TOPO_ETHERNET, .state = RI_TOPO_INIT, .port = 2, .lid = 7, .gid_index = 3,
                               .mtu = 9000, .gbps = 12.5, .device = "mlx5_0", .netdev = "eth0", .card = "c",
                               .subnet = "10.0.0.0/8", .bond = "bond0", .is_virtual = 1, .is_loopback = 1,
                               .unusable = "port is down" };
    strcpy(topo->objects[nic].pci, "0000:17:00.0");
    topo->objects[nic].name[0] = 0;
    ri_topo_link(topo, gpu, numa, RI_TOPO_C2C, 1, 450.125);
    other = ri_topo_add(topo, RI_TOPO_GPU, host, 1);
    ri_topo_link(topo, other, gpu, RI_TOPO_NVLINK, 12, 300);
    ri_topo_add(topo, RI_TOPO_HOST, -1, 1);
    topo->net_latency_us = 0.1;
    ri_topo_notice(topo, "no verbs: 100%% of them");
    ri_topo_notice(topo, " second ");
    assert_int_equal(topo->error, 0);
    return topo;
}

static void assert_same_object(const struct ri_topo_object *a, const struct ri_topo_object *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->parent, b->parent);
    assert_int_equal(a->number, b->number);
    assert_string_equal(a->name, b->name);
    assert_string_equal(a->pci, b->pci);
    assert_string_equal(a->model, b->model);
    assert_string_equal(a->id, b->id);
    assert_string_equal(a->cpus, b->cpus);
    assert_int_equal(a->cpu_count, b->cpu_count);
    assert_true(a->memory_bytes == b->memory_bytes);
    assert_true(a->link_gbps == b->link_gbps && a->full_gbps == b->full_gbps);
    assert_true(a->copy_gbps == b->copy_gbps && a->copy_latency_us == b->copy_latency_us);
}

static void assert_same_nic(const struct ri_topo_nic *a, const struct ri_topo_nic *b)
{
    assert_int_equal(a->layer, b->layer);
    assert_int_equal(a->state, b->state);
    assert_int_equal(a->port, b->port);
    assert_int_equal(a->lid, b->lid);
    assert_int_equal(a->gid_index, b->gid_index);
    assert_int_equal(a->mtu, b->mtu);
    assert_true(a->gbps == b->gbps);
    assert_string_equal(a->device, b->device);
    assert_string_equal(a->netdev, b->netdev);
    assert_string_equal(a->card, b->card);
    assert_string_equal(a->subnet, b->subnet);
    assert_string_equal(a->bond, b->bond);
    assert_int_equal(a->is_virtual, b->is_virtual);
    assert_int_equal(a->is_loopback, b->is_loopback);
    assert_string_equal(a->unusable, b->unusable);
}

static void there_and_back(void **state)
{
    struct ri_topo *topo = odd_tree(), *back = NULL;
    char *text = ri_topo_pack(topo), *again;

    if (ri_topo_unpack(text, &back))
        fail_msg("%s", rondo_last_error());
    assert_int_equal(back->object_count, topo->object_count);
    assert_int_equal(back->link_count, topo->link_count);
    assert_int_equal(back->rank_count, 0);
    for (int32_t i = 0; i < topo->object_count; i++) {
        assert_same_object(&topo->objects[i], &back->objects[i]);
        assert_same_nic(&topo->objects[i].nic, &back->objects[i].nic);
    }
    for (int32_t i = 0; i < topo->link_count; i++) {
        const struct ri_topo_link *a = &topo->links[i], *b = &back->links[i];

        assert_true(a->a == b->a && a->b == b->b && a->kind == b->kind && a->count == b->count && a->gbps == b->gbps);
    }
    assert_true(back->net_latency_us == topo->net_latency_us);
    assert_string_equal(back->notices, topo->notices);
    again = ri_topo_pack(back);
    assert_string_equal(again, text);
    free(again);
    free(text);
    ri_topo_destroy(back);
    ri_topo_destroy(topo);
}

static void only_what_is_known_is_written(void **state)
{
    struct ri_topo *topo = ri_topo_create();
    int32_t host = ri_topo_add(topo, RI_TOPO_HOST, -1, 0), gpu = ri_topo_add(topo, RI_TOPO_GPU, host, 0);
    char *text;

    ri_topo_link(topo, gpu, ri_topo_add(topo, RI_TOPO_NIC, host, -1), RI_TOPO_XGMI, 2, 37.5);
    text = ri_topo_pack(topo);
    assert_string_equal(text, "rondo-tree 1\nhost - 0\ngpu 0 0\nnic 0 -1\nlink 1 2 xgmi 2 37.5\n");
    free(text);
    ri_topo_destroy(topo);
}

/* A library does not know what locale its process has. */
static void decimals_come_back(void **state)
{
    static const double values[] = { 0, 0.1, 1.0 / 3, 12.5, 31.507692307692309, 1e300, DBL_MIN, DBL_MAX, 5e-324, 1e15 };
    static const char *const wrong[] = { "", " 1", "1 ", "1,5", "nan", "inf", "0x1p3", "1e999", ".", "1e", "--1" };
    char text[RI_DECIMAL_ROOM];
    double back;
    int64_t whole;

    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8"))
        print_message("there is no locale with a decimal comma here\n");
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        ri_decimal_print(values[i], text);
        assert_int_equal(ri_decimal_read(text, &back), 0);
        assert_true(back == values[i]);
    }
    ri_decimal_print(0.1, text);
    assert_string_equal(text, "0.1");
    setlocale(LC_NUMERIC, "C");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(ri_decimal_read(wrong[i], &back), -1);
    assert_int_equal(ri_decimal_read_whole("-1", -1, 5, &whole), 0);
    assert_true(whole == -1);
    assert_int_equal(ri_decimal_read_whole("6", -1, 5, &whole), -1);
    assert_int_equal(ri_decimal_read_whole("99999999999999999999", 0, INT64_MAX, &whole), -1);
    assert_int_equal(ri_decimal_read_whole("-", -9, 5, &whole), -1);
    assert_int_equal(ri_decimal_read_whole("+1", -9, 5, &whole), -1);
}

static void what_is_wrong_is_named(void **state)
{
    static const struct {
        const char *lines, *says;
    } wrong[] = {
        { "", "no host" },
        { "gpu - 0\n", "line 2" },
        { "gpu 0 0\n", "\"0\"" },
        { "host 0 0\n", "below nothing" },
        { "host - 0\ngpu 1 0\n", "line 3: \"1\"" },
        { "host - 0\nhost - 1\ngpu 0 0\n", "cannot be below" },
        { "host - 0\ngpu 0 0\nnic 1 0\n", "cannot be below" },
        { "host - 0\nnuma 0 0\npackage 1 0\n", "cannot be below" },
        { "host - 0\ngpu 0 -2\n", "\"-2\"" },
        { "host - 0\ngpu 0 0 colour=red\n", "no such field" },
        { "host - 0\ngpu 0 0 mtu=9000\n", "no such field" },
        { "host - 0\ngpu 0 0 link_gbps=-1\n", "0 to 1e9" },
        { "host - 0\ngpu 0 0 link_gbps=nan\n", "0 to 1e9" },
        { "host - 0\ngpu 0 0 link_gbps=inf\n", "0 to 1e9" },
        { "host - 0\nnic 0 0 layer=ring\n", "no such word" },
        { "host - 0\nnic 0 0 virtual=2\n", "\"2\"" },
        { "host - 0\nnic 0 0 netdev=0123456789abcdef\n", "too long" },
        { "host - 0 name=a%0ab\n", "cannot be" },
        { "host - 0 name=a%\n", "cannot be" },
        { "host - 0 name=a%zz\n", "cannot be" },
        { "host - 0\ngpu 0 0\nlink 1 1 nvlink 1 1\n", "\"1\"" },
        { "host - 0\ngpu 0 0\nlink 0 1 string 1 1\n", "LINK" },
        { "host - 0\ngpu 0 0\nlink 0 1 nvlink 1 1\nlink 0 1 nvlink 1 1\n", "out of order" },
        { "host - 0\nhost - 1\nlink 0 1 nvlink 1 1\n", "within a host" },
        { "host - 0\ngpu 0 0\nlink 0 1 nvlink 1\n", "0 to 1e9" },
        { "host - 0\nrouter 0 0\n", "no such line" },
        { "host - 0\nlatency\n", "0 to 1e9" },
    };
    char text[256];
    struct ri_topo *topo = NULL;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        snprintf(text, sizeof(text), "rondo-tree 1\n%s", wrong[i].lines);
        assert_int_equal(ri_topo_unpack(text, &topo), RONDO_ERR_ARGUMENT);
        assert_null(topo);
        if (!strcasestr(rondo_last_error(), wrong[i].says))
            fail_msg("%s says: %s", wrong[i].lines, rondo_last_error());
    }
    assert_int_equal(ri_topo_unpack("", &topo), RONDO_ERR_ARGUMENT);
    assert_int_equal(ri_topo_unpack("rondo-tree 2\nhost - 0\n", &topo), RONDO_ERR_ARGUMENT);
}

/* Bridges below bridges without end would make every walk to the root long. */
static void no_tree_is_deep(void **state)
{
    char text[4096];
    struct ri_topo *topo = NULL;
    int length = snprintf(text, sizeof(text), "rondo-tree 1\nhost - 0\nroot 0 0\n");

    for (int i = 0; i < 100; i++)
        length += snprintf(text + length, sizeof(text) - (size_t)length, "bridge %d 0\n", i + 1);
    assert_int_equal(ri_topo_unpack(text, &topo), RONDO_ERR_ARGUMENT);
    assert_non_null(strstr(rondo_last_error(), "cannot be below"));
}

static void assert_valid(const struct ri_topo *topo)
{
    char *text = ri_topo_pack(topo), *again;
    struct ri_topo *back = NULL;

    assert_int_equal(topo->error, 0);
    assert_non_null(text);
    if (ri_topo_unpack(text, &back))
        fail_msg("%s\n%s", rondo_last_error(), text);
    again = ri_topo_pack(back);
    assert_string_equal(again, text);
    free(again);
    free(text);
    ri_topo_destroy(back);
}

static void damaged_packs(void **state)
{
    struct ri_topo *odd = odd_tree();
    char *good = ri_topo_pack(odd);
    size_t length = strlen(good);
    uint32_t seed = 66;
    int trees = 0;

    for (int round = 0; round < 6000; round++) {
        char *text = strdup(good);
        struct ri_topo *topo = NULL;

        for (int edits = 1 + round % 4; edits > 0; edits--) {
            seed = seed * 1664525 + 1013904223;
            text[(seed >> 8) % length] = round % 2 ? "0123456789-% =\n"[(seed >> 4) % 15] : (char)(seed >> 24);
        }
        if (ri_topo_unpack(text, &topo) == 0) {
            assert_valid(topo);
            trees++;
        }
        ri_topo_destroy(topo);
        free(text);
    }
    assert_in_range(trees, 100, 5900);
    free(good);
    ri_topo_destroy(odd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(only_what_is_known_is_written),
        cmocka_unit_test(decimals_come_back),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(no_tree_is_deep),
        cmocka_unit_test(damaged_packs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
