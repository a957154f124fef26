# Names the files of perf.
