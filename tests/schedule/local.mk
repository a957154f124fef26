# Names the files of tests/schedule.
