/* SPDX-License-Identifier: Apache-2.0 */
/* How a rank leaves: with a goodbye, so that it is not taken for dead. */
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/bootstrap.h"

#define GOODBYE_NS 1000000000 /* how long destroy may take to get its last words out */
#define LINGER_NS 5000000000  /* how long rank 0 passes on what the others say, after it has left */
#define TURN_MS 20

static int anyone_there(const struct ri_bootstrap *b)
{
    int there = 0;

    for (int i = 0; i < ri_bootstrap_peers(b); i++)
        there |= b->peers[i].link.fd >= 0;
    return there;
}

/* The others hear of each other through rank 0 only, so it stays until they have left, for a while. */
void ri_bootstrap_leave(struct ri_bootstrap *b)
{
    int64_t now_ns = ri_now_ns();

    b->is_leaving = 1;
    b->last_words_ns = now_ns + GOODBYE_NS;
    b->linger_ns = b->rank == 0 && !b->fault ? now_ns + LINGER_NS : now_ns;
    if (!b->fault)
        ri_bootstrap_turn(b, 0); /* rank 0 passes on who has left before it */
    for (int i = 0; i < ri_bootstrap_peers(b); i++)
        ri_link_send(&b->peers[i].link, b->token, RI_FRAME_GOODBYE, b->rank, NULL, 0);
}

int ri_bootstrap_stays(struct ri_bootstrap *b, int wait_ms)
{
    int64_t now_ns = ri_now_ns();
    int listens = !b->fault && now_ns < b->linger_ns && anyone_there(b);

    if (!listens && (now_ns >= b->last_words_ns || !ri_bootstrap_any_unsent(b)))
        return 0;
    ri_bootstrap_turn(b, wait_ms);
    return 1;
}

void ri_bootstrap_destroy(struct ri_bootstrap *b)
{
    if (!b)
        return;
    if (b->peers && !b->is_leaving)
        ri_bootstrap_leave(b);
    while (b->peers && ri_bootstrap_stays(b, TURN_MS))
        ;
    for (int i = 0; b->peers && i < ri_bootstrap_peers(b); i++) {
        ri_link_close(&b->peers[i].link);
        free(b->peers[i].part);
    }
    if (b->epoll_fd >= 0)
        close(b->epoll_fd);
    free(b->left);
    free(b->peers);
    free(b);
}
