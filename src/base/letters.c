/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <strings.h>

#include "base/letters.h"

static int differ(char a, char b)
{
    return strncasecmp(&a, &b, 1) != 0;
}

int ri_letters_apart(const char *a, size_t length, const char *b)
{
    enum { WIDTH = 64 };
    int row[WIDTH]; /* distances of the prefix of a so far to every prefix of b */
    int columns = (int)strnlen(b, WIDTH - 1);

    for (int j = 0; j <= columns; j++)
        row[j] = j;
    for (int i = 1; i <= (int)length && i < WIDTH; i++) {
        int diagonal = row[0];

        row[0] = i;
        for (int j = 1; j <= columns; j++) {
            int replaced = diagonal + differ(a[i - 1], b[j - 1]);
            int shifted = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);

            diagonal = row[j];
            row[j] = replaced < shifted ? replaced : shifted;
        }
    }
    return row[columns];
}
