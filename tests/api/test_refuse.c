/* SPDX-License-Identifier: Apache-2.0 */
/* Every argument of every call on communicators, plans and requests, refused: the text names argument
 * and value, outputs stay as they were, all ranks hear of it, and everything works afterwards. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "tests/api/shard.h"

enum { RANKS = 3, TOKENS = 14 };

struct test {
    struct meeting meeting;
    struct problem problem;
    int (*body)(rondo_comm_t comm, int rank, const struct problem *p);
};

/* A plan handle nobody may touch. */
static char untouched;
#define UNTOUCHED ((rondo_plan_t)(void *)&untouched)
#define UNTOUCHED_REQUEST ((rondo_request_t)(void *)&untouched)

static int run_rank(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, "self");
    int bad = t->body(comm, rank, &t->problem);

    /* What was refused has left nothing behind. */
    bad += run_problem(comm, RONDO_LAYOUT_ZIGZAG, &t->problem, NULL);
    rondo_comm_destroy(comm);
    return bad;
}

static void on_all_ranks(int (*body)(rondo_comm_t comm, int rank, const struct problem *p))
{
    struct test *t = shared_memory(sizeof(*t));

    t->problem = (struct problem){ .batch = 2, .tokens = TOKENS, .causal = 1, .q_heads = 4,
                                   .kv_heads = 2, .qk_dim = 8, .v_dim = 4 };
    t->body = body;
    problem_init(&t->problem, 1);
    assert_int_equal(run_ranks(RANKS, 0, 60, run_rank, t), 0);
    problem_release(&t->problem);
}

/* ---- plans: what one rank alone finds ---- */

/* What a plan is made from. */
struct order {
    rondo_layout_desc_t layout;
    rondo_attention_desc_t desc;
    rondo_plan_options_t options;
    rondo_kernel_t kernel;
};

static void order_init(struct order *o, const struct problem *p)
{
    *o = (struct order){ RONDO_LAYOUT_DESC_INIT, desc_of(p), RONDO_PLAN_OPTIONS_INIT,
                         *rondo_kernel_find("reference") };
    o->layout.tokens = p->tokens;
    o->layout.ranks = RANKS;
}

struct spoil {
    const char *what;
    size_t offset;  /* of the member of struct order */
    size_t bytes;   /* 4 or 8: an integer; 0: text; 1: a pointer that becomes NULL */
    int64_t value;
    const char *text;
    int status;
    const char *words; /* of the error */
    int own_kernel;    /* 2: one that can do nothing that a kernel need not */
};

#define AT(member) offsetof(struct order, member)

static const struct spoil spoils[] = {
    { "layout of 4 ranks", AT(layout.ranks), 4, 4, 0, RONDO_ERR_ARGUMENT, "layout is for 4 ranks, the communicator has 3", 0 },
    { "desc size", AT(desc.struct_bytes), 8, 1, 0, RONDO_ERR_ARGUMENT, "desc.struct_bytes is 1", 0 },
    { "F64", AT(desc.dtype), 4, RONDO_F64, 0, RONDO_ERR_UNSUPPORTED, "dtype is 1", 0 },
    { "BF16", AT(desc.dtype), 4, RONDO_BF16, 0, RONDO_ERR_UNSUPPORTED, "dtype is 2, and kernel reference", 2 },
    { "F16", AT(desc.dtype), 4, RONDO_F16, 0, RONDO_ERR_UNSUPPORTED, "dtype is 3, and kernel reference", 2 },
    { "dtype", AT(desc.dtype), 4, 77, 0, RONDO_ERR_UNSUPPORTED, "dtype is 77", 0 },
    { "mask", AT(desc.mask), 4, 9, 0, RONDO_ERR_ARGUMENT, "mask is 9", 0 },
    { "no batch", AT(desc.batch), 8, 0, 0, RONDO_ERR_ARGUMENT, "batch is 0", 0 },
    { "batch", AT(desc.batch), 8, -3, 0, RONDO_ERR_ARGUMENT, "batch is -3", 0 },
    { "no q_heads", AT(desc.q_heads), 4, 0, 0, RONDO_ERR_ARGUMENT, "q_heads is 0", 0 },
    { "kv_heads", AT(desc.kv_heads), 4, -1, 0, RONDO_ERR_ARGUMENT, "kv_heads is -1", 0 },
    { "heads that do not divide", AT(desc.q_heads), 4, 5, 0, RONDO_ERR_ARGUMENT, "q_heads is 5: not a multiple of kv_heads, 2", 0 },
    { "no qk_dim", AT(desc.qk_dim), 4, 0, 0, RONDO_ERR_ARGUMENT, "qk_dim is 0", 0 },
    { "v_dim", AT(desc.v_dim), 4, -8, 0, RONDO_ERR_ARGUMENT, "v_dim is -8", 0 },
    { "scale NaN", AT(desc.scale), 4, 0x7fc00000, 0, RONDO_ERR_ARGUMENT, "scale is nan", 0 },
    { "scale inf", AT(desc.scale), 4, 0x7f800000, 0, RONDO_ERR_ARGUMENT, "scale is inf", 0 },
    { "softcap inf", AT(desc.softcap), 4, 0x7f800000, 0, RONDO_ERR_ARGUMENT, "softcap is inf", 0 },
    { "softcap below 0", AT(desc.softcap), 4, (int32_t)0xbf800000, 0, RONDO_ERR_ARGUMENT, "softcap is -1", 0 },
    { "dropout of 1", AT(desc.dropout), 4, 0x3f800000, 0, RONDO_ERR_ARGUMENT, "dropout is 1", 0 },
    { "dropout below 0", AT(desc.dropout), 4, (int32_t)0xbf000000, 0, RONDO_ERR_ARGUMENT, "dropout is -0.5", 0 },
    { "dropout NaN", AT(desc.dropout), 4, 0x7fc00000, 0, RONDO_ERR_ARGUMENT, "dropout is nan", 0 },
    { "softcap of a kernel without", AT(desc.softcap), 4, 0x42480000, 0, RONDO_ERR_UNSUPPORTED,
      "softcap is 50, and kernel reference", 2 },
    { "dropout of a kernel without", AT(desc.dropout), 4, 0x3f000000, 0, RONDO_ERR_UNSUPPORTED,
      "does not have RONDO_KERNEL_DROPOUT", 2 },
    { "batch overflows", AT(desc.batch), 8, INT64_MAX / 4, 0, RONDO_ERR_ARGUMENT, "batch 2305843009213693951", 0 },
    { "tokens overflow", AT(layout.tokens), 8, INT64_MAX / 8, 0, RONDO_ERR_ARGUMENT, "1152921504606846975", 0 },
    { "options size", AT(options.struct_bytes), 8, 3, 0, RONDO_ERR_ARGUMENT, "options.struct_bytes is 3", 0 },
    { "schedule", AT(options.schedule), 0, 0, "spiral", RONDO_ERR_ARGUMENT, "schedule \"spiral\" is not known", 0 },
    { "no schedule", AT(options.schedule), 0, 0, "", RONDO_ERR_ARGUMENT, "schedule \"\" is not known", 0 },
    { "hybrid", AT(options.schedule), 0, 0, "hybrid", RONDO_ERR_UNSUPPORTED, "schedule \"hybrid\" is not built", 0 },
    { "binding", AT(options.binding), 0, 0, "always", RONDO_ERR_ARGUMENT, "binding \"always\" is not known", 0 },
    { "host_transfers", AT(options.host_transfers), 0, 0, "whole", RONDO_ERR_ARGUMENT, "host_transfers \"whole\" is not known", 0 },
    { "pieces", AT(options.pieces), 4, -2, 0, RONDO_ERR_ARGUMENT, "pieces is -2", 0 },
    { "a landing slot", AT(options.landing_slots), 4, 1, 0, RONDO_ERR_ARGUMENT, "landing_slots is 1", 0 },
    { "landing_slots below 0", AT(options.landing_slots), 4, -1, 0, RONDO_ERR_ARGUMENT, "landing_slots is -1", 0 },
    { "chunk_bytes below 0", AT(options.chunk_bytes), 8, -1, 0, RONDO_ERR_ARGUMENT, "chunk_bytes is -1", 0 },
    { "backward", AT(options.backward), 0, 0, "Kv-grad", RONDO_ERR_ARGUMENT, "backward \"Kv-grad\" is not known", 0 },
    { "kernel name", AT(options.kernel_name), 0, 0, "fast", RONDO_ERR_ARGUMENT, "kernel_name \"fast\" is not known", 0 },
    { "max_in_flight below 0", AT(options.max_in_flight), 4, -1, 0, RONDO_ERR_ARGUMENT, "max_in_flight is -1", 0 },
    { "max_in_flight of 1025", AT(options.max_in_flight), 4, 1025, 0, RONDO_ERR_ARGUMENT, "0 (as 1) to 1024", 0 },
    { "threads below 0", AT(options.threads), 4, -1, 0, RONDO_ERR_ARGUMENT, "threads is -1", 0 },
    { "1025 threads", AT(options.threads), 4, 1025, 0, RONDO_ERR_ARGUMENT, "threads is 1025", 0 },
    { "wire", AT(options.wire), 0, 0, "k:bf8", RONDO_ERR_ARGUMENT, "\"bf8\" is no type", 0 },
    { "kernel size", AT(kernel.struct_bytes), 8, 5, 0, RONDO_ERR_ARGUMENT, "kernel has no struct_bytes", 1 },
    { "kernel without a name", AT(kernel.name), 1, 0, 0, RONDO_ERR_ARGUMENT, "kernel has no name", 1 },
    { "kernel with unknown flags", AT(kernel.flags), 4, 1 << 15, 0, RONDO_ERR_ARGUMENT, "does not know 0x8000", 1 },
    { "kernel without forward", AT(kernel.forward), 1, 0, 0, RONDO_ERR_ARGUMENT, "kernel has no forward", 1 },
    { "kernel without backward", AT(kernel.backward), 1, 0, 0, RONDO_ERR_ARGUMENT, "kernel reference has no backward", 1 },
};

enum { SPOILS = sizeof(spoils) / sizeof(spoils[0]) };

static void spoil(struct order *o, const struct spoil *how)
{
    char *at = (char *)o + how->offset;
    int32_t small = (int32_t)how->value;

    if (how->bytes == 8)
        memcpy(at, &how->value, 8);
    else if (how->bytes == 4)
        memcpy(at, &small, 4);
    else if (how->bytes == 1)
        memset(at, 0, sizeof(void *));
    else
        memcpy(at, &how->text, sizeof(how->text));
    if (how->own_kernel)
        o->options.kernel = &o->kernel;
    if (how->own_kernel == 2)
        o->kernel.flags = RONDO_KERNEL_MERGES;
}

static int make_plan(rondo_comm_t comm, const struct order *o, rondo_plan_t *plan)
{
    rondo_layout_t layout = NULL;
    int err = rondo_layout_create(&o->layout, &layout);

    if (!err)
        err = rondo_attention_plan(comm, layout, &o->desc, &o->options, plan);
    rondo_layout_destroy(layout);
    return err;
}

/* who: the rank that is wrong, or -1: all are. */
static int refuse_plan(rondo_comm_t comm, int rank, const struct problem *p, const struct spoil *how, int who)
{
    rondo_plan_t plan = UNTOUCHED;
    struct order o;
    char name[32];
    int mine = who < 0 || who == rank, err, bad;

    order_init(&o, p);
    if (mine)
        spoil(&o, how);
    err = make_plan(comm, &o, &plan);
    snprintf(name, sizeof(name), "on rank %d", who);
    bad = expect_error(err, mine ? how->status : RONDO_ERR_PEER, how->words, mine ? NULL : name, how->what);
    return bad + expect(plan == UNTOUCHED, "%s: plan was touched", how->what);
}

static int plan_body(rondo_comm_t comm, int rank, const struct problem *p)
{
    int bad = 0;

    for (int i = 0; i < SPOILS; i++)
        for (int who = -1; who < RANKS; who++)
            bad += refuse_plan(comm, rank, p, &spoils[i], who);
    return bad;
}

static void plan_refuses_each_argument(void **state)
{
    (void)state;
    on_all_ranks(plan_body);
}

/* NULL of handle number `which` on one rank. */
static int null_plan_argument(rondo_comm_t comm, int rank, const struct problem *p, int which, int who)
{
    static const char *const names[] = { "layout is NULL", "desc is NULL", "plan is NULL" };
    rondo_layout_t layout = layout_of(RONDO_LAYOUT_STRIPED, p->tokens, RANKS);
    rondo_attention_desc_t desc = desc_of(p);
    rondo_plan_t plan = UNTOUCHED;
    int null = who == rank ? which : -1, bad;
    int err = rondo_attention_plan(comm, null == 0 ? NULL : layout, null == 1 ? NULL : &desc, NULL,
                                   null == 2 ? NULL : &plan);

    bad = expect_error(err, who == rank ? RONDO_ERR_ARGUMENT : RONDO_ERR_PEER, names[which], NULL,
                       names[which]);
    rondo_layout_destroy(layout);
    return bad + expect(plan == UNTOUCHED, "%s: plan was touched", names[which]);
}

static int null_plan_body(rondo_comm_t comm, int rank, const struct problem *p)
{
    rondo_attention_desc_t desc = desc_of(p);
    rondo_plan_t plan = UNTOUCHED;
    int bad = 0;

    for (int which = 0; which < 3; which++)
        for (int who = 0; who < RANKS; who++)
            bad += null_plan_argument(comm, rank, p, which, who);
    bad += expect_error(rondo_attention_plan(NULL, NULL, &desc, NULL, &plan), RONDO_ERR_ARGUMENT,
                        "comm is NULL", NULL, "plan on no communicator");
    rondo_plan_destroy(NULL);
    return bad;
}

static void plan_refuses_null(void **state)
{
    (void)state;
    on_all_ranks(null_plan_body);
}

/* ---- plans: where ranks disagree (NVIDIA/nccl#1417) ---- */

/* value: what one rank has; others: what the others have. */
struct difference {
    size_t offset, bytes;
    int64_t value, others;
    const char *text, *field;
    const char *word, *others_word; /* how errors put the values; NULL: as numbers */
};

static const struct difference differences[] = {
    { AT(layout.kind), 4, RONDO_LAYOUT_ZIGZAG, RONDO_LAYOUT_CONTIGUOUS, 0, "layout kind", "zigzag",
      "contiguous" },
    { AT(layout.tokens), 8, TOKENS + 1, TOKENS, 0, "tokens", NULL, NULL },
    { AT(layout.tokens), 8, 2 * TOKENS, TOKENS, 0, "tokens", NULL, NULL },
    { AT(desc.mask), 4, RONDO_MASK_FULL, RONDO_MASK_CAUSAL, 0, "mask", "full", "causal" },
    { AT(desc.batch), 8, 1, 2, 0, "batch", NULL, NULL },
    { AT(desc.q_heads), 4, 2, 4, 0, "q_heads", NULL, NULL },
    { AT(desc.kv_heads), 4, 1, 2, 0, "kv_heads", NULL, NULL },
    { AT(desc.qk_dim), 4, 16, 8, 0, "qk_dim", NULL, NULL },
    { AT(desc.v_dim), 4, 0, 4, 0, "v_dim", NULL, NULL },
    { AT(desc.scale), 4, 0x3f800000, 0, 0, "scale", "1", "0.353553385" },
    { AT(options.backward), 0, 0, 0, "none", "backward", "none", "-grad" },
    { AT(options.max_in_flight), 4, 3, 1, 0, "max_in_flight", NULL, NULL },
    { AT(options.schedule), 0, 0, 0, "direct", "schedule", "direct", "ring" },
    { AT(options.backward), 0, 0, 0, "q-grad", "backward", "ring q-grad", "ring kv-grad" },
    { AT(options.landing_slots), 4, 3, 0, 0, "landing_slots", NULL, NULL },
    { AT(options.pieces), 4, 2, 0, 0, "pieces", NULL, NULL },
    { AT(options.chunk_bytes), 8, 4096, 0, 0, "chunk_bytes", NULL, NULL },
    { AT(options.binding), 0, 0, 0, "copy", "binding", "copy", "in place" },
    { AT(options.host_transfers), 0, 0, 0, "chunked", "host_transfers", "chunked", "auto" },
    { AT(kernel.flags), 4, RONDO_KERNEL_MERGES | RONDO_KERNEL_NEEDS_O, 0, 0, "kernel needs o", NULL, NULL },
};

static int disagree(rondo_comm_t comm, int rank, const struct problem *p, const struct difference *d, int who)
{
    struct spoil how = { d->field, d->offset, d->bytes, d->value, d->text, RONDO_ERR_MISMATCH, d->field,
                         d->offset == AT(kernel.flags) };
    rondo_plan_t plan = UNTOUCHED;
    char ranks[2][96], value[32];
    /* The values as they are compared: 0 stands for a default. */
    int64_t odd = d->offset == AT(desc.v_dim) ? 8 : d->offset == AT(kernel.flags) ? 1 : d->value;
    struct order o;
    int err, bad;

    order_init(&o, p);
    if (rank == who)
        spoil(&o, &how);
    err = make_plan(comm, &o, &plan);
    snprintf(ranks[0], sizeof(ranks[0]), "on rank 0 and ");
    snprintf(value, sizeof(value), "%lld", (long long)odd);
    snprintf(ranks[1], sizeof(ranks[1]), who == 0 ? "is %s on rank 0" : "%s on rank %d",
             d->word ? d->word : value, who);
    bad = expect_error(err, RONDO_ERR_MISMATCH, d->field, ranks[0], d->field);
    bad += expect_error(err, RONDO_ERR_MISMATCH, ranks[1], NULL, d->field);
    if (d->others_word)
        snprintf(ranks[0], sizeof(ranks[0]), "%s on rank", d->others_word);
    else if (d->others)
        snprintf(ranks[0], sizeof(ranks[0]), "%lld on rank", (long long)d->others);
    bad += expect_error(err, RONDO_ERR_MISMATCH, ranks[0], NULL, d->field);
    return bad + expect(plan == UNTOUCHED, "%s: plan was touched", d->field);
}

static int disagree_body(rondo_comm_t comm, int rank, const struct problem *p)
{
    int bad = 0;

    for (size_t i = 0; i < sizeof(differences) / sizeof(differences[0]); i++)
        for (int who = 0; who < RANKS; who++)
            bad += disagree(comm, rank, p, &differences[i], who);
    return bad;
}

static void plan_names_what_ranks_disagree_on(void **state)
{
    (void)state;
    on_all_ranks(disagree_body);
}

/* ---- settings by which schemes are chosen ---- */

#define SETTING(member) offsetof(struct ri_config, member)

static const struct {
    const char *name;
    size_t offset;
} settings[] = {
    { "RONDO_COST_FLOPS", SETTING(cost_flops) },
    { "RONDO_COST_LOCAL_BANDWIDTH", SETTING(cost_local_bandwidth) },
    { "RONDO_COST_LOCAL_LATENCY", SETTING(cost_local_latency_us) },
    { "RONDO_COST_HOST_BANDWIDTH", SETTING(cost_host_bandwidth) },
    { "RONDO_COST_HOST_LATENCY", SETTING(cost_host_latency_us) },
    { "RONDO_COST_SHARED_NIC", SETTING(cost_shared_nic) },
};

static int settings_body(rondo_comm_t comm, int rank, const struct problem *p)
{
    int bad = 0;

    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        int64_t *setting = (int64_t *)(void *)((char *)&comm->config + settings[i].offset), was = *setting;
        rondo_plan_t plan = UNTOUCHED;
        char words[64];
        struct order o;

        order_init(&o, p);
        *setting = was + (rank == 2);
        snprintf(words, sizeof(words), "%lld on rank 0 and %lld on rank 2", (long long)was, (long long)was + 1);
        bad += expect_error(make_plan(comm, &o, &plan), RONDO_ERR_MISMATCH, settings[i].name, words,
                            settings[i].name);
        bad += expect(plan == UNTOUCHED, "%s: plan was touched", settings[i].name);
        *setting = was;
    }
    return bad;
}

static void plan_names_settings_that_differ(void **state)
{
    (void)state;
    on_all_ranks(settings_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_refuses_each_argument),
        cmocka_unit_test(plan_refuses_null),
        cmocka_unit_test(plan_names_what_ranks_disagree_on),
        cmocka_unit_test(plan_names_settings_that_differ),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
