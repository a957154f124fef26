/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_SOURCE_H
#define RI_SOURCE_H

#include <stddef.h>

/* Where discovery reads from: this machine, a folder that stands for "/", or a recording.  All that it reads
 * goes through here, so that all can be kept and read again elsewhere.  One thread at a time. */

struct ri_source;

/* root "": this machine.  NULL: no memory. */
struct ri_source *ri_source_open(const char *root);
/* From the text of a recording.  RONDO_ERR_ARGUMENT names the line. */
int ri_source_replay(const char *text, size_t bytes, struct ri_source **source);
void ri_source_close(struct ri_source *source);

/* Says, before anything is read, that a recording will be asked for.  What is noted for that alone, and is not cheap
 * to make (the XML of hwloc), is left out of others. */
void ri_source_keep(struct ri_source *source);
int ri_source_is_kept(const struct ri_source *source);

/* Whether calls of the system and of libraries may be asked, too: only of this machine, when root is "". */
int ri_source_is_live(const struct ri_source *source);
/* "" or the folder; a recording has none: NULL. */
const char *ri_source_root(const struct ri_source *source);

/* The file at an absolute path ("/sys/class/net/eth0/speed"), up to bytes - 1 of it, without the newline at
 * its end.  0, or a negative errno. */
int ri_source_text(struct ri_source *source, const char *path, char *text, size_t bytes);
/* A whole number in such a file, also 0x..; fallback when there is none. */
long long ri_source_number(struct ri_source *source, const char *path, long long fallback);
/* Where a symbolic link points, resolved to an absolute path within the root. */
int ri_source_link(struct ri_source *source, const char *path, char *target, size_t bytes);
/* Names in a folder, sorted so that numbers count as numbers (mlx5_2 before mlx5_10), with a newline after
 * each; malloc'd.  NULL: there is none, or no memory. */
char *ri_source_list(struct ri_source *source, const char *path);

/* What is no file: answers of libraries and of calls, kept under a name of their own ("hwloc.xml",
 * "verbs/mlx5_0/1", "limits/memlock").  Live: note keeps what was found for a recording; else ask gives it,
 * malloc'd, or NULL. */
void ri_source_note(struct ri_source *source, const char *name, const char *text);
char *ri_source_ask(struct ri_source *source, const char *name);

/* Everything that was read and noted so far, as a recording (see ri_source_keep); malloc'd, NULL: no memory. */
char *ri_source_recording(const struct ri_source *source);

#endif
