/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_MASKS_SHOWN_H
#define TESTS_UNIT_MASKS_SHOWN_H

#include <rondo/layout.h>
#include <stdio.h>

/* What rondo-masks(7) shows: one mask in the layouts from contiguous on. */
struct picture {
    const char *name;
    int columns; /* layouts, from contiguous on */
    rondo_mask_t mask;
    rondo_mask_params_t params; /* but for struct_bytes */
    const int64_t *cu_seqlens, *lengths;
    int documents;
    rondo_deal_t deal;
    int64_t queries; /* 0: as many as keys */
};

/* The pictures: few tokens, so that each can be seen. */
enum { SHOWN_RANKS = 3, SHOWN_TOKENS = 12, SHOWN_CHUNK = 2 };
extern const struct picture pictures[];
extern const int picture_count;

/* The table of costs. */
enum { COST_RANKS = 8, COST_TOKENS = 8192 };
extern const struct picture costs[];
extern const int cost_count;

/* Whether the query at one position sees the key at another, from the mask's definition. */
int picture_sees(const struct picture *p, int64_t query, int64_t key);
rondo_mask_params_t picture_params(const struct picture *p);
rondo_layout_t picture_layout(const struct picture *p, rondo_layout_kind_t kind, int64_t tokens, int ranks);

/* Text, as the page has it. */
void write_picture(FILE *out, const struct picture *p);
void write_costs(FILE *out);

#endif
