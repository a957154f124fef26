/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RONDO_TOOLS_TOPO_DOCTOR_H
#define RONDO_TOOLS_TOPO_DOCTOR_H

/* The program `rondo-topo doctor`; argv[0] is "doctor".  Returns its status: 0, 1 where something fails or could
 * not be read, 2 when an option is refused. */
int topo_doctor(int argc, char **argv);

#endif
