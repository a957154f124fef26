# Names the files of perf.
bin_PROGRAMS += perf/rondo_ring
perf_rondo_ring_SOURCES = perf/rondo_ring.c perf/ring_run.c perf/ring_run.h perf/ring_block.c \
	perf/ring_block.h perf/measure.c perf/measure.h perf/options.c perf/options.h perf/print.c \
	perf/print.h perf/peer.h
perf_rondo_ring_CFLAGS = $(AM_CFLAGS)
perf_rondo_ring_LDADD = librondo.la
if HAVE_MPI
perf_rondo_ring_SOURCES += perf/peer_mpi.c
perf_rondo_ring_CFLAGS += $(MPI_CFLAGS)
perf_rondo_ring_LDADD += $(MPI_LIBS)
else
perf_rondo_ring_SOURCES += perf/peer_none.c
endif
