/* SPDX-License-Identifier: Apache-2.0 */
/* rondo-plan: what the attention schemes would cost on a machine that need not be there. */
#include <errno.h>
#include <rondo/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/cost.h"
#include "tools/plan_options.h"
#include "tools/plan_print.h"

enum { EXIT_FAILED = 1, EXIT_USAGE = 2, QUICK_RANKS = 128 };

/* ---- the schedules of all ranks ---- */

static void destroy_all(struct ri_schedule **schedules, int ranks)
{
    for (int r = 0; schedules && r < ranks; r++)
        ri_schedule_destroy(schedules[r]);
    free(schedules);
}

/* NULL, and said why. */
static struct ri_schedule **build_all(const struct ri_candidate *one, int bind)
{
    int ranks = one->build.ranks;
    struct ri_schedule **schedules = calloc((size_t)ranks, sizeof(struct ri_schedule *));
    int err = !schedules;

    for (int r = 0; !err && r < ranks; r++) {
        struct ri_build build = one->build;

        build.rank = r;
        err = one->builder(&schedules[r], &build);
    }
    if (!err && bind && ri_build_can_bind(&one->build))
        err = ri_schedule_bind(schedules, ranks);
    if (!err)
        return schedules;
    plan_say("%s: %s", one->schedule, schedules ? rondo_last_error() : "out of memory");
    destroy_all(schedules, ranks);
    return NULL;
}

/* ---- prices ---- */

/* As a plan prices it, with numbers from the command line in place of settings. */
static struct ri_cost cost_of(const struct plan_options *o, int backward)
{
    rondo_attention_desc_t desc = RONDO_ATTENTION_DESC_INIT;
    double pairs = (double)o->tokens * (double)o->tokens * (o->causal ? 0.5 : 1);
    struct ri_problem problem = {o->ranks, o->tokens, o->tokens, pairs, &desc, 0, (int)o->dtype_bytes,
                                 o->flops, NULL};
    struct ri_cost cost = {.shared_nic = o->shared_nic, .launch = o->launch};

    desc.batch = o->batch;
    desc.q_heads = (int)o->q_heads;
    desc.kv_heads = (int)o->kv_heads;
    desc.qk_dim = (int)o->head_dim;
    desc.v_dim = (int)o->v_dim;
    desc.mask = o->causal ? RONDO_MASK_CAUSAL : RONDO_MASK_FULL;
    for (int lane = 0; lane < RI_LANES; lane++)
        cost.lane[lane] = (struct ri_link_cost){o->latency[lane], o->bandwidth[lane]};
    ri_problem_cost(&problem, backward ? RI_BACKWARD : RI_FORWARD, &cost);
    return cost;
}

static void keep_variant(struct plan_pass *pass, const char *variant)
{
    int kept = 0;

    for (int i = 0; i < pass->count; i++)
        if (strcmp(pass->list[i].variant, variant) == 0)
            pass->list[kept++] = pass->list[i];
    pass->count = kept;
}

static int price_pass(const struct plan_options *o, int backward, struct plan_pass *pass)
{
    struct ri_candidate_query query = {.ranks = o->ranks,
                                       .host = o->host,
                                       .order = o->order,
                                       .cost = &pass->cost,
                                       .backward = backward,
                                       .schedule = o->schedule,
                                       .gradients = o->backward,
                                       .bind = o->bind};

    pass->name = backward ? "backward" : "forward";
    pass->cost = cost_of(o, backward);
    if (ri_candidates(&query, pass->list, &pass->count)) {
        plan_say("%s", rondo_last_error());
        return EXIT_FAILED;
    }
    if (o->variant)
        keep_variant(pass, o->variant);
    if (pass->count)
        return 0;
    plan_say("--variant %s: no %s schedule for --machine %s has it", o->variant, pass->name,
             o->machine);
    return EXIT_USAGE;
}

/* ---- proofs, texts and timelines ---- */

/* Proofs grow with the cube of ranks. */
static void say_that_it_takes_long(const struct plan_pass *pass, int i)
{
    const struct ri_candidate *one = &pass->list[i];

    if (one->build.ranks > QUICK_RANKS)
        plan_say("--check: %s %s%s%s, schedule %d of %d, on %d ranks: this may take minutes",
                 pass->name, one->schedule, one->variant[0] ? " " : "", one->variant, i + 1,
                 pass->count, one->build.ranks);
}

static int check_pass(struct plan_pass *pass, int bind)
{
    int result = 0;

    for (int i = 0; i < pass->count; i++) {
        struct ri_schedule **schedules = build_all(&pass->list[i], bind);
        struct ri_check check;

        say_that_it_takes_long(pass, i);
        if (!schedules)
            return EXIT_FAILED;
        pass->proved[i] =
            !ri_schedule_check(schedules, pass->list[i].build.ranks, RI_GOAL_ATTENTION, &check);
        if (!pass->proved[i]) {
            plan_say("--check: %s %s: %s", pass->list[i].schedule, pass->list[i].variant,
                     check.message);
            result = EXIT_FAILED;
        }
        destroy_all(schedules, pass->list[i].build.ranks);
    }
    return result;
}

static int print_schedule(const struct ri_candidate *one, int rank, int bind)
{
    struct ri_scheme scheme = {.build = one->build, .builder = one->builder};
    struct ri_schedule *schedule;
    char *text;

    if (ri_scheme_build(&scheme, rank, bind, &schedule)) {
        plan_say("--print: %s", rondo_last_error());
        return EXIT_FAILED;
    }
    text = ri_schedule_print(schedule);
    ri_schedule_destroy(schedule);
    if (text)
        printf("\n%s", text);
    else
        plan_say("--print: out of memory");
    free(text);
    return text ? 0 : EXIT_FAILED;
}

static int write_timeline(const struct plan_options *o, struct ri_schedule **schedules,
                          const struct plan_pass *pass)
{
    struct ri_simulation simulation;
    FILE *to;
    int err;

    if (ri_simulate(schedules, o->ranks, &pass->cost, 1, &simulation)) {
        plan_say("--timeline: %s", rondo_last_error());
        return EXIT_FAILED;
    }
    to = o->output ? fopen(o->output, "w") : stdout;
    if (to) {
        err = o->timeline(to, schedules, &simulation);
        if (err)
            plan_say("--timeline: %s", rondo_last_error());
        if (to != stdout && fclose(to) && !err) {
            plan_say("--output %s: %s", o->output, strerror(errno));
            err = -1;
        }
    } else {
        plan_say("--output %s: %s", o->output, strerror(errno));
        err = -1;
    }
    ri_simulation_release(&simulation);
    return err ? EXIT_FAILED : 0;
}

static int timeline(const struct plan_options *options, const struct plan_pass *pass)
{
    struct ri_schedule **schedules = build_all(&pass->list[0], options->bind);
    int result;

    if (!schedules)
        return EXIT_FAILED;
    result = write_timeline(options, schedules, pass);
    destroy_all(schedules, options->ranks);
    return result;
}

/* A picture or JSON on standard output stands alone. */
static void print_list(const struct plan_options *o, const struct plan_pass *passes, int count)
{
    if (o->timeline && !o->output && o->timeline != ri_timeline_text)
        return;
    if (o->json)
        plan_print_json(o, passes, count);
    else
        plan_print_table(o, passes, count);
}

static int run(const struct plan_options *o, struct plan_pass *passes)
{
    int count = 0, result = 0, failed = 0;

    for (int backward = 0; backward < 2; backward++)
        if (backward ? o->backward_wanted : o->forward_wanted) {
            result = price_pass(o, backward, &passes[count++]);
            if (result)
                return result;
        }
    for (int p = 0; o->check && p < count; p++)
        failed |= check_pass(&passes[p], o->bind);
    print_list(o, passes, count);
    for (int p = 0; o->print_rank >= 0 && !result && p < count; p++)
        result = print_schedule(&passes[p].list[0], o->print_rank, o->bind);
    if (o->timeline && !result)
        result = timeline(o, &passes[0]);
    return result ? result : failed;
}

int main(int argc, char **argv)
{
    static struct plan_options options;
    static struct plan_pass passes[2];
    int result;

    if (plan_options_parse(&options, argc, argv) < 0) {
        fprintf(stderr, "Try 'rondo-plan --help'.\n");
        return EXIT_USAGE;
    }
    result = run(&options, passes);
    free(options.order);
    if (fflush(stdout) || ferror(stdout)) {
        plan_say("standard output: %s", strerror(errno));
        return EXIT_FAILED;
    }
    return result;
}
