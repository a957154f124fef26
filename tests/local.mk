# What every kind of test may use.
EXTRA_DIST += tests/helper.h
EXTRA_DIST += tests/tap.sh
