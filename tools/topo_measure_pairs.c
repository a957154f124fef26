/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks meet in pairs.  In a pair the lower rank leads: it tells the other by short commands what comes,
 * and all times are by its clock. */
#include <stdlib.h>

#include <rondo/rondo.h>

#include "base/clock.h"
#include "base/status.h"
#include "perf/link.h"
#include "tools/topo_measure.h"

enum {
    MESSAGE_BYTES = 4 << 20, /* at most */
    WINDOW_MESSAGES = 16,    /* in flight at once */
    SAMPLES = 31,            /* windows each way that count, at most */
    BATCHES = 21, BATCH_PINGS = 10,
    PING_BYTES = 8
};

static const double first_window_bytes = 65536, most_window_bytes = (double)MESSAGE_BYTES * WINDOW_MESSAGES;
/* More than this says nothing new; it lasts for many times what passes a link's shaper at once. */
static const double longest_window_s = 0.1, longest_way_s = 0.7, longest_latency_s = 0.05;

/* ---- who meets whom ---- */

int measure_rounds(int ranks)
{
    return ranks % 2 ? ranks : ranks - 1;
}

/* The last of an even number stays where it is, the others go round; without it, its partner is free. */
int measure_partner(int rank, int round, int ranks)
{
    int circle = measure_rounds(ranks), partner;

    if (rank == circle)
        return round;
    partner = (2 * round - rank + 2 * circle) % circle;
    if (partner == rank)
        partner = circle;
    return partner < ranks ? partner : -1;
}

/* ---- messages of a pair ---- */

enum what { PINGS, SEND, RECEIVE, END }; /* as the leader sees it */

struct command {
    int32_t what, messages;
    int64_t bytes; /* of a message */
};

struct meeting {
    struct perf_link link;
    int peer;
    uint64_t sent, received; /* messages, so far: they number tags */
    char *out, *in;          /* [MESSAGE_BYTES] */
    struct ri_xfer xfers[WINDOW_MESSAGES + 1];
};

static int post(struct meeting *meeting, struct ri_xfer *xfer, int send, void *base, size_t bytes)
{
    uint64_t n = send ? meeting->sent++ : meeting->received++;

    *xfer = perf_link_message(&meeting->link, meeting->peer, n, base, bytes);
    xfer->send = (uint8_t)send;
    return perf_link_post(&meeting->link, xfer);
}

static int move(struct meeting *meeting, int send, void *base, size_t bytes)
{
    struct ri_xfer *xfer = &meeting->xfers[WINDOW_MESSAGES];
    int err = post(meeting, xfer, send, base, bytes);

    return err ? err : perf_link_wait(&meeting->link, xfer, PERF_AWAKE);
}

/* All of a window at once.  What comes is not looked at, so that all of it may land in one place. */
static int move_window(struct meeting *meeting, int send, int messages, size_t bytes)
{
    int err = 0;

    for (int i = 0; i < messages && !err; i++)
        err = post(meeting, &meeting->xfers[i], send, send ? meeting->out : meeting->in, bytes);
    for (int i = 0; i < messages && !err; i++)
        err = perf_link_wait(&meeting->link, &meeting->xfers[i], PERF_AWAKE);
    return err;
}

static int ping(struct meeting *meeting, int pings, int first)
{
    int err = 0;

    for (int i = 0; i < pings && !err; i++) {
        err = move(meeting, first, first ? meeting->out : meeting->in, PING_BYTES);
        if (!err)
            err = move(meeting, !first, first ? meeting->in : meeting->out, PING_BYTES);
    }
    return err;
}

/* ---- the one that follows ---- */

static int obey(struct meeting *meeting, const struct command *command)
{
    int err;

    if (command->messages < 0 || command->bytes < 0 || command->bytes > MESSAGE_BYTES ||
        (command->what != PINGS && command->messages > WINDOW_MESSAGES))
        return ri_error(RONDO_ERR_INTERNAL, "rank %d sent %d messages of %lld bytes as a command", meeting->peer,
                        (int)command->messages, (long long)command->bytes);
    if (command->what == PINGS)
        return ping(meeting, command->messages, 0);
    if (command->what == RECEIVE)
        return move_window(meeting, 1, command->messages, (size_t)command->bytes);
    err = move_window(meeting, 0, command->messages, (size_t)command->bytes);
    return err ? err : move(meeting, 1, NULL, 0);
}

static int follow(struct meeting *meeting)
{
    struct command command = { END, 0, 0 };
    int err;

    do {
        err = move(meeting, 0, &command, sizeof(command));
        if (!err && command.what != END)
            err = obey(meeting, &command);
    } while (!err && command.what != END);
    return err;
}

/* ---- the one that leads ---- */

static double seconds_since(int64_t begin_ns)
{
    return (double)(ri_now_ns() - begin_ns) * 1e-9;
}

static int order(struct meeting *meeting, enum what what, int messages, size_t bytes)
{
    struct command command = { what, messages, (int64_t)bytes };

    return move(meeting, 1, &command, sizeof(command));
}

/* A window of about so many bytes; *bytes becomes what it was.  From the first byte to the word that the last
 * one came, or to the last one. */
static int time_window(struct meeting *meeting, enum what what, double *bytes, double *seconds)
{
    size_t message = *bytes < MESSAGE_BYTES ? (size_t)*bytes : MESSAGE_BYTES;
    int messages = (int)(*bytes / (double)message);
    int64_t begin = ri_now_ns();
    int err = order(meeting, what, messages, message);

    if (!err)
        err = move_window(meeting, what == SEND, messages, message);
    if (!err && what == SEND)
        err = move(meeting, 0, NULL, 0);
    *seconds = seconds_since(begin);
    *bytes = (double)messages * (double)message;
    return err;
}

/* Windows grow until they last long enough; those that came before do not count.  At least one does. */
static int measure_gbps(struct meeting *meeting, enum what what, double budget_s, double *gbps)
{
    double window_s = longest_window_s, bytes = first_window_bytes, seconds = 0, samples[SAMPLES];
    int64_t begin = ri_now_ns();
    int count = 0, err;

    budget_s = budget_s < longest_way_s ? budget_s : longest_way_s;
    window_s *= budget_s / longest_way_s;
    err = time_window(meeting, what, &bytes, &seconds);
    while (!err && seconds < window_s / 4 && bytes < most_window_bytes) {
        bytes = 4 * bytes < most_window_bytes ? 4 * bytes : most_window_bytes;
        err = time_window(meeting, what, &bytes, &seconds);
    }
    while (!err && count < SAMPLES && (count == 0 || seconds_since(begin) < budget_s)) {
        err = time_window(meeting, what, &bytes, &seconds);
        samples[count++] = bytes / seconds / 1e9;
    }
    if (!err)
        *gbps = measure_median(samples, count);
    return err;
}

/* The first batch, in which connections are made, does not count. */
static int measure_latency(struct meeting *meeting, double budget_s, double *latency_us)
{
    double samples[BATCHES];
    int64_t begin = ri_now_ns();
    int count = 0, err = order(meeting, PINGS, BATCH_PINGS, 0);

    if (!err)
        err = ping(meeting, BATCH_PINGS, 1);
    budget_s = budget_s < longest_latency_s ? budget_s : longest_latency_s;
    while (!err && count < BATCHES && (count == 0 || seconds_since(begin) < budget_s)) {
        int64_t batch = 0;

        err = order(meeting, PINGS, BATCH_PINGS, 0);
        batch = ri_now_ns();
        if (!err)
            err = ping(meeting, BATCH_PINGS, 1);
        samples[count++] = seconds_since(batch) * 1e6 / (2 * BATCH_PINGS);
    }
    if (!err)
        *latency_us = measure_median(samples, count);
    return err;
}

static int lead(struct measure *m, struct meeting *meeting, double budget_s)
{
    int ranks = m->info.size, there = m->info.rank * ranks + meeting->peer, back = meeting->peer * ranks + m->info.rank;
    int err = measure_latency(meeting, budget_s / 10, &m->latency_us[there]);

    m->latency_us[back] = m->latency_us[there];
    if (!err)
        err = measure_gbps(meeting, SEND, budget_s * 0.4, &m->gbps[there]);
    if (!err)
        err = measure_gbps(meeting, RECEIVE, budget_s * 0.4, &m->gbps[back]);
    return err ? err : order(meeting, END, 0, 0);
}

/* ---- all ---- */

/* After an error, nothing may point to our memory. */
static int meet(struct measure *m, struct meeting *meeting, int peer, double budget_s)
{
    int err = perf_link_begin(&meeting->link);

    if (err)
        return err;
    meeting->peer = peer;
    meeting->sent = meeting->received = 0;
    err = m->info.rank < peer ? lead(m, meeting, budget_s) : follow(meeting);
    for (int i = 0; i <= WINDOW_MESSAGES && err; i++) {
        struct ri_xfer *xfer = &meeting->xfers[i];

        if (xfer->state == RI_XFER_POSTED)
            meeting->link.ops->cancel(meeting->link.transport, &xfer, 1);
    }
    perf_link_end(&meeting->link);
    return err;
}

static int sum(struct measure *m, double *values, size_t count)
{
    rondo_request_t request = NULL;
    int err = rondo_all_reduce(m->comm, values, values, count, RONDO_F64, NULL, &request);

    return err ? err : rondo_wait(&request, -1);
}

/* All ranks come here before a pair, or a round of them: so nobody disturbs it.  Rank 0 says for all whether
 * there is time left. */
static int agree(struct measure *m, int64_t begin_ns, int done, int steps, int *stop)
{
    double over = m->info.rank == 0 && seconds_since(begin_ns) > m->options.seconds;
    int err = sum(m, &over, 1);

    *stop = over > 0;
    if (!err && m->info.rank == 0 && !m->options.json)
        measure_progress(done, steps);
    return err;
}

static int run_round(struct measure *m, struct meeting *meeting, int round, int64_t begin_ns, int *done, int *stop)
{
    int ranks = m->info.size, steps = m->options.together ? measure_rounds(ranks) : ranks * (ranks - 1) / 2;
    double budget_s = m->options.seconds / steps;
    int partner = measure_partner(m->info.rank, round, ranks), err = 0;

    if (m->options.together) {
        err = agree(m, begin_ns, (*done)++, steps, stop);
        return err || *stop || partner < 0 ? err : meet(m, meeting, partner, budget_s);
    }
    for (int a = 0; a < ranks && !err && !*stop; a++) {
        int b = measure_partner(a, round, ranks);

        if (b < a)
            continue;
        err = agree(m, begin_ns, (*done)++, steps, stop);
        if (!err && !*stop && (a == m->info.rank || b == m->info.rank))
            err = meet(m, meeting, partner, budget_s);
    }
    return err;
}

static int run_rounds(struct measure *m, struct meeting *meeting)
{
    int64_t begin = ri_now_ns();
    int done = 0, stop = 0, err = 0;

    for (int round = 0; round < measure_rounds(m->info.size) && !err && !stop; round++)
        err = run_round(m, meeting, round, begin, &done, &stop);
    if (!err)
        err = sum(m, m->gbps, 2 * (size_t)m->info.size * (size_t)m->info.size);
    m->took_seconds = seconds_since(begin);
    return err;
}

int measure_all(struct measure *m)
{
    struct meeting *meeting = calloc(1, sizeof(*meeting));
    int err = 0, reserved = 0;

    if (!meeting)
        return ri_error(RONDO_ERR_MEMORY, "no memory for messages");
    perf_link_init(&meeting->link, m->comm);
    meeting->out = perf_link_alloc(&meeting->link, MESSAGE_BYTES);
    meeting->in = perf_link_alloc(&meeting->link, MESSAGE_BYTES);
    if (!meeting->out || !meeting->in)
        err = ri_error(RONDO_ERR_MEMORY, "no memory for two messages of %d bytes", (int)MESSAGE_BYTES);
    if (!err)
        err = perf_link_reserve(&meeting->link, WINDOW_MESSAGES + 1);
    reserved = !err;
    if (!err)
        err = run_rounds(m, meeting);
    if (reserved)
        perf_link_reserve(&meeting->link, -(WINDOW_MESSAGES + 1));
    perf_link_free(&meeting->link, meeting->out);
    perf_link_free(&meeting->link, meeting->in);
    free(meeting);
    return err;
}
