# Names the files of examples.
