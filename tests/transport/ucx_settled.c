/* SPDX-License-Identifier: Apache-2.0 */
/* Transport ucx when a message is DONE here, and its peer does not know yet. */
#include "bench.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/status.h"

enum { WORDS = 1000, LONG_BYTES = 1 << 20 };

static const int64_t second_ns = 1000000000;

static int is_settled(struct bench *bench, int rank)
{
    return !bench->ops->settled || bench->ops->settled(bench->rank[rank]);
}

static void progress(struct bench *bench, int rank, int rounds)
{
    for (int i = 0; i < rounds; i++)
        assert_true(bench->ops->progress(bench->rank[rank]) >= 0);
}

/* Some ranks, until the message has ended. */
static void progress_until_done(struct bench *bench, int first, int last, const struct ri_xfer *xfer, const char *what)
{
    int64_t deadline_ns = ri_now_ns() + 5 * second_ns;

    while (xfer->state == RI_XFER_POSTED && ri_now_ns() < deadline_ns)
        for (int rank = first; rank <= last && xfer->state == RI_XFER_POSTED; rank++)
            progress(bench, rank, 1);
    if (xfer->state != RI_XFER_DONE)
        fail_msg("%s is not done: ranks %d to %d alone do not move it", what, first, last);
}

/* Words from rank 0 fill the queue of rank 1, so that the answer of rank 2 to it has to wait for room there. */
static void settles_when_the_sender_can_know_that_its_message_was_taken(void **state)
{
    static int64_t words[WORDS], taken[WORDS];
    char *from = bench_memory(LONG_BYTES), *to = bench_memory(LONG_BYTES);
    static struct ri_xfer sends[WORDS], receives[WORDS];
    struct ri_xfer sent = bench_send(2, 1, from, LONG_BYTES), received = bench_receive(1, 1, to, LONG_BYTES);
    struct bench bench;

    (void)state;
    bench_fill(from, LONG_BYTES, 7);
    for (int i = 0; i < WORDS; i++) {
        words[i] = i;
        sends[i] = bench_send(1, 2, &words[i], sizeof(words[i]));
        sends[i].tag += (uint64_t)i;
        receives[i] = bench_receive(0, sends[i].tag, &taken[i], sizeof(taken[i]));
    }
    bench_open(&bench, "ucx", 3, NULL);
    assert_true(is_settled(&bench, 2));
    bench_post(&bench, 1, &sent, 1);
    bench_post(&bench, 0, sends, WORDS);
    progress(&bench, 0, 100);
    bench_post(&bench, 2, &received, 1);
    progress_until_done(&bench, 0, 2, &received, "the receive of rank 2");
    assert_true(bench_filled(to, LONG_BYTES, 7));
    for (int rounds = 0; !is_settled(&bench, 2) && rounds < 100000; rounds++) {
        progress(&bench, 1, 1);
        progress(&bench, 2, 1);
    }
    assert_true(is_settled(&bench, 2));
    progress_until_done(&bench, 0, 1, &sent, "the send of rank 1");
    bench_post(&bench, 1, receives, WORDS);
    bench_run_done(&bench, receives, WORDS);
    bench_run_done(&bench, sends, WORDS);
    bench_close(&bench);
    free(from);
    free(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settles_when_the_sender_can_know_that_its_message_was_taken),
    };

    return cmocka_run_group_tests_name("transport ucx settles", tests, NULL, NULL);
}
