/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_ENV_H
#define RI_ENV_H

#include "comm/unique_id.h"

/* What the launcher says about us. */
struct ri_env {
    int rank, size;
    struct ri_meeting meeting; /* size >= 2 only */
};

/* Reads RONDO_RANK, RONDO_SIZE, RONDO_ROOT, RONDO_JOB, else torchrun's RANK, WORLD_SIZE, MASTER_ADDR,
 * MASTER_PORT (whose port is torch's; ours is the next one).  None of them: rank 0 of 1.  A variable
 * that is missing or out of form: RONDO_ERR_ARGUMENT naming it.  `turn` is how many communicators this
 * process has made so before: the token is of job and turn, so that each has its own. */
int ri_env_read(unsigned turn, struct ri_env *env);

/* Rank 0: the socket that listens at the meeting's first endpoint: the one of rondo-run
 * (RONDO_ROOT_FD), or our own.  It is kept until the process ends, for the next communicator.
 * Borrowed.  Negative: RONDO_ERR_*. */
int ri_env_socket(const struct ri_meeting *meeting, int64_t deadline_ns);

#endif
