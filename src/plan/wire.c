/* SPDX-License-Identifier: Apache-2.0 */
/* Types in which tensors travel: what the caller says of them, and the copies of slots that are in them. */
#include "plan/wire.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "kernels/convert.h"
#include "plan/chunks.h"

/* ---- the option ---- */

static const struct {
    const char *name;
    rondo_dtype_t type;
} types[] = { { "f32", RONDO_F32 }, { "bf16", RONDO_BF16 }, { "f16", RONDO_F16 } };

enum { TYPES = sizeof(types) / sizeof(types[0]) };

/* Of words that need not end: [word, word + length). */
static int is_word(const char *word, size_t length, const char *name)
{
    return strlen(name) == length && strncmp(word, name, length) == 0;
}

static int find_type(const char *word, size_t length)
{
    for (int i = 0; i < TYPES; i++)
        if (is_word(word, length, types[i].name))
            return i;
    return -1;
}

static int find_tensor(const char *word, size_t length)
{
    for (int t = 0; t < RI_TENSORS; t++)
        if (is_word(word, length, rondo_tensor_name(t)))
            return t;
    return -1;
}

/* Does it ever lie in fp32, and may it travel in less? */
static int may_narrow(const rondo_attention_desc_t *desc, enum ri_tensor tensor)
{
    if (tensor == RI_T_LSE || tensor == RI_T_DELTA)
        return 0;
    return ri_tensor_is_sum(RI_FORWARD, tensor) || ri_tensor_is_sum(RI_BACKWARD, tensor) ||
           desc->dtype == RONDO_F32;
}

static int give(const char *text, const rondo_attention_desc_t *desc, int tensor, rondo_dtype_t type,
                struct ri_wire *wire)
{
    const char *name = rondo_tensor_name(tensor);

    if (tensor == RI_T_LSE || tensor == RI_T_DELTA)
        return ri_error(RONDO_ERR_ARGUMENT, "wire is \"%s\": %s always travels in fp32", text, name);
    if (!may_narrow(desc, (enum ri_tensor)tensor) && type != desc->dtype)
        return ri_error(RONDO_ERR_ARGUMENT, "wire is \"%s\": %s has 16 bits and travels as it is", text, name);
    if (may_narrow(desc, (enum ri_tensor)tensor))
        wire->type[tensor] = (uint8_t)type;
    return 0;
}

/* "k:bf16" */
static int parse_entry(const char *text, const char *entry, size_t length, const rondo_attention_desc_t *desc,
                       unsigned *named, struct ri_wire *wire)
{
    const char *colon = memchr(entry, ':', length);
    size_t before = colon ? (size_t)(colon - entry) : length;
    int tensor = find_tensor(entry, before), type;

    if (!colon || tensor < 0)
        return ri_error(RONDO_ERR_ARGUMENT, "wire is \"%s\": \"%.*s\" is neither bf16, f16 nor f32 for all, nor "
                        "tensor:type of q, k, v, o, d_o, dq, dk or dv", text, (int)length, entry);
    type = find_type(colon + 1, length - before - 1);
    if (type < 0)
        return ri_error(RONDO_ERR_ARGUMENT, "wire is \"%s\": \"%.*s\" is no type; use bf16, f16 or f32", text,
                        (int)(length - before - 1), colon + 1);
    if (*named >> tensor & 1)
        return ri_error(RONDO_ERR_ARGUMENT, "wire is \"%s\": %s is named twice", text, rondo_tensor_name(tensor));
    *named |= 1u << tensor;
    return give(text, desc, tensor, types[type].type, wire);
}

int ri_wire_parse(const char *text, const rondo_attention_desc_t *desc, struct ri_wire *wire)
{
    int all = text ? find_type(text, strlen(text)) : -1, err = 0;
    const char *at = text;
    unsigned named = 0;

    memset(wire, 0, sizeof(*wire));
    for (int t = 0; all >= 0 && t < RI_TENSORS; t++)
        if (may_narrow(desc, (enum ri_tensor)t))
            wire->type[t] = (uint8_t)types[all].type;
    while (!err && at && all < 0) {
        size_t length = strcspn(at, ",");

        err = parse_entry(text, at, length, desc, &named, wire);
        at = at[length] ? at + length + 1 : NULL;
    }
    return err;
}

void ri_wire_print(const struct ri_wire *wire, char text[RI_WIRE_TEXT])
{
    size_t used = 0;

    text[0] = '\0';
    for (int t = 0; t < RI_TENSORS; t++)
        if (wire->type[t] != RONDO_F32)
            used += (size_t)snprintf(text + used, RI_WIRE_TEXT - used, "%s%s:%s", used ? "," : "",
                                     rondo_tensor_name(t), wire->type[t] == RONDO_BF16 ? "bf16" : "f16");
}

/* ---- of passes ---- */

uint32_t ri_wire_bundles(const struct ri_wire *wire, const rondo_attention_desc_t *desc, enum ri_pass_kind kind,
                         int needs_o)
{
    uint32_t bundles = 0;

    for (int bundle = 0; bundle < RI_BUNDLES; bundle++)
        for (const enum ri_tensor *t = ri_bundle_tensors(kind, (enum ri_bundle)bundle, needs_o); *t != RI_TENSORS; t++)
            if (ri_wire_type(wire, desc, kind, *t) != ri_lying_type(desc, kind, *t))
                bundles |= 1u << bundle;
    return bundles;
}

rondo_dtype_t ri_wire_type(const struct ri_wire *wire, const rondo_attention_desc_t *desc, enum ri_pass_kind kind,
                           enum ri_tensor tensor)
{
    rondo_dtype_t lies = ri_lying_type(desc, kind, tensor);

    return lies == RONDO_F32 ? (rondo_dtype_t)wire->type[tensor] : lies;
}

rondo_dtype_t ri_pass_wire(const struct ri_pass *pass, enum ri_tensor tensor)
{
    return ri_wire_type(&pass->plan->choice.wire, &pass->plan->desc, pass->kind, tensor);
}

int ri_pass_narrows(const struct ri_pass *pass, enum ri_tensor tensor)
{
    return ri_pass_wire(pass, tensor) != ri_pass_type(pass, tensor);
}

/* ---- shadows ---- */

enum way { INTO_SHADOW, OUT_OF_SHADOW };

/* Of a region of a slot, which lies in both alike. */
static void convert(const struct ri_run *run, int32_t slot, enum ri_tensor tensor, const struct ri_region *region,
                    enum way way)
{
    const struct ri_pass *pass = run->pass;
    rondo_dtype_t type = ri_pass_wire(pass, tensor);
    struct ri_rows wide = ri_region_rows(&pass->plan->desc, tensor, RONDO_F32, run->slots[slot][tensor], region);
    struct ri_rows narrow = ri_region_rows(&pass->plan->desc, tensor, type, run->shadows[slot][tensor], region);

    for (size_t row = 0; row < wide.rows; row++) {
        float *lies = (float *)(void *)(wide.base + row * wide.row_stride);
        void *travels = narrow.base + row * narrow.row_stride;

        if (way == INTO_SHADOW)
            ri_convert_from_f32(travels, type, lies, wide.row_bytes / sizeof(float));
        else
            ri_convert_to_f32(lies, travels, type, wide.row_bytes / sizeof(float));
    }
}

void ri_wire_shade(struct ri_run *run, int32_t slot, enum ri_tensor tensor, const struct ri_region *region)
{
    convert(run, slot, tensor, region, INTO_SHADOW);
}

void ri_wire_start(struct ri_run *run)
{
    const struct ri_plan *plan = run->pass->plan;
    const struct ri_schedule *s = run->pass->schedule;

    for (uint32_t i = 0; i < s->slot_count; i++)
        for (int t = 0; t < RI_TENSORS; t++) {
            enum ri_tensor tensor = (enum ri_tensor)t;
            struct ri_operand own = ri_operand(s, (int32_t)i, plan->place.rank);
            struct ri_region all;

            if (!run->shadows[i][t] || ri_slot_is_ours(&s->slots[i]) || ri_tensor_is_sum(run->pass->kind, tensor))
                continue;
            all = ri_operand_region(plan, s, &own);
            ri_wire_shade(run, (int32_t)i, tensor, &all);
        }
}

/* What of messages [first, end) of a step travels in another type, in the direction. */
static void convert_messages(struct ri_run *run, uint32_t step, uint32_t first, uint32_t end, int send)
{
    const struct ri_pass *pass = run->pass;

    for (uint32_t m = first; m < end; m++) {
        const struct ri_message *message = &pass->messages[m];
        enum ri_tensor tensor = (enum ri_tensor)message->tensor;
        struct ri_region region;

        if (message->tensor == RI_STAMP || message->send != send || !ri_pass_narrows(pass, tensor))
            continue;
        region = ri_message_region(pass, step, message);
        convert(run, ri_step_moved(&pass->schedule->steps[step])->slot + message->block, tensor, &region,
                send ? INTO_SHADOW : OUT_OF_SHADOW);
    }
}

int ri_wire_leaving(void *owner, uint32_t step, uint32_t first, uint32_t end)
{
    struct ri_run *run = owner;
    const struct ri_schedule *s = run->pass->schedule;

    if (s->steps[step].op == RI_SEND &&
        ri_bundle_accumulates((enum ri_bundle)s->slots[ri_step_moved(&s->steps[step])->slot].bundle))
        convert_messages(run, step, first, end, 1);
    return 0;
}

void ri_wire_arrived(struct ri_run *run, uint32_t step, uint32_t first, uint32_t end)
{
    if (run->pass->schedule->steps[step].op == RI_RECV)
        convert_messages(run, step, first, end, 0);
}
