# Names the files of tests/lint.
dist_check_SCRIPTS += tests/lint/cases.sh
dist_check_SCRIPTS += tests/lint/config.sh
dist_check_SCRIPTS += tests/lint/includes.sh
dist_check_SCRIPTS += tests/lint/lines.sh
dist_check_SCRIPTS += tests/lint/manpages.sh
dist_check_SCRIPTS += tests/lint/symbols.sh
EXTRA_DIST += tests/lint/declared.sh
