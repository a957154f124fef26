# Names the files of tools.
bin_PROGRAMS += tools/rondo-run
tools_rondo_run_SOURCES = tools/rondo-run.c tools/lines.h tools/lines.c \
	tools/options.h tools/options.c
bin_PROGRAMS += tools/rondo-plan
tools_rondo_plan_SOURCES = tools/rondo-plan.c tools/plan_options.c tools/plan_options.h \
	tools/plan_print.c tools/plan_print.h tools/plan_topo.c
tools_rondo_plan_LDADD = librondo_core.la
bin_PROGRAMS += tools/rondo-topo
tools_rondo_topo_SOURCES = tools/rondo-topo.c tools/doctor.c tools/doctor.h tools/doctor_devices.c \
	tools/doctor_facts.c tools/doctor_host.c tools/doctor_look.c tools/topo_doctor.c tools/topo_doctor.h \
	tools/topo_json.c tools/topo_matrix.c tools/topo_options.c \
	tools/topo_measure.c tools/topo_measure.h tools/topo_measure_expect.c tools/topo_measure_json.c \
	tools/topo_measure_pairs.c tools/topo_measure_print.c tools/topo_measure_record.c perf/link.c perf/link.h \
	tools/topo_options.h tools/topo_png.c tools/topo_ranks.c tools/topo_svg.c tools/topo_svg.h \
	tools/topo_svg_draw.c tools/topo_svg_hosts.c tools/topo_svg_layout.c tools/topo_svg_links.c \
	tools/topo_svg_net.c tools/topo_svg_tiles.c tools/topo_text.c tools/topo_text.h tools/topo_tree.c \
	tools/topo_view.c tools/topo_view.h
tools_rondo_topo_CFLAGS = $(AM_CFLAGS) $(RSVG_CFLAGS)
tools_rondo_topo_LDADD = librondo_core.la $(RSVG_LIBS) -lm
