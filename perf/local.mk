# Names the files of perf.
noinst_LTLIBRARIES += perf/libperf.la
perf_libperf_la_SOURCES = perf/bench.c perf/bench.h perf/measure.c perf/measure.h perf/options.c \
	perf/options.h perf/print.c perf/print.h perf/peer.h
perf_libperf_la_CFLAGS = $(AM_CFLAGS)
perf_libperf_la_LIBADD =
if HAVE_MPI
perf_libperf_la_SOURCES += perf/peer_mpi.c
perf_libperf_la_CFLAGS += $(MPI_CFLAGS)
perf_libperf_la_LIBADD += $(MPI_LIBS)
else
perf_libperf_la_SOURCES += perf/peer_none.c
endif

bin_PROGRAMS += perf/rondo_ring
perf_rondo_ring_SOURCES = perf/rondo_ring.c perf/ring_run.c perf/ring_run.h perf/ring_block.c \
	perf/ring_block.h perf/ring_rewrite.c perf/ring_rewrite.h perf/ring_memory.c perf/pattern.c \
	perf/pattern.h
perf_rondo_ring_LDADD = perf/libperf.la librondo.la

# It measures the transport itself, and so has the core's internal calls.
bin_PROGRAMS += perf/rondo_latency
perf_rondo_latency_SOURCES = perf/rondo_latency.c perf/hand.c perf/hand.h perf/link.c perf/link.h \
	perf/futex.c perf/futex.h perf/pattern.c perf/pattern.h
perf_rondo_latency_LDADD = perf/libperf.la librondo_core.la

bin_PROGRAMS += perf/rondo_overlap
perf_rondo_overlap_SOURCES = perf/rondo_overlap.c perf/overlap_run.c perf/overlap_run.h perf/load.c \
	perf/load.h perf/ring_block.c perf/ring_block.h perf/pattern.c perf/pattern.h
perf_rondo_overlap_LDADD = perf/libperf.la librondo.la

bin_PROGRAMS += perf/rondo_bw
perf_rondo_bw_SOURCES = perf/rondo_bw.c perf/stream.c perf/stream.h perf/link.c perf/link.h \
	perf/pattern.c perf/pattern.h
perf_rondo_bw_LDADD = perf/libperf.la librondo_core.la

# A kernel alone, without ranks.
bin_PROGRAMS += perf/rondo_kernel
perf_rondo_kernel_SOURCES = perf/rondo_kernel.c perf/kernel_call.c perf/kernel_call.h perf/kernel_torch.c \
	perf/kernel_torch.h perf/yardstick.c perf/yardstick.h perf/fma.h perf/crew.c perf/crew.h
perf_rondo_kernel_CFLAGS = $(AM_CFLAGS) $(CBLAS_CFLAGS)
perf_rondo_kernel_LDADD = perf/libperf.la librondo.la $(CBLAS_LIBS)

bin_PROGRAMS += perf/rondo_attention
perf_rondo_attention_SOURCES = perf/rondo_attention.c perf/attention_run.c perf/attention_run.h perf/share.c \
	perf/share.h perf/kernel_call.c perf/kernel_call.h
perf_rondo_attention_LDADD = perf/libperf.la librondo.la

bin_PROGRAMS += perf/rondo_two_level
perf_rondo_two_level_SOURCES = perf/rondo_two_level.c perf/two_level_run.c perf/two_level_run.h \
	perf/two_level_check.c perf/kernel_call.c perf/kernel_call.h
perf_rondo_two_level_LDADD = perf/libperf.la librondo.la
