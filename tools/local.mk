# Names the files of tools.
