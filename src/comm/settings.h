/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_SETTINGS_H
#define RI_SETTINGS_H

#include <rondo/comm.h>

#include "base/config.h"

#define RI_STRUCT_BYTES_MAX 4096 /* of a caller's struct; more is not a size */
#define RI_BIND_NS 5000000000    /* how long rank 0 tries to get a port that is in use */

/* Is config (may be NULL) in form?  RONDO_ERR_ARGUMENT naming the member. */
int ri_settings_check(const rondo_config_t *config);

/* What the call gives, over the environment, over the defaults.  On failure *config has the default
 * deadlines all the same, so that the other ranks can be told. */
int ri_settings(struct ri_config *config, const rondo_config_t *call);

/* Of a communicator that is there, for one that is made from it. */
int ri_settings_copy(struct ri_config *config, const struct ri_config *from);

#endif
