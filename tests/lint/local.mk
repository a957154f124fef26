# Names the files of tests/lint.
