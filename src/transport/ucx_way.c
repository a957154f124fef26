/* SPDX-License-Identifier: Apache-2.0 */
/* How UCX reaches a peer, in words.  UCX 1.13 tells it in the text of ucp_ep_print_info alone, with a line
 * for each lane, such as
 *     lane[0]:  2:tcp/eth0.0 md[1]  -> md[1]/tcp/sysdev[255] am am_bw#0 keepalive wireup
 * and so do the versions after it.  What cannot be read is left out. */
#include "transport/ucx_private.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"

enum { LANES_MAX = 16, NAME_BYTES = 48, TEXT_BYTES = 320 };

struct ri_ucx_way {
    struct ri_ucx_way *next;
    char text[TEXT_BYTES];
};

struct lane {
    char transport[NAME_BYTES], device[NAME_BYTES];
};

/* Copies up to any of `ends`; 0 when nothing is there, or it is too long. */
static size_t take_word(const char *from, const char *ends, char word[NAME_BYTES])
{
    size_t length = strcspn(from, ends);

    if (length == 0 || length >= NAME_BYTES)
        return 0;
    memcpy(word, from, length);
    word[length] = '\0';
    return length;
}

/* "  2:tcp/eth0.0 md[1] ..." -> tcp, eth0.  Returns whether it has that form. */
static int read_lane(const char *text, struct lane *lane)
{
    size_t length;
    char *path;

    while (*text == ' ' || isdigit((unsigned char)*text))
        text++;
    if (*text++ != ':')
        return 0;
    length = take_word(text, "/ \n", lane->transport);
    if (!length || text[length] != '/' || !take_word(text + length + 1, " \n", lane->device))
        return 0;
    path = strrchr(lane->device, '.');
    if (path && path[1 + strspn(path + 1, "0123456789")] == '\0')
        *path = '\0';
    return 1;
}

static int read_lanes(const char *info, struct lane lanes[LANES_MAX])
{
    int n = 0;

    for (const char *at = strstr(info, "lane["); at && n < LANES_MAX; at = strstr(at + 1, "lane[")) {
        const char *end = strstr(at, "]:");

        if (end && read_lane(end + 2, &lanes[n]))
            n++;
    }
    return n;
}

static int ask_for_lanes(ucp_ep_h endpoint, struct lane lanes[LANES_MAX])
{
    char *info = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&info, &bytes);
    int n = 0;

    if (!stream)
        return 0;
    ucp_ep_print_info(endpoint, stream);
    if (!fclose(stream))
        n = read_lanes(info, lanes);
    free(info);
    return n;
}

static int is_first(const struct lane *lanes, int i)
{
    for (int j = 0; j < i; j++)
        if (strcmp(lanes[i].transport, lanes[j].transport) == 0 &&
            strcmp(lanes[i].device, lanes[j].device) == 0)
            return 0;
    return 1;
}

static int is_tcp_alone(const struct lane *lanes, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(lanes[i].transport, "tcp") != 0)
            return 0;
    return n > 0;
}

/* Shared memory has no device to tell. */
static int has_device(const struct lane *lane)
{
    return strncmp(lane->device, "memory", 6) != 0;
}

static void describe(const struct ri_ucx_peer *peer, const struct lane *lanes, int n, char text[TEXT_BYTES])
{
    size_t used = (size_t)snprintf(text, TEXT_BYTES, "ucx");

    for (int i = 0; i < n; i++) {
        if (!is_first(lanes, i) || used + 2 * NAME_BYTES + 80 > TEXT_BYTES)
            continue;
        used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%s%s", used == 3 ? ": " : ", ",
                                 lanes[i].transport);
        if (has_device(&lanes[i]))
            used += (size_t)snprintf(text + used, TEXT_BYTES - used, " on %s", lanes[i].device);
    }
    snprintf(text + used, TEXT_BYTES - used, ", error mode %s",
             peer->remote ? "peer, as it is on another host" : "none, on the same host");
}

/* The one with this text, or a new one; NULL: no memory. */
static const struct ri_ucx_way *way_of(struct ri_ucx *self, const char *text)
{
    struct ri_ucx_way *way = self->ways;

    while (way && strcmp(way->text, text) != 0)
        way = way->next;
    if (way)
        return way;
    way = calloc(1, sizeof(*way));
    if (!way)
        return NULL;
    snprintf(way->text, sizeof(way->text), "%s", text);
    way->next = self->ways;
    self->ways = way;
    return way;
}

/* "1, 2, 3, ..": the ranks whose way it is, as many as fit; how many there are. */
static int list_peers(const struct ri_ucx *self, const struct ri_ucx_way *way, char *list, size_t bytes)
{
    size_t used = 0;
    int n = 0;

    for (int r = 0; r < self->base.ranks; r++) {
        if (self->peers[r].way != way || r == self->base.rank)
            continue;
        if (used + 16 < bytes)
            used += (size_t)snprintf(list + used, bytes - used, "%s%d", n ? ", " : "", r);
        else if (used + 4 < bytes && list[used - 1] != '.')
            used += (size_t)snprintf(list + used, bytes - used, " ..");
        n++;
    }
    return n;
}

static void log_ways(const struct ri_ucx *self)
{
    char list[128];

    if (!ri_log_on(RI_LOG_INFO, "transport"))
        return;
    for (const struct ri_ucx_way *way = self->ways; way; way = way->next) {
        int n = list_peers(self, way, list, sizeof(list));

        if (n > 0)
            ri_log(RI_LOG_INFO, "transport", "rank %d reaches %d rank%s (%s) by %s", self->base.rank, n,
                   n > 1 ? "s" : "", list, way->text);
    }
}

int ri_ucx_find_ways(struct ri_ucx *self)
{
    struct lane lanes[LANES_MAX];
    char text[TEXT_BYTES];
    int n;

    for (int r = 0; r < self->base.ranks; r++) {
        struct ri_ucx_peer *peer = &self->peers[r];

        if (!peer->endpoint)
            continue;
        n = ask_for_lanes(peer->endpoint, lanes);
        describe(peer, lanes, n, text);
        peer->tcp_alone[0] = (uint8_t)is_tcp_alone(lanes, n);
        peer->way = way_of(self, text);
        if (!peer->way)
            return ri_error(RONDO_ERR_MEMORY, "no memory for the way to rank %d", r);
    }
    log_ways(self);
    return 0;
}

void ri_ucx_free_ways(struct ri_ucx *self)
{
    while (self->ways) {
        struct ri_ucx_way *way = self->ways;

        self->ways = way->next;
        free(way);
    }
}

const char *ri_ucx_way_text(const struct ri_ucx_peer *peer)
{
    return peer->way ? peer->way->text : "ucx: not connected";
}
