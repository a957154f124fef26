/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RONDO_TOOLS_TOPO_TEXT_H
#define RONDO_TOOLS_TOPO_TEXT_H

#include <stdio.h>

/* Names come from files and may hold any bytes: each form of output has its own way to be safe from them.
 * What is not UTF-8 or controls a terminal becomes '?'. */

/* In quotes, with escapes. */
void topo_json_string(FILE *to, const char *text);
/* For text and attributes of XML. */
void topo_xml_string(FILE *to, const char *text);
void topo_plain_string(FILE *to, const char *text);

/* "12.5", "300"; "?" for unknown.  room is 16 bytes. */
const char *topo_gbps(double gbps, char text[16]);

#endif
