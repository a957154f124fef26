/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that is stopped says nothing; the log of who waits for it does.  When it goes on, so does its wait. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/api/shard.h"
#include "transport/transport.h"

enum { RANKS = 2 };

struct test {
    struct meeting meeting;
    struct problem problem;
    int lines;    /* that the stopped rank stays stopped for */
    int least_ms; /* and at least so long */
    atomic_int stopped; /* its process; 0: not yet */
};

static char log_file[] = "/tmp/test_stopped.XXXXXX";

/* Lines that tell of a wait, and whether all name what is waited for. */
static int lines_of_log(int *named)
{
    FILE *log = fopen(log_file, "r");
    char line[1024];
    int count = 0;

    *named = 1;
    while (log && fgets(line, sizeof(line), log)) {
        if (!strstr(line, "has waited"))
            continue;
        count++;
        *named = *named && strstr(line, "rank 0 has waited") && strstr(line, "s in ring_forward step ") &&
                 strstr(line, ": send K0 to rank 1\n");
    }
    if (log)
        fclose(log);
    return count;
}

static void *continue_later(void *arg)
{
    struct test *t = arg;
    int64_t begin_ns = ri_now_ns(), ms = 0;
    int named;

    while (ms < t->least_ms || (lines_of_log(&named) < t->lines && ms < 30000)) {
        usleep(1000);
        ms = (ri_now_ns() - begin_ns) / 1000000;
    }
    kill((pid_t)atomic_load(&t->stopped), SIGCONT);
    return NULL;
}

static void stop_here(struct test *t)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody else would continue it */
    atomic_store(&t->stopped, (int)getpid());
    raise(SIGSTOP);
}

static int body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    rondo_attention_desc_t desc = desc_of(&t->problem);
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, "shm");
    rondo_layout_t layout = layout_of(RONDO_LAYOUT_CONTIGUOUS, t->problem.tokens, ranks);
    rondo_plan_t plan = NULL;
    struct shard shard;
    pthread_t thread;
    int bad, named;

    shard_init(&shard, layout, rank, &t->problem);
    options.schedule = "ring";
    bad = expect(!rondo_attention_plan(comm, layout, &desc, &options, &plan), "plan: %s", rondo_last_error());
    if (rank == 1)
        stop_here(t);
    while (rank == 0 && !atomic_load(&t->stopped))
        usleep(1000);
    if (rank == 0 && pthread_create(&thread, NULL, continue_later, t))
        exit(1);
    bad += expect(!bad && !shard_forward(plan, &shard), "forward: %s", rondo_last_error());
    bad += expect(!bad && shard_forward_error(&shard, &t->problem) <= SHARD_BAR, "rank %d: wrong", rank);
    if (rank == 0) {
        pthread_join(thread, NULL);
        bad += expect(lines_of_log(&named) == t->lines && named, "%d lines, not %d, or of other words",
                      lines_of_log(&named), t->lines);
    }
    rondo_plan_destroy(plan);
    rondo_layout_destroy(layout);
    shard_release(&shard);
    rondo_comm_destroy(comm);
    return bad;
}

static void run(const char *warn_after, int lines, int least_ms)
{
    struct test *t = shared_memory(sizeof(*t));

    if (!ranks_want_processes("shm"))
        skip(); /* they cannot be stopped one by one */
    assert_int_equal(truncate(log_file, 0), 0);
    setenv("RONDO_WARN_AFTER", warn_after, 1);
    t->problem = (struct problem){ .batch = 1, .tokens = 12 * RANKS, .q_heads = 2, .kv_heads = 1,
                                   .qk_dim = 4, .v_dim = 4 };
    t->lines = lines;
    t->least_ms = least_ms;
    problem_init(&t->problem, 11);
    assert_int_equal(run_ranks(RANKS, 1, 60, body, t), 0);
    problem_release(&t->problem);
}

/* And a third time never: it is stopped for more than twice as long. */
static void a_long_wait_names_who_is_waited_for_twice(void **state)
{
    (void)state;
    run("50ms", 2, 1200);
}

static void a_short_wait_says_nothing(void **state)
{
    (void)state;
    run("30s", 0, 200);
}

static void it_can_be_switched_off(void **state)
{
    (void)state;
    run("0", 0, 200);
}

/* ---- the rank that waits is stopped ---- */

enum { TIMEOUT_MS = 1500, STOPPED_MS = 2000, LATER_MS = 200 };

/* Rank 1 stops rank 0 in its wait, for longer than that may last, and comes a little later than it goes on. */
static void stop_the_other(struct test *t)
{
    pid_t pid;

    while (!(pid = (pid_t)atomic_load(&t->stopped)))
        usleep(1000);
    usleep(LATER_MS * 1000);
    kill(pid, SIGSTOP);
    usleep(STOPPED_MS * 1000);
    kill(pid, SIGCONT);
    usleep(LATER_MS * 1000);
}

static int waits_on(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, "shm");
    rondo_request_t request = NULL;
    float number = 1;
    int bad;

    if (rank == 1)
        stop_the_other(t);
    else
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    bad = expect(!rondo_all_reduce(comm, &number, &number, 1, RONDO_F32, NULL, &request), "%s", rondo_last_error());
    if (rank == 0)
        atomic_store(&t->stopped, (int)getpid());
    bad += expect(!rondo_wait(&request, TIMEOUT_MS), "rank %d: %s", rank, rondo_last_error());
    bad += expect(number == RANKS, "rank %d has %g", rank, (double)number);
    rondo_comm_destroy(comm);
    return bad;
}

static void a_wait_does_not_count_what_it_was_stopped_for(void **state)
{
    struct test *t = shared_memory(sizeof(*t));

    (void)state;
    if (!ranks_want_processes("shm"))
        skip();
    assert_int_equal(run_ranks(RANKS, 1, 60, waits_on, t), 0);
    shared_memory_release(t, sizeof(*t));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_wait_names_who_is_waited_for_twice),
        cmocka_unit_test(a_short_wait_says_nothing),
        cmocka_unit_test(it_can_be_switched_off),
        cmocka_unit_test(a_wait_does_not_count_what_it_was_stopped_for),
    };
    int file = mkstemp(log_file), failures;

    if (file < 0)
        return 1;
    close(file);
    setenv("RONDO_LOG", "warn", 1);
    setenv("RONDO_LOG_FILE", log_file, 1);
    failures = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(log_file);
    return failures;
}
