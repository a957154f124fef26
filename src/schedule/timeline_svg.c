/* SPDX-License-Identifier: Apache-2.0 */
/* Timelines as a picture. */
#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "schedule/timeline_rows.h"

/* In pixels. */
enum { LEFT = 110, WIDTH = 1200, RIGHT = 20, TOP = 40, ROW = 16, BAR = 13, GAP = 8, LETTER = 6 };

/* Light enough for black letters. */
static const char *const colours[] = {
    [RI_COMPUTE] = "#b5d8f0", [RI_SEND] = "#f9d9a8",  [RI_RECV] = "#c9e6b4",
    [RI_COPY] = "#dcdcdc",    [RI_MERGE] = "#e3c7ec",
};

/* y of each row that is used; returns the height of all. */
static int place_rows(const struct ri_simulation *simulation, const uint8_t *used, int *y)
{
    int at = TOP;

    for (int row = 0; row < simulation->ranks * RI_ROWS; row++) {
        if (row && row % RI_ROWS == 0)
            at += GAP;
        y[row] = at;
        at += used[row] ? ROW : 0;
    }
    return at;
}

static void write_head(FILE *to, const struct ri_schedule *s,
                       const struct ri_simulation *simulation, int height)
{
    fprintf(to,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"10\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n"
            "<text x=\"%d\" y=\"14\" font-size=\"12\">%s, %d ranks: %.6g s</text>\n",
            LEFT + WIDTH + RIGHT, height, LEFT + WIDTH + RIGHT, height, LEFT, s->name,
            simulation->ranks, simulation->seconds);
    for (int op = 0; op < (int)(sizeof(colours) / sizeof(colours[0])); op++)
        fprintf(to,
                "<rect x=\"%d\" y=\"5\" width=\"10\" height=\"10\" fill=\"%s\" stroke=\"#888888\" "
                "stroke-width=\"0.5\"/><text x=\"%d\" y=\"14\">%s</text>\n",
                LEFT + 700 + 90 * op, colours[op], LEFT + 715 + 90 * op, ri_op_names[op]);
}

/* A round number of seconds that divides the time in 5 to 12 or so. */
static double tick_seconds(double seconds)
{
    double tick = pow(10, floor(log10(seconds / 5)));

    if (seconds / tick > 25)
        return 5 * tick;
    return seconds / tick > 12 ? 2 * tick : tick;
}

static void write_axis(FILE *to, double seconds, int height)
{
    double tick;

    if (!(seconds > 0))
        return;
    tick = tick_seconds(seconds);
    for (int i = 0; i * tick <= seconds * (1 + 1e-9); i++) {
        double x = LEFT + i * tick / seconds * WIDTH;

        fprintf(to,
                "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#dddddd\"/>"
                "<text x=\"%.1f\" y=\"%d\" fill=\"#666666\">%.6g</text>\n",
                x, TOP - 8, x, height, x + 2, TOP - 8, i * tick);
    }
}

static void write_rows(FILE *to, struct ri_schedule *const *schedules, int ranks,
                       const uint8_t *used, const int *y)
{
    int named = -1;

    for (int row = 0; row < ranks * RI_ROWS; row++) {
        int rank = row / RI_ROWS;

        if (!used[row])
            continue;
        fprintf(to, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", LEFT - 6,
                y[row] + BAR - 3, ri_row_names[row % RI_ROWS]);
        if (rank != named)
            fprintf(to, "<text x=\"4\" y=\"%d\" font-weight=\"bold\">rank %d</text>\n",
                    y[row] + BAR - 3, schedules[rank]->rank);
        named = rank;
    }
}

static void write_bar(FILE *to, const struct ri_schedule *s, const struct ri_event *event,
                      double seconds, int y)
{
    const struct ri_step *step = &s->steps[event->step];
    double x = LEFT + event->start / seconds * WIDTH;
    double width = (event->end - event->start) / seconds * WIDTH;
    char label[128];
    int letters;

    ri_timeline_label(s, event->step, label, sizeof(label));
    for (letters = 0; label[letters];)
        letters++;
    fprintf(to,
            "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"%s\" "
            "stroke=\"#888888\" stroke-width=\"0.5\"><title>step %u %s %s, %.6g to %.6g s</title>"
            "</rect>\n",
            x, y, width, BAR, colours[step->op], event->step, ri_op_names[step->op], label,
            event->start, event->end);
    if (width >= letters * LETTER + 2)
        fprintf(to, "<text x=\"%.2f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", x + width / 2,
                y + BAR - 3, label);
}

static void write_all(FILE *to, struct ri_schedule *const *schedules,
                      const struct ri_simulation *simulation, const uint8_t *used, int *y)
{
    int height = place_rows(simulation, used, y) + GAP;

    write_head(to, schedules[0], simulation, height);
    write_axis(to, simulation->seconds, height);
    write_rows(to, schedules, simulation->ranks, used, y);
    for (uint32_t i = 0; i < simulation->event_count; i++) {
        const struct ri_event *event = &simulation->events[i];

        if (event->end > event->start)
            write_bar(to, schedules[event->rank], event, simulation->seconds,
                      y[(uint32_t)event->rank * RI_ROWS + event->row]);
    }
    fprintf(to, "</svg>\n");
}

int ri_timeline_svg(FILE *to, struct ri_schedule *const *schedules,
                    const struct ri_simulation *simulation)
{
    int *y = calloc((size_t)simulation->ranks * RI_ROWS, sizeof(*y));
    uint8_t *used = NULL;
    int err = y ? ri_timeline_rows(simulation, &used)
                : ri_error(RONDO_ERR_MEMORY, "out of memory for a timeline");

    if (!err) {
        write_all(to, schedules, simulation, used, y);
        err = ri_timeline_end(to);
    }
    free(used);
    free(y);
    return err;
}
