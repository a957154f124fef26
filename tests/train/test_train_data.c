/* SPDX-License-Identifier: Apache-2.0 */
#include "folder.h"

#include "examples/train/data.h"

static char ten[10] = "abcdefghij";

/* Reads one path that must be refused with a text that has both parts. */
static void refused(char *path, int64_t tokens, const char *first, const char *second)
{
    struct problem problem = { 0, "" };
    struct corpus c;

    assert_int_equal(corpus_read(&c, &path, 1, tokens, &problem), -1);
    assert_int_equal(problem.exit_code, EXIT_FAILED);
    check_says(problem.text, first);
    check_says(problem.text, second);
    corpus_release(&c);
}

static void accepted(struct corpus *c, char *const *paths, int count, const char *content)
{
    struct problem problem = { 0, "" };

    assert_int_equal(corpus_read(c, paths, count, 1, &problem), 0);
    assert_int_equal(c->count, strlen(content));
    assert_memory_equal(c->bytes, content, c->count);
}

static void missing_empty_and_short_texts_are_named(void **state)
{
    struct folder *f = *state;
    char *path = folder_name(f, "nowhere");

    refused(path, 1, path, "No such file");
    path = folder_write(f, "empty", "", 0);
    refused(path, 1, path, "is empty");
    path = folder_write(f, "short", ten, 9);
    refused(path, 1, path, "has 9 bytes");
    path = folder_write(f, "ten", ten, 10);
    refused(path, 2, "--tokens 2", "has 10 bytes");
    refused(f->path, 2, f->path, "has 19 bytes");
}

static void unreadable_and_binary_texts_are_named(void **state)
{
    struct folder *f = *state;
    char *path = folder_write(f, "binary", "text\0text", 9);
    char fifo[] = "/dev/null";

    refused(path, 1, path, "binary");
    refused(fifo, 1, fifo, "neither a file nor a folder");
    path = folder_write(f, "broken.gz", "\x1f\x8b\x08 not really", 14);
    refused(path, 1, path, "gzip");
}

static void folder_of_nothing_is_empty(void **state)
{
    struct folder *f = *state;

    refused(f->path, 1, f->path, "is empty");
    folder_write(f, "binary", "\0", 1);
    refused(f->path, 1, "is empty", "1 skipped");
}

static void folders_are_read_by_name_and_deep(void **state)
{
    struct folder *f = *state;
    char *path = f->path;
    struct corpus c;

    mkdir(folder_name(f, "b"), 0777);
    mkdir(folder_name(f, "b/deep"), 0777);
    folder_write(f, "c", "ccccc\n", 6);
    folder_write(f, "b/deep/x", "deep\n", 5);
    folder_write(f, "b/y", "yyyy\n", 5);
    folder_write(f, "a", "aaaa\n", 5);
    folder_write(f, "b/image", "P\0NG", 4);
    folder_write(f, ".hidden", "hidden", 6);
    assert_int_equal(symlink(f->path, folder_name(f, "b/loop")), 0);
    assert_int_equal(symlink("gone", folder_name(f, "b/dangling")), 0);
    accepted(&c, &path, 1, "aaaa\ndeep\nyyyy\nccccc\n");
    assert_int_equal(c.files, 4);
    assert_int_equal(c.skipped, 3);
    assert_int_equal(c.train_count, 19);
    corpus_release(&c);
    corpus_release(&c);
}

static void paths_are_joined_in_order(void **state)
{
    struct folder *f = *state;
    char *paths[2];
    struct corpus c;

    paths[0] = folder_write(f, "z", "first.", 6);
    paths[1] = folder_write(f, "a", "second", 6);
    accepted(&c, paths, 2, "first.second");
    corpus_release(&c);
}

static void gzip_files_are_unpacked(void **state)
{
    /* printf hello, hello | gzip -n */
    static const unsigned char packed[] = {
        0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0xd7,
        0x51, 0xc8, 0x00, 0x51, 0x00, 0xff, 0xc5, 0xcc, 0xf3, 0x0c, 0x00, 0x00, 0x00,
    };
    struct folder *f = *state;
    char *path = folder_write(f, "odd ; name.gz", packed, sizeof(packed));
    struct corpus c;

    accepted(&c, &path, 1, "hello, hello");
    corpus_release(&c);
}

static void offsets_stay_inside_the_training_part(void **state)
{
    struct corpus c = { .count = 1000, .train_count = 900 };
    size_t least = SIZE_MAX, most = 0;

    for (int64_t step = 0; step < 20000; step++) {
        size_t offset = corpus_train_offset(&c, 7, step, 100);

        assert_int_equal(offset, corpus_train_offset(&c, 7, step, 100));
        least = offset < least ? offset : least;
        most = offset > most ? offset : most;
    }
    assert_int_equal(least, 0);
    assert_int_equal(most, 800);
    assert_int_not_equal(corpus_train_offset(&c, 7, 0, 100), corpus_train_offset(&c, 8, 0, 100));
    assert_int_equal(corpus_train_offset(&c, 7, 3, 900), 0);
}

static void windows_lie_apart_in_the_held_out_part(void **state)
{
    for (int64_t tokens = 1; tokens <= 100; tokens++)
        for (int64_t limit = 1; limit <= 12; limit++) {
            struct corpus c = { .count = 1000, .train_count = 900 };
            int64_t count = corpus_windows(&c, tokens, limit);
            size_t end = c.train_count;

            assert_true(count >= 1 && count <= limit);
            for (int64_t i = 0; i < count; i++) {
                size_t offset = corpus_window_offset(&c, i, count, tokens);

                assert_true(offset >= end);
                end = offset + (size_t)tokens;
            }
            assert_true(end <= c.count);
        }
}

static void files_with_bytes_are_documents(void **state)
{
    struct folder *f = *state;
    char *path = f->path;
    struct corpus c;

    folder_write(f, "a", "aaaa\n", 5);
    folder_write(f, "b", "", 0);
    folder_write(f, "c", "P\0NG", 4);
    folder_write(f, "d", "d", 1);
    folder_write(f, "e", "eeee\n", 5);
    accepted(&c, &path, 1, "aaaa\ndeeee\n");
    assert_int_equal(c.files, 4);
    assert_int_equal(c.documents, 3);
    assert_int_equal(c.starts[0], 0);
    assert_int_equal(c.starts[1], 5);
    assert_int_equal(c.starts[2], 6);
    corpus_release(&c);
}

static void many_files_are_many_documents(void **state)
{
    struct problem problem = { 0, "" };
    struct folder *f = *state;
    char *path = folder_write(f, "x", ten, 10), *paths[300];
    struct corpus c;

    for (int i = 0; i < 300; i++)
        paths[i] = path;
    assert_int_equal(corpus_read(&c, paths, 300, 1, &problem), 0);
    assert_int_equal(c.documents, 300);
    for (size_t d = 0; d < 300; d++)
        assert_int_equal(c.starts[d], 10 * d);
    corpus_release(&c);
}

static size_t some_starts[] = { 0, 3, 4, 5, 11, 30 };

/* Every window against a walk over its bytes. */
static void windows_know_their_documents(void **state)
{
    struct corpus c = { .count = 37, .starts = some_starts, .documents = 6 };

    for (int64_t count = 1; count <= 37; count++) {
        int most = 0;

        for (size_t offset = 0; offset + (size_t)count <= c.count; offset++) {
            int64_t edges[8], walked[8] = { 0 };
            int parts = corpus_parts(&c, offset, count, edges), at = 1;

            for (size_t i = offset + 1; i < offset + (size_t)count; i++)
                for (size_t d = 0; d < c.documents; d++)
                    if (c.starts[d] == i)
                        walked[at++] = (int64_t)(i - offset);
            walked[at] = count;
            assert_int_equal(parts, at);
            assert_int_equal(parts, corpus_parts(&c, offset, count, NULL));
            assert_memory_equal(edges, walked, (size_t)(parts + 1) * sizeof(*edges));
            most = parts > most ? parts : most;
        }
        assert_true(most <= corpus_most_parts(&c, count));
        assert_true(corpus_most_parts(&c, count) <= most + 1);
    }
    assert_int_equal(corpus_most_parts(&c, 2), 2);
    assert_int_equal(corpus_most_parts(&c, 4), 4);
}

static void prompt_lies_in_one_held_out_document(void **state)
{
    struct corpus c = { .count = 37, .train_count = 2, .starts = some_starts, .documents = 6 };
    size_t count;

    assert_int_equal(corpus_prompt(&c, 1, &count), 2); /* the end of the first */
    assert_int_equal(count, 1);
    assert_int_equal(corpus_prompt(&c, 5, &count), 5);
    assert_int_equal(count, 5);
    assert_int_equal(corpus_prompt(&c, 19, &count), 11);
    assert_int_equal(count, 19);
    assert_int_equal(corpus_prompt(&c, 20, &count), 11); /* none has so many */
    assert_int_equal(count, 19);
}

static void text_is_named_by_bytes_and_documents(void **state)
{
    unsigned char text[37] = "x";
    size_t others[] = { 0, 3, 4, 5, 12, 30 };
    struct corpus c = { .bytes = text, .count = 37, .starts = some_starts, .documents = 6 };
    struct corpus d = { .bytes = text, .count = 37, .starts = others, .documents = 6 };

    assert_true(corpus_hash(&c, 0) == hash_bytes(HASH_START, text, 37));
    assert_true(corpus_hash(&c, 0) == corpus_hash(&d, 0));
    assert_true(corpus_hash(&c, 1) != corpus_hash(&d, 1));
    assert_true(corpus_hash(&c, 1) != corpus_hash(&c, 0));
}

static void baselines_stay_within_documents(void **state)
{
    unsigned char text[] = "ababababacabab"; /* trained on "ababa" and "babac", held out "aba" and "b" */
    size_t starts[] = { 0, 5, 10, 13 };
    struct corpus c = { .bytes = text, .count = 14, .train_count = 10, .starts = starts, .documents = 4 };
    struct baselines b = corpus_baselines(&c, 1);
    /* Scored are b, a of "aba": 4 of b and 5 of a in 10, b behind 3 of 4 a, a behind each of 4 b. */
    double unigram = -log((4 + 0.1) / (10 + 25.6)) - log((5 + 0.1) / (10 + 25.6));
    double bigram = -log((3 + 0.1) / (4 + 25.6)) - log((4 + 0.1) / (4 + 25.6));

    check_close(b.unigram, unigram / 2, 1e-12, "unigram", 0);
    check_close(b.bigram, bigram / 2, 1e-12, "bigram", 0);
    starts[3] = 11;
    c.count = 12;
    assert_true(isnan(corpus_baselines(&c, 1).unigram));
    assert_false(isnan(corpus_baselines(&c, 0).unigram));
}

static void baselines_agree_with_counting_by_hand(void **state)
{
    unsigned char text[] = "ababababacabab"; /* trained on "ababababacab", held out "ab" */
    struct corpus c = { .bytes = text, .count = 14, .train_count = 12 };
    struct baselines b = corpus_baselines(&c, 0);
    /* b: 5 of 12 bytes; a is followed 6 times, by b in 5 of them. */
    double unigram = -log((5 + 0.1) / (12 + 25.6)), bigram = -log((5 + 0.1) / (6 + 25.6));

    check_close(b.unigram, unigram, 1e-12, "unigram", 0);
    check_close(b.bigram, bigram, 1e-12, "bigram", 0);
}

static void hash_sees_every_byte(void **state)
{
    unsigned char data[37];
    uint64_t whole;

    memset(data, 7, sizeof(data));
    whole = hash_bytes(HASH_START, data, sizeof(data));
    assert_true(whole != hash_bytes(HASH_START, data, sizeof(data) - 1));
    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] ^= 0x80;
        assert_true(whole != hash_bytes(HASH_START, data, sizeof(data)));
        data[i] ^= 0x80;
    }
    assert_true(whole == hash_bytes(HASH_START, data, sizeof(data)));
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_make, folder_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(missing_empty_and_short_texts_are_named),
        IN_FOLDER(unreadable_and_binary_texts_are_named),
        IN_FOLDER(folder_of_nothing_is_empty),
        IN_FOLDER(folders_are_read_by_name_and_deep),
        IN_FOLDER(paths_are_joined_in_order),
        IN_FOLDER(gzip_files_are_unpacked),
        cmocka_unit_test(offsets_stay_inside_the_training_part),
        cmocka_unit_test(windows_lie_apart_in_the_held_out_part),
        IN_FOLDER(files_with_bytes_are_documents),
        IN_FOLDER(many_files_are_many_documents),
        cmocka_unit_test(windows_know_their_documents),
        cmocka_unit_test(prompt_lies_in_one_held_out_document),
        cmocka_unit_test(text_is_named_by_bytes_and_documents),
        cmocka_unit_test(baselines_stay_within_documents),
        cmocka_unit_test(baselines_agree_with_counting_by_hand),
        cmocka_unit_test(hash_sees_every_byte),
    };

    return cmocka_run_group_tests_name("train data", tests, NULL, NULL);
}
