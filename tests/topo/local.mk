# Names the files of tests/topo.
if HAVE_CMOCKA
check_PROGRAMS += tests/topo/test_cost
tests_topo_test_cost_SOURCES = tests/topo/test_cost.c tests/topo/machines.c tests/topo/machines.h
tests_topo_test_cost_CFLAGS = $(test_cflags)
tests_topo_test_cost_LDADD = $(test_ldadd)
check_PROGRAMS += tests/topo/test_doctor
tests_topo_test_doctor_SOURCES = tests/topo/test_doctor.c tests/topo/fake.c tests/topo/fake.h \
	tests/topo/machines.c tests/topo/machines.h tools/doctor.c tools/doctor.h tools/doctor_devices.c \
	tools/doctor_facts.c tools/doctor_host.c tools/doctor_look.c
tests_topo_test_doctor_CFLAGS = $(test_cflags)
tests_topo_test_doctor_LDADD = $(test_ldadd)
check_PROGRAMS += tests/topo/test_doctor_facts
tests_topo_test_doctor_facts_SOURCES = tests/topo/test_doctor_facts.c tests/topo/fake.c tests/topo/fake.h \
	tools/doctor.c tools/doctor.h tools/doctor_devices.c tools/doctor_facts.c tools/doctor_host.c \
	tools/doctor_look.c
tests_topo_test_doctor_facts_CFLAGS = $(test_cflags)
tests_topo_test_doctor_facts_LDADD = $(test_ldadd)
check_PROGRAMS += tests/topo/test_explain
tests_topo_test_explain_SOURCES = tests/topo/test_explain.c tests/topo/machines.c tests/topo/machines.h
tests_topo_test_explain_CFLAGS = $(test_cflags)
tests_topo_test_explain_LDADD = $(test_ldadd)
check_PROGRAMS += tests/topo/test_gid
tests_topo_test_gid_SOURCES = tests/topo/test_gid.c
tests_topo_test_gid_CFLAGS = $(test_cflags)
tests_topo_test_gid_LDADD = $(test_ldadd)
check_PROGRAMS += tests/topo/test_gpu
tests_topo_test_gpu_SOURCES = tests/topo/test_gpu.c tests/topo/fake.c tests/topo/fake.h
tests_topo_test_gpu_CFLAGS = $(test_cflags)
tests_topo_test_gpu_LDADD = $(test_ldadd)
check_PROGRAMS += tests/topo/test_hwloc
tests_topo_test_hwloc_SOURCES = tests/topo/test_hwloc.c
tests_topo_test_hwloc_CFLAGS = $(test_cflags)
tests_topo_test_hwloc_LDADD = $(test_ldadd)
check_PROGRAMS += tests/topo/test_input
tests_topo_test_input_SOURCES = tests/topo/test_input.c tests/topo/fake.c tests/topo/fake.h
tests_topo_test_input_CFLAGS = $(test_cflags)
tests_topo_test_input_LDADD = $(test_ldadd)
check_PROGRAMS += tests/topo/test_live
tests_topo_test_live_SOURCES = tests/topo/test_live.c tests/topo/fake.c tests/topo/fake.h
tests_topo_test_live_CFLAGS = $(test_cflags)
tests_topo_test_live_LDADD = $(test_ldadd)
check_PROGRAMS += tests/topo/test_machines
tests_topo_test_machines_SOURCES = tests/topo/test_machines.c
tests_topo_test_machines_CFLAGS = $(test_cflags)
tests_topo_test_machines_LDADD = $(test_ldadd)
check_PROGRAMS += tests/topo/test_nccl
tests_topo_test_nccl_SOURCES = tests/topo/test_nccl.c
tests_topo_test_nccl_CFLAGS = $(test_cflags)
tests_topo_test_nccl_LDADD = $(test_ldadd)
check_PROGRAMS += tests/topo/test_nic
tests_topo_test_nic_SOURCES = tests/topo/test_nic.c tests/topo/fake.c tests/topo/fake.h tests/topo/fake_nics.c \
	tests/topo/fake_nics.h
tests_topo_test_nic_CFLAGS = $(test_cflags)
tests_topo_test_nic_LDADD = $(test_ldadd)
check_PROGRAMS += tests/topo/test_nic_odd
tests_topo_test_nic_odd_SOURCES = tests/topo/test_nic_odd.c tests/topo/fake.c tests/topo/fake.h \
	tests/topo/fake_nics.c tests/topo/fake_nics.h
tests_topo_test_nic_odd_CFLAGS = $(test_cflags)
tests_topo_test_nic_odd_LDADD = $(test_ldadd)
check_PROGRAMS += tests/topo/test_nic_rails
tests_topo_test_nic_rails_SOURCES = tests/topo/test_nic_rails.c tests/topo/fake.c tests/topo/fake.h
tests_topo_test_nic_rails_CFLAGS = $(test_cflags)
tests_topo_test_nic_rails_LDADD = $(test_ldadd)
check_PROGRAMS += tests/topo/test_no_memory
tests_topo_test_no_memory_SOURCES = tests/topo/test_no_memory.c
tests_topo_test_no_memory_CFLAGS = $(test_cflags)
tests_topo_test_no_memory_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup
tests_topo_test_no_memory_LDADD = $(test_ldadd)
check_PROGRAMS += tests/topo/test_order
tests_topo_test_order_SOURCES = tests/topo/test_order.c tests/topo/machines.c tests/topo/machines.h
tests_topo_test_order_CFLAGS = $(test_cflags)
tests_topo_test_order_LDADD = $(test_ldadd)
check_PROGRAMS += tests/topo/test_orders_golden
tests_topo_test_orders_golden_SOURCES = tests/topo/test_orders_golden.c
tests_topo_test_orders_golden_CFLAGS = $(test_cflags)
tests_topo_test_orders_golden_LDADD = $(test_ldadd)
check_PROGRAMS += tests/topo/test_pack
tests_topo_test_pack_SOURCES = tests/topo/test_pack.c
tests_topo_test_pack_CFLAGS = $(test_cflags)
tests_topo_test_pack_LDADD = $(test_ldadd)
check_PROGRAMS += tests/topo/test_page
tests_topo_test_page_SOURCES = tests/topo/test_page.c tests/page.c tests/page.h
tests_topo_test_page_CFLAGS = $(test_cflags)
tests_topo_test_page_LDADD = $(test_ldadd)
check_PROGRAMS += tests/topo/test_place
tests_topo_test_place_SOURCES = tests/topo/test_place.c tests/topo/machines.c tests/topo/machines.h
tests_topo_test_place_CFLAGS = $(test_cflags)
tests_topo_test_place_LDADD = $(test_ldadd)
check_PROGRAMS += tests/topo/test_puzzle
tests_topo_test_puzzle_SOURCES = tests/topo/test_puzzle.c tests/topo/machines.c tests/topo/machines.h
tests_topo_test_puzzle_CFLAGS = $(test_cflags)
tests_topo_test_puzzle_LDADD = $(test_ldadd)
check_PROGRAMS += tests/topo/test_reach
tests_topo_test_reach_SOURCES = tests/topo/test_reach.c
tests_topo_test_reach_CFLAGS = $(test_cflags)
tests_topo_test_reach_LDADD = $(test_ldadd)

check_PROGRAMS += tests/topo/test_source
tests_topo_test_source_SOURCES = tests/topo/test_source.c
tests_topo_test_source_CFLAGS = $(test_cflags)
tests_topo_test_source_LDADD = $(test_ldadd)
check_PROGRAMS += tests/topo/test_sysfs_fuzz
tests_topo_test_sysfs_fuzz_SOURCES = tests/topo/test_sysfs_fuzz.c tests/topo/fake.c tests/topo/fake.h
tests_topo_test_sysfs_fuzz_CFLAGS = $(test_cflags)
tests_topo_test_sysfs_fuzz_LDADD = $(test_ldadd)
check_PROGRAMS += tests/topo/test_text
tests_topo_test_text_SOURCES = tests/topo/test_text.c
tests_topo_test_text_CFLAGS = $(test_cflags)
tests_topo_test_text_LDADD = $(test_ldadd)
check_PROGRAMS += tests/topo/test_tree
tests_topo_test_tree_SOURCES = tests/topo/test_tree.c
tests_topo_test_tree_CFLAGS = $(test_cflags)
tests_topo_test_tree_LDADD = $(test_ldadd)
check_PROGRAMS += tests/topo/test_verbs
tests_topo_test_verbs_SOURCES = tests/topo/test_verbs.c tests/topo/fake.c tests/topo/fake.h
tests_topo_test_verbs_CFLAGS = $(test_cflags)
tests_topo_test_verbs_LDADD = $(test_ldadd)
endif
# Cases of test_orders_golden.
EXTRA_DIST += \
	tests/topo/2x2_nic_each.case tests/topo/2x2_nic_each.out \
	tests/topo/2x2_nic_shared.case tests/topo/2x2_nic_shared.out \
	tests/topo/2x4_nic_each.case tests/topo/2x4_nic_each.out \
	tests/topo/2x4_nic_shared.case tests/topo/2x4_nic_shared.out \
	tests/topo/3_2.case tests/topo/3_2.out \
	tests/topo/4_2_1.case tests/topo/4_2_1.out \
	tests/topo/a800x8_4hca.case tests/topo/a800x8_4hca.out \
	tests/topo/cpu_2_sockets.case tests/topo/cpu_2_sockets.out \
	tests/topo/cube_mesh.case tests/topo/cube_mesh.out \
	tests/topo/gpu16_pcie.case tests/topo/gpu16_pcie.out \
	tests/topo/l20x8_pcie.case tests/topo/l20x8_pcie.out \
	tests/topo/mixed_nics.case tests/topo/mixed_nics.out \
	tests/topo/nvlink8.case tests/topo/nvlink8.out \
	tests/topo/one_per_host.case tests/topo/one_per_host.out \
	tests/topo/round_robin.case tests/topo/round_robin.out
dist_check_SCRIPTS += tests/topo/doctor.sh
dist_check_SCRIPTS += tests/topo/rondo_topo.sh
EXTRA_DIST += tests/topo/replay.sh
EXTRA_DIST += tests/topo/screens/a800x8-4hca.out
EXTRA_DIST += tests/topo/screens/cpu-2s.out
EXTRA_DIST += tests/topo/screens/dgx-a100.out
EXTRA_DIST += tests/topo/screens/dgx-h100.out
EXTRA_DIST += tests/topo/screens/gh200.out
EXTRA_DIST += tests/topo/screens/l20x8-pcie.out
dist_check_SCRIPTS += tests/topo/measure.sh
EXTRA_DIST += tests/topo/screens/screen.out
EXTRA_DIST += tests/topo/screens/tree.out

# What test_machines expects of the machines that are installed.
EXTRA_DIST += \
	tests/topo/machines/a800x8-4hca.out \
	tests/topo/machines/cpu-2s.out \
	tests/topo/machines/dgx-a100.out \
	tests/topo/machines/dgx-h100.out \
	tests/topo/machines/gh200.out \
	tests/topo/machines/l20x8-pcie.out
