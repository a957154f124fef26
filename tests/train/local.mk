# Names the files of tests/train.
EXTRA_DIST += tests/train/check.h tests/train/folder.h

if HAVE_CMOCKA
if HAVE_CBLAS
train_test_ldadd = examples/train/libtrain.la $(test_ldadd)

check_PROGRAMS += tests/train/test_train_layers
tests_train_test_train_layers_SOURCES = tests/train/test_train_layers.c \
	tests/train/reference.c tests/train/reference.h
tests_train_test_train_layers_CFLAGS = $(test_cflags)
tests_train_test_train_layers_LDADD = $(train_test_ldadd)

check_PROGRAMS += tests/train/test_train_loss
tests_train_test_train_loss_SOURCES = tests/train/test_train_loss.c
tests_train_test_train_loss_CFLAGS = $(test_cflags)
tests_train_test_train_loss_LDADD = $(train_test_ldadd)

check_PROGRAMS += tests/train/test_train_model
tests_train_test_train_model_SOURCES = tests/train/test_train_model.c \
	tests/train/reference.c tests/train/reference.h
tests_train_test_train_model_CFLAGS = $(test_cflags)
tests_train_test_train_model_LDADD = $(train_test_ldadd)

check_PROGRAMS += tests/train/test_train_optimizer
tests_train_test_train_optimizer_SOURCES = tests/train/test_train_optimizer.c
tests_train_test_train_optimizer_CFLAGS = $(test_cflags)
tests_train_test_train_optimizer_LDADD = $(train_test_ldadd)

check_PROGRAMS += tests/train/test_train_checkpoint
tests_train_test_train_checkpoint_SOURCES = tests/train/test_train_checkpoint.c
tests_train_test_train_checkpoint_CFLAGS = $(test_cflags)
tests_train_test_train_checkpoint_LDADD = $(train_test_ldadd)

check_PROGRAMS += tests/train/test_train_data
tests_train_test_train_data_SOURCES = tests/train/test_train_data.c
tests_train_test_train_data_CFLAGS = $(test_cflags)
tests_train_test_train_data_LDADD = $(train_test_ldadd)

check_PROGRAMS += tests/train/test_train_stored
tests_train_test_train_stored_SOURCES = tests/train/test_train_stored.c
tests_train_test_train_stored_CFLAGS = $(test_cflags)
tests_train_test_train_stored_LDADD = $(train_test_ldadd)

check_PROGRAMS += tests/train/test_train_packed
tests_train_test_train_packed_SOURCES = tests/train/test_train_packed.c \
	tests/train/packed_run.c tests/train/packed_run.h \
	tests/train/reference.c tests/train/reference.h tests/ranks.c tests/ranks.h
tests_train_test_train_packed_CFLAGS = $(test_cflags)
tests_train_test_train_packed_LDADD = $(train_test_ldadd)

check_PROGRAMS += tests/train/test_train_options
tests_train_test_train_options_SOURCES = tests/train/test_train_options.c
tests_train_test_train_options_CFLAGS = $(test_cflags)
tests_train_test_train_options_LDADD = $(train_test_ldadd)
endif
endif
dist_check_SCRIPTS += tests/train/train.sh
