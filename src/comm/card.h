/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_CARD_H
#define RI_CARD_H

#include <stdint.h>

#include "base/config.h"

struct rondo_comm;

/* What ranks tell each other first: who they are, and what they mean to use. */
struct ri_card {
    char version[32];
    char transport[32];
    char built[64];      /* names of the transports that are built in */
    char refusal[192];   /* text, when status < 0 */
    int32_t status;
    uint8_t host[16];    /* hash of the host's identity */
    uint8_t process[16]; /* hash of the process's, whatever its host is called */
};

/* status: what the checks of this rank said; negative: their text goes along. */
void ri_card_fill(struct ri_card *card, const struct ri_config *config, int status);

/* cards: [size].  Equal versions and transports, nobody refuses, "self" in one process only.  All
 * ranks find the same fault; a rank that refuses itself returns its own status and text. */
int ri_card_compare(const struct ri_card *cards, int rank, int size);

/* Hosts in the order of their first rank; fills the communicator's host, host_* and local_*. */
void ri_card_number_hosts(struct rondo_comm *comm, const struct ri_card *cards);

#endif
