/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PERF_PRINT_H
#define PERF_PRINT_H

#include <stdio.h>

#include "options.h"

/* One printer for all programs of perf/: header lines, a table or CSV on stdout, and JSON in a
 * file.  One rank prints. */

/* In the table; JSON has every column. */
enum perf_when { PERF_ALWAYS, PERF_FULL, PERF_PEER, PERF_NEVER };

struct perf_column {
    const char *title; /* of the table */
    const char *key;   /* of the JSON */
    int width, decimals;
    enum perf_when when;
};

struct perf_report {
    const char *program;
    const struct perf_options *options;
    const struct perf_column *columns; /* the last has a NULL title; outlives the report */
    /* For each column NULL, or words of which its value is an index; NULL: all are numbers. */
    const char *const *const *words;
    FILE *json;                        /* NULL: none */
    int headers, rows;                 /* written so far */
    FILE *notes;                       /* writes note_text; NULL: none yet */
    char *note_text;
    size_t note_bytes;
};

/* Opens the JSON file, if any.  0, or -1 with the reason on stderr. */
int perf_report_open(struct perf_report *report, const struct perf_options *options,
                     const struct perf_about *about, const struct perf_column *columns);

/* "# key: text"; before the first row. */
void perf_report_header(struct perf_report *report, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for a text of several lines: one "# key: line" each, and one string in the JSON. */
void perf_report_text(struct perf_report *report, const char *key, const char *text);

/* values: one for each column, in their order; NAN: there is none. */
void perf_report_row(struct perf_report *report, const double *values);

/* A line below the table, "# note: text", and in the JSON's "note". */
void perf_report_note(struct perf_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Ends the report.  0, or -1 when something could not be written, with the reason on stderr. */
int perf_report_close(struct perf_report *report);

#endif
