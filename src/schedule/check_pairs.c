/* SPDX-License-Identifier: Apache-2.0 */
/* The two ends of every transfer. */
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "schedule/check.h"

static void describe(const struct ri_schedule *s, const struct ri_step *step, char *text,
                     size_t bytes)
{
    const struct ri_operand *o = ri_step_moved(step);

    snprintf(text, bytes, "%s%d.%d+%d (%d blocks) turn %d lane %s%s",
             ri_bundle_names[s->slots[o->slot].bundle], (int)o->block, o->first_part, o->parts,
             o->blocks, (int)step->turn, ri_lane_names[step->lane], step->bind ? " bind" : "");
}

static int agree(const struct ri_schedule *a, const struct ri_step *x, const struct ri_schedule *b,
                 const struct ri_step *y)
{
    const struct ri_operand *p = ri_step_moved(x), *q = ri_step_moved(y);

    return a->slots[p->slot].bundle == b->slots[q->slot].bundle && ri_same_content(p, q) &&
           x->lane == y->lane && x->turn == y->turn && x->bind == y->bind;
}

/* The next step of r from *at on that is op with `peer`; moves *at behind it.  step_count: none. */
static uint32_t next_with(const struct ri_schedule *s, uint32_t at, enum ri_op op, int peer)
{
    while (at < s->step_count && (s->steps[at].op != op || s->steps[at].peer != peer))
        at++;
    return at;
}

static int compare(const struct ri_schedule *a, uint32_t send, const struct ri_schedule *b,
                   uint32_t recv)
{
    char ours[96], theirs[96];

    if (agree(a, &a->steps[send], b, &b->steps[recv]))
        return 0;
    describe(a, &a->steps[send], ours, sizeof(ours));
    describe(b, &b->steps[recv], theirs, sizeof(theirs));
    return ri_step_fault(a, send, "%s meets %s of rank %d step %u", ours, theirs, (int)b->rank,
                         (unsigned)recv);
}

/* All messages from `sender` to `receiver`, in program order of both. */
static int match(struct ri_check_rank *sender, struct ri_check_rank *receiver)
{
    const struct ri_schedule *a = sender->s, *b = receiver->s;
    uint32_t send = 0, recv = 0;

    for (;; send++, recv++) {
        int err;

        send = next_with(a, send, RI_SEND, b->rank);
        recv = next_with(b, recv, RI_RECV, a->rank);
        if (send == a->step_count && recv == b->step_count)
            return 0;
        if (recv == b->step_count)
            return ri_step_fault(a, send, "sends to rank %d, which receives it nowhere",
                                 (int)b->rank);
        if (send == a->step_count)
            return ri_step_fault(b, recv, "receives from rank %d, which sends it nowhere",
                                 (int)a->rank);
        err = compare(a, send, b, recv);
        if (err)
            return err;
        sender->mate[send] = recv;
        receiver->mate[recv] = send;
    }
}

/* Only pairs that share a message need a walk. */
int ri_check_pairs(struct ri_checker *c)
{
    uint8_t *peers = malloc((size_t)c->ranks * (size_t)c->ranks);
    size_t ranks = (size_t)c->ranks;
    int err = 0;

    if (!peers)
        return ri_error(RONDO_ERR_MEMORY, "schedule check: out of memory");
    for (size_t i = 0; i < ranks * ranks; i++)
        peers[i] = 0;
    for (size_t r = 0; r < ranks; r++) {
        for (uint32_t i = 0; i < c->rank[r].s->step_count; i++) {
            const struct ri_step *step = &c->rank[r].s->steps[i];

            if (step->op == RI_SEND)
                peers[r * ranks + (size_t)step->peer] = 1;
            else if (step->op == RI_RECV)
                peers[(size_t)step->peer * ranks + r] = 1;
        }
    }
    for (size_t r = 0; r < ranks; r++)
        for (size_t peer = 0; !err && peer < ranks; peer++)
            if (peers[r * ranks + peer])
                err = match(&c->rank[r], &c->rank[peer]);
    free(peers);
    return err;
}
