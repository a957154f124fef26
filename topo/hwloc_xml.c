/* SPDX-License-Identifier: Apache-2.0 */
/* hwloc crashes on XML whose objects have some of their sets and lack others (2.9), which fuzzing finds at once; and
 * some hundred thousand objects take minutes.  So both are found before it sees them. */
#include <string.h>

#include "base/status.h"
#include "topo/hwloc_xml.h"

/* Several times what the largest machines have. */
enum { MOST_OBJECTS = 50000 };

/* Where the tag that begins before this ends: at its ">"; at a "<", which no tag may hold, or at the end of the text
 * where it does not. */
static const char *end_of_tag(const char *at)
{
    char quote = 0;

    for (; *at && *at != '<' && (quote || *at != '>'); at++) {
        if (quote)
            quote = *at == quote ? 0 : quote;
        else if (*at == '"' || *at == '\'')
            quote = *at;
    }
    return at;
}

/* Does a tag have an attribute of this name?  Values are skipped, so that none is taken for a name. */
static int has(const char *at, const char *end, const char *name)
{
    size_t length = strlen(name);

    while (at < end) {
        size_t word;

        at += strspn(at, " \t\r\n/");
        word = strcspn(at, " \t\r\n=>");
        if (word == length && strncmp(at, name, length) == 0)
            return 1;
        at += word + strcspn(at + word, "\"'>");
        if (at < end) {
            const char *close = memchr(at + 1, *at, (size_t)(end - at - 1));

            at = close ? close + 1 : end;
        }
    }
    return 0;
}

static int line_of(const char *text, const char *at)
{
    int line = 1;

    for (; text < at; text++)
        line += *text == '\n';
    return line;
}

int ri_hwloc_xml_check(const char *text)
{
    static const char start[] = "<object";
    const char *end;
    int count = 0;

    for (const char *at = strstr(text, start); at; at = strstr(end, start)) {
        const char *names = at + strlen(start);
        int cpuset, nodeset;

        end = end_of_tag(names);
        cpuset = has(names, end, "cpuset");
        nodeset = has(names, end, "nodeset");
        if (*end != '>')
            return ri_error(RONDO_ERR_ARGUMENT, "hwloc XML, line %d: a tag of an object does not end",
                            line_of(text, at));
        if (++count > MOST_OBJECTS)
            return ri_error(RONDO_ERR_ARGUMENT, "hwloc XML, line %d: one object too many: %d are the limit",
                            line_of(text, at), MOST_OBJECTS);
        if (cpuset != has(names, end, "complete_cpuset") || nodeset != has(names, end, "complete_nodeset") ||
            (nodeset && !cpuset))
            return ri_error(RONDO_ERR_ARGUMENT, "hwloc XML, line %d: an object has some of cpuset, complete_cpuset, "
                            "nodeset and complete_nodeset, and lacks others", line_of(text, at));
    }
    return 0;
}
