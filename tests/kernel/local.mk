# Names the files of tests/kernel.
