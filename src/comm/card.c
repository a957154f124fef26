/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/card.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "comm/bytes.h"
#include "comm/comm.h"
#include "comm/unique_id.h"

static void namespace_text(const char *path, char *text, size_t bytes)
{
    ssize_t n = readlink(path, text, bytes - 1);

    text[n > 0 ? n : 0] = '\0';
}

/* Ranks share a host when they can share memory: one running machine, one name, one IPC namespace. */
static void host_hash(const struct ri_config *config, uint8_t hash[16])
{
    char text[512], machine[128], name[128] = "", ipc[64];

    if (config->host_id && *config->host_id) {
        ri_hash16(config->host_id, strlen(config->host_id), hash);
        return;
    }
    ri_machine_text(machine, sizeof(machine));
    gethostname(name, sizeof(name) - 1);
    namespace_text("/proc/self/ns/ipc", ipc, sizeof(ipc));
    snprintf(text, sizeof(text), "%s %s %s", machine, name, ipc);
    ri_hash16(text, strlen(text), hash);
}

static void process_hash(uint8_t hash[16])
{
    char text[256], machine[128], pids[64];

    ri_machine_text(machine, sizeof(machine));
    namespace_text("/proc/self/ns/pid", pids, sizeof(pids));
    snprintf(text, sizeof(text), "%s %s %ld", machine, pids, (long)getpid());
    ri_hash16(text, strlen(text), hash);
}

void ri_card_fill(struct ri_card *card, const struct ri_config *config, int status)
{
    memset(card, 0, sizeof(*card));
    snprintf(card->version, sizeof(card->version), "%s", rondo_version());
    snprintf(card->transport, sizeof(card->transport), "%s",
             config->transport && *config->transport ? config->transport : "auto");
    snprintf(card->built, sizeof(card->built), "%s", ri_transport_names());
    snprintf(card->refusal, sizeof(card->refusal), "%s", status < 0 ? rondo_last_error() : "");
    card->status = status;
    host_hash(config, card->host);
    process_hash(card->process);
}

int ri_card_compare(const struct ri_card *cards, int rank, int size)
{
    if (cards[rank].status < 0)
        return ri_error(cards[rank].status, "%s", cards[rank].refusal);
    for (int r = 0; r < size; r++)
        if (cards[r].status < 0)
            return ri_error(RONDO_ERR_PEER, "the communicator is refused on rank %d: %.*s", r,
                            (int)sizeof(cards[r].refusal), cards[r].refusal);
    for (int r = 1; r < size; r++) {
        if (strncmp(cards[r].version, cards[0].version, sizeof(cards[r].version)) != 0)
            return ri_error(RONDO_ERR_MISMATCH, "Rondo's version is %.32s on rank 0 and %.32s on rank %d",
                            cards[0].version, cards[r].version, r);
        if (strncmp(cards[r].transport, cards[0].transport, sizeof(cards[r].transport)) != 0)
            return ri_error(RONDO_ERR_MISMATCH, "RONDO_TRANSPORT is %.32s on rank 0 and %.32s on rank %d",
                            cards[0].transport, cards[r].transport, r);
        if (strncmp(cards[r].built, cards[0].built, sizeof(cards[r].built)) != 0)
            return ri_error(RONDO_ERR_MISMATCH, "Rondo is built with transports %.64s on rank 0 and %.64s on rank %d: "
                            "use one build", cards[0].built, cards[r].built, r);
        if (strcmp(cards[0].transport, "self") == 0 &&
            memcmp(cards[r].process, cards[0].process, sizeof(cards[r].process)) != 0)
            return ri_error(RONDO_ERR_UNSUPPORTED, "RONDO_TRANSPORT=self is for the threads of one process, but "
                            "rank %d is in another process than rank 0", r);
    }
    return 0;
}

void ri_card_number_hosts(struct rondo_comm *comm, const struct ri_card *cards)
{
    for (int r = 0; r < comm->size; r++) {
        int first = 0;

        while (memcmp(cards[first].host, cards[r].host, sizeof(cards[r].host)) != 0)
            first++;
        comm->host[r] = first == r ? comm->host_count++ : comm->host[first];
    }
    comm->host_index = comm->host[comm->rank];
    for (int r = 0; r < comm->size; r++) {
        if (comm->host[r] != comm->host_index)
            continue;
        comm->local_size++;
        comm->local_rank += r < comm->rank;
    }
}
