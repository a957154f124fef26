# Names the files of tests/unit.
