/* SPDX-License-Identifier: Apache-2.0 */
/* Meeting the other ranks of the host: each maps all, and says so in their fronts. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "transport/shm_private.h"

/* ---- finding the memory of another rank ---- */

/* Is it that, and no other's: of a process that has its number now, or in another PID namespace? */
static int is_it(int fd, const struct ri_shm_address *address)
{
    struct ri_shm_front front;
    size_t bytes = offsetof(struct ri_shm_front, closed);
    struct stat file;

    if (fstat(fd, &file) || !S_ISREG(file.st_mode) || (uint64_t)file.st_size != address->bytes ||
        pread(fd, &front, bytes, 0) != (ssize_t)bytes || front.layout != address->layout ||
        memcmp(front.random, address->random, sizeof(front.random)) != 0) {
        errno = ESTALE;
        return 0;
    }
    return 1;
}

static void close_all(int fds[RI_SHM_FDS])
{
    int failed = errno;

    for (int i = 0; i < RI_SHM_FDS; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
    errno = failed;
}

/* Memory and pipe of another process, the pipe for both ways; -1 with errno. */
static int find_in_proc(const struct ri_shm_address *address, int fds[RI_SHM_FDS])
{
    fds[0] = ri_shm_open_other(address->pid, address->memory_fd, O_RDWR);
    if (fds[0] >= 0 && is_it(fds[0], address))
        fds[1] = ri_shm_open_wake(address->pid, address->wake_fd, address->wake_inode);
    if (fds[1] >= 0)
        return 0;
    close_all(fds);
    return -1;
}

static int find_by_asking(struct ri_shm *self, const struct ri_shm_address *address, int fds[RI_SHM_FDS],
                          int64_t deadline_ns)
{
    const struct timespec pause = { .tv_nsec = 100000 };
    int fd = ri_shm_pass_ask(self, address->random, deadline_ns), got = fd < 0 ? -1 : 0, failed;

    while (!got) {
        ri_shm_pass_serve(self); /* who asks us may be who we ask */
        got = ri_shm_pass_take(fd, fds);
        if (got == 0 && ri_now_ns() > deadline_ns) {
            errno = ETIMEDOUT;
            got = -1;
        }
        if (got == 0)
            nanosleep(&pause, NULL);
    }
    failed = errno;
    if (fd >= 0)
        close(fd);
    errno = failed;
    if (got < 0 || is_it(fds[0], address))
        return got < 0 ? -1 : 0;
    close_all(fds);
    return -1;
}

static int map_file(struct ri_shm *self, struct ri_shm_peer *peer, const struct ri_shm_address *address,
                    int fd)
{
    void *base = mmap(NULL, address->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);

    if (base == MAP_FAILED)
        return ri_error(RONDO_ERR_MEMORY, "rank %d cannot map %llu bytes of rank %d for transport shm: %m",
                        self->base.rank, (unsigned long long)address->bytes, peer->rank);
    madvise(base, address->bytes, MADV_DONTDUMP);
    madvise(base, address->bytes, MADV_DONTFORK); /* or a child keeps it when all ranks have ended */
    peer->base = base;
    peer->bytes = address->bytes;
    peer->front = base;
    return 0;
}

/* Is what another process says there what we read there? */
static void probe(struct ri_shm_peer *peer, const struct ri_shm_address *address)
{
    uint64_t word = 0;
    struct iovec here = { &word, sizeof(word) };
    struct iovec there = { (void *)(uintptr_t)address->probe, sizeof(word) };
    ssize_t n = process_vm_readv(address->pid, &here, 1, &there, 1, 0);

    if (n == sizeof(word) && word == address->random[0])
        peer->cma_errno = 0;
    else
        peer->cma_errno = n < 0 ? errno : ESRCH;
}

/* Why, and what to do, by how it could not be asked.  First in the text: of what others hear the end is cut. */
static const char *next_step(int at_socket)
{
    if (at_socket == EACCES)
        return ", as they run as different users: start all ranks of a host as one";
    if (at_socket == ECONNREFUSED)
        return ", which has ended or is in another container: share a PID or network namespace";
    return "";
}

static int cannot_open(const struct ri_shm *self, const struct ri_shm_peer *peer,
                       const struct ri_shm_address *address, int in_proc, int at_socket)
{
    return ri_error(RONDO_ERR_TRANSPORT, "rank %d cannot open the memory of rank %d%s (/proc/%d/fd/%d: %s; asked "
                    "for at its socket: %s)", self->base.rank, peer->rank, next_step(at_socket),
                    (int)address->pid, (int)address->memory_fd, strerror(in_proc), ri_errno_text(at_socket));
}

static int map_peer(struct ri_shm *self, struct ri_shm_peer *peer, const struct ri_shm_address *address,
                    int64_t deadline_ns)
{
    int fds[RI_SHM_FDS] = { -1, -1, -1 }, failed, err;

    if (address->layout != RI_SHM_LAYOUT)
        return ri_error(RONDO_ERR_MISMATCH, "rank %d has another layout of transport shm than rank %d: "
                        "start all with one version of Rondo", peer->rank, self->base.rank);
    peer->pid = address->pid;
    probe(peer, address);
    if (peer->base)
        return 0; /* ourselves */
    peer->memory_fd = address->memory_fd;
    if (find_in_proc(address, fds)) {
        peer->memory_fd = -1;
        failed = errno;
        if (find_by_asking(self, address, fds, deadline_ns))
            return cannot_open(self, peer, address, failed, errno);
    }
    err = map_file(self, peer, address, fds[0]);
    close(fds[0]);
    fds[0] = -1;
    if (err) {
        close_all(fds);
        return err;
    }
    peer->wake_fd = fds[1];
    peer->keep_fd = fds[2];
    return 0;
}

static int map_all(struct ri_shm *self, const void *const *addresses, const size_t *address_bytes,
                   int64_t deadline_ns)
{
    int err = 0;

    for (int p = 0; p < self->locals && !err; p++) {
        struct ri_shm_peer *peer = &self->peers[p];
        struct ri_shm_address address;

        if (address_bytes[peer->rank] != sizeof(address))
            return ri_error(RONDO_ERR_MISMATCH, "the address of rank %d for transport shm has %zu bytes, "
                            "not %zu", peer->rank, address_bytes[peer->rank], sizeof(address));
        memcpy(&address, addresses[peer->rank], sizeof(address));
        err = map_peer(self, peer, &address, deadline_ns);
    }
    return err;
}

/* Where we see its process: has it ended? */
static int has_ended(const struct ri_shm_peer *peer)
{
    char path[64];
    struct stat file;

    if (peer->memory_fd < 0)
        return 0;
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)peer->pid, (int)peer->memory_fd);
    return lstat(path, &file) != 0 && (errno == ENOENT || errno == ESRCH);
}

/* A rank that could not connect has said so. */
static int look_for_failures(struct ri_shm *self)
{
    for (int p = 0; p < self->locals; p++) {
        const struct ri_shm_front *front = self->peers[p].front;

        if (atomic_load(&front->closed) && front->why[0])
            return ri_error(RONDO_ERR_PEER, "%.*s", (int)sizeof(front->why) - 1, front->why);
    }
    return 0;
}

static int await_peer(struct ri_shm *self, int p, int64_t deadline_ns)
{
    struct ri_shm_peer *peer = &self->peers[p];
    _Atomic uint32_t *joined = &self->front->pairs[p].joined;
    struct timespec pause = { .tv_nsec = 50000 };

    while (atomic_load(joined) == RI_SHM_ABSENT) {
        int is_gone = has_ended(peer) || atomic_load(&peer->front->closed);
        int err = look_for_failures(self);

        if (err)
            return err;
        if (is_gone && atomic_load(joined) == RI_SHM_ABSENT)
            return ri_error(RONDO_ERR_PEER, "rank %d has ended before it was connected over transport "
                            "shm", peer->rank);
        if (ri_now_ns() > deadline_ns)
            return ri_error(RONDO_ERR_TIMEOUT, "rank %d does not answer over transport shm", peer->rank);
        ri_shm_pass_serve(self);
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < 400000)
            pause.tv_nsec *= 2;
    }
    peer->reads_us = atomic_load(joined) == RI_SHM_READABLE;
    return 0;
}

/* Until all have mapped us. */
static int await(struct ri_shm *self, int64_t deadline_ns)
{
    int err = 0;

    for (int p = 0; p < self->locals && !err; p++)
        err = await_peer(self, p, deadline_ns);
    return err;
}

/* So that the others wait no longer. */
static void tell_failure(struct ri_shm *self, int err)
{
    struct ri_shm_front *front = self->front;

    if (err == RONDO_ERR_PEER) /* names the first that failed */
        snprintf(front->why, sizeof(front->why), "%s", rondo_last_error());
    else
        snprintf(front->why, sizeof(front->why), "rank %d could not connect: %s", self->base.rank,
                 rondo_last_error());
    atomic_store(&front->closed, 1);
}

static void describe(struct ri_shm *self, struct ri_shm_peer *peer)
{
    if (peer->reads_us && !peer->cma_errno)
        snprintf(peer->way, sizeof(peer->way), "memory of this host, read in place; other memory by "
                 "process_vm_readv");
    else
        snprintf(peer->way, sizeof(peer->way), "memory of this host, read in place; other memory copied "
                 "twice, as process_vm_readv does not work (%s)", peer->cma_errno ? strerror(peer->cma_errno)
                                                                     : "on the other side");
    if (!peer->reads_us || peer->cma_errno)
        ri_log(RI_LOG_INFO, "transport", "rank %d and rank %d: %s", self->base.rank, peer->rank, peer->way);
}

int ri_shm_connect(struct ri_shm *self, const void *const *addresses, const size_t *address_bytes,
                   int64_t deadline_ns)
{
    int err = map_all(self, addresses, address_bytes, deadline_ns);

    for (int p = 0; p < self->locals && !err; p++)
        atomic_store(&ri_shm_pair_at(self, p, self->me)->joined,
                     self->peers[p].cma_errno ? RI_SHM_MAPPED : RI_SHM_READABLE);
    if (!err)
        err = await(self, deadline_ns);
    if (err)
        tell_failure(self, err);
    for (int p = 0; p < self->locals && !err; p++)
        describe(self, &self->peers[p]);
    if (!err)
        ri_log(RI_LOG_INFO, "transport", "rank %d reaches the %d ranks of its host in memory that they share",
               self->base.rank, self->locals);
    return err;
}
