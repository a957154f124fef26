# Names the files of tests/lint.
dist_check_SCRIPTS += tests/lint/includes.sh
dist_check_SCRIPTS += tests/lint/lines.sh
