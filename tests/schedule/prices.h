/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SCHEDULE_PRICES_H
#define TEST_SCHEDULE_PRICES_H

#include "schedule/simulate.h"

enum { PRICE_COLUMNS = 12 };

enum price_what { PRICE_TIME, PRICE_LOCAL, PRICE_HOST, PRICE_BUFFERS };

struct price {
    const char *name; /* NULL ends a list */
    enum price_what what;
    double compute_seconds;
    enum ri_launch launch;
    int shared_nic, in_order;
    double digit; /* value of the last digit that was published */
};

/* Why ours is another number than theirs, and which one it must be. */
struct price_reason {
    const char *price; /* start of the name of a column; the first one that fits counts */
    double ours;
    const char *why; /* NULL ends a list */
};

struct price_row {
    const char *machine, *name; /* name NULL ends the table */
    ri_builder *builder;
    int backward;
    struct ri_build build;              /* ranks and host come from the machine */
    const struct price *columns;        /* PRICE_COLUMNS at most */
    double theirs[PRICE_COLUMNS];       /* NAN: none */
    const struct price_reason *reasons; /* NULL: within 2 % */
    double key_share;                   /* size of K and dK, if not 1 */
};

extern const struct price_row price_rows[];

#endif
