/* SPDX-License-Identifier: Apache-2.0 */
/* Sleeping: a rank reads a pipe of its own, and says when it is about to sleep on it.  Who has news then
 * writes one byte; who has none to wake writes none. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "transport/shm_private.h"

int ri_shm_wake_open(struct ri_shm *self)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK))
        return ri_error(RONDO_ERR_TRANSPORT, "transport shm gets no pipe to sleep on: %s", ri_errno_text(errno));
    self->wake_fd = fds[0];
    self->send_wake_fd = fds[1];
    return 0;
}

void ri_shm_wake_close(struct ri_shm *self)
{
    if (self->wake_fd >= 0)
        close(self->wake_fd);
    if (self->send_wake_fd >= 0 && (!self->peers || self->peers[self->me].wake_fd < 0))
        close(self->send_wake_fd); /* else that of ourselves as a peer */
    for (int p = 0; self->peers && p < self->locals; p++) {
        if (self->peers[p].wake_fd >= 0)
            close(self->peers[p].wake_fd);
        if (self->peers[p].keep_fd >= 0)
            close(self->peers[p].keep_fd);
    }
}

int ri_shm_open_other(int32_t pid, int32_t fd, int flags)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, (int)fd);
    return open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* whatever has that number by now */
}

int ri_shm_open_wake(int32_t pid, int32_t fd, uint64_t inode)
{
    int pipe_fd = ri_shm_open_other(pid, fd, O_RDWR);
    struct stat pipe;

    if (pipe_fd < 0 || (fstat(pipe_fd, &pipe) == 0 && S_ISFIFO(pipe.st_mode) && pipe.st_ino == inode))
        return pipe_fd;
    close(pipe_fd);
    errno = ESTALE;
    return -1;
}

/* Opened to read too, so that writing raises no SIGPIPE when its rank has gone. */
static void wake(struct ri_shm *self, int peer)
{
    struct ri_shm_peer *to = &self->peers[peer];
    ssize_t n;

    if (to->wake_fd < 0)
        return; /* connect has failed */
    do
        n = write(to->wake_fd, "", 1);
    while (n < 0 && errno == EINTR);
}

void ri_shm_ring(struct ri_shm *self, int peer)
{
    struct ri_shm_front *front = self->peers[peer].front;

    /* The news before the look at asleep, as arm sets asleep before it looks for news. */
    atomic_fetch_or(&front->news[self->me / 64], (uint64_t)1 << (self->me % 64));
    if (atomic_load(&front->asleep) && atomic_exchange(&front->asleep, 0))
        wake(self, peer);
}

void ri_shm_awake(struct ri_shm *self)
{
    char byte;

    if (self->armed && !atomic_exchange(&self->front->asleep, 0))
        self->owed_bytes++;
    self->armed = 0;
    while (self->owed_bytes > 0 && read(self->wake_fd, &byte, 1) == 1)
        self->owed_bytes--;
}

int ri_shm_arm(struct ri_shm *self)
{
    if (self->work.first)
        return 0;
    if (self->armed)
        ri_shm_awake(self);
    self->armed = 1;
    atomic_store(&self->front->asleep, 1);
    for (int w = 0; w <= (self->locals - 1) / 64; w++)
        if (atomic_load(&self->front->news[w]))
            return 0;
    return 1;
}
