# Names the files of tests/transport.
