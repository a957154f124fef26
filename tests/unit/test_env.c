/* SPDX-License-Identifier: Apache-2.0 */
/* What launchers put into the environment. */
#include "tests/helper.h"

#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/status.h"
#include "comm/comm.h"
#include "comm/env.h"

static const char *const names[] = { "RONDO_RANK", "RONDO_SIZE", "RONDO_ROOT", "RONDO_JOB", "RONDO_ROOT_FD",
                                     "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
                                     "TORCHELASTIC_RUN_ID" };

/* "NAME=value NAME=value", and nothing else of a launcher's */
static void set_environment(const char *text)
{
    char copy[512], *rest = copy, *word;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unsetenv(names[i]);
    snprintf(copy, sizeof(copy), "%s", text);
    while ((word = strtok_r(rest, " ", &rest))) {
        char *equal = strchr(word, '=');

        *equal = '\0';
        setenv(word, equal + 1, 1);
    }
}

static void good_environments_are_read(void **state)
{
    static const struct {
        const char *text;
        int rank, size, port; /* of the root; 0: none */
    } cases[] = {
        { "", 0, 1, 0 },
        { "MASTER_ADDR=127.0.0.1 MASTER_PORT=29500", 0, 1, 0 },
        { "RONDO_RANK=2 RONDO_SIZE=4 RONDO_ROOT=127.0.0.1:4711", 2, 4, 4711 },
        { "RONDO_RANK=0 RONDO_SIZE=1", 0, 1, 0 },
        { "RONDO_RANK=3 RONDO_SIZE=4 RONDO_ROOT=localhost:1", 3, 4, 1 },
        { "RONDO_RANK=3 RONDO_SIZE=4 RONDO_ROOT=[::1]:65535", 3, 4, 65535 },
        { "RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500", 1, 2, 29501 },
        { "RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 RONDO_ROOT=127.0.0.1:5000", 1, 2, 5000 },
        { "RANK=0 WORLD_SIZE=1", 0, 1, 0 },
        { "RONDO_RANK=1 RONDO_SIZE=3 RONDO_ROOT=127.0.0.1:5 RANK=7 WORLD_SIZE=x", 1, 3, 5 },
        { "RONDO_RANK= RONDO_SIZE= RONDO_ROOT=", 0, 1, 0 },
    };
    struct ri_env env;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        set_environment(cases[i].text);
        if (ri_env_read(0, &env))
            fail_msg("'%s': %s", cases[i].text, rondo_last_error());
        assert_int_equal(env.rank, cases[i].rank);
        assert_int_equal(env.size, cases[i].size);
        if (!cases[i].port)
            continue;
        assert_true(env.meeting.endpoint_count >= 1);
        assert_int_equal(ntohs(((struct sockaddr_in *)&env.meeting.endpoints[0].address)->sin_port),
                         cases[i].port);
    }
    set_environment("");
}

static void bad_environments_name_variable_and_value(void **state)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        { "RONDO_RANK=1", "RONDO_RANK is set but RONDO_SIZE is not" },
        { "RONDO_SIZE=2", "RONDO_SIZE is set but RONDO_RANK is not" },
        { "RONDO_ROOT=127.0.0.1:5", "RONDO_ROOT='127.0.0.1:5' is set but neither RONDO_RANK nor RANK" },
        { "RONDO_RANK=0 RONDO_SIZE=2", "RONDO_SIZE is 2 but RONDO_ROOT is not set" },
        { "RONDO_RANK=2 RONDO_SIZE=2 RONDO_ROOT=127.0.0.1:5", "RONDO_RANK='2' is refused: give a number from 0 to 1" },
        { "RONDO_RANK=-1 RONDO_SIZE=2 RONDO_ROOT=127.0.0.1:5", "RONDO_RANK='-1'" },
        { "RONDO_RANK=1x RONDO_SIZE=2 RONDO_ROOT=127.0.0.1:5", "RONDO_RANK='1x'" },
        { "RONDO_RANK=0 RONDO_SIZE=0", "RONDO_SIZE='0'" },
        { "RONDO_RANK=0 RONDO_SIZE=99999999999999999999", "RONDO_SIZE='99999999999999999999'" },
        { "RONDO_RANK=0 RONDO_SIZE=32769", "RONDO_SIZE='32769' is refused: give a number from 1 to 32768" },
        { "RONDO_RANK=0 RONDO_SIZE=two", "RONDO_SIZE='two'" },
        { "RONDO_RANK=0 RONDO_SIZE=2 RONDO_ROOT=127.0.0.1", "RONDO_ROOT='127.0.0.1' is refused: give host:port" },
        { "RONDO_RANK=0 RONDO_SIZE=2 RONDO_ROOT=:80", "RONDO_ROOT=':80'" },
        { "RONDO_RANK=0 RONDO_SIZE=2 RONDO_ROOT=h:", "RONDO_ROOT='h:'" },
        { "RONDO_RANK=0 RONDO_SIZE=2 RONDO_ROOT=h:0", "RONDO_ROOT='h:0'" },
        { "RONDO_RANK=0 RONDO_SIZE=2 RONDO_ROOT=h:65536", "RONDO_ROOT='h:65536'" },
        { "RONDO_RANK=0 RONDO_SIZE=2 RONDO_ROOT=h:80x", "RONDO_ROOT='h:80x'" },
        { "RONDO_RANK=0 RONDO_SIZE=2 RONDO_ROOT=256.1.1.1.:80", "RONDO_ROOT='256.1.1.1.:80': no address" },
        { "RANK=1", "RANK is set but WORLD_SIZE is not" },
        { "WORLD_SIZE=4", "WORLD_SIZE is set but RANK is not" },
        { "RANK=0 WORLD_SIZE=2", "MASTER_ADDR is not" },
        { "RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1", "MASTER_PORT is not set" },
        { "RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=65535", "MASTER_PORT='65535'" },
        { "RANK=4 WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=1", "RANK='4'" },
    };
    struct ri_env env = { .rank = 77 };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        set_environment(cases[i].text);
        if (ri_env_read(0, &env) != RONDO_ERR_ARGUMENT || !strstr(rondo_last_error(), cases[i].error))
            fail_msg("'%s': '%s' instead of '%s'", cases[i].text, rondo_last_error(), cases[i].error);
        assert_int_equal(env.rank, 77);
    }
    set_environment("");
}

static void tokens_are_of_job_and_turn(void **state)
{
    struct ri_env first, second, other, peer;

    (void)state;
    set_environment("RONDO_RANK=0 RONDO_SIZE=2 RONDO_ROOT=127.0.0.1:5 RONDO_JOB=a");
    assert_int_equal(ri_env_read(0, &first), 0);
    assert_int_equal(ri_env_read(1, &second), 0);
    set_environment("RONDO_RANK=1 RONDO_SIZE=2 RONDO_ROOT=localhost:5 RONDO_JOB=a");
    assert_int_equal(ri_env_read(0, &peer), 0);
    set_environment("RONDO_RANK=0 RONDO_SIZE=2 RONDO_ROOT=127.0.0.1:5 RONDO_JOB=b");
    assert_int_equal(ri_env_read(0, &other), 0);
    assert_memory_equal(first.meeting.token, peer.meeting.token, RI_TOKEN_BYTES);
    assert_memory_not_equal(first.meeting.token, second.meeting.token, RI_TOKEN_BYTES);
    assert_memory_not_equal(first.meeting.token, other.meeting.token, RI_TOKEN_BYTES);
    set_environment("");
}

static void without_a_launcher_there_is_one_rank(void **state)
{
    rondo_comm_info_t info = RONDO_COMM_INFO_INIT;
    rondo_comm_t comm = NULL;

    (void)state;
    set_environment("");
    assert_int_equal(rondo_comm_create_env(NULL, &comm), 0);
    assert_int_equal(rondo_comm_query(comm, &info), 0);
    assert_int_equal(info.size, 1);
    assert_string_equal(info.transport, "self");
    rondo_comm_destroy(comm);
    assert_int_equal(rondo_comm_create_env(NULL, NULL), RONDO_ERR_ARGUMENT);
}

/* ---- processes ---- */

enum { RANKS = 3, TURNS = 2 };

struct outcome {
    int status;
    char text[256];
};

/* Transport self is refused between processes, after they have met: that shows the meeting. */
static void be_rank(int rank, const char *root, struct outcome outcomes[TURNS])
{
    rondo_config_t config = RONDO_CONFIG_INIT, bad = { .struct_bytes = 0 };
    rondo_comm_t comm = NULL;
    char text[128];

    snprintf(text, sizeof(text), "RONDO_RANK=%d RONDO_SIZE=%d RONDO_ROOT=%s RONDO_JOB=test", rank, RANKS, root);
    set_environment(text);
    config.transport = "self";
    config.connect_timeout_ms = 10000;
    for (int turn = 0; turn < TURNS; turn++) {
        if (rank == 1) /* is refused, and does not count */
            rondo_comm_create_env(&bad, &comm);
        outcomes[turn].status = rondo_comm_create_env(&config, &comm);
        snprintf(outcomes[turn].text, sizeof(outcomes[turn].text), "%s", rondo_last_error());
    }
}

/* Returns the port that was free a moment ago, or 0 when there is no such family. */
static int free_port(int family)
{
    struct ri_endpoint any = { .bytes = family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                           : sizeof(struct sockaddr_in) };
    int fd, port;

    any.address.ss_family = (sa_family_t)family;
    if (family == AF_INET)
        ((struct sockaddr_in *)&any.address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else
        ((struct sockaddr_in6 *)&any.address)->sin6_addr = in6addr_loopback;
    fd = ri_tcp_listen(&any);
    if (fd < 0)
        return 0;
    port = ri_tcp_port(fd);
    close(fd);
    return port;
}

static void meet_at(const char *root)
{
    struct outcome(*all)[TURNS] = mmap(NULL, RANKS * sizeof(*all), PROT_READ | PROT_WRITE,
                                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t children[RANKS];

    assert_true(all != MAP_FAILED);
    fflush(NULL);
    for (int r = 0; r < RANKS; r++) {
        children[r] = fork();
        if (children[r] == 0) {
            be_rank(r, root, all[r]);
            _exit(0);
        }
    }
    for (int r = 0; r < RANKS; r++)
        waitpid(children[r], NULL, 0);
    for (int r = 0; r < RANKS; r++)
        for (int turn = 0; turn < TURNS; turn++)
            if (all[r][turn].status != RONDO_ERR_UNSUPPORTED ||
                !strstr(all[r][turn].text, "rank 1 is in another process than rank 0"))
                fail_msg("%s: rank %d, turn %d: %d %s", root, r, turn, all[r][turn].status, all[r][turn].text);
    munmap(all, RANKS * sizeof(*all));
}

static void processes_meet_twice_by_environment(void **state)
{
    char root[64];

    (void)state;
    snprintf(root, sizeof(root), "127.0.0.1:%d", free_port(AF_INET));
    meet_at(root);
    snprintf(root, sizeof(root), "localhost:%d", free_port(AF_INET));
    meet_at(root);
}

static void processes_meet_over_ipv6(void **state)
{
    int port = free_port(AF_INET6);
    char root[64];

    (void)state;
    if (!port)
        skip();
    snprintf(root, sizeof(root), "[::1]:%d", port);
    meet_at(root);
}

static void a_port_in_use_is_named(void **state)
{
    struct ri_endpoint loopback = { .bytes = sizeof(struct sockaddr_in) };
    struct sockaddr_in *four = (struct sockaddr_in *)&loopback.address;
    struct ri_env env;
    char text[128];
    int fd;

    (void)state;
    four->sin_family = AF_INET;
    four->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    fd = ri_tcp_listen(&loopback);
    assert_true(fd >= 0);
    snprintf(text, sizeof(text), "RONDO_RANK=0 RONDO_SIZE=2 RONDO_ROOT=127.0.0.1:%d", ri_tcp_port(fd));
    set_environment(text);
    assert_int_equal(ri_env_read(0, &env), 0);
    assert_int_equal(ri_env_socket(&env.meeting, ri_now_ns() + 100000000), RONDO_ERR_SYSTEM);
    snprintf(text, sizeof(text), "rank 0 cannot listen at 127.0.0.1:%d", ri_tcp_port(fd));
    assert_non_null(strstr(rondo_last_error(), text));
    close(fd);
    set_environment("");
}

static void an_inherited_socket_is_used(void **state)
{
    struct ri_endpoint loopback = { .bytes = sizeof(struct sockaddr_in) };
    struct sockaddr_in *four = (struct sockaddr_in *)&loopback.address;
    struct ri_env env;
    char text[128];
    int fd;

    (void)state;
    four->sin_family = AF_INET;
    four->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    fd = ri_tcp_listen(&loopback);
    assert_true(fd >= 0);
    snprintf(text, sizeof(text), "RONDO_RANK=0 RONDO_SIZE=2 RONDO_ROOT=127.0.0.1:%d RONDO_ROOT_FD=%d",
             ri_tcp_port(fd), fd);
    set_environment(text);
    assert_int_equal(ri_env_read(0, &env), 0);
    assert_int_equal(ri_env_socket(&env.meeting, ri_now_ns()), fd);
    assert_int_equal(ri_env_socket(&env.meeting, ri_now_ns()), fd); /* and for the next communicator */
    set_environment("");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_environments_are_read),
        cmocka_unit_test(bad_environments_name_variable_and_value),
        cmocka_unit_test(tokens_are_of_job_and_turn),
        cmocka_unit_test(without_a_launcher_there_is_one_rank),
        cmocka_unit_test(processes_meet_twice_by_environment),
        cmocka_unit_test(processes_meet_over_ipv6),
        cmocka_unit_test(a_port_in_use_is_named),
        cmocka_unit_test(an_inherited_socket_is_used),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
