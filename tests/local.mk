# What every kind of test may use.
EXTRA_DIST += tests/helper.h
EXTRA_DIST += tests/here.h
EXTRA_DIST += tests/short.h
EXTRA_DIST += tests/tap.sh
EXTRA_DIST += tests/run.sh
EXTRA_DIST += tests/links.sh

# Another build below this one, which then makes what is named.
#   $(call make_again,FOLDER,C COMPILER,C++ COMPILER,CONFIGURE ARGUMENTS,TARGETS)
make_again = $(MKDIR_P) $(1) && cd $(1) && \
	if ! test -f Makefile; then \
		$(SHELL) '$(abs_top_srcdir)/configure' -q CC='$(2)' CXX='$(3)' $(4); fi && \
	$(MAKE) $(AM_MAKEFLAGS) $(5)

# The suite again, with the compiler of this build.
#   $(call check_again,FOLDER,CONFIGURE ARGUMENTS)
check_again = $(call make_again,$(1),$(CC),$(CXX),$(2),check)

check-asan: $(top_srcdir)/configure
	+$(call make_again,asan,$(CC),$(CXX),--enable-sanitizer=address$(comma)undefined CFLAGS='-O1 -g',\
		check TIMEOUT='timeout -k 5 1800')

# A process that UCX's memory hooks have touched dies at the start of a thread.
check-tsan: $(top_srcdir)/configure
	+export UCX_MEM_EVENTS=no RONDO_TEST_SHORT=1 TSAN_OPTIONS="ignore_noninstrumented_modules=1 $$TSAN_OPTIONS"; \
	$(call make_again,tsan,$(CC),$(CXX),--enable-sanitizer=thread CFLAGS='-O1 -g',\
		check TIMEOUT='timeout -k 5 1800')

CLANG = clang
check-clang: $(top_srcdir)/configure
	+$(call make_again,clang,$(CLANG),$(CLANG)++,--enable-developer,check)

# Every file of the library, the kernels and the tools, after a planted leak that must be found.
ANALYZER = gcc
check-analyzer: $(top_srcdir)/configure
	+$(MKDIR_P) analyzer
	printf '#include <stdlib.h>\nint f(void) { return malloc(1) != 0; }\n' > analyzer/leak.c
	if $(ANALYZER) -fanalyzer -Werror -c -o analyzer/leak.o analyzer/leak.c 2> /dev/null; then \
		echo "$(ANALYZER) -fanalyzer finds no leak in analyzer/leak.c" >&2; exit 1; fi
	+$(call make_again,analyzer,$(ANALYZER),$(CXX),--enable-developer CFLAGS='-O2 -g -fanalyzer' CPPFLAGS=-DRI_ANALYZER,\
		librondo.la tools/rondo-run$(EXEEXT) tools/rondo-plan$(EXEEXT) tools/rondo-topo$(EXEEXT))

check-bare: $(top_srcdir)/configure
	+$(call check_again,bare,--without-ucx --without-hwloc --without-verbs --without-expat --without-rsvg --without-mpi \
		--without-cblas --without-cmocka)

# The library and rondo-topo without each optional library in turn, and what they are linked with.
LEFT_OUT = ucx hwloc verbs expat rsvg
check-links: $(top_srcdir)/configure
	+$(call make_again,links/all,$(CC),$(CXX),,librondo.la tools/rondo-topo$(EXEEXT))
	+for one in $(LEFT_OUT); do \
		($(call make_again,links/$$one,$(CC),$(CXX),--without-$$one,librondo.la tools/rondo-topo$(EXEEXT))) || exit 1; \
	done
	$(SHELL) $(top_srcdir)/tests/links.sh links/all $(LEFT_OUT:%=links/%)

clean-local: clean-check-again
clean-check-again:
	rm -rf asan tsan clang analyzer bare links

comma = ,
.PHONY: check-asan check-tsan check-clang check-analyzer check-bare check-links clean-check-again
