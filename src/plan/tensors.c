/* SPDX-License-Identifier: Apache-2.0 */
/* What the tensors of attention look like, and which of them travel together. */
#include "kernels/convert.h"
#include "plan/plan.h"

#include <assert.h>

_Static_assert((int)RI_TENSORS == (int)RONDO_TENSOR_COUNT, "tensors have the numbers of the public ones");
_Static_assert((int)RI_STAMP < (int)RI_XFER_KINDS, "messages are counted by what they carry");

const char *const ri_pass_names[RI_PASSES] = { [RI_FORWARD] = "forward", [RI_BACKWARD] = "backward" };

uint64_t ri_message_tag(uint32_t plan, uint32_t run, uint32_t message)
{
    return (uint64_t)(plan & 0xffff) << 32 | (uint64_t)(run & 0xfff) << RI_TAG_MESSAGE_BITS |
           (message & (RI_TAG_MESSAGES - 1));
}

enum ri_side ri_bundle_side(enum ri_bundle bundle)
{
    return bundle == RI_K || bundle == RI_DK ? RI_KEYS : RI_QUERIES;
}

struct ri_shape ri_tensor_shape(const rondo_attention_desc_t *desc, enum ri_tensor tensor)
{
    int q = desc->q_heads, kv = desc->kv_heads, qk = desc->qk_dim, v = desc->v_dim;
    const struct ri_shape shapes[RI_TENSORS] = {
        [RI_T_Q] = { q, qk, 0 },     [RI_T_K] = { kv, qk, 0 },   [RI_T_V] = { kv, v, 0 },
        [RI_T_O] = { q, v, 0 },      [RI_T_LSE] = { q, 1, 1 },   [RI_T_D_O] = { q, v, 0 },
        [RI_T_DELTA] = { q, 1, 1 },  [RI_T_DQ] = { q, qk, 0 },   [RI_T_DK] = { kv, qk, 0 },
        [RI_T_DV] = { kv, v, 0 },
    };

    assert(tensor < RI_TENSORS); /* not a stamp */
    return shapes[tensor];
}

const char *rondo_tensor_name(int tensor)
{
    static const char *const names[RI_TENSORS] = {
        [RI_T_Q] = "q",       [RI_T_K] = "k",         [RI_T_V] = "v",   [RI_T_O] = "o",   [RI_T_LSE] = "lse",
        [RI_T_D_O] = "d_o",   [RI_T_DELTA] = "delta", [RI_T_DQ] = "dq", [RI_T_DK] = "dk", [RI_T_DV] = "dv",
    };

    return tensor >= 0 && tensor < RI_TENSORS ? names[tensor] : "unknown";
}

size_t ri_tensor_elements(const rondo_attention_desc_t *desc, enum ri_tensor tensor, int64_t tokens)
{
    struct ri_shape shape = ri_tensor_shape(desc, tensor);

    return (size_t)desc->batch * (size_t)tokens * (size_t)shape.heads * (size_t)shape.dim;
}

enum ri_side ri_tensor_side(enum ri_tensor tensor)
{
    return tensor == RI_T_K || tensor == RI_T_V || tensor == RI_T_DK || tensor == RI_T_DV ? RI_KEYS : RI_QUERIES;
}

int ri_tensor_is_sum(enum ri_pass_kind kind, enum ri_tensor tensor)
{
    if (kind == RI_FORWARD)
        return tensor == RI_T_O || tensor == RI_T_LSE;
    return tensor == RI_T_DQ || tensor == RI_T_DK || tensor == RI_T_DV;
}

rondo_dtype_t ri_tensor_type(const rondo_attention_desc_t *desc, enum ri_tensor tensor)
{
    return tensor == RI_T_LSE || tensor == RI_T_DELTA ? RONDO_F32 : desc->dtype;
}

rondo_dtype_t ri_lying_type(const rondo_attention_desc_t *desc, enum ri_pass_kind kind, enum ri_tensor tensor)
{
    return ri_tensor_is_sum(kind, tensor) ? RONDO_F32 : ri_tensor_type(desc, tensor);
}

size_t ri_tensor_bytes(const rondo_attention_desc_t *desc, enum ri_tensor tensor, int64_t tokens)
{
    return ri_tensor_elements(desc, tensor, tokens) * ri_convert_bytes(ri_tensor_type(desc, tensor));
}

rondo_tensor_t ri_tensor_view(const rondo_attention_desc_t *desc, enum ri_tensor tensor, void *data,
                              int64_t tokens)
{
    struct ri_shape shape = ri_tensor_shape(desc, tensor);
    rondo_tensor_t view = { data, tokens * shape.heads * shape.dim, (int64_t)shape.heads * shape.dim,
                            shape.dim };

    if (shape.head_major) {
        view.token_stride = 1;
        view.head_stride = tokens;
    }
    return view;
}

const enum ri_tensor *ri_bundle_tensors(enum ri_pass_kind kind, enum ri_bundle bundle, int needs_o)
{
    static const enum ri_tensor query_with_o[] = { RI_T_Q, RI_T_D_O, RI_T_LSE, RI_T_O, RI_TENSORS };
    static const enum ri_tensor lists[RI_PASSES][RI_BUNDLES][5] = {
        [RI_FORWARD] = {
            [RI_Q] = { RI_T_Q, RI_TENSORS },
            [RI_K] = { RI_T_K, RI_T_V, RI_TENSORS },
            [RI_X] = { RI_TENSORS },
            [RI_O] = { RI_T_O, RI_T_LSE, RI_TENSORS },
            [RI_DQ] = { RI_TENSORS },
            [RI_DK] = { RI_TENSORS },
            [RI_R] = { RI_TENSORS },
        },
        [RI_BACKWARD] = {
            [RI_Q] = { RI_T_Q, RI_T_D_O, RI_T_LSE, RI_T_DELTA, RI_TENSORS },
            [RI_K] = { RI_T_K, RI_T_V, RI_TENSORS },
            [RI_X] = { RI_TENSORS },
            [RI_O] = { RI_TENSORS },
            [RI_DQ] = { RI_T_DQ, RI_TENSORS },
            [RI_DK] = { RI_T_DK, RI_T_DV, RI_TENSORS },
            [RI_R] = { RI_TENSORS },
        },
    };

    if (needs_o && kind == RI_BACKWARD && bundle == RI_Q)
        return query_with_o;
    return lists[kind][bundle];
}
