/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/env.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/status.h"
#include "comm/bytes.h"
#include "comm/settings.h"

#define BIND_RETRY_MS 20

/* How a launcher calls its variables. */
struct names {
    const char *rank, *size, *root;
};

static const struct names ours = { "RONDO_RANK", "RONDO_SIZE", "RONDO_ROOT" };
static const struct names torchrun = { "RANK", "WORLD_SIZE", "MASTER_ADDR" };

/* An empty variable is as good as none. */
static const char *value_of(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

static int read_number(const char *name, long min, long max, int *number)
{
    const char *text = value_of(name);
    char *end;
    long value;

    if (!text)
        return ri_error(RONDO_ERR_ARGUMENT, "%s is not set", name);
    errno = 0;
    value = strtol(text, &end, 10);
    if (errno || *end || *text < '0' || *text > '9' || value < min || value > max)
        return ri_error(RONDO_ERR_ARGUMENT, "%s='%.64s' is refused: give a number from %ld to %ld", name,
                        text, min, max);
    *number = (int)value;
    return 0;
}

static int read_rank_and_size(const struct names *names, struct ri_env *env)
{
    int err;

    if (!value_of(names->size))
        return ri_error(RONDO_ERR_ARGUMENT, "%s is set but %s is not", names->rank, names->size);
    if (!value_of(names->rank))
        return ri_error(RONDO_ERR_ARGUMENT, "%s is set but %s is not", names->size, names->rank);
    err = read_number(names->size, 1, RI_RANKS_MAX, &env->size);
    if (err)
        return err;
    return read_number(names->rank, 0, env->size - 1, &env->rank);
}

/* ---- where rank 0 is ---- */

static int is_numeric(const char *host)
{
    uint8_t address[sizeof(struct in6_addr)];

    return inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
}

static int resolve(const char *name, const char *value, const char *host, int port,
                   struct ri_meeting *meeting)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
    struct addrinfo *all;
    char service[16];
    int fault;

    snprintf(service, sizeof(service), "%d", port);
    fault = getaddrinfo(host, service, &hints, &all);
    if (fault)
        return ri_error(RONDO_ERR_ARGUMENT, "%s='%.64s': no address of that name: %s", name, value,
                        gai_strerror(fault));
    meeting->endpoint_count = 0;
    for (struct addrinfo *it = all; it && meeting->endpoint_count < RI_ENDPOINTS_MAX; it = it->ai_next) {
        struct ri_endpoint *to = &meeting->endpoints[meeting->endpoint_count];

        if (it->ai_family != AF_INET && it->ai_family != AF_INET6)
            continue;
        memset(to, 0, sizeof(*to));
        memcpy(&to->address, it->ai_addr, it->ai_addrlen);
        to->bytes = it->ai_addrlen;
        meeting->endpoint_count++;
    }
    freeaddrinfo(all);
    meeting->listen_any = !is_numeric(host) && strcmp(host, "localhost") != 0;
    if (!meeting->endpoint_count)
        return ri_error(RONDO_ERR_ARGUMENT, "%s='%.64s': it has no IP address", name, value);
    return 0;
}

/* "host:port", "[address]:port" */
static int read_root(const char *name, const char *value, struct ri_meeting *meeting)
{
    const char *colon, *host = value;
    char copy[256], *end;
    size_t length;
    long port;

    colon = strrchr(value, ':');
    length = colon ? (size_t)(colon - value) : 0;
    errno = 0;
    port = colon && colon[1] >= '0' && colon[1] <= '9' ? strtol(colon + 1, &end, 10) : 0;
    if (!length || errno || port < 1 || port > 65535 || *end || length >= sizeof(copy))
        return ri_error(RONDO_ERR_ARGUMENT, "%s='%.64s' is refused: give host:port, the port from 1 to 65535",
                        name, value);
    if (length > 2 && host[0] == '[' && host[length - 1] == ']') {
        host++;
        length -= 2;
    }
    memcpy(copy, host, length);
    copy[length] = '\0';
    return resolve(name, value, copy, (int)port, meeting);
}

static int read_torch_root(struct ri_meeting *meeting)
{
    const char *host = value_of("MASTER_ADDR");
    int port = 0, err;

    if (!host)
        return ri_error(RONDO_ERR_ARGUMENT, "RANK and WORLD_SIZE are set but MASTER_ADDR is not");
    err = read_number("MASTER_PORT", 1, 65534, &port);
    if (err)
        return err;
    return resolve("MASTER_ADDR", host, host, port + 1, meeting);
}

/* ---- the whole ---- */

/* Without a job's name the port alone tells jobs apart. */
static void make_token(unsigned turn, uint8_t *token)
{
    const char *job = value_of("RONDO_JOB");
    char text[512];

    if (!job)
        job = value_of("TORCHELASTIC_RUN_ID");
    snprintf(text, sizeof(text), "%u/%.400s", turn, job ? job : "");
    ri_hash16(text, strlen(text), token);
}

int ri_env_read(unsigned turn, struct ri_env *env)
{
    const struct names *names = value_of(ours.rank) || value_of(ours.size) ? &ours : &torchrun;
    const char *root = value_of(ours.root);
    struct ri_env read = { .size = 1 };
    int err;

    if (!value_of(names->rank) && !value_of(names->size)) {
        if (root)
            return ri_error(RONDO_ERR_ARGUMENT, "RONDO_ROOT='%.64s' is set but neither RONDO_RANK nor RANK is",
                            root);
        *env = read;
        return 0;
    }
    err = read_rank_and_size(names, &read);
    if (err)
        return err;
    if (read.size == 1) {
        *env = read;
        return 0;
    }
    if (names == &ours && !root)
        return ri_error(RONDO_ERR_ARGUMENT, "RONDO_SIZE is %d but RONDO_ROOT is not set", read.size);
    err = root ? read_root(ours.root, root, &read.meeting) : read_torch_root(&read.meeting);
    if (err)
        return err;
    make_token(turn, read.meeting.token);
    *env = read;
    return 0;
}

/* ---- rank 0's socket ---- */

static pthread_mutex_t root_lock = PTHREAD_MUTEX_INITIALIZER;
static int root_fd = -1, root_port;

static int is_listening(int fd)
{
    int yes = 0;
    socklen_t bytes = sizeof(yes);

    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &yes, &bytes) == 0 && yes;
}

static int port_of(const struct ri_endpoint *it)
{
    return ntohs(((const struct sockaddr_in *)&it->address)->sin_port); /* the same place in both families */
}

/* A wrapper may have closed what rondo-run left us, and something else may have its number now. */
static int inherited_socket(int port)
{
    int fd;

    if (!value_of("RONDO_ROOT_FD") || read_number("RONDO_ROOT_FD", 0, 1 << 20, &fd) || !is_listening(fd) ||
        ri_tcp_port(fd) != port)
        return -1;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    return fd;
}

static int listen_any(int family, int port)
{
    struct ri_endpoint any = { .bytes = family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                           : sizeof(struct sockaddr_in) };

    any.address.ss_family = (sa_family_t)family;
    ((struct sockaddr_in *)&any.address)->sin_port = htons((uint16_t)port);
    return ri_tcp_listen(&any);
}

/* A name may mean another address to us (127.0.1.1, as Debian has it) than to the others, and an
 * address may be that of a router before us: then we listen at all. */
static int try_to_listen(const struct ri_meeting *meeting, int port)
{
    int fd = -EADDRNOTAVAIL;

    for (int i = 0; i < meeting->endpoint_count && fd < 0 && !meeting->listen_any; i++)
        fd = ri_tcp_listen(&meeting->endpoints[i]);
    if (fd >= 0 || fd == -EADDRINUSE)
        return fd;
    fd = listen_any(AF_INET6, port);
    return fd >= 0 || fd == -EADDRINUSE ? fd : listen_any(AF_INET, port);
}

static int own_socket(const struct ri_meeting *meeting, int port, int64_t deadline_ns)
{
    char name[80];
    int fd = try_to_listen(meeting, port);

    while (fd == -EADDRINUSE && ri_now_ns() + BIND_RETRY_MS * 1000000 < deadline_ns) {
        poll(NULL, 0, BIND_RETRY_MS); /* the job before us may be about to leave it */
        fd = try_to_listen(meeting, port);
    }
    if (fd >= 0)
        return fd;
    ri_tcp_name(&meeting->endpoints[0], name, sizeof(name));
    return ri_error(RONDO_ERR_SYSTEM, "rank 0 cannot listen at %s: %s", name, ri_errno_text(fd));
}

int ri_env_socket(const struct ri_meeting *meeting, int64_t deadline_ns)
{
    int port = port_of(&meeting->endpoints[0]), fd;

    pthread_mutex_lock(&root_lock);
    if (root_fd >= 0 && root_port != port) {
        close(root_fd);
        root_fd = -1;
    }
    fd = root_fd >= 0 ? root_fd : inherited_socket(port);
    if (fd < 0)
        fd = own_socket(meeting, port, deadline_ns);
    if (fd >= 0) {
        root_fd = fd;
        root_port = port;
    }
    pthread_mutex_unlock(&root_lock);
    return fd;
}
