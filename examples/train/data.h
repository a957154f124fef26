/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_DATA_H
#define TRAIN_DATA_H

#include <stddef.h>
#include <stdint.h>

#include "problem.h"

#define DATA_DEFAULT_TEXT "/usr/share/doc/jargon-text/jargon.txt.gz"

/* The text: one run of bytes, whose last tenth is held out and never trained on.  A file that has bytes is
 * a document; where the held-out part begins, one may be cut in two. */
struct corpus {
    unsigned char *bytes; /* [count], owned */
    size_t count;
    size_t capacity;
    size_t train_count; /* bytes[0 .. train_count) */
    size_t *starts;     /* [documents], owned: where each document begins, ascending from 0 */
    size_t documents;
    size_t starts_room;
    int files;
    int skipped; /* things met in folders that are no text */
};

/* Reads files, and folders recursively in the order of their names, one after the other.  In folders
 * what is binary (a NUL among its first bytes) is skipped, and so are links to folders and names that
 * begin with a dot; gzip files are unpacked.  Without paths it reads DATA_DEFAULT_TEXT.  Refuses a
 * text whose held-out part is shorter than tokens.  0 or -1 with the problem set; release either way. */
int corpus_read(struct corpus *c, char *const *paths, int path_count, int64_t tokens,
                struct problem *problem);
void corpus_release(struct corpus *c);

/* Where the window of a step begins: a function of seed and step, the same on every rank. */
size_t corpus_train_offset(const struct corpus *c, uint64_t seed, int64_t step, int64_t tokens);

/* Held-out windows of `tokens` bytes that do not overlap, at most limit, evenly spread: their count,
 * and where the index-th of count begins. */
int64_t corpus_windows(const struct corpus *c, int64_t tokens, int64_t limit);
size_t corpus_window_offset(const struct corpus *c, int64_t index, int64_t count, int64_t tokens);

/* tokens [count] = the bytes from offset on. */
void corpus_window(const struct corpus *c, size_t offset, int64_t count, int32_t *tokens);

/* The parts of documents that this window has, at least one: edges [parts + 1], ascending from 0 to count,
 * where each begins and the last ends.  edges NULL: only counts. */
int corpus_parts(const struct corpus *c, size_t offset, int64_t count, int64_t *edges);
/* No window of so many bytes has more parts. */
int corpus_most_parts(const struct corpus *c, int64_t count);

/* Held-out bytes to go on from: where *count of them begin, at most `most` and all of one document; the
 * first so many, or the most that there are. */
size_t corpus_prompt(const struct corpus *c, size_t most, size_t *count);

/* Cross-entropies, in nats a byte, of the held-out part under counts of the training part with 0.1
 * added to each: of single bytes, and of bytes given the byte before.  packed: no byte is given one of
 * another document, and the first of each is not scored.  NAN: none is. */
struct baselines {
    double unigram, bigram;
};
struct baselines corpus_baselines(const struct corpus *c, int packed);

/* Of the text, so that a checkpoint can name the one it was trained on; packed: and of its documents. */
uint64_t corpus_hash(const struct corpus *c, int packed);
uint64_t hash_bytes(uint64_t hash, const void *data, size_t bytes);
#define HASH_START 0xcbf29ce484222325u

#endif
