/* SPDX-License-Identifier: Apache-2.0 */
/* What topologies say of hosts, ranks and NICs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <rondo/topo.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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

/* The one rule for NICs: not one that is much slower than another. */
static void nics_that_are_left_out_do_not_count(void **state)
{
    static const char tree[] = "rondo-tree 1\n"
                               "host - 0\n"
                               "nic 0 0 name=eth0 state=active gbps=12.5 netdev=eth0\n"
                               "nic 0 1 name=eth1 state=active gbps=12.5 netdev=eth1\n"
                               "nic 0 2 name=slow state=active gbps=1.25 netdev=slow\n";
    char path[] = "rondo-topo-XXXXXX";
    rondo_topo_info_t info = RONDO_TOPO_INFO_INIT;
    int fd = mkstemp(path);
    rondo_topo_t topo;

    (void)state;
    assert_true(fd >= 0 && write(fd, tree, strlen(tree)) == (ssize_t)strlen(tree) && close(fd) == 0);
    assert_int_equal(rondo_topo_load(path, &topo), 0);
    unlink(path);
    assert_int_equal(rondo_topo_query(topo, &info), 0);
    assert_int_equal(info.nics, 2);
    rondo_topo_destroy(topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nics_that_are_left_out_do_not_count),
        cmocka_unit_test(ranks_of_many_hosts_are_asked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
