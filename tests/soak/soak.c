/* SPDX-License-Identifier: Apache-2.0 */
/* What is done again and again leaves nothing behind: memory, descriptors, threads and shared memory stay
 * as they were after the first repetitions.  Without an option each case runs for about a second. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/soak/soak.h"
#include "transport/transport.h"

/* Of a sanitizer's own, which grows as it likes. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const int has_shadow = 1;
#else
static const int has_shadow = 0;
#endif

/* The second sample is the one that later ones are compared with. */
enum { BASE = 1 };

struct soak_case {
    const char *name, *what;
    int ranks;
    long grows_kib; /* that resident memory may grow by, on each rank */
    soak_marks full, brief;
    int (*body)(struct soak *s, int rank);
};

static const struct soak_case cases[] = {
    { "starts", "starts of four plans, forward and backward, lengths changing", 3, 256,
      { 100, 1000, 2500, 5000, 7500, 10000 }, { 100, 200, 400 }, soak_starts },
    { "small", "small forwards", 2, 256, { 100, 1000, 10000, 50000, 100000 }, { 100, 1000, 2000 }, soak_small },
    { "fresh", "forwards with fresh buffers", 2, 256,
      { 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000 }, { 20, 40, 60, 80 }, soak_fresh },
    { "memory", "rondo_mem_alloc and rondo_mem_free of 8 blocks", 2, 256,
      { 10, 20, 100, 500, 1000 }, { 10, 20, 50 }, soak_memory },
    { "comms", "communicators made, used once and destroyed", 3, 1024,
      { 1, 10, 100, 250, 500, 750, 1000 }, { 1, 10, 20 }, soak_comms },
};

enum { CASES = sizeof(cases) / sizeof(cases[0]) };

struct counts {
    int passed, failed, skipped;
};

struct wish {
    const char *transports, *only; /* only: NULL, or the name of a case */
    int full;
};

/* ---- one case ---- */

static int body(int rank, int ranks, void *arg)
{
    struct soak *s = ((void **)arg)[0];
    const struct soak_case *it = ((void **)arg)[1];

    (void)ranks;
    return it->body(s, rank);
}

static int mark_count(const struct soak *s)
{
    int n = 0;

    while (n < SOAK_MARKS && s->marks[n])
        n++;
    return n;
}

static void print_table(const struct soak *s, const struct soak_case *it, const char *lead)
{
    printf("%s%s, transport %s (%s), %d ranks; the largest of any rank\n", lead, it->what, s->transport, s->actual,
           s->ranks);
    printf("%s%8s %9s %5s %8s %5s %12s %9s %11s %9s\n", lead, "after", "RSS KiB", "fds", "threads", "maps",
           "shared maps", "shm KiB", "pinned KiB", "/dev/shm");
    for (int m = 0; m < mark_count(s); m++) {
        struct sample most = { 0 };

        for (int r = 0; r < s->ranks; r++) {
            const long *from = (const long *)&s->samples[r][m];
            long *to = (long *)&most;

            for (size_t i = 0; i < sizeof(most) / sizeof(long); i++)
                to[i] = from[i] > to[i] ? from[i] : to[i];
        }
        printf("%s%8ld %9ld %5ld %8ld %5ld %12ld %9ld %11ld %9ld\n", lead, s->marks[m], most.rss_kib, most.fds,
               most.threads, most.maps, most.shared_maps, most.shm_kib, most.pinned_kib, most.dev_shm);
    }
}

/* Returns how much is not flat. */
static int compare(const struct soak *s, const struct soak_case *it, int rank, int mark)
{
    const struct sample *base = &s->samples[rank][BASE], *now = &s->samples[rank][mark];
    long grown_kib = now->rss_kib - base->rss_kib;
    int bad = 0;

    for (int i = 0; i < SAMPLE_EXACT; i++) {
        if (sample_exact(now, i) == sample_exact(base, i))
            continue;
        printf("# rank %d: %s: %ld after %ld, %ld after %ld\n", rank, sample_exact_names[i], sample_exact(base, i),
               s->marks[BASE], sample_exact(now, i), s->marks[mark]);
        bad++;
    }
    if (!has_shadow && grown_kib > it->grows_kib) {
        printf("# rank %d: resident memory grew by %ld KiB from %ld to %ld, and may by %ld\n", rank, grown_kib,
               s->marks[BASE], s->marks[mark], it->grows_kib);
        bad++;
    }
    return bad;
}

static int run_case(const struct soak_case *it, const char *transport, const struct wish *wish)
{
    struct soak *s = shared_memory(sizeof(*s));
    void *arg[] = { s, (void *)(uintptr_t)it };
    int bad;

    s->transport = transport;
    s->marks = wish->full ? it->full : it->brief;
    s->ranks = it->ranks;
    s->hosts = strchr(transport, '+') ? 2 : 1;
    bad = run_ranks(s->ranks, ranks_want_processes(transport), wish->full ? 1800 : 100, body, arg);
    if (bad)
        printf("# %d ranks failed\n", bad);
    else
        print_table(s, it, wish->full ? "" : "# ");
    for (int r = 0; r < s->ranks && !bad; r++)
        for (int m = BASE + 1; m < mark_count(s); m++)
            bad += compare(s, it, r, m);
    shared_memory_release(s, sizeof(*s));
    return bad;
}

/* ---- all of them ---- */

/* Why a transport is not run; NULL: it is. */
static const char *missing(const char *transport)
{
    if (strcmp(transport, "auto") == 0 ||
        (ri_transport_find(transport) && (!strstr(transport, "shm") || ri_transport_find("shm"))))
        return NULL;
    return "this build has no such transport";
}

static void run_transport(const char *transport, const struct wish *wish, struct counts *counts)
{
    const char *reason = missing(transport);

    for (int i = 0; i < CASES; i++) {
        int number = counts->passed + counts->failed + counts->skipped + 1, bad;

        if (wish->only && strcmp(wish->only, cases[i].name) != 0)
            continue;
        bad = reason ? 0 : run_case(&cases[i], transport, wish);
        printf("%s %d - %s: %s%s%s\n", bad ? "not ok" : "ok", number, transport, cases[i].what,
               reason ? " # SKIP " : "", reason ? reason : "");
        fflush(stdout);
        *(reason ? &counts->skipped : bad ? &counts->failed : &counts->passed) += 1;
    }
}

static void run_all(const struct wish *wish, struct counts *counts)
{
    char *names = strdup(wish->transports), *rest = names, *name;

    while (names && (name = strsep(&rest, ",")))
        run_transport(name, wish, counts);
    free(names);
}

static int read_wish(int argc, char **argv, struct wish *wish)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--full") == 0)
            wish->full = 1;
        else if (strcmp(argv[i], "--transports") == 0 && i + 1 < argc)
            wish->transports = argv[++i];
        else if (strcmp(argv[i], "--case") == 0 && i + 1 < argc)
            wish->only = argv[++i];
        else
            return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct wish wish = { .transports = "self,ucx,shm,shm+ucx,auto" };
    struct counts counts = { 0 };
    int alone;

    if (read_wish(argc, argv, &wish)) {
        fprintf(stderr, "usage: %s [--full] [--transports self,ucx,..] [--case NAME]\ncases:", argv[0]);
        for (int i = 0; i < CASES; i++)
            fprintf(stderr, " %s", cases[i].name);
        fputc('\n', stderr);
        return 2;
    }
    alone = sample_alone();
    printf("# names in /dev/shm are %s\n", alone ? "those of this program" : "everybody's, and not compared");
    run_all(&wish, &counts);
    printf("1..%d\n", counts.passed + counts.failed + counts.skipped);
    printf("%s%d passed, %d failed, %d skipped\n", wish.full ? "" : "# ", counts.passed, counts.failed,
           counts.skipped);
    return counts.failed > 0 || counts.passed + counts.skipped == 0;
}
