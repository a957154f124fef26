/* SPDX-License-Identifier: Apache-2.0 */
/* A plan in words. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/chunks.h"
#include "topo/topo.h"

static size_t message_bytes(const struct ri_pass *pass, uint32_t index, const struct ri_message *message)
{
    struct ri_region region = ri_message_region(pass, index, message);
    struct ri_rows rows = ri_region_rows(&pass->plan->desc, (enum ri_tensor)message->tensor,
                                         ri_pass_wire(pass, (enum ri_tensor)message->tensor), NULL, &region);

    return rows.rows * rows.row_bytes;
}

/* What this rank sends in one start, by lane, without stamps; what it gives out without sending. */
static void print_bytes(FILE *out, const struct ri_pass *pass)
{
    size_t sent[RI_LANES] = { 0 }, bound = 0;

    for (uint32_t i = 0; i < pass->schedule->step_count; i++) {
        const struct ri_step *step = &pass->schedule->steps[i];

        if (step->op != RI_SEND)
            continue;
        for (uint32_t m = pass->first_message[i]; m < pass->first_message[i + 1]; m++) {
            if (pass->messages[m].tensor == RI_STAMP)
                continue;
            *(step->bind ? &bound : &sent[step->lane]) += message_bytes(pass, i, &pass->messages[m]);
        }
    }
    fprintf(out, "  sends %zu bytes on lane local, %zu on lane host; %zu bytes are read in place\n",
            sent[RI_LANE_LOCAL], sent[RI_LANE_HOST], bound);
}

/* "2 of K that show memory of other ranks, 3 of dK" */
static void print_slots(FILE *out, const struct ri_pass *pass)
{
    const struct ri_schedule *s = pass->schedule;
    int counts[RI_BUNDLES][2] = { { 0 } }, any = 0;

    for (uint32_t i = 0; i < s->slot_count; i++)
        if (ri_slot_is_ours(&s->slots[i]))
            counts[s->slots[i].bundle][pass->in_place[i]]++;
    fprintf(out, "  slots:");
    for (int bundle = 0; bundle < RI_BUNDLES; bundle++)
        for (int bound = 0; bound < 2; bound++)
            if (counts[bundle][bound]) {
                fprintf(out, "%s %d of %s%s", any ? "," : "", counts[bundle][bound],
                        ri_bundle_names[bundle], bound ? " that show memory of other ranks" : "");
                any = 1;
            }
    fprintf(out, "%s\n", any ? "" : " none of our own");
}

/* "16 of K, 8 of dK"; nothing when all blocks are sent whole. */
static void print_chunks(FILE *out, const struct ri_pass *pass)
{
    const char *before = "  chunks of a block: ";

    for (int bundle = 0; bundle < RI_BUNDLES; bundle++)
        if ((pass->chunked >> bundle & 1) && pass->chunks[bundle] > 1) {
            fprintf(out, "%s%u of %s", before, pass->chunks[bundle], ri_bundle_names[bundle]);
            before = ", ";
        }
    if (before[0] == ',')
        fprintf(out, "\n");
}

/* The caller's chunk size has no say in what is not copied. */
static void print_unchunked(FILE *out, const struct ri_pass *pass)
{
    const struct ri_schedule *s = pass->schedule;
    long long wish = pass->plan->choice.chunk_bytes;
    uint32_t bound = 0;
    const char *comma = " ";

    for (uint32_t i = 0; i < s->step_count && wish; i++)
        if (ri_step_moves(&s->steps[i]) && s->steps[i].bind)
            bound |= 1u << s->slots[ri_step_moved(&s->steps[i])->slot].bundle;
    if (!bound)
        return;
    fprintf(out, "  chunks of %lld bytes are asked for, but what is read in place moves whole:", wish);
    for (int bundle = 0; bundle < RI_BUNDLES; bundle++)
        if (bound >> bundle & 1) {
            fprintf(out, "%s%s", comma, ri_bundle_names[bundle]);
            comma = ", ";
        }
    fprintf(out, "\n");
}

/* What travels in another type than it lies in. */
static void print_wire(FILE *out, const struct ri_pass *pass)
{
    const char *before = "  travels as another type: ";
    uint32_t moves = 0;

    for (uint32_t m = 0; m < pass->first_message[pass->schedule->step_count]; m++)
        moves |= 1u << pass->messages[m].tensor;
    for (int t = 0; t < RI_TENSORS; t++)
        if ((moves >> t & 1) && ri_pass_narrows(pass, (enum ri_tensor)t)) {
            fprintf(out, "%s%s as %s", before, rondo_tensor_name(t),
                    ri_pass_wire(pass, (enum ri_tensor)t) == RONDO_BF16 ? "bf16" : "f16");
            before = ", ";
        }
    if (before[0] == ',')
        fprintf(out, "%s\n", pass->plan->choice.binds && pass->plan->choice.pass[pass->kind].copies
                                 ? "; so nothing is read in place" : "");
}

static void print_pass(FILE *out, const struct ri_pass *pass)
{
    const struct ri_schedule *s = pass->schedule;
    const struct ri_scheme *scheme = &pass->plan->choice.pass[pass->kind];

    fprintf(out, "%s: schedule %s, %u steps, %u turns, %zu bytes of blocks in flight\n",
            ri_pass_names[pass->kind], s->name, s->step_count, s->turns, pass->slots_bytes);
    fprintf(out, "  %s%s%s%s%s, ", scheme->schedule, scheme->variant[0] ? " " : "", scheme->variant,
            scheme->gradients[0] ? " " : "", scheme->gradients);
    if (scheme->seconds < 0)
        fprintf(out, "not priced: forced\n");
    else
        fprintf(out, "priced at %.3g ms by the topology and RONDO_COST_*\n", scheme->seconds * 1e3);
    print_bytes(out, pass);
    print_slots(out, pass);
    print_wire(out, pass);
    print_chunks(out, pass);
    print_unchunked(out, pass);
}

static const char *way_to(const struct ri_place *place, int peer)
{
    const struct ri_transport_ops *ops = place->transport->ops;

    return ops->way ? ops->way(place->transport, peer) : ops->name;
}

/* Is peer reached as a rank before it is? */
static int is_told(const struct ri_place *place, int peer)
{
    for (int r = 0; r < peer; r++)
        if (r != place->rank && strcmp(way_to(place, r), way_to(place, peer)) == 0)
            return 1;
    return 0;
}

static int is_alike(const struct ri_place *place, int r, int peer)
{
    return r < place->ranks && r != place->rank && strcmp(way_to(place, r), way_to(place, peer)) == 0;
}

/* "1, 4-7" */
static void print_ranks(FILE *out, const struct ri_place *place, int peer)
{
    const char *comma = "";

    for (int first = peer, last; first < place->ranks; first = last + 1) {
        last = first;
        if (!is_alike(place, first, peer))
            continue;
        while (is_alike(place, last + 1, peer))
            last++;
        fprintf(out, "%s %d", comma, first);
        if (last > first)
            fprintf(out, "-%d", last);
        comma = ",";
    }
}

/* How this rank reaches the others. */
static void print_ways(FILE *out, const struct ri_place *place)
{
    fprintf(out, "transport: %s\n", place->transport->ops->name);
    for (int r = 0; r < place->ranks; r++) {
        if (r == place->rank || is_told(place, r))
            continue;
        fprintf(out, "  rank %d to", place->rank);
        print_ranks(out, place, r);
        fprintf(out, ": %s\n", way_to(place, r));
    }
}

/* Ranks as they stand in rings; of many the first. */
static void print_order(FILE *out, const int32_t *order, int ranks)
{
    enum { MANY = 64 };

    if (!order) {
        fprintf(out, "  rings go by the numbers of ranks\n");
        return;
    }
    fprintf(out, "  rings go by the topology:");
    for (int i = 0; i < ranks && i < MANY; i++)
        fprintf(out, " %d", (int)order[i]);
    fprintf(out, "%s\n", ranks > MANY ? " .." : "");
}

/* What the links are that prices reckon with, and which NIC this rank has. */
static void print_links(FILE *out, const struct ri_plan *plan, const struct ri_link_cost *lane, int shared_nic)
{
    const struct ri_topo *topo = plan->place.topo;
    const struct ri_topo_rank *at = topo ? &topo->ranks[plan->place.rank] : NULL;

    fprintf(out, "links: %.3g GB/s and %.3g us inside a host, %.3g GB/s and %.3g us between hosts, ",
            lane[RI_LANE_LOCAL].bandwidth / 1e9, lane[RI_LANE_LOCAL].latency_seconds * 1e6,
            lane[RI_LANE_HOST].bandwidth / 1e9, lane[RI_LANE_HOST].latency_seconds * 1e6);
    if (shared_nic == 1)
        fprintf(out, "a NIC shared by the ranks of a host\n");
    else if (shared_nic)
        fprintf(out, "a NIC shared by %d ranks\n", shared_nic);
    else
        fprintf(out, "a NIC for each rank\n");
    if (at && at->nic >= 0)
        fprintf(out, "  rank %d is on %s of %s, with %s\n", plan->place.rank, topo->objects[at->object].name,
                topo->objects[ri_topo_host_of(topo, at->object)].name, topo->objects[at->nic].name);
}

static void print_topo(FILE *out, const struct ri_plan *plan)
{
    const struct ri_choice *choice = &plan->choice;

    print_links(out, plan, choice->lane, choice->shared_nic);
    print_order(out, choice->pass[RI_FORWARD].build.order, plan->place.ranks);
}

static void print_documents(FILE *out, const struct rondo_layout *layout)
{
    if (layout->documents)
        fprintf(out, ", %d of at most %d documents dealt by %s", layout->documents, layout->max_documents,
                layout->deal == RONDO_DEAL_DOCUMENTS ? "document" : "sequence");
}

static void print_keys(FILE *out, const struct ri_plan *plan)
{
    const struct rondo_layout *keys = plan->layout[RI_KEYS];

    print_documents(out, plan->layout[RI_QUERIES]);
    if (plan->is_cross) {
        fprintf(out, "; keys: %s, %lld tokens, %lld here", rondo_layout_kind_name(keys->kind),
                (long long)keys->tokens, (long long)ri_layout_tokens(keys, plan->place.rank));
        print_documents(out, keys);
    }
    fprintf(out, "\n");
}

static void print_mask(FILE *out, const struct ri_mask *mask)
{
    fprintf(out, "%s mask", ri_mask_name(mask->kind));
    if (mask->kind == RONDO_MASK_WINDOW)
        fprintf(out, " (left %lld, right %lld)", (long long)mask->left, (long long)mask->right);
}

static void print_head(FILE *out, const struct ri_plan *plan)
{
    const rondo_attention_desc_t *d = &plan->desc;
    rondo_plan_memory_t memory;

    for (int i = 0; i < RI_PASSES; i++)
        if (plan->pass[i].schedule)
            print_pass(out, &plan->pass[i]);
    ri_plan_memory(plan, &memory);
    fprintf(out, "memory: %d in flight at most, %zu bytes of the pool, %zu of scratch, %zu of tables\n",
            plan->max_in_flight, memory.pool_bytes, memory.scratch_bytes, memory.table_bytes);
    fprintf(out, "layout: %s, %lld tokens over %d ranks, %lld on rank %d",
            rondo_layout_kind_name(plan->layout[RI_QUERIES]->kind), (long long)plan->layout[RI_QUERIES]->tokens,
            plan->place.ranks, (long long)ri_layout_tokens(plan->layout[RI_QUERIES], plan->place.rank),
            plan->place.rank);
    print_keys(out, plan);
    fprintf(out, "attention: ");
    print_mask(out, &plan->sight.mask);
    fprintf(out, ", batch %lld, %d query heads, %d key heads, head sizes %d and %d, scale %g\n",
            (long long)d->batch, d->q_heads, d->kv_heads, d->qk_dim, d->v_dim, (double)d->scale);
    fprintf(out, "kernel: %s", plan->kernel.name);
    if (plan->shape.threads > 1)
        fprintf(out, ", %d threads", plan->shape.threads);
    fprintf(out, "\n");
    print_topo(out, plan);
    print_ways(out, &plan->place);
}

char *ri_plan_text(const struct ri_plan *plan)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    if (!out)
        return NULL;
    print_head(out, plan);
    for (int i = 0; i < RI_PASSES; i++) {
        char *schedule = plan->pass[i].schedule ? ri_schedule_print(plan->pass[i].schedule) : NULL;

        if (schedule)
            fprintf(out, "\n%s", schedule);
        free(schedule);
    }
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}
