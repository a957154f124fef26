/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_NCCL_H
#define RI_NCCL_H

#include "topo/topo.h"

/* The topology as NCCL writes it (NCCL_TOPO_DUMP_FILE), element by element; whoever parses the XML calls these. */

struct ri_nccl_reader;

/* NULL: no memory. */
struct ri_nccl_reader *ri_nccl_reader_create(void);
void ri_nccl_reader_destroy(struct ri_nccl_reader *reader);
/* attributes: pairs of name and value, then NULL.  RONDO_ERR_ARGUMENT names the line. */
int ri_nccl_begin(struct ri_nccl_reader *reader, int line, const char *element, const char *const *attributes);
void ri_nccl_end(struct ri_nccl_reader *reader);
/* After the last element: the tree, which is the caller's. */
int ri_nccl_finish(struct ri_nccl_reader *reader, struct ri_topo **topo);

#endif
