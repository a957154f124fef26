/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "comm/bytes.h"

static const uint8_t magic[8] = { 'R', 'o', 'n', 'd', 'o', 'C', 't', 'l' };

enum { VERSION = 1, AT_VERSION = 8, AT_KIND = 10, AT_RANK = 12, AT_TOKEN = 16, AT_BYTES = 32 };

static void set_option(int fd, int level, int name, int value)
{
    setsockopt(fd, level, name, &value, sizeof(value)); /* a wish: without it we only learn later */
}

void ri_link_open(struct ri_link *link, int fd)
{
    *link = (struct ri_link){ .fd = fd };
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    /* A machine that vanishes is noticed within half a minute, idle or not. */
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 10);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 25000);
}

static enum ri_link_event parse_head(struct ri_link *link, const uint8_t *token, size_t limit_bytes)
{
    struct ri_frame *frame = &link->frame;
    uint64_t bytes = ri_get(link->head + AT_BYTES, 8);

    if (memcmp(link->head, magic, sizeof(magic)) != 0 || ri_get(link->head + AT_VERSION, 2) != VERSION ||
        memcmp(link->head + AT_TOKEN, token, RI_TOKEN_BYTES) != 0 || bytes > limit_bytes)
        return RI_LINK_FOREIGN;
    frame->kind = (int)ri_get(link->head + AT_KIND, 2);
    frame->rank = (int32_t)(uint32_t)ri_get(link->head + AT_RANK, 4);
    frame->bytes = (size_t)bytes;
    frame->payload = bytes ? malloc((size_t)bytes) : NULL;
    return bytes && !frame->payload ? RI_LINK_FOREIGN : RI_LINK_FRAME;
}

/* Reads up to `want` bytes in all to `to`, of which *used have come. */
static enum ri_link_event fill(int fd, void *to, size_t *used, size_t want)
{
    while (*used < want) {
        ssize_t n = recv(fd, (char *)to + *used, want - *used, 0);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return RI_LINK_IDLE;
        if (n <= 0)
            return RI_LINK_CLOSED;
        *used += (size_t)n;
    }
    return RI_LINK_FRAME;
}

enum ri_link_event ri_link_receive(struct ri_link *link, const uint8_t *token, size_t limit_bytes,
                                   struct ri_frame *frame)
{
    enum ri_link_event event;
    int head_is_new = link->head_used < RI_FRAME_HEAD_BYTES;

    if (link->fd < 0)
        return RI_LINK_CLOSED;
    if (!head_is_new && link->payload_used == link->frame.bytes) { /* the last one has been seen */
        free(link->frame.payload);
        link->frame.payload = NULL;
        link->head_used = 0;
        head_is_new = 1;
    }
    event = fill(link->fd, link->head, &link->head_used, RI_FRAME_HEAD_BYTES);
    if (event != RI_LINK_FRAME)
        return event;
    if (head_is_new) {
        link->payload_used = 0;
        event = parse_head(link, token, limit_bytes);
        if (event != RI_LINK_FRAME)
            return event;
    }
    event = fill(link->fd, link->frame.payload, &link->payload_used, link->frame.bytes);
    if (event == RI_LINK_FRAME)
        *frame = link->frame;
    return event;
}

static int make_room(struct ri_link *link, size_t bytes)
{
    size_t kept = link->out_used - link->out_sent;
    char *out;

    if (link->out_sent) {
        memmove(link->out, link->out + link->out_sent, kept);
        link->out_sent = 0;
        link->out_used = kept;
    }
    if (link->out_room - kept >= bytes)
        return 0;
    out = realloc(link->out, kept + bytes);
    if (!out)
        return ri_error(RONDO_ERR_MEMORY, "no memory for a control message of %zu bytes", bytes);
    link->out = out;
    link->out_room = kept + bytes;
    return 0;
}

int ri_link_send(struct ri_link *link, const uint8_t *token, int kind, int rank, const void *payload,
                 size_t bytes)
{
    uint8_t *head;
    int err;

    if (link->fd < 0)
        return 0;
    err = make_room(link, RI_FRAME_HEAD_BYTES + bytes);
    if (err)
        return err;
    head = (uint8_t *)link->out + link->out_used;
    memcpy(head, magic, sizeof(magic));
    ri_put(head + AT_VERSION, VERSION, 2);
    ri_put(head + AT_KIND, (uint64_t)kind, 2);
    ri_put(head + AT_RANK, (uint32_t)rank, 4);
    memcpy(head + AT_TOKEN, token, RI_TOKEN_BYTES);
    ri_put(head + AT_BYTES, bytes, 8);
    if (bytes)
        memcpy(head + RI_FRAME_HEAD_BYTES, payload, bytes);
    link->out_used += RI_FRAME_HEAD_BYTES + bytes;
    ri_link_flush(link);
    return 0;
}

void ri_link_flush(struct ri_link *link)
{
    while (link->fd >= 0 && link->out_sent < link->out_used) {
        ssize_t n = send(link->fd, link->out + link->out_sent, link->out_used - link->out_sent,
                         MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (n < 0) { /* nobody will ever take it */
            link->out_sent = link->out_used;
            return;
        }
        link->out_sent += (size_t)n;
    }
}

int ri_link_unsent(const struct ri_link *link)
{
    return link->out_sent < link->out_used;
}

/* Closing with unread bytes resets the connection, and a reset can overtake our last words. */
static void drain(int fd)
{
    char bytes[4096];
    int turns = 64; /* a sender without end does not keep us */

    while (turns-- > 0 && recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
        ;
}

void ri_link_close(struct ri_link *link)
{
    if (link->fd >= 0) {
        ri_link_flush(link);
        shutdown(link->fd, SHUT_WR);
        drain(link->fd);
        close(link->fd);
    }
    free(link->frame.payload);
    free(link->out);
    *link = (struct ri_link){ .fd = -1 };
}

int ri_tcp_listen(const struct ri_endpoint *endpoint)
{
    const struct sockaddr *address = (const struct sockaddr *)&endpoint->address;
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int err;

    if (fd < 0)
        return -errno;
    set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (address->sa_family == AF_INET6)
        set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (bind(fd, address, endpoint->bytes) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    err = -errno;
    close(fd);
    return err;
}

int ri_tcp_connect(const struct ri_endpoint *endpoint, int *fd)
{
    const struct sockaddr *address = (const struct sockaddr *)&endpoint->address;
    int it = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int err;

    if (it < 0)
        return -errno;
    if (connect(it, address, endpoint->bytes) == 0 || errno == EINPROGRESS || errno == EINTR) {
        *fd = it;
        return 0;
    }
    err = -errno;
    close(it);
    return err;
}

/* While nobody listens, a connect to a port of the ephemeral range can meet itself. */
static int is_itself(int fd)
{
    struct sockaddr_storage ours, theirs;
    socklen_t ours_bytes = sizeof(ours), theirs_bytes = sizeof(theirs);

    memset(&ours, 0, sizeof(ours));
    memset(&theirs, 0, sizeof(theirs));
    return getsockname(fd, (struct sockaddr *)&ours, &ours_bytes) == 0 &&
           getpeername(fd, (struct sockaddr *)&theirs, &theirs_bytes) == 0 &&
           ours_bytes == theirs_bytes && memcmp(&ours, &theirs, ours_bytes) == 0;
}

int ri_tcp_connected(int fd)
{
    int fault = 0;
    socklen_t bytes = sizeof(fault);

    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &fault, &bytes) < 0)
        return -errno;
    if (fault)
        return -fault;
    return is_itself(fd) ? -ECONNREFUSED : 0;
}

void ri_tcp_name(const struct ri_endpoint *endpoint, char *text, size_t bytes)
{
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&endpoint->address;
    const struct sockaddr_in *four = (const struct sockaddr_in *)&endpoint->address;
    char host[INET6_ADDRSTRLEN] = "?";

    if (endpoint->address.ss_family == AF_INET6) {
        inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof(host));
        snprintf(text, bytes, "[%s]:%d", host, ntohs(six->sin6_port));
    } else {
        inet_ntop(AF_INET, &four->sin_addr, host, sizeof(host));
        snprintf(text, bytes, "%s:%d", host, ntohs(four->sin_port));
    }
}

int ri_tcp_port(int fd)
{
    struct sockaddr_storage address = { 0 };
    socklen_t bytes = sizeof(address);

    if (getsockname(fd, (struct sockaddr *)&address, &bytes) < 0)
        return -errno;
    if (address.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
    return ntohs(((struct sockaddr_in *)&address)->sin_port);
}
