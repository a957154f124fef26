/* SPDX-License-Identifier: Apache-2.0 */
/* Timelines as text and as JSON. */
#include "schedule/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "schedule/timeline_rows.h"

/* ---- what all writers need ---- */

static int operand_text(const struct ri_schedule *s, const struct ri_operand *o, char *text,
                        size_t bytes)
{
    int parts = s->head_parts * s->token_parts;
    int used = snprintf(text, bytes, "%s%d", ri_bundle_names[s->slots[o->slot].bundle], o->block);

    if (o->blocks > 1)
        used += snprintf(text + used, bytes - (size_t)used, "-%d", o->block + o->blocks - 1);
    if (o->parts < parts)
        used += snprintf(text + used, bytes - (size_t)used, ".%d", o->first_part);
    if (o->parts > 1 && o->parts < parts)
        used += snprintf(text + used, bytes - (size_t)used, "+%d", o->parts);
    return used;
}

void ri_timeline_label(const struct ri_schedule *s, uint32_t step, char *text, size_t bytes)
{
    const struct ri_step *it = &s->steps[step];
    char from[48], key[48];

    if (ri_step_moves(it)) {
        operand_text(s, ri_step_moved(it), from, sizeof(from));
        snprintf(text, bytes, "%s", from);
        return;
    }
    operand_text(s, &it->from[0], from, sizeof(from));
    if (it->op == RI_COMPUTE) {
        operand_text(s, &it->from[1], key, sizeof(key));
        snprintf(text, bytes, "%s %s", from, key);
    } else {
        snprintf(text, bytes, "%s%s", it->op == RI_MERGE ? "+" : "=", from);
    }
}

int ri_timeline_rows(const struct ri_simulation *simulation, uint8_t **used)
{
    *used = NULL;
    if (!simulation->events)
        return ri_error(RONDO_ERR_ARGUMENT, "the simulation has no events: ask for them");
    *used = calloc((size_t)simulation->ranks * RI_ROWS, 1);
    if (!*used)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for a timeline of %d ranks",
                        simulation->ranks);
    for (uint32_t i = 0; i < simulation->event_count; i++) {
        const struct ri_event *event = &simulation->events[i];

        (*used)[(uint32_t)event->rank * RI_ROWS + event->row] |= event->end > event->start;
    }
    return 0;
}

int ri_timeline_end(FILE *to)
{
    if (fflush(to) == 0 && !ferror(to))
        return 0;
    return ri_error(RONDO_ERR_SYSTEM, "the timeline could not be written");
}

/* ---- text ---- */

enum { COLUMNS = 100 };

/* The block that is not ours tells most. */
static char mark(const struct ri_schedule *s, uint32_t step)
{
    const struct ri_step *it = &s->steps[step];
    const struct ri_operand *o = ri_step_moves(it) ? ri_step_moved(it) : &it->from[0];

    if (it->op == RI_MERGE || it->op == RI_COPY)
        return '+';
    if (it->op == RI_COMPUTE && s->owner[o->block] == s->rank)
        o = &it->from[1];
    return (char)('0' + o->block % 10);
}

static void draw(struct ri_schedule *const *schedules, const struct ri_simulation *simulation,
                 char *lines)
{
    memset(lines, '.', (size_t)simulation->ranks * RI_ROWS * COLUMNS);
    for (uint32_t i = 0; i < simulation->event_count; i++) {
        const struct ri_event *event = &simulation->events[i];
        char *line = lines + ((uint32_t)event->rank * RI_ROWS + event->row) * COLUMNS;
        int first, end;

        if (!(event->end > event->start)) /* so where nothing takes time, nothing is divided by 0 */
            continue;
        first = (int)(event->start / simulation->seconds * COLUMNS + .5);
        end = (int)(event->end / simulation->seconds * COLUMNS + .5);
        if (first == COLUMNS)
            first--;
        if (end == first)
            end++; /* short ones are seen, too */
        memset(line + first, mark(schedules[event->rank], event->step), (size_t)(end - first));
    }
}

int ri_timeline_text(FILE *to, struct ri_schedule *const *schedules,
                     const struct ri_simulation *simulation)
{
    char *lines = malloc((size_t)simulation->ranks * RI_ROWS * COLUMNS);
    uint8_t *used = NULL;
    int err = lines ? ri_timeline_rows(simulation, &used)
                    : ri_error(RONDO_ERR_MEMORY, "out of memory for a timeline");

    if (!err) {
        draw(schedules, simulation, lines);
        fprintf(to, "%s: %.6g s, %.3g s a column; digits are blocks, + sums and copies\n",
                schedules[0]->name, simulation->seconds, simulation->seconds / COLUMNS);
        for (int row = 0; row < simulation->ranks * RI_ROWS; row++)
            if (used[row])
                fprintf(to, "rank %-3d %-9s |%.*s|\n", row / RI_ROWS, ri_row_names[row % RI_ROWS],
                        COLUMNS, lines + (size_t)row * COLUMNS);
        err = ri_timeline_end(to);
    }
    free(used);
    free(lines);
    return err;
}

/* ---- JSON ---- */

static void name_rows(FILE *to, const struct ri_schedule *s, const uint8_t *used)
{
    fprintf(to,
            "{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":\"rank %d, "
            "host %d\"}},\n",
            s->rank, s->rank, s->host[s->rank]);
    for (int row = 0; row < RI_ROWS; row++)
        if (used[row])
            fprintf(to,
                    "{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"thread_name\",\"args\":{"
                    "\"name\":\"%s\"}},\n",
                    s->rank, row, ri_row_names[row]);
}

int ri_timeline_chrome(FILE *to, struct ri_schedule *const *schedules,
                       const struct ri_simulation *simulation)
{
    uint8_t *used;
    int err = ri_timeline_rows(simulation, &used);

    if (err)
        return err;
    fprintf(to, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    for (int r = 0; r < simulation->ranks; r++)
        name_rows(to, schedules[r], used + r * RI_ROWS);
    for (uint32_t i = 0; i < simulation->event_count; i++) {
        const struct ri_event *event = &simulation->events[i];
        const struct ri_step *step = &schedules[event->rank]->steps[event->step];
        char label[128];

        ri_timeline_label(schedules[event->rank], event->step, label, sizeof(label));
        fprintf(to,
                "{\"ph\":\"X\",\"pid\":%d,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f,\"name\":\"%s\","
                "\"cat\":\"%s\",\"args\":{\"step\":%u",
                event->rank, event->row, event->start * 1e6, (event->end - event->start) * 1e6,
                label, ri_op_names[step->op], event->step);
        if (ri_step_moves(step))
            fprintf(to, ",\"turn\":%d,\"peer\":%d", step->turn, step->peer);
        fprintf(to, "}}%s\n", i + 1 < simulation->event_count ? "," : "");
    }
    fprintf(to, "]}\n");
    free(used);
    return ri_timeline_end(to);
}
