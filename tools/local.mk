# Names the files of tools.
bin_PROGRAMS += tools/rondo-run
tools_rondo_run_SOURCES = tools/rondo-run.c tools/lines.h tools/lines.c \
	tools/options.h tools/options.c
