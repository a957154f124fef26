/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of its own for each test that writes files. */
#ifndef TRAIN_FOLDER_H
#define TRAIN_FOLDER_H

#include "check.h"

#include <ftw.h>
#include <sys/stat.h>

enum { FOLDER_NAMES = 16 };

struct folder {
    char path[64];
    char *names[FOLDER_NAMES]; /* paths of the names that folder_name was asked for */
};

static inline int folder_make(void **state)
{
    struct folder *f = calloc(1, sizeof(*f));

    strcpy(f->path, "/tmp/rondo-train-XXXXXX");
    assert_non_null(mkdtemp(f->path));
    *state = f;
    return 0;
}

static inline int folder_unlink(const char *path, const struct stat *st, int type, struct FTW *at)
{
    return remove(path);
}

static inline int folder_remove(void **state)
{
    struct folder *f = *state;

    nftw(f->path, folder_unlink, 8, FTW_DEPTH | FTW_PHYS);
    for (int i = 0; i < FOLDER_NAMES; i++)
        free(f->names[i]);
    free(f);
    return 0;
}

/* The path of a name in the folder; the folder's own. */
static inline char *folder_name(struct folder *f, const char *name)
{
    char *path;

    assert_true(asprintf(&path, "%s/%s", f->path, name) > 0);
    for (int i = 0; i < FOLDER_NAMES; i++) {
        if (f->names[i] && strcmp(f->names[i], path) == 0) {
            free(path);
            return f->names[i];
        }
        if (!f->names[i])
            return f->names[i] = path;
    }
    free(path);
    fail_msg("more than %d names in one folder", FOLDER_NAMES);
    return NULL;
}

static inline char *folder_write(struct folder *f, const char *name, const void *data,
                                 size_t bytes)
{
    char *path = folder_name(f, name);
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    return path;
}

/* The whole file; free it. */
static inline char *folder_read(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    struct stat st;
    char *data;

    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &st), 0);
    data = calloc(1, (size_t)st.st_size + 1);
    *bytes = fread(data, 1, (size_t)st.st_size, file);
    assert_int_equal(*bytes, st.st_size);
    fclose(file);
    return data;
}

static inline void check_says(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" does not say \"%s\"", text, part);
}

#endif
