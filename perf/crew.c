/* SPDX-License-Identifier: Apache-2.0 */
#include "crew.h"

#include <pthread.h>
#include <stdatomic.h>

struct job {
    void (*task)(void *argument, int index, int thread);
    void *argument;
    int count;
    atomic_int next;
};

struct member {
    struct job *job;
    int thread;
    pthread_t handle;
};

static void *work(void *data)
{
    struct member *member = data;
    struct job *job = member->job;

    for (int i = atomic_fetch_add(&job->next, 1); i < job->count; i = atomic_fetch_add(&job->next, 1))
        job->task(job->argument, i, member->thread);
    return NULL;
}

/* Where a thread cannot be made the others do its part. */
void crew_run(void *runner, void (*task)(void *argument, int index, int thread), void *argument, int count)
{
    const struct crew *crew = runner;
    struct job job = {.task = task, .argument = argument, .count = count};
    struct member members[CREW_MOST];
    int made = 1;

    while (made < crew->threads && made < count) {
        members[made] = (struct member){.job = &job, .thread = made};
        if (pthread_create(&members[made].handle, NULL, work, &members[made]))
            break;
        made++;
    }
    members[0] = (struct member){.job = &job};
    work(&members[0]);
    while (--made > 0)
        pthread_join(members[made].handle, NULL);
}
