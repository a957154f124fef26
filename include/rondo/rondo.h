/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RONDO_RONDO_H
#define RONDO_RONDO_H

#include <rondo/attention.h>
#include <rondo/collectives.h>
#include <rondo/comm.h>
#include <rondo/kernel.h>
#include <rondo/layout.h>
#include <rondo/mask.h>
#include <rondo/request.h>
#include <rondo/status.h>
#include <rondo/topo.h>
#include <rondo/types.h>

#endif
