/* SPDX-License-Identifier: Apache-2.0 */
/* Which GID RoCE uses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <rondo/status.h>

#include "topo/gid.h"

#define LINK_LOCAL "fe80:0000:0000:0000:0a00:27ff:fe00:0001"
#define IPV4 "0000:0000:0000:0000:0000:ffff:0a4d:0005"
#define IPV4_LINK_LOCAL "0000:0000:0000:0000:0000:ffff:a9fe:0005"
#define UNIQUE_LOCAL "fd93:16d3:59b6:012e:7ed3:0aff:fe00:0001"
#define EMPTY "0000:0000:0000:0000:0000:0000:0000:0000"

struct entry {
    const char *text;
    int version;
};

static int pick(const struct entry *entries, int count, int32_t forced, int32_t *index)
{
    struct ri_gid gids[8];

    for (int i = 0; i < count; i++) {
        assert_true(ri_gid_read(entries[i].text, gids[i].raw));
        gids[i].is_v2 = entries[i].version == 2;
        gids[i].index = i;
    }
    return ri_gid_pick(gids, count, "mlx5_0", forced, index);
}

static void those_that_routers_pass_on_go_first(void **state)
{
    static const struct entry a[] = { { LINK_LOCAL, 1 }, { LINK_LOCAL, 2 }, { IPV4, 1 }, { IPV4, 2 } };
    static const struct entry b[] = { { LINK_LOCAL, 2 }, { UNIQUE_LOCAL, 2 } };
    static const struct entry c[] = { { EMPTY, 2 }, { IPV4_LINK_LOCAL, 2 }, { UNIQUE_LOCAL, 2 }, { EMPTY, 2 },
                                      { IPV4, 2 },  { IPV4, 2 } };
    static const struct entry v1_only[] = { { LINK_LOCAL, 1 }, { IPV4, 1 } };
    static const struct entry v2_on_link[] = { { IPV4, 1 }, { LINK_LOCAL, 2 } };
    int32_t index = 77;

    assert_int_equal(pick(a, 4, -1, &index), 0);
    assert_int_equal(index, 3);
    assert_int_equal(pick(b, 2, -1, &index), 0);
    assert_int_equal(index, 1);
    assert_int_equal(pick(c, 6, -1, &index), 0);
    assert_int_equal(index, 4);
    assert_int_equal(pick(v1_only, 2, -1, &index), 0);
    assert_int_equal(index, 1);
    assert_int_equal(pick(v2_on_link, 2, -1, &index), 0);
    assert_int_equal(index, 1);
    assert_int_equal(pick(c, 1, -1, &index), 0);
    assert_int_equal(index, -1);
    assert_int_equal(pick(c, 0, -1, &index), 0);
    assert_int_equal(index, -1);
}

static void a_forced_one_must_be_there(void **state)
{
    static const struct entry a[] = { { LINK_LOCAL, 1 }, { LINK_LOCAL, 2 }, { EMPTY, 1 }, { IPV4, 2 } };
    int32_t index = 77;

    assert_int_equal(pick(a, 4, 4, &index), RONDO_ERR_ARGUMENT);
    assert_non_null(strstr(rondo_last_error(), "GID index 4: mlx5_0 has 0 to 3"));
    assert_int_equal(pick(a, 4, -2, &index), RONDO_ERR_ARGUMENT);
    assert_non_null(strstr(rondo_last_error(), "GID index -2: mlx5_0 has 0 to 3"));
    assert_int_equal(pick(a, 4, 2, &index), RONDO_ERR_ARGUMENT);
    assert_non_null(strstr(rondo_last_error(), "GID index 2: that entry of mlx5_0 is empty"));
    assert_int_equal(pick(a, 0, 0, &index), RONDO_ERR_ARGUMENT);
    assert_int_equal(index, 77);
    assert_int_equal(pick(a, 4, 0, &index), 0);
    assert_int_equal(index, 0);
}

static void what_is_no_gid_is_refused(void **state)
{
    static const char *const wrong[] = { "", "fe80", "fe80::1", LINK_LOCAL ":", LINK_LOCAL "0",
                                         "fe80:0000:0000:0000:0a00:27ff:fe00:-001",
                                         "fe80:0000:0000:0000:0a00:27ff:fe00: 001",
                                         "fe80:0000:0000:0000:0a00:27ff:fe00:0x01" };
    uint8_t raw[16];

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        if (ri_gid_read(wrong[i], raw))
            fail_msg("\"%s\" was read", wrong[i]);
    assert_true(ri_gid_read(IPV4, raw));
    assert_int_equal(raw[10], 0xff);
    assert_int_equal(raw[12], 10);
    assert_int_equal(raw[13], 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_that_routers_pass_on_go_first),
        cmocka_unit_test(a_forced_one_must_be_there),
        cmocka_unit_test(what_is_no_gid_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
