/* SPDX-License-Identifier: Apache-2.0 */
/* Read with system calls alone, so that looking takes no memory. */
#include "tests/soak/sample.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_alone;

const char *const sample_exact_names[SAMPLE_EXACT] = { "descriptors", "threads", "mappings of shared memory",
                                                       "KiB of shared memory", "KiB pinned",
                                                       "names in /dev/shm" };

long sample_exact(const struct sample *sample, int i)
{
    const long values[SAMPLE_EXACT] = { sample->fds, sample->threads, sample->shared_maps, sample->shm_kib,
                                        sample->pinned_kib, is_alone ? sample->dev_shm : 0 };

    return values[i];
}

int sample_alone(void)
{
    is_alone = unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
               mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777") == 0;
    return is_alone;
}

static int open_or_exit(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        perror(path);
        exit(1);
    }
    return fd;
}

/* The number behind `name` in a file of lines. */
static long number_of(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    return at ? strtol(at + strlen(name), NULL, 10) : 0;
}

static void read_text(const char *path, char *text, size_t text_bytes)
{
    int fd = open_or_exit(path);
    size_t used = 0;
    ssize_t n;

    while (used + 1 < text_bytes && (n = read(fd, text + used, text_bytes - 1 - used)) > 0)
        used += (size_t)n;
    text[used] = 0;
    close(fd);
}

static int is_shared_memory(const char *name)
{
    return strstr(name, "/memfd:") || strstr(name, "/dev/shm/") || strstr(name, "/SYSV");
}

/* One line of maps, without its end, which may be cut off. */
static void count_map(struct sample *sample, const char *line)
{
    sample->maps++;
    sample->shared_maps += is_shared_memory(line) != 0;
}

static void count_maps(struct sample *sample)
{
    int fd = open_or_exit("/proc/self/maps");
    char text[4096], line[512];
    size_t used = 0;
    ssize_t n;

    while ((n = read(fd, text, sizeof(text))) > 0)
        for (ssize_t i = 0; i < n; i++) {
            if (text[i] != '\n') {
                line[used] = text[i];
                used += used + 1 < sizeof(line);
                continue;
            }
            line[used] = 0;
            used = 0;
            count_map(sample, line);
        }
    close(fd);
}

/* The directory itself is one of them, and is not counted. */
static void count_fds(struct sample *sample)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    struct stat file;
    char name[512];
    ssize_t n;

    for (sample->fds = -1; dir && (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        sample->fds++;
        n = readlinkat(dirfd(dir), entry->d_name, name, sizeof(name) - 1);
        name[n < 0 ? 0 : n] = 0;
        if (is_shared_memory(name) && fstat(atoi(entry->d_name), &file) == 0)
            sample->shm_kib += (long)file.st_blocks / 2;
    }
    if (dir)
        closedir(dir);
}

static void count_names(struct sample *sample)
{
    DIR *dir = opendir("/dev/shm");
    struct dirent *entry;

    while (dir && (entry = readdir(dir)))
        sample->dev_shm += entry->d_name[0] != '.';
    if (dir)
        closedir(dir);
}

void sample_take(struct sample *sample)
{
    char text[4096];

    *sample = (struct sample){ 0 };
    count_names(sample);
    count_fds(sample);
    count_maps(sample);
    read_text("/proc/self/status", text, sizeof(text));
    sample->threads = number_of(text, "\nThreads:");
    sample->pinned_kib = number_of(text, "\nVmLck:") + number_of(text, "\nVmPin:");
    read_text("/proc/self/smaps_rollup", text, sizeof(text)); /* exact, where status is about */
    sample->rss_kib = number_of(text, "\nRss:");
    sample->pss_kib = number_of(text, "\nPss:");
    sample->anon_kib = number_of(text, "\nAnonymous:");
}
