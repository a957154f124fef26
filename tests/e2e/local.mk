# Names the files of tests/e2e.
