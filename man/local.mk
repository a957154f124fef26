# The manual.  Alias pages (.so) name every public call; the page that they name tells of the family.
dist_man_MANS += \
	man/man1/rondo-plan.1 \
	man/man1/rondo-run.1 \
	man/man1/rondo-topo.1 \
	man/man1/rondo_attention.1 \
	man/man1/rondo_bw.1 \
	man/man1/rondo_kernel.1 \
	man/man1/rondo_latency.1 \
	man/man1/rondo_overlap.1 \
	man/man1/rondo_ring.1 \
	man/man3/rondo_all_reduce.3 \
	man/man3/rondo_attention_backward.3 \
	man/man3/rondo_attention_forward.3 \
	man/man3/rondo_attention_plan.3 \
	man/man3/rondo_barrier.3 \
	man/man3/rondo_broadcast.3 \
	man/man3/rondo_comm_abort.3 \
	man/man3/rondo_comm_create.3 \
	man/man3/rondo_comm_create_env.3 \
	man/man3/rondo_comm_destroy.3 \
	man/man3/rondo_comm_progress.3 \
	man/man3/rondo_comm_query.3 \
	man/man3/rondo_comm_split.3 \
	man/man3/rondo_comm_subset.3 \
	man/man3/rondo_dropout_keeps.3 \
	man/man3/rondo_kernel.3 \
	man/man3/rondo_kernel_check.3 \
	man/man3/rondo_kernel_find.3 \
	man/man3/rondo_last_error.3 \
	man/man3/rondo_layout_balance.3 \
	man/man3/rondo_layout_create.3 \
	man/man3/rondo_layout_destroy.3 \
	man/man3/rondo_layout_document_positions.3 \
	man/man3/rondo_layout_kind_name.3 \
	man/man3/rondo_layout_kind_parse.3 \
	man/man3/rondo_layout_owner.3 \
	man/man3/rondo_layout_pairs.3 \
	man/man3/rondo_layout_positions.3 \
	man/man3/rondo_layout_shard.3 \
	man/man3/rondo_layout_targets.3 \
	man/man3/rondo_layout_tokens.3 \
	man/man3/rondo_layout_unshard.3 \
	man/man3/rondo_mem_alloc.3 \
	man/man3/rondo_mem_free.3 \
	man/man3/rondo_plan_bind.3 \
	man/man3/rondo_plan_bind_layout.3 \
	man/man3/rondo_plan_describe.3 \
	man/man3/rondo_plan_destroy.3 \
	man/man3/rondo_plan_memory.3 \
	man/man3/rondo_plan_stats.3 \
	man/man3/rondo_saved_create.3 \
	man/man3/rondo_saved_destroy.3 \
	man/man3/rondo_saved_lse.3 \
	man/man3/rondo_saved_o.3 \
	man/man3/rondo_saved_restore.3 \
	man/man3/rondo_strerror.3 \
	man/man3/rondo_tensor_name.3 \
	man/man3/rondo_test.3 \
	man/man3/rondo_topo.3 \
	man/man3/rondo_topo_destroy.3 \
	man/man3/rondo_topo_explain.3 \
	man/man3/rondo_topo_head_groups.3 \
	man/man3/rondo_topo_load.3 \
	man/man3/rondo_topo_of_comm.3 \
	man/man3/rondo_topo_pair.3 \
	man/man3/rondo_topo_place.3 \
	man/man3/rondo_topo_print.3 \
	man/man3/rondo_topo_query.3 \
	man/man3/rondo_topo_query_rank.3 \
	man/man3/rondo_topo_rails.3 \
	man/man3/rondo_topo_ring.3 \
	man/man3/rondo_unique_id_get.3 \
	man/man3/rondo_version.3 \
	man/man3/rondo_wait.3 \
	man/man7/rondo-environment.7 \
	man/man7/rondo-masks.7 \
	man/man7/rondo-schedules.7 \
	man/man7/rondo-transport-self.7 \
	man/man7/rondo-transport-shm.7 \
	man/man7/rondo-transport-ucx.7 \
	man/man7/rondo.7

# The page of a program that is not built is not installed either.
EXTRA_DIST += man/man1/rondo-train.1
if HAVE_CBLAS
man_MANS = man/man1/rondo-train.1
endif
