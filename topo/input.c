/* SPDX-License-Identifier: Apache-2.0 */
/* Any description of hosts: this machine, a folder or file, told apart by what is in it, or a text. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "topo/pack.h"
#include "topo/records.h"
#include "topo/source.h"
#include "topo/topo.h"

enum { MOST_BYTES = 64 << 20 };

/* Hands on the source that a tree came from, unless it fails. */
static int discover(struct ri_source *made, struct ri_topo **topo, struct ri_source **source)
{
    int err = ri_topo_discover(made, topo);

    if (err)
        ri_source_close(made);
    else
        *source = made;
    return err;
}

/* A machine that is here, or a folder that stands for its root. */
static int read_root(const char *root, struct ri_topo **topo, struct ri_source **source)
{
    struct ri_source *made = ri_source_open(root);

    return made ? discover(made, topo, source) : ri_error(RONDO_ERR_MEMORY, "no memory to look at a host");
}

static int read_recording(const char *text, size_t bytes, struct ri_topo **topo, struct ri_source **source)
{
    struct ri_source *made;
    int err = ri_source_replay(text, bytes, &made);

    return err ? err : discover(made, topo, source);
}

/* The root element tells who has written XML. */
static int read_xml(const char *text, size_t bytes, struct ri_topo **topo)
{
    for (const char *at = strchr(text, '<'); at; at = strchr(at + 1, '<')) {
        if (strncmp(at, "<topology", 9) == 0)
            return ri_topo_from_hwloc_xml(text, bytes, topo);
        if (strncmp(at, "<system", 7) == 0)
            return ri_topo_from_nccl_xml(text, bytes, topo);
        if (at[1] != '?' && at[1] != '!')
            break;
    }
    return ri_error(RONDO_ERR_ARGUMENT, "this XML begins neither with <topology as that of hwloc nor with <system as "
                    "that of NCCL");
}

/* Does it begin with the name of a form, of whatever version?  The reader of the form says which it knows. */
static int begins(const char *text, const char *form)
{
    return strncmp(text, form, strlen(form)) == 0;
}

/* text has a 0 after its bytes. */
static int read_text(const char *text, size_t bytes, struct ri_topo **topo, struct ri_source **source)
{
    size_t blank = strspn(text, " \t\r\n");

    if (strlen(text) != bytes)
        return ri_error(RONDO_ERR_ARGUMENT, "a text with a byte 0 at %zu describes no machine", strlen(text));
    if (begins(text, "rondo-recording "))
        return read_recording(text, bytes, topo, source);
    if (begins(text, "rondo-tree "))
        return ri_topo_unpack(text, topo);
    if (text[blank] == '<')
        return read_xml(text + blank, bytes - blank, topo);
    return ri_topo_from_text(text, topo);
}

/* All of a file, malloc'd, with a 0 after it. */
static int load(int file, char **text, size_t *bytes)
{
    size_t room = 1 << 16, used = 0;
    char *made = malloc(room);

    while (made) {
        ssize_t count = read(file, made + used, room - 1 - used);

        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0) {
            free(made);
            return ri_error(RONDO_ERR_SYSTEM, "%s", ri_errno_text(errno));
        }
        used += (size_t)count;
        if (count == 0) {
            made[used] = 0;
            *text = made;
            *bytes = used;
            return 0;
        }
        if (used > MOST_BYTES) {
            free(made);
            return ri_error(RONDO_ERR_ARGUMENT, "more than %d bytes describe no machine", MOST_BYTES);
        }
        if (used + 1 == room) {
            char *more = realloc(made, room *= 2);

            if (!more)
                free(made);
            made = more;
        }
    }
    return ri_error(RONDO_ERR_MEMORY, "no memory to read it");
}

static int read_file(int file, struct ri_topo **topo, struct ri_source **source)
{
    size_t bytes = 0;
    char *text = NULL;
    int err = load(file, &text, &bytes);

    if (err)
        return err;
    err = read_text(text, bytes, topo, source);
    free(text);
    return err;
}

/* The same error with the name before it. */
static int name_error(int err, const char *name)
{
    char why[512];

    snprintf(why, sizeof(why), "%s", rondo_last_error());
    return ri_error(err, "%.200s: %s", name, why);
}

int ri_topo_read_source(const char *what, struct ri_topo **topo, struct ri_source **source)
{
    struct stat info;
    int file, err;

    *source = NULL;
    if (!what || !*what)
        return read_root("", topo, source);
    file = open(what, O_RDONLY | O_CLOEXEC);
    if (file < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG) && strchr(what, ':'))
        return ri_topo_from_text(what, topo);
    if (file < 0)
        return ri_error(RONDO_ERR_ARGUMENT, "%.200s: %s; expected a file, a folder that stands for /, or a text such "
                        "as 'host:2 gpu:4'", what, ri_errno_text(errno));
    if (fstat(file, &info) == 0 && S_ISDIR(info.st_mode))
        err = read_root(what, topo, source);
    else
        err = read_file(file, topo, source);
    close(file);
    return err ? name_error(err, what) : 0;
}

int ri_topo_read(const char *what, struct ri_topo **topo)
{
    struct ri_source *source;
    int err = ri_topo_read_source(what, topo, &source);

    ri_source_close(source);
    return err;
}
