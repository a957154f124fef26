/* SPDX-License-Identifier: Apache-2.0 */
/* Topologies by the public calls, and what a communicator gathers. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "comm/comm.h"
#include "tests/ranks.h"

/* 8 GPUs under 4 switches, a NIC under each. */
#define EIGHT "host:1 numa:2 switch:4 gpu:8 nic:4 pcie:25 net:25"

static rondo_topo_t load(const char *source)
{
    rondo_topo_t topo = NULL;

    if (rondo_topo_load(source, &topo))
        fail_msg("%s: %s", source ? source : "NULL", rondo_last_error());
    return topo;
}

/* The whole of a text of a topology; malloc'd. */
static char *text_of(rondo_topo_t topo, rondo_status_t (*print)(rondo_topo_t, char *, size_t, size_t *))
{
    size_t needed = 0;
    char *text;

    assert_int_equal(print(topo, NULL, 0, &needed), 0);
    text = malloc(needed);
    assert_non_null(text);
    assert_int_equal(print(topo, text, needed, NULL), 0);
    assert_int_equal(strlen(text) + 1, needed);
    return text;
}

/* ---- one topology ---- */

static void a_described_machine_is_asked(void **state)
{
    rondo_topo_info_t info = RONDO_TOPO_INFO_INIT;
    rondo_topo_t topo = load(EIGHT);
    int users[4] = { 0 };

    assert_int_equal(rondo_topo_query(topo, &info), 0);
    assert_int_equal(info.hosts, 1);
    assert_int_equal(info.numa_nodes, 2);
    assert_int_equal(info.gpus, 8);
    assert_int_equal(info.nics, 4);
    assert_int_equal(info.ranks, 8);
    assert_int_equal(info.ranks_per_nic, 2);
    assert_true(info.local_gbps > 0 && info.host_gbps == 0);
    for (int r = 0; r < 8; r++) {
        rondo_topo_rank_info_t at = RONDO_TOPO_RANK_INFO_INIT;

        assert_int_equal(rondo_topo_query_rank(topo, r, &at), 0);
        assert_int_equal(at.gpu, r);
        assert_int_equal(at.numa, r / 4);
        assert_int_equal(at.nic_shares, 2);
        users[r / 2] += at.nic[strlen(at.nic) - 1] - '0' == r / 2;
    }
    for (int n = 0; n < 4; n++)
        assert_int_equal(users[n], 2);
    rondo_topo_destroy(topo);
}

static void pairs_have_levels(void **state)
{
    static const char *const levels[] = { "X", "PIX", "NODE", "NODE", "SYS", "SYS", "SYS", "SYS" };
    rondo_topo_t topo = load(EIGHT);
    rondo_topo_pair_t near = RONDO_TOPO_PAIR_INIT;

    for (int r = 0; r < 8; r++) {
        rondo_topo_pair_t pair = RONDO_TOPO_PAIR_INIT;

        assert_int_equal(rondo_topo_pair(topo, 0, r, &pair), 0);
        assert_string_equal(pair.level, levels[r]);
        assert_true(pair.gbps > 0 && pair.latency_us >= 0);
    }
    assert_int_equal(rondo_topo_pair(topo, 2, 3, &near), 0);
    assert_true(near.gbps == 25);
    rondo_topo_destroy(topo);
}

static void orders_and_groups_name_all_ranks(void **state)
{
    rondo_topo_t topo = load("host:2 gpu:4 nic:2 nvlink:300 net:25");
    int order[8], rail[8], group[8], rails = 0, seen = 0;

    assert_int_equal(rondo_topo_ring(topo, order), 0);
    for (int i = 0; i < 8; i++)
        seen |= 1 << order[i];
    assert_int_equal(seen, 255);
    assert_int_equal(rondo_topo_rails(topo, rail, &rails), 0);
    assert_int_equal(rails, 2);
    for (int r = 0; r < 4; r++)
        assert_int_equal(rail[r], rail[r + 4]);
    assert_int_equal(rondo_topo_head_groups(topo, 4, group), 0);
    for (int r = 0; r < 8; r++)
        assert_int_equal(group[r], group[r / 4 * 4]);
    assert_int_not_equal(group[0], group[4]);
    rondo_topo_destroy(topo);
}

static void ranks_are_placed_anew(void **state)
{
    static const int dealt[] = { 0, 1, 0, 1, 0 }, strange[] = { 0, 2 };
    rondo_topo_t topo = load("host:2 gpu:4 nic:1");
    rondo_topo_info_t info = RONDO_TOPO_INFO_INIT;
    rondo_topo_rank_info_t at = RONDO_TOPO_RANK_INFO_INIT;
    int order[5];

    assert_int_equal(rondo_topo_place(topo, 5, dealt), 0);
    assert_int_equal(rondo_topo_ring(topo, order), 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(dealt[order[i]], i >= 3);
    assert_int_equal(rondo_topo_place(topo, 2, strange), RONDO_ERR_ARGUMENT);
    assert_int_equal(rondo_topo_query(topo, &info), 0);
    assert_int_equal(info.ranks, 5);
    assert_int_equal(rondo_topo_place(topo, 4, NULL), 0);
    assert_int_equal(rondo_topo_query_rank(topo, 2, &at), 0);
    assert_int_equal(at.host, 1);
    assert_int_equal(rondo_topo_place(topo, 0, NULL), 0);
    assert_int_equal(rondo_topo_query(topo, &info), 0);
    assert_int_equal(info.ranks, 8);
    rondo_topo_destroy(topo);
}

static void a_printed_tree_is_loaded_again(void **state)
{
    char path[] = "rondo-topo-XXXXXX";
    rondo_topo_t topo = load(EIGHT), again;
    char *text = text_of(topo, rondo_topo_print), *other;
    int fd = mkstemp(path);

    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
    again = load(path);
    unlink(path);
    other = text_of(again, rondo_topo_print);
    assert_string_equal(text, other);
    free(text);
    free(other);
    rondo_topo_destroy(topo);
    rondo_topo_destroy(again);
}

static void this_host_is_found(void **state)
{
    static const char *const names[] = { NULL, "", "live" };

    for (int i = 0; i < 3; i++) {
        rondo_topo_info_t info = RONDO_TOPO_INFO_INIT;
        rondo_topo_t topo = load(names[i]);
        char *words = text_of(topo, rondo_topo_explain);

        assert_int_equal(rondo_topo_query(topo, &info), 0);
        assert_int_equal(info.hosts, 1);
        assert_true(info.ranks >= 1);
        assert_true(strlen(words) > 0);
        free(words);
        rondo_topo_destroy(topo);
    }
}

static void refused(int status, const char *words)
{
    assert_int_equal(status, RONDO_ERR_ARGUMENT);
    if (!strstr(rondo_last_error(), words))
        fail_msg("'%s' does not say '%s'", rondo_last_error(), words);
}

static void bad_arguments_are_named(void **state)
{
    rondo_topo_t topo = load(EIGHT), untouched = NULL;
    rondo_topo_info_t info = { 3, 77, 0, 0, 0, 0, 0, 0, 0 };
    rondo_topo_rank_info_t at = RONDO_TOPO_RANK_INFO_INIT;
    rondo_topo_pair_t pair = RONDO_TOPO_PAIR_INIT;
    int numbers[8] = { 7 };

    refused(rondo_topo_load("host:many", &untouched), "many");
    refused(rondo_topo_load("/no/such/file", &untouched), "/no/such/file");
    assert_null(untouched);
    refused(rondo_topo_load(NULL, NULL), "topo is NULL");
    refused(rondo_topo_of_comm(NULL, &untouched), "comm is NULL");
    refused(rondo_topo_query(topo, &info), "info->struct_bytes is 3");
    assert_int_equal(info.hosts, 77);
    refused(rondo_topo_query(NULL, &info), "topo is NULL");
    refused(rondo_topo_query(topo, NULL), "info is NULL");
    refused(rondo_topo_query_rank(topo, 8, &at), "rank is 8; the topology has 8 ranks");
    refused(rondo_topo_query_rank(topo, -1, &at), "rank is -1");
    refused(rondo_topo_pair(topo, 0, 9, &pair), "b is 9");
    refused(rondo_topo_head_groups(topo, 3, numbers), "size is 3");
    refused(rondo_topo_head_groups(topo, 0, numbers), "size is 0");
    refused(rondo_topo_ring(topo, NULL), "order is NULL");
    refused(rondo_topo_rails(topo, numbers, NULL), "rails is NULL");
    assert_int_equal(numbers[0], 7);
    refused(rondo_topo_place(topo, -1, NULL), "ranks is -1");
    refused(rondo_topo_explain(topo, NULL, 5, NULL), "text is NULL");
    rondo_topo_destroy(topo);
    rondo_topo_destroy(NULL);
}

/* ---- what a communicator gathers ---- */

enum { MOST = 8, TEXT = 16384 };

struct gathering {
    struct meeting meeting;
    const char *hosts;       /* a letter each rank */
    const char *topo[MOST];  /* of each rank; NULL: as rank 0 */
    int split;               /* ask a part of the even ranks instead */
    int status;              /* that is expected of all */
    char text[MOST][TEXT];   /* tree, or the error */
    int order[MOST][MOST], host[MOST][MOST], gpu[MOST][MOST], ranks[MOST];
    char near[MOST][48], links[MOST][256], words[MOST][TEXT];
    int described[MOST];
};

static int look(struct gathering *g, int rank, rondo_comm_t comm)
{
    rondo_topo_info_t info = RONDO_TOPO_INFO_INIT;
    rondo_topo_rank_info_t at = RONDO_TOPO_RANK_INFO_INIT;
    rondo_topo_t topo;
    int err = rondo_topo_of_comm(comm, &topo);

    if (err)
        return err;
    err = rondo_topo_print(topo, g->text[rank], TEXT, NULL);
    if (!err)
        err = rondo_topo_ring(topo, g->order[rank]);
    if (!err)
        err = rondo_topo_query(topo, &info);
    g->ranks[rank] = info.ranks;
    for (int r = 0; r < info.ranks && !err; r++) {
        err = rondo_topo_query_rank(topo, r, &at);
        g->host[rank][r] = at.host;
        g->gpu[rank][r] = at.gpu;
    }
    if (!err)
        err = rondo_topo_explain(topo, g->words[rank], TEXT, NULL);
    snprintf(g->near[rank], sizeof(g->near[rank]), "%s", comm->near_devices);
    g->described[rank] = comm->topo_is_described;
    rondo_topo_destroy(topo);
    return err;
}

/* What a plan takes links for: "links: ..." of its description. */
static int look_at_plan(struct gathering *g, int rank, rondo_comm_t comm)
{
    static _Thread_local char text[65536];
    rondo_layout_desc_t deal = RONDO_LAYOUT_DESC_INIT;
    rondo_attention_desc_t desc = RONDO_ATTENTION_DESC_INIT;
    rondo_layout_t layout = NULL;
    rondo_plan_t plan = NULL;
    const char *at;
    int err;

    deal.ranks = comm->size, deal.tokens = 8 * comm->size;
    desc.q_heads = desc.kv_heads = 1, desc.qk_dim = 8;
    err = rondo_layout_create(&deal, &layout);
    if (!err)
        err = rondo_attention_plan(comm, layout, &desc, NULL, &plan);
    if (!err)
        err = rondo_plan_describe(plan, text, sizeof(text), NULL);
    at = err ? NULL : strstr(text, "links: ");
    if (at)
        snprintf(g->links[rank], sizeof(g->links[rank]), "%.*s", (int)strcspn(at, "\n"), at);
    rondo_plan_destroy(plan);
    rondo_layout_destroy(layout);
    return err;
}

static int gather_body(int rank, int ranks, void *arg)
{
    struct gathering *g = arg;
    rondo_config_t config = RONDO_CONFIG_INIT;
    char host[2] = { g->hosts[rank], 0 };
    rondo_comm_t comm = NULL, part = NULL;
    int err, bad;

    config.transport = "self";
    config.host_id = host;
    config.connect_timeout_ms = 20000;
    config.topo = g->topo[rank] ? g->topo[rank] : g->topo[0];
    err = meet(&g->meeting, rank, ranks, &config, &comm);
    if (!err && g->split)
        err = rondo_comm_split(comm, rank % 2 ? RONDO_COLOR_NONE : 0, -rank, &part);
    if (!err && (!g->split || part))
        err = look(g, rank, part ? part : comm);
    if (!err && !g->split)
        err = look_at_plan(g, rank, comm);
    if (err)
        snprintf(g->text[rank], TEXT, "%s", rondo_last_error());
    bad = err != g->status && !(g->status && err == RONDO_ERR_PEER);
    if (bad)
        fprintf(stderr, "rank %d: %d, %s\n", rank, err, g->text[rank]);
    rondo_comm_destroy(part);
    rondo_comm_destroy(comm);
    return bad;
}

static struct gathering *new_gathering(const char *hosts, const char *topo)
{
    struct gathering *g = shared_memory(sizeof(*g));

    g->hosts = hosts;
    g->topo[0] = topo;
    return g;
}

static void gather(struct gathering *g)
{
    assert_int_equal(run_ranks((int)strlen(g->hosts), 0, 60, gather_body, g), 0);
}

static void all_ranks_know_all_hosts(void **state)
{
    struct gathering *g = new_gathering("ABABCC", "host:3 numa:2 gpu:2 nic:1 net:5");

    gather(g);
    for (int r = 0; r < 6; r++) {
        static const int order[] = { 0, 2, 1, 3, 4, 5 };

        assert_string_equal(g->text[r], g->text[0]);
        assert_int_equal(g->ranks[r], 6);
        assert_memory_equal(g->order[r], order, sizeof(order));
        for (int other = 0; other < 6; other++)
            assert_int_equal(g->host[r][other], g->hosts[other] - 'A');
    }
    shared_memory_release(g, sizeof(*g));
}

/* Each rank reads the description of its own host; of one host that is all of them. */
static void descriptions_may_be_of_one_host_or_differ(void **state)
{
    struct gathering *g = new_gathering("AABB", "host:1 gpu:2 nic:2 net:5"), *h;

    gather(g);
    assert_non_null(strstr(g->text[0], "gpu"));
    h = new_gathering("AABB", "host:1 gpu:2 nic:2 net:5 host:1 gpu:4 nic:1 net:7");
    h->topo[2] = h->topo[3] = "host:1 gpu:2 host:1 gpu:2 nic:2 net:5";
    gather(h);
    for (int r = 0; r < 4; r++) {
        assert_string_equal(g->text[r], g->text[0]);
        assert_string_equal(h->text[r], g->text[0]);
    }
    shared_memory_release(g, sizeof(*g));
    shared_memory_release(h, sizeof(*h));
}

/* The last host that is described stands for those beyond it. */
static void hosts_beyond_a_description_are_as_its_last(void **state)
{
    struct gathering *g = new_gathering("AABBCC", "host:1 gpu:2 nic:1 net:5 host:1 gpu:4 nic:2 net:9");

    gather(g);
    assert_non_null(strstr(g->text[0], "gpu 0 1"));
    assert_non_null(strstr(strstr(g->text[0], "host - 2"), "gbps=9"));
    assert_null(strstr(strstr(g->text[0], "host - 2"), "gbps=5"));
    shared_memory_release(g, sizeof(*g));
}

/* A rank is held to its NIC where there is a choice, and all reach all. */
static void ranks_are_held_to_their_nics(void **state)
{
    static const struct { const char *hosts, *topo, *near[4]; } rows[] = {
        { "AABB", "host:2 gpu:2 nic:2 layer:infiniband net:5", { "mlx5_0:1", "mlx5_1:1", "mlx5_0:1", "mlx5_1:1" } },
        { "AABB", "host:2 gpu:2 nic:1 layer:infiniband net:5", { "", "", "", "" } },
        { "AABB", "host:2 gpu:2 nic:2 layer:ethernet net:5", { "", "", "", "" } },
        { "AAAA", "host:1 gpu:4 nic:4 layer:infiniband net:5", { "", "", "", "" } },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct gathering *g = new_gathering(rows[i].hosts, rows[i].topo);

        gather(g);
        for (int r = 0; r < 4; r++)
            assert_string_equal(g->near[r], rows[i].near[r]);
        shared_memory_release(g, sizeof(*g));
    }
}

/* Whatever the ranks are given, they take links alike: hosts are as their first ranks see them, and whether that
 * counts as described rank 0 says. */
static void ranks_that_see_different_things_decide_alike(void **state)
{
    struct gathering *g = new_gathering("AABB", "host:1 numa:2 nic:1 net:3");

    g->topo[1] = "live";
    g->topo[3] = "host:1 numa:4 nic:4 net:7";
    gather(g);
    for (int r = 0; r < 4; r++) {
        assert_string_equal(g->text[r], g->text[0]);
        assert_string_equal(g->links[r], g->links[0]);
        assert_true(g->described[r]);
        assert_non_null(strstr(g->words[r], "ranks 0 and 1 see host A differently"));
        assert_non_null(strstr(g->words[r], "ranks 2 and 3 see host B differently"));
    }
    assert_non_null(strstr(g->links[0], "3 GB/s and 5 us between hosts"));
    assert_non_null(strstr(g->links[0], "shared by 2 ranks"));
    shared_memory_release(g, sizeof(*g));
}

static void parts_keep_what_their_ranks_see(void **state)
{
    struct gathering *g = new_gathering("AABBBB", "host:2 gpu:4 nic:2 net:5");

    g->split = 1; /* ranks 4, 2, 0 in this order, of hosts B, B, A */
    gather(g);
    assert_int_equal(g->ranks[0], 3);
    assert_int_equal(g->host[0][0], 0);
    assert_int_equal(g->host[0][1], 0);
    assert_int_equal(g->host[0][2], 1);
    assert_int_equal(g->gpu[0][0], 2); /* the third of its host, though the first of the part */
    assert_int_equal(g->gpu[0][1], 0);
    assert_int_equal(g->gpu[0][2], 0);
    assert_true(g->described[0]);
    assert_string_equal(g->text[0], g->text[4]);
    shared_memory_release(g, sizeof(*g));
}

static void live_hosts_are_gathered(void **state)
{
    struct gathering *g = new_gathering("AAB", "live");

    gather(g);
    for (int r = 1; r < 3; r++) assert_string_equal(g->text[r], g->text[0]);
    shared_memory_release(g, sizeof(*g));
}

static void off_on_one_host_is_off_for_all(void **state)
{
    struct gathering *g = new_gathering("AABB", "host:2");

    g->topo[2] = "off";
    g->status = RONDO_ERR_UNSUPPORTED;
    gather(g);
    for (int r = 0; r < 4; r++)
        assert_non_null(strstr(g->text[r], "RONDO_TOPO"));
    shared_memory_release(g, sizeof(*g));
}

/* A rank that does not look is told by those of its host that do. */
static void off_on_a_later_rank_is_no_matter(void **state)
{
    struct gathering *g = new_gathering("AABB", "host:2 gpu:2 nic:2 layer:infiniband net:5");

    g->topo[1] = g->topo[3] = "off";
    gather(g);
    for (int r = 0; r < 4; r++) {
        assert_string_equal(g->text[r], g->text[0]);
        assert_string_equal(g->links[r], g->links[0]);
        assert_string_equal(g->near[r], r % 2 ? "" : "mlx5_0:1");
    }
    shared_memory_release(g, sizeof(*g));
}

static void a_text_that_is_none_fails_all_ranks(void **state)
{
    struct gathering *g = new_gathering("AABB", "host:2");

    g->topo[3] = "host:two";
    g->status = RONDO_ERR_ARGUMENT;
    gather(g);
    for (int r = 0; r < 4; r++)
        assert_non_null(strstr(g->text[r], "two"));
    shared_memory_release(g, sizeof(*g));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_described_machine_is_asked),
        cmocka_unit_test(pairs_have_levels),
        cmocka_unit_test(orders_and_groups_name_all_ranks),
        cmocka_unit_test(ranks_are_placed_anew),
        cmocka_unit_test(a_printed_tree_is_loaded_again),
        cmocka_unit_test(this_host_is_found),
        cmocka_unit_test(bad_arguments_are_named),
        cmocka_unit_test(all_ranks_know_all_hosts),
        cmocka_unit_test(descriptions_may_be_of_one_host_or_differ),
        cmocka_unit_test(hosts_beyond_a_description_are_as_its_last),
        cmocka_unit_test(ranks_are_held_to_their_nics),
        cmocka_unit_test(ranks_that_see_different_things_decide_alike),
        cmocka_unit_test(parts_keep_what_their_ranks_see),
        cmocka_unit_test(live_hosts_are_gathered),
        cmocka_unit_test(off_on_one_host_is_off_for_all),
        cmocka_unit_test(off_on_a_later_rank_is_no_matter),
        cmocka_unit_test(a_text_that_is_none_fails_all_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
