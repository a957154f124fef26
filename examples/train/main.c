/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "trainer.h"

static volatile sig_atomic_t stop_signal;

static void on_signal(int signal)
{
    stop_signal = signal;
}

int stop_requested(void)
{
    return stop_signal != 0;
}

/* A terminal's Ctrl-C reaches every rank, and a launcher may pass it on once more: so a signal only
 * raises a flag, however often it comes. */
static void catch_signals(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* The whole job's attention traffic, by lane. */
static int print_traffic(struct trainer *t)
{
    rondo_plan_stats_t stats = RONDO_PLAN_STATS_INIT;
    double sent[2];
    rondo_status_t status = rondo_plan_stats(t->sequence.plan, &stats);

    if (status)
        return parallel_failed(&t->ranks, "statistics", status);
    sent[0] = (double)stats.sent_bytes[0];
    sent[1] = (double)stats.sent_bytes[1];
    status = parallel_sum_doubles(&t->ranks, sent, 2);
    if (status)
        return parallel_failed(&t->ranks, "statistics", status);
    if (t->ranks.info.rank == 0)
        printf("attention sent, all ranks: %.0f bytes on lane local, %.0f bytes on lane host; "
               "%llu forwards, %llu backwards\n",
               sent[0], sent[1], (unsigned long long)stats.forwards,
               (unsigned long long)stats.backwards);
    return 0;
}

/* After the training: the loss on the held-out text (at most 128 sequences of it), what moved, a
 * sample, the last line. */
static int conclude(struct trainer *t)
{
    enum { MOST_WINDOWS = 128 };
    int code = trainer_validate(t, MOST_WINDOWS, &t->val_loss);

    if (!code)
        code = print_traffic(t);
    if (!code && t->options->sample > 0)
        code = trainer_sample(t);
    if (!code && t->ranks.info.rank == 0)
        printf("uniform %.3f unigram %.3f bigram %.3f val_loss %.3f seconds %.1f\n",
               log(t->options->sizes.vocab), t->baselines.unigram, t->baselines.bigram,
               t->val_loss, t->elapsed);
    return code;
}

static int close_report(struct trainer *t)
{
    struct problem problem = { 0, "" };

    if (t->ranks.info.rank == 0)
        report_close(&t->report, &t->baselines, &problem);
    return parallel_agree(&t->ranks, &problem);
}

static int train(struct trainer *t, const struct options *o)
{
    int stopped = 0;
    int code = trainer_init(t, o);

    if (!code)
        code = trainer_run(t, &stopped);
    report_end(&t->report);
    if (code)
        return code;
    if (o->save_grads)
        return 0;
    if (stopped && t->ranks.info.rank == 0)
        printf("stopped by a signal after step %lld\n", (long long)t->progress.step);
    if (o->save)
        code = trainer_save(t);
    if (!code)
        code = close_report(t);
    return code || stopped ? code : conclude(t);
}

int main(int argc, char **argv)
{
    struct problem problem = { 0, "" };
    struct options options;
    struct trainer trainer;
    int code;

    memset(&trainer, 0, sizeof(trainer));
    setvbuf(stdout, NULL, _IOLBF, 0); /* lines come as they are made, through a pipe too */
    options_parse(&options, argc, argv, &problem);
    if (options.help || options.version) {
        if (options.help)
            options_help(stdout);
        else
            printf("rondo-train %s\n", rondo_version());
        return 0;
    }
    if (parallel_init(&trainer.ranks, options.transport, &problem)) {
        fprintf(stderr, "rondo-train: %s\n", problem.text);
        return problem.exit_code;
    }
    catch_signals();
    code = parallel_agree(&trainer.ranks, &problem);
    if (!code)
        code = train(&trainer, &options);
    trainer_release(&trainer);
    parallel_release(&trainer.ranks);
    if (fflush(stdout) != 0 && !code)
        code = EXIT_FAILED;
    return code;
}
