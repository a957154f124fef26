#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every small machine; "make check-shapes" takes all up to 64 ranks.
exec "$top_builddir/tests/schedule/shapes" --ranks 12
