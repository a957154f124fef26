/* SPDX-License-Identifier: Apache-2.0 */
/* What libibverbs adds, with a library of our own in its place. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fake.h"
#include "topo/nic.h"
#include "topo/verbs.h"

/* ---- the library ---- */

struct device {
    char name[16];
    int refusal; /* errno of its open; 0: it opens */
    int is_open;
    int ports;
    struct ri_verbs_port port;
};

#define HDR_PORT { 4, 2, 0, 5, 64, 2 }

static struct device devices[4];
static void *listed[5];
static int lists;

static void set_devices(void)
{
    static const struct device initial[4] = {
        { "mlx5_0", 0, 0, 1, HDR_PORT },
        { "mlx5_1", ENODEV, 0, 1, HDR_PORT },
        { "mlx5_2", 0, 0, 2, HDR_PORT },
        { "mlx5_3", EACCES, 0, 1, HDR_PORT },
    };

    memcpy(devices, initial, sizeof(devices));
}

static void **list_devices(int *count)
{
    for (int i = 0; i < 4; i++)
        listed[i] = &devices[i];
    *count = 4;
    lists++;
    return listed;
}

static void **list_none(int *count)
{
    *count = 0;
    errno = ENOSYS;
    return NULL;
}

static void free_list(void **list)
{
    assert_ptr_equal(list, listed);
    lists--;
}

static const char *device_name(void *device)
{
    return ((struct device *)device)->name;
}

static void *open_device(void *device)
{
    struct device *opened = device;

    errno = opened->refusal;
    opened->is_open += !opened->refusal;
    return opened->refusal ? NULL : opened;
}

static int close_device(void *context)
{
    ((struct device *)context)->is_open--;
    return 0;
}

static int count_ports(void *context)
{
    return ((struct device *)context)->ports;
}

static int query_port(void *context, int port, struct ri_verbs_port *out)
{
    *out = ((struct device *)context)->port;
    out->state = port == 2 ? 1 : out->state;
    return 0;
}

static const struct ri_verbs_calls calls = { list_devices, free_list, device_name, open_device, close_device,
                                             count_ports,  query_port };

/* ---- trees ---- */

/* A host with one NIC for each device, of which sysfs told little. */
static struct ri_topo *four_nics(void)
{
    struct ri_topo *topo = fake_host(1);

    for (int i = 0; i < 4; i++) {
        int32_t at = ri_topo_add(topo, RI_TOPO_NIC, 1, -1);
        struct ri_topo_object *object = &topo->objects[at];

        snprintf(object->name, sizeof(object->name), "mlx5_%d", i);
        snprintf(object->nic.device, sizeof(object->nic.device), "mlx5_%d", i);
        snprintf(object->nic.card, sizeof(object->nic.card), "card%d", i);
        object->nic.port = 1;
        object->nic.lid = -1;
        ri_rdma_judge(&object->nic, "");
    }
    return topo;
}

static void apply(const struct ri_verbs_calls *library, struct ri_topo *topo)
{
    char *text = ri_verbs_text(library);

    assert_non_null(text);
    ri_verbs_apply(text, topo, 0);
    free(text);
}

/* ---- tests ---- */

static void those_that_open_are_used(void **state)
{
    struct ri_topo *topo = four_nics();
    const struct ri_topo_nic *nic;
    int32_t rails[8];

    set_devices();
    apply(&calls, topo);
    nic = &fake_object(topo, "mlx5_0")->nic;
    assert_int_equal(nic->state, RI_TOPO_ACTIVE);
    assert_int_equal(nic->layer, RI_TOPO_ETHERNET);
    assert_int_equal(nic->mtu, 4096);
    assert_true(nic->gbps == 25);
    assert_string_equal(nic->unusable, "");
    assert_non_null(strstr(fake_object(topo, "mlx5_3")->nic.unusable, "cannot be opened: "));
    assert_int_equal(ri_topo_pick_rails(topo, 0, 8, rails), 2);
    assert_string_equal(topo->objects[rails[0]].name, "mlx5_0");
    assert_string_equal(topo->objects[rails[1]].name, "mlx5_2");
    /* A port that sysfs did not show is there, and down. */
    assert_string_equal(fake_object(topo, "mlx5_2:2")->nic.unusable, "port is down");
    assert_non_null(topo->notices);
    assert_ptr_equal(strchr(topo->notices, '\n') + 1, topo->notices + strlen(topo->notices));
    assert_non_null(strstr(topo->notices, "mlx5_1 (No such device"));
    assert_non_null(strstr(topo->notices, "mlx5_3 (Permission denied"));
    assert_null(strstr(topo->notices, "mlx5_0"));
    for (int i = 0; i < 4; i++)
        assert_int_equal(devices[i].is_open, 0);
    assert_int_equal(lists, 0);
    ri_topo_destroy(topo);
}

static void no_library_is_silent(void **state)
{
    struct ri_verbs_calls none = calls;
    struct ri_topo *topo = four_nics();
    char *text;

    none.list = list_none;
    text = ri_verbs_text(&none);
    assert_string_equal(text, "");
    ri_verbs_apply(text, topo, 0);
    assert_null(topo->notices);
    assert_int_equal(topo->object_count, 6);
    free(text);
    ri_topo_destroy(topo);
}

static void sysfs_is_believed_first(void **state)
{
    struct ri_topo *topo = four_nics();
    struct ri_topo_nic *nic = &topo->objects[2].nic;

    nic->state = RI_TOPO_ACTIVE;
    nic->layer = RI_TOPO_INFINIBAND;
    nic->lid = 7;
    nic->mtu = 2048;
    nic->gbps = 12.5;
    nic->unusable[0] = 0;
    set_devices();
    devices[0].port.state = 1;
    apply(&calls, topo);
    nic = &topo->objects[2].nic;
    assert_int_equal(nic->state, RI_TOPO_ACTIVE);
    assert_int_equal(nic->layer, RI_TOPO_INFINIBAND);
    assert_int_equal(nic->lid, 7);
    assert_int_equal(nic->mtu, 2048);
    assert_true(nic->gbps == 12.5);
    assert_string_equal(nic->unusable, "");
    ri_topo_destroy(topo);
}

static void an_interface_outlives_its_rdma(void **state)
{
    struct ri_topo *topo = four_nics();
    struct ri_topo_nic *nic = &topo->objects[3].nic;

    nic->state = RI_TOPO_ACTIVE;
    nic->layer = RI_TOPO_ETHERNET;
    nic->gid_index = 3;
    nic->unusable[0] = 0;
    strcpy(nic->netdev, "eth1");
    set_devices();
    apply(&calls, topo);
    nic = &topo->objects[3].nic;
    assert_string_equal(topo->objects[3].name, "eth1");
    assert_int_equal(nic->port, 0);
    assert_int_equal(nic->gid_index, -1);
    assert_string_equal(nic->device, "");
    assert_string_equal(nic->unusable, "");
    ri_topo_destroy(topo);
}

static void devices_without_a_file_are_not_used(void **state)
{
    struct ri_topo *topo = four_nics();

    ri_verbs_apply("listed 1\nopen mlx5_0 1\nport mlx5_0 1 4 2 0 4096 25\n", topo, 0);
    assert_string_equal(fake_object(topo, "mlx5_0")->nic.unusable, "");
    assert_string_equal(fake_object(topo, "mlx5_3")->nic.unusable, "libibverbs does not list it");
    assert_int_equal(fake_object(topo, "mlx5_3")->nic.port, 0);
    assert_non_null(strstr(topo->notices, "3 RDMA devices of /sys cannot be used: libibverbs does not list them"));
    ri_topo_destroy(topo);
}

/* Generations of InfiniBand as ports report them. */
static void rates_are_speed_times_width(void **state)
{
    static const struct {
        int speed, width;
        const char *gbps;
    } cases[] = { { 1, 1, "0.3125" }, { 4, 2, "5" },   { 16, 2, "7.03125" }, { 32, 2, "12.5" },
                  { 64, 2, "25" },    { 128, 2, "50" }, { 128, 16, "25" },    { 0, 2, "0" },
                  { 64, 3, "0" } };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char expected[64], *text;

        set_devices();
        devices[0].port.speed = cases[i].speed;
        devices[0].port.width = cases[i].width;
        text = ri_verbs_text(&calls);
        snprintf(expected, sizeof(expected), "port mlx5_0 1 4 2 0 4096 %s\n", cases[i].gbps);
        assert_non_null(strstr(text, expected));
        free(text);
    }
}

static void mutated_texts_do_no_harm(void **state)
{
    static const char sound[] = "listed 4\nopen mlx5_0 1\nport mlx5_0 1 4 2 0 4096 25\nclosed mlx5_1 19\n"
                                "open mlx5_2 2\nport mlx5_2 2 1 2 0 1024 1e3\nclosed mlx5_3 13\n";
    unsigned seed = 20240607;

    for (int round = 0; round < 3000; round++) {
        struct ri_topo *topo = four_nics();
        char text[sizeof(sound)];

        memcpy(text, sound, sizeof(sound));
        for (int i = 0; i < 1 + round % 8; i++) {
            seed = seed * 1103515245u + 12345u;
            text[8 + (seed >> 8) % (sizeof(sound) - 9)] = "0123456789 -\nmlxport\x80."[(seed >> 20) % 22];
        }
        ri_verbs_apply(text, topo, 0);
        assert_int_equal(topo->error, 0);
        ri_topo_destroy(topo);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_that_open_are_used),
        cmocka_unit_test(no_library_is_silent),
        cmocka_unit_test(sysfs_is_believed_first),
        cmocka_unit_test(an_interface_outlives_its_rdma),
        cmocka_unit_test(devices_without_a_file_are_not_used),
        cmocka_unit_test(rates_are_speed_times_width),
        cmocka_unit_test(mutated_texts_do_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
