# Names the files of tests/api.
dist_check_SCRIPTS += tests/api/man_examples.sh
dist_check_SCRIPTS += tests/api/headers.sh
