/* SPDX-License-Identifier: Apache-2.0 */
/* Meeting the other ranks of the host: each maps all, and says so in their fronts. */
#include <errno.h>
#include <fcntl.h>
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

static int is_it(const struct ri_shm_peer *peer, const struct ri_shm_address *address)
{
    return peer->front->layout == address->layout && peer->front->bytes == address->bytes &&
           memcmp(peer->front->random, address->random, sizeof(address->random)) == 0;
}

static int map_file(struct ri_shm *self, struct ri_shm_peer *peer, const struct ri_shm_address *address, int fd)
{
    struct stat file;
    void *base;

    if (fstat(fd, &file) || !S_ISREG(file.st_mode) || (uint64_t)file.st_size != address->bytes)
        return ri_error(RONDO_ERR_TRANSPORT, "transport shm finds other memory than that of rank %d: is it in another "
                        "PID namespace, or has it ended?", peer->rank);
    base = mmap(NULL, address->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (base == MAP_FAILED)
        return ri_error(RONDO_ERR_MEMORY, "rank %d cannot map %llu bytes of rank %d for transport shm: %m",
                        self->base.rank, (unsigned long long)address->bytes, peer->rank);
    madvise(base, address->bytes, MADV_DONTDUMP);
    peer->base = base;
    peer->bytes = address->bytes;
    peer->front = base;
    if (is_it(peer, address))
        return 0;
    peer->front = NULL;
    return ri_error(RONDO_ERR_TRANSPORT, "transport shm finds other memory than that of rank %d: is it in another PID "
                    "namespace, or has it ended?", peer->rank);
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

static int map_peer(struct ri_shm *self, struct ri_shm_peer *peer, const struct ri_shm_address *address)
{
    int fd, err;

    if (address->layout != RI_SHM_LAYOUT)
        return ri_error(RONDO_ERR_MISMATCH, "rank %d has another layout of transport shm than rank %d: start all "
                        "with one version of Rondo", peer->rank, self->base.rank);
    peer->pid = address->pid;
    peer->remote_wake_fd = address->wake_fd;
    probe(peer, address);
    if (peer->base)
        return 0; /* ourselves */
    fd = ri_shm_open_other(address->pid, address->memory_fd, O_RDWR);
    if (fd < 0)
        return ri_error(RONDO_ERR_TRANSPORT, "rank %d cannot open the memory of rank %d at /proc/%d/fd/%d: %m",
                        self->base.rank, peer->rank, (int)address->pid, (int)address->memory_fd);
    err = map_file(self, peer, address, fd);
    close(fd);
    if (err || !peer->is_peer)
        return err;
    peer->wake_fd = ri_shm_open_other(address->pid, address->wake_fd, O_RDWR | O_NONBLOCK);
    if (peer->wake_fd >= 0)
        return 0;
    return ri_error(RONDO_ERR_TRANSPORT, "rank %d cannot open what wakes rank %d, /proc/%d/fd/%d: %m",
                    self->base.rank, peer->rank, (int)address->pid, (int)address->wake_fd);
}

static int map_all(struct ri_shm *self, const void *const *addresses, const size_t *address_bytes)
{
    int err = 0;

    for (int p = 0; p < self->locals && !err; p++) {
        struct ri_shm_peer *peer = &self->peers[p];
        struct ri_shm_address address;

        if (address_bytes[peer->rank] != sizeof(address))
            return ri_error(RONDO_ERR_MISMATCH, "the address of rank %d for transport shm has %zu bytes, not %zu",
                            peer->rank, address_bytes[peer->rank], sizeof(address));
        memcpy(&address, addresses[peer->rank], sizeof(address));
        err = map_peer(self, peer, &address);
    }
    return err;
}

/* Until all have mapped us. */
static int await(struct ri_shm *self, int64_t deadline_ns)
{
    struct timespec pause = { .tv_nsec = 50000 };

    for (int p = 0; p < self->locals; p++) {
        struct ri_shm_peer *peer = &self->peers[p];
        _Atomic uint32_t *joined = &self->front->pairs[p].joined;

        while (atomic_load(joined) == RI_SHM_ABSENT) {
            if (atomic_load(&peer->front->closed))
                return ri_error(RONDO_ERR_PEER, "rank %d has given up to connect transport shm", peer->rank);
            if (ri_now_ns() > deadline_ns)
                return ri_error(RONDO_ERR_TIMEOUT, "rank %d does not answer over transport shm", peer->rank);
            nanosleep(&pause, NULL);
            if (pause.tv_nsec < 1000000)
                pause.tv_nsec *= 2;
        }
        peer->reads_us = atomic_load(joined) == RI_SHM_READABLE;
    }
    return 0;
}

static void describe(struct ri_shm *self, struct ri_shm_peer *peer)
{
    if (peer->reads_us && !peer->cma_errno)
        snprintf(peer->way, sizeof(peer->way), "memory of this host, read in place; other memory by "
                 "process_vm_readv");
    else
        snprintf(peer->way, sizeof(peer->way), "memory of this host, read in place; other memory copied twice, as "
                 "process_vm_readv is refused (%s)", peer->cma_errno ? strerror(peer->cma_errno)
                                                                     : "on the other side");
    if (!peer->reads_us || peer->cma_errno)
        ri_log(RI_LOG_INFO, "transport", "rank %d and rank %d: %s", self->base.rank, peer->rank, peer->way);
}

int ri_shm_connect(struct ri_shm *self, const void *const *addresses, const size_t *address_bytes,
                   int64_t deadline_ns)
{
    int err = map_all(self, addresses, address_bytes);

    if (err)
        return err;
    for (int p = 0; p < self->locals; p++)
        atomic_store(&ri_shm_pair_at(self, p, self->me)->joined,
                     self->peers[p].cma_errno ? RI_SHM_MAPPED : RI_SHM_READABLE);
    err = await(self, deadline_ns);
    for (int p = 0; p < self->locals && !err; p++)
        describe(self, &self->peers[p]);
    return err;
}
