/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LINE_SECONDS 5.0

/* "loss.csv" -> "loss.svg", "loss" -> "loss.svg". */
static char *svg_beside(const char *csv)
{
    const char *name = strrchr(csv, '/');
    const char *dot = strrchr(name ? name : csv, '.');
    int stem = dot && dot != (name ? name + 1 : csv) ? (int)(dot - csv) : (int)strlen(csv);
    char *path;

    return asprintf(&path, "%.*s.svg", stem, csv) < 0 ? NULL : path;
}

int report_open(struct report *r, const char *csv, const char *svg, int resumed,
                struct problem *problem)
{
    memset(r, 0, sizeof(*r));
    r->printed = -INFINITY;
    r->lines = stdout;
    if (svg || csv) {
        r->svg_path = svg ? strdup(svg) : svg_beside(csv);
        if (!r->svg_path)
            return problem_set(problem, EXIT_FAILED, "out of memory: report");
    }
    if (!csv)
        return 0;
    r->csv = fopen(csv, resumed ? "ae" : "we");
    if (!r->csv)
        return problem_set(problem, EXIT_FAILED, "cannot write --csv %s: %s", csv,
                           strerror(errno));
    if (ftell(r->csv) == 0)
        fputs("step,loss,val_loss,tokens_per_s,exposed\n", r->csv);
    return 0;
}

/* A picture that lacks rows is better than a training that ends for want of memory. */
static void keep(struct report *r, const struct step_row *row)
{
    if (!r->svg_path)
        return;
    if (r->count == r->capacity) {
        size_t capacity = r->capacity ? 2 * r->capacity : 1024;
        struct step_row *rows = realloc(r->rows, capacity * sizeof(*rows));

        if (!rows)
            return;
        r->rows = rows;
        r->capacity = capacity;
    }
    r->rows[r->count++] = *row;
}

static void print_line(FILE *out, const struct step_row *row)
{
    char val_loss[24] = "";

    if (!isnan(row->val_loss))
        snprintf(val_loss, sizeof(val_loss), "val %.4f", row->val_loss);
    fprintf(out, "step %6lld  loss %.4f  %-10s  %7.0f tokens/s  exposed %4.1f %%",
            (long long)row->step, row->loss, val_loss, row->tokens_per_s, 100.0 * row->exposed);
    if (row->left >= 0.0)
        fprintf(out, "  left %lld:%02d", (long long)(fmin(row->left, 1e15) / 60.0),
                (int)fmod(row->left, 60.0));
    fprintf(out, "\n");
    fflush(out);
}

void report_step(struct report *r, const struct step_row *row, double now)
{
    keep(r, row);
    if (r->csv) {
        fprintf(r->csv, "%lld,%.12g,", (long long)row->step, row->loss);
        if (!isnan(row->val_loss))
            fprintf(r->csv, "%.12g", row->val_loss);
        fprintf(r->csv, ",%.6g,%.6g\n", row->tokens_per_s, row->exposed);
        fflush(r->csv);
    }
    r->last = *row;
    r->is_owed = r->lines && isnan(row->val_loss) && now - r->printed < LINE_SECONDS;
    if (!r->lines || r->is_owed)
        return;
    r->printed = now;
    print_line(r->lines, row);
}

void report_end(struct report *r)
{
    if (r->is_owed)
        print_line(r->lines, &r->last);
    r->is_owed = 0;
}

int report_close(struct report *r, const struct baselines *baselines, struct problem *problem)
{
    int err = 0;

    if (r->csv) {
        err = ferror(r->csv);
        if (fclose(r->csv) != 0 || err)
            err = problem_set(problem, EXIT_FAILED, "the CSV could not be written whole");
    }
    if (r->svg_path && r->count > 0 && svg_write(r->svg_path, r->rows, r->count, baselines))
        err = problem_set(problem, EXIT_FAILED, "cannot write --svg %s: %s", r->svg_path,
                          strerror(errno));
    free(r->svg_path);
    free(r->rows);
    memset(r, 0, sizeof(*r));
    return err ? -1 : 0;
}
