/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "topo/records.h"
#include "topo/source.h"

/* What has been read once is not read again, so that all askers see one state of the machine, and a replay
 * answers as the machine did. */
struct ri_source {
    char *root;  /* "", or an absolute or relative folder without a slash at its end; NULL: a recording */
    struct ri_records records;
    int is_kept;
};

/* Larger than any file of /sys and /proc that is of use here. */
enum { MOST_FILE_BYTES = 1 << 20, MOST_NAMES = 1 << 16, MOST_LINKS = 40 };

static struct ri_source *create(const char *root)
{
    struct ri_source *source = calloc(1, sizeof(*source));

    if (!source)
        return NULL;
    ri_records_init(&source->records);
    if (root && !(source->root = strdup(root))) {
        free(source);
        return NULL;
    }
    return source;
}

struct ri_source *ri_source_open(const char *root)
{
    struct ri_source *source = create(root);

    if (!source)
        return NULL;
    for (size_t n = strlen(source->root); n > 0 && source->root[n - 1] == '/'; n--)
        source->root[n - 1] = 0;
    return source;
}

int ri_source_replay(const char *text, size_t bytes, struct ri_source **source_p)
{
    struct ri_source *source = create(NULL);
    int err;

    if (!source)
        return ri_error(RONDO_ERR_MEMORY, "no memory for a recording");
    err = ri_records_parse(&source->records, text, bytes);
    if (err) {
        ri_source_close(source);
        return err;
    }
    *source_p = source;
    return 0;
}

void ri_source_close(struct ri_source *source)
{
    if (!source)
        return;
    ri_records_release(&source->records);
    free(source->root);
    free(source);
}

void ri_source_keep(struct ri_source *source)
{
    source->is_kept = 1;
}

int ri_source_is_kept(const struct ri_source *source)
{
    return source->is_kept;
}

int ri_source_is_live(const struct ri_source *source)
{
    return source->root && !*source->root;
}

const char *ri_source_root(const struct ri_source *source)
{
    return source->root;
}

/* ---- paths below a root ---- */

struct walk {
    char done[PATH_MAX]; /* below the root, without links: "" or "/sys/class" */
    char rest[PATH_MAX]; /* still to go */
    int links;           /* that may still be followed */
};

/* root and path in one; 0 or -ENAMETOOLONG. */
static int join(char out[PATH_MAX], const char *root, const char *path)
{
    return snprintf(out, PATH_MAX, "%s%s", root, path) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* A link that begins with a slash starts again at the root, not at the "/" of this machine. */
static int follow(struct walk *walk, const char *target)
{
    char rest[PATH_MAX];

    if (walk->links-- == 0)
        return -ELOOP;
    if (snprintf(rest, sizeof(rest), "%s/%s", target, walk->rest) >= (int)sizeof(rest))
        return -ENAMETOOLONG;
    if (target[0] == '/')
        walk->done[0] = 0;
    strcpy(walk->rest, rest);
    return 0;
}

static void go_up(struct walk *walk)
{
    char *slash = strrchr(walk->done, '/');

    if (slash)
        *slash = 0;
}

/* Goes into one name of done: appends it, or follows it where it is a link. */
static int enter(struct walk *walk, const char *root, const char *name, size_t length)
{
    char full[PATH_MAX], target[PATH_MAX];
    size_t had = strlen(walk->done);
    ssize_t bytes;
    int err;

    if (had + 1 + length >= PATH_MAX)
        return -ENAMETOOLONG;
    snprintf(walk->done + had, PATH_MAX - had, "/%.*s", (int)length, name);
    err = join(full, root, walk->done);
    if (err)
        return err;
    bytes = readlink(full, target, sizeof(target) - 1);
    if (bytes < 0)
        return errno == EINVAL ? 0 : -errno;
    target[bytes] = 0;
    walk->done[had] = 0;
    return follow(walk, target);
}

/* Where a path leads below a root, with no link in it. */
static int resolve(const char *root, const char *path, char out[PATH_MAX])
{
    struct walk walk = { "", "", MOST_LINKS };
    int err = join(walk.rest, "", path);

    while (!err) {
        char name[NAME_MAX + 1];
        size_t skip = strspn(walk.rest, "/"), length = strcspn(walk.rest + skip, "/");

        if (length == 0)
            break;
        if (length > NAME_MAX)
            return -ENAMETOOLONG;
        snprintf(name, sizeof(name), "%.*s", (int)length, walk.rest + skip);
        memmove(walk.rest, walk.rest + skip + length, strlen(walk.rest + skip + length) + 1);
        if (strcmp(name, "..") == 0)
            go_up(&walk);
        else if (strcmp(name, ".") != 0)
            err = enter(&walk, root, name, length);
    }
    if (!err)
        strcpy(out, *walk.done ? walk.done : "/");
    return err;
}

/* The name by which this machine opens a path. */
static int locate(const struct ri_source *source, const char *path, char full[PATH_MAX])
{
    char inside[PATH_MAX];
    int err;

    if (!*source->root)
        return join(full, "", path);
    err = resolve(source->root, path, inside);
    return err ? err : join(full, source->root, inside);
}

/* ---- reading ---- */

/* All that a descriptor gives, malloc'd. */
static int read_all(int fd, char **value, size_t *bytes)
{
    size_t room = 4096, used = 0;
    char *text = malloc(room);

    while (text) {
        ssize_t count = read(fd, text + used, room - used);

        if (count < 0) {
            int err = -errno;

            if (err == -EINTR)
                continue;
            free(text);
            return err;
        }
        used += (size_t)count;
        if (count == 0 || used == MOST_FILE_BYTES) {
            *value = text;
            *bytes = used;
            return 0;
        }
        if (used == room) {
            char *more = realloc(text, room *= 2);

            if (!more)
                free(text);
            text = more;
        }
    }
    return -ENOMEM;
}

/* Pipes and devices are not opened for long: they might block, and say nothing twice. */
static int read_file(const struct ri_source *source, const char *path, char **value, size_t *bytes)
{
    char full[PATH_MAX];
    struct stat info;
    int err = locate(source, path, full), fd;

    if (err)
        return err;
    fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &info))
        err = -errno;
    else if (!S_ISREG(info.st_mode))
        err = S_ISDIR(info.st_mode) ? -EISDIR : -EINVAL;
    else
        err = read_all(fd, value, bytes);
    close(fd);
    return err;
}

static int read_link(const struct ri_source *source, const char *path, char **value, size_t *bytes)
{
    char target[PATH_MAX];
    int err = 0;

    if (*source->root)
        err = resolve(source->root, path, target);
    else if (!realpath(path, target))
        err = -errno;
    if (err)
        return err;
    *value = strdup(target);
    *bytes = strlen(target);
    return *value ? 0 : -ENOMEM;
}

static int digits_of(const char *text)
{
    return (int)strspn(text, "0123456789");
}

/* By letters, and where both have digits by number: mlx5_2, mlx5_10.  Equal numbers: by bytes. */
static int compare_names(const void *left, const void *right)
{
    const char *first = *(char *const *)left, *second = *(char *const *)right;
    const char *a = first, *b = second;

    while (*a && *b) {
        int wide_a, wide_b, order;

        if (!isdigit((unsigned char)*a) || !isdigit((unsigned char)*b)) {
            if (*a != *b)
                return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
            a++, b++;
            continue;
        }
        a += strspn(a, "0");
        b += strspn(b, "0");
        wide_a = digits_of(a);
        wide_b = digits_of(b);
        order = wide_a == wide_b ? strncmp(a, b, (size_t)wide_a) : wide_a - wide_b;
        if (order)
            return order;
        a += wide_a;
        b += wide_b;
    }
    return *a || *b ? (*a ? 1 : -1) : strcmp(first, second);
}

/* Appends a copy of a name; a name that no list can hold is left out. */
static int keep_name(char ***names, size_t *count, const char *name)
{
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strchr(name, '\n') || *count == MOST_NAMES)
        return 0;
    if ((*count & (*count - 1)) == 0) {
        char **more = realloc(*names, (*count ? 2 * *count : 1) * sizeof(*more));

        if (!more)
            return -ENOMEM;
        *names = more;
    }
    (*names)[*count] = strdup(name);
    return (*names)[*count] ? (++*count, 0) : -ENOMEM;
}

/* One text of all names, which it frees; NULL: no memory. */
static char *join_names(char **names, size_t count, size_t *bytes)
{
    char *text, *at;

    *bytes = 0;
    for (size_t i = 0; i < count; i++)
        *bytes += strlen(names[i]) + 1;
    at = text = malloc(*bytes + 1);
    if (count)
        qsort(names, count, sizeof(*names), compare_names);
    for (size_t i = 0; i < count; i++) {
        if (text)
            at += sprintf(at, "%s\n", names[i]);
        free(names[i]);
    }
    free(names);
    return text;
}

static int read_list(const struct ri_source *source, const char *path, char **value, size_t *bytes)
{
    char full[PATH_MAX], **names = NULL;
    int err = locate(source, path, full);
    struct dirent *entry;
    size_t count = 0;
    DIR *folder;

    if (err)
        return err;
    folder = opendir(full);
    if (!folder)
        return -errno;
    while (!err && (entry = readdir(folder)))
        err = keep_name(&names, &count, entry->d_name);
    closedir(folder);
    *value = join_names(names, count, bytes);
    if (*value && !err)
        return 0;
    free(*value);
    return -ENOMEM;
}

/* ---- asking ---- */

static int (*const readers[])(const struct ri_source *source, const char *path, char **value, size_t *bytes) = {
    [RI_RECORD_TEXT] = read_file,
    [RI_RECORD_LINK] = read_link,
    [RI_RECORD_LIST] = read_list,
};

/* The record of a path, read now unless it was before; 0 or a negative errno. */
static int look(struct ri_source *source, enum ri_record_kind kind, const char *path,
                const struct ri_record **record)
{
    size_t bytes = 0;
    char *value = NULL;
    int err;

    *record = ri_records_find(&source->records, kind, path);
    if (*record)
        return -(*record)->error;
    if (!source->root)
        return -ENOENT;
    if (path[0] != '/')
        return -EINVAL;
    err = readers[kind](source, path, &value, &bytes);
    if (err == -ENOMEM)
        return err;
    *record = ri_records_put(&source->records, kind, path, -err, err ? "" : value, err ? 0 : bytes);
    if (!err)
        free(value);
    return *record ? err : -ENOMEM;
}

int ri_source_text(struct ri_source *source, const char *path, char *text, size_t bytes)
{
    const struct ri_record *record;
    int err = look(source, RI_RECORD_TEXT, path, &record);
    size_t length;

    if (err)
        return err;
    length = strlen(record->value);
    if (length && record->value[length - 1] == '\n')
        length--;
    if (length > bytes - 1)
        length = bytes - 1;
    memcpy(text, record->value, length);
    text[length] = 0;
    return 0;
}

long long ri_source_number(struct ri_source *source, const char *path, long long fallback)
{
    char text[64], *end;
    long long number;
    int base;

    if (ri_source_text(source, path, text, sizeof(text)))
        return fallback;
    base = strncmp(text, "0x", 2) == 0 ? 16 : 10;
    errno = 0;
    number = strtoll(text, &end, base);
    if (errno || end == text || end[strspn(end, " \t\n")])
        return fallback;
    return number;
}

int ri_source_link(struct ri_source *source, const char *path, char *target, size_t bytes)
{
    const struct ri_record *record;
    int err = look(source, RI_RECORD_LINK, path, &record);

    if (err)
        return err;
    return snprintf(target, bytes, "%s", record->value) < (int)bytes ? 0 : -ENAMETOOLONG;
}

char *ri_source_list(struct ri_source *source, const char *path)
{
    const struct ri_record *record;

    return look(source, RI_RECORD_LIST, path, &record) ? NULL : strdup(record->value);
}

void ri_source_note(struct ri_source *source, const char *name, const char *text)
{
    if (source->root)
        ri_records_put(&source->records, RI_RECORD_NOTE, name, 0, text, strlen(text));
}

char *ri_source_ask(struct ri_source *source, const char *name)
{
    const struct ri_record *record = ri_records_find(&source->records, RI_RECORD_NOTE, name);

    return record && !record->error ? strdup(record->value) : NULL;
}

char *ri_source_recording(const struct ri_source *source)
{
    return ri_records_print(&source->records);
}
