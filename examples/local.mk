# Names the files of examples.
if HAVE_CBLAS
# The trainer's pieces, without its main: tests link them too.
noinst_LTLIBRARIES += examples/train/libtrain.la
examples_train_libtrain_la_SOURCES = \
	examples/train/acts.c \
	examples/train/backward.c \
	examples/train/checkpoint.c \
	examples/train/checkpoint.h \
	examples/train/data.c \
	examples/train/data.h \
	examples/train/files.c \
	examples/train/forward.c \
	examples/train/layers.c \
	examples/train/layers.h \
	examples/train/model.c \
	examples/train/model.h \
	examples/train/optimizer.c \
	examples/train/optimizer.h \
	examples/train/options.c \
	examples/train/options.h \
	examples/train/parallel.c \
	examples/train/parallel.h \
	examples/train/problem.h \
	examples/train/random.h \
	examples/train/report.c \
	examples/train/report.h \
	examples/train/sequence.c \
	examples/train/sequence.h \
	examples/train/stored.c \
	examples/train/stored.h \
	examples/train/svg.c
examples_train_libtrain_la_CFLAGS = $(AM_CFLAGS) $(CBLAS_CFLAGS)
examples_train_libtrain_la_LIBADD = $(CBLAS_LIBS)

bin_PROGRAMS += examples/train/rondo-train
examples_train_rondo_train_SOURCES = \
	examples/train/main.c \
	examples/train/sample.c \
	examples/train/setup.c \
	examples/train/train.c \
	examples/train/trainer.h
examples_train_rondo_train_CFLAGS = $(AM_CFLAGS) $(CBLAS_CFLAGS)
examples_train_rondo_train_LDADD = examples/train/libtrain.la librondo.la $(CBLAS_LIBS)
endif
