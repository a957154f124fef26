/* SPDX-License-Identifier: Apache-2.0 */
/* A tree is made and asked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "topo/topo.h"

/* Two hosts with two NUMA nodes, each with two GPUs below a bridge of its own. */
static struct ri_topo *two_hosts(void)
{
    struct ri_topo *topo = ri_topo_create();

    assert_non_null(topo);
    for (int h = 0; h < 2; h++) {
        int32_t host = ri_topo_add(topo, RI_TOPO_HOST, -1, h), first = -1;

        for (int n = 0; n < 2; n++) {
            int32_t numa = ri_topo_add(topo, RI_TOPO_NUMA, host, n);

            for (int g = 0; g < 2; g++) {
                int32_t gpu = ri_topo_add(topo, RI_TOPO_GPU, ri_topo_add(topo, RI_TOPO_BRIDGE, numa, -1),
                                          2 * n + g);

                if (first < 0)
                    first = gpu;
                else
                    ri_topo_link(topo, gpu, first, RI_TOPO_NVLINK, 2, 50);
            }
        }
    }
    assert_int_equal(topo->error, 0);
    return topo;
}

static void objects_are_found(void **state)
{
    struct ri_topo *topo = two_hosts();
    int32_t host = ri_topo_find(topo, -1, RI_TOPO_HOST, 1), gpu = ri_topo_find(topo, host, RI_TOPO_GPU, 3);

    assert_int_equal(ri_topo_hosts(topo), 2);
    assert_int_equal(ri_topo_count(topo, host, RI_TOPO_GPU), 4);
    assert_int_equal(ri_topo_count(topo, -1, RI_TOPO_GPU), 8);
    assert_int_equal(ri_topo_find(topo, host, RI_TOPO_GPU, 4), -1);
    assert_string_equal(topo->objects[gpu].name, "gpu 3");
    assert_int_equal(ri_topo_host_of(topo, gpu), host);
    assert_int_equal(ri_topo_above(topo, gpu, RI_TOPO_NUMA), ri_topo_find(topo, host, RI_TOPO_NUMA, 1));
    assert_int_equal(ri_topo_above(topo, gpu, RI_TOPO_PACKAGE), -1);
    assert_int_equal(ri_topo_common(topo, gpu, ri_topo_find(topo, host, RI_TOPO_GPU, 2)),
                     ri_topo_find(topo, host, RI_TOPO_NUMA, 1));
    assert_int_equal(ri_topo_common(topo, gpu, ri_topo_find(topo, host, RI_TOPO_GPU, 0)), host);
    assert_int_equal(ri_topo_common(topo, gpu, ri_topo_find(topo, -1, RI_TOPO_GPU, 0)), -1);
    ri_topo_destroy(topo);
}

static void links_have_no_direction_and_add_up(void **state)
{
    struct ri_topo *topo = two_hosts();
    int32_t a = ri_topo_find(topo, -1, RI_TOPO_GPU, 0), b = ri_topo_find(topo, -1, RI_TOPO_GPU, 1);
    int32_t c = ri_topo_find(topo, -1, RI_TOPO_GPU, 2);

    ri_topo_link(topo, a, b, RI_TOPO_NVLINK, 1, 25);
    assert_int_equal(ri_topo_link_between(topo, b, a)->count, 3);
    assert_true(ri_topo_link_between(topo, a, b)->gbps == 75);
    assert_null(ri_topo_link_between(topo, b, c));
    assert_int_equal(topo->link_count, 6);
    ri_topo_link(topo, c, a, RI_TOPO_C2C, 1, 99);
    assert_true(ri_topo_link_between(topo, a, c)->gbps == 99);
    assert_int_equal(topo->link_count, 7);
    for (int32_t i = 1; i < topo->link_count; i++)
        assert_true(topo->links[i - 1].a <= topo->links[i].a);
    ri_topo_destroy(topo);
}

static void trees_are_joined(void **state)
{
    struct ri_topo *topo = two_hosts(), *other = two_hosts();
    int32_t gpu;

    ri_topo_notice(topo, "no verbs on %s", "node7");
    ri_topo_notice(other, "no verbs on node7");
    ri_topo_notice(other, "no\nverbs");
    ri_topo_append(topo, other);
    assert_int_equal(topo->error, 0);
    assert_int_equal(ri_topo_hosts(topo), 4);
    assert_int_equal(topo->link_count, 12);
    gpu = ri_topo_find(topo, ri_topo_find(topo, -1, RI_TOPO_HOST, 3), RI_TOPO_GPU, 1);
    assert_non_null(ri_topo_link_between(topo, gpu, ri_topo_find(topo, -1, RI_TOPO_GPU, 12)));
    assert_string_equal(topo->notices, "no verbs on node7\nno verbs\n");
    ri_topo_destroy(other);
    ri_topo_destroy(topo);
}

static void leaves_are_taken_out(void **state)
{
    struct ri_topo *topo = two_hosts();
    int32_t a = ri_topo_find(topo, -1, RI_TOPO_GPU, 0), b = ri_topo_find(topo, -1, RI_TOPO_GPU, 1);
    int32_t host = ri_topo_find(topo, -1, RI_TOPO_HOST, 1);
    int links = topo->link_count, objects = topo->object_count;

    ri_topo_remove(topo, b);
    assert_int_equal(topo->object_count, objects - 1);
    assert_int_equal(topo->link_count, links - 1);
    assert_int_equal(ri_topo_find(topo, -1, RI_TOPO_HOST, 1), host - 1);
    assert_int_equal(ri_topo_count(topo, host - 1, RI_TOPO_GPU), 4);
    assert_non_null(ri_topo_link_between(topo, a, ri_topo_find(topo, -1, RI_TOPO_GPU, 1)));
    ri_topo_remove(topo, a);
    assert_int_equal(topo->link_count, 3);
    while (topo->link_count)
        ri_topo_remove(topo, ri_topo_find(topo, -1, RI_TOPO_GPU, 0));
    a = ri_topo_find(topo, -1, RI_TOPO_NUMA, 0);
    ri_topo_link(topo, a, ri_topo_find(topo, -1, RI_TOPO_NUMA, 1), RI_TOPO_C2C, 1, 1);
    assert_int_equal(topo->link_count, 1);
    assert_int_equal(topo->error, 0);
    ri_topo_destroy(topo);
}

static void a_host_is_taken_out(void **state)
{
    struct ri_topo *topo = two_hosts(), *one;

    ri_topo_notice(topo, "no verbs");
    one = ri_topo_extract(topo, ri_topo_find(topo, -1, RI_TOPO_HOST, 1));
    assert_non_null(one);
    assert_int_equal(one->object_count, topo->object_count / 2);
    assert_string_equal(one->objects[0].name, "host 1");
    assert_int_equal(ri_topo_count(one, 0, RI_TOPO_GPU), 4);
    assert_int_equal(one->link_count, 3);
    assert_int_equal(ri_topo_link_between(one, ri_topo_find(one, 0, RI_TOPO_GPU, 0),
                                          ri_topo_find(one, 0, RI_TOPO_GPU, 3))->count, 2);
    assert_string_equal(one->notices, "no verbs\n");
    ri_topo_destroy(one);
    ri_topo_destroy(topo);
}

static void home_is_where_all_allowed_processors_are(void **state)
{
    static const struct { const char *host, *numa[2]; int home; } rows[] = {
        { "0-3", { "0-3,8-11", "4-7,12-15" }, 0 }, { "5,12-13", { "0-3,8-11", "4-7,12-15" }, 1 },
        { "3-4", { "0-3", "4-7" }, -1 },           { "", { "0-3", "4-7" }, -1 },
        { "0-3", { "", "" }, -1 },                 { "x", { "0-3", "4-7" }, -1 },
        { "2-4", { "0-3,4-7", "8" }, 0 },          { "1,", { "0", "1" }, 1 },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct ri_topo *topo = two_hosts();
        int32_t host = ri_topo_find(topo, -1, RI_TOPO_HOST, 1);

        strcpy(topo->objects[host].cpus, rows[i].host);
        for (int n = 0; n < 2; n++)
            strcpy(topo->objects[ri_topo_find(topo, host, RI_TOPO_NUMA, n)].cpus, rows[i].numa[n]);
        assert_int_equal(ri_topo_home(topo, host),
                         rows[i].home < 0 ? -1 : ri_topo_find(topo, host, RI_TOPO_NUMA, rows[i].home));
        ri_topo_destroy(topo);
    }
}

static void an_error_is_kept(void **state)
{
    struct ri_topo *topo = two_hosts();
    int32_t host;

    assert_int_equal(ri_topo_add(topo, RI_TOPO_GPU, -1, 0), -1);
    assert_int_equal(topo->error, RONDO_ERR_INTERNAL);
    host = ri_topo_add(topo, RI_TOPO_HOST, -1, 2);
    assert_int_equal(host, -1);
    ri_topo_link(topo, 0, 1, RI_TOPO_NVLINK, 1, 1);
    assert_int_equal(topo->link_count, 6);
    ri_topo_destroy(topo);
    ri_topo_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_are_found),
        cmocka_unit_test(links_have_no_direction_and_add_up),
        cmocka_unit_test(trees_are_joined),
        cmocka_unit_test(leaves_are_taken_out),
        cmocka_unit_test(a_host_is_taken_out),
        cmocka_unit_test(home_is_where_all_allowed_processors_are),
        cmocka_unit_test(an_error_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
