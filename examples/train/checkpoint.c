/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data.h"

enum { CHECKPOINT_VERSION = 2, GRADIENTS_VERSION = 1 };

/* As it lies in the file, in this machine's byte order: a file of the other order has a version that
 * nobody knows. */
struct file_header {
    char magic[8];
    uint32_t version;
    uint32_t header_bytes;
    struct model_sizes sizes;
    uint32_t reserved; /* zero */
    uint64_t count;    /* floats of each of the three arenas that follow: weights, m, v */
    struct progress progress;
    uint64_t checksum; /* of the header up to here, then of the arenas */
};

struct gradients_header {
    char magic[8];
    uint32_t version;
    uint32_t header_bytes;
    uint64_t count;
    double loss;
};

static const char checkpoint_magic[8] = { 'R', 'O', 'N', 'D', 'O', 'C', 'K', 'P' };
static const char gradients_magic[8] = { 'R', 'O', 'N', 'D', 'O', 'G', 'R', 'D' };

/* One run of bytes to be written. */
struct span {
    const void *data;
    size_t bytes;
};

static int write_all(int fd, struct span span)
{
    const char *p = span.data;

    while (span.bytes > 0) {
        ssize_t put = write(fd, p, span.bytes);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -1;
        p += put;
        span.bytes -= (size_t)put;
    }
    return 0;
}

/* So that the new name, too, is on the disk.  A file system that cannot do it has done its best. */
static void flush_folder(const char *path)
{
    char *copy = strdup(path);
    int fd;

    if (!copy)
        return;
    fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(copy);
}

static int write_and_close(int fd, const struct span *spans, int count)
{
    int err = 0, saved;

    for (int i = 0; i < count && !err; i++)
        err = write_all(fd, spans[i]);
    if (!err)
        err = fsync(fd);
    saved = errno;
    if (close(fd) != 0 && !err)
        return -1;
    errno = saved;
    return err;
}

static int replace_file(const char *path, const struct span *spans, int count,
                        struct problem *problem)
{
    char *temporary;
    int fd, err;

    if (asprintf(&temporary, "%s.tmp", path) < 0)
        return problem_set(problem, EXIT_FAILED, "out of memory: saving %s", path);
    fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    err = fd < 0 ? -1 : write_and_close(fd, spans, count);
    if (!err)
        err = rename(temporary, path);
    if (err) {
        problem_set(problem, EXIT_FAILED, "cannot save %s: %s", path, strerror(errno));
        if (fd >= 0)
            unlink(temporary);
    } else {
        flush_folder(path);
    }
    free(temporary);
    return err ? -1 : 0;
}

int checkpoint_probe(const char *path, struct problem *problem)
{
    char *temporary;
    struct stat st;
    int fd, err;

    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return problem_set(problem, EXIT_FAILED, "cannot save %s: it is not a file", path);
    if (asprintf(&temporary, "%s.tmp", path) < 0)
        return problem_set(problem, EXIT_FAILED, "out of memory: saving %s", path);
    fd = open(temporary, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    err = fd < 0 ? errno : 0;
    if (fd >= 0) {
        close(fd);
        unlink(temporary);
    }
    free(temporary);
    return err ? problem_set(problem, EXIT_FAILED, "cannot save %s: %s", path, strerror(err)) : 0;
}

static uint64_t checksum(const struct file_header *header, const float *const *arenas)
{
    uint64_t hash = hash_bytes(HASH_START, header, offsetof(struct file_header, checksum));

    for (int i = 0; i < 3; i++)
        hash = hash_bytes(hash, arenas[i], (size_t)header->count * sizeof(float));
    return hash;
}

int checkpoint_save(const char *path, const struct checkpoint *c, struct problem *problem)
{
    const float *arenas[3] = { c->weights->arena, c->m->arena, c->v->arena };
    size_t arena_bytes = c->weights->count * sizeof(float);
    struct file_header header;
    const struct span spans[] = {
        { &header, sizeof(header) },
        { arenas[0], arena_bytes },
        { arenas[1], arena_bytes },
        { arenas[2], arena_bytes },
    };

    memset(&header, 0, sizeof(header));
    memcpy(header.magic, checkpoint_magic, sizeof(header.magic));
    header.version = CHECKPOINT_VERSION;
    header.header_bytes = sizeof(header);
    header.sizes = *c->sizes;
    header.count = c->weights->count;
    header.progress = *c->progress;
    header.checksum = checksum(&header, arenas);
    return replace_file(path, spans, 4, problem);
}

int gradients_save(const char *path, const struct weights *g, double loss,
                   struct problem *problem)
{
    struct gradients_header header;
    const struct span spans[] = {
        { &header, sizeof(header) },
        { g->arena, g->count * sizeof(float) },
    };

    memset(&header, 0, sizeof(header));
    memcpy(header.magic, gradients_magic, sizeof(header.magic));
    header.version = GRADIENTS_VERSION;
    header.header_bytes = sizeof(header);
    header.count = g->count;
    header.loss = loss;
    return replace_file(path, spans, 2, problem);
}

/* Names the first size in which the file's model is not ours. */
static int compare_sizes(const char *path, const struct model_sizes *file,
                         const struct model_sizes *ours, struct problem *problem)
{
    const struct {
        const char *name;
        int file, ours;
    } rows[] = {
        { "layers", file->layers, ours->layers },
        { "dim", file->dim, ours->dim },
        { "q-heads", file->q_heads, ours->q_heads },
        { "kv-heads", file->kv_heads, ours->kv_heads },
        { "head-dim", file->head_dim, ours->head_dim },
        { "hidden", file->hidden, ours->hidden },
        { "vocabulary", file->vocab, ours->vocab },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].file != rows[i].ours)
            return problem_set(problem, EXIT_FAILED,
                               "checkpoint %s is of another model: its %s is %d, here it is %d",
                               path, rows[i].name, rows[i].file, rows[i].ours);
    return 0;
}

static int check_header(const char *path, const struct file_header *h, size_t file_bytes,
                        const struct checkpoint *c, struct problem *problem)
{
    uint64_t whole = sizeof(*h) + 3 * (uint64_t)c->weights->count * sizeof(float);

    if (memcmp(h->magic, checkpoint_magic, sizeof(h->magic)) != 0)
        return problem_set(problem, EXIT_FAILED, "%s is not a checkpoint of this program", path);
    if (h->version != CHECKPOINT_VERSION || h->header_bytes != sizeof(*h))
        return problem_set(problem, EXIT_FAILED,
                           "checkpoint %s has version %u with a header of %u bytes, this program "
                           "reads version %d with %zu",
                           path, h->version, h->header_bytes, CHECKPOINT_VERSION, sizeof(*h));
    if (compare_sizes(path, &h->sizes, c->sizes, problem))
        return -1;
    if (h->count != c->weights->count)
        return problem_set(problem, EXIT_FAILED,
                           "checkpoint %s has %llu parameters, this model %zu", path,
                           (unsigned long long)h->count, c->weights->count);
    if (file_bytes != whole)
        return problem_set(problem, EXIT_FAILED,
                           "checkpoint %s has %zu bytes, %llu were saved: it is not whole", path,
                           file_bytes, (unsigned long long)whole);
    return 0;
}

/* The whole file in memory, or NULL with the problem set; free it. */
static char *read_whole(const char *path, size_t *bytes, struct problem *problem)
{
    FILE *file = fopen(path, "rbe");
    struct stat st;
    char *data = NULL;

    if (!file || fstat(fileno(file), &st) != 0) {
        problem_set(problem, EXIT_FAILED, "checkpoint %s: %s", path, strerror(errno));
    } else if (!S_ISREG(st.st_mode)) {
        problem_set(problem, EXIT_FAILED, "checkpoint %s is not a file", path);
    } else if (!(data = malloc((size_t)st.st_size + 1))) {
        problem_set(problem, EXIT_FAILED, "out of memory: checkpoint %s of %lld bytes", path,
                    (long long)st.st_size);
    } else {
        *bytes = fread(data, 1, (size_t)st.st_size, file);
    }
    if (file)
        fclose(file);
    return data;
}

static int take(const char *path, const char *data, size_t bytes, const struct checkpoint *c,
                struct problem *problem)
{
    struct file_header header;
    const float *arenas[3];
    float *const into[3] = { c->weights->arena, c->m->arena, c->v->arena };
    uint64_t found;

    if (bytes < sizeof(header))
        return problem_set(problem, EXIT_FAILED,
                           "checkpoint %s has %zu bytes, its header alone has %zu: it is not whole",
                           path, bytes, sizeof(header));
    memcpy(&header, data, sizeof(header));
    if (check_header(path, &header, bytes, c, problem))
        return -1;
    for (int i = 0; i < 3; i++)
        arenas[i] = (const float *)(const void *)(data + sizeof(header)) +
                    (size_t)i * c->weights->count;
    found = checksum(&header, arenas);
    if (found != header.checksum)
        return problem_set(problem, EXIT_FAILED,
                           "checkpoint %s has checksum %016llx, its content gives %016llx", path,
                           (unsigned long long)header.checksum, (unsigned long long)found);
    for (int i = 0; i < 3; i++)
        memcpy(into[i], arenas[i], c->weights->count * sizeof(float));
    *c->progress = header.progress;
    return 0;
}

int checkpoint_load(const char *path, const struct checkpoint *c, struct problem *problem)
{
    size_t bytes = 0;
    char *data = read_whole(path, &bytes, problem);
    int err;

    if (!data)
        return -1;
    err = take(path, data, bytes, c, problem);
    free(data);
    return err;
}
