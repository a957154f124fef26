/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int line_pipe_open(struct line_pipe *it, const struct line_output *to, int rank)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    if (fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0) {
        close(ends[0]);
        close(ends[1]);
        return -1;
    }
    *it = (struct line_pipe){ .fd = ends[0], .to = to, .rank = rank };
    return ends[1];
}

static void drop(struct line_pipe *it)
{
    close(it->fd);
    free(it->buffer);
    *it = (struct line_pipe){ .fd = -1 };
}

int line_output_write(const struct line_output *to, const char *bytes, size_t count)
{
    while (count) {
        ssize_t n;

        if (to->await(to->context, to->fd) < 0)
            return -1;
        n = write(to->fd, bytes, count < PIPE_BUF ? count : PIPE_BUF);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n < 0)
            return -1;
        bytes += n;
        count -= (size_t)n;
    }
    return 0;
}

/* line: count bytes, the last of them its end */
static int write_line(const struct line_pipe *it, const char *line, size_t count)
{
    char prefix[16];
    int n = snprintf(prefix, sizeof(prefix), "[%d] ", it->rank);

    if (line_output_write(it->to, prefix, (size_t)n) < 0)
        return -1;
    return line_output_write(it->to, line, count);
}

static int write_lines(struct line_pipe *it)
{
    size_t start = 0;
    char *end;

    while ((end = memchr(it->buffer + start, '\n', it->used - start))) {
        size_t count = (size_t)(end - it->buffer) + 1 - start;

        if (write_line(it, it->buffer + start, count) < 0)
            return -1;
        start += count;
    }
    it->used -= start;
    memmove(it->buffer, it->buffer + start, it->used);
    return 0;
}

/* There is always a byte of room behind `used`, for a line end. */
static int write_unfinished(struct line_pipe *it)
{
    size_t count = it->used;

    if (!count)
        return 0;
    it->buffer[count] = '\n';
    it->used = 0;
    return write_line(it, it->buffer, count + 1);
}

static int make_room(struct line_pipe *it)
{
    size_t room = it->room ? 2 * it->room : 4096;
    char *buffer;

    if (it->used + 1 < it->room)
        return 0;
    if (it->room >= LINE_BYTES_MAX)
        return write_unfinished(it);
    buffer = realloc(it->buffer, room);
    if (!buffer)
        return -1;
    it->buffer = buffer;
    it->room = room;
    return 0;
}

/* 1: something came; 0: nothing is there; -1: the end */
static int take(struct line_pipe *it)
{
    ssize_t n;

    if (make_room(it) < 0)
        return -1;
    n = read(it->fd, it->buffer + it->used, it->room - it->used - 1);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    if (n == 0)
        return -1;
    it->used += (size_t)n;
    return write_lines(it) < 0 ? -1 : 1;
}

void line_pipe_move(struct line_pipe *it)
{
    if (it->fd < 0 || take(it) >= 0)
        return;
    write_unfinished(it);
    drop(it);
}

void line_pipe_close(struct line_pipe *it)
{
    int got = 1;

    while (it->fd >= 0 && got > 0)
        got = take(it);
    if (it->fd < 0)
        return;
    write_unfinished(it);
    drop(it);
}
