/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan holds at its peak on each rank, beside what the formula of its schedule and rondo_plan_memory
 * say.  Nothing that a plan has is given back before it ends, so what a rank holds after a call is its peak.
 *
 * Own is what this rank alone has made: blocks in its file of shared memory, and pages of its private memory.
 * Resident memory is another thing where ranks share: pages of another rank that this one has read in place
 * are resident here, too, and counted again at each reader; Pss counts each page once, in equal shares. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/api/shard.h"
#include "tests/soak/sample.h"
#include "transport/transport.h"

enum { MEMORY_RANKS = 8, DIM = 128, TOKENS = 4 };

/* Beyond the formula: messages, tables of the transport, and what malloc keeps.  UCX takes buffers of its own
 * when it needs them, of half a MiB. */
static const long allowed_kib = 512, allowed_ucx_kib = 1024;
/* Memory that no transport gives is asked for in large pages, from one of them on. */
static const long large_page_kib = 2048;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const int has_shadow = 1;
#else
static const int has_shadow = 0;
#endif
static int is_brief = 1; /* lines of the table are comments of TAP */

enum pass { FORWARD, KV_GRAD, Q_GRAD, PASSES };
static const char *const pass_names[PASSES] = { "forward", "kv-grad", "q-grad" };

struct row {
    const char *schedule, *transport;
    enum pass pass;
    int ranks, hosts, given; /* given: inputs are of rondo_mem_alloc */
};

struct held {
    struct sample before, after;
    rondo_plan_memory_t memory;
};

struct test {
    struct meeting meeting;
    struct row row;
    int64_t batch;
    _Atomic int here[3];
    char actual[32];
    struct held held[MEMORY_RANKS];
};

/* ---- the formula: own buffers in blocks ---- */

struct blocks {
    int landing, sums; /* of what is only read, and of what is added up */
};

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Landing: a ring has two, and one more than a host has ranks where its first rank holds for all of them what
 * comes from the host before; in a two-level ring each walk has two, of what comes from the host before and of
 * what comes from the rank before, but one where that comes once.  Where a rank of the host holds a block it
 * is read in place, and needs none.  Sums: two written in turn and one arriving; in a two-level ring two more,
 * of totals that travel between hosts. */
static struct blocks formula(const struct row *row, int binds)
{
    int hosts = row->hosts, each = row->ranks / row->hosts;
    struct blocks b = { least(2, row->ranks - 1), least(3, row->ranks) };

    if (strcmp(row->schedule, "two-level") == 0) {
        int from_host = least(2, hosts - 1), from_rank = least(2, each - 1);

        b.landing = from_host + (binds ? 0 : from_rank);
        b.sums = each == 1 ? b.sums : 5;
    } else if (binds) {
        b.landing = hosts == 1 ? 0 : least(each + 1, row->ranks - 1);
    }
    if (row->pass == FORWARD)
        b.sums = 0;
    return b;
}

/* Bytes of one tensor of a shard: Q, K, V, O and their gradients are alike; LSE and delta are small. */
static long tensor_bytes(const struct test *t)
{
    return (long)t->batch * TOKENS * DIM * (long)sizeof(float);
}

static long small_bytes(const struct test *t)
{
    return (long)t->batch * TOKENS * (long)sizeof(float);
}

/* The rank's own delta is beside the blocks. */
static long formula_bytes(const struct test *t, const struct blocks *b)
{
    long tensor = tensor_bytes(t), small = small_bytes(t);

    if (t->row.pass == Q_GRAD)
        return b->landing * (2 * tensor + 2 * small) + b->sums * tensor + small;
    return (b->landing + b->sums) * 2 * tensor + (t->row.pass == KV_GRAD ? small : 0);
}

/* What is sent to ranks of this host lies in memory that they cannot read: it is copied once, and the copy
 * kept. */
static long staged_bytes(const struct test *t)
{
    if (t->row.given || t->row.ranks == t->row.hosts)
        return 0;
    return 2 * tensor_bytes(t) + (t->row.pass == Q_GRAD ? 2 * small_bytes(t) : 0);
}

/* ---- a rank ---- */

static float *input(rondo_comm_t comm, const struct test *t, size_t bytes)
{
    void *memory = NULL;

    if (t->row.given ? rondo_mem_alloc(comm, bytes, &memory) != 0 : !(memory = malloc(bytes)))
        exit(1);
    for (size_t i = 0; i < bytes / sizeof(float); i++)
        ((float *)memory)[i] = (float)(i % 7) / 8;
    return memory;
}

static float *output(size_t bytes)
{
    float *memory = malloc(bytes);

    if (!memory)
        exit(1);
    memset(memory, 0xff, bytes);
    return memory;
}

static int make_plan(rondo_comm_t comm, const struct test *t, struct held *held, rondo_plan_t *plan)
{
    struct problem p = { .batch = t->batch, .tokens = (int64_t)TOKENS * t->row.ranks, .q_heads = 1, .kv_heads = 1,
                         .qk_dim = DIM, .v_dim = DIM };
    rondo_layout_t layout = layout_of(RONDO_LAYOUT_CONTIGUOUS, p.tokens, t->row.ranks);
    rondo_attention_desc_t desc = desc_of(&p);
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    int err;

    options.schedule = t->row.schedule;
    options.backward = t->row.pass == FORWARD ? "none" : pass_names[t->row.pass];
    options.pieces = 1;
    if (strcmp(t->row.schedule, "two-level") == 0)
        options.host_transfers = "own-turns";
    held->memory = (rondo_plan_memory_t)RONDO_PLAN_MEMORY_INIT;
    err = rondo_plan_memory(comm, layout, &desc, &options, &held->memory);
    if (!err)
        err = rondo_attention_plan(comm, layout, &desc, &options, plan);
    rondo_layout_destroy(layout);
    return err;
}

/* Twice: what is kept for a second call is there, too. */
static int run_plan(rondo_plan_t plan, const struct test *t, const struct shard *s)
{
    int err = 0;

    for (int i = 0; i < 2 && !err; i++)
        err = t->row.pass == FORWARD ? shard_forward(plan, s) : shard_both(plan, s);
    return err;
}

static int measure(rondo_comm_t comm, struct test *t, int rank)
{
    size_t tensor = (size_t)tensor_bytes(t), small = (size_t)small_bytes(t);
    struct shard s = { .q = input(comm, t, tensor), .k = input(comm, t, tensor), .v = input(comm, t, tensor),
                       .d_o = input(comm, t, tensor), .o = output(tensor), .lse = output(small),
                       .dq = output(tensor), .dk = output(tensor), .dv = output(tensor) };
    float *made[] = { s.q, s.k, s.v, s.d_o, s.o, s.lse, s.dq, s.dk, s.dv };
    rondo_request_t request = NULL;
    rondo_plan_t plan = NULL;
    int err = rondo_barrier(comm, NULL, &request);

    if (!err)
        err = rondo_wait(&request, WAIT_MS);
    if (!err)
        err = everyone_is_here(&t->here[0], t->row.ranks);
    sample_take(&t->held[rank].before);
    if (!err)
        err = everyone_is_here(&t->here[1], t->row.ranks) || make_plan(comm, t, &t->held[rank], &plan);
    if (!err)
        err = run_plan(plan, t, &s) || everyone_is_here(&t->here[2], t->row.ranks);
    sample_take(&t->held[rank].after);
    if (err)
        fprintf(stderr, "# rank %d: %s\n", rank, rondo_last_error());
    if (!err && rondo_barrier(comm, NULL, &request) == 0) /* nobody leaves while others are looked at */
        err = rondo_wait(&request, WAIT_MS);
    rondo_plan_destroy(plan);
    for (int i = t->row.given ? 4 : 0; i < 9; i++)
        free(made[i]);
    return err;
}

static int body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_config_t config = RONDO_CONFIG_INIT;
    rondo_comm_info_t info = RONDO_COMM_INFO_INIT;
    rondo_comm_t comm = NULL;
    char host[16];
    int err;

    snprintf(host, sizeof(host), "h%d", rank * t->row.hosts / ranks);
    config.transport = t->row.transport;
    config.host_id = host;
    err = expect(!meet(&t->meeting, rank, ranks, &config, &comm), "rank %d: %s", rank, rondo_last_error());
    if (!err)
        err = rondo_comm_query(comm, &info);
    if (!err && rank == 0)
        snprintf(t->actual, sizeof(t->actual), "%s", info.transport);
    if (!err)
        err = measure(comm, t, rank);
    rondo_comm_destroy(comm);
    return err;
}

/* ---- a row of the table ---- */

static long own_kib(const struct held *h)
{
    return h->after.shm_kib - h->before.shm_kib + h->after.anon_kib - h->before.anon_kib;
}

static void print_head(void)
{
    const char *lead = is_brief ? "# " : "";

    printf("%sKiB of the rank that holds most; beyond formula, scratch, tables and staged copy it may hold %ld (over "
           "ucx %ld), and what no transport shares up to whole pages of %ld\n", lead, allowed_kib, allowed_ucx_kib,
           large_page_kib);
    printf("%s%-9s %-7s %2s %5s %-8s %-6s | %-7s %7s %6s | %7s %7s %6s | %7s %7s %7s %6s | %7s %7s\n", lead, "schedule",
           "pass", "P", "hosts", "over", "inputs", "blocks", "formula", "staged", "pool", "scratch", "tables",
           "shared", "private", "own", "ratio", "d RSS", "d Pss");
}

static void print_row(const struct test *t, const struct blocks *b, const struct held *h, long formula_kib,
                      long staged_kib)
{
    const struct row *r = &t->row;
    char blocks[32];

    snprintf(blocks, sizeof(blocks), "%d%s%d", b->landing, r->pass == Q_GRAD ? "Q+" : "K+", b->sums);
    printf("%s%-9s %-7s %2d %5d %-8s %-6s | %-7s %7ld %6ld | %7zu %7zu %6zu | %7ld %7ld %7ld ",
           is_brief ? "# " : "", r->schedule,
           pass_names[r->pass], r->ranks, r->hosts, t->actual, r->given ? "given" : "malloc", blocks, formula_kib,
           staged_kib, h->memory.pool_bytes / 1024, h->memory.scratch_bytes / 1024, h->memory.table_bytes / 1024,
           h->after.shm_kib - h->before.shm_kib, h->after.anon_kib - h->before.anon_kib, own_kib(h));
    if (formula_kib + staged_kib > 0)
        printf("%6.3f", (double)own_kib(h) / (double)(formula_kib + staged_kib));
    else
        printf("%6s", "-");
    printf(" | %7ld %7ld\n", h->after.rss_kib - h->before.rss_kib, h->after.pss_kib - h->before.pss_kib);
}

static int too_much(int rank, const char *what, long kib, long may_kib)
{
    if (kib <= may_kib)
        return 0;
    printf("# rank %d: %s %ld KiB, and may be %ld\n", rank, what, kib, may_kib);
    return 1;
}

/* Returns how often a rank holds more than it may, or says that it would. */
static int judge(const struct test *t)
{
    int binds = strstr(t->actual, "shm") != NULL, bad = 0, most = 0;
    struct blocks b = formula(&t->row, binds);
    long formula_kib = formula_bytes(t, &b) / 1024, staged_kib = binds ? staged_bytes(t) / 1024 : 0;
    long allowed = strstr(t->actual, "ucx") ? allowed_ucx_kib : allowed_kib;
    long page_kib = binds || formula_kib < large_page_kib ? 1 : large_page_kib;
    long plan_kib = (formula_kib + page_kib - 1) / page_kib * page_kib;

    for (int r = 0; r < t->row.ranks; r++) {
        const struct held *h = &t->held[r];
        long beside_kib = (long)(h->memory.scratch_bytes + h->memory.table_bytes) / 1024;

        if (own_kib(h) > own_kib(&t->held[most]))
            most = r;
        bad += has_shadow ? 0 : too_much(r, "holds", own_kib(h), plan_kib + staged_kib + beside_kib + allowed);
        bad += too_much(r, "rondo_plan_memory says", (long)h->memory.pool_bytes / 1024, formula_kib + 1);
    }
    print_row(t, &b, &t->held[most], formula_kib, staged_kib);
    return bad;
}

static int run_row(const struct row *row, long block_kib)
{
    struct test *t = shared_memory(sizeof(*t));
    int bad;

    t->row = *row;
    t->batch = block_kib * 1024 / 2 / (TOKENS * DIM * (long)sizeof(float));
    bad = run_ranks(row->ranks, 1, 120, body, t);
    if (bad)
        printf("# %d ranks failed\n", bad);
    else
        bad = judge(t);
    shared_memory_release(t, sizeof(*t));
    return bad;
}

/* ---- the table ---- */

struct counts {
    int passed, failed, skipped;
};

static void count(struct counts *counts, int bad, const struct row *row)
{
    int number = counts->passed + counts->failed + counts->skipped + 1;

    if (bad)
        printf("not ok %d - %s, %s, %d ranks, %d hosts over %s, %s\n", number, row->schedule, pass_names[row->pass],
               row->ranks, row->hosts, row->transport, row->given ? "given" : "malloc");
    else if (is_brief)
        printf("ok %d - %s, %s, %d ranks, %d hosts over %s, %s\n", number, row->schedule, pass_names[row->pass],
               row->ranks, row->hosts, row->transport, row->given ? "given" : "malloc");
    *(bad ? &counts->failed : &counts->passed) += 1;
    fflush(stdout);
}

/* Between hosts shm needs ucx. */
static const char *transport_of(const char *name, int hosts)
{
    return hosts > 1 && strcmp(name, "shm") == 0 ? "shm+ucx" : name;
}

static void run_shape(struct counts *counts, const char *name, int ranks, int hosts, long block_kib)
{
    static const char *const schedules[] = { "ring", "two-level" };

    for (int i = 0; i < 12; i++) {
        struct row row = { .schedule = schedules[i / 6], .transport = transport_of(name, hosts),
                           .pass = (enum pass)(i / 2 % 3), .ranks = ranks, .hosts = hosts, .given = i % 2 };

        if ((hosts == 1 && i >= 6) || (is_brief && hosts > 1 && i < 6) || (row.given && strcmp(name, "ucx") == 0))
            continue;
        count(counts, run_row(&row, block_kib), &row);
    }
}

static void run_transport(struct counts *counts, const char *name, long block_kib)
{
    for (int hosts = 1; hosts <= 2; hosts++) {
        if (!ri_transport_find(transport_of(name, hosts)) || !ri_transport_find(name)) {
            printf("ok %d - %s on %d hosts # SKIP this build has no such transport\n",
                   counts->passed + counts->failed + ++counts->skipped, name, hosts);
            continue;
        }
        for (int ranks = is_brief ? 2 * hosts : 2; ranks <= (is_brief ? 2 * hosts : MEMORY_RANKS); ranks *= 2)
            run_shape(counts, name, ranks, hosts, block_kib);
    }
}

int main(int argc, char **argv)
{
    const char *transports = NULL;
    struct counts counts = { 0 };
    long block_kib = 1024;
    char *names, *rest, *name;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--full") == 0)
            is_brief = 0, block_kib = 4096;
        else if (strcmp(argv[i], "--transports") == 0 && i + 1 < argc)
            transports = argv[++i];
        else if (strcmp(argv[i], "--block-kib") == 0 && i + 1 < argc)
            block_kib = strtol(argv[++i], NULL, 10);
        else
            block_kib = 0;
    }
    if (block_kib < 64 || block_kib > 1 << 20) {
        fprintf(stderr, "usage: %s [--full] [--transports shm,ucx] [--block-kib 64..%d]\n", argv[0], 1 << 20);
        return 2;
    }
    print_head();
    names = rest = strdup(transports ? transports : is_brief ? "shm" : "shm,ucx");
    while (names && (name = strsep(&rest, ",")))
        run_transport(&counts, name, block_kib);
    free(names);
    printf("1..%d\n", counts.passed + counts.failed + counts.skipped);
    printf("%s%d passed, %d failed, %d skipped\n", is_brief ? "# " : "", counts.passed, counts.failed, counts.skipped);
    return counts.failed > 0;
}
