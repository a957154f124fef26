/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_RULES = 16, MAX_LINE_BYTES = 1024, MAX_PATH_BYTES = 1024 };

/* What RONDO_LOG asks of one component. */
struct rule {
    char component[24];
    enum ri_log_level level;
};

static const char *const level_names[] = {
    [RI_LOG_ERROR] = "error",
    [RI_LOG_WARN] = "warn",
    [RI_LOG_INFO] = "info",
    [RI_LOG_DEBUG] = "debug",
    [RI_LOG_TRACE] = "trace",
};

/* All that ri_log is called with. */
static const char *const component_names[] = { "base", "comm", "plan", "transport", "verify" };

/* Written once, by read_environment; a process has one stderr, so it has one log. */
static struct {
    enum ri_log_level level; /* of the components that no rule names */
    struct rule rules[MAX_RULES];
    int rule_count;
    int fd;
} settings = {.level = RI_LOG_WARN, .fd = STDERR_FILENO};

static pthread_once_t settings_once = PTHREAD_ONCE_INIT;
static _Thread_local int line_rank = -1;

/* One write per line, so that the lines of several ranks do not mix. */
__attribute__((format(printf, 3, 0))) static void
write_line(enum ri_log_level level, const char *component, const char *format, va_list args)
{
    char line[MAX_LINE_BYTES];
    char rank[16] = "";
    size_t room = sizeof(line) - 1; /* the line break needs one */
    size_t used;
    ssize_t written;

    if (line_rank >= 0)
        snprintf(rank, sizeof(rank), "[%d]", line_rank);
    used = (size_t)snprintf(line, room, "rondo%s %s %.24s: ", rank, level_names[level], component);
    vsnprintf(line + used, room - used, format, args);
    used = strlen(line);
    for (size_t i = 0; i < used; i++)
        if (line[i] == '\n' || line[i] == '\r')
            line[i] = ' ';
    line[used] = '\n';
    written = write(settings.fd, line, used + 1);
    (void)written; /* a log that cannot be written has nowhere to say so */
}

__attribute__((format(printf, 1, 2))) static void complain(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    write_line(RI_LOG_WARN, "base", format, args);
    va_end(args);
}

static int level_find(const char *text, enum ri_log_level *level)
{
    for (int i = RI_LOG_ERROR; i <= RI_LOG_TRACE; i++)
        if (strcmp(text, level_names[i]) == 0) {
            *level = (enum ri_log_level)i;
            return 0;
        }
    return -1;
}

static int component_is_known(const char *name)
{
    for (size_t i = 0; i < sizeof(component_names) / sizeof(component_names[0]); i++)
        if (strcmp(name, component_names[i]) == 0)
            return 1;
    return 0;
}

/* item: "level" or "component:level". */
static void rule_add(char *item)
{
    char *colon = strchr(item, ':');
    const char *level_text = colon ? colon + 1 : item;
    enum ri_log_level level;

    if (level_find(level_text, &level) || colon == item) {
        complain("RONDO_LOG: '%s' is ignored; give level or component:level, level one of "
                 "error, warn, info, debug, trace", item);
        return;
    }
    if (!colon) {
        settings.level = level;
        return;
    }
    *colon = 0;
    if (!component_is_known(item)) {
        complain("RONDO_LOG: component '%s' is ignored; components are base, comm, plan, transport, "
                 "verify", item);
        return;
    }
    if (settings.rule_count == MAX_RULES) {
        complain("RONDO_LOG: component '%s' is ignored; give at most %d", item, MAX_RULES);
        return;
    }
    strcpy(settings.rules[settings.rule_count].component, item);
    settings.rules[settings.rule_count++].level = level;
}

/* Replaces %h by the host's name and %p by the process's number.  -1: too long. */
static int path_expand(const char *pattern, char *path, size_t path_bytes)
{
    char host[256] = "";
    size_t used = 0;

    gethostname(host, sizeof(host) - 1);
    for (const char *c = pattern; *c; c++) {
        int length;

        if (c[0] == '%' && c[1] == 'h')
            length = snprintf(path + used, path_bytes - used, "%s", host);
        else if (c[0] == '%' && c[1] == 'p')
            length = snprintf(path + used, path_bytes - used, "%ld", (long)getpid());
        else
            length = snprintf(path + used, path_bytes - used, "%c", c[0]);
        if (c[0] == '%' && (c[1] == 'h' || c[1] == 'p'))
            c++;
        used += (size_t)length;
        if (used >= path_bytes)
            return -1;
    }
    return 0;
}

static void file_open(const char *pattern)
{
    char path[MAX_PATH_BYTES] = "";
    int fd;

    if (path_expand(pattern, path, sizeof(path))) {
        complain("RONDO_LOG_FILE: '%.64s...' is longer than %d bytes; the log goes to stderr",
                 pattern, MAX_PATH_BYTES - 1);
        return;
    }
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0) {
        complain("RONDO_LOG_FILE: '%s' cannot be opened (%s); the log goes to stderr", path,
                 strerror(errno));
        return;
    }
    settings.fd = fd;
}

static void read_environment(void)
{
    const char *file = getenv("RONDO_LOG_FILE");
    const char *rules = getenv("RONDO_LOG");
    char *copy, *rest, *item;

    if (file && *file)
        file_open(file);
    copy = rules ? strdup(rules) : NULL;
    if (!copy)
        return;
    for (item = strtok_r(copy, ", ", &rest); item; item = strtok_r(NULL, ", ", &rest))
        rule_add(item);
    free(copy);
}

int ri_log_on(enum ri_log_level level, const char *component)
{
    pthread_once(&settings_once, read_environment);
    for (int i = settings.rule_count - 1; i >= 0; i--)
        if (strcmp(settings.rules[i].component, component) == 0)
            return level <= settings.rules[i].level;
    return level <= settings.level;
}

void ri_log(enum ri_log_level level, const char *component, const char *format, ...)
{
    int saved_errno = errno;
    va_list args;

    if (ri_log_on(level, component)) {
        va_start(args, format);
        write_line(level, component, format, args);
        va_end(args);
    }
    errno = saved_errno;
}

void ri_log_rank(int rank)
{
    line_rank = rank;
}
