/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/decimal.h"

/* The locale of this thread from before, which must be put back. */
static locale_t plain_locale(locale_t *plain)
{
    *plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return *plain ? uselocale(*plain) : (locale_t)0;
}

static void restore_locale(locale_t plain, locale_t before)
{
    if (!plain)
        return;
    uselocale(before);
    freelocale(plain);
}

void ri_decimal_print(double value, char text[RI_DECIMAL_ROOM])
{
    locale_t plain, before = plain_locale(&plain);

    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, RI_DECIMAL_ROOM, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    restore_locale(plain, before);
}

int ri_decimal_read(const char *text, double *value)
{
    locale_t plain, before;
    double found;
    char *end;

    /* No blanks before it, no hexadecimals, no words for what is not finite. */
    if (!text[0] || text[strspn(text, "0123456789.eE+-")] != 0)
        return -1;
    before = plain_locale(&plain);
    found = strtod(text, &end);
    restore_locale(plain, before);
    if (*end || !isfinite(found))
        return -1;
    *value = found;
    return 0;
}

int ri_decimal_read_whole(const char *text, int64_t low, int64_t high, int64_t *value)
{
    long long found;

    if (!text[0] || text[1 + strspn(text + 1, "0123456789")] != 0 || !strchr("-0123456789", text[0]))
        return -1;
    errno = 0;
    found = strtoll(text, NULL, 10);
    if (errno || strcmp(text, "-") == 0 || found < low || found > high)
        return -1;
    *value = found;
    return 0;
}
