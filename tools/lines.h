/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RONDO_TOOLS_LINES_H
#define RONDO_TOOLS_LINES_H

#include <stddef.h>

/* Takes what a rank writes and passes it on line by line, each behind "[rank] ".  Lines are never
 * mixed; one longer than LINE_BYTES_MAX is broken there, and a last line without end is given one. */
#define LINE_BYTES_MAX (1 << 20)

/* Where lines go.  Its reader may be slow, or read no more: before every write, await waits until fd
 * takes PIPE_BUF bytes, and does meanwhile what must not wait; 0, or -1: give up. */
struct line_output {
    int fd; /* borrowed */
    int (*await)(void *context, int fd);
    void *context;
};

struct line_pipe {
    int fd;   /* where we read, non-blocking; -1: closed */
    const struct line_output *to; /* borrowed */
    int rank;
    char *buffer;
    size_t used, room; /* bytes */
};

/* Returns the writing end, for the rank, close-on-exec; -1 with errno. */
int line_pipe_open(struct line_pipe *pipe, const struct line_output *to, int rank);

/* Passes on what is there.  Closes at the end of input, or when nobody reads our output any more, so
 * that the rank learns of it as if it wrote there itself. */
void line_pipe_move(struct line_pipe *pipe);

/* All of it, or -1: nobody reads it. */
int line_output_write(const struct line_output *to, const char *bytes, size_t count);

/* Passes on what is there, and the unfinished line, and closes.  Good for a closed one too. */
void line_pipe_close(struct line_pipe *pipe);

#endif
