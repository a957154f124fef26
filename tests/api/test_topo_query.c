/* SPDX-License-Identifier: Apache-2.0 */
/* What topologies say of hosts, ranks and NICs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <rondo/topo.h>
#include <time.h>

/* To count hosts anew for each of them would take minutes. */
static void ranks_of_many_hosts_are_asked(void **state)
{
    enum { HOSTS = 4096 };
    rondo_topo_t topo;
    clock_t start;

    (void)state;
    assert_int_equal(rondo_topo_load("host:4096 numa:4", &topo), 0);
    start = clock();
    for (int r = 0; r < 4 * HOSTS; r += 4) {
        rondo_topo_rank_info_t at = RONDO_TOPO_RANK_INFO_INIT;

        assert_int_equal(rondo_topo_query_rank(topo, r, &at), 0);
        assert_int_equal(at.host, r / 4);
    }
    assert_true(clock() - start < 10 * CLOCKS_PER_SEC);
    rondo_topo_destroy(topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_of_many_hosts_are_asked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
