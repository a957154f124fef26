/* SPDX-License-Identifier: Apache-2.0 */
#include "pattern.h"

#include <string.h>

/* 16 words that are computed side by side, in what vector registers there are. */
enum { LANES = 16, LINE_BYTES = LANES * 4 };
typedef uint32_t lanes_t __attribute__((vector_size(LINE_BYTES)));

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
    char *to = memory, *end = to + bytes;
    uint32_t word = word_at(owner, iteration, first);
    lanes_t line;

    for (uint32_t i = 0; i < LANES; i++)
        line[i] = word + i * STEP;
    for (; end - to >= LINE_BYTES; to += LINE_BYTES) {
        memcpy(to, &line, sizeof(line));
        line += LANES * STEP;
    }
    memcpy(to, &line, (size_t)(end - to));
}

uint32_t pattern_sum(const void *memory, size_t bytes)
{
    const char *from = memory, *end = from + bytes;
    lanes_t sum[4] = {{0}}, line = {0};
    uint32_t all = 0;

    /* Four sums that do not wait for each other. */
    for (; end - from >= 4 * LINE_BYTES; from += 4 * LINE_BYTES)
        for (int i = 0; i < 4; i++) {
            memcpy(&line, from + i * LINE_BYTES, sizeof(line));
            sum[i] += line;
        }
    for (; end - from >= LINE_BYTES; from += LINE_BYTES) {
        memcpy(&line, from, sizeof(line));
        sum[0] += line;
    }
    line = (lanes_t){0};
    memcpy(&line, from, (size_t)(end - from));
    sum[0] += sum[1] + sum[2] + sum[3] + line;
    for (int i = 0; i < LANES; i++)
        all += sum[0][i];
    return all;
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
