/* SPDX-License-Identifier: Apache-2.0 */
/* Two ranks of transport shm that give up what they have posted at any time, and post it again: nothing
 * is lost, doubled or torn, and who reads is counted right. */
#include "alone.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "tests/short.h"

enum { most = 1500000, kinds = 5 };

static const int64_t deadline_ns = INT64_C(50000000000);

struct side {
    struct ri_transport *transport;
    const void **addresses;
    size_t *bytes;
    char *shared, *other; /* memory that alloc gave, and that calloc gave */
    int rank, rounds;
    uint32_t random;
};

static uint32_t next_random(struct side *side)
{
    side->random = side->random * 1664525u + 1013904223u;
    return side->random >> 8;
}

/* Alike on both ranks. */
static size_t bytes_of(uint64_t round)
{
    static const size_t sizes[] = { 100, 20000, 0, 600000, 5000, most };

    return sizes[round / kinds % 6];
}

static int binds(uint64_t round)
{
    return round % kinds < 2;
}

/* Until the message has gone through; one in three times it is given up before, and posted again.  But a
 * bound receive is waited for: its send may be DONE already when it is given up. */
static void persist(struct side *side, struct ri_xfer *xfer)
{
    const struct ri_xfer as_new = *xfer;
    int is_patient = xfer->bind && !xfer->send;
    int64_t start_ns = ri_now_ns();

    while (xfer->state != RI_XFER_DONE) {
        uint32_t spins = is_patient || next_random(side) % 3 ? UINT32_MAX : next_random(side) % 40;

        *xfer = as_new;
        require(!ops->post(side->transport, &xfer, 1), "post");
        for (uint32_t i = 0; i < spins && xfer->state == RI_XFER_POSTED; i++) {
            if (ops->progress(side->transport) == 0)
                sched_yield();
            require(ri_now_ns() - start_ns < deadline_ns, "message is still posted");
        }
        require(xfer->state != RI_XFER_FAILED, "message failed");
        ops->cancel(side->transport, &xfer, 1);
        require(xfer->state == RI_XFER_DONE || xfer->state == RI_XFER_IDLE, "state after cancel");
    }
}

static void send_round(struct side *side, uint64_t round)
{
    char *memory = round % 2 ? side->shared : side->other;
    struct ri_xfer xfer = bench_send(!side->rank, round, memory, bytes_of(round));
    int64_t start_ns = ri_now_ns();

    xfer.bind = (uint8_t)binds(round);
    memset(memory, (int)(round + 1), bytes_of(round));
    persist(side, &xfer);
    while (ops->readers(side->transport, &xfer) > 0) {
        ops->progress(side->transport);
        sched_yield();
        require(ri_now_ns() - start_ns < deadline_ns, "it is still read");
    }
    memset(memory, 0, bytes_of(round)); /* so that who still reads is found out */
}

static void receive_round(struct side *side, uint64_t round)
{
    struct ri_xfer xfer = bench_receive(!side->rank, round, binds(round) ? NULL : side->other, bytes_of(round));

    xfer.bind = (uint8_t)binds(round);
    persist(side, &xfer);
    for (size_t i = 0; i < bytes_of(round); i++)
        require(xfer.base[i] == (char)(round + 1), "other bytes");
    if (binds(round))
        ops->release(side->transport, &xfer);
}

static void *take_part(void *argument)
{
    struct side *side = argument;
    void *shared;

    require(!ops->connect(side->transport, side->addresses, side->bytes, ri_now_ns() + deadline_ns), "connect");
    require(!ops->alloc(side->transport, most, &shared), "alloc");
    side->shared = shared;
    side->other = calloc(1, most);
    require(side->other != NULL, "memory");
    for (uint64_t round = 0; round < (uint64_t)side->rounds; round++)
        if ((round / 7 + (uint64_t)side->rank) % 2)
            send_round(side, round);
        else
            receive_round(side, round);
    free(side->other);
    return NULL;
}

static void race(void)
{
    const void *addresses[2];
    size_t bytes[2];
    struct side sides[2];
    pthread_t thread;

    for (int r = 0; r < 2; r++) {
        sides[r] = (struct side){ .addresses = addresses, .bytes = bytes, .rank = r,
                                  .rounds = test_is_short() ? 200 : 1500, .random = (uint32_t)r + 5 };
        require(!open_rank(r, 2, &sides[r].transport, &addresses[r], &bytes[r]), "open");
    }
    require(!pthread_create(&thread, NULL, take_part, &sides[1]), "thread");
    take_part(&sides[0]);
    pthread_join(thread, NULL);
    for (int r = 0; r < 2; r++)
        ops->close(sides[r].transport);
}

static void race_without_cma(void)
{
    refuse_call(SYS_process_vm_readv);
    race();
}

static void gives_up_at_any_time(void **state)
{
    (void)state;
    alone(race);
}

static void gives_up_at_any_time_without_cma(void **state)
{
    (void)state;
    alone(race_without_cma);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_up_at_any_time),
        cmocka_unit_test(gives_up_at_any_time_without_cma),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
