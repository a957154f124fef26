/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts with any numbers of ranks, in any order: each letter is a rank, by the host on which it is. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <string.h>

#include "tests/api/shard.h"
#include "transport/transport.h"

enum { MOST_RANKS = 15 };

struct test {
    struct meeting meeting;
    const char *transport, *hosts, *schedule, *topo;
    struct problem problem;
    uint64_t host_bytes[MOST_RANKS]; /* sent to other hosts in one forward */
};

static int local_size(const char *hosts, int rank)
{
    int n = 0;

    for (const char *at = hosts; *at; at++)
        n += *at == hosts[rank];
    return n;
}

static int is_right(const struct test *t, rondo_comm_t comm, int rank)
{
    rondo_comm_info_t info = RONDO_COMM_INFO_INIT;

    return expect(!rondo_comm_query(comm, &info) && info.local_size == local_size(t->hosts, rank),
                  "rank %d of %s is one of %d", rank, t->hosts, info.local_size);
}

static int order_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_config_t config = RONDO_CONFIG_INIT;
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    rondo_plan_stats_t stats = RONDO_PLAN_STATS_INIT;
    rondo_layout_t layout = layout_of(RONDO_LAYOUT_ZIGZAG, t->problem.tokens, ranks);
    rondo_attention_desc_t desc = desc_of(&t->problem);
    char host[2] = { t->hosts[rank], 0 };
    rondo_plan_t plan = NULL;
    rondo_comm_t comm = NULL;
    struct shard s;
    int bad;

    config.transport = t->transport;
    config.host_id = host;
    config.connect_timeout_ms = 30000;
    config.topo = t->topo;
    options.schedule = t->schedule;
    bad = expect(!meet(&t->meeting, rank, ranks, &config, &comm), "rank %d of %s: %s", rank, t->hosts,
                 rondo_last_error());
    if (!bad)
        bad = is_right(t, comm, rank);
    shard_init(&s, layout, rank, &t->problem);
    if (!bad)
        bad = expect(!rondo_attention_plan(comm, layout, &desc, &options, &plan) && !shard_forward(plan, &s) &&
                         !rondo_plan_stats(plan, &stats) && !shard_backward(plan, &s), "rank %d of %s: %s", rank,
                     t->hosts, rondo_last_error());
    if (!bad)
        bad = expect(shard_forward_error(&s, &t->problem) <= SHARD_BAR &&
                         shard_backward_error(&s, &t->problem) <= SHARD_BAR, "rank %d of %s, %s over %s is off", rank,
                     t->hosts, t->schedule, t->transport);
    t->host_bytes[rank] = stats.sent_bytes[1];
    rondo_plan_destroy(plan);
    shard_release(&s);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

/* Returns the bytes between hosts of a forward; 0 when the transport is not built in. */
static uint64_t run_on(const char *transport, const char *hosts, const char *schedule, const char *topo)
{
    struct test *t;
    int ranks = (int)strlen(hosts);
    uint64_t sum = 0;

    if (!ri_transport_find(transport) || (strcmp(transport, "shm+ucx") == 0 && !ri_transport_find("shm")))
        return 0;
    t = shared_memory(sizeof(*t));
    t->transport = transport;
    t->hosts = hosts;
    t->schedule = schedule;
    t->topo = topo;
    t->problem = (struct problem){ .batch = 1, .tokens = 4 * ranks, .causal = 1, .q_heads = 2, .kv_heads = 1,
                                   .qk_dim = 8, .v_dim = 8 };
    problem_init(&t->problem, (uint64_t)ranks);
    assert_int_equal(run_ranks(ranks, ranks_want_processes(transport), 100, order_body, t), 0);
    for (int r = 0; r < ranks; r++)
        sum += t->host_bytes[r];
    problem_release(&t->problem);
    shared_memory_release(t, sizeof(*t));
    return sum;
}

static uint64_t run(const char *transport, const char *hosts, const char *schedule)
{
    return run_on(transport, hosts, schedule, "off");
}

/* ---- hosts of different sizes (NVIDIA/nccl#2385) ---- */

static void hosts_of_any_size(void **state)
{
    static const char *const hosts[] = { "AAABB", "AAAAAAABBBBBBBB", "ABBBB", "ABCCCCCC" };

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_true(run("self", hosts[i], "two-level") > 0);
}

static void hosts_of_any_size_between_processes(void **state)
{
    (void)state;
    run("ucx", "AAABB", "two-level");
    run("ucx", "ABBBB", "two-level");
    run("shm+ucx", "AAABB", "two-level");
    run("shm+ucx", "ABBBB", "two-level");
}

/* ---- ranks of two hosts in any order (open-mpi/ompi#12136) ---- */

/* A flat ring goes round in the order of ranks, and crosses 2, 8 and 2 times; a two-level ring, which a plan
 * takes when it may choose, knows who is where. */
static void ranks_of_two_hosts_in_any_order(void **state)
{
    static const char *const orders[] = { "AAAABBBB", "ABABABAB", "AABBBBAA" };
    uint64_t flat[3], two_level[3], chosen[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        flat[i] = run("self", orders[i], "ring");
        two_level[i] = run("self", orders[i], "two-level");
        chosen[i] = run("self", orders[i], "auto");
    }
    assert_true(flat[1] > 3 * flat[0] && flat[1] < 5 * flat[0]);
    for (int i = 0; i < 3; i++) {
        assert_true(two_level[i] > 0 && two_level[i] <= flat[0]);
        assert_int_equal(two_level[i], two_level[0]);
        assert_int_equal(chosen[i], chosen[0]);
        assert_true(chosen[i] <= flat[0]);
    }
}

/* With a topology it goes host after host, so that any order crosses twice. */
static void a_flat_ring_follows_the_topology(void **state)
{
    static const char topo[] = "host:2 numa:1 nic:1 net:1";

    (void)state;
    assert_int_equal(run_on("self", "ABABABAB", "ring", topo), run("self", "AAAABBBB", "ring"));
    assert_int_equal(run_on("self", "AABBBBAA", "ring", topo), run("self", "AAAABBBB", "ring"));
    assert_int_equal(run_on("self", "ABABABAB", "two-level", topo), run("self", "AAAABBBB", "two-level"));
    assert_int_equal(run_on("self", "ABCCAB", "ring", topo), run("self", "AABBCC", "ring"));
    assert_int_equal(run_on("shm+ucx", "ABAB", "ring", topo), run("shm+ucx", "AABB", "ring"));
}

static void any_order_between_processes(void **state)
{
    (void)state;
    assert_int_equal(run("ucx", "ABAB", "two-level"), run("ucx", "ABBA", "two-level"));
    assert_int_equal(run("shm+ucx", "ABAB", "two-level"), run("shm+ucx", "ABBA", "two-level"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_of_any_size),
        cmocka_unit_test(hosts_of_any_size_between_processes),
        cmocka_unit_test(ranks_of_two_hosts_in_any_order),
        cmocka_unit_test(a_flat_ring_follows_the_topology),
        cmocka_unit_test(any_order_between_processes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
