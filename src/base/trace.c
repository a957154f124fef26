/* SPDX-License-Identifier: Apache-2.0 */
#include "base/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"

enum { EVENTS = 1 << 17 }; /* 12 MiB, of which pages are taken as they fill */

struct ri_trace {
    char *path;
    atomic_int owners;
    int rank;
    uint64_t dropped;
    uint32_t count;
    int64_t row_end_ns[RI_TRACE_ROWS];
    struct ri_trace_event events[];
};

static const char *const row_names[RI_TRACE_ROWS] = { "work", "local out", "local in", "host out",
                                                      "host in" };

/* Where the rank goes in a name without %r. */
static size_t before_extension(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');

    return dot && dot > name ? (size_t)(dot - path) : strlen(path);
}

/* number: 1 goes without saying. */
static char *path_of(const char *path, int rank, int number)
{
    const char *mark = strstr(path, "%r");
    size_t head = mark ? (size_t)(mark - path) : before_extension(path), bytes = strlen(path) + 32;
    char *own = malloc(bytes), later[16] = "";

    if (!own)
        return NULL;
    if (number > 1)
        snprintf(later, sizeof(later), "-%d", number);
    if (rank < 0)
        snprintf(own, bytes, "%s", path);
    else
        snprintf(own, bytes, "%.*s%s%d%s%s", (int)head, path, mark ? "" : ".", rank, later,
                 path + head + (mark ? 2 : 0));
    return own;
}

/* The names that were asked for, for as long as the process lives: later ones have a number. */
struct name {
    struct name *next;
    int uses;
    char path[];
};

static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;
static struct name *names;

/* How many have asked with this path; 0: no memory. */
static int count_use(const char *path)
{
    struct name *name;
    int uses = 0;

    pthread_mutex_lock(&names_lock);
    for (name = names; name && strcmp(name->path, path) != 0; name = name->next)
        ;
    if (!name && (name = calloc(1, sizeof(*name) + strlen(path) + 1)) != NULL) {
        strcpy(name->path, path);
        name->next = names;
        names = name;
    }
    if (name)
        uses = ++name->uses;
    pthread_mutex_unlock(&names_lock);
    return uses;
}

static char *own_path(const char *path, int rank)
{
    char *first = path_of(path, rank, 1), *own = NULL;
    int uses = first && rank >= 0 ? count_use(first) : 0;

    if (uses < 2 && (uses || rank < 0))
        return first;
    if (uses)
        own = path_of(path, rank, uses);
    free(first);
    return own;
}

int ri_trace_create(const char *path, int rank, struct ri_trace **trace_p)
{
    struct ri_trace *trace = NULL;

    if (path && *path) {
        trace = calloc(1, sizeof(*trace) + EVENTS * sizeof(trace->events[0]));
        if (trace)
            trace->path = own_path(path, rank);
        if (!trace || !trace->path) {
            free(trace);
            return ri_error(RONDO_ERR_MEMORY, "no memory for a trace; leave RONDO_TRACE empty to have none");
        }
        trace->rank = rank;
        trace->owners = 1;
    }
    *trace_p = trace;
    return 0;
}

struct ri_trace *ri_trace_hold(struct ri_trace *trace)
{
    if (trace)
        atomic_fetch_add(&trace->owners, 1);
    return trace;
}

void ri_trace_add(struct ri_trace *trace, const struct ri_trace_event *event)
{
    struct ri_trace_event *own = &trace->events[trace->count];
    int64_t *row_end_ns = &trace->row_end_ns[event->row];

    if (trace->count == EVENTS) {
        trace->dropped++;
        return;
    }
    trace->count++;
    *own = *event;
    if (trace->rank < 0)
        return;
    own->rank = trace->rank;
    if (own->start_ns < *row_end_ns)
        own->start_ns = *row_end_ns;
    if (own->end_ns < own->start_ns)
        own->end_ns = own->start_ns;
    *row_end_ns = own->end_ns;
}

/* ---- the file ---- */

static void write_names(FILE *file, int rank)
{
    fprintf(file, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":\"rank %d\"}}", rank,
            rank);
    for (int row = 0; row < RI_TRACE_ROWS; row++)
        fprintf(file, ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"%s\"}}"
                ",\n{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":%d,\"tid\":%d,\"args\":{\"sort_index\":%d}}",
                rank, row, row_names[row], rank, row, row);
}

static void write_event(FILE *file, const struct ri_trace_event *event)
{
    fprintf(file, ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"name\":\"%s\",\"ts\":%.3f,\"dur\":%.3f,"
            "\"args\":{\"step\":%d", event->rank, event->row, event->name, (double)event->start_ns / 1e3,
            (double)(event->end_ns - event->start_ns) / 1e3, event->step);
    if (event->peer >= 0)
        fprintf(file, ",\"peer\":%d", event->peer);
    if (event->bytes >= 0)
        fprintf(file, ",\"%s\":%" PRId64, event->bound ? "bound_bytes" : "bytes", event->bytes);
    if (event->asked_ns < event->start_ns)
        fprintf(file, ",\"waited_us\":%.3f", (double)(event->start_ns - event->asked_ns) / 1e3);
    fprintf(file, "}}");
}

static void write_all(const struct ri_trace *trace, FILE *file)
{
    int first = trace->rank, last = trace->rank;

    for (uint32_t i = 0; i < trace->count; i++) {
        int rank = trace->events[i].rank;

        first = first < 0 || rank < first ? rank : first;
        last = rank > last ? rank : last;
    }
    fprintf(file, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"dropped_events\":%" PRIu64 "},\n"
            "\"traceEvents\":[\n", trace->dropped);
    for (int rank = first < 0 ? 0 : first; rank <= last; rank++) {
        write_names(file, rank);
        fprintf(file, rank < last ? ",\n" : "");
    }
    for (uint32_t i = 0; i < trace->count; i++)
        write_event(file, &trace->events[i]);
    fprintf(file, "\n]}\n");
}

int ri_trace_write(const struct ri_trace *trace)
{
    FILE *file = fopen(trace->path, "w");
    int bad;

    if (!file)
        return ri_error(RONDO_ERR_SYSTEM, "no trace: '%s' cannot be written: %s", trace->path,
                        strerror(errno));
    write_all(trace, file);
    bad = ferror(file);
    if (fclose(file) || bad)
        return ri_error(RONDO_ERR_SYSTEM, "the trace '%s' is not whole: %s", trace->path, strerror(errno));
    return 0;
}

void ri_trace_destroy(struct ri_trace *trace)
{
    if (!trace || atomic_fetch_sub(&trace->owners, 1) > 1)
        return;
    if (trace->count > 0 && ri_trace_write(trace))
        ri_log(RI_LOG_WARN, "base", "%s", rondo_last_error());
    free(trace->path);
    free(trace);
}
