# Names the files of tests/engine.
