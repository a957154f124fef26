# RONDO_WITH_PKG(name, VAR, pkg-config modules, what it is for)
# --with-name=auto|yes|no|DIR.  DIR/lib/pkgconfig (and lib64) is searched first.  An explicit yes or
# DIR that fails is an error.  Sets VAR_CFLAGS, VAR_LIBS, HAVE_VAR and the automake conditional.
AC_DEFUN([RONDO_WITH_PKG], [
    AC_ARG_WITH([$1],
        [AS_HELP_STRING([--with-$1@<:@=DIR@:>@], [$4 (auto, yes, no or a prefix) @<:@auto@:>@])],
        [], [with_$1=auto])
    rondo_have=no
    with_$1_summary=no
    AS_IF([test "x$with_$1" != xno], [
        rondo_saved_path="$PKG_CONFIG_PATH"
        AS_CASE([$with_$1], [auto|yes], [],
            [AS_IF([test -d "$with_$1"], [],
                [AC_MSG_ERROR([--with-$1=$with_$1: no such directory])])
             PKG_CONFIG_PATH="$with_$1/lib/pkgconfig:$with_$1/lib64/pkgconfig:$PKG_CONFIG_PATH"
             export PKG_CONFIG_PATH])
        PKG_CHECK_MODULES([$2], [$3],
            [rondo_have=yes; with_$1_summary="yes, `$PKG_CONFIG --modversion m4_bregexp([$3], [^[^ ]+], [\&])`"],
            [with_$1_summary="no: pkg-config does not find $3"
             AS_IF([test "x$with_$1" != xauto],
                [AC_MSG_ERROR([--with-$1=$with_$1 was asked for, but pkg-config does not find $3])])])
        AS_CASE([$rondo_have:$with_$1], [yes:auto|yes:yes|no:*], [],
            [rondo_where=`$PKG_CONFIG --variable=pcfiledir m4_bregexp([$3], [^[^ ]+], [\&])`
             AS_CASE([$rondo_where/], ["$with_$1"/*], [],
                [AC_MSG_ERROR([--with-$1=$with_$1: pkg-config finds it in $rondo_where, not in there])])])
        PKG_CONFIG_PATH="$rondo_saved_path"
    ], [with_$1_summary="no: switched off"])
    AS_IF([test "x$rondo_have" = xyes], [AC_DEFINE([HAVE_$2], [1], [$4])])
    AM_CONDITIONAL([HAVE_$2], [test "x$rondo_have" = xyes])
])

# RONDO_WITH_MPI: --with-mpi=auto|yes|no|DIR; MPICC compiles the programs that use MPI.
AC_DEFUN([RONDO_WITH_MPI], [
    AC_ARG_WITH([mpi],
        [AS_HELP_STRING([--with-mpi@<:@=DIR@:>@], [MPI peer in perf/ (auto, yes, no or a prefix) @<:@auto@:>@])],
        [], [with_mpi=auto])
    MPICC=
    with_mpi_summary="no: switched off"
    AS_IF([test "x$with_mpi" != xno], [
        rondo_mpi_path="$PATH"
        AS_CASE([$with_mpi], [auto|yes], [], [rondo_mpi_path="$with_mpi/bin"])
        AC_PATH_PROGS([MPICC_FOUND], [mpicc.openmpi mpicc mpicc.mpich], [], [$rondo_mpi_path])
        MPICC="$MPICC_FOUND"
        with_mpi_summary="yes, $MPICC"
        AS_IF([test "x$MPICC" = x], [
            with_mpi_summary="no: mpicc not found"
            AS_IF([test "x$with_mpi" != xauto],
                [AC_MSG_ERROR([--with-mpi=$with_mpi was asked for, but there is no mpicc in $rondo_mpi_path])])])
    ])
    AS_IF([test "x$MPICC" != x], [
        MPI_CFLAGS=`$MPICC --showme:compile 2>/dev/null || $MPICC -compile_info 2>/dev/null | sed 's/^@<:@^ @:>@* //'`
        MPI_LIBS=`$MPICC --showme:link 2>/dev/null || $MPICC -link_info 2>/dev/null | sed 's/^@<:@^ @:>@* //'`
        AC_DEFINE([HAVE_MPI], [1], [MPI peer in perf/])])
    AC_SUBST([MPI_CFLAGS])
    AC_SUBST([MPI_LIBS])
    AM_CONDITIONAL([HAVE_MPI], [test "x$MPICC" != x])
])

# RONDO_WARNINGS: WARNING_FLAGS, those of a fixed set that the compiler knows.
AC_DEFUN([RONDO_WARNINGS], [
    WARNING_FLAGS=
    rondo_saved_cflags="$CFLAGS"
    for flag in -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
                -Wwrite-strings -Wundef -Wvla -Wformat=2 -Wno-unused-parameter; do
        CFLAGS="$rondo_saved_cflags -Werror $flag"
        AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])], [WARNING_FLAGS="$WARNING_FLAGS $flag"])
    done
    CFLAGS="$rondo_saved_cflags"
    AS_IF([test "x$enable_developer" = xyes], [WARNING_FLAGS="$WARNING_FLAGS -Werror"])
    AC_SUBST([WARNING_FLAGS])
])
