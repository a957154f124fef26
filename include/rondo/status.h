/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RONDO_STATUS_H
#define RONDO_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* What every call returns: RONDO_OK, or one negative RONDO_ERR_*.  Values are fixed for ever. */
typedef int rondo_status_t;

enum {
    RONDO_OK = 0,
    RONDO_ERR_ARGUMENT = -1,    /* an argument is refused; rondo_last_error() names it and its value */
    RONDO_ERR_MEMORY = -2,      /* out of memory */
    RONDO_ERR_SYSTEM = -3,      /* a system call failed */
    RONDO_ERR_UNSUPPORTED = -4, /* understood, but not built or not built in */
    RONDO_ERR_MISMATCH = -5,    /* ranks disagree; the text names field, ranks and values */
    RONDO_ERR_TIMEOUT = -6,     /* a deadline passed; the text names whom we waited for */
    RONDO_ERR_PEER = -7,        /* another rank is gone or reported a failure */
    RONDO_ERR_BUSY = -8,        /* the object is in use; wait for its request first */
    RONDO_ERR_TRANSPORT = -9,   /* a transport failed */
    RONDO_ERR_KERNEL = -10,     /* the caller's kernel returned an error */
    RONDO_ERR_ID = -11,         /* the unique id is not one of ours, or of another job */
    RONDO_ERR_INTERNAL = -12,   /* a bug in Rondo */
    RONDO_ERR_VERIFY = -13      /* RONDO_VERIFY found a wrong result; the text names it */
};

/* The name of a status, for people.  Never NULL; static storage; any thread. */
const char *rondo_strerror(rondo_status_t status);

/* What went wrong in the last call of this thread that failed: names the argument or the rank, and
 * the value.  Never NULL; valid until the next Rondo call of this thread. */
const char *rondo_last_error(void);

/* Version of the library that is running, as "major.minor.patch".  Static storage; any thread. */
const char *rondo_version(void);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
