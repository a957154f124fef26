/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_TCP_H
#define RI_TCP_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* Framed messages over one TCP connection, without ever waiting.  On the wire, little-endian:
 * magic[8] version[2] kind[2] rank[4] token[16] bytes[8], then `bytes` of payload. */
#define RI_TOKEN_BYTES 16
#define RI_FRAME_HEAD_BYTES 40
#define RI_FRAME_BYTES_MAX ((size_t)256 << 20)

enum ri_frame_kind {
    RI_FRAME_HELLO = 1, /* a rank comes: size[4] of the group, as it believes */
    RI_FRAME_WELCOME,   /* all have come */
    RI_FRAME_WAITING,   /* text: whom rank 0 still waits for */
    RI_FRAME_GATHER,    /* one rank's part of an allgather */
    RI_FRAME_ALL,       /* all parts */
    RI_FRAME_FAIL,      /* status[4] and text: the group has failed */
    RI_FRAME_GOODBYE    /* a rank leaves, and is well */
};

struct ri_frame {
    int kind;
    int32_t rank;  /* who says so */
    size_t bytes;
    char *payload; /* the link's until its next receive; NULL when bytes == 0 */
};

/* One end of a connection.  All zero but fd == -1 is a closed one. */
struct ri_link {
    int fd;
    uint8_t head[RI_FRAME_HEAD_BYTES];
    size_t head_used, payload_used; /* bytes that have come of the frame under way */
    struct ri_frame frame;
    char *out;                      /* what the socket has not taken yet: out[sent..used) */
    size_t out_sent, out_used, out_room;
};

enum ri_link_event {
    RI_LINK_IDLE,   /* nothing more is there now */
    RI_LINK_FRAME,  /* *frame is one */
    RI_LINK_CLOSED, /* the other end is gone */
    RI_LINK_FOREIGN /* what came is not ours: other magic, version, token, or too long */
};

/* Takes over fd, a connected socket.  Waits are nobody's: it becomes non-blocking. */
void ri_link_open(struct ri_link *link, int fd);

/* Refuses a frame of more than limit_bytes before it allocates. */
enum ri_link_event ri_link_receive(struct ri_link *link, const uint8_t *token, size_t limit_bytes,
                                   struct ri_frame *frame);

/* Sends, or keeps a copy of what the socket does not take for ri_link_flush.  A broken connection is
 * no error here: receiving tells.  RONDO_ERR_MEMORY. */
int ri_link_send(struct ri_link *link, const uint8_t *token, int kind, int rank, const void *payload,
                 size_t bytes);
void ri_link_flush(struct ri_link *link);
int ri_link_unsent(const struct ri_link *link);

/* Says that nothing more will be sent, takes what has come, and closes; what was sent still arrives. */
void ri_link_close(struct ri_link *link);

/* Where rank 0 can be reached. */
struct ri_endpoint {
    struct sockaddr_storage address;
    socklen_t bytes;
};

/* A socket that listens on address (port 0: any) and never blocks, close-on-exec; negative: -errno. */
int ri_tcp_listen(const struct ri_endpoint *endpoint);
/* Begins to connect; *fd is writable when done.  0 or -errno. */
int ri_tcp_connect(const struct ri_endpoint *endpoint, int *fd);
/* 0 when connect has succeeded, -errno when it has not. */
int ri_tcp_connected(int fd);
/* "127.0.0.1:4711", "[::1]:4711" */
void ri_tcp_name(const struct ri_endpoint *endpoint, char *text, size_t bytes);
int ri_tcp_port(int fd);

#endif
