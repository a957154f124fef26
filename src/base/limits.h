/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_LIMITS_H
#define RI_LIMITS_H

/* Ranks of a communicator, and of a schedule.  A tag of transport ucx has 15 bits for the sender. */
enum { RI_RANKS_MAX = 1 << 15 };

#endif
