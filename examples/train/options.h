/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_OPTIONS_H
#define TRAIN_OPTIONS_H

#include <stdint.h>
#include <stdio.h>

#include "model.h"
#include "problem.h"

struct options {
    /* Strings are those of argv, or NULL. */
    const char *layout, *schedule, *backward, *kernel;
    const char *transport; /* NULL: what the environment says */
    const char *deal;  /* of documents */
    const char *dtype; /* of what attention reads and writes */
    const char *wire;  /* types that tensors travel in; NULL: as they are */
    const char *csv, *svg, *save, *resume, *save_grads;
    int64_t tokens;
    int documents;   /* the text's files are documents, and see each other not */
    int64_t window;  /* tokens that a token sees, its own among them; 0: all before it */
    int64_t steps;   /* 0: until `seconds` have passed */
    int64_t stop_at; /* 0: no; else save and stop after this step, though `steps` shapes the rate */
    double seconds;  /* 0: no limit */
    uint64_t seed;
    double rate;
    int64_t validate_every;
    int64_t windows; /* held-out windows of a validation on the way */
    int64_t sample;  /* bytes to generate at the end */
    double temperature;
    int perturb; /* --perturb-ulp was given */
    uint64_t perturb_seed;
    int help, version;
    struct model_sizes sizes;
    char *const *paths; /* of texts; what is left of argv */
    int path_count;
};

/* 0, or -1 with the problem set: the option and the value that are refused. */
int options_parse(struct options *o, int argc, char **argv, struct problem *problem);
rondo_dtype_t options_dtype(const struct options *o);
void options_help(FILE *out);

#endif
