/* SPDX-License-Identifier: Apache-2.0 */
/* The file of RONDO_TRACE: where it lies, that it is JSON, and what it tells. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/status.h"
#include "base/trace.h"
#include "tests/ranks.h"

static char folder[] = "/tmp/rondo-trace-XXXXXX";

static const char *in_folder(const char *name)
{
    static char path[128];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

/* The whole file, which is then removed; freed by the caller. */
static char *take_file(const char *name)
{
    FILE *file = fopen(in_folder(name), "r");
    char *text = NULL;
    long bytes;

    if (!file)
        fail_msg("there is no file %s", name);
    fseek(file, 0, SEEK_END);
    bytes = ftell(file);
    rewind(file);
    text = calloc(1, (size_t)bytes + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)bytes, file), bytes);
    fclose(file);
    unlink(in_folder(name));
    return text;
}

/* ---- JSON ---- */

static const char *blanks(const char *at)
{
    return at + strspn(at, " \n");
}

static const char *json(const char *at);

/* Past the items of {..} or [..]; NULL: no JSON. */
static const char *json_items(const char *at, char close)
{
    if (*blanks(at) == close)
        return blanks(at) + 1;
    for (;;) {
        at = blanks(at);
        if (close == '}') {
            at = *at == '"' ? blanks(json(at)) : NULL;
            at = at && *at == ':' ? at + 1 : NULL;
        }
        at = at ? json(at) : NULL;
        if (!at)
            return NULL;
        at = blanks(at);
        if (*at == close)
            return at + 1;
        if (*at++ != ',')
            return NULL;
    }
}

/* Past one value, or NULL. */
static const char *json(const char *at)
{
    char *end;

    at = blanks(at);
    if (*at == '{' || *at == '[')
        return json_items(at + 1, *at == '{' ? '}' : ']');
    if (*at == '"') {
        at += 1 + strcspn(at + 1, "\"\\\n");
        return *at == '"' ? at + 1 : NULL;
    }
    strtod(at, &end);
    return end == at ? NULL : end;
}

static int is_json(const char *text)
{
    const char *end = json(text);

    return end && *blanks(end) == '\0';
}

/* Under a sanitizer each strstr() would read the whole text. */
static int count(const char *text, const char *word)
{
    size_t length = strlen(word);
    int n = 0;

    for (; (text = strchr(text, word[0])); text++)
        n += strncmp(text, word, length) == 0;
    return n;
}

/* ---- tests ---- */

static void names_files_by_rank(void **state)
{
    static const struct {
        const char *given, *made;
        int rank;
    } cases[] = {
        { "t.%r.json", "t.3.json", 3 }, { "%rt", "12t", 12 },    { "t.json", "t.0.json", 0 },
        { "t", "t.5", 5 },              { ".t", ".t.5", 5 },     { "t.json", "t.json", -1 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct ri_trace_event event = { .end_ns = 1, .rank = cases[i].rank < 0 ? 0 : cases[i].rank,
                                        .name = "copy X0" };
        struct ri_trace *trace;
        char *text;

        assert_int_equal(ri_trace_create(in_folder(cases[i].given), cases[i].rank, &trace), 0);
        ri_trace_add(trace, &event);
        ri_trace_destroy(trace);
        text = take_file(cases[i].made);
        assert_true(is_json(text));
        free(text);
    }
}

/* Two communicators at once, and one after them. */
static void later_ones_have_a_number(void **state)
{
    static const char *const names[] = { "m.9.json", "m.9-2.json", "m.9-3.json" };
    struct ri_trace *traces[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct ri_trace_event event = { .end_ns = 1, .rank = 9, .name = "copy X0" };

        assert_int_equal(ri_trace_create(in_folder(i % 2 ? "m.%r.json" : "m.json"), 9, &traces[i]), 0);
        ri_trace_add(traces[i], &event);
        if (i == 1)
            ri_trace_destroy(traces[0]);
    }
    ri_trace_destroy(traces[1]);
    ri_trace_destroy(traces[2]);
    for (int i = 0; i < 3; i++)
        free(take_file(names[i]));
}

static void is_off_without_a_name(void **state)
{
    struct ri_trace *trace = (struct ri_trace *)(void *)folder;

    (void)state;
    assert_int_equal(ri_trace_create("", 0, &trace), 0);
    assert_null(trace);
    ri_trace_destroy(trace);
}

static void tells_what_happened(void **state)
{
    struct ri_trace_event work = { .start_ns = 1000, .end_ns = 3500, .asked_ns = 1000, .bytes = -1,
                                   .rank = 2, .row = RI_TRACE_WORK, .step = 4, .peer = -1,
                                   .name = "compute Q2 K1" };
    struct ri_trace_event first = { .start_ns = 1000, .end_ns = 9000, .asked_ns = 1000, .bytes = 64,
                                    .rank = 2, .row = RI_TRACE_HOST_IN, .step = 5, .peer = 1,
                                    .name = "recv K1" };
    struct ri_trace_event second = first;
    struct ri_trace *trace;
    char *text;

    (void)state;
    second.end_ns = 12000;
    second.bound = 1;
    assert_int_equal(ri_trace_create(in_folder("t.json"), 2, &trace), 0);
    ri_trace_add(trace, &work);
    ri_trace_add(trace, &first);
    ri_trace_add(trace, &second);
    ri_trace_destroy(trace);
    text = take_file("t.2.json");
    assert_true(is_json(text));
    assert_non_null(strstr(text, "{\"ph\":\"X\",\"pid\":2,\"tid\":0,\"name\":\"compute Q2 K1\",\"ts\":1.000,"
                                 "\"dur\":2.500,\"args\":{\"step\":4}}"));
    assert_non_null(strstr(text, "\"tid\":4,\"name\":\"recv K1\",\"ts\":1.000,\"dur\":8.000,"
                                 "\"args\":{\"step\":5,\"peer\":1,\"bytes\":64}}"));
    /* the row was taken until 9 us */
    assert_non_null(strstr(text, "\"ts\":9.000,\"dur\":3.000,\"args\":{\"step\":5,\"peer\":1,"
                                 "\"bound_bytes\":64,\"waited_us\":8.000}}"));
    assert_int_equal(count(text, "\"rank 2\""), 1);
    assert_int_equal(count(text, "\"host in\""), 1);
    free(text);
}

static void keeps_overlaps_of_many_ranks(void **state)
{
    struct ri_trace *trace;
    char *text;

    (void)state;
    assert_int_equal(ri_trace_create(in_folder("t.json"), -1, &trace), 0);
    for (int rank = 0; rank < 3; rank++)
        ri_trace_add(trace, &(struct ri_trace_event){ .start_ns = 0, .end_ns = 5000, .rank = rank,
                                                      .bytes = -1, .peer = -1, .name = "copy X0" });
    ri_trace_destroy(trace);
    text = take_file("t.json");
    assert_true(is_json(text));
    assert_int_equal(count(text, "\"ts\":0.000,\"dur\":5.000"), 3);
    assert_int_equal(count(text, "process_name"), 3);
    free(text);
}

static void counts_what_it_drops(void **state)
{
    struct ri_trace_event event = { .bytes = -1, .peer = -1, .name = "copy X0" };
    struct ri_trace *trace;
    char *text;
    int kept;

    (void)state;
    assert_int_equal(ri_trace_create(in_folder("t.json"), 4, &trace), 0);
    for (int i = 0; i < 200000; i++)
        ri_trace_add(trace, &event);
    ri_trace_destroy(trace);
    text = take_file("t.4.json");
    kept = count(text, "\"ph\":\"X\"");
    assert_in_range(kept, 100000, 199999);
    assert_int_equal(atoi(strstr(text, "\"dropped_events\":") + 17), 200000 - kept);
    free(text);
}

static void says_when_it_cannot_be_written(void **state)
{
    struct ri_trace *trace;

    (void)state;
    assert_int_equal(ri_trace_create(in_folder("no/such/t.json"), 0, &trace), 0);
    assert_int_equal(ri_trace_write(trace), RONDO_ERR_SYSTEM);
    assert_non_null(strstr(rondo_last_error(), "no/such/t.0.json"));
    ri_trace_destroy(trace);
}

/* As the parts of a communicator do. */
static void is_written_by_its_last_owner(void **state)
{
    struct ri_trace_event event = { .bytes = -1, .rank = 0, .peer = -1, .name = "copy X0" };
    struct ri_trace *trace, *part;
    char *text;

    (void)state;
    assert_null(ri_trace_hold(NULL));
    assert_int_equal(ri_trace_create(in_folder("t.json"), 7, &trace), 0);
    part = ri_trace_hold(trace);
    ri_trace_destroy(trace);
    assert_int_equal(access(in_folder("t.7.json"), F_OK), -1);
    ri_trace_add(part, &event);
    ri_trace_destroy(part);
    text = take_file("t.7.json");
    assert_non_null(strstr(text, "{\"ph\":\"X\",\"pid\":7,"));
    free(text);
}

static int body(int rank, int ranks, void *arg)
{
    rondo_config_t config = RONDO_CONFIG_INIT;
    rondo_comm_t comm = NULL;
    rondo_request_t request = NULL;
    int err;

    config.transport = "self";
    err = meet(arg, rank, ranks, &config, &comm);
    if (!err)
        err = rondo_barrier(comm, NULL, &request);
    if (!err)
        err = rondo_wait(&request, 20000);
    rondo_comm_destroy(comm);
    return err;
}

static void a_communicator_writes_a_file_for_each_rank(void **state)
{
    static struct meeting meeting;

    (void)state;
    setenv("RONDO_TRACE", in_folder("b.%r.json"), 1);
    assert_int_equal(run_ranks(3, 0, 60, body, &meeting), 0);
    unsetenv("RONDO_TRACE");
    for (int r = 0; r < 3; r++) {
        char name[32], row[64], *text;

        snprintf(name, sizeof(name), "b.%d.json", r);
        snprintf(row, sizeof(row), "{\"ph\":\"X\",\"pid\":%d,\"tid\":1,\"name\":\"send X", r);
        text = take_file(name);
        assert_true(is_json(text));
        assert_true(count(text, row) >= 2); /* a barrier of 3 sends more than once */
        assert_int_equal(count(text, "\"name\":\"send X"), count(text, "\"name\":\"recv X"));
        free(text);
    }
}

/* K and V of 2 tokens, one head of 4: 64 bytes; what the ranks tell each other about lengths is none of them. */
static int forward_body(int rank, int ranks, void *arg)
{
    float q[8] = { 0 }, k[8] = { 0 }, v[8] = { 0 }, o[8], lse[2];
    rondo_layout_desc_t shape = RONDO_LAYOUT_DESC_INIT;
    rondo_attention_desc_t desc = RONDO_ATTENTION_DESC_INIT;
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    rondo_attention_fwd_t fwd = { .struct_bytes = sizeof(fwd), .q = q, .k = k, .v = v, .o = o, .lse = lse };
    rondo_config_t config = RONDO_CONFIG_INIT;
    rondo_comm_t comm = NULL;
    rondo_layout_t layout = NULL;
    rondo_plan_t plan = NULL;
    rondo_request_t request = NULL;
    int err;

    shape.tokens = 2 * ranks, shape.ranks = ranks;
    desc.q_heads = desc.kv_heads = 1, desc.qk_dim = 4;
    options.schedule = "ring", options.binding = "copy", options.backward = "none";
    config.transport = "self";
    err = meet(arg, rank, ranks, &config, &comm);
    if (!err)
        err = rondo_layout_create(&shape, &layout);
    if (!err)
        err = rondo_attention_plan(comm, layout, &desc, &options, &plan);
    if (!err)
        err = rondo_attention_forward(plan, &fwd, NULL, &request);
    if (!err)
        err = rondo_wait(&request, 20000);
    rondo_plan_destroy(plan);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return err;
}

static void bytes_are_those_of_blocks(void **state)
{
    static struct meeting meeting;
    char *text;

    (void)state;
    setenv("RONDO_TRACE", in_folder("f.%r.json"), 1);
    assert_int_equal(run_ranks(2, 0, 60, forward_body, &meeting), 0);
    unsetenv("RONDO_TRACE");
    for (int r = 0; r < 2; r++) {
        text = take_file(r ? "f.1.json" : "f.0.json");
        assert_int_equal(count(text, "\"bytes\":64}"), 2);
        assert_int_equal(count(text, "\"bytes\":"), 2);
        free(text);
    }
}

static int make_folder(void **state)
{
    (void)state;
    return !mkdtemp(folder);
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder); /* fails when a test has left something */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_files_by_rank),
        cmocka_unit_test(later_ones_have_a_number),
        cmocka_unit_test(is_off_without_a_name),
        cmocka_unit_test(tells_what_happened),
        cmocka_unit_test(keeps_overlaps_of_many_ranks),
        cmocka_unit_test(counts_what_it_drops),
        cmocka_unit_test(is_written_by_its_last_owner),
        cmocka_unit_test(says_when_it_cannot_be_written),
        cmocka_unit_test(a_communicator_writes_a_file_for_each_rank),
        cmocka_unit_test(bytes_are_those_of_blocks),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
