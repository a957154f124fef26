/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_BOOTSTRAP_H
#define RI_BOOTSTRAP_H

#include <stdint.h>

#include "comm/tcp.h"

/* The control connections: a star, rank 0 in the middle.  The calls that the rest of the library
 * makes are in comm.h; here is what form.c, which makes a star, and bootstrap.c, which uses it, share. */

#define RI_TEXT_BYTES 256

struct ri_peer {
    struct ri_link link;
    int has_part; /* a GATHER (or ALL) has come that nobody has taken yet */
    char *part;
    size_t part_bytes;
};

struct ri_bootstrap {
    int rank, size;
    uint8_t token[RI_TOKEN_BYTES];
    int epoll_fd;          /* level triggered; data is the index into peers */
    struct ri_peer *peers; /* rank 0: [size], its own unused; another rank: [1], rank 0 */
    uint8_t *left;         /* [size] the rank has said goodbye; rank 0 passes it on */
    int fault;             /* first failure of the group; stays */
    int is_told;           /* another rank has found it */
    char fault_text[RI_TEXT_BYTES];
    char waiting[RI_TEXT_BYTES]; /* whom rank 0 waits for, as it told us last */
    int (*aside)(void *context); /* called while an exchange waits, to move other things; 1: there are
                                  * some under way, so wait briefly.  NULL: there are none */
    void (*pause)(void *context, int begin); /* around each sleep of an exchange, in which other threads
                                              * may look here.  NULL: there are none */
    void *aside_context;
    int is_leaving;        /* has said goodbye itself */
    int64_t last_words_ns; /* until when what it has said may take to get out, */
    int64_t linger_ns;     /* and until when it hears the others */
    struct ri_bootstrap *next_leaving; /* comm/family.c's */
};

struct ri_bootstrap_params {
    int rank, size; /* size >= 2 */
    const uint8_t *token;
    int listen_fd;  /* rank 0: a listening socket; borrowed for the call */
    const struct ri_endpoint *endpoints; /* others: where to try, in this order */
    int endpoint_count;
    int64_t deadline_ns;
};

/* Collective.  Strays on the port are ignored, whatever they send or do not send.  At the deadline
 * RONDO_ERR_TIMEOUT names the ranks that did not come; RONDO_ERR_MISMATCH: a rank with another size, or
 * out of range, or a number that is taken. */
int ri_bootstrap_create(const struct ri_bootstrap_params *params, struct ri_bootstrap **bootstrap);

/* Says goodbye.  stays: whether there is anything left to say or to pass on, for which it has then taken a
 * turn of wait_ms at most; 0: it can be destroyed at once. */
void ri_bootstrap_leave(struct ri_bootstrap *bootstrap);
int ri_bootstrap_stays(struct ri_bootstrap *bootstrap, int wait_ms);

/* Local: leaves if it has not yet, stays to the end, and frees.  The others do not take it for a death,
 * because it has said goodbye.  NULL is a no-op. */
void ri_bootstrap_destroy(struct ri_bootstrap *bootstrap);

/* Flushes, waits at most wait_ms for something to come, and takes it. */
int ri_bootstrap_turn(struct ri_bootstrap *b, int wait_ms);
/* Whether something said has not left this process yet. */
int ri_bootstrap_any_unsent(const struct ri_bootstrap *b);

/* Connections of this rank: rank 0 has one slot for each rank, the others one, to rank 0. */
static inline int ri_bootstrap_peers(const struct ri_bootstrap *b)
{
    return b->rank == 0 ? b->size : 1;
}

/* Readable when ri_bootstrap_poll has something to see. */
int ri_bootstrap_fd(const struct ri_bootstrap *bootstrap);

/* ---- between form.c and bootstrap.c ---- */

int ri_bootstrap_watch(struct ri_bootstrap *bootstrap, int fd, uint64_t data, int is_new);
/* Records the group's first failure, lets every rank we can reach know, and returns it. */
int ri_bootstrap_fail(struct ri_bootstrap *bootstrap, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Reads a FAIL frame: returns its status, and its text. */
int ri_bootstrap_read_fail(const struct ri_frame *frame, char *text, size_t bytes);
int ri_bootstrap_send_fail(struct ri_bootstrap *bootstrap, struct ri_link *link, int status,
                           const char *text);
/* "ranks 2, 5" or "rank 3", of those for which is_missing says so; cut with "..." when long. */
void ri_bootstrap_name_missing(const struct ri_bootstrap *bootstrap,
                               int (*is_missing)(const struct ri_peer *peer), char *text, size_t bytes);
/* Rank 0: tells those that have come, and so listen, for whom we wait. */
void ri_bootstrap_tell_waiting(struct ri_bootstrap *bootstrap,
                               int (*is_missing)(const struct ri_peer *peer), const char *missing);
/* Watches the link no more, and closes it. */
void ri_bootstrap_drop(struct ri_bootstrap *bootstrap, struct ri_link *link);
/* ms until deadline_ns for poll: at least 1 while it is not over, at most cap_ms; 0: over. */
int ri_ms_until(int64_t deadline_ns, int cap_ms);

#endif
