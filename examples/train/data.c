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

/* The index of the first document that begins behind offset. */
static size_t next_document(const struct corpus *c, size_t offset)
{
    size_t low = 0, high = c->documents;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (c->starts[middle] > offset)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

int corpus_parts(const struct corpus *c, size_t offset, int64_t count, int64_t *edges)
{
    size_t first = next_document(c, offset), end = next_document(c, offset + (size_t)count - 1);
    int parts = 1 + (int)(end - first);

    if (!edges)
        return parts;
    edges[0] = 0;
    for (size_t d = first; d < end; d++)
        edges[1 + d - first] = (int64_t)(c->starts[d] - offset);
    edges[parts] = count;
    return parts;
}

/* A window has most when the last byte of a document is its first. */
int corpus_most_parts(const struct corpus *c, int64_t count)
{
    int most = 1;

    for (size_t d = 1; d < c->documents; d++) {
        int parts = corpus_parts(c, c->starts[d] - 1, count, NULL);

        most = parts > most ? parts : most;
    }
    return most;
}

size_t corpus_prompt(const struct corpus *c, size_t most, size_t *count)
{
    size_t best = c->train_count, longest = 0, offset = c->train_count;

    while (offset < c->count && longest < most) {
        size_t next = next_document(c, offset);
        size_t end = next < c->documents ? c->starts[next] : c->count;

        if (end - offset > longest) {
            best = offset;
            longest = end - offset;
        }
        offset = end;
    }
    *count = longest < most ? longest : most;
    return best;
}

enum { BYTES = 256 };

/* Whether a document begins at byte i, which does not fall from call to call; *document advances with it. */
static int begins(const struct corpus *c, size_t i, size_t *document)
{
    while (*document < c->documents && c->starts[*document] < i)
        ++*document;
    return *document < c->documents && c->starts[*document] == i;
}

/* The held-out bytes are scored from the second on, as a model is that is given the first. */
struct baselines corpus_baselines(const struct corpus *c, int packed)
{
    static const double added = 0.1;
    static int64_t pairs[BYTES][BYTES], before[BYTES], single[BYTES];
    struct baselines b = { 0.0, 0.0 };
    size_t scored = 0, document = packed ? 0 : c->documents;

    memset(pairs, 0, sizeof(pairs));
    memset(before, 0, sizeof(before));
    memset(single, 0, sizeof(single));
    for (size_t i = 0; i < c->train_count; i++) {
        single[c->bytes[i]]++;
        if (i > 0 && !begins(c, i, &document)) {
            pairs[c->bytes[i - 1]][c->bytes[i]]++;
            before[c->bytes[i - 1]]++;
        }
    }
    for (size_t i = c->train_count + 1; i < c->count; i++) {
        int last = c->bytes[i - 1], next = c->bytes[i];

        if (begins(c, i, &document))
            continue;
        scored++;
        b.unigram -= log(((double)single[next] + added) /
                         ((double)c->train_count + added * BYTES));
        b.bigram -= log(((double)pairs[last][next] + added) /
                        ((double)before[last] + added * BYTES));
    }
    b.unigram /= (double)scored;
    b.bigram /= (double)scored;
    return b;
}

uint64_t corpus_hash(const struct corpus *c, int packed)
{
    uint64_t hash = hash_bytes(HASH_START, c->bytes, c->count);

    return packed ? hash_bytes(hash, c->starts, c->documents * sizeof(*c->starts)) : hash;
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
