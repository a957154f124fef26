/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "report.h"

/* Pixels: of the picture, and of the frame inside it. */
enum { WIDTH = 800, HEIGHT = 480, LEFT = 60, RIGHT = 780, TOP = 40, BOTTOM = 430, MOST_POINTS = 700,
       GRID_LINES = 20 };

struct frame {
    double first_step, last_step;
    double least, most; /* nats */
};

static double x_of(const struct frame *f, double step)
{
    double span = f->last_step > f->first_step ? f->last_step - f->first_step : 1.0;

    return LEFT + (step - f->first_step) / span * (RIGHT - LEFT);
}

static double y_of(const struct frame *f, double nats)
{
    return BOTTOM - (nats - f->least) / (f->most - f->least) * (BOTTOM - TOP);
}

static struct frame frame_of(const struct step_row *rows, size_t count,
                             const struct baselines *baselines)
{
    struct frame f = { (double)rows[0].step, (double)rows[count - 1].step, baselines->bigram,
                       baselines->unigram };

    for (size_t i = 0; i < count; i++) {
        f.least = fmin(f.least, fmin(rows[i].loss, rows[i].val_loss));
        f.most = fmax(f.most, fmax(rows[i].loss, rows[i].val_loss));
    }
    f.least = floor(2.0 * f.least) / 2.0;
    f.most = ceil(2.0 * f.most) / 2.0;
    if (f.most <= f.least)
        f.most = f.least + 0.5;
    return f;
}

static void grid(FILE *out, const struct frame *f)
{
    double gap = 0.5;

    while ((f->most - f->least) / gap > GRID_LINES)
        gap *= 2.0;
    for (int i = 0; f->least + i * gap <= f->most + 1e-9 * gap; i++) {
        double nats = f->least + i * gap;

        fprintf(out,
                "<line x1='%d' x2='%d' y1='%.1f' y2='%.1f' stroke='#ddd'/>"
                "<text x='%d' y='%.1f' text-anchor='end'>%.1f</text>\n",
                LEFT, RIGHT, y_of(f, nats), y_of(f, nats), LEFT - 8, y_of(f, nats) + 4, nats);
    }
    for (int i = 0; i <= 4; i++) {
        double step = f->first_step + (f->last_step - f->first_step) * i / 4.0;

        fprintf(out, "<text x='%.1f' y='%d' text-anchor='middle'>%.0f</text>\n", x_of(f, step),
                BOTTOM + 20, step);
    }
}

static void baseline(FILE *out, const struct frame *f, double nats, const char *name)
{
    fprintf(out,
            "<line x1='%d' x2='%d' y1='%.1f' y2='%.1f' stroke='#888' stroke-dasharray='5 4'/>"
            "<text x='%d' y='%.1f' text-anchor='end' fill='#666'>%s %.3f</text>\n",
            LEFT, RIGHT, y_of(f, nats), y_of(f, nats), RIGHT, y_of(f, nats) - 5, name, nats);
}

/* Each point is the mean of a run of steps, so that the file stays small. */
static void loss_curve(FILE *out, const struct frame *f, const struct step_row *rows, size_t count)
{
    size_t run = (count + MOST_POINTS - 1) / MOST_POINTS;

    fprintf(out, "<polyline fill='none' stroke='#7aa6d8' points='");
    for (size_t i = 0; i < count; i += run) {
        size_t end = i + run < count ? i + run : count;
        double loss = 0.0, step = 0.0;

        for (size_t j = i; j < end; j++) {
            loss += rows[j].loss;
            step += (double)rows[j].step;
        }
        fprintf(out, "%.1f,%.1f ", x_of(f, step / (double)(end - i)),
                y_of(f, loss / (double)(end - i)));
    }
    fprintf(out, "'/>\n");
}

static void validation_curve(FILE *out, const struct frame *f, const struct step_row *rows,
                             size_t count)
{
    fprintf(out, "<polyline fill='none' stroke='#c0392b' stroke-width='2' points='");
    for (size_t i = 0; i < count; i++)
        if (!isnan(rows[i].val_loss))
            fprintf(out, "%.1f,%.1f ", x_of(f, (double)rows[i].step), y_of(f, rows[i].val_loss));
    fprintf(out, "'/>\n");
}

int svg_write(const char *path, const struct step_row *rows, size_t count,
              const struct baselines *baselines)
{
    struct frame f = frame_of(rows, count, baselines);
    FILE *out = fopen(path, "we");
    int bad;

    if (!out)
        return -1;
    fprintf(out,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' "
            "font-family='sans-serif' font-size='12'>\n"
            "<rect width='100%%' height='100%%' fill='white'/>\n"
            "<text x='%d' y='24' font-size='14'>Loss in nats a byte: "
            "<tspan fill='#7aa6d8'>training</tspan>, <tspan fill='#c0392b'>held out</tspan>"
            "</text>\n",
            WIDTH, HEIGHT, LEFT);
    grid(out, &f);
    baseline(out, &f, baselines->unigram, "unigram");
    baseline(out, &f, baselines->bigram, "bigram");
    loss_curve(out, &f, rows, count);
    validation_curve(out, &f, rows, count);
    fprintf(out, "<text x='%d' y='%d' text-anchor='middle'>step</text>\n</svg>\n",
            (LEFT + RIGHT) / 2, BOTTOM + 38);
    bad = ferror(out);
    return fclose(out) != 0 || bad ? -1 : 0;
}
