/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_GID_H
#define RI_GID_H

#include <stdint.h>

/* Which entry of a port's table of GIDs RoCE uses. */

struct ri_gid {
    uint8_t raw[16]; /* all zero: an empty entry */
    int is_v2;       /* RoCE v2 (over UDP, can be routed) and not v1 */
    int32_t index;   /* of the entry; tables may have holes */
};

/* "fe80:0000:0000:0000:0a00:27ff:fe00:0001" as sysfs writes them.  Returns whether it is one. */
int ri_gid_read(const char *text, uint8_t raw[16]);

/* The best entry: RoCE v2 before v1, then addresses that routers pass on: IPv4, IPv6, and last what is good on
 * one link alone; of equal ones the first.  forced: the entry that somebody asked for, or -1.  name is the
 * port's, for messages.  *index: -1 when the table is empty.  RONDO_ERR_ARGUMENT when the forced one is not
 * there, or empty. */
int ri_gid_pick(const struct ri_gid *gids, int count, const char *name, int32_t forced, int32_t *index);

#endif
