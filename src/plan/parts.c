/* SPDX-License-Identifier: Apache-2.0 */
/* Which tokens the parts of a block are, and where they lie in a slot. */
#include "base/minmax.h"
#include "base/status.h"
#include "kernels/convert.h"
#include "plan/plan.h"

int64_t ri_part_tokens(int64_t largest, int token_parts)
{
    return (largest + token_parts - 1) / token_parts;
}

int64_t ri_slot_tokens(const struct ri_schedule *s, uint32_t slot, int64_t largest)
{
    int room = s->slots[slot].parts;

    return room >= s->token_parts ? largest : room * ri_part_tokens(largest, s->token_parts);
}

struct ri_region ri_operand_region(const struct ri_plan *plan, const struct ri_schedule *s,
                                   const struct ri_operand *o)
{
    const struct ri_slot *slot = &s->slots[o->slot];
    enum ri_side side = ri_bundle_side(slot->bundle);
    int64_t tokens = ri_block_tokens(plan, s, side, o->block);
    int64_t part = ri_part_tokens(plan->largest[side], s->token_parts);
    int64_t first = ri_min64(tokens, o->first_part * part);
    int64_t end = ri_min64(tokens, (o->first_part + o->parts) * part);
    struct ri_region region = { first, end - first, first, tokens };

    if (s->token_parts > 1 && ri_slot_is_ours(slot))
        region.row = ri_slot_tokens(s, (uint32_t)o->slot, plan->largest[side]);
    if (slot->parts < s->token_parts)
        region.at = o->first_part % slot->parts * part;
    return region;
}

struct ri_operand ri_operand_block(const struct ri_operand *o, int i)
{
    struct ri_operand one = *o;

    one.slot += i;
    one.block += i;
    one.blocks = 1;
    return one;
}

rondo_tensor_t ri_region_view(const struct ri_pass *pass, enum ri_tensor tensor, void *data,
                              const struct ri_region *region)
{
    rondo_tensor_t view = ri_tensor_view(&pass->plan->desc, tensor, data, region->row);

    if (data)
        view.data = (char *)data + (size_t)(region->at * view.token_stride) *
                                       ri_convert_bytes(ri_pass_type(pass, tensor));
    return view;
}

struct ri_rows ri_region_rows(const rondo_attention_desc_t *desc, enum ri_tensor tensor, rondo_dtype_t type,
                              void *data, const struct ri_region *region)
{
    struct ri_shape shape = ri_tensor_shape(desc, tensor);
    size_t token_bytes = (size_t)shape.dim * ri_convert_bytes(type);
    struct ri_rows rows = { data, 0, 0, 0 };

    if (region->count == 0)
        return rows;
    rows.rows = (size_t)desc->batch;
    if (shape.head_major)
        rows.rows *= (size_t)shape.heads;
    else
        token_bytes *= (size_t)shape.heads;
    rows.base += (size_t)region->at * token_bytes;
    rows.row_bytes = (size_t)region->count * token_bytes;
    rows.row_stride = (size_t)region->row * token_bytes;
    return rows;
}

/* ---- what a plan cannot lay out is refused when it is made ---- */

static int check_operand(const struct ri_schedule *s, uint32_t step, const struct ri_operand *o)
{
    for (int i = 0; o->slot >= 0 && i < o->blocks; i++) {
        int room = s->slots[o->slot + i].parts;

        if (room >= s->token_parts)
            continue;
        if (!ri_slot_is_ours(&s->slots[o->slot + i]))
            return ri_error(RONDO_ERR_UNSUPPORTED, "schedule %s: slot %d is the caller's and has room "
                            "for %d of %d parts; give it room for all", s->name, o->slot + i, room,
                            s->token_parts);
        if (o->first_part % room + o->parts > room)
            return ri_error(RONDO_ERR_UNSUPPORTED, "schedule %s step %u: parts %d to %d go round the end "
                            "of slot %d, which has room for %d; name them in two steps", s->name, step,
                            o->first_part, o->first_part + o->parts - 1, o->slot + i, room);
    }
    return 0;
}

int ri_parts_check(const struct ri_schedule *s)
{
    if (s->head_parts > 1)
        return ri_error(RONDO_ERR_UNSUPPORTED, "schedule %s cuts heads in %d parts, which attention "
                        "plans do not do yet; use a schedule that cuts tokens", s->name, s->head_parts);
    for (uint32_t i = 0; i < s->step_count; i++) {
        const struct ri_step *step = &s->steps[i];

        for (int k = 0; k < 2; k++) {
            int err = check_operand(s, i, &step->from[k]);

            if (!err)
                err = check_operand(s, i, &step->to[k]);
            if (err)
                return err;
        }
    }
    return 0;
}
