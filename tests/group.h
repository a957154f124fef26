/* SPDX-License-Identifier: Apache-2.0 */
/* A group whose ranks are threads, over transport self: each member says what it gives to
 * rondo_comm_create, and finds there what came of it. */
#ifndef RONDO_TEST_GROUP_H
#define RONDO_TEST_GROUP_H

#include "tests/here.h"
#include "tests/helper.h"
#include "tests/threads.h"

#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "comm/comm.h"

enum { RANKS_MAX = 64, CONNECT_MS = 20000 };

/* What one rank of a group does and sees. */
struct member {
    int rank, size;
    const char *transport, *host_id;
    int connect_ms;
    rondo_unique_id_t id;
    rondo_comm_t comm;
    int status;
    char text[512];
    int64_t took_ms;
};

struct group {
    int count; /* threads */
    struct member members[RANKS_MAX];
    void (*then)(struct group *group, int index); /* when all have their communicators; may be NULL */
    atomic_int made;
    int keep;                                     /* do not destroy */
};

static inline void group_init(struct group *group, int count)
{
    rondo_unique_id_t id;

    memset(group, 0, sizeof(*group));
    group->count = count;
    assert_int_equal(rondo_unique_id_get(&id), 0);
    for (int r = 0; r < count; r++) {
        group->members[r] = (struct member){ .rank = r, .size = count, .transport = "self", .id = id,
                                             .connect_ms = CONNECT_MS };
        group->members[r].status = 1;
    }
}

static inline void note(struct member *it, int status)
{
    it->status = status;
    snprintf(it->text, sizeof(it->text), "%s", status ? rondo_last_error() : "");
}

static inline void run_member(void *context, int index)
{
    struct group *group = context;
    struct member *it = &group->members[index];
    rondo_config_t config = RONDO_CONFIG_INIT;
    int64_t begin_ns = ri_now_ns();

    config.transport = it->transport;
    config.host_id = it->host_id;
    config.connect_timeout_ms = it->connect_ms;
    config.timeout_ms = it->connect_ms;
    note(it, rondo_comm_create(&it->id, it->rank, it->size, &config, &it->comm));
    it->took_ms = (ri_now_ns() - begin_ns) / 1000000;
    if (group->then && everyone_is_here(&group->made, group->count))
        note(it, ri_error(RONDO_ERR_TIMEOUT, "a member did not come"));
    else if (it->comm && group->then)
        group->then(group, index);
    if (!group->keep) {
        rondo_comm_destroy(it->comm);
        it->comm = NULL;
    }
}

static inline void run_group(struct group *group)
{
    test_threads(group->count, run_member, group);
}

static inline void all_are_good(const struct group *group)
{
    for (int r = 0; r < group->count; r++)
        if (group->members[r].status)
            fail_msg("rank %d: %d %s", r, group->members[r].status, group->members[r].text);
}

static inline void all_say(const struct group *group, int status, const char *text)
{
    for (int r = 0; r < group->count; r++) {
        if (group->members[r].status != status || !strstr(group->members[r].text, text))
            fail_msg("rank %d: %d '%s', expected %d '%s'", r, group->members[r].status,
                     group->members[r].text, status, text);
    }
}

/* Waits as a request does, for something that never comes. */
static inline int wait_for_nothing(rondo_comm_t comm, int64_t limit_ms)
{
    int64_t end_ns = ri_now_ns() + limit_ms * 1000000;
    struct ri_idle idle = { 0 };
    int err = ri_comm_enter(comm);

    if (err)
        return err;
    while (ri_now_ns() < end_ns && err >= 0) {
        err = ri_comm_progress(comm);
        if (err >= 0)
            err = ri_comm_idle(comm, &idle);
    }
    return ri_comm_leave(comm, err < 0 ? err : 0);
}

#endif
