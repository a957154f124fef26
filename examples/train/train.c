/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "trainer.h"

/* What the ranks tell each other once a step, before the backward: one sum of a few doubles. */
enum { NATS, VALID, STOP, ELAPSED, NOTES };

/* One step, as all ranks know it. */
struct step {
    double nats, valid; /* over all ranks */
    int stop;           /* some rank was asked to stop */
    double elapsed;     /* of training, by rank 0's clock */
};

/* Seconds in which this rank's data moved and nothing computed, since the start. */
static double exposed_seconds(const struct trainer *t)
{
    rondo_plan_stats_t stats = RONDO_PLAN_STATS_INIT;

    if (rondo_plan_stats(t->sequence.plan, &stats) != RONDO_OK)
        return t->ranks.reduce_seconds;
    return stats.exposed_seconds + t->ranks.reduce_seconds;
}

/* The window's documents are other ones than the last window's. */
static rondo_status_t fit_documents(struct trainer *t, size_t offset)
{
    struct sequence *s = &t->sequence;
    int documents = corpus_parts(&t->corpus, offset, s->tokens, s->edges);
    rondo_status_t status = sequence_fit(s, &t->ranks, documents);

    if (!status)
        acts_fit(&t->acts, s->positions, s->n);
    return status;
}

/* Forward and loss of the sequence's shard; leaves probabilities in acts.logits. */
static rondo_status_t shard_loss(struct trainer *t, size_t offset, struct loss_sum *loss)
{
    const struct model_sizes *sizes = &t->options->sizes;
    struct sequence *s = &t->sequence;
    rondo_status_t status = RONDO_OK;

    corpus_window(&t->corpus, offset, s->tokens, s->whole);
    if (s->packed)
        status = fit_documents(t, offset);
    if (!status)
        status = sequence_cut(s, &t->ranks);
    if (!status)
        status = model_forward(sizes, &t->w, &t->acts, s->plan, s->shard);
    if (!status)
        *loss = cross_entropy_forward(t->acts.logits, s->targets, s->n, sizes->vocab);
    return status;
}

/* The loss is the sum over all ranks divided by the count over all ranks: a rank's own mean would
 * weigh tokens by the shard they lie in. */
static rondo_status_t forward_step(struct trainer *t, struct step *step)
{
    double notes[NOTES] = { 0.0 };
    struct loss_sum loss = { 0.0, 0 };
    rondo_status_t status;

    status = shard_loss(t,
                        corpus_train_offset(&t->corpus, t->progress.seed, t->progress.step,
                                            t->sequence.tokens),
                        &loss);
    if (status)
        return status;
    notes[NATS] = loss.nats;
    notes[VALID] = (double)loss.valid;
    notes[STOP] = stop_requested();
    notes[ELAPSED] = t->ranks.info.rank == 0 ? clock_seconds() - t->started : 0.0;
    status = parallel_sum_doubles(&t->ranks, notes, NOTES);
    step->nats = notes[NATS];
    step->valid = notes[VALID];
    step->stop = notes[STOP] > 0.0;
    step->elapsed = notes[ELAPSED];
    t->elapsed = step->elapsed;
    return status;
}

/* Leaves the gradient of the mean loss over all tokens, summed over ranks, in t->g. */
static rondo_status_t backward_step(struct trainer *t, const struct step *step)
{
    const struct model_sizes *sizes = &t->options->sizes;
    struct sequence *s = &t->sequence;
    rondo_status_t status;

    memset(t->g.arena, 0, t->g.count * sizeof(float));
    cross_entropy_backward(t->acts.logits, s->targets, s->n, sizes->vocab,
                           (float)(1.0 / step->valid));
    status = model_backward(sizes, &t->w, &t->g, &t->acts, s->plan, s->shard);
    return status ? status : parallel_sum_floats(&t->ranks, t->g.arena, t->g.count);
}

/* How far the training is, 0..1, this step included. */
static double fraction(const struct options *o, int64_t step, double elapsed)
{
    return o->steps ? (double)(step + 1) / (double)o->steps : elapsed / o->seconds;
}

/* 0 or an exit code.  Equal bits on all ranks give equal updates. */
static int update(struct trainer *t, const struct step *step)
{
    static const struct adamw adamw = ADAMW_DEFAULTS;
    const struct options *o = t->options;
    double norm = gradient_norm(t->g.arena, t->g.count);
    float rate = learning_rate(fraction(o, t->progress.step, step->elapsed), t->progress.step + 1,
                               (float)o->rate);

    if (!isfinite(norm) || !isfinite(step->nats)) {
        if (t->ranks.info.rank == 0)
            fprintf(stderr,
                    "rondo-train: step %lld: loss %g and gradient norm %g are not finite; a "
                    "smaller --lr than %g may help\n",
                    (long long)t->progress.step + 1, step->nats / step->valid, norm, o->rate);
        return EXIT_FAILED;
    }
    adamw_update(&adamw, &o->sizes, &t->w, &t->g, &t->m, &t->v, ++t->progress.step, rate,
                 clip_factor(norm, adamw.clip_norm));
    if (!o->steps)
        t->progress.seconds = step->elapsed;
    return 0;
}

/* Documents of one byte have nothing to predict.  All ranks know it. */
static int no_targets(const struct trainer *t, const char *what)
{
    if (t->ranks.info.rank == 0)
        fprintf(stderr,
                "rondo-train: --documents: after step %lld every document of %s sequence of --tokens %lld has "
                "one byte, and no loss\n",
                (long long)t->progress.step, what, (long long)t->sequence.tokens);
    return EXIT_FAILED;
}

int trainer_validate(struct trainer *t, int64_t limit, double *val_loss)
{
    int64_t windows = corpus_windows(&t->corpus, t->sequence.tokens, limit);
    double sums[2] = { 0.0, 0.0 };
    rondo_status_t status = RONDO_OK;

    for (int64_t i = 0; i < windows && !status; i++) {
        struct loss_sum loss = { 0.0, 0 };

        status = shard_loss(
            t, corpus_window_offset(&t->corpus, i, windows, t->sequence.tokens), &loss);
        sums[0] += loss.nats;
        sums[1] += (double)loss.valid;
    }
    if (!status)
        status = parallel_sum_doubles(&t->ranks, sums, 2);
    if (status)
        return parallel_failed(&t->ranks, "validation", status);
    if (sums[1] == 0.0)
        return no_targets(t, "all validation");
    *val_loss = sums[0] / sums[1];
    return 0;
}

static double seconds_left(const struct options *o, const struct trainer *t, double first_seconds,
                           int64_t first_step)
{
    double elapsed = t->elapsed, per_step, left;
    int64_t last = o->stop_at && o->stop_at < o->steps ? o->stop_at : o->steps;

    if (o->steps == 0)
        return fmax(o->seconds - elapsed, 0.0);
    per_step = (elapsed - first_seconds) / (double)(t->progress.step - first_step);
    left = per_step * (double)(last - t->progress.step);
    return fmax(o->seconds > 0.0 ? fmin(left, o->seconds - elapsed) : left, 0.0);
}

/* The end that is known beforehand, without asking anybody. */
static int is_last(const struct options *o, int64_t done)
{
    return (o->steps && done >= o->steps) || (o->stop_at && done >= o->stop_at);
}

/* Weights that differ between ranks would train on, quietly wrong; so look now and then. */
static int check_same_weights(struct trainer *t)
{
    rondo_status_t status;
    int same = 1;

    status = parallel_same(
        &t->ranks, hash_bytes(HASH_START, t->w.arena, t->w.count * sizeof(float)), &same);
    if (status)
        return parallel_failed(&t->ranks, "comparing weights", status);
    if (!same && t->ranks.info.rank == 0)
        fprintf(stderr, "rondo-train: after step %lld the weights differ between ranks\n",
                (long long)t->progress.step);
    return same ? 0 : EXIT_FAILED;
}

static int save_gradients(struct trainer *t, const struct step *step)
{
    struct problem problem = { 0, "" };

    if (t->ranks.info.rank == 0)
        gradients_save(t->options->save_grads, &t->g, step->nats / step->valid, &problem);
    return parallel_agree(&t->ranks, &problem);
}

/* The rest of a step whose forward is done. */
static int finish_step(struct trainer *t, const struct step *step)
{
    rondo_status_t status = backward_step(t, step);

    if (status)
        return parallel_failed(&t->ranks, "backward", status);
    return t->options->save_grads ? save_gradients(t, step) : update(t, step);
}

static int validate_now_and_then(struct trainer *t, double *val_loss)
{
    int code;

    *val_loss = NAN;
    if (t->progress.step % t->options->validate_every != 0)
        return 0;
    code = check_same_weights(t);
    return code ? code : trainer_validate(t, t->options->windows, val_loss);
}

/* 0 or an exit code.  *over: the training ends before this step's update. */
static int train_step(struct trainer *t, struct step_row *row, int *over, int *stopped)
{
    double start = clock_seconds(), exposed = exposed_seconds(t), seconds;
    struct step step;
    rondo_status_t status = forward_step(t, &step);
    int code;

    if (status)
        return parallel_failed(&t->ranks, "forward", status);
    *stopped = step.stop;
    if (step.valid == 0.0)
        return no_targets(t, "a training");
    *over = step.stop || (t->options->seconds > 0.0 && step.elapsed >= t->options->seconds);
    if (*over)
        return 0;
    code = finish_step(t, &step);
    *over = t->options->save_grads != NULL;
    if (code || *over)
        return code;
    seconds = clock_seconds() - start;
    row->step = t->progress.step;
    row->loss = step.nats / step.valid;
    row->tokens_per_s = (double)t->sequence.tokens / seconds;
    row->exposed = fmin((exposed_seconds(t) - exposed) / seconds, 1.0);
    return validate_now_and_then(t, &row->val_loss);
}

int trainer_run(struct trainer *t, int *stopped)
{
    double first_seconds = t->progress.seconds;
    int64_t first_step = t->progress.step;
    int over = 0;

    *stopped = 0;
    t->started = clock_seconds() - first_seconds;
    while (!is_last(t->options, t->progress.step)) {
        struct step_row row;
        int code = train_step(t, &row, &over, stopped);

        if (code || over)
            return code;
        row.left = seconds_left(t->options, t, first_seconds, first_step);
        if (t->ranks.info.rank == 0)
            report_step(&t->report, &row, clock_seconds());
    }
    return 0;
}
