/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/topo_text.h"

/* Bytes of the UTF-8 character that text begins with; 0: it is none, or one that controls. */
static int character_bytes(const unsigned char *text)
{
    int bytes = *text < 0x80 ? 1 : *text >= 0xc2 && *text < 0xe0 ? 2 : *text >= 0xe0 && *text < 0xf0 ? 3
              : *text >= 0xf0 && *text < 0xf5 ? 4 : 0;

    if (bytes == 1)
        return *text >= 0x20 && *text != 0x7f;
    for (int i = 1; i < bytes; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    /* Overlong ones, surrogates, those beyond the last, controls of C1, and two that XML does not take. */
    if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] >= 0xa0) ||
        (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] >= 0x90) ||
        (text[0] == 0xc2 && text[1] < 0xa0) || (text[0] == 0xef && text[1] == 0xbf && text[2] >= 0xbe))
        return 0;
    return bytes;
}

/* What stands for ASCII characters that mean something in a form. */
struct escape {
    char letter;
    const char *text;
};

static void write_text(FILE *to, const char *text, const struct escape *escapes, int count)
{
    const unsigned char *at = (const unsigned char *)text;

    while (*at) {
        int bytes = character_bytes(at), i = 0;

        while (i < count && *at != (unsigned char)escapes[i].letter)
            i++;
        if (!bytes)
            fputc('?', to);
        else if (i < count)
            fputs(escapes[i].text, to);
        else
            fwrite(at, 1, (size_t)bytes, to);
        at += bytes ? bytes : 1;
    }
}

void topo_json_string(FILE *to, const char *text)
{
    static const struct escape escapes[] = { { '"', "\\\"" }, { '\\', "\\\\" } };

    fputc('"', to);
    write_text(to, text, escapes, 2);
    fputc('"', to);
}

void topo_xml_string(FILE *to, const char *text)
{
    static const struct escape escapes[] = {
        { '&', "&amp;" }, { '<', "&lt;" }, { '>', "&gt;" }, { '"', "&quot;" }, { '\'', "&#39;" }
    };

    write_text(to, text, escapes, 5);
}

void topo_plain_string(FILE *to, const char *text)
{
    write_text(to, text, NULL, 0);
}

const char *topo_gbps(double gbps, char text[16])
{
    if (!(gbps > 0))
        snprintf(text, 16, "?");
    else
        snprintf(text, 16, gbps >= 99.95 && gbps < 1e9 ? "%.0f" : "%.3g", gbps);
    return text;
}
