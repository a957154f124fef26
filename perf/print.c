/* SPDX-License-Identifier: Apache-2.0 */
#include "print.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* text as a JSON string. */
static void json_string(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fprintf(file, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            fprintf(file, "\\u%04x", (unsigned char)*text);
        else
            fputc(*text, file);
    }
    fputc('"', file);
}

int perf_report_open(struct perf_report *report, const struct perf_options *options,
                     const struct perf_about *about, const struct perf_column *columns)
{
    *report = (struct perf_report){.program = about->name, .options = options, .columns = columns};
    if (!options->json_path)
        return 0;
    report->json = fopen(options->json_path, "w");
    if (!report->json) {
        fprintf(stderr, "%s: --json '%s' cannot be written: %s\n", about->name, options->json_path,
                strerror(errno));
        return -1;
    }
    fprintf(report->json, "{\"schema\":\"rondo-perf\",\"version\":1,\"program\":");
    json_string(report->json, about->name);
    fprintf(report->json, ",\"header\":{");
    return 0;
}

void perf_report_text(struct perf_report *report, const char *key, const char *text)
{
    for (const char *line = text; *line;) {
        int length = (int)strcspn(line, "\n");

        printf("# %s: %.*s\n", key, length, line);
        line += length + (line[length] == '\n');
    }
    if (report->json) {
        fprintf(report->json, "%s\n  ", report->headers++ ? "," : "");
        json_string(report->json, key);
        fputc(':', report->json);
        json_string(report->json, text);
    }
}

void perf_report_header(struct perf_report *report, const char *key, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    perf_report_text(report, key, text);
}

static int is_shown(const struct perf_report *report, const struct perf_column *column)
{
    return column->when == PERF_ALWAYS || (column->when == PERF_FULL && report->options->full) ||
           (column->when == PERF_PEER && report->options->peer);
}

static void print_titles(const struct perf_report *report)
{
    const char *separator = report->options->csv ? "" : "#";

    for (const struct perf_column *c = report->columns; c->title; c++) {
        if (!is_shown(report, c))
            continue;
        if (report->options->csv)
            printf("%s%s", separator, c->title);
        else
            printf("%s%*s", separator, c->width, c->title);
        separator = report->options->csv ? "," : " ";
    }
    putchar('\n');
}

static const char *const *words_of(const struct perf_report *report, int column)
{
    return report->words ? report->words[column] : NULL;
}

static void print_row(const struct perf_report *report, const double *values)
{
    const char *separator = report->options->csv ? "" : " ";

    for (int i = 0; report->columns[i].title; i++) {
        const struct perf_column *c = &report->columns[i];
        int width = report->options->csv ? 0 : c->width;

        if (!is_shown(report, c))
            continue;
        if (words_of(report, i))
            printf("%s%*s", separator, width, words_of(report, i)[(int)values[i]]);
        else if (isnan(values[i]))
            printf("%s%*s", separator, width, report->options->csv ? "" : "-");
        else
            printf("%s%*.*f", separator, width, c->decimals, values[i]);
        separator = report->options->csv ? "," : " ";
    }
    putchar('\n');
}

static void json_row(const struct perf_report *report, const double *values)
{
    fprintf(report->json, "%s\n  {", report->rows ? "," : "\n},\"results\":[");
    for (int i = 0; report->columns[i].title; i++) {
        if (i)
            fputc(',', report->json);
        json_string(report->json, report->columns[i].key);
        fputc(':', report->json);
        if (words_of(report, i))
            json_string(report->json, words_of(report, i)[(int)values[i]]);
        else if (isfinite(values[i]))
            fprintf(report->json, "%.17g", values[i]);
        else
            fprintf(report->json, "null");
    }
    fputc('}', report->json);
}

void perf_report_row(struct perf_report *report, const double *values)
{
    if (report->rows == 0)
        print_titles(report);
    print_row(report, values);
    fflush(stdout);
    if (report->json)
        json_row(report, values);
    report->rows++;
}

void perf_report_note(struct perf_report *report, const char *format, ...)
{
    va_list args;

    if (!report->notes)
        report->notes = open_memstream(&report->note_text, &report->note_bytes);
    if (!report->notes)
        return;
    va_start(args, format);
    vfprintf(report->notes, format, args);
    va_end(args);
    fputc('\n', report->notes);
}

/* Behind the results, as the headers are before them. */
static void print_notes(struct perf_report *report)
{
    if (report->notes && fclose(report->notes) == 0)
        perf_report_text(report, "note", report->note_text);
    free(report->note_text);
    report->notes = NULL;
    report->note_text = NULL;
}

int perf_report_close(struct perf_report *report)
{
    int failed;

    if (report->json)
        fprintf(report->json, "%s\n]", report->rows ? "" : "\n},\"results\":[");
    print_notes(report);
    failed = fflush(stdout) || ferror(stdout);
    if (report->json) {
        fprintf(report->json, "}\n");
        failed |= ferror(report->json) != 0;
        failed |= fclose(report->json) != 0;
    }
    report->json = NULL;
    if (failed)
        fprintf(stderr, "%s: the report could not be written: %s\n", report->program,
                strerror(errno));
    return failed ? -1 : 0;
}
