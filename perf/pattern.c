/* SPDX-License-Identifier: Apache-2.0 */
#include "pattern.h"

#include <string.h>

/* Words that are computed side by side in a vector register; a line is four of them, which do not wait
 * for each other.  Memory is aligned to words, if to anything. */
enum { LANES = 4, VECTORS = 4, VECTOR_BYTES = LANES * 4, LINE_BYTES = VECTORS * VECTOR_BYTES };
typedef uint32_t vector_t __attribute__((vector_size(VECTOR_BYTES)));
typedef uint32_t stored_t __attribute__((vector_size(VECTOR_BYTES), aligned(1), may_alias));

#define STEP UINT32_C(0x9e3779b1)

static uint32_t start_of(int owner, uint32_t iteration)
{
    uint32_t x = (uint32_t)owner * UINT32_C(0x85ebca6b) + iteration * UINT32_C(0xc2b2ae35) + 1;

    x ^= x >> 16;
    x *= UINT32_C(0x7feb352d);
    return x ^ x >> 15;
}

static uint32_t word_at(int owner, uint32_t iteration, size_t i)
{
    return start_of(owner, iteration) + (uint32_t)i * STEP;
}

void pattern_fill(void *memory, size_t bytes, int owner, uint32_t iteration, size_t first)
{
    const vector_t ahead = (vector_t){0} + LANES * VECTORS * STEP;
    char *to = memory, *end = to + bytes;
    uint32_t word = word_at(owner, iteration, first);
    vector_t v0 = {word, word + STEP, word + 2 * STEP, word + 3 * STEP};
    vector_t v1 = v0 + LANES * STEP, v2 = v1 + LANES * STEP, v3 = v2 + LANES * STEP;

    for (; end - to >= LINE_BYTES; to += LINE_BYTES) {
        stored_t *line = (void *)to;

        line[0] = v0;
        line[1] = v1;
        line[2] = v2;
        line[3] = v3;
        v0 += ahead;
        v1 += ahead;
        v2 += ahead;
        v3 += ahead;
    }
    for (word = v0[0]; to < end; to += sizeof(word), word += STEP)
        memcpy(to, &word, (size_t)(end - to) < sizeof(word) ? (size_t)(end - to) : sizeof(word));
}

uint32_t pattern_sum(const void *memory, size_t bytes)
{
    const char *from = memory, *end = from + bytes;
    vector_t s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
    uint32_t sum = 0;

    for (; end - from >= LINE_BYTES; from += LINE_BYTES) {
        const stored_t *line = (const void *)from;

        s0 += line[0];
        s1 += line[1];
        s2 += line[2];
        s3 += line[3];
    }
    s0 += s1 + s2 + s3;
    for (int i = 0; i < LANES; i++)
        sum += s0[i];
    for (; from < end; from += sizeof(uint32_t)) {
        uint32_t word = 0;

        memcpy(&word, from, (size_t)(end - from) < sizeof(word) ? (size_t)(end - from) : sizeof(word));
        sum += word;
    }
    return sum;
}

/* Of n words: n * start + step * (0 + 1 + .. + n - 1). */
uint32_t pattern_expected(size_t bytes, int owner, uint32_t iteration, size_t first)
{
    uint64_t n = bytes / 4, pairs = n % 2 ? n * ((n - 1) / 2) : n / 2 * (n - 1);
    uint32_t sum = (uint32_t)n * word_at(owner, iteration, first) + (uint32_t)pairs * STEP;
    uint32_t cut = 0, last = word_at(owner, iteration, first + n);

    memcpy(&cut, &last, bytes % 4);
    return bytes == 0 ? 0 : sum + cut;
}

uint64_t pattern_wrong(const void *memory, size_t bytes, int owner, uint32_t iteration, size_t first,
                       size_t *where)
{
    const char *from = memory;
    uint64_t wrong = 0;

    for (size_t at = 0; at < bytes; at += 4) {
        uint32_t word = word_at(owner, iteration, first + at / 4);

        if (memcmp(from + at, &word, bytes - at < 4 ? bytes - at : 4) == 0)
            continue;
        if (wrong++ == 0)
            *where = at / 4;
    }
    return wrong;
}
