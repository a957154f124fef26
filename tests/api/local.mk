# Names the files of tests/api.
