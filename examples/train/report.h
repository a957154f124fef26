/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_REPORT_H
#define TRAIN_REPORT_H

#include <stdint.h>
#include <stdio.h>

#include "data.h"
#include "problem.h"

/* What one step has to say. */
struct step_row {
    int64_t step;     /* steps done, this one included */
    double loss;      /* nats a token, before the step's update */
    double val_loss;  /* NAN: not measured after this step */
    double tokens_per_s;
    double exposed;   /* share of the step in which data moved and nothing computed, 0..1 */
    double left;      /* seconds to go; negative: unknown */
};

/* Kept by rank 0: the CSV, the lines on the terminal, and the points of the picture. */
struct report {
    FILE *csv;
    FILE *lines; /* stdout; NULL: no lines */
    char *svg_path; /* owned, or NULL */
    struct step_row *rows;
    size_t count, capacity;
    double printed; /* when the last line was, by the caller's clock */
    struct step_row last;
    int is_owed;    /* `last` has no line yet */
};

/* svg NULL: beside the CSV, with its ending replaced.  resumed: the CSV is continued.  0, or -1 with
 * the problem set. */
int report_open(struct report *r, const char *csv, const char *svg, int resumed,
                struct problem *problem);
/* Writes the CSV's row, and a line to stdout when there is a validation or the last line is a while
 * ago.  now: any clock in seconds. */
void report_step(struct report *r, const struct step_row *row, double now);
/* The line of the last step, if it has none. */
void report_end(struct report *r);
/* Writes the picture and closes.  0, or -1 with the problem set: something could not be written. */
int report_close(struct report *r, const struct baselines *baselines, struct problem *problem);

/* svg.c: the curves of loss and validation loss over the steps, with the baselines. */
int svg_write(const char *path, const struct step_row *rows, size_t count,
              const struct baselines *baselines);

#endif
