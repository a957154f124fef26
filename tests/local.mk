# What every kind of test may use.
EXTRA_DIST += tests/helper.h
EXTRA_DIST += tests/tap.sh

# The suite again, from a build of its own below this one.
#   $(call check_again,FOLDER,CONFIGURE ARGUMENTS)
check_again = $(MKDIR_P) $(1) && cd $(1) && \
	if ! test -f Makefile; then \
		$(SHELL) '$(abs_top_srcdir)/configure' -q CC='$(CC)' CXX='$(CXX)' $(2); fi && \
	$(MAKE) $(AM_MAKEFLAGS) check

check-asan: $(top_srcdir)/configure
	+$(call check_again,asan,--enable-sanitizer=address$(comma)undefined CFLAGS='-O1 -g')

check-bare: $(top_srcdir)/configure
	+$(call check_again,bare,--without-ucx --without-mpi --without-cblas --without-cmocka)

clean-local: clean-check-again
clean-check-again:
	rm -rf asan bare

comma = ,
.PHONY: check-asan check-bare clean-check-again
