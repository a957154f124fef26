/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_ANALYZER_H
#define RI_ANALYZER_H

/* Around code about which gcc's analyzer (make check-analyzer) is wrong; the reason stands beside it.
 *   RI_ANALYZER_IGNORE("-Wanalyzer-malloc-leak")
 *   ...
 *   RI_ANALYZER_RESUME */
#if defined(__GNUC__) && !defined(__clang__)
#define RI_ANALYZER_PRAGMA(text) _Pragma(#text)
#define RI_ANALYZER_IGNORE(warning)                                                                \
    RI_ANALYZER_PRAGMA(GCC diagnostic push) RI_ANALYZER_PRAGMA(GCC diagnostic ignored warning)
#define RI_ANALYZER_RESUME RI_ANALYZER_PRAGMA(GCC diagnostic pop)
#else
#define RI_ANALYZER_IGNORE(warning)
#define RI_ANALYZER_RESUME
#endif

#endif
