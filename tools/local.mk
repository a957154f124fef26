# Names the files of tools.
bin_PROGRAMS += tools/rondo-run
tools_rondo_run_SOURCES = tools/rondo-run.c tools/lines.h tools/lines.c \
	tools/options.h tools/options.c
bin_PROGRAMS += tools/rondo-plan
tools_rondo_plan_SOURCES = tools/rondo-plan.c tools/plan_options.c tools/plan_options.h \
	tools/plan_print.c tools/plan_print.h
tools_rondo_plan_LDADD = librondo_core.la
