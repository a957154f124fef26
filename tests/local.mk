# Names the files of tests.
