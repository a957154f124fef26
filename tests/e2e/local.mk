# Names the files of tests/e2e.
dist_check_SCRIPTS += tests/e2e/rondo_run.sh
