# Names the files of tests/api.
dist_check_SCRIPTS += tests/api/man_examples.sh
dist_check_SCRIPTS += tests/api/headers.sh
EXTRA_DIST += tests/api/installed.sh

installcheck-local:
	CC='$(CC)' SANITIZER_FLAGS='$(SANITIZER_FLAGS)' top_srcdir='$(top_srcdir)' \
		$(SHELL) $(top_srcdir)/tests/api/installed.sh '$(DESTDIR)$(libdir)'

dist_check_SCRIPTS += tests/api/man_options.sh
dist_check_SCRIPTS += tests/api/readme_runs.sh
dist_check_SCRIPTS += tests/api/rondo_ring.sh
