/* SPDX-License-Identifier: Apache-2.0 */
/* Schemes written out as texts, for all ranks, without the library's builders. */
#include <stdio.h>
#include <string.h>

#include "tests/schedule/ranks.h"

enum { WORK = -1, LOCAL = 0, HOST = 1 };

static void head(struct draft *d, const char *name, int rank, int ranks, int heads, int tokens,
                 int per_host)
{
    char hosts[16 * MAX_RANKS] = "";

    for (int r = 0; r < ranks; r++)
        snprintf(hosts + strlen(hosts), 16, " %d", r / per_host);
    draft_line(d, "schedule %s ranks %d rank %d heads %d tokens %d", name, ranks, rank, heads,
               tokens);
    draft_line(d, "hosts%s", hosts);
}

static void slots(struct draft *d, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        draft_line(d, "slot %d %s", i, names[i]);
}

/* One round of the inner ring: the block in `slot` goes round the host; arrivals alternate between
 * slots 3 and 4, over both rounds. */
static void inner_round(struct draft *d, int rank, int home, int slot, int first_block, int local,
                        int turn, int *arrivals)
{
    int next = home + (local + 1) % 4, prev = home + (local + 3) % 4;

    for (int s = 0; s < 4; s++) {
        int block = first_block + (local - s + 4) % 4, coming = first_block + (local - s + 3) % 4;
        int into = 3 + *arrivals % 2;

        if (s < 3) {
            draft_step(d, turn + s, LOCAL, "send s%d:K%d to %d", slot, block, next);
            draft_step(d, turn + s, LOCAL, "recv s%d:K%d from %d", into, coming, prev);
            ++*arrivals;
        }
        draft_step(d, WORK, 0, "compute s0:Q%d s%d:K%d -> s2:O%d%s", rank, slot, block, rank,
                   slot == 1 ? "" : "+");
        slot = into;
    }
}

char *text_two_level_fwd(int rank, int ranks)
{
    static const char *const names[] = {"Q in",   "K in",   "O out", "K view",
                                        "K view", "K view", "K view"};
    struct draft d = {0};
    int host = rank / 4, local = rank % 4, across = (1 - host) * 4 + local, arrivals = 0;

    head(&d, "two_level_fwd", rank, 8, 1, 1, 4);
    slots(&d, names, 7);
    draft_step(&d, 0, HOST, "send s1:K%d to %d", rank, across);
    draft_step(&d, 0, HOST, "recv s6:K%d from %d", across, across);
    inner_round(&d, rank, host * 4, 1, host * 4, local, 2, &arrivals);
    inner_round(&d, rank, host * 4, 6, (1 - host) * 4, local, 10, &arrivals);
    return d.text;
}

char *text_two_level_q(int rank, int ranks)
{
    static const char *const names[] = {"Q in",   "K in",   "dQ out", "dK out", "Q view",
                                        "Q view", "Q view", "Q view", "dQ buf", "dQ buf",
                                        "dQ buf", "dQ buf", "dQ buf"};
    struct draft d = {0};
    int r = rank, l = rank ^ 1, h = rank ^ 2, x = rank ^ 3; /* local, host, and both across */

    head(&d, "two_level_Q", rank, 4, 1, 1, 2);
    slots(&d, names, 13);
    draft_step(&d, 0, HOST, "send s0:Q%d to %d", r, h);
    draft_step(&d, 0, HOST, "recv s7:Q%d from %d", h, h);
    draft_step(&d, 2, LOCAL, "send s0:Q%d to %d", r, l);
    draft_step(&d, 2, LOCAL, "recv s4:Q%d from %d", l, l);
    draft_step(&d, WORK, 0, "compute s0:Q%d s1:K%d -> s8:dQ%d s3:dK%d", r, r, r, r);
    draft_step(&d, 4, LOCAL, "send s8:dQ%d to %d", r, l);
    draft_step(&d, 4, LOCAL, "recv s10:dQ%d from %d", l, l);
    draft_step(&d, WORK, 0, "compute s4:Q%d s1:K%d -> s9:dQ%d s3:dK%d+", l, r, l, r);
    draft_step(&d, WORK, 0, "merge sum s10:dQ%d -> s9:dQ%d+", l, l);
    draft_step(&d, WORK, 0, "merge sum s9:dQ%d -> s11:dQ%d", l, l);
    draft_step(&d, 8, LOCAL, "send s7:Q%d to %d", h, l);
    draft_step(&d, 8, LOCAL, "recv s5:Q%d from %d", x, l);
    draft_step(&d, 9, HOST, "send s11:dQ%d to %d", l, h);
    draft_step(&d, 9, HOST, "recv s12:dQ%d from %d", x, h);
    draft_step(&d, WORK, 0, "compute s7:Q%d s1:K%d -> s8:dQ%d s3:dK%d+", h, r, h, r);
    draft_step(&d, 10, LOCAL, "send s8:dQ%d to %d", h, l);
    draft_step(&d, 10, LOCAL, "recv s10:dQ%d from %d", x, l);
    draft_step(&d, WORK, 0, "compute s5:Q%d s1:K%d -> s9:dQ%d s3:dK%d+", x, r, x, r);
    draft_step(&d, WORK, 0, "merge sum s10:dQ%d -> s9:dQ%d+", x, x);
    draft_step(&d, WORK, 0, "merge sum s9:dQ%d -> s12:dQ%d+", x, x);
    draft_step(&d, 12, HOST, "send s12:dQ%d to %d", x, h);
    draft_step(&d, 12, HOST, "recv s11:dQ%d from %d", l, h);
    draft_step(&d, 13, LOCAL, "send s11:dQ%d to %d", l, l);
    draft_step(&d, 13, LOCAL, "recv s2:dQ%d from %d", r, l);
    return d.text;
}

char *text_mesh2x2(int rank, int ranks)
{
    static const char *const names[] = {"Q in",   "K in",  "O out", "K view",
                                        "Q view", "O buf", "O buf"};
    struct draft d = {0};
    int r = rank, q = rank ^ 1, k = rank ^ 2;

    head(&d, "mesh2x2_fwd", rank, 4, 1, 1, 4);
    slots(&d, names, 7);
    draft_step(&d, 0, LOCAL, "send s1:K%d to %d", r, k);
    draft_step(&d, 0, LOCAL, "recv s3:K%d from %d", k, k);
    draft_step(&d, 1, LOCAL, "send s0:Q%d to %d", r, q);
    draft_step(&d, 1, LOCAL, "recv s4:Q%d from %d", q, q);
    draft_step(&d, WORK, 0, "compute s0:Q%d s1:K%d -> s2:O%d", r, r, r);
    draft_step(&d, WORK, 0, "compute s0:Q%d s3:K%d -> s2:O%d+", r, k, r);
    draft_step(&d, WORK, 0, "compute s4:Q%d s1:K%d -> s5:O%d", q, r, q);
    draft_step(&d, WORK, 0, "compute s4:Q%d s3:K%d -> s5:O%d+", q, k, q);
    draft_step(&d, 3, LOCAL, "send s5:O%d to %d", q, q);
    draft_step(&d, 3, LOCAL, "recv s6:O%d from %d", r, q);
    draft_step(&d, WORK, 0, "merge lse s6:O%d -> s2:O%d+", r, r);
    return d.text;
}

/* Rank r computes head group r of the whole sequence: one COMPUTE that spans all blocks. */
char *text_all_to_all(int rank, int ranks)
{
    struct draft d = {0};
    int q = 3, k = 3 + ranks, o = 3 + 2 * ranks, last = ranks - 1;

    head(&d, "all_to_all", rank, ranks, ranks, 1, ranks);
    draft_line(&d, "slot 0 Q in\nslot 1 K in\nslot 2 O out");
    for (int i = 0; i < 3 * ranks; i++)
        draft_line(&d, "slot %d %s", 3 + i,
                   i < ranks       ? "Q view parts 1"
                   : i < 2 * ranks ? "K view parts 1"
                                   : "O buf parts 1");
    for (int peer = 0; peer < ranks; peer++) {
        if (peer == rank) {
            draft_step(&d, WORK, 0, "copy s0:Q%d.%d -> s%d:Q%d.%d", rank, rank, q + rank, rank,
                       rank);
            draft_step(&d, WORK, 0, "copy s1:K%d.%d -> s%d:K%d.%d", rank, rank, k + rank, rank,
                       rank);
            continue;
        }
        draft_step(&d, 0, LOCAL, "send s0:Q%d.%d to %d", rank, peer, peer);
        draft_step(&d, 0, LOCAL, "send s1:K%d.%d to %d", rank, peer, peer);
        draft_step(&d, 0, LOCAL, "recv s%d:Q%d.%d from %d", q + peer, peer, rank, peer);
        draft_step(&d, 0, LOCAL, "recv s%d:K%d.%d from %d", k + peer, peer, rank, peer);
    }
    draft_step(&d, WORK, 0, "compute s%d:Q0-%d.%d s%d:K0-%d.%d -> s%d:O0-%d.%d", q, last, rank, k,
               last, rank, o, last, rank);
    for (int peer = 0; peer < ranks; peer++) {
        if (peer == rank) {
            draft_step(&d, WORK, 0, "copy s%d:O%d.%d -> s2:O%d.%d", o + rank, rank, rank, rank,
                       rank);
            continue;
        }
        draft_step(&d, 1, LOCAL, "send s%d:O%d.%d to %d", o + peer, peer, rank, peer);
        draft_step(&d, 1, LOCAL, "recv s2:O%d.%d from %d", rank, peer, peer);
    }
    return d.text;
}

/* Part 0 is piece r, part 1 is piece 2*ranks-1-r of the sequence; a query sees earlier pieces. */
int live_zigzag(void *context, int query_block, int query_part, int key_block, int key_part)
{
    int ranks = *(int *)context;
    int query = query_part ? 2 * ranks - 1 - query_block : query_block;
    int key = key_part ? 2 * ranks - 1 - key_block : key_block;

    return key <= query;
}

/* To the previous rank, where a block first meets the ranks that need all of it.  Behind rank 0
 * only its first half is of use. */
char *text_zigzag_half(int rank, int ranks)
{
    struct draft d = {0};
    int to = (rank + ranks - 1) % ranks, from = (rank + 1) % ranks;

    head(&d, "zigzag_half", rank, ranks, 1, 2, ranks);
    draft_line(&d, "slot 0 Q in\nslot 1 K in\nslot 2 O out\nslot 3 K view\nslot 4 K view");
    for (int t = 0; t < ranks; t++) {
        int block = (rank + t) % ranks, coming = (rank + t + 1) % ranks,
            slot = t ? 3 + (t - 1) % 2 : 1;

        if (t < ranks - 1) {
            draft_step(&d, t, LOCAL, "send s%d:K%d%s to %d", slot, block, to > block ? ".0" : "",
                       to);
            draft_step(&d, t, LOCAL, "recv s%d:K%d%s from %d", 3 + t % 2, coming,
                       rank > coming ? ".0" : "", from);
        }
        if (block < rank)
            draft_step(&d, WORK, 0, "compute s0:Q%d s%d:K%d.0 -> s2:O%d+", rank, slot, block, rank);
        else if (block > rank)
            draft_step(&d, WORK, 0, "compute s0:Q%d.1 s%d:K%d -> s2:O%d.1+", rank, slot, block,
                       rank);
        else
            draft_step(&d, WORK, 0, "compute s0:Q%d s1:K%d -> s2:O%d", rank, block, rank);
    }
    return d.text;
}

char *text_chunked(int rank, int ranks)
{
    struct draft d = {0};
    int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;

    head(&d, "chunked", rank, ranks, 1, 2, 1);
    draft_line(&d, "slot 0 Q in\nslot 1 K in\nslot 2 O out\nslot 3 K view\nslot 4 K view");
    for (int t = 0; t < ranks; t++) {
        int block = (rank - t + ranks) % ranks, coming = (rank - t - 1 + 2 * ranks) % ranks;
        int slot = t ? 3 + (t - 1) % 2 : 1;

        for (int chunk = 0; chunk < 2 && t < ranks - 1; chunk++) {
            draft_step(&d, 2 * t + chunk, HOST, "send s%d:K%d.%d to %d", slot, block, chunk, to);
            draft_step(&d, 2 * t + chunk, HOST, "recv s%d:K%d.%d from %d", 3 + t % 2, coming, chunk,
                       from);
        }
        for (int chunk = 0; chunk < 2; chunk++)
            draft_step(&d, WORK, 0, "compute s0:Q%d s%d:K%d.%d -> s2:O%d%s", rank, slot, block,
                       chunk, rank, t || chunk ? "+" : "");
    }
    return d.text;
}
