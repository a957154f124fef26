/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_VERIFY_H
#define RI_VERIFY_H

#include <rondo/attention.h>

struct rondo_plan;
struct ri_run;

/* RONDO_VERIFY=1: the first call of each pass of a plan is computed a second time, in fp64, on the rank
 * plan number modulo size, and compared with what the call has written there. */
struct ri_verify;

/* Between taking a run and starting it, with the lock held, which others have meanwhile.  When the run is
 * the first of its pass and the switch is on, blocks until all ranks have come and sent their inputs, and
 * on the verifying rank until those are computed.  *verify is set on that rank, else NULL; it borrows the
 * outputs until its end.  An error is one on every rank, or of a communicator that has failed. */
int ri_verify_forward(struct rondo_plan *plan, const struct ri_run *run, const rondo_attention_fwd_t *tensors,
                      struct ri_verify **verify);
int ri_verify_backward(struct rondo_plan *plan, const struct ri_run *run, const rondo_attention_bwd_t *tensors,
                       struct ri_verify **verify);

/* After the outputs were written: 0, or RONDO_ERR_VERIFY, which names the worst element of the first
 * tensor that is wrong.  Of NULL: 0.  Allocates nothing. */
int ri_verify_compare(const struct ri_verify *verify);
void ri_verify_destroy(struct ri_verify *verify);

#endif
