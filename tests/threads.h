/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks as threads of one process.  cmocka's assertions belong to the main thread: a rank writes what it
 * saw into its own place of an array, and the test looks at it afterwards. */
#ifndef RONDO_TEST_THREADS_H
#define RONDO_TEST_THREADS_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct test_thread {
    pthread_t thread;
    void (*body)(void *context, int rank);
    void *context;
    int rank;
};

static inline void *test_thread_main(void *argument)
{
    struct test_thread *it = argument;

    it->body(it->context, it->rank);
    return NULL;
}

static inline void test_thread_start(struct test_thread *thread, int rank,
                                     void (*body)(void *context, int rank), void *context)
{
    *thread = (struct test_thread){ .body = body, .context = context, .rank = rank };
    if (pthread_create(&thread->thread, NULL, test_thread_main, thread) != 0) {
        fprintf(stderr, "no thread for rank %d\n", rank);
        abort();
    }
}

static inline void test_threads_start(struct test_thread *threads, int count,
                                      void (*body)(void *context, int rank), void *context)
{
    for (int r = 0; r < count; r++)
        test_thread_start(&threads[r], r, body, context);
}

static inline void test_threads_join(struct test_thread *threads, int count)
{
    for (int r = 0; r < count; r++)
        pthread_join(threads[r].thread, NULL);
}

/* Runs body(context, r) for r in 0..count-1 at the same time, and waits for all. */
static inline void test_threads(int count, void (*body)(void *context, int rank), void *context)
{
    struct test_thread *threads = calloc((size_t)count, sizeof(*threads));

    if (!threads)
        abort();
    test_threads_start(threads, count, body, context);
    test_threads_join(threads, count);
    free(threads);
}

#endif
