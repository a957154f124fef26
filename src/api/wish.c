/* SPDX-License-Identifier: Apache-2.0 */
/* What a caller asks of a plan: checked here, then compared with what the other ranks ask. */
#include "api/wish.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "kernels/table.h"
#include "layout/balance.h"

/* Far below the starts of a pass that messages can tell apart; and as many as RONDO_THREADS may be. */
enum { MAX_IN_FLIGHT = 1024, MAX_THREADS = 1024 };

/* ---- checking ---- */

static int check_sizes(const rondo_attention_desc_t *desc, const struct rondo_layout *layout)
{
    int64_t heads = desc->q_heads, dim = desc->qk_dim > desc->v_dim ? desc->qk_dim : desc->v_dim;
    int64_t elements;

    if (desc->batch <= 0)
        return ri_error(RONDO_ERR_ARGUMENT, "batch is %lld; use 1 or more", (long long)desc->batch);
    if (desc->q_heads <= 0 || desc->kv_heads <= 0)
        return ri_error(RONDO_ERR_ARGUMENT, "%s is %d; use 1 or more",
                        desc->q_heads <= 0 ? "q_heads" : "kv_heads",
                        desc->q_heads <= 0 ? desc->q_heads : desc->kv_heads);
    if (desc->q_heads % desc->kv_heads != 0)
        return ri_error(RONDO_ERR_ARGUMENT, "q_heads is %d: not a multiple of kv_heads, %d",
                        desc->q_heads, desc->kv_heads);
    if (desc->qk_dim <= 0)
        return ri_error(RONDO_ERR_ARGUMENT, "qk_dim is %d; use 1 or more", desc->qk_dim);
    if (desc->v_dim < 0)
        return ri_error(RONDO_ERR_ARGUMENT, "v_dim is %d; use 0 (as qk_dim) or more", desc->v_dim);
    if (__builtin_mul_overflow(desc->batch, layout->tokens, &elements) ||
        __builtin_mul_overflow(elements, heads, &elements) ||
        __builtin_mul_overflow(elements, dim, &elements) || elements > INT64_MAX / 64)
        return ri_error(RONDO_ERR_ARGUMENT,
                        "batch %lld x tokens %lld x q_heads %d x head size %lld overflows",
                        (long long)desc->batch, (long long)layout->tokens, desc->q_heads,
                        (long long)dim);
    return 0;
}

static int check_desc(rondo_comm_t comm, rondo_layout_t layout, const rondo_attention_desc_t *desc)
{
    int err;

    if (!layout)
        return ri_error(RONDO_ERR_ARGUMENT, "layout is NULL");
    if (!desc)
        return ri_error(RONDO_ERR_ARGUMENT, "desc is NULL");
    if (desc->struct_bytes != sizeof(*desc))
        return ri_error(RONDO_ERR_ARGUMENT, "desc.struct_bytes is %zu, not %zu: "
                        "start from RONDO_ATTENTION_DESC_INIT", desc->struct_bytes, sizeof(*desc));
    if (layout->ranks != comm->size)
        return ri_error(RONDO_ERR_ARGUMENT, "layout is for %d ranks, the communicator has %d",
                        layout->ranks, comm->size);
    if (desc->dtype != RONDO_F32 && desc->dtype != RONDO_BF16 && desc->dtype != RONDO_F16)
        return ri_error(RONDO_ERR_UNSUPPORTED, "dtype is %d; attention takes RONDO_F32 (0), RONDO_BF16 (2) and "
                        "RONDO_F16 (3)", (int)desc->dtype);
    if (desc->kv_layout && desc->kv_layout->ranks != comm->size)
        return ri_error(RONDO_ERR_ARGUMENT, "kv_layout is for %d ranks, the communicator has %d",
                        desc->kv_layout->ranks, comm->size);
    if (!isfinite(desc->scale))
        return ri_error(RONDO_ERR_ARGUMENT, "scale is %g; use a finite one, or 0 (1 / sqrt(qk_dim))",
                        (double)desc->scale);
    if (!isfinite(desc->softcap) || desc->softcap < 0)
        return ri_error(RONDO_ERR_ARGUMENT, "softcap is %g; use a finite one above 0, or 0 (none)",
                        (double)desc->softcap);
    if (!(desc->dropout >= 0 && desc->dropout < 1))
        return ri_error(RONDO_ERR_ARGUMENT, "dropout is %g; use 0 (none) or more, and less than 1",
                        (double)desc->dropout);
    err = check_sizes(desc, layout);
    return err || !desc->kv_layout ? err : check_sizes(desc, desc->kv_layout);
}

/* Who sees whom: what is wrong with the mask for these layouts, and how much work it is. */
static int look(const struct rondo_layout *layout, struct ri_wish *wish)
{
    const rondo_attention_desc_t *desc = &wish->desc;
    int err = ri_sight_init(&wish->sight, layout, desc->kv_layout ? desc->kv_layout : layout, desc->mask,
                            desc->mask_params);

    wish->pairs = 0;
    for (int r = 0; !err && r < layout->ranks; r++)
        wish->pairs += (double)ri_sight_query_pairs(&wish->sight, r);
    return err;
}

static int lacks_backward(const rondo_plan_options_t *options, const rondo_kernel_t *kernel)
{
    int wanted = !options->backward || strcmp(options->backward, "none") != 0;

    return wanted && !kernel->backward;
}

static int check_kernel(const rondo_plan_options_t *options, struct ri_wish *wish)
{
    const char *name = options->kernel_name ? options->kernel_name : "flash";
    const rondo_kernel_t *kernel = options->kernel ? options->kernel : rondo_kernel_find(name);
    char names[128];

    if (!kernel)
        return ri_error(RONDO_ERR_ARGUMENT, "kernel_name \"%s\" is not known, or not to this CPU; use %s", name,
                        ri_kernel_names(names, sizeof(names)));
    if (kernel->struct_bytes != sizeof(*kernel) || !kernel->forward || !kernel->name)
        return ri_error(RONDO_ERR_ARGUMENT, "kernel has no %s",
                        kernel->struct_bytes != sizeof(*kernel) ? "struct_bytes of this version"
                        : kernel->forward ? "name" : "forward");
    if (kernel->flags & ~RI_KERNEL_FLAGS)
        return ri_error(RONDO_ERR_ARGUMENT, "flags of kernel %s are 0x%x, of which this version does not know 0x%x",
                        kernel->name, kernel->flags, kernel->flags & ~RI_KERNEL_FLAGS);
    if (lacks_backward(options, kernel))
        return ri_error(RONDO_ERR_ARGUMENT,
                        "kernel %s has no backward; give backward \"none\"", kernel->name);
    wish->kernel = kernel;
    return 0;
}

/* What not every kernel can do. */
static int check_abilities(const rondo_attention_desc_t *desc, const rondo_kernel_t *kernel)
{
    const struct {
        const char *field, *flag_name;
        double value;
        int wanted;
        unsigned flag;
    } abilities[] = {
        { "dtype", "BF16", desc->dtype, desc->dtype == RONDO_BF16, RONDO_KERNEL_BF16 },
        { "dtype", "F16", desc->dtype, desc->dtype == RONDO_F16, RONDO_KERNEL_F16 },
        { "softcap", "SOFTCAP", (double)desc->softcap, desc->softcap > 0, RONDO_KERNEL_SOFTCAP },
        { "dropout", "DROPOUT", (double)desc->dropout, desc->dropout > 0, RONDO_KERNEL_DROPOUT },
    };

    for (size_t i = 0; i < sizeof(abilities) / sizeof(abilities[0]); i++)
        if (abilities[i].wanted && !(kernel->flags & abilities[i].flag))
            return ri_error(RONDO_ERR_UNSUPPORTED, "%s is %g, and kernel %s cannot do that: it does not have "
                            "RONDO_KERNEL_%s", abilities[i].field, abilities[i].value, kernel->name,
                            abilities[i].flag_name);
    return 0;
}

static int check_options(const rondo_plan_options_t *options, struct ri_wish *wish)
{
    if (options->struct_bytes != sizeof(*options))
        return ri_error(RONDO_ERR_ARGUMENT, "options.struct_bytes is %zu, not %zu: "
                        "start from RONDO_PLAN_OPTIONS_INIT", options->struct_bytes, sizeof(*options));
    if (options->max_in_flight < 0 || options->max_in_flight > MAX_IN_FLIGHT)
        return ri_error(RONDO_ERR_ARGUMENT, "max_in_flight is %d; use 0 (as 1) to %d",
                        options->max_in_flight, MAX_IN_FLIGHT);
    if (options->threads < 0 || options->threads > MAX_THREADS)
        return ri_error(RONDO_ERR_ARGUMENT, "threads is %d; use 0 (RONDO_THREADS) to %d", options->threads,
                        MAX_THREADS);
    wish->max_in_flight = options->max_in_flight ? options->max_in_flight : 1;
    wish->landing_slots = options->landing_slots;
    wish->pieces = options->pieces;
    wish->host_transfers = options->host_transfers;
    return check_kernel(options, wish);
}

/* Builders refuse what they call landing. */
static int name_landing_slots(int err, const rondo_plan_options_t *options)
{
    char cause[256];

    snprintf(cause, sizeof(cause), "%s", rondo_last_error());
    return ri_error(err, "landing_slots is %d: %s", options->landing_slots, cause);
}

static int choose(rondo_comm_t comm, const struct rondo_layout *layout,
                  const rondo_plan_options_t *options, struct ri_wish *wish)
{
    struct ri_choice_query query = {
        .ranks = comm->size, .host = comm->host, .order = comm->order,
        .lanes = comm->topo ? &comm->lanes : NULL, .is_described = comm->topo_is_described, .desc = &wish->desc, .options = options,
        .config = &comm->config, .tokens = layout->tokens, .pairs = wish->pairs,
        .kv_tokens = wish->desc.kv_layout ? wish->desc.kv_layout->tokens : layout->tokens,
        .needs_o = (wish->kernel->flags & RONDO_KERNEL_NEEDS_O) != 0,
        .can_bind = comm->transport->ops->readers != NULL,
    };
    static const struct ri_wire none;
    int err = ri_plan_choose(&query, &wish->choice);

    if (err)
        return err;
    if (comm->config.verify && options->wire && memcmp(&wish->choice.wire, &none, sizeof(none)) != 0)
        return ri_error(RONDO_ERR_UNSUPPORTED, "wire is \"%s\", and rounding on the way hides what RONDO_VERIFY looks "
                        "for; verify the plan without wire, or unset RONDO_VERIFY", options->wire);
    err = ri_plan_hash(&wish->choice, &wish->hash);
    return err == RONDO_ERR_ARGUMENT && options->landing_slots ? name_landing_slots(err, options) : err;
}

int ri_wish_check(rondo_comm_t comm, rondo_layout_t layout, const rondo_attention_desc_t *desc,
                  const rondo_plan_options_t *options, struct ri_wish *wish)
{
    static const rondo_plan_options_t none = RONDO_PLAN_OPTIONS_INIT;
    int err = check_desc(comm, layout, desc);

    if (!options)
        options = &none;
    if (!err)
        err = check_options(options, wish);
    if (!err)
        err = check_abilities(desc, wish->kernel);
    if (err)
        return err;
    wish->threads = options->threads ? options->threads : (int)comm->config.threads;
    if (wish->threads < 1)
        wish->threads = 1;
    wish->desc = *desc;
    if (wish->desc.v_dim == 0)
        wish->desc.v_dim = desc->qk_dim;
    if (wish->desc.scale == 0)
        wish->desc.scale = (float)(1 / sqrt(desc->qk_dim));
    err = look(layout, wish);
    return err ? err : choose(comm, layout, options, wish);
}

void ri_wish_release(struct ri_wish *wish)
{
    ri_sight_release(&wish->sight);
}

/* ---- comparing ---- */

/* "two-level chunked", "ring q-grad", "none". */
static const char *scheme_text(const struct ri_scheme *scheme, char *text, size_t bytes)
{
    if (!scheme->builder)
        return "none";
    snprintf(text, bytes, "%s%s%s%s%s", scheme->schedule, scheme->variant[0] ? " " : "",
             scheme->variant, scheme->gradients[0] ? " " : "", scheme->gradients);
    return text;
}

static int64_t asked_chunk_tokens(const struct rondo_layout *layout)
{
    return layout->balance ? layout->balance->asked_tokens : 0;
}

enum { SIGHT_FIELDS = 21 };

/* Who holds what and sees whom.  status: nothing is known when it is not 0. */
static void say_sight(const struct ri_wish *wish, int status, struct ri_field fields[SIGHT_FIELDS])
{
    static const char *const deals[] = { "sequence", "documents" };
    static const struct rondo_layout no_layout;
    const struct rondo_layout *layout = status ? &no_layout : wish->sight.q;
    const struct rondo_layout *keys = status ? &no_layout : wish->sight.k;
    const struct ri_mask *mask = &wish->sight.mask;
    const struct ri_field all[SIGHT_FIELDS] = {
        { .name = "layout kind", .text = rondo_layout_kind_name(layout->kind) },
        { "tokens", layout->tokens }, { "layout ranks", layout->ranks },
        { .name = "layout deal", .value = (int64_t)layout->deal, .names = deals, .name_count = 2 },
        { "documents", layout->documents }, { "max_documents", layout->max_documents },
        { "chunk_tokens", asked_chunk_tokens(layout) }, { "cu_seqlens, lengths or the mask of the balance (hash)",
          (int64_t)ri_layout_desc_hash(layout) },
        { "kv_layout", wish->desc.kv_layout != NULL }, { "tokens of kv_layout", keys->tokens },
        { "max_documents of kv_layout", keys->max_documents },
        { "chunk_tokens of kv_layout", asked_chunk_tokens(keys) },
        { "cu_seqlens, lengths or the mask of the balance of kv_layout (hash)",
          (int64_t)ri_layout_desc_hash(keys) },
        { .name = "mask", .text = ri_mask_name(mask->kind) },
        { "mask_params.left", mask->left }, { "mask_params.right", mask->right },
        { "mask_params.prefix", mask->prefix }, { "mask_params.block_tokens", mask->block_tokens },
        { "mask_params.range_count", mask->range_count }, { "mask_params.align_ends", mask->align_ends },
        { "mask (hash)", status ? 0 : (int64_t)ri_mask_hash(mask) },
    };

    memcpy(fields, all, sizeof(all));
}

int ri_wish_agree(rondo_comm_t comm, const struct ri_wish *wish, int status)
{
    static const char *const bindings[] = { "copy", "in place" };
    const rondo_attention_desc_t *desc = &wish->desc;
    const struct ri_config *cost = &comm->config;
    char forward[64], backward[64], scale[32], softcap[32], dropout[32], wire[RI_WIRE_TEXT];
    /* Prices stand before what is chosen by them, so that the cause is named. */
    const struct ri_field rest[] = {
        { "dtype", desc->dtype },
        { "batch", desc->batch }, { "q_heads", desc->q_heads }, { "kv_heads", desc->kv_heads },
        { "qk_dim", desc->qk_dim }, { "v_dim", desc->v_dim },
        { .name = "scale", .text = scale }, { .name = "softcap", .text = softcap },
        { .name = "dropout", .text = dropout }, { "has_sinks", desc->has_sinks != 0 },
        { "kernel needs o", wish->kernel && (wish->kernel->flags & RONDO_KERNEL_NEEDS_O) },
        { "max_in_flight", wish->max_in_flight }, { "landing_slots", wish->landing_slots },
        { "pieces", wish->pieces },
        { .name = "host_transfers", .text = wish->host_transfers ? wish->host_transfers : "auto" },
        { "chunk_bytes (or RONDO_CHUNK)", wish->choice.chunk_bytes },
        { .name = "wire", .text = wire },
        { .name = "binding", .value = wish->choice.binds, .names = bindings, .name_count = 2 },
        { "RONDO_COST_FLOPS", cost->cost_flops },
        { "RONDO_COST_LOCAL_BANDWIDTH", cost->cost_local_bandwidth },
        { "RONDO_COST_LOCAL_LATENCY", cost->cost_local_latency_us },
        { "RONDO_COST_HOST_BANDWIDTH", cost->cost_host_bandwidth },
        { "RONDO_COST_HOST_LATENCY", cost->cost_host_latency_us },
        { "RONDO_COST_SHARED_NIC", cost->cost_shared_nic },
        { .name = "schedule",
          .text = scheme_text(&wish->choice.pass[RI_FORWARD], forward, sizeof(forward)) },
        { .name = "backward",
          .text = scheme_text(&wish->choice.pass[RI_BACKWARD], backward, sizeof(backward)) },
        { "plan number", comm->next_plan }, { "RONDO_VERIFY", comm->config.verify },
        { "schedule (hash)", wish->hash },
    };
    struct ri_field fields[2 + SIGHT_FIELDS + sizeof(rest) / sizeof(rest[0])] = {
        { .name = "library version", .text = rondo_version() },
        { .name = "transport", .text = comm->transport->ops->name },
    };

    /* Nine digits tell every float from every other. */
    snprintf(scale, sizeof(scale), "%.9g", (double)desc->scale);
    ri_wire_print(&wish->choice.wire, wire);
    snprintf(softcap, sizeof(softcap), "%.9g", (double)desc->softcap);
    snprintf(dropout, sizeof(dropout), "%.9g", (double)desc->dropout);
    say_sight(wish, status, fields + 2);
    memcpy(fields + 2 + SIGHT_FIELDS, rest, sizeof(rest));
    return ri_agree(comm, "attention plan", fields, (int)(sizeof(fields) / sizeof(fields[0])), status);
}
