/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "comm/bootstrap.h"
#include "comm/bytes.h"
#include "comm/comm.h"

enum { FIELDS_MAX = 64, TEXTS_BYTES = 512, TEXT_BYTES_MIN = 32, TEXT_BYTES_MAX = 96 };

/* What a rank tells the others.  Of one size, so that ranks in different calls still understand each
 * other; all ranks run one version of the library. */
struct opinion {
    char what[48];
    char refusal[192]; /* when status < 0 */
    int32_t status, count;
    int64_t values[FIELDS_MAX];  /* of texts: a hash */
    char texts[TEXTS_BYTES];     /* a place of equal size for each, in the order of the fields */
};

static int text_count(const struct ri_field *fields, int count)
{
    int texts = 0;

    for (int i = 0; i < count; i++)
        texts += fields[i].text != NULL;
    return texts;
}

static size_t text_bytes(const struct ri_field *fields, int count)
{
    int texts = text_count(fields, count);

    return texts * TEXT_BYTES_MAX > TEXTS_BYTES ? TEXTS_BYTES / (size_t)texts : TEXT_BYTES_MAX;
}

static void fill(struct opinion *mine, const struct ri_field *fields, int count)
{
    size_t room = text_bytes(fields, count);
    char *at = mine->texts;

    for (int i = 0; i < count; i++) {
        const char *text = fields[i].text;

        mine->values[i] = text ? (int64_t)ri_fnv(RI_FNV_START, text, strlen(text)) : fields[i].value;
        if (!text)
            continue;
        if (snprintf(at, room, "%s", text) >= (int)room)
            memcpy(at + room - 4, "...", 4);
        at += room;
    }
}

/* What a rank holds of field i, in words. */
static void say(char *to, size_t bytes, const struct opinion *of, const struct ri_field *fields, int count, int i)
{
    int64_t value = of->values[i];

    if (fields[i].text)
        snprintf(to, bytes, "%.*s", (int)bytes - 1,
                 of->texts + text_bytes(fields, count) * (size_t)text_count(fields, i));
    else if (fields[i].names && value >= 0 && value < fields[i].name_count && fields[i].names[value])
        snprintf(to, bytes, "%s", fields[i].names[value]);
    else
        snprintf(to, bytes, "%" PRId64, value);
}

static int differ(const struct opinion *all, const struct ri_field *fields, int count, int i, int r)
{
    char zero[TEXT_BYTES_MAX], other[TEXT_BYTES_MAX];

    say(zero, sizeof(zero), &all[0], fields, count, i);
    say(other, sizeof(other), &all[r], fields, count, i);
    return ri_error(RONDO_ERR_MISMATCH, "%s: %s is %s on rank 0 and %s on rank %d%s", all[0].what,
                    fields[i].name, zero, other, r, strcmp(zero, other) ? "" : ", which differs further on");
}

static int refused(const struct rondo_comm *comm, const struct opinion *all, int local_status,
                   const char *local_text)
{
    if (local_status < 0)
        return ri_error(local_status, "%s", local_text);
    for (int r = 0; r < comm->size; r++)
        if (all[r].status < 0)
            return ri_error(RONDO_ERR_PEER, "%s is refused on rank %d: %.*s", all[r].what, r,
                            (int)sizeof(all[r].refusal), all[r].refusal);
    return 0;
}

/* All ranks compare with rank 0, so that they find the same field and the same two ranks. */
static int compare(const struct rondo_comm *comm, const struct opinion *all, const struct ri_field *fields,
                   int count)
{
    for (int r = 1; r < comm->size; r++)
        if (strcmp(all[r].what, all[0].what) != 0 || all[r].count != all[0].count)
            return ri_error(RONDO_ERR_MISMATCH, "rank 0 is in %s with %d values, rank %d in %s with %d",
                            all[0].what, all[0].count, r, all[r].what, all[r].count);
    for (int i = 0; i < count; i++)
        for (int r = 1; r < comm->size; r++)
            if (all[r].values[i] != all[0].values[i])
                return differ(all, fields, count, i, r);
    return 0;
}

/* While a rank waits for the others to agree, one of them may wait for what this rank has under way. */
static int move_requests(void *context)
{
    struct rondo_comm *comm = context;

    return ri_family_advance(comm->family, 1) != RI_ADVANCE_NONE;
}

static void pause_exchange(void *context, int begin)
{
    struct rondo_comm *comm = context;

    if (begin)
        ri_family_unlock(comm->family);
    else
        ri_family_relock(comm->family);
}

static int exchange(struct rondo_comm *comm, const void *mine, size_t bytes, void *all, int64_t deadline_ns)
{
    struct ri_bootstrap *b = comm->bootstrap;
    int err = ri_comm_enter(comm);

    if (err)
        return err;
    if (comm->failed)
        return ri_comm_leave(comm, ri_error(comm->failed, "%s", comm->failure));
    b->aside = move_requests;
    b->pause = pause_exchange;
    b->aside_context = comm;
    err = ri_bootstrap_allgather(b, mine, bytes, all, deadline_ns);
    b->aside = NULL;
    b->pause = NULL;
    return ri_comm_leave(comm, err ? ri_comm_fail(comm, err) : 0);
}

int ri_comm_talk_begin(struct rondo_comm *comm, const char *what)
{
    int err = ri_comm_enter(comm);

    if (!err)
        err = ri_comm_leave(comm, comm->failed ? ri_error(comm->failed, "%s refused: the communicator has "
                                                          "failed: %s", what, comm->failure) : 0);
    return err ? err : ri_family_talk_begin(comm, what, ri_now_ns() + comm->config.timeout_ms * 1000000);
}

int ri_comm_exchange(struct rondo_comm *comm, const char *what, const void *mine, size_t bytes, void *all)
{
    int64_t deadline_ns = ri_now_ns() + comm->config.timeout_ms * 1000000;
    int err;

    if (comm->size == 1) {
        memcpy(all, mine, bytes);
        return 0;
    }
    err = ri_family_talk_begin(comm, what, deadline_ns);
    if (err)
        return err;
    err = exchange(comm, mine, bytes, all, deadline_ns);
    ri_family_talk_end(comm);
    return err;
}

static int agree(struct rondo_comm *comm, const char *what, const struct ri_field *fields, int count,
                 int local_status, const char *local_text, int64_t deadline_ns)
{
    struct opinion mine = { .status = local_status, .count = count };
    struct opinion *all = malloc((size_t)comm->size * sizeof(*all));
    int err;

    if (!all) /* the others wait for what this rank has to say */
        return ri_comm_give_up(comm, ri_error(RONDO_ERR_MEMORY, "no memory to compare %d ranks", comm->size));
    snprintf(mine.what, sizeof(mine.what), "%s", what);
    snprintf(mine.refusal, sizeof(mine.refusal), "%s", local_text);
    fill(&mine, fields, count);
    err = exchange(comm, &mine, sizeof(mine), all, deadline_ns);
    if (err && local_status < 0) /* the cause, which the caller would lose */
        err = ri_error(local_status, "%s", local_text);
    if (!err)
        err = refused(comm, all, local_status, local_text);
    if (!err)
        err = compare(comm, all, fields, count);
    free(all);
    return err;
}

int ri_agree_until(struct rondo_comm *comm, const char *what, const struct ri_field *fields, int count,
                   int local_status, int64_t deadline_ns)
{
    char text[sizeof(((struct opinion *)0)->refusal)];
    int err;

    if (comm->size == 1)
        return local_status;
    snprintf(text, sizeof(text), "%s", local_status < 0 ? rondo_last_error() : "");
    if (count > FIELDS_MAX || text_count(fields, count) * TEXT_BYTES_MIN > TEXTS_BYTES) {
        local_status = ri_error(RONDO_ERR_INTERNAL, "%s compares %d values", what, count);
        snprintf(text, sizeof(text), "%s", rondo_last_error());
        count = 0;
    }
    err = ri_family_talk_begin(comm, what, deadline_ns);
    if (err)
        return ri_comm_give_up(comm, err);
    err = agree(comm, what, fields, count, local_status, text, deadline_ns);
    ri_family_talk_end(comm);
    return err;
}

int ri_agree(struct rondo_comm *comm, const char *what, const struct ri_field *fields, int count,
             int local_status)
{
    return ri_agree_until(comm, what, fields, count, local_status,
                          ri_now_ns() + comm->config.timeout_ms * 1000000);
}
