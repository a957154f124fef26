/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RONDO_TOOLS_TOPO_OPTIONS_H
#define RONDO_TOOLS_TOPO_OPTIONS_H

#include <stdint.h>

enum { TOPO_MAX_RANKS = 4096 };

enum topo_form {
    TOPO_SCREEN, TOPO_TREE, TOPO_JSON, TOPO_XML, TOPO_SVG, TOPO_PNG, TOPO_EXPLAIN, TOPO_PACK
};

/* The command line of rondo-topo. */
struct topo_options {
    const char *input;                 /* NULL: this host */
    int ranks;                         /* 0: as many as there are GPUs, or else NUMA nodes */
    int has_hosts;                     /* --hosts-of was given */
    int32_t host_of[TOPO_MAX_RANKS];   /* [ranks], then */
    enum topo_form form;
    const char *form_option;           /* "--svg"; NULL: none was given */
    const char *output;                /* of SVG and PNG; "-": standard output */
    int host;                          /* of --xml */
    int has_host;                      /* --host was given */
    const char *record;                /* NULL: no recording */
};

/* --help and --version print and exit.  -1: refused, and said why on standard error. */
int topo_options_parse(struct topo_options *options, int argc, char **argv);

/* One line on standard error. */
void topo_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
