/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_PLAN_WIRE_H
#define RI_PLAN_WIRE_H

#include <stddef.h>

#include <rondo/attention.h>

/* In which types tensors travel that lie in fp32; all others travel as they lie. */
struct ri_wire {
    uint8_t type[RONDO_TENSOR_COUNT]; /* rondo_dtype_t; RONDO_F32 is 0 */
};

/* text: NULL, a type, or a list of tensor:type.  RONDO_ERR_ARGUMENT names the word. */
int ri_wire_parse(const char *text, const rondo_attention_desc_t *desc, struct ri_wire *wire);

/* "q:bf16,dk:f16", the same for all texts that mean the same; "" when nothing is narrowed. */
enum { RI_WIRE_TEXT = 80 };
void ri_wire_print(const struct ri_wire *wire, char text[RI_WIRE_TEXT]);

#endif
