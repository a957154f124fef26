/* SPDX-License-Identifier: Apache-2.0 */
#include <cblas.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "trainer.h"

double clock_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Ranks of one host share its cores, unless the user has said how many threads BLAS may have. */
static void share_cores(const struct parallel *ranks)
{
    cpu_set_t cores;
    int count = 1;

    if (getenv("OPENBLAS_NUM_THREADS"))
        return;
    if (sched_getaffinity(0, sizeof(cores), &cores) == 0)
        count = CPU_COUNT(&cores);
    count /= ranks->info.local_size;
    openblas_set_num_threads(count > 1 ? count : 1);
}

static int make_arenas(struct trainer *t, struct problem *problem)
{
    const struct model_sizes *sizes = &t->options->sizes;

    if (weights_init(&t->w, sizes) || weights_init(&t->g, sizes) || weights_init(&t->m, sizes) ||
        weights_init(&t->v, sizes))
        return problem_set(problem, EXIT_FAILED, "out of memory: weights, gradients and moments");
    return 0;
}

/* What this rank can find out alone, before any data moves. */
static void prepare(struct trainer *t, struct problem *problem)
{
    const struct options *o = t->options;
    struct progress first = { 0, 0.0, o->seed, 0, o->tokens, o->window, o->documents,
                              options_dtype(o) == RONDO_BF16 };

    if (corpus_read(&t->corpus, o->paths, o->path_count, o->tokens, problem))
        return;
    if (make_arenas(t, problem))
        return;
    t->baselines = corpus_baselines(&t->corpus, o->documents);
    if (!isfinite(t->baselines.unigram)) {
        problem_set(problem, EXIT_FAILED, "--documents: every held-out document has one byte, and no loss");
        return;
    }
    t->progress = first;
    t->progress.text_hash = corpus_hash(&t->corpus, o->documents);
    weights_randomise(&t->w, &o->sizes, o->seed);
    if (o->perturb)
        weights_perturb(&t->w, o->perturb_seed);
}

static int refuse_option(const char *path, const char *option, long long found, long long here,
                         struct problem *problem)
{
    return problem_set(problem, EXIT_FAILED, "checkpoint %s has --%s %lld, here it is %lld", path, option,
                       found, here);
}

/* Whether a training that got so far can go on here.  What is not compared, layout, schedule and number of
 * ranks among it, changes the results by rounding alone. */
static int compare(const char *path, const struct progress *found, const struct progress *here,
                   struct problem *problem)
{
    if (found->documents != here->documents)
        return problem_set(problem, EXIT_FAILED, "checkpoint %s was trained with%s --documents, here it is with%s",
                           path, found->documents ? "" : "out", here->documents ? "" : "out");
    if (found->text_hash != here->text_hash)
        return problem_set(problem, EXIT_FAILED, "checkpoint %s was trained on another text%s", path,
                           here->documents ? " or on other documents" : "");
    if (found->seed != here->seed)
        return problem_set(problem, EXIT_FAILED, "checkpoint %s has --seed %llu, here it is %llu", path,
                           (unsigned long long)found->seed, (unsigned long long)here->seed);
    if (found->tokens != here->tokens)
        return refuse_option(path, "tokens", found->tokens, here->tokens, problem);
    if (found->window != here->window)
        return refuse_option(path, "window", found->window, here->window, problem);
    if (found->bf16 != here->bf16)
        return problem_set(problem, EXIT_FAILED, "checkpoint %s has --dtype %s, here it is %s", path,
                           found->bf16 ? "bf16" : "fp32", here->bf16 ? "bf16" : "fp32");
    return 0;
}

/* Rank 0 reads the file, so that it need not be visible anywhere else. */
static void load(struct trainer *t, struct problem *problem)
{
    const struct options *o = t->options;
    struct progress found = t->progress;
    struct checkpoint c = { &o->sizes, &found, &t->w, &t->m, &t->v };

    if (checkpoint_load(o->resume, &c, problem))
        return;
    if (!compare(o->resume, &found, &t->progress, problem))
        t->progress = found;
}

static int resume(struct trainer *t)
{
    struct weights *const arenas[] = { &t->w, &t->m, &t->v };
    struct problem problem = { 0, "" };
    rondo_status_t status;
    int code;

    if (t->ranks.info.rank == 0)
        load(t, &problem);
    code = parallel_agree(&t->ranks, &problem);
    if (code)
        return code;
    status = parallel_broadcast(&t->ranks, &t->progress, sizeof(t->progress), 0);
    for (int i = 0; i < 3 && !status; i++)
        status = parallel_broadcast(&t->ranks, arenas[i]->arena,
                                    arenas[i]->count * sizeof(float), 0);
    return status ? parallel_failed(&t->ranks, "sending the checkpoint", status) : 0;
}

/* Ranks that would not read the same text are found here, not in a curve that looks odd. */
static int check_same_text(struct trainer *t)
{
    struct problem problem = { 0, "" };
    rondo_status_t status;
    int same = 1;

    status = parallel_same(&t->ranks, t->progress.text_hash, &same);
    if (status)
        return parallel_failed(&t->ranks, "agreement on the text", status);
    if (!same)
        problem_set(&problem, EXIT_FAILED, "rank %d: the ranks read different texts; here %zu bytes",
                    t->ranks.info.rank, t->corpus.count);
    return parallel_agree(&t->ranks, &problem);
}

/* The description's first paragraph; the schedules, step by step, come after it. */
static void print_plan(const struct trainer *t)
{
    size_t needed = 0;
    char *text, *end;

    if (rondo_plan_describe(t->sequence.plan, NULL, 0, &needed) != RONDO_OK)
        return;
    text = malloc(needed);
    if (text && rondo_plan_describe(t->sequence.plan, text, needed, NULL) == RONDO_OK) {
        end = strstr(text, "\n\n");
        if (end)
            *end = 0;
        printf("%s\n", text);
    }
    free(text);
}

/* What is not as it is by default. */
static void print_masking(const struct trainer *t)
{
    const struct options *o = t->options;

    if (o->documents)
        printf("documents: %zu, at most %d in a sequence of %lld tokens, cut over ranks by %s\n",
               t->corpus.documents, t->sequence.desc.max_documents, (long long)o->tokens,
               strcmp(o->deal, "documents") == 0 ? "document" : "sequence");
    if (o->window)
        printf("window: each token sees %lld, its own among them\n", (long long)o->window);
    if (options_dtype(o) == RONDO_BF16)
        printf("dtype: attention's q, k, v, o and their gradients are bf16, all else fp32\n");
}

static void print_start(const struct trainer *t)
{
    const struct rondo_comm_info *info = &t->ranks.info;

    printf("rondo-train %s: %d rank%s on %d host%s over %s, %zu parameters, %lld tokens a step\n",
           rondo_version(), info->size, info->size == 1 ? "" : "s", info->hosts,
           info->hosts == 1 ? "" : "s", info->transport, t->w.count,
           (long long)t->sequence.tokens);
    printf("text: %zu bytes in %d files (%d skipped), the last %zu held out\n",
           t->corpus.count, t->corpus.files, t->corpus.skipped,
           t->corpus.count - t->corpus.train_count);
    print_masking(t);
    print_plan(t);
    if (t->progress.step > 0)
        printf("resumed at step %lld\n", (long long)t->progress.step);
    fflush(stdout);
}

/* What rank 0 is going to write. */
static void open_outputs(struct trainer *t, struct problem *problem)
{
    const struct options *o = t->options;

    if (o->save && checkpoint_probe(o->save, problem))
        return;
    if (o->save_grads && checkpoint_probe(o->save_grads, problem))
        return;
    report_open(&t->report, o->csv, o->svg, t->progress.step > 0, problem);
}

static int finish_setup(struct trainer *t)
{
    struct problem problem = { 0, "" };

    if (acts_init(&t->acts, t->ranks.comm, &t->options->sizes, options_dtype(t->options), t->sequence.room)) {
        problem_set(&problem, EXIT_FAILED, "out of memory: activations of %lld tokens",
                    (long long)t->sequence.room);
    } else {
        acts_fit(&t->acts, t->sequence.positions, t->sequence.n);
        if (t->ranks.info.rank == 0)
            open_outputs(t, &problem);
    }
    return parallel_agree(&t->ranks, &problem);
}

int trainer_init(struct trainer *t, const struct options *options)
{
    struct problem problem = { 0, "" };
    int code;

    t->options = options;
    t->val_loss = NAN;
    share_cores(&t->ranks);
    prepare(t, &problem);
    code = parallel_agree(&t->ranks, &problem);
    if (!code)
        code = check_same_text(t);
    if (!code)
        code = sequence_init(&t->sequence, &t->ranks, options, options->tokens,
                             options->documents ? corpus_most_parts(&t->corpus, options->tokens) : 0, 0);
    if (!code && options->resume)
        code = resume(t);
    if (!code)
        code = finish_setup(t);
    if (!code && t->ranks.info.rank == 0)
        print_start(t);
    return code;
}

void trainer_release(struct trainer *t)
{
    acts_release(&t->acts);
    weights_release(&t->w);
    weights_release(&t->g);
    weights_release(&t->m);
    weights_release(&t->v);
    sequence_release(&t->sequence);
    corpus_release(&t->corpus);
}

/* Collective: all ranks hear whether rank 0 could save. */
int trainer_save(struct trainer *t)
{
    const struct options *o = t->options;
    struct checkpoint c = { &o->sizes, &t->progress, &t->w, &t->m, &t->v };
    struct problem problem = { 0, "" };
    int code;

    if (t->ranks.info.rank == 0)
        checkpoint_save(o->save, &c, &problem);
    code = parallel_agree(&t->ranks, &problem);
    if (!code && t->ranks.info.rank == 0)
        printf("saved %s at step %lld\n", o->save, (long long)t->progress.step);
    return code;
}
