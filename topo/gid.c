/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "topo/gid.h"

int ri_gid_read(const char *text, uint8_t raw[16])
{
    for (int i = 0; i < 8; i++) {
        unsigned long word = strtoul(text, NULL, 16);

        if (strspn(text, "0123456789abcdefABCDEF") != 4 || text[4] != (i < 7 ? ':' : 0))
            return 0;
        raw[2 * i] = (uint8_t)(word >> 8);
        raw[2 * i + 1] = (uint8_t)word;
        text += 5;
    }
    return 1;
}

static int is_empty(const struct ri_gid *gid)
{
    static const uint8_t none[16];

    return memcmp(gid->raw, none, sizeof(none)) == 0;
}

/* How far packets with such an address go: 3 IPv4, 2 IPv6, 1 one link only. */
static int reach(const uint8_t raw[16])
{
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

    if (memcmp(raw, mapped, sizeof(mapped)) == 0)
        return raw[12] == 169 && raw[13] == 254 ? 1 : 3;
    return raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80 ? 1 : 2;
}

static int check_forced(const struct ri_gid *gids, int count, const char *name, int32_t forced)
{
    int32_t last = -1;

    for (int i = 0; i < count; i++) {
        if (gids[i].index == forced && !is_empty(&gids[i]))
            return 0;
        last = gids[i].index > last ? gids[i].index : last;
    }
    if (last < 0)
        return ri_error(RONDO_ERR_ARGUMENT, "GID index %d: the table of %s is empty", (int)forced, name);
    if (forced > last || forced < 0)
        return ri_error(RONDO_ERR_ARGUMENT, "GID index %d: %s has 0 to %d; give one of these, or none", (int)forced,
                        name, (int)last);
    return ri_error(RONDO_ERR_ARGUMENT, "GID index %d: that entry of %s is empty; give another, or none",
                    (int)forced, name);
}

int ri_gid_pick(const struct ri_gid *gids, int count, const char *name, int32_t forced, int32_t *index)
{
    int best = 0;
    int err;

    if (forced != -1) {
        err = check_forced(gids, count, name, forced);
        if (!err)
            *index = forced;
        return err;
    }
    *index = -1;
    for (int i = 0; i < count; i++) {
        int worth = is_empty(&gids[i]) ? 0 : 4 * (gids[i].is_v2 != 0) + reach(gids[i].raw);

        if (worth > best) {
            best = worth;
            *index = gids[i].index;
        }
    }
    return 0;
}
