/* SPDX-License-Identifier: Apache-2.0 */
#include "data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"

size_t corpus_train_offset(const struct corpus *c, uint64_t seed, int64_t step, int64_t tokens)
{
    uint64_t state = random_stream(seed, (uint64_t)step);

    return (size_t)(random_bits(&state) % (c->train_count - (size_t)tokens + 1));
}

int64_t corpus_windows(const struct corpus *c, int64_t tokens, int64_t limit)
{
    int64_t windows = (int64_t)(c->count - c->train_count) / tokens;

    return windows < limit ? windows : limit;
}

size_t corpus_window_offset(const struct corpus *c, int64_t index, int64_t count, int64_t tokens)
{
    size_t spare = c->count - c->train_count - (size_t)(count * tokens);

    return c->train_count + (size_t)(index * tokens) +
           (count > 1 ? spare / (size_t)(count - 1) * (size_t)index : 0);
}

void corpus_window(const struct corpus *c, size_t offset, int64_t count, int32_t *tokens)
{
    for (int64_t i = 0; i < count; i++)
        tokens[i] = c->bytes[offset + (size_t)i];
}

enum { BYTES = 256 };

/* The held-out bytes are scored from the second on, as a model is that is given the first. */
struct baselines corpus_baselines(const struct corpus *c)
{
    static const double added = 0.1;
    static int64_t pairs[BYTES][BYTES], before[BYTES], single[BYTES];
    struct baselines b = { 0.0, 0.0 };
    size_t scored = c->count - c->train_count - 1;

    memset(pairs, 0, sizeof(pairs));
    memset(before, 0, sizeof(before));
    memset(single, 0, sizeof(single));
    for (size_t i = 0; i < c->train_count; i++) {
        single[c->bytes[i]]++;
        if (i > 0) {
            pairs[c->bytes[i - 1]][c->bytes[i]]++;
            before[c->bytes[i - 1]]++;
        }
    }
    for (size_t i = c->train_count + 1; i < c->count; i++) {
        int last = c->bytes[i - 1], next = c->bytes[i];

        b.unigram -= log(((double)single[next] + added) /
                         ((double)c->train_count + added * BYTES));
        b.bigram -= log(((double)pairs[last][next] + added) /
                        ((double)before[last] + added * BYTES));
    }
    b.unigram /= (double)scored;
    b.bigram /= (double)scored;
    return b;
}

/* FNV-1a over 64-bit words, the rest byte by byte: fast enough for arenas, and equal everywhere that
 * floats are little-endian. */
uint64_t hash_bytes(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    const uint64_t prime = 0x100000001b3u;

    for (; bytes >= 8; bytes -= 8, p += 8) {
        uint64_t word;

        memcpy(&word, p, sizeof(word));
        hash = (hash ^ word) * prime;
        hash ^= hash >> 32;
    }
    for (; bytes > 0; bytes--, p++)
        hash = (hash ^ *p) * prime;
    return hash;
}
