/* SPDX-License-Identifier: Apache-2.0 */
/* How a group comes together: rank 0 listens, the others connect and say who they are. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "comm/bootstrap.h"
#include "comm/bytes.h"

#define STRANGERS_MAX 256            /* connections that have not said who they are */
#define HELLO_NS 5000000000          /* how long they may take to */
#define LINGER_NS 1000000000         /* after a mismatch: to tell the ranks that still come */
#define CONNECT_TRY_NS 2000000000    /* one address */
#define TELL_EVERY_NS 200000000
#define LAST_WORD_NS 300000000       /* so that rank 0, which began later, can still say who is missing */

enum { HELLO_BYTES = 4 };
#define DATA_LISTEN ((uint64_t)1 << 40)
#define DATA_STRANGER ((uint64_t)1 << 41)

struct stranger {
    struct ri_link link;
    int64_t give_up_ns;
};

struct forming {
    struct ri_bootstrap *b;
    int listen_fd;
    struct stranger strangers[STRANGERS_MAX];
    int present;        /* ranks besides 0 */
    int foreign;        /* connections turned away */
    int64_t deadline_ns, end_ns; /* end_ns: deadline, or earlier after a mismatch */
    char mismatch[RI_TEXT_BYTES];
    char refused[RI_TEXT_BYTES]; /* the last rank whose number was taken; " (...)" */
};

/* ---- rank 0 ---- */

static void turn_away(struct forming *f, struct stranger *it, const char *why)
{
    ri_bootstrap_drop(f->b, &it->link);
    ri_log(f->foreign++ ? RI_LOG_DEBUG : RI_LOG_WARN, "comm",
           "a connection to the bootstrap port is not of this group (%s); such are ignored", why);
}

static struct stranger *free_place(struct forming *f)
{
    struct stranger *oldest = &f->strangers[0];

    for (int i = 0; i < STRANGERS_MAX; i++) {
        if (f->strangers[i].link.fd < 0)
            return &f->strangers[i];
        if (f->strangers[i].give_up_ns < oldest->give_up_ns)
            oldest = &f->strangers[i];
    }
    turn_away(f, oldest, "silent, and others wait");
    return oldest;
}

static int drop_strangers(struct forming *f, int64_t now_ns)
{
    int dropped = 0;

    for (int i = 0; i < STRANGERS_MAX; i++) {
        if (f->strangers[i].link.fd < 0 || f->strangers[i].give_up_ns > now_ns)
            continue;
        turn_away(f, &f->strangers[i], "silent");
        dropped++;
    }
    return dropped;
}

/* accept also reports what went wrong with the connection it would have given. */
static int is_our_trouble(int fault)
{
    return fault == EMFILE || fault == ENFILE || fault == ENOBUFS || fault == ENOMEM || fault == EBADF ||
           fault == EINVAL || fault == ENOTSOCK;
}

static int accept_some(struct forming *f)
{
    for (int turns = 0; turns < STRANGERS_MAX; turns++) {
        int fd = accept4(f->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        struct stranger *place;

        if (fd < 0 && errno == EAGAIN)
            return 0;
        if (fd < 0 && (errno == EMFILE || errno == ENFILE) && drop_strangers(f, INT64_MAX))
            continue;
        if (fd < 0 && is_our_trouble(errno))
            return ri_bootstrap_fail(f->b, RONDO_ERR_SYSTEM, "rank 0 cannot accept a rank: %s",
                                     ri_errno_text(errno));
        if (fd < 0)
            continue; /* it has gone again */
        place = free_place(f);
        ri_link_open(&place->link, fd);
        place->give_up_ns = ri_now_ns() + HELLO_NS;
        if (ri_bootstrap_watch(f->b, fd, DATA_STRANGER | (uint64_t)(place - f->strangers), 1))
            return RONDO_ERR_SYSTEM;
    }
    return 0;
}

/* Takes what a rank that has come says while it waits: nothing, or that it goes again. */
static void hear(struct forming *f, int rank)
{
    struct ri_peer *peer = &f->b->peers[rank];
    struct ri_frame frame;
    enum ri_link_event event;

    do
        event = ri_link_receive(&peer->link, f->b->token, RI_TEXT_BYTES + 4, &frame);
    while (event == RI_LINK_FRAME && frame.kind != RI_FRAME_HELLO && frame.kind != RI_FRAME_FAIL);
    if (event == RI_LINK_IDLE || peer->link.fd < 0)
        return;
    ri_bootstrap_drop(f->b, &peer->link); /* it may come again, and be counted then */
    f->present--;
}

static void refuse(struct forming *f, struct stranger *it, const char *text)
{
    ri_log(RI_LOG_WARN, "comm", "%s", text);
    ri_bootstrap_send_fail(f->b, &it->link, RONDO_ERR_MISMATCH, text);
    ri_bootstrap_drop(f->b, &it->link);
}

static void mismatch(struct forming *f, struct stranger *it, const char *text)
{
    if (!f->mismatch[0]) {
        snprintf(f->mismatch, sizeof(f->mismatch), "%s", text);
        f->end_ns = ri_now_ns() + LINGER_NS < f->deadline_ns ? ri_now_ns() + LINGER_NS : f->deadline_ns;
    }
    refuse(f, it, text);
}

static int hello_came(struct forming *f, struct stranger *it, const struct ri_frame *frame)
{
    int rank = frame->rank, size, err;
    char text[128];

    if (frame->kind != RI_FRAME_HELLO || frame->bytes != HELLO_BYTES) {
        turn_away(f, it, "says something else than hello");
        return 0;
    }
    size = (int32_t)(uint32_t)ri_get((const uint8_t *)frame->payload, 4);
    if (size != f->b->size) {
        snprintf(text, sizeof(text), "rank %d believes in a group of %d ranks, rank 0 in %d", rank, size,
                 f->b->size);
        mismatch(f, it, text);
        return 0;
    }
    if (rank < 1 || rank >= size) {
        snprintf(text, sizeof(text), "a rank %d came to a group of %d", rank, size);
        mismatch(f, it, text);
        return 0;
    }
    if (f->b->peers[rank].link.fd >= 0)
        hear(f, rank); /* is the one who had this number still there? */
    if (f->b->peers[rank].link.fd >= 0) {
        snprintf(text, sizeof(text), "two processes say that they are rank %d", rank);
        snprintf(f->refused, sizeof(f->refused), " (%s)", text);
        refuse(f, it, text);
        return 0;
    }
    f->b->peers[rank].link = it->link;
    it->link = (struct ri_link){ .fd = -1 };
    f->present++;
    err = ri_bootstrap_watch(f->b, f->b->peers[rank].link.fd, (uint64_t)rank, 0);
    if (!err)
        hear(f, rank); /* what came with the hello; it may be the last rank we wait for */
    return err;
}

static int listen_to_stranger(struct forming *f, struct stranger *it)
{
    struct ri_frame frame;

    if (it->link.fd < 0)
        return 0;
    switch (ri_link_receive(&it->link, f->b->token, HELLO_BYTES, &frame)) {
    case RI_LINK_FRAME:
        return hello_came(f, it, &frame);
    case RI_LINK_CLOSED:
        turn_away(f, it, "closed again");
        break;
    case RI_LINK_FOREIGN:
        turn_away(f, it, "not our header, or another group's");
        break;
    case RI_LINK_IDLE:
        break;
    }
    return 0;
}

static int is_absent(const struct ri_peer *peer)
{
    return peer->link.fd < 0;
}

static int forming_turn(struct forming *f, int wait_ms)
{
    struct epoll_event events[32];
    int n = epoll_wait(f->b->epoll_fd, events, 32, wait_ms), err = 0;

    for (int i = 0; i < n && !err; i++) {
        uint64_t data = events[i].data.u64;

        if (data == DATA_LISTEN)
            err = accept_some(f);
        else if (data & DATA_STRANGER)
            err = listen_to_stranger(f, &f->strangers[data & (DATA_STRANGER - 1)]);
        else
            hear(f, (int)data);
    }
    return err;
}

static int gather_ranks(struct forming *f)
{
    int64_t begin_ns = ri_now_ns(), tell_ns = begin_ns + TELL_EVERY_NS;
    char missing[120];
    int err = 0;

    while (!err && f->present < f->b->size - 1) {
        int64_t now_ns = ri_now_ns();

        if (now_ns >= f->end_ns)
            break;
        drop_strangers(f, now_ns);
        if (now_ns >= tell_ns) {
            ri_bootstrap_name_missing(f->b, is_absent, missing, sizeof(missing));
            ri_bootstrap_tell_waiting(f->b, is_absent, missing);
            tell_ns = now_ns + TELL_EVERY_NS;
        }
        err = forming_turn(f, ri_ms_until(f->end_ns < tell_ns ? f->end_ns : tell_ns, 1000));
    }
    if (err)
        return err;
    if (f->mismatch[0])
        return ri_bootstrap_fail(f->b, RONDO_ERR_MISMATCH, "%s", f->mismatch);
    if (f->present == f->b->size - 1)
        return 0;
    ri_bootstrap_name_missing(f->b, is_absent, missing, sizeof(missing));
    return ri_bootstrap_fail(f->b, RONDO_ERR_TIMEOUT, "%s of %d did not come within %.3f s%s", missing,
                             f->b->size, (double)(ri_now_ns() - begin_ns) / 1e9, f->refused);
}

static int form_root(struct ri_bootstrap *b, const struct ri_bootstrap_params *params)
{
    struct forming *f = calloc(1, sizeof(*f));
    int err;

    if (!f)
        return ri_error(RONDO_ERR_MEMORY, "no memory to form a group");
    f->b = b;
    f->listen_fd = params->listen_fd;
    f->deadline_ns = f->end_ns = params->deadline_ns;
    for (int i = 0; i < STRANGERS_MAX; i++)
        f->strangers[i].link.fd = -1;
    err = ri_bootstrap_watch(b, f->listen_fd, DATA_LISTEN, 1);
    if (!err)
        err = gather_ranks(f);
    epoll_ctl(b->epoll_fd, EPOLL_CTL_DEL, f->listen_fd, NULL);
    for (int i = 0; i < STRANGERS_MAX; i++)
        ri_bootstrap_drop(b, &f->strangers[i].link);
    free(f);
    for (int r = 1; r < b->size && !err; r++)
        err = ri_link_send(&b->peers[r].link, b->token, RI_FRAME_WELCOME, 0, NULL, 0);
    return err;
}

/* ---- the others ---- */

enum outcome {
    UNREACHED, /* nobody listens there */
    SILENT,    /* somebody listens, and has said nothing */
    FOREIGN,   /* it says something else, or closes */
    JOINED,
    FAILED
};

static int wait_for(int fd, short events, int64_t deadline_ns)
{
    struct pollfd it = { fd, events, 0 };
    int n;

    do
        n = poll(&it, 1, ri_ms_until(deadline_ns, 1000));
    while (n <= 0 && ri_now_ns() < deadline_ns);
    return n > 0;
}

/* Connects; 0 or -errno. */
static int reach(const struct ri_endpoint *endpoint, int64_t deadline_ns, int *fd_p)
{
    int64_t try_ns = ri_now_ns() + CONNECT_TRY_NS;
    int fd, err = ri_tcp_connect(endpoint, &fd);

    if (err)
        return err;
    err = wait_for(fd, POLLOUT, try_ns < deadline_ns ? try_ns : deadline_ns) ? ri_tcp_connected(fd)
                                                                             : -ETIMEDOUT;
    if (err)
        close(fd);
    else
        *fd_p = fd;
    return err;
}

/* Waits for rank 0's word on a connection on which we have said hello. */
static enum outcome await_welcome(struct ri_bootstrap *b, int64_t deadline_ns, int *err)
{
    struct ri_link *link = &b->peers[0].link;
    struct ri_frame frame;
    char text[RI_TEXT_BYTES];

    while (wait_for(link->fd, POLLIN, deadline_ns)) {
        enum ri_link_event event = ri_link_receive(link, b->token, RI_TEXT_BYTES + 4, &frame);

        if (event == RI_LINK_IDLE)
            continue;
        if (event != RI_LINK_FRAME)
            return FOREIGN;
        if (frame.kind == RI_FRAME_WELCOME)
            return JOINED;
        if (frame.kind == RI_FRAME_WAITING && frame.bytes < sizeof(b->waiting)) {
            memcpy(b->waiting, frame.payload, frame.bytes);
            b->waiting[frame.bytes] = '\0';
        } else if (frame.kind == RI_FRAME_FAIL) {
            *err = ri_bootstrap_read_fail(&frame, text, sizeof(text));
            ri_error(*err, "%s", text);
            return FAILED;
        } else {
            return FOREIGN;
        }
    }
    return SILENT;
}

static enum outcome try_to_join(struct ri_bootstrap *b, const struct ri_endpoint *endpoint,
                                int64_t deadline_ns, int *err)
{
    uint8_t hello[HELLO_BYTES];
    enum outcome outcome;
    int fd;

    *err = reach(endpoint, deadline_ns, &fd);
    if (*err == -EMFILE || *err == -ENFILE) { /* waiting does not help, as for a rank 0 that is late */
        *err = ri_error(RONDO_ERR_SYSTEM, "rank %d has no descriptor to reach rank 0: %s", b->rank,
                        ri_errno_text(*err));
        return FAILED;
    }
    if (*err)
        return UNREACHED;
    ri_link_open(&b->peers[0].link, fd);
    ri_put(hello, (uint32_t)b->size, 4);
    if (ri_link_send(&b->peers[0].link, b->token, RI_FRAME_HELLO, b->rank, hello, sizeof(hello))) {
        *err = RONDO_ERR_MEMORY;
        return FAILED;
    }
    outcome = await_welcome(b, deadline_ns + LAST_WORD_NS, err);
    if (outcome != JOINED)
        ri_link_close(&b->peers[0].link);
    return outcome;
}

/* at: where we tried last, or NULL */
static int nobody_came(const struct ri_bootstrap *b, const struct ri_endpoint *at, int64_t begin_ns,
                       enum outcome last, int why)
{
    double seconds = (double)(ri_now_ns() - begin_ns) / 1e9;
    const char *text = ri_errno_text(why);
    char name[80] = "nowhere";

    if (b->waiting[0])
        return ri_error(RONDO_ERR_TIMEOUT, "%s of %d did not come within %.3f s", b->waiting, b->size,
                        seconds);
    if (at)
        ri_tcp_name(at, name, sizeof(name));
    if (last == SILENT)
        text = "it accepts connections, but rank 0 has not answered";
    if (last == FOREIGN)
        text = "the port answers, but not as this group";
    return ri_error(RONDO_ERR_TIMEOUT, "rank 0 of %d did not come to %s within %.3f s (%s)", b->size, name,
                    seconds, text);
}

static int form_leaf(struct ri_bootstrap *b, const struct ri_bootstrap_params *params)
{
    const struct ri_endpoint *at = NULL;
    enum outcome outcome = UNREACHED;
    int64_t begin_ns = ri_now_ns();
    int wait_ms = 1, err = -ETIMEDOUT;

    do { /* once in any case, so that who came late has something to say */
        for (int i = 0; i < params->endpoint_count && (!at || ri_now_ns() < params->deadline_ns); i++) {
            enum outcome now = try_to_join(b, &params->endpoints[i], params->deadline_ns, &err);

            if (now == JOINED)
                return ri_bootstrap_watch(b, b->peers[0].link.fd, 0, 1);
            if (now == FAILED)
                return err;
            if (now == SILENT && outcome == FOREIGN)
                continue; /* what it has said says more than its silence at the end of our time */
            at = &params->endpoints[i];
            outcome = now;
        }
        poll(NULL, 0, ri_ms_until(params->deadline_ns, wait_ms)); /* rank 0 may be late */
        wait_ms = wait_ms < 50 ? 2 * wait_ms : 50;
    } while (ri_now_ns() < params->deadline_ns);
    return nobody_came(b, at, begin_ns, outcome, err);
}

int ri_bootstrap_create(const struct ri_bootstrap_params *params, struct ri_bootstrap **bootstrap)
{
    struct ri_bootstrap *b = calloc(1, sizeof(*b));
    int peers = params->rank == 0 ? params->size : 1;
    int err = RONDO_ERR_MEMORY;

    if (!b)
        return ri_error(err, "no memory for a group of %d ranks", params->size);
    b->rank = params->rank;
    b->size = params->size;
    memcpy(b->token, params->token, sizeof(b->token));
    b->peers = calloc((size_t)peers, sizeof(*b->peers));
    b->left = calloc((size_t)params->size, sizeof(*b->left));
    for (int i = 0; b->peers && i < peers; i++)
        b->peers[i].link.fd = -1;
    b->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (!b->peers || !b->left)
        ri_error(err, "no memory for a group of %d ranks", params->size);
    else if (b->epoll_fd < 0)
        err = ri_error(RONDO_ERR_SYSTEM, "no descriptor for the control connections: %s",
                       ri_errno_text(errno));
    else
        err = b->rank == 0 ? form_root(b, params) : form_leaf(b, params);
    if (err)
        ri_bootstrap_destroy(b);
    else
        *bootstrap = b;
    return err;
}
