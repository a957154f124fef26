/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SCHEDULE_RANKS_H
#define TEST_SCHEDULE_RANKS_H

#include "schedule/schedule.h"

/* The schedules of all ranks of one scheme. */
enum { MAX_RANKS = 64 };

struct ranks {
    struct ri_schedule *s[MAX_RANKS];
    int count;
};

/* All fail the running test when they cannot do it. */
void ranks_build(struct ranks *all, ri_builder *build, int ranks, const int32_t *host, int root);
/* how->rank is ignored. */
void ranks_build_as(struct ranks *all, ri_builder *build, const struct ri_build *how);
/* text(rank) gives a malloc'd text. */
void ranks_parse(struct ranks *all, int ranks, char *(*text)(int rank, int ranks));
void ranks_release(struct ranks *all);

/* Fails the test with the checker's words unless the schedules are accepted. */
void ranks_accept(struct ranks *all, enum ri_goal goal);

/* A text that grows; take() gives it up. */
struct draft {
    char *text;
    size_t length;
    int steps;
};
void draft_line(struct draft *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "  7   3 local " or, for turn < 0, "  7   . .     ", then the format. */
void draft_step(struct draft *d, int turn, int host_lane, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Texts written without any of the library's builders, by the rules of each scheme. */
char *text_two_level_fwd(int rank, int ranks); /* 8 ranks on 2 hosts */
char *text_two_level_q(int rank, int ranks);   /* 4 ranks on 2 hosts */
char *text_mesh2x2(int rank, int ranks);       /* 4 ranks */
char *text_all_to_all(int rank, int ranks);    /* as many head groups as ranks */
char *text_zigzag_half(int rank, int ranks);   /* causal; halves are parts, dead halves dropped */
char *text_chunked(int rank, int ranks);       /* ring, each block in two messages */

/* Which pairs text_zigzag_half must compute; context: int, the ranks. */
int live_zigzag(void *context, int query_block, int query_part, int key_block, int key_part);

#endif
