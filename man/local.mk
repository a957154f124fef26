# Names the files of man.
