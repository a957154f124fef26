/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_HWLOC_XML_H
#define RI_HWLOC_XML_H

/* Whether hwloc can be given this XML without harm.  RONDO_ERR_ARGUMENT names the line. */
int ri_hwloc_xml_check(const char *text);

#endif
