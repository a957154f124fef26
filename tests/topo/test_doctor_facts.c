/* SPDX-License-Identifier: Apache-2.0 */
/* What rondo-topo doctor knows of a machine, by its files, by calls and by recordings. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake.h"
#include "tools/doctor.h"

static void release(struct doctor_facts *facts)
{
    ri_topo_destroy((struct ri_topo *)(uintptr_t)facts->topo);
}

static const struct doctor_finding *finding(const struct doctor_finding all[DOCTOR_CHECKS], const char *check)
{
    for (int i = 0; i < DOCTOR_CHECKS; i++)
        if (strcmp(all[i].check, check) == 0)
            return &all[i];
    fail_msg("no check %s", check);
    return NULL;
}

static const char *const notes[][2] = {
    { "limits/memlock", "65536" },     { "limits/shm", "67108864" }, { "limits/shm_free", "1048576" },
    { "doctor/memfd", "38" },          { "doctor/cma", "1" },        { "doctor/threads", "4" },
    { "doctor/build", "rondo ucx" },   { "doctor/uct", "/opt/lib" },
};

static void assert_facts(struct ri_source *source)
{
    struct doctor_facts facts;

    assert_int_equal(doctor_gather(source, fake_host(2), 3, DOCTOR_FABRIC_YES, &facts), 0);
    assert_int_equal(facts.ranks, 3);
    assert_true(facts.ranks_are_asked && facts.wants_fabric && facts.is_looked_at);
    assert_int_equal(facts.memlock_bytes, 65536);
    assert_int_equal(facts.shm_bytes, 67108864);
    assert_int_equal(facts.shm_free_bytes, 1048576);
    assert_int_equal(facts.memfd_errno, 38);
    assert_int_equal(facts.cma_errno, 1);
    assert_int_equal(facts.threads, 4);
    assert_int_equal(facts.ptrace_scope, 2);
    assert_int_equal(facts.seccomp, 2);
    assert_true(facts.may_lock_all);
    assert_true(facts.cpu_quota == 1.5);
    assert_true(facts.memory_bytes == (int64_t)16 << 20);
    assert_true(facts.memory_limit_bytes == 4 << 20);
    assert_int_equal(facts.has_ucx, 1);
    assert_int_equal(facts.has_hwloc, 0);
    assert_int_equal(facts.has_verbs, 0);
    assert_string_equal(facts.uct, "/opt/lib/ucx");
    assert_true(facts.uct_knows_gpus);
    release(&facts);
}

static void make_proc(const struct fake *fake, const char *map)
{
    fake_file(fake, "Name:\trank\nCapEff:\t000001ffffffffff\nSeccomp:\t2\nThreads:\t1", "/proc/self/status");
    fake_file(fake, map, "/proc/self/uid_map");
    fake_file(fake, "2", "/proc/sys/kernel/yama/ptrace_scope");
    fake_file(fake, "0::/job/step", "/proc/self/cgroup");
    fake_file(fake, "MemTotal:       16384 kB", "/proc/meminfo");
    fake_file(fake, "150000 100000", "/sys/fs/cgroup/job/cpu.max");
    fake_file(fake, "max 100000", "/sys/fs/cgroup/job/step/cpu.max");
    fake_file(fake, "8388608", "/sys/fs/cgroup/job/step/memory.max");
    fake_file(fake, "4194304", "/sys/fs/cgroup/job/memory.max");
    fake_file(fake, "", "/opt/lib/ucx/libuct_cuda.so.0");
}

static void facts_come_from_a_recording_too(void **state)
{
    struct fake fake;
    struct ri_source *source, *again;
    char *recording;

    fake_make(&fake);
    make_proc(&fake, "         0          0 4294967295");
    source = ri_source_open(fake.root);
    doctor_look(source); /* it is not this machine */
    for (size_t i = 0; i < sizeof(notes) / sizeof(*notes); i++)
        ri_source_note(source, notes[i][0], notes[i][1]);
    assert_facts(source);
    recording = ri_source_recording(source);
    fake_remove(&fake);
    assert_int_equal(ri_source_replay(recording, strlen(recording), &again), 0);
    assert_facts(again);
    free(recording);
    ri_source_close(again);
    ri_source_close(source);
}

/* Root of a user namespace locks no more than others do. */
static void half_a_machine_is_no_error(void **state)
{
    struct fake fake;
    struct doctor_facts facts;
    struct doctor_finding all[DOCTOR_CHECKS];
    struct ri_source *source;

    fake_make(&fake);
    make_proc(&fake, "0 1000 1");
    source = ri_source_open(fake.root);
    assert_int_equal(doctor_gather(source, fake_host(0), 0, DOCTOR_FABRIC_AUTO, &facts), 0);
    assert_false(facts.may_lock_all);
    assert_int_equal(facts.shm_free_bytes, DOCTOR_UNKNOWN);
    doctor_judge(&facts, all);
    assert_int_equal(doctor_count(all, DOCTOR_FAIL), 0);
    assert_string_equal(finding(all, "cma")->text, "whether processes may read each other cannot be found out here");
    release(&facts);
    ri_source_note(source, "limits/memlock", "-1");
    assert_int_equal(doctor_gather(source, fake_host(0), 0, DOCTOR_FABRIC_AUTO, &facts), 0);
    assert_int_equal(facts.memlock_bytes, -1);
    assert_int_equal(facts.shm_free_bytes, DOCTOR_MISSING);
    doctor_judge(&facts, all);
    assert_int_equal(finding(all, "shm")->verdict, DOCTOR_WARN);
    release(&facts);
    ri_source_close(source);
    fake_remove(&fake);
}

/* Calls are asked of this machine, whatever they answer here. */
static void this_machine_is_looked_at(void **state)
{
    struct ri_source *source = ri_source_open("");
    struct doctor_facts facts;

    setenv("RONDO_THREADS", "3", 1);
    doctor_look(source);
    assert_int_equal(doctor_gather(source, fake_host(1), 1, DOCTOR_FABRIC_NO, &facts), 0);
    assert_true(facts.cma_errno >= 0);
    assert_true(facts.memfd_errno >= 0);
    assert_true(facts.has_ucx == 0 || facts.has_ucx == 1);
    assert_int_equal(facts.threads, 3);
    assert_true(!facts.uct[0] || strcmp(strrchr(facts.uct, '/'), "/ucx") == 0);
    release(&facts);
    ri_source_close(source);
}

enum { SKIPPED = 77 };

/* From now on these two calls answer EPERM to this process, as in some containers. */
static void refuse_calls(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        _exit(SKIPPED);
}

/* In a process of its own, where nothing may assert; its status tells. */
static int look_where_calls_are_refused(void)
{
    struct doctor_finding all[DOCTOR_CHECKS];
    struct doctor_facts facts;
    struct ri_source *source;
    int good;

    refuse_calls();
    source = ri_source_open("");
    doctor_look(source);
    if (doctor_gather(source, fake_host(1), 1, DOCTOR_FABRIC_NO, &facts))
        return 1;
    doctor_judge(&facts, all);
    good = facts.cma_errno == EPERM && facts.memfd_errno == EPERM && facts.seccomp == SECCOMP_MODE_FILTER &&
           finding(all, "cma")->verdict == DOCTOR_WARN && strstr(finding(all, "cma")->text, "a seccomp filter is set");
    release(&facts);
    ri_source_close(source);
    return !good;
}

static void refused_calls_are_seen(void **state)
{
    int status = -1;
    pid_t child = fork();

    assert_int_not_equal(child, -1);
    if (child == 0) {
        alarm(50);
        _exit(look_where_calls_are_refused());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
        skip();
    assert_int_equal(status, 0);
}

/* Returns whether it could be read at all. */
static int judge_mutant(const char *text, size_t bytes)
{
    struct doctor_finding all[DOCTOR_CHECKS];
    struct doctor_facts facts;
    struct ri_source *source;
    struct ri_topo *topo;

    if (ri_source_replay(text, bytes, &source))
        return 0;
    assert_int_equal(ri_topo_discover(source, &topo), 0);
    assert_int_equal(doctor_gather(source, topo, 4, DOCTOR_FABRIC_YES, &facts), 0);
    doctor_judge(&facts, all);
    for (int i = 0; i < DOCTOR_CHECKS; i++)
        assert_true(all[i].text[0] && all[i].verdict < DOCTOR_VERDICTS);
    release(&facts);
    ri_source_close(source);
    return 1;
}

/* Whatever bytes a recording has, it is refused or judged. */
static void hostile_recordings_are_refused_or_judged(void **state)
{
    struct fake fake;
    struct ri_source *source;
    char *recording, *mutant;
    uint64_t random = 7;
    size_t bytes;
    int judged = 0;

    fake_make(&fake);
    make_proc(&fake, "0 0 4294967295");
    source = ri_source_open(fake.root);
    for (size_t i = 0; i < sizeof(notes) / sizeof(*notes); i++)
        ri_source_note(source, notes[i][0], notes[i][1]);
    assert_facts(source);
    recording = ri_source_recording(source);
    fake_remove(&fake);
    ri_source_close(source);
    bytes = strlen(recording);
    mutant = malloc(bytes + 1);
    for (int round = 0; round < 3000; round++) {
        memcpy(mutant, recording, bytes + 1);
        for (int i = 0; i <= round % 4; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            mutant[(random >> 33) % bytes] = "0189-xe .\n\"a\\\xff"[(random >> 24) % 14];
        }
        judged += judge_mutant(mutant, bytes);
    }
    assert_true(judged > 500 && judged < 3000);
    free(mutant);
    free(recording);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts_come_from_a_recording_too),
        cmocka_unit_test(half_a_machine_is_no_error),
        cmocka_unit_test(hostile_recordings_are_refused_or_judged),
        cmocka_unit_test(refused_calls_are_seen),
        cmocka_unit_test(this_machine_is_looked_at),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
