# Names the files of tests/topo.
if HAVE_CMOCKA
check_PROGRAMS += tests/topo/test_cost
tests_topo_test_cost_SOURCES = tests/topo/test_cost.c tests/topo/machines.c tests/topo/machines.h
tests_topo_test_cost_CFLAGS = $(test_cflags)
tests_topo_test_cost_LDADD = $(test_ldadd)
check_PROGRAMS += tests/topo/test_order
tests_topo_test_order_SOURCES = tests/topo/test_order.c tests/topo/machines.c tests/topo/machines.h
tests_topo_test_order_CFLAGS = $(test_cflags)
tests_topo_test_order_LDADD = $(test_ldadd)
check_PROGRAMS += tests/topo/test_place
tests_topo_test_place_SOURCES = tests/topo/test_place.c tests/topo/machines.c tests/topo/machines.h
tests_topo_test_place_CFLAGS = $(test_cflags)
tests_topo_test_place_LDADD = $(test_ldadd)
check_PROGRAMS += tests/topo/test_puzzle
tests_topo_test_puzzle_SOURCES = tests/topo/test_puzzle.c tests/topo/machines.c tests/topo/machines.h
tests_topo_test_puzzle_CFLAGS = $(test_cflags)
tests_topo_test_puzzle_LDADD = $(test_ldadd)
check_PROGRAMS += tests/topo/test_source
tests_topo_test_source_SOURCES = tests/topo/test_source.c
tests_topo_test_source_CFLAGS = $(test_cflags)
tests_topo_test_source_LDADD = $(test_ldadd)
check_PROGRAMS += tests/topo/test_pack
tests_topo_test_pack_SOURCES = tests/topo/test_pack.c
tests_topo_test_pack_CFLAGS = $(test_cflags)
tests_topo_test_pack_LDADD = $(test_ldadd)
check_PROGRAMS += tests/topo/test_text
tests_topo_test_text_SOURCES = tests/topo/test_text.c
tests_topo_test_text_CFLAGS = $(test_cflags)
tests_topo_test_text_LDADD = $(test_ldadd)
check_PROGRAMS += tests/topo/test_tree
tests_topo_test_tree_SOURCES = tests/topo/test_tree.c
tests_topo_test_tree_CFLAGS = $(test_cflags)
tests_topo_test_tree_LDADD = $(test_ldadd)
endif
