/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the text: files, folders, and gzip files by way of gzip itself. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "data.h"

enum { CHUNK_BYTES = 1 << 16, PROBE_BYTES = 8192 };

static int reserve(struct corpus *c, size_t more, struct problem *problem)
{
    size_t capacity = c->capacity ? c->capacity : CHUNK_BYTES;
    unsigned char *bytes;

    if (c->capacity - c->count >= more)
        return 0;
    while (capacity - c->count < more)
        capacity *= 2;
    bytes = realloc(c->bytes, capacity);
    if (!bytes)
        return problem_set(problem, EXIT_FAILED, "out of memory: text of %zu bytes", capacity);
    c->bytes = bytes;
    c->capacity = capacity;
    return 0;
}

/* What was appended after `before` is a document, if it is anything. */
static int mark_document(struct corpus *c, size_t before, const char *path, struct problem *problem)
{
    if (c->count == before)
        return 0;
    if (c->documents == c->starts_room) {
        size_t room = c->starts_room ? 2 * c->starts_room : 64;
        size_t *starts = realloc(c->starts, room * sizeof(*starts));

        if (!starts)
            return problem_set(problem, EXIT_FAILED, "out of memory: text %s, the %zuth", path,
                               c->documents + 1);
        c->starts = starts;
        c->starts_room = room;
    }
    c->starts[c->documents++] = before;
    return 0;
}

/* Appends all that fd still gives. */
static int append(struct corpus *c, int fd, const char *path, struct problem *problem)
{
    for (;;) {
        ssize_t got;

        if (reserve(c, CHUNK_BYTES, problem))
            return -1;
        got = read(fd, c->bytes + c->count, CHUNK_BYTES);
        if (got == 0)
            return 0;
        if (got > 0)
            c->count += (size_t)got;
        else if (errno != EINTR)
            return problem_set(problem, EXIT_FAILED, "text %s: %s", path, strerror(errno));
    }
}

static int wait_for_gzip(pid_t child, const char *path, struct problem *problem)
{
    int state;

    while (waitpid(child, &state, 0) < 0)
        if (errno != EINTR)
            return problem_set(problem, EXIT_FAILED, "gzip for %s: %s", path, strerror(errno));
    if (WIFEXITED(state) && WEXITSTATUS(state) == 0)
        return 0;
    if (WIFEXITED(state) && WEXITSTATUS(state) == 127)
        return problem_set(problem, EXIT_FAILED, "text %s: cannot run gzip", path);
    return problem_set(problem, EXIT_FAILED, "text %s: gzip -dc cannot unpack it (status %d)", path,
                       WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state));
}

/* In the child: fd, at the file's beginning, is the standard input of gzip, so that no name is ever
 * parsed.  gzip's own words are left out: every rank would say them. */
static void become_gzip(int fd, int out)
{
    int silence = open("/dev/null", O_WRONLY);

    if (silence >= 0 && dup2(silence, STDERR_FILENO) >= 0 && dup2(fd, STDIN_FILENO) >= 0 &&
        dup2(out, STDOUT_FILENO) >= 0)
        execlp("gzip", "gzip", "-dcq", (char *)NULL);
    _exit(127);
}

static int append_unpacked(struct corpus *c, int fd, const char *path, struct problem *problem)
{
    int ends[2], err;
    pid_t child;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return problem_set(problem, EXIT_FAILED, "pipe for %s: %s", path, strerror(errno));
    child = fork();
    if (child == 0)
        become_gzip(fd, ends[1]);
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        return problem_set(problem, EXIT_FAILED, "fork for %s: %s", path, strerror(errno));
    }
    err = append(c, ends[0], path, problem);
    close(ends[0]);
    return wait_for_gzip(child, path, problem) || err ? -1 : 0;
}

/* Takes back what was appended after `before`. */
static int skip_binary(struct corpus *c, size_t before, const char *path, int named,
                       struct problem *problem)
{
    c->count = before;
    if (named)
        return problem_set(problem, EXIT_FAILED, "text %s is binary (it has a NUL byte)", path);
    c->skipped++;
    return 0;
}

/* named: the caller asked for this very file, so that being binary is an error. */
static int read_open_file(struct corpus *c, int fd, const char *path, int named,
                          struct problem *problem)
{
    unsigned char probe[PROBE_BYTES];
    ssize_t got = pread(fd, probe, sizeof(probe), 0);
    size_t before = c->count;
    int err;

    if (got < 0)
        return problem_set(problem, EXIT_FAILED, "text %s: %s", path, strerror(errno));
    if (got > 2 && probe[0] == 0x1f && probe[1] == 0x8b)
        err = append_unpacked(c, fd, path, problem);
    else if (memchr(probe, 0, (size_t)got))
        return skip_binary(c, before, path, named, problem);
    else
        err = append(c, fd, path, problem);
    if (err)
        return err;
    got = (ssize_t)(c->count - before < PROBE_BYTES ? c->count - before : PROBE_BYTES);
    if (got > 0 && memchr(c->bytes + before, 0, (size_t)got)) /* what was packed is binary */
        return skip_binary(c, before, path, named, problem);
    c->files++;
    return mark_document(c, before, path, problem);
}

static int read_file(struct corpus *c, const char *path, int named, struct problem *problem)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int err;

    if (fd < 0)
        return problem_set(problem, EXIT_FAILED, "text %s: %s", path, strerror(errno));
    err = read_open_file(c, fd, path, named, problem);
    close(fd);
    return err;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int not_hidden(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int read_folder(struct corpus *c, const char *path, struct problem *problem);

/* Something met in a folder. */
static int read_entry(struct corpus *c, const char *folder, const char *name,
                      struct problem *problem)
{
    struct stat entry, target;
    char *path;
    int err = 0;

    if (asprintf(&path, "%s/%s", folder, name) < 0)
        return problem_set(problem, EXIT_FAILED, "out of memory: path in %s", folder);
    if (lstat(path, &entry) != 0 || stat(path, &target) != 0)
        c->skipped++; /* a link to nowhere, or gone since */
    else if (S_ISDIR(entry.st_mode))
        err = read_folder(c, path, problem);
    else if (S_ISREG(target.st_mode))
        err = read_file(c, path, 0, problem);
    else
        c->skipped++;
    free(path);
    return err;
}

static int read_folder(struct corpus *c, const char *path, struct problem *problem)
{
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, not_hidden, by_name);
    int err = 0;

    if (count < 0)
        return problem_set(problem, EXIT_FAILED, "text folder %s: %s", path, strerror(errno));
    for (int i = 0; i < count; i++) {
        if (!err)
            err = read_entry(c, path, entries[i]->d_name, problem);
        free(entries[i]);
    }
    free(entries);
    return err;
}

static int read_path(struct corpus *c, const char *path, struct problem *problem)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return problem_set(problem, EXIT_FAILED, "text %s: %s%s", path, strerror(errno),
                           strcmp(path, DATA_DEFAULT_TEXT) == 0
                               ? " (install jargon-text, or name text files)"
                               : "");
    if (S_ISDIR(st.st_mode))
        return read_folder(c, path, problem);
    if (!S_ISREG(st.st_mode))
        return problem_set(problem, EXIT_FAILED, "text %s is neither a file nor a folder", path);
    return read_file(c, path, 1, problem);
}

static int read_all(struct corpus *c, char *const *paths, int path_count, struct problem *problem)
{
    if (path_count == 0)
        return read_path(c, DATA_DEFAULT_TEXT, problem);
    for (int i = 0; i < path_count; i++)
        if (read_path(c, paths[i], problem))
            return -1;
    return 0;
}

int corpus_read(struct corpus *c, char *const *paths, int path_count, int64_t tokens,
                struct problem *problem)
{
    const char *first = path_count ? paths[0] : DATA_DEFAULT_TEXT;
    const char *more = path_count > 1 ? " and others" : "";
    size_t held_out;

    memset(c, 0, sizeof(*c));
    if (read_all(c, paths, path_count, problem))
        return -1;
    if (c->count == 0)
        return problem_set(problem, EXIT_FAILED, "text %s%s is empty (%d files, %d skipped)", first,
                           more, c->files, c->skipped);
    held_out = c->count / 10;
    c->train_count = c->count - held_out;
    if (held_out < (size_t)tokens)
        return problem_set(problem, EXIT_FAILED,
                           "text %s%s has %zu bytes: its held-out tenth is shorter than "
                           "--tokens %lld",
                           first, more, c->count, (long long)tokens);
    return 0;
}

void corpus_release(struct corpus *c)
{
    free(c->bytes);
    free(c->starts);
    memset(c, 0, sizeof(*c));
}
