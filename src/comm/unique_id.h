/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_UNIQUE_ID_H
#define RI_UNIQUE_ID_H

#include <rondo/comm.h>

#include "comm/tcp.h"

#define RI_ENDPOINTS_MAX 5

/* What an id, or the environment, says about a group to be. */
struct ri_meeting {
    uint8_t token[RI_TOKEN_BYTES];
    struct ri_endpoint endpoints[RI_ENDPOINTS_MAX]; /* where rank 0 may be, best first */
    int endpoint_count;
    int listen_any; /* rank 0 listens at all its addresses */
};

/* Makes an id, and opens the port behind it.  interface: of the network; "": any. */
int ri_unique_id_make(const char *interface, rondo_unique_id_t *id);

/* Reads an id.  RONDO_ERR_ID: not one of ours, or damaged; any changed byte shows. */
int ri_unique_id_read(const rondo_unique_id_t *id, struct ri_meeting *meeting);

/* The socket that rondo_unique_id_get opened in this process for the id with that token; the caller's
 * from now on.  Negative: there is none. */
int ri_unique_id_take_socket(const uint8_t token[RI_TOKEN_BYTES]);

/* A text that is equal for all processes of one running machine, and for no other. */
void ri_machine_text(char *text, size_t bytes);

#endif
