/* SPDX-License-Identifier: Apache-2.0 */
/* Each request for memory fails once, and once it and all after it: topologies then say so, and nothing breaks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <rondo/status.h>
#include <stdlib.h>
#include <string.h>

#include "topo/topo.h"

enum { RANKS = 12 };

static struct {
    int asked, first, last; /* requests so far; those that fail, from 1; 0: none */
} requests;

static int is_refused(void)
{
    requests.asked++;
    return requests.asked >= requests.first && requests.asked <= requests.last;
}

/* Names that the linker gives. */
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t bytes)
{
    return is_refused() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return is_refused() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
    return is_refused() ? NULL : __real_realloc(old, bytes);
}

char *__wrap_strdup(const char *text)
{
    return is_refused() ? NULL : __real_strdup(text);
}

/* Goes on after each of these, as a caller may. */
static void good_or_no_memory(int status)
{
    if (status < 0)
        assert_int_equal(status, RONDO_ERR_MEMORY);
}

static void ask_for_orders(const struct ri_topo *topo)
{
    int32_t numbers[RANKS];
    struct ri_topo_lanes lanes;
    char *text;

    good_or_no_memory(ri_topo_ring(topo, numbers));
    assert_int_equal(ri_topo_rails(topo, numbers), topo->rank_count / 6);
    good_or_no_memory(ri_topo_head_groups(topo, 3, numbers));
    if (ri_topo_lanes(topo, NULL, &lanes) == 0 && topo->rank_count)
        assert_true(lanes.local_gbps == 300 && lanes.host_gbps > 0);
    good_or_no_memory(ri_topo_lanes(topo, NULL, &lanes));
    text = ri_topo_explain(topo);
    free(text);
}

static void pass_on(const struct ri_topo *topo)
{
    struct ri_topo *other = ri_topo_create(), *one = ri_topo_extract(topo, 0), *again = NULL;
    char *text = ri_topo_pack(topo), *xml = ri_topo_to_nccl_xml(topo, 0);

    if (other) {
        ri_topo_append(other, topo);
        ri_topo_notice(other, "%s", "not all could be found out");
        good_or_no_memory(other->error);
    }
    if (text)
        good_or_no_memory(ri_topo_unpack(text, &again));
    ri_topo_destroy(again);
    ri_topo_destroy(one);
    ri_topo_destroy(other);
    free(xml);
    free(text);
}

static void live_through(const char *description)
{
    struct ri_topo *topo = NULL;
    const int32_t host_of[6] = { 0, 0, 0, 1, 1, 1 };
    int err = ri_topo_from_text(description, &topo), ranks;

    good_or_no_memory(err);
    if (err) {
        assert_null(topo);
        return;
    }
    err = ri_topo_place(topo, 0, NULL, NULL);
    good_or_no_memory(err);
    assert_int_equal(topo->rank_count, err ? 0 : RANKS);
    ranks = topo->rank_count;
    err = ri_topo_place(topo, 6, host_of, NULL);
    good_or_no_memory(err);
    assert_int_equal(topo->rank_count, err ? ranks : 6);
    ask_for_orders(topo);
    pass_on(topo);
    ri_topo_destroy(topo);
}

static void each_request_may_fail(void **state)
{
    static const char description[] = "host:2 name:node numa:2 gpu:6 nic:2 nvlink:300 pcie:25 net:25";
    int all;

    (void)state;
    requests.asked = requests.first = requests.last = 0;
    live_through(description);
    all = requests.asked;
    assert_true(all > 20);
    for (int n = 1; n <= all; n++)
        for (int to_the_end = 0; to_the_end < 2; to_the_end++) {
            requests.asked = 0;
            requests.first = n;
            requests.last = to_the_end ? INT32_MAX : n;
            live_through(description);
            requests.first = requests.last = 0;
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_request_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
