/* SPDX-License-Identifier: Apache-2.0 */
/* The communication of a schedule alone: forward plans with blocks of BYTES whose kernel does nothing.
 * Rank 0 prints a line:
 *   ranks hosts local_size schedule bytes, milliseconds of a rotation (median, least, most), host bytes
 * the last being what one rank sends to other hosts in a rotation, the mean over ranks. */
#include <rondo/rondo.h>

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "perf/measure.h"

enum { TOKEN_FLOATS = 1024, V_DIM = 16, TOKEN_BYTES = TOKEN_FLOATS * 4 };

struct exchange {
    rondo_comm_t comm;
    rondo_comm_info_t info;
    rondo_layout_t layout;
    rondo_kernel_t kernel;
    rondo_plan_t plan;
    rondo_attention_fwd_t tensors;
    int64_t tokens; /* of a rank */
    double *ms;     /* [repetitions] of a rotation */
};

static int failed(const struct exchange *it, const char *what)
{
    fprintf(stderr, "exchange: rank %d: %s: %s\n", it->info.rank, what, rondo_last_error());
    return 1;
}

static int no_kernel(void *context, const rondo_kernel_forward_t *args)
{
    (void)context, (void)args;
    return 0;
}

/* --pieces N, --transfers own-turns: of the plan's options; --print: rank 0 prints the plan first */
struct wish {
    const char *schedule, *transfers;
    long bytes;
    int rotations, repetitions, pieces, print;
};

static int print_plan(const struct exchange *it)
{
    static char text[65536];

    if (it->info.rank == 0 && !rondo_plan_describe(it->plan, text, sizeof(text), NULL))
        fputs(text, stdout);
    return 0;
}

static int make_plan(struct exchange *it, const struct wish *wish)
{
    rondo_layout_desc_t layout = RONDO_LAYOUT_DESC_INIT;
    rondo_attention_desc_t desc = RONDO_ATTENTION_DESC_INIT;
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;

    layout.tokens = it->tokens * it->info.size, layout.ranks = it->info.size;
    desc.mask = RONDO_MASK_FULL;
    desc.q_heads = desc.kv_heads = 1;
    desc.qk_dim = TOKEN_FLOATS - V_DIM, desc.v_dim = V_DIM;
    it->kernel = (rondo_kernel_t){ .struct_bytes = sizeof(it->kernel), .name = "exchange",
                                   .flags = RONDO_KERNEL_MERGES, .forward = no_kernel };
    options.schedule = wish->schedule, options.backward = "none", options.kernel = &it->kernel;
    options.host_transfers = wish->transfers, options.pieces = wish->pieces;
    if (rondo_layout_create(&layout, &it->layout) ||
        rondo_attention_plan(it->comm, it->layout, &desc, &options, &it->plan))
        return failed(it, "the plan");
    return wish->print ? print_plan(it) : 0;
}

static int make_tensors(struct exchange *it, int repetitions)
{
    size_t qk_bytes = (size_t)it->tokens * (TOKEN_FLOATS - V_DIM) * sizeof(float);
    size_t v_bytes = (size_t)it->tokens * V_DIM * sizeof(float);

    it->tensors = (rondo_attention_fwd_t)RONDO_ATTENTION_FWD_INIT;
    it->tensors.q = perf_touched(qk_bytes), it->tensors.k = perf_touched(qk_bytes);
    it->tensors.v = perf_touched(v_bytes), it->tensors.o = perf_touched(v_bytes);
    it->tensors.lse = perf_touched((size_t)it->tokens * sizeof(float));
    it->ms = perf_touched((size_t)repetitions * sizeof(double));
    if (!it->tensors.q || !it->tensors.k || !it->tensors.v || !it->tensors.o || !it->tensors.lse || !it->ms) {
        fprintf(stderr, "exchange: no memory\n");
        return 1;
    }
    return 0;
}

static int rotate(struct exchange *it, int count)
{
    rondo_request_t request = NULL;

    for (int i = 0; i < count; i++)
        if (perf_wait(rondo_attention_forward(it->plan, &it->tensors, NULL, &request), &request))
            return failed(it, "a rotation");
    return 0;
}

/* One rotation warms up; the others follow each other without a pause, so that no link rests and gets
 * ahead of its rate by what it saved. */
static int measure(struct exchange *it, int rotations, int repetitions)
{
    int bad = rotate(it, 1);

    for (int i = 0; i < repetitions && !bad; i++) {
        double begin_us;

        bad = perf_barrier(it->comm) != 0;
        begin_us = perf_now_us();
        bad = bad || rotate(it, rotations);
        it->ms[i] = (perf_now_us() - begin_us) / 1000 / rotations;
    }
    return bad || perf_max_over_ranks(it->comm, it->ms, (size_t)repetitions);
}

static int print(struct exchange *it, const struct wish *wish)
{
    rondo_plan_stats_t stats = RONDO_PLAN_STATS_INIT;
    double host_bytes, median;

    if (rondo_plan_stats(it->plan, &stats))
        return failed(it, "counts");
    host_bytes = (double)stats.sent_bytes[1] / (double)stats.forwards / it->info.size;
    if (perf_sum_over_ranks(it->comm, &host_bytes, 1))
        return failed(it, "a sum");
    median = perf_median(it->ms, (size_t)wish->repetitions);
    if (it->info.rank == 0)
        printf("%d %d %d %s %ld %.2f %.2f %.2f %.0f\n", it->info.size, it->info.hosts, it->info.local_size,
               wish->schedule, wish->bytes, median, it->ms[0], it->ms[wish->repetitions - 1], host_bytes);
    return 0;
}

static void release(struct exchange *it)
{
    rondo_plan_destroy(it->plan);
    rondo_layout_destroy(it->layout);
    rondo_comm_destroy(it->comm);
    free((void *)it->tensors.q);
    free((void *)it->tensors.k);
    free((void *)it->tensors.v);
    free(it->tensors.o);
    free(it->tensors.lse);
    free(it->ms);
}

static int usage(void)
{
    fprintf(stderr, "usage: exchange [--pieces N] [--transfers chunked|own-turns] [--print]\n"
                    "                SCHEDULE BYTES ROTATIONS REPETITIONS\n");
    return 2;
}

static int parse(struct wish *wish, int argc, char **argv)
{
    static const struct option options[] = {
        { "pieces", required_argument, NULL, 'p' },
        { "transfers", required_argument, NULL, 't' },
        { "print", no_argument, NULL, 'v' },
        { NULL, 0, NULL, 0 },
    };
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'p') wish->pieces = atoi(optarg);
        else if (option == 't') wish->transfers = optarg;
        else if (option == 'v') wish->print = 1;
        else return usage();
    }
    if (argc - optind != 4)
        return usage();
    wish->schedule = argv[optind];
    wish->bytes = atol(argv[optind + 1]) / TOKEN_BYTES * TOKEN_BYTES;
    wish->rotations = atoi(argv[optind + 2]), wish->repetitions = atoi(argv[optind + 3]);
    return wish->bytes < 1 || wish->rotations < 1 || wish->repetitions < 1 ? usage() : 0;
}

int main(int argc, char **argv)
{
    struct exchange it = { .info = RONDO_COMM_INFO_INIT };
    struct wish wish = { 0 };
    int bad = parse(&wish, argc, argv);

    if (bad)
        return bad;
    it.tokens = wish.bytes / TOKEN_BYTES;
    if (rondo_comm_create_env(NULL, &it.comm) || rondo_comm_query(it.comm, &it.info))
        return failed(&it, "no communicator");
    bad = make_tensors(&it, wish.repetitions) || make_plan(&it, &wish) ||
          measure(&it, wish.rotations, wish.repetitions) || print(&it, &wish);
    release(&it);
    return bad;
}
