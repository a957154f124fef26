/* SPDX-License-Identifier: Apache-2.0 */
#include "folder.h"

#include <signal.h>
#include <sys/resource.h>

#include "examples/train/checkpoint.h"

static const struct model_sizes sizes = { 1, 4, 2, 1, 2, 3, 5 };

struct rig {
    struct model_sizes sizes;
    struct weights w, m, v;
    struct progress progress;
    struct checkpoint c;
};

/* Values that depend on seed, so that two rigs differ everywhere. */
static void rig_init(struct rig *r, uint64_t seed)
{
    memset(r, 0, sizeof(*r));
    r->sizes = sizes;
    assert_int_equal(weights_init(&r->w, &sizes), 0);
    assert_int_equal(weights_init(&r->m, &sizes), 0);
    assert_int_equal(weights_init(&r->v, &sizes), 0);
    weights_randomise(&r->w, &sizes, seed);
    weights_randomise(&r->m, &sizes, seed + 1);
    weights_randomise(&r->v, &sizes, seed + 2);
    r->progress = (struct progress){ (int64_t)seed, 1.5, seed, 99, 2048, 17, 1, 1 };
    r->c = (struct checkpoint){ &r->sizes, &r->progress, &r->w, &r->m, &r->v };
}

static void rig_release(struct rig *r)
{
    weights_release(&r->w);
    weights_release(&r->m);
    weights_release(&r->v);
}

static void assert_same(const struct rig *a, const struct rig *b)
{
    size_t bytes = a->w.count * sizeof(float);

    assert_memory_equal(a->w.arena, b->w.arena, bytes);
    assert_memory_equal(a->m.arena, b->m.arena, bytes);
    assert_memory_equal(a->v.arena, b->v.arena, bytes);
    assert_memory_equal(&a->progress, &b->progress, sizeof(a->progress));
}

static void saves(const char *path, struct rig *r)
{
    struct problem problem = { 0, "" };

    if (checkpoint_save(path, &r->c, &problem))
        fail_msg("%s", problem.text);
}

/* Loading is refused with a text that has both parts, and changes nothing. */
static void refuses(const char *path, struct rig *r, const char *first, const char *second)
{
    struct problem problem = { 0, "" };
    struct rig same;

    rig_init(&same, 50);
    assert_int_equal(checkpoint_load(path, &r->c, &problem), -1);
    assert_int_equal(problem.exit_code, EXIT_FAILED);
    check_says(problem.text, first);
    check_says(problem.text, second);
    assert_same(r, &same);
    rig_release(&same);
}

static void what_is_saved_is_loaded(void **state)
{
    char *path = folder_name(*state, "c");
    struct problem problem = { 0, "" };
    struct rig a, b;

    rig_init(&a, 10);
    rig_init(&b, 50);
    saves(path, &a);
    assert_int_equal(checkpoint_load(path, &b.c, &problem), 0);
    assert_same(&a, &b);
    assert_int_equal(access(folder_name(*state, "c.tmp"), F_OK), -1);
    rig_release(&a);
    rig_release(&b);
}

static void cut_short_is_refused_at_every_length(void **state)
{
    char *path = folder_name(*state, "c"), *data;
    struct rig a, b;
    size_t bytes;

    rig_init(&a, 10);
    rig_init(&b, 50);
    saves(path, &a);
    data = folder_read(path, &bytes);
    for (size_t length = 0; length < bytes; length += 13) {
        char said[32];

        snprintf(said, sizeof(said), "has %zu bytes", length);
        refuses(folder_write(*state, "cut", data, length), &b, said, "not whole");
    }
    refuses(folder_write(*state, "cut", data, bytes - 1), &b, "cut", "not whole");
    free(data);
    data = folder_read(path, &bytes);
    data = realloc(data, bytes + 1);
    data[bytes] = 0;
    refuses(folder_write(*state, "long", data, bytes + 1), &b, "long", "not whole");
    free(data);
    rig_release(&a);
    rig_release(&b);
}

static void any_changed_byte_is_refused(void **state)
{
    char *path = folder_name(*state, "c"), *data;
    struct problem problem;
    struct rig a, b;
    size_t bytes;

    rig_init(&a, 10);
    rig_init(&b, 50);
    saves(path, &a);
    data = folder_read(path, &bytes);
    for (size_t i = 0; i < bytes; i++) {
        problem.exit_code = 0;
        data[i] ^= 0x10;
        assert_int_equal(checkpoint_load(folder_write(*state, "bad", data, bytes), &b.c, &problem),
                         -1);
        data[i] ^= 0x10;
    }
    data[bytes - 1] ^= 0x10;
    refuses(folder_write(*state, "bad", data, bytes), &b, "bad", "checksum");
    free(data);
    rig_release(&a);
    rig_release(&b);
}

static void another_model_is_named(void **state)
{
    char *path = folder_name(*state, "c");
    struct rig a, b;

    rig_init(&a, 10);
    rig_init(&b, 50);
    saves(path, &a);
    b.sizes.hidden = 6;
    refuses(path, &b, "its hidden is 3", "here it is 6");
    b.sizes = sizes;
    b.sizes.q_heads = 8;
    refuses(path, &b, "its q-heads is 2", "here it is 8");
    rig_release(&a);
    rig_release(&b);
}

static void what_is_no_checkpoint_is_named(void **state)
{
    char text[400], *path;
    struct rig b;

    rig_init(&b, 50);
    memset(text, 'x', sizeof(text));
    path = folder_write(*state, "text", text, sizeof(text));
    refuses(path, &b, path, "not a checkpoint");
    path = folder_name(*state, "nowhere");
    refuses(path, &b, path, "No such file");
    refuses(((struct folder *)*state)->path, &b, "/tmp/", "not a file");
    rig_release(&b);
}

static void save_into_no_folder_is_refused(void **state)
{
    struct problem problem = { 0, "" };
    struct rig a;

    rig_init(&a, 10);
    assert_int_equal(checkpoint_save(folder_name(*state, "no/folder"), &a.c, &problem), -1);
    check_says(problem.text, "no/folder");
    check_says(problem.text, "No such file");
    rig_release(&a);
}

static void probing_finds_out_and_leaves_nothing(void **state)
{
    char *path = folder_name(*state, "c");
    struct problem problem = { 0, "" };

    assert_int_equal(checkpoint_probe(path, &problem), 0);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(access(folder_name(*state, "c.tmp"), F_OK), -1);
    assert_int_equal(checkpoint_probe(folder_name(*state, "no/folder"), &problem), -1);
    check_says(problem.text, "no/folder");
    problem.exit_code = 0;
    assert_int_equal(checkpoint_probe(((struct folder *)*state)->path, &problem), -1);
    check_says(problem.text, "not a file");
}

/* In a child: writing fails after 600 bytes, as on a full disk. */
static int save_on_full_disk(void *context)
{
    const struct rlimit limit = { 600, 600 };
    struct problem problem = { 0, "" };
    struct rig b;
    int err;

    rig_init(&b, 50);
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    err = checkpoint_save(context, &b.c, &problem);
    fprintf(stderr, "%s", problem.text);
    rig_release(&b);
    return err ? problem.exit_code : 0;
}

static void failed_save_keeps_the_old_one(void **state)
{
    char *path = folder_name(*state, "c");
    struct problem problem = { 0, "" };
    struct rig a, b;
    char text[512];

    rig_init(&a, 10);
    rig_init(&b, 50);
    saves(path, &a);
    assert_int_equal(test_in_child(save_on_full_disk, path, text, sizeof(text)), EXIT_FAILED);
    check_says(text, path);
    check_says(text, "File too large");
    assert_int_equal(checkpoint_load(path, &b.c, &problem), 0);
    assert_same(&a, &b);
    assert_int_equal(access(folder_name(*state, "c.tmp"), F_OK), -1);
    rig_release(&a);
    rig_release(&b);
}

static void saving_replaces_the_old_one(void **state)
{
    char *path = folder_name(*state, "c");
    struct problem problem = { 0, "" };
    struct rig a, b;

    rig_init(&a, 10);
    rig_init(&b, 50);
    saves(path, &b);
    saves(path, &a);
    assert_int_equal(checkpoint_load(path, &b.c, &problem), 0);
    assert_same(&a, &b);
    rig_release(&a);
    rig_release(&b);
}

static void gradients_follow_their_header(void **state)
{
    char *path = folder_name(*state, "g"), *data;
    struct problem problem = { 0, "" };
    struct rig a;
    uint32_t words[2];
    uint64_t count;
    double loss;
    size_t bytes;

    rig_init(&a, 10);
    assert_int_equal(gradients_save(path, &a.w, 2.5, &problem), 0);
    data = folder_read(path, &bytes);
    assert_int_equal(bytes, 32 + a.w.count * sizeof(float));
    assert_memory_equal(data, "RONDOGRD", 8);
    memcpy(words, data + 8, 8);
    memcpy(&count, data + 16, 8);
    memcpy(&loss, data + 24, 8);
    assert_true(words[0] == 1 && words[1] == 32 && count == a.w.count && loss == 2.5);
    assert_memory_equal(data + 32, a.w.arena, a.w.count * sizeof(float));
    free(data);
    rig_release(&a);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_make, folder_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(what_is_saved_is_loaded),
        IN_FOLDER(cut_short_is_refused_at_every_length),
        IN_FOLDER(any_changed_byte_is_refused),
        IN_FOLDER(another_model_is_named),
        IN_FOLDER(what_is_no_checkpoint_is_named),
        IN_FOLDER(save_into_no_folder_is_refused),
        IN_FOLDER(probing_finds_out_and_leaves_nothing),
        IN_FOLDER(failed_save_keeps_the_old_one),
        IN_FOLDER(saving_replaces_the_old_one),
        IN_FOLDER(gradients_follow_their_header),
    };

    return cmocka_run_group_tests_name("train checkpoint", tests, NULL, NULL);
}
