/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_LOG_H
#define RI_LOG_H

enum ri_log_level { RI_LOG_ERROR, RI_LOG_WARN, RI_LOG_INFO, RI_LOG_DEBUG, RI_LOG_TRACE };

/* One line per event, to stderr or RONDO_LOG_FILE: "rondo[rank] level component: text".  Silent below
 * warn unless RONDO_LOG asks ("warn,plan:debug").  Components: base, comm, plan, engine, transport ...
 * Any thread. */
void ri_log(enum ri_log_level level, const char *component, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* True when such a line would be written; for texts that are dear to make. */
int ri_log_on(enum ri_log_level level, const char *component);

/* The rank that lines of this thread carry from now on; -1: none. */
void ri_log_rank(int rank);

#endif
