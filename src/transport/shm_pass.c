/* SPDX-License-Identifier: Apache-2.0 */
/* Where a rank cannot open another's descriptors in /proc, as between PID namespaces or without /proc, it
 * asks for them at a socket.  Its name is as random as that of its memory, and only the ranks learn it; it
 * has no file, so that nothing is left behind. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "transport/shm_private.h"

static socklen_t name_of(const uint64_t random[2], struct sockaddr_un *name)
{
    int n;

    memset(name, 0, sizeof(*name));
    name->sun_family = AF_UNIX; /* and a name that begins with 0: the network namespace's, no file */
    n = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, "rondo-%016llx%016llx",
                 (unsigned long long)random[0], (unsigned long long)random[1]);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* Without it there is one way less to be found. */
void ri_shm_pass_open(struct ri_shm *self)
{
    struct sockaddr_un name;
    socklen_t bytes = name_of(self->front->random, &name);

    self->pass_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (self->pass_fd < 0)
        return;
    if (bind(self->pass_fd, (struct sockaddr *)&name, bytes) || listen(self->pass_fd, RI_SHM_LOCALS_MAX))
        ri_shm_pass_close(self);
}

void ri_shm_pass_close(struct ri_shm *self)
{
    if (self->pass_fd >= 0)
        close(self->pass_fd);
    self->pass_fd = -1;
}

union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(RI_SHM_FDS * sizeof(int))];
};

static int is_of_our_user(int fd)
{
    struct ucred other;
    socklen_t bytes = sizeof(other);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &bytes) == 0 && other.uid == geteuid();
}

static void give(struct ri_shm *self, int fd)
{
    int fds[RI_SHM_FDS] = { self->memory_fd, self->send_wake_fd, self->wake_fd };
    char byte = 0;
    struct iovec content = { &byte, 1 };
    union control control = { .header = { .cmsg_len = CMSG_LEN(sizeof(fds)), .cmsg_level = SOL_SOCKET,
                                          .cmsg_type = SCM_RIGHTS } };
    struct msghdr message = { .msg_iov = &content, .msg_iovlen = 1, .msg_control = &control,
                              .msg_controllen = sizeof(control) };

    memcpy(CMSG_DATA(&control.header), fds, sizeof(fds));
    if (is_of_our_user(fd))
        sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void ri_shm_pass_serve(struct ri_shm *self)
{
    int fd;

    if (self->pass_fd < 0)
        return;
    while ((fd = accept4(self->pass_fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        give(self, fd);
        close(fd);
    }
}

/* While many ask one rank it may have no room for us. */
static int call(struct ri_shm *self, int fd, const struct sockaddr_un *name, socklen_t bytes,
                int64_t deadline_ns)
{
    const struct timespec pause = { .tv_nsec = 100000 };

    while (connect(fd, (const struct sockaddr *)name, bytes)) {
        if (errno != EAGAIN && errno != EINTR)
            return -1;
        if (ri_now_ns() > deadline_ns) {
            errno = ETIMEDOUT;
            return -1;
        }
        ri_shm_pass_serve(self); /* who asks us may be who we ask */
        nanosleep(&pause, NULL);
    }
    if (is_of_our_user(fd))
        return 0;
    errno = EACCES;
    return -1;
}

int ri_shm_pass_ask(struct ri_shm *self, const uint64_t random[2], int64_t deadline_ns)
{
    struct sockaddr_un name;
    socklen_t bytes = name_of(random, &name);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), failed;

    if (fd < 0 || call(self, fd, &name, bytes, deadline_ns) == 0)
        return fd;
    failed = errno;
    close(fd);
    errno = failed;
    return -1;
}

int ri_shm_pass_take(int fd, int fds[RI_SHM_FDS])
{
    char byte;
    struct iovec content = { &byte, 1 };
    union control control;
    struct msghdr message = { .msg_iov = &content, .msg_iovlen = 1, .msg_control = &control,
                              .msg_controllen = sizeof(control) };
    ssize_t n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    struct cmsghdr *header = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    int received[sizeof(control) / sizeof(int)]; /* there may be room for more than we expect */
    size_t got = 0;

    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
        got = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    if (got)
        memcpy(received, CMSG_DATA(header), got * sizeof(int));
    if (got == RI_SHM_FDS) {
        memcpy(fds, received, sizeof(int) * RI_SHM_FDS);
        return 1;
    }
    while (got > 0)
        close(received[--got]);
    errno = n > 0 ? EMFILE : EACCES; /* there was no room for all, or we are of another user */
    return -1;
}
