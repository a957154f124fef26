/* SPDX-License-Identifier: Apache-2.0 */
/* Each check of rondo-topo doctor is seen to be content, and not to be. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fake.h"
#include "machines.h"
#include "tools/doctor.h"

/* ---- asking ---- */

/* Facts of a host on which all is well: 2 NUMA nodes, each with 2 GPUs and a NIC behind a switch. */
static struct doctor_facts healthy(void)
{
    struct ri_topo *topo = machine_add(NULL, 2, 1, 2, 1, NULL);
    struct doctor_facts facts;

    for (int32_t i = 0; i < topo->object_count; i++) {
        struct ri_topo_object *it = &topo->objects[i];

        if (it->kind == RI_TOPO_GPU)
            snprintf(it->id, sizeof(it->id), "GPU-%d", (int)i);
        if (it->kind == RI_TOPO_NIC) {
            it->nic.lid = 7;
            it->nic.mtu = 4092;
            it->link_gbps = 31.5;
        }
    }
    assert_int_equal(doctor_gather(NULL, topo, 4, DOCTOR_FABRIC_AUTO, &facts), 0);
    facts.is_looked_at = 1;
    facts.memlock_bytes = -1;
    facts.shm_bytes = facts.shm_free_bytes = (int64_t)1 << 34;
    facts.memfd_errno = facts.cma_errno = 0;
    facts.ptrace_scope = facts.seccomp = 0;
    facts.cpus = 64;
    facts.memory_bytes = (int64_t)1 << 38;
    facts.has_ucx = facts.has_hwloc = facts.has_verbs = 1;
    facts.uct_knows_gpus = 1;
    snprintf(facts.uct, sizeof(facts.uct), "/usr/lib/ucx");
    return facts;
}

/* The tree of facts, to spoil it. */
static struct ri_topo *tree(const struct doctor_facts *facts)
{
    return (struct ri_topo *)(uintptr_t)facts->topo;
}

static struct ri_topo_object *named(const struct doctor_facts *facts, const char *name)
{
    return &tree(facts)->objects[fake_object(facts->topo, name) - facts->topo->objects];
}

static struct doctor_finding ask(const struct doctor_facts *facts, const char *check)
{
    struct doctor_finding all[DOCTOR_CHECKS];

    doctor_judge(facts, all);
    for (int i = 0; i < DOCTOR_CHECKS; i++)
        if (strcmp(all[i].check, check) == 0)
            return all[i];
    fail_msg("no check %s", check);
    return all[0];
}

/* A check says this, with words of its remedy; "" remedy: none. */
static void expect(const struct doctor_facts *facts, const char *check, enum doctor_verdict verdict, const char *words,
                   const char *remedy)
{
    struct doctor_finding found = ask(facts, check);

    if (found.verdict != verdict || !strstr(found.text, words) || !strstr(found.remedy, remedy) ||
        (!*remedy && *found.remedy))
        fail_msg("%s: %s '%s', to do '%s'; expected %s '%s', '%s'", check, doctor_verdict_names[found.verdict],
                 found.text, found.remedy, doctor_verdict_names[verdict], words, remedy);
}

static void release(struct doctor_facts *facts)
{
    ri_topo_destroy(tree(facts));
}

/* ---- all is well ---- */

static void a_healthy_host_passes_everything(void **state)
{
    struct doctor_facts facts = healthy();
    struct doctor_finding all[DOCTOR_CHECKS];

    doctor_judge(&facts, all);
    for (int i = 0; i < DOCTOR_CHECKS; i++) {
        if (all[i].verdict > DOCTOR_SKIP || all[i].remedy[0] || !all[i].text[0])
            fail_msg("%s: %s '%s'", all[i].check, doctor_verdict_names[all[i].verdict], all[i].text);
        if (all[i].verdict == DOCTOR_SKIP) /* this one has InfiniBand */
            assert_string_equal(all[i].check, "gid");
    }
    assert_int_equal(doctor_count(all, DOCTOR_PASS), DOCTOR_CHECKS - 1);
    release(&facts);
}

/* Of a tree in words, nothing fails, and what is not known is not judged. */
static void a_description_is_judged_by_its_tree(void **state)
{
    struct doctor_finding all[DOCTOR_CHECKS];
    struct doctor_facts facts;
    struct ri_topo *topo;

    assert_int_equal(ri_topo_from_text("host:2 numa:2 gpu:4 nic:4 nvlink:300 pcie:25 net:12.5", &topo), 0);
    assert_int_equal(doctor_gather(NULL, topo, 0, DOCTOR_FABRIC_AUTO, &facts), 0);
    assert_false(facts.ranks_are_asked);
    doctor_judge(&facts, all);
    assert_int_equal(doctor_count(all, DOCTOR_FAIL), 0);
    expect(&facts, "memlock", DOCTOR_SKIP, "a description says nothing", "");
    expect(&facts, "shm", DOCTOR_SKIP, "a description says nothing", "");
    expect(&facts, "cma", DOCTOR_SKIP, "a description says nothing", "");
    expect(&facts, "ucx", DOCTOR_SKIP, "a description says nothing", "");
    expect(&facts, "libraries", DOCTOR_SKIP, "a description says nothing", "");
    expect(&facts, "gpus", DOCTOR_SKIP, "a description says nothing", "");
    release(&facts);
}

/* What few words do not say is not taken for good. */
static void what_is_not_described_does_not_pass(void **state)
{
    struct doctor_facts facts;
    struct ri_topo *topo;

    assert_int_equal(ri_topo_from_text("host:2 gpu:8 nic:2 net:25", &topo), 0);
    assert_int_equal(doctor_gather(NULL, topo, 0, DOCTOR_FABRIC_AUTO, &facts), 0);
    expect(&facts, "fabric", DOCTOR_SKIP, "a description says nothing of what the NICs speak", "");
    expect(&facts, "distance", DOCTOR_SKIP, "nothing tells at which NUMA node", "");
    expect(&facts, "numa", DOCTOR_SKIP, "nothing tells which NUMA nodes", "");
    release(&facts);
    assert_int_equal(ri_topo_from_text("host:2 numa:1 gpu:8 nic:2 layer:ethernet", &topo), 0);
    assert_int_equal(doctor_gather(NULL, topo, 0, DOCTOR_FABRIC_AUTO, &facts), 0);
    expect(&facts, "fabric", DOCTOR_PASS, "hosts talk over TCP", "");
    expect(&facts, "distance", DOCTOR_PASS, "16 ranks", "");
    expect(&facts, "numa", DOCTOR_PASS, "one node", "");
    release(&facts);
}

/* ---- the host ---- */

/* Locked memory of 64 KiB: trouble with a fabric, none without (openucx/ucx#8229, #8746). */
static void a_low_limit_of_locked_memory(void **state)
{
    struct doctor_facts facts = healthy();

    facts.memlock_bytes = 65536;
    expect(&facts, "memlock", DOCTOR_FAIL, "locked memory (ulimit -l) is 64 KiB", "limits.conf");
    expect(&facts, "memlock", DOCTOR_FAIL, "64 KiB", "--ulimit memlock=-1");
    facts.may_lock_all = 1;
    expect(&facts, "memlock", DOCTOR_WARN, "CAP_IPC_LOCK", "unlimited");
    facts.may_lock_all = 0;
    facts.wants_fabric = 0;
    facts.fabric = DOCTOR_FABRIC_NO;
    expect(&facts, "memlock", DOCTOR_PASS, "no fabric is asked for", "");
    facts.memlock_bytes = DOCTOR_UNKNOWN;
    expect(&facts, "memlock", DOCTOR_SKIP, "cannot be found out", "");
    release(&facts);
}

/* A mount of 16 MiB for 4 ranks (NVIDIA/nccl#290, #342, #983). */
static void a_small_mount_of_shared_memory(void **state)
{
    struct doctor_facts facts = healthy();

    facts.shm_bytes = facts.shm_free_bytes = 16 << 20;
    expect(&facts, "shm", DOCTOR_WARN, "16 MiB of 16 MiB free in /dev/shm, 4 ranks may need 32 MiB", "--shm-size");
    facts.shm_bytes = 64 << 20;
    facts.shm_free_bytes = 32 << 20;
    expect(&facts, "shm", DOCTOR_PASS, "32 MiB free", "");
    facts.memfd_errno = ENOSYS;
    expect(&facts, "shm", DOCTOR_FAIL, "32 MiB of 64 MiB free in /dev/shm", "--shm-size");
    facts.shm_free_bytes = 256 << 20;
    expect(&facts, "shm", DOCTOR_PASS, "256 MiB free", "");
    facts.shm_bytes = facts.shm_free_bytes = DOCTOR_MISSING;
    expect(&facts, "shm", DOCTOR_FAIL, "neither memfd_create", "--shm-size");
    facts.memfd_errno = 0;
    expect(&facts, "shm", DOCTOR_WARN, "/dev/shm is not there", "--shm-size");
    facts.shm_free_bytes = DOCTOR_UNKNOWN;
    expect(&facts, "shm", DOCTOR_SKIP, "cannot be found out", "");
    release(&facts);
}

static void memory_of_others_may_not_be_read(void **state)
{
    struct doctor_facts facts = healthy();

    facts.cma_errno = EPERM;
    facts.ptrace_scope = 1;
    expect(&facts, "cma", DOCTOR_WARN, "ptrace_scope is 1", "kernel.yama.ptrace_scope=0");
    facts.ptrace_scope = DOCTOR_UNKNOWN;
    facts.seccomp = 2;
    expect(&facts, "cma", DOCTOR_WARN, "a seccomp filter is set", "--cap-add=SYS_PTRACE");
    facts.cma_errno = DOCTOR_UNKNOWN;
    expect(&facts, "cma", DOCTOR_SKIP, "cannot be found out", "");
    release(&facts);
}

/* More ranks or threads than the processors that a container has (open-mpi/ompi PR 7160). */
static void more_than_the_processors_that_may_be_used(void **state)
{
    struct doctor_facts facts = healthy();

    facts.cpus = 2;
    expect(&facts, "cores", DOCTOR_WARN, "4 ranks on 2 processors that may be used", "cpuset");
    facts.cpus = 8;
    facts.threads = 4;
    expect(&facts, "cores", DOCTOR_WARN, "4 ranks of 4 threads on 8 processors", "RONDO_THREADS to 2");
    facts.threads = 2;
    expect(&facts, "cores", DOCTOR_PASS, "8 processors may be used, 4 ranks of 2 threads", "");
    facts.cpu_quota = 3.5;
    expect(&facts, "cores", DOCTOR_WARN, "4 ranks on 3.5 processors", "cpu.max");
    facts.cpus = 0;
    facts.cpu_quota = 0;
    expect(&facts, "cores", DOCTOR_SKIP, "cannot be found out", "");
    release(&facts);
}

static void a_small_limit_of_memory(void **state)
{
    struct doctor_facts facts = healthy();

    facts.memory_limit_bytes = (int64_t)2 << 30;
    expect(&facts, "memory", DOCTOR_WARN, "2 GiB may be used (limit of the cgroup)", "memory.max");
    facts.memory_limit_bytes = (int64_t)4 << 30;
    expect(&facts, "memory", DOCTOR_PASS, "4 GiB may be used", "");
    facts.memory_limit_bytes = INT64_MAX;
    expect(&facts, "memory", DOCTOR_PASS, "256 GiB may be used", "");
    facts.memory_limit_bytes = facts.memory_bytes = 0;
    expect(&facts, "memory", DOCTOR_SKIP, "cannot be found out", "");
    release(&facts);
}

static void what_is_not_built_in(void **state)
{
    struct doctor_facts facts = healthy();

    facts.has_ucx = 0;
    expect(&facts, "ucx", DOCTOR_WARN, "without UCX", "--with-ucx");
    facts.fabric = DOCTOR_FABRIC_YES;
    expect(&facts, "ucx", DOCTOR_FAIL, "without UCX", "--with-ucx");
    facts.uct_knows_gpus = 0;
    expect(&facts, "ucx-gpus", DOCTOR_WARN, "4 GPUs, but /usr/lib/ucx has neither", "--with-cuda");
    facts.uct[0] = 0;
    expect(&facts, "ucx-gpus", DOCTOR_SKIP, "cannot be found out", "");
    facts.has_hwloc = 0;
    expect(&facts, "libraries", DOCTOR_WARN, "without hwloc", "libhwloc-dev");
    facts.has_hwloc = 1;
    facts.has_verbs = 0;
    expect(&facts, "libraries", DOCTOR_WARN, "without libibverbs", "libibverbs-dev");
    named(&facts, "mlx5_0")->nic.port = named(&facts, "mlx5_1")->nic.port = 0;
    expect(&facts, "libraries", DOCTOR_PASS, "hwloc is built in", "");
    release(&facts);
}

static void notices_are_warnings(void **state)
{
    struct doctor_facts facts = healthy();

    ri_topo_notice(tree(&facts), "this process may use 2 of 64 processors (affinity mask or cpuset)");
    expect(&facts, "notices", DOCTOR_PASS, "could be found out", "");
    for (int i = 0; i < 5; i++)
        ri_topo_notice(tree(&facts), "file %d cannot be read", i);
    expect(&facts, "notices", DOCTOR_WARN, "file 0 cannot be read; file 1 cannot be read; file 2 cannot be read; and "
           "2 more", "");
    release(&facts);
}

/* ---- devices ---- */

static void spoil(struct doctor_facts *facts, const char *name, enum ri_topo_state port_state, const char *why)
{
    struct ri_topo_object *nic = named(facts, name);

    nic->nic.state = port_state;
    snprintf(nic->nic.unusable, sizeof(nic->nic.unusable), "%s", why);
}

static void ports_that_cannot_be_used(void **state)
{
    struct doctor_facts facts = healthy();

    spoil(&facts, "mlx5_1", RI_TOPO_DOWN, "port is down");
    expect(&facts, "ports", DOCTOR_WARN, "mlx5_1: port is down", "cable");
    expect(&facts, "fabric", DOCTOR_PASS, "1 of 2 RDMA ports", "");
    spoil(&facts, "mlx5_1", RI_TOPO_INIT, "port is in state INIT");
    expect(&facts, "ports", DOCTOR_WARN, "mlx5_1: port is in state INIT", "subnet manager");
    spoil(&facts, "mlx5_1", RI_TOPO_ARMED, "port is in state ARMED");
    expect(&facts, "ports", DOCTOR_WARN, "ARMED", "subnet manager");
    spoil(&facts, "mlx5_1", RI_TOPO_ACTIVE, "cannot be opened");
    expect(&facts, "ports", DOCTOR_WARN, "cannot be opened", "--device=/dev/infiniband");
    spoil(&facts, "mlx5_0", RI_TOPO_DOWN, "port is down");
    expect(&facts, "ports", DOCTOR_WARN, "mlx5_0: port is down; mlx5_1: cannot be opened", "cable");
    expect(&facts, "fabric", DOCTOR_WARN, "none of 2 RDMA ports", "ports below");
    facts.fabric = DOCTOR_FABRIC_YES;
    expect(&facts, "fabric", DOCTOR_FAIL, "none of 2 RDMA ports", "ports below");
    facts.fabric = DOCTOR_FABRIC_NO;
    expect(&facts, "fabric", DOCTOR_PASS, "no fabric is asked for", "");
    expect(&facts, "ports", DOCTOR_SKIP, "no fabric is asked for", "");
    release(&facts);
}

static void no_rdma_adapter_at_all(void **state)
{
    struct doctor_facts facts = healthy();

    named(&facts, "mlx5_0")->nic.port = named(&facts, "mlx5_1")->nic.port = 0;
    expect(&facts, "fabric", DOCTOR_PASS, "TCP", "");
    expect(&facts, "ports", DOCTOR_SKIP, "no RDMA port", "");
    facts.fabric = DOCTOR_FABRIC_YES;
    expect(&facts, "fabric", DOCTOR_FAIL, "no RDMA adapter", "modprobe");
    release(&facts);
}

static void make_roce(struct doctor_facts *facts, const char *name, int gid_index, int mtu)
{
    struct ri_topo_nic *nic = &named(facts, name)->nic;

    nic->layer = RI_TOPO_ETHERNET;
    nic->gid_index = gid_index;
    nic->mtu = mtu;
    snprintf(nic->subnet, sizeof(nic->subnet), "10.1.0.0/16");
}

static void roce_without_an_address(void **state)
{
    struct doctor_facts facts = healthy();

    make_roce(&facts, "mlx5_0", 3, 9000);
    make_roce(&facts, "mlx5_1", 3, 9000);
    expect(&facts, "gid", DOCTOR_PASS, "2 RoCE ports", "");
    make_roce(&facts, "mlx5_1", -1, 9000);
    expect(&facts, "gid", DOCTOR_WARN, "mlx5_1 has no GID", "ip address add");
    release(&facts);
}

static void mtus_that_do_not_match(void **state)
{
    struct doctor_facts facts = healthy();

    make_roce(&facts, "mlx5_0", 3, 9000);
    make_roce(&facts, "mlx5_1", 3, 9000);
    expect(&facts, "mtu", DOCTOR_PASS, "2 ports", "");
    make_roce(&facts, "mlx5_1", 3, 4200);
    expect(&facts, "mtu", DOCTOR_WARN, "mlx5_1 has 4200, mlx5_0 on 10.1.0.0/16 has 9000", "mtu 9000");
    make_roce(&facts, "mlx5_0", 3, 1500);
    make_roce(&facts, "mlx5_1", 3, 1500);
    expect(&facts, "mtu", DOCTOR_WARN, "mlx5_0 has 1500: RoCE sends small packets", "mtu 9000");
    named(&facts, "mlx5_0")->nic.mtu = named(&facts, "mlx5_1")->nic.mtu = 0;
    expect(&facts, "mtu", DOCTOR_SKIP, "no port in use", "");
    release(&facts);
}

static void a_node_of_the_same_socket_is_not_far(void **state)
{
    struct doctor_facts facts;
    struct ri_topo *topo;

    (void)state;
    assert_int_equal(ri_topo_from_text("host:1 package:1 numa:4 gpu:4 nic:1 layer:infiniband", &topo), 0);
    assert_int_equal(doctor_gather(NULL, topo, 0, DOCTOR_FABRIC_AUTO, &facts), 0);
    expect(&facts, "distance", DOCTOR_PASS, "4 ranks", "");
    release(&facts);
}

static void a_nic_on_the_far_socket(void **state)
{
    struct doctor_facts facts = healthy();

    expect(&facts, "distance", DOCTOR_PASS, "4 ranks", "");
    spoil(&facts, "mlx5_1", RI_TOPO_DOWN, "port is down");
    ri_topo_assign_nics(tree(&facts));
    expect(&facts, "distance", DOCTOR_WARN, "rank 2 at gpu 2 has no NIC nearer than mlx5_0", "rondo-topo --explain");
    assert_int_equal(ask(&facts, "distance").items, 2);
    spoil(&facts, "mlx5_0", RI_TOPO_DOWN, "port is down");
    ri_topo_assign_nics(tree(&facts));
    expect(&facts, "distance", DOCTOR_SKIP, "no rank has a NIC", "");
    release(&facts);
}

static void links_that_are_slow(void **state)
{
    struct doctor_facts facts = healthy();

    named(&facts, "mlx5_0")->full_gbps = 63;
    expect(&facts, "pci", DOCTOR_WARN, "mlx5_0 runs at 31.5 of 63 GB/s", "LnkSta");
    named(&facts, "mlx5_0")->full_gbps = 0;
    named(&facts, "mlx5_0")->nic.gbps = 50;
    expect(&facts, "pci", DOCTOR_WARN, "mlx5_0 has a port of 50 GB/s behind a link of 31.5", "LnkSta");
    named(&facts, "mlx5_0")->nic.gbps = 25;
    named(&facts, "gpu 1")->link_gbps = 6;
    named(&facts, "gpu 1")->full_gbps = 24;
    expect(&facts, "pci", DOCTOR_WARN, "gpu 1 runs at 6 of 24 GB/s", "under load");
    for (int32_t i = 0; i < facts.topo->object_count; i++)
        tree(&facts)->objects[i].link_gbps = 0;
    expect(&facts, "pci", DOCTOR_SKIP, "no PCI link", "");
    release(&facts);
}

static void devices_without_a_place(void **state)
{
    struct doctor_facts facts = healthy();
    int32_t lost = machine_nic(tree(&facts), 0);

    assert_true(lost > 0);
    expect(&facts, "numa", DOCTOR_WARN, "mlx5_2: nobody knows at which NUMA node", "virtual machine");
    release(&facts);
    facts = (struct doctor_facts){ .topo = machine_add(NULL, 1, 1, 1, 1, NULL) };
    machine_nic(tree(&facts), 0);
    expect(&facts, "numa", DOCTOR_PASS, "one node", "");
    release(&facts);
}

static void gpus_that_no_driver_knows(void **state)
{
    struct doctor_facts facts = healthy();

    expect(&facts, "gpus", DOCTOR_PASS, "4 GPUs known", "");
    named(&facts, "gpu 3")->id[0] = 0;
    expect(&facts, "gpus", DOCTOR_WARN, "nothing of 1 of 4 GPUs", "NVML");
    ri_topo_notice(tree(&facts), DOCTOR_LOST_LINKS ": no library");
    expect(&facts, "gpus", DOCTOR_WARN, "unknown: no library; the driver", "NVML");
    expect(&facts, "notices", DOCTOR_PASS, "could be found out", "");
    release(&facts);
    facts = (struct doctor_facts){ .topo = machine_add(NULL, 1, 1, 0, 1, NULL), .is_looked_at = 1 };
    expect(&facts, "gpus", DOCTOR_SKIP, "no GPUs", "");
    expect(&facts, "ucx-gpus", DOCTOR_SKIP, "no GPUs", "");
    release(&facts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_healthy_host_passes_everything),
        cmocka_unit_test(a_description_is_judged_by_its_tree),
        cmocka_unit_test(what_is_not_described_does_not_pass),
        cmocka_unit_test(a_low_limit_of_locked_memory),
        cmocka_unit_test(a_small_mount_of_shared_memory),
        cmocka_unit_test(memory_of_others_may_not_be_read),
        cmocka_unit_test(more_than_the_processors_that_may_be_used),
        cmocka_unit_test(a_small_limit_of_memory),
        cmocka_unit_test(what_is_not_built_in),
        cmocka_unit_test(notices_are_warnings),
        cmocka_unit_test(ports_that_cannot_be_used),
        cmocka_unit_test(no_rdma_adapter_at_all),
        cmocka_unit_test(roce_without_an_address),
        cmocka_unit_test(mtus_that_do_not_match),
        cmocka_unit_test(a_node_of_the_same_socket_is_not_far),
        cmocka_unit_test(a_nic_on_the_far_socket),
        cmocka_unit_test(links_that_are_slow),
        cmocka_unit_test(devices_without_a_place),
        cmocka_unit_test(gpus_that_no_driver_knows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
