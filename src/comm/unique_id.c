/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/unique_id.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/config.h"
#include "base/status.h"
#include "comm/bytes.h"

/* The bytes of an id: magic[8] version[1] endpoints[1] port[2] machine[4] token[16], then for each of
 * at most 5 endpoints family[1] address[16], zeros, and a checksum[8] of all before. */
enum {
    AT_VERSION = 8, AT_COUNT = 9, AT_PORT = 10, AT_MACHINE = 12, AT_TOKEN = 16, AT_ENDPOINTS = 32,
    ENDPOINT_BYTES = 17, AT_CHECK = 120, VERSION = 1
};

_Static_assert(AT_ENDPOINTS + RI_ENDPOINTS_MAX * ENDPOINT_BYTES <= AT_CHECK, "endpoints fit into an id");

static const uint8_t magic[8] = { 'R', 'o', 'n', 'd', 'o', ' ', 'I', 'd' };

/* Sockets of ids that no rank 0 has used yet.  One that is never used stays until the process ends. */
struct waiting_socket {
    struct waiting_socket *next;
    uint8_t token[RI_TOKEN_BYTES];
    int fd;
};

static pthread_mutex_t waiting_lock = PTHREAD_MUTEX_INITIALIZER;
static struct waiting_socket *waiting;

static int keep_socket(const uint8_t *token, int fd)
{
    struct waiting_socket *it = malloc(sizeof(*it));

    if (!it)
        return ri_error(RONDO_ERR_MEMORY, "no memory for a unique id");
    memcpy(it->token, token, RI_TOKEN_BYTES);
    it->fd = fd;
    pthread_mutex_lock(&waiting_lock);
    it->next = waiting;
    waiting = it;
    pthread_mutex_unlock(&waiting_lock);
    return 0;
}

int ri_unique_id_take_socket(const uint8_t token[RI_TOKEN_BYTES])
{
    struct waiting_socket **link, *it;
    int fd = -1;

    pthread_mutex_lock(&waiting_lock);
    for (link = &waiting; *link && memcmp((*link)->token, token, RI_TOKEN_BYTES) != 0;)
        link = &(*link)->next;
    it = *link;
    if (it) {
        *link = it->next;
        fd = it->fd;
        free(it);
    }
    pthread_mutex_unlock(&waiting_lock);
    return fd;
}

void ri_machine_text(char *text, size_t bytes)
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, bytes - 1) : -1;

    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    if (n <= 0 && gethostname(text, bytes - 1) < 0)
        text[0] = '\0';
    text[bytes - 1] = '\0';
}

static uint32_t machine_number(void)
{
    char text[128];

    ri_machine_text(text, sizeof(text));
    return (uint32_t)ri_fnv(RI_FNV_START, text, strlen(text));
}

/* ---- where we can be reached ---- */

static int is_loopback(const struct ri_endpoint *it)
{
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&it->address;
    const struct sockaddr_in *four = (const struct sockaddr_in *)&it->address;

    if (it->address.ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
    return ntohl(four->sin_addr.s_addr) >> 24 == 127;
}

static int is_useful(const struct ifaddrs *it, const char *interface)
{
    if (!it->ifa_addr || !(it->ifa_flags & IFF_UP))
        return 0;
    if (interface[0] && strcmp(it->ifa_name, interface) != 0)
        return 0;
    if (it->ifa_addr->sa_family == AF_INET)
        return 1;
    /* A link-local address means nothing without the number that the interface has over there. */
    return it->ifa_addr->sa_family == AF_INET6 &&
           !IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)it->ifa_addr)->sin6_addr);
}

/* How many, or -errno.  Loopback first, as whoever is on another machine leaves it out; then IPv4, then IPv6. */
static int find_addresses(const char *interface, struct ri_endpoint *to)
{
    static const int families[] = { AF_INET, AF_INET6 };
    struct ifaddrs *all;
    int count = 0;

    if (getifaddrs(&all) < 0)
        return -errno;
    for (int pass = 0; pass < 4; pass++)
        for (struct ifaddrs *it = all; it && count < RI_ENDPOINTS_MAX; it = it->ifa_next) {
            if (!is_useful(it, interface) || it->ifa_addr->sa_family != families[pass % 2])
                continue;
            to[count].bytes = families[pass % 2] == AF_INET ? sizeof(struct sockaddr_in)
                                                            : sizeof(struct sockaddr_in6);
            memcpy(&to[count].address, it->ifa_addr, to[count].bytes);
            if (is_loopback(&to[count]) == (pass < 2))
                count++;
        }
    freeifaddrs(all);
    return count;
}

/* Listens on all addresses, or on that of the interface that was asked for. */
static int open_socket(const char *interface, const struct ri_endpoint *first)
{
    struct ri_endpoint any = { .bytes = sizeof(struct sockaddr_in6) };
    int fd;

    if (interface[0])
        return ri_tcp_listen(first);
    any.address.ss_family = AF_INET6;
    fd = ri_tcp_listen(&any);
    if (fd >= 0)
        return fd;
    any.address.ss_family = AF_INET;
    any.bytes = sizeof(struct sockaddr_in);
    return ri_tcp_listen(&any);
}

/* ---- the bytes ---- */

static void write_endpoint(const struct ri_endpoint *it, uint8_t *to)
{
    to[0] = it->address.ss_family == AF_INET6 ? 6 : 4;
    if (to[0] == 6)
        memcpy(to + 1, &((const struct sockaddr_in6 *)&it->address)->sin6_addr, 16);
    else
        memcpy(to + 1, &((const struct sockaddr_in *)&it->address)->sin_addr, 4);
}

static void read_endpoint(const uint8_t *from, int port, struct ri_endpoint *it)
{
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&it->address;
    struct sockaddr_in *four = (struct sockaddr_in *)&it->address;

    memset(it, 0, sizeof(*it));
    if (from[0] == 6) {
        six->sin6_family = AF_INET6;
        six->sin6_port = htons((uint16_t)port);
        memcpy(&six->sin6_addr, from + 1, 16);
        it->bytes = sizeof(*six);
    } else {
        four->sin_family = AF_INET;
        four->sin_port = htons((uint16_t)port);
        memcpy(&four->sin_addr, from + 1, 4);
        it->bytes = sizeof(*four);
    }
}

int ri_unique_id_read(const rondo_unique_id_t *id, struct ri_meeting *meeting)
{
    const uint8_t *bytes = id->bytes;
    int here = ri_get(bytes + AT_MACHINE, 4) == machine_number();
    int port = (int)ri_get(bytes + AT_PORT, 2), count = bytes[AT_COUNT];

    if (memcmp(bytes, magic, sizeof(magic)) != 0)
        return ri_error(RONDO_ERR_ID, "the unique id does not begin as rondo_unique_id_get begins one");
    if (ri_get(bytes + AT_CHECK, 8) != ri_fnv(RI_FNV_START, bytes, AT_CHECK))
        return ri_error(RONDO_ERR_ID, "the unique id is damaged: its checksum does not fit; copy all %d bytes",
                        RONDO_UNIQUE_ID_BYTES);
    if (bytes[AT_VERSION] != VERSION || count > RI_ENDPOINTS_MAX)
        return ri_error(RONDO_ERR_ID, "the unique id has version %d, this library reads %d",
                        bytes[AT_VERSION], VERSION);
    memcpy(meeting->token, bytes + AT_TOKEN, RI_TOKEN_BYTES);
    meeting->endpoint_count = 0;
    for (int i = 0; i < count; i++) {
        struct ri_endpoint *it = &meeting->endpoints[meeting->endpoint_count];

        read_endpoint(bytes + AT_ENDPOINTS + i * ENDPOINT_BYTES, port, it);
        meeting->endpoint_count += here || count == 1 || !is_loopback(it);
    }
    return 0;
}

static void write_id(rondo_unique_id_t *id, const uint8_t *token, int port,
                     const struct ri_endpoint *endpoints, int count)
{
    uint8_t *bytes = id->bytes;

    memset(bytes, 0, sizeof(id->bytes));
    memcpy(bytes, magic, sizeof(magic));
    bytes[AT_VERSION] = VERSION;
    bytes[AT_COUNT] = (uint8_t)count;
    ri_put(bytes + AT_PORT, (uint64_t)port, 2);
    ri_put(bytes + AT_MACHINE, machine_number(), 4);
    memcpy(bytes + AT_TOKEN, token, RI_TOKEN_BYTES);
    for (int i = 0; i < count; i++)
        write_endpoint(&endpoints[i], bytes + AT_ENDPOINTS + i * ENDPOINT_BYTES);
    ri_put(bytes + AT_CHECK, ri_fnv(RI_FNV_START, bytes, AT_CHECK), 8);
}

int ri_unique_id_make(const char *interface, rondo_unique_id_t *id)
{
    struct ri_endpoint endpoints[RI_ENDPOINTS_MAX];
    int count = find_addresses(interface, endpoints), fd, err;
    uint8_t token[RI_TOKEN_BYTES];

    if (count < 0)
        return ri_error(RONDO_ERR_SYSTEM, "cannot list network interfaces: %s", ri_errno_text(count));
    if (!count && interface[0])
        return ri_error(RONDO_ERR_ARGUMENT, "RONDO_INTERFACE='%.64s': no such interface is up and has an "
                        "address", interface);
    if (!count)
        return ri_error(RONDO_ERR_SYSTEM, "no network interface is up, not even loopback");
    if (getrandom(token, sizeof(token), 0) != (ssize_t)sizeof(token))
        return ri_error(RONDO_ERR_SYSTEM, "no random bytes for a unique id: %s", strerror(errno));
    for (int i = 0; i < count; i++) /* the system's, and any port */
        ((struct sockaddr_in *)&endpoints[i].address)->sin_port = 0;
    fd = open_socket(interface, &endpoints[0]);
    if (fd < 0)
        return ri_error(RONDO_ERR_SYSTEM, "cannot listen for ranks: %s", ri_errno_text(fd));
    err = keep_socket(token, fd);
    if (err) {
        close(fd);
        return err;
    }
    write_id(id, token, ri_tcp_port(fd), endpoints, interface[0] ? 1 : count);
    return 0;
}

rondo_status_t rondo_unique_id_get(rondo_unique_id_t *id)
{
    struct ri_config config;
    int err;

    if (!id)
        return ri_error(RONDO_ERR_ARGUMENT, "id is NULL");
    err = ri_config_load(&config);
    if (err)
        return err;
    err = ri_unique_id_make(config.interface, id);
    ri_config_release(&config);
    return err;
}
