/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of a rank: one sparse file, whose pages are there when alloc has given them and go back
 * when they are freed. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/analyzer.h"
#include "base/log.h"
#include "base/status.h"
#include "transport/shm_private.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static const uint64_t least_bytes = (uint64_t)64 << 20;
static const uint64_t host_bytes = (uint64_t)32 << 40; /* address space, when all ranks are threads */

static uint64_t page_up(uint64_t bytes)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

    return (bytes + page - 1) / page * page;
}

static size_t front_bytes(const struct ri_shm *self)
{
    return page_up(sizeof(struct ri_shm_front) + (size_t)self->locals * sizeof(struct ri_shm_pair));
}

/* What getrlimit has told. */
static uint64_t limit_of(int failed, const struct rlimit *limit)
{
    return failed || limit->rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit->rlim_cur;
}

/* Is there address space for so much? */
static int fits(uint64_t bytes)
{
    void *space = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (space == MAP_FAILED)
        return 0;
    munmap(space, bytes);
    return 1;
}

/* As large as the machine's memory, or four times this rank's share of it, when all ranks of the host can
 * be mapped with that, also where they are threads of one process and each maps all.  A process with a limit
 * on its address space keeps three quarters of it for other things, as far as that leaves the least. */
static int choose_bytes(const struct ri_shm *self, uint64_t *bytes)
{
    struct rlimit limit = { 0, 0 };
    uint64_t locals = (uint64_t)self->locals, maps = locals * locals;
    uint64_t space = limit_of(getrlimit(RLIMIT_AS, &limit), &limit);
    uint64_t file = limit_of(getrlimit(RLIMIT_FSIZE, &limit), &limit);
    uint64_t most = page_up((uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));

    if (locals > 4)
        most = most / locals * 4;
    if (space != UINT64_MAX && most > space / 4 / maps)
        most = space / 4 / maps;
    if (most > host_bytes / maps)
        most = host_bytes / maps;
    while (most > least_bytes && !fits(most * maps))
        most /= 2;
    if (most < least_bytes)
        most = least_bytes;
    if (!fits(most * locals))
        return ri_error(RONDO_ERR_MEMORY, "transport shm maps %d ranks of a host, at least %llu MB each, "
                        "and finds no address space for them: raise ulimit -v", self->locals,
                        (unsigned long long)(least_bytes >> 20));
    if (most > file)
        most = file;
    if (most < least_bytes)
        return ri_error(RONDO_ERR_MEMORY, "transport shm needs files of %llu MB, and ulimit -f allows %llu "
                        "KB: raise it", (unsigned long long)(least_bytes >> 20), (unsigned long long)(most >> 10));
    *bytes = most / least_bytes * least_bytes;
    return 0;
}

static int make_file(struct ri_shm *self)
{
    int memfd_errno;

    self->memory_fd = memfd_create("rondo", MFD_CLOEXEC);
    if (self->memory_fd >= 0)
        return 0;
    memfd_errno = errno;
    self->memory_fd = open("/dev/shm", O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
    if (self->memory_fd >= 0)
        return 0;
    if (errno == EMFILE || errno == ENFILE)
        return ri_error(RONDO_ERR_TRANSPORT, "transport shm gets no memory to share: %s", ri_errno_text(errno));
    return ri_error(RONDO_ERR_TRANSPORT, "transport shm gets no memory to share: memfd_create: %s, a file in "
                    "/dev/shm: %s", strerror(memfd_errno), strerror(errno));
}

/* Pages of the file that are there from now on: what is written to them finds memory. */
static int commit(struct ri_shm *self, size_t offset, size_t bytes)
{
    struct statvfs volume;
    uint64_t free_bytes, page = (uint64_t)sysconf(_SC_PAGESIZE);
    int failed;

    do
        failed = fallocate(self->memory_fd, 0, (off_t)offset, (off_t)bytes);
    while (failed && errno == EINTR);
    if (!failed)
        return 0;
    failed = errno;
    if (fstatvfs(self->memory_fd, &volume) == 0 && volume.f_blocks)
        free_bytes = (uint64_t)volume.f_bavail * volume.f_frsize;
    else
        free_bytes = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * page;
    return ri_error(RONDO_ERR_MEMORY, "transport shm needs %zu bytes of shared memory, and %llu are free: %s",
                    bytes, (unsigned long long)free_bytes, strerror(failed));
}

static struct ri_shm_block *block_of(size_t offset, size_t bytes)
{
    struct ri_shm_block *block = calloc(1, sizeof(*block));

    if (!block) {
        ri_error(RONDO_ERR_MEMORY, "no memory for a block of transport shm");
        return NULL;
    }
    block->offset = offset;
    block->bytes = bytes;
    return block;
}

static int make_front(struct ri_shm *self)
{
    struct ri_shm_peer *me = &self->peers[self->me];
    int err = commit(self, 0, front_bytes(self));

    if (err)
        return err;
    self->blocks = block_of(front_bytes(self), me->bytes - front_bytes(self));
    if (!self->blocks)
        return RONDO_ERR_MEMORY;
    me->front = self->front = (struct ri_shm_front *)(void *)me->base;
    if (getrandom(self->front->random, sizeof(self->front->random), 0) != sizeof(self->front->random))
        return ri_error(RONDO_ERR_TRANSPORT, "no random bytes: %m");
    self->front->layout = RI_SHM_LAYOUT;
    self->front->bytes = me->bytes;
    return 0;
}

int ri_shm_memory_open(struct ri_shm *self)
{
    struct ri_shm_peer *me = &self->peers[self->me];
    uint64_t bytes = 0;
    int err = choose_bytes(self, &bytes);

    if (!err)
        err = make_file(self);
    if (err)
        return err;
    if (ftruncate(self->memory_fd, (off_t)bytes))
        return ri_error(RONDO_ERR_MEMORY, "transport shm gets no file of %llu bytes: %m",
                        (unsigned long long)bytes);
    me->base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, self->memory_fd, 0);
    if (me->base == MAP_FAILED) {
        me->base = NULL;
        return ri_error(RONDO_ERR_MEMORY, "transport shm cannot map %llu bytes: "
                        "%m", (unsigned long long)bytes);
    }
    me->bytes = bytes;
    madvise(me->base, bytes, MADV_DONTFORK);
    return make_front(self);
}

void ri_shm_memory_close(struct ri_shm *self)
{
    while (self->blocks) {
        struct ri_shm_block *block = self->blocks;

        self->blocks = block->next;
        free(block);
    }
    for (int p = 0; self->peers && p < self->locals; p++)
        if (self->peers[p].base)
            munmap(self->peers[p].base, self->peers[p].bytes);
    if (self->memory_fd >= 0)
        close(self->memory_fd);
}

/* ---- blocks ---- */

/* Cuts off what is more than `bytes`. */
static int block_split(struct ri_shm_block *block, size_t bytes)
{
    struct ri_shm_block *rest;

    if (block->bytes == bytes)
        return 0;
    rest = block_of(block->offset + bytes, block->bytes - bytes);
    if (!rest)
        return RONDO_ERR_MEMORY;
    rest->previous = block;
    rest->next = block->next;
    if (rest->next)
        rest->next->previous = rest;
    block->next = rest;
    block->bytes = bytes;
    return 0;
}

/* The next block, which is not used, becomes part of this one, which is not either. */
static void block_join(struct ri_shm_block *block)
{
    struct ri_shm_block *next = block->next;

    if (!next || next->used || block->used)
        return;
    block->bytes += next->bytes;
    block->next = next->next;
    if (block->next)
        block->next->previous = block;
    free(next);
}

static struct ri_shm_block *no_block(const struct ri_shm *self, size_t bytes)
{
    size_t free_bytes = 0, longest_bytes = 0;

    for (const struct ri_shm_block *block = self->blocks; block; block = block->next) {
        free_bytes += block->used ? 0 : block->bytes;
        if (!block->used && block->bytes > longest_bytes)
            longest_bytes = block->bytes;
    }
    ri_error(RONDO_ERR_MEMORY, "transport shm has no %zu bytes left: of the %zu that a rank may share %zu are "
             "free, at most %zu in one piece: free what is not used any more, or start fewer ranks per "
             "host", bytes, self->peers[self->me].bytes, free_bytes, longest_bytes);
    return NULL;
}

/* It takes a block that the list holds for a lost one. */
RI_ANALYZER_IGNORE("-Wanalyzer-malloc-leak")
static struct ri_shm_block *block_find_new(struct ri_shm *self, size_t bytes)
{
    struct ri_shm_block *block = self->blocks;
    size_t pages_bytes = bytes && bytes <= self->peers[self->me].bytes ? page_up(bytes) : page_up(1);

    if (bytes > self->peers[self->me].bytes)
        block = NULL;
    while (block && (block->used || block->bytes < pages_bytes))
        block = block->next;
    if (!block)
        return no_block(self, bytes);
    if (block_split(block, pages_bytes))
        return NULL;
    if (commit(self, block->offset, pages_bytes)) {
        block_join(block);
        return NULL;
    }
    block->used = 1;
    /* So that no step meets the first touch of a page; where that cannot be asked for, it will. */
    madvise(self->peers[self->me].base + block->offset, block->bytes, MADV_POPULATE_WRITE);
    return block;
}
RI_ANALYZER_RESUME

void ri_shm_block_free(struct ri_shm *self, struct ri_shm_block *block)
{
    fallocate(self->memory_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)block->offset,
              (off_t)block->bytes);
    block->used = 0;
    block_join(block);
    if (block->previous)
        block_join(block->previous);
}

struct ri_shm_block *ri_shm_block_find(struct ri_shm *self, const void *memory)
{
    struct ri_shm_block *block = self->blocks;

    while (block && (const char *)memory != self->peers[self->me].base + block->offset)
        block = block->next;
    return block && block->used ? block : NULL;
}

/* ---- copies of what is given out ---- */

/* Four sizes per power of two, so that copies of nearly equal size use each other's pages. */
static size_t stage_bytes(size_t bytes)
{
    size_t step = (size_t)sysconf(_SC_PAGESIZE);

    while (step * 8 < bytes)
        step *= 2;
    return (bytes + step - 1) / step * step;
}

/* The oldest of the spare ones go back, until they are no more than that. */
static void spare_stages_trim(struct ri_shm *self, size_t most_bytes)
{
    while (self->spare_stages && self->spare_bytes > most_bytes) {
        struct ri_shm_block **link = &self->spare_stages, *block;

        while ((*link)->spare)
            link = &(*link)->spare;
        block = *link;
        *link = NULL;
        self->spare_bytes -= block->bytes;
        ri_shm_block_free(self, block);
    }
}

struct ri_shm_block *ri_shm_block_new(struct ri_shm *self, size_t bytes)
{
    struct ri_shm_block *block = block_find_new(self, bytes);

    if (block || !self->spare_stages)
        return block;
    spare_stages_trim(self, 0);
    return block_find_new(self, bytes);
}

struct ri_shm_block *ri_shm_stage_new(struct ri_shm *self, size_t bytes)
{
    size_t wanted = stage_bytes(bytes ? bytes : 1);
    struct ri_shm_block **link = &self->spare_stages, *block;

    while (*link && (*link)->bytes != wanted)
        link = &(*link)->spare;
    block = *link;
    if (block) {
        *link = block->spare;
        self->spare_bytes -= block->bytes;
    } else {
        block = ri_shm_block_new(self, wanted);
    }
    if (!block)
        return NULL;
    block->spare = NULL;
    self->stage_bytes += block->bytes;
    if (self->stage_bytes > self->most_stage_bytes) {
        self->most_stage_bytes = self->stage_bytes;
        ri_log(RI_LOG_INFO, "transport", "rank %d keeps %zu bytes for copies of what does not lie in memory of "
               "rondo_mem_alloc", self->base.rank, self->most_stage_bytes);
    }
    return block;
}

void ri_shm_stage_free(struct ri_shm *self, struct ri_shm_block *block)
{
    block->spare = self->spare_stages;
    self->spare_stages = block;
    self->stage_bytes -= block->bytes;
    self->spare_bytes += block->bytes;
    spare_stages_trim(self, self->most_stage_bytes);
}
