/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/bootstrap.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/analyzer.h"
#include "base/clock.h"
#include "base/status.h"
#include "comm/bytes.h"
#include "comm/comm.h"

#define TELL_EVERY_NS 200000000     /* rank 0 says whom it waits for */
#define UNSENT_MS 2                 /* when to try again what a socket did not take */
#define ASIDE_MS 1                  /* when to look again after other things under way */
#define SHARED_MS 20                /* when to look whether another thread has taken what we wait for */

/* Of a rank other than 0 there is one peer: rank 0, at index 0. */
static int is_there(const struct ri_peer *peer)
{
    return peer->link.fd >= 0;
}

int ri_ms_until(int64_t deadline_ns, int cap_ms)
{
    int64_t left_ns = deadline_ns - ri_now_ns();

    if (left_ns <= 0)
        return 0;
    return left_ns / 1000000 >= cap_ms ? cap_ms : (int)(left_ns / 1000000) + 1;
}

int ri_bootstrap_watch(struct ri_bootstrap *b, int fd, uint64_t data, int is_new)
{
    struct epoll_event event = { .events = EPOLLIN, .data = { .u64 = data } };

    if (epoll_ctl(b->epoll_fd, is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event) < 0)
        return ri_error(RONDO_ERR_SYSTEM, "cannot watch a control connection: %s", strerror(errno));
    return 0;
}

void ri_bootstrap_drop(struct ri_bootstrap *b, struct ri_link *link)
{
    /* By hand: a forked child may share the connection, and would keep it in the set. */
    if (link->fd >= 0)
        epoll_ctl(b->epoll_fd, EPOLL_CTL_DEL, link->fd, NULL);
    ri_link_close(link);
}

void ri_bootstrap_name_missing(const struct ri_bootstrap *b, int (*is_missing)(const struct ri_peer *),
                               char *text, size_t bytes)
{
    size_t used;
    int count = 0, named = 0;

    for (int r = 1; r < b->size; r++)
        count += is_missing(&b->peers[r]) != 0;
    used = (size_t)snprintf(text, bytes, count == 1 ? "rank " : "ranks ");
    for (int r = 1; r < b->size; r++) {
        if (!is_missing(&b->peers[r]))
            continue;
        if (used + 20 > bytes) {
            snprintf(text + used, bytes - used, " ...");
            return;
        }
        used += (size_t)snprintf(text + used, bytes - used, named++ ? ", %d" : "%d", r);
    }
}

void ri_bootstrap_tell_waiting(struct ri_bootstrap *b, int (*is_missing)(const struct ri_peer *),
                               const char *missing)
{
    for (int r = 1; r < b->size; r++)
        if (!is_missing(&b->peers[r]))
            ri_link_send(&b->peers[r].link, b->token, RI_FRAME_WAITING, 0, missing, strlen(missing));
}

/* ---- failure ---- */

int ri_bootstrap_send_fail(struct ri_bootstrap *b, struct ri_link *link, int status, const char *text)
{
    uint8_t payload[4 + RI_TEXT_BYTES];
    size_t bytes = strnlen(text, RI_TEXT_BYTES);

    ri_put(payload, (uint32_t)status, 4);
    memcpy(payload + 4, text, bytes);
    return ri_link_send(link, b->token, RI_FRAME_FAIL, b->rank, payload, 4 + bytes);
}

int ri_bootstrap_read_fail(const struct ri_frame *frame, char *text, size_t bytes)
{
    int status = RONDO_ERR_PEER;

    text[0] = '\0';
    if (frame->bytes < 4)
        return status;
    status = (int32_t)(uint32_t)ri_get((const uint8_t *)frame->payload, 4);
    snprintf(text, bytes, "%.*s", (int)(frame->bytes - 4 < bytes ? frame->bytes - 4 : bytes),
             frame->payload + 4);
    return status < 0 && status >= RONDO_ERR_INTERNAL ? status : RONDO_ERR_PEER;
}

static void spread(struct ri_bootstrap *b, int status, const char *text)
{
    for (int i = 0; i < ri_bootstrap_peers(b); i++)
        ri_bootstrap_send_fail(b, &b->peers[i].link, status, text);
}

static void record(struct ri_bootstrap *b, int status, const char *text)
{
    b->fault = status;
    snprintf(b->fault_text, sizeof(b->fault_text), "%s", text);
}

int ri_bootstrap_fail(struct ri_bootstrap *b, int status, const char *format, ...)
{
    char text[RI_TEXT_BYTES];
    va_list args;

    if (!b->fault) {
        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        record(b, status, text);
        spread(b, status, text);
    }
    return ri_error(b->fault, "%s", b->fault_text);
}

void ri_bootstrap_abort(struct ri_bootstrap *b, const char *reason)
{
    char text[RI_TEXT_BYTES];

    if (!b || b->fault)
        return;
    snprintf(text, sizeof(text), "rank %d gave up: %.200s", b->rank, reason);
    record(b, RONDO_ERR_PEER, text);
    spread(b, RONDO_ERR_PEER, text);
}

/* ---- what comes from a peer ---- */

/* It loses sight of a pointer kept in an array of peers; what took the parts, or leaving, frees them. */
RI_ANALYZER_IGNORE("-Wanalyzer-malloc-leak")
static int part_came(struct ri_bootstrap *b, struct ri_peer *peer, int rank, const struct ri_frame *frame)
{
    if (peer->has_part)
        return ri_bootstrap_fail(b, RONDO_ERR_INTERNAL, "rank %d sent two parts of one exchange", rank);
    peer->part = malloc(frame->bytes + 1);
    if (!peer->part)
        return ri_bootstrap_fail(b, RONDO_ERR_MEMORY, "rank %d: no memory for %zu bytes of rank %d",
                                 b->rank, frame->bytes, rank);
    if (frame->bytes)
        memcpy(peer->part, frame->payload, frame->bytes);
    peer->part_bytes = frame->bytes;
    peer->has_part = 1;
    return 0;
}
RI_ANALYZER_RESUME

/* Rank 0 passes it on; it came to the others from there. */
static int told_of_failure(struct ri_bootstrap *b, int status, const char *text)
{
    if (!b->fault) {
        record(b, status, text);
        b->is_told = 1;
        if (b->rank == 0)
            spread(b, status, text);
    }
    return ri_error(b->fault, "%s", b->fault_text);
}

/* Of rank 0 or of the peer itself; rank 0 passes it on, as the others have no connection. */
static int goodbye_came(struct ri_bootstrap *b, int index, int rank)
{
    int err = 0;

    if (rank < 0 || rank >= b->size || rank == b->rank || (b->rank == 0 && rank != index))
        return ri_bootstrap_fail(b, RONDO_ERR_INTERNAL, "rank %d said goodbye for rank %d", index, rank);
    b->left[rank] = 1;
    if (rank == index && b->rank == 0) /* rank 0 lingers, so the others keep their ends */
        ri_bootstrap_drop(b, &b->peers[index].link);
    for (int r = 1; r < b->size && b->rank == 0 && !err; r++)
        err = ri_link_send(&b->peers[r].link, b->token, RI_FRAME_GOODBYE, rank, NULL, 0);
    return err;
}

static int frame_came(struct ri_bootstrap *b, int index, const struct ri_frame *frame)
{
    struct ri_peer *peer = &b->peers[index];
    char text[RI_TEXT_BYTES];
    int status;

    switch (frame->kind) {
    case RI_FRAME_GATHER:
    case RI_FRAME_ALL:
        return part_came(b, peer, index, frame);
    case RI_FRAME_WAITING:
        snprintf(b->waiting, sizeof(b->waiting), "%.*s",
                 (int)(frame->bytes < sizeof(b->waiting) ? frame->bytes : sizeof(b->waiting) - 1),
                 frame->payload ? frame->payload : "");
        return 0;
    case RI_FRAME_GOODBYE:
        return goodbye_came(b, index, frame->rank);
    case RI_FRAME_FAIL:
        status = ri_bootstrap_read_fail(frame, text, sizeof(text));
        return told_of_failure(b, status, text);
    default:
        return ri_bootstrap_fail(b, RONDO_ERR_INTERNAL, "rank %d sent a control message of kind %d", index,
                                 frame->kind);
    }
}

static int peer_died(struct ri_bootstrap *b, int rank)
{
    ri_bootstrap_drop(b, &b->peers[rank].link);
    if (b->rank != 0 && b->left[0])
        return 0;
    if (b->fault)
        return ri_error(b->fault, "%s", b->fault_text);
    return ri_bootstrap_fail(b, RONDO_ERR_PEER,
                             "rank %d is gone: its process ended without destroying the communicator",
                             rank);
}

/* Takes all that peer `index` has sent. */
static int take(struct ri_bootstrap *b, int index)
{
    struct ri_peer *peer = &b->peers[index];
    struct ri_frame frame;
    int err = 0;

    while (!err && is_there(peer)) {
        switch (ri_link_receive(&peer->link, b->token, RI_FRAME_BYTES_MAX, &frame)) {
        case RI_LINK_IDLE:
            return 0;
        case RI_LINK_FRAME:
            err = frame_came(b, index, &frame);
            break;
        case RI_LINK_CLOSED:
            return peer_died(b, index);
        case RI_LINK_FOREIGN:
            return ri_bootstrap_fail(b, RONDO_ERR_INTERNAL, "rank %d sent a control message out of form",
                                     index);
        }
    }
    return err;
}

int ri_bootstrap_turn(struct ri_bootstrap *b, int wait_ms)
{
    struct epoll_event events[16];
    int n, unsent = 0, err = 0;

    for (int i = 0; i < ri_bootstrap_peers(b); i++) {
        if (!ri_link_unsent(&b->peers[i].link))
            continue;
        ri_link_flush(&b->peers[i].link);
        unsent |= ri_link_unsent(&b->peers[i].link);
    }
    if (unsent && wait_ms > UNSENT_MS)
        wait_ms = UNSENT_MS;
    if (b->pause && wait_ms)
        b->pause(b->aside_context, 1);
    n = epoll_wait(b->epoll_fd, events, 16, wait_ms);
    if (b->pause && wait_ms)
        b->pause(b->aside_context, 0);
    for (int i = 0; i < n && !err; i++)
        err = take(b, (int)events[i].data.u64);
    return err;
}

int ri_bootstrap_poll(struct ri_bootstrap *b)
{
    if (!b)
        return 0;
    if (b->fault)
        return ri_error(b->fault, "%s", b->fault_text);
    return ri_bootstrap_turn(b, 0);
}

int ri_bootstrap_fd(const struct ri_bootstrap *b)
{
    return b->epoll_fd;
}

/* ---- allgather ---- */

static int has_no_part(const struct ri_peer *peer)
{
    return !peer->has_part;
}

static int still_used(struct ri_bootstrap *b, int left)
{
    return ri_bootstrap_fail(b, RONDO_ERR_PEER,
                             "rank %d has destroyed this communicator; the others still use it", left);
}

/* The first rank whose part is missing; 0: all are there.  Fails when it can never come. */
static int first_missing(struct ri_bootstrap *b, int *err)
{
    int missing = 0;

    for (int r = 1; r < b->size; r++) {
        if (b->peers[r].has_part)
            continue;
        if (!missing)
            missing = r;
        if (b->left[r])
            *err = still_used(b, r);
    }
    return missing;
}

/* A turn of an exchange, in which other things move too. */
static int exchange_turn(struct ri_bootstrap *b, int wait_ms)
{
    if (b->aside && b->aside(b->aside_context) && wait_ms > ASIDE_MS)
        wait_ms = ASIDE_MS;
    if (b->pause && wait_ms > SHARED_MS)
        wait_ms = SHARED_MS;
    if (b->fault) /* one of those has failed */
        return ri_error(b->fault, "%s", b->fault_text);
    return ri_bootstrap_turn(b, wait_ms);
}

static int has_unsent(const struct ri_peer *peer)
{
    return ri_link_unsent(&peer->link);
}

int ri_bootstrap_any_unsent(const struct ri_bootstrap *b)
{
    int unsent = 0;

    for (int i = 0; i < ri_bootstrap_peers(b); i++)
        unsent |= has_unsent(&b->peers[i]);
    return unsent;
}

/* Rank 0 may not look at its connections for long after an exchange, so all must be out by then. */
static int send_rest(struct ri_bootstrap *b, int64_t deadline_ns)
{
    char slow[160];
    int err = 0;

    while (!err && ri_bootstrap_any_unsent(b)) {
        int wait_ms = ri_ms_until(deadline_ns, 1000);

        err = exchange_turn(b, wait_ms);
        if (err || wait_ms || !ri_bootstrap_any_unsent(b))
            continue;
        ri_bootstrap_name_missing(b, has_unsent, slow, sizeof(slow));
        err = ri_bootstrap_fail(b, RONDO_ERR_TIMEOUT, "%s did not take in time what was exchanged", slow);
    }
    return err;
}

static int await_parts(struct ri_bootstrap *b, int64_t deadline_ns)
{
    int64_t begin_ns = ri_now_ns(), tell_ns = begin_ns + TELL_EVERY_NS;
    char missing[160];
    int err = 0;

    while (first_missing(b, &err) && !err) {
        int64_t now_ns = ri_now_ns();

        if (now_ns >= tell_ns) {
            ri_bootstrap_name_missing(b, has_no_part, missing, sizeof(missing));
            ri_bootstrap_tell_waiting(b, has_no_part, missing);
            tell_ns = now_ns + TELL_EVERY_NS;
        }
        err = exchange_turn(b, ri_ms_until(deadline_ns < tell_ns ? deadline_ns : tell_ns, 1000));
        if (err || now_ns < deadline_ns || !first_missing(b, &err) || err)
            continue; /* what had come in time counts, however late we look */
        ri_bootstrap_name_missing(b, has_no_part, missing, sizeof(missing));
        err = ri_bootstrap_fail(b, RONDO_ERR_TIMEOUT, "%s did not come within %.3f s", missing,
                                (double)(now_ns - begin_ns) / 1e9);
    }
    return err;
}

/* Takes the part of a peer, of which `bytes` are due. */
static int use_part(struct ri_bootstrap *b, int index, void *to, size_t bytes)
{
    struct ri_peer *peer = &b->peers[index];
    int err = 0;

    if (peer->part_bytes == bytes && bytes)
        memcpy(to, peer->part, bytes);
    else if (peer->part_bytes != bytes)
        err = ri_bootstrap_fail(b, RONDO_ERR_MISMATCH,
                                "rank %d exchanges %zu bytes where rank %d expects %zu: they are not in the "
                                "same call", index, peer->part_bytes, b->rank, bytes);
    free(peer->part);
    peer->part = NULL;
    peer->has_part = 0;
    return err;
}

static int gather_root(struct ri_bootstrap *b, const void *mine, size_t bytes, char *all,
                       int64_t deadline_ns)
{
    int err = await_parts(b, deadline_ns);

    if (err)
        return err;
    if (bytes)
        memcpy(all, mine, bytes);
    for (int r = 1; r < b->size && !err; r++)
        err = use_part(b, r, all + (size_t)r * bytes, bytes);
    for (int r = 1; r < b->size && !err; r++)
        err = ri_link_send(&b->peers[r].link, b->token, RI_FRAME_ALL, 0, all, (size_t)b->size * bytes);
    return err ? err : send_rest(b, deadline_ns);
}

static int gather_leaf(struct ri_bootstrap *b, const void *mine, size_t bytes, char *all,
                       int64_t deadline_ns)
{
    int64_t begin_ns = ri_now_ns();
    struct ri_peer *root = &b->peers[0];
    int err = ri_link_send(&root->link, b->token, RI_FRAME_GATHER, b->rank, mine, bytes);

    b->waiting[0] = '\0';
    while (!err && !root->has_part) {
        int wait_ms = ri_ms_until(deadline_ns, 1000);

        for (int r = 0; r < b->size; r++)
            if (b->left[r])
                return still_used(b, r);
        err = exchange_turn(b, wait_ms);
        if (!err && !wait_ms && !root->has_part)
            err = ri_bootstrap_fail(b, RONDO_ERR_TIMEOUT, "%.160s did not come within %.3f s",
                                    b->waiting[0] ? b->waiting : "rank 0",
                                    (double)(ri_now_ns() - begin_ns) / 1e9);
    }
    return err ? err : use_part(b, 0, all, (size_t)b->size * bytes);
}

int ri_bootstrap_allgather(struct ri_bootstrap *b, const void *mine, size_t bytes, void *all,
                           int64_t deadline_ns)
{
    if (b->fault)
        return ri_error(b->fault, "%s", b->fault_text);
    if (bytes > RI_FRAME_BYTES_MAX / (size_t)b->size)
        return ri_bootstrap_fail(b, RONDO_ERR_INTERNAL, "an exchange of %zu bytes is too long", bytes);
    if (b->rank == 0)
        return gather_root(b, mine, bytes, all, deadline_ns);
    return gather_leaf(b, mine, bytes, all, deadline_ns);
}
