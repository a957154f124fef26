/* SPDX-License-Identifier: Apache-2.0 */
/* hwloc crashes on XML whose objects have some of their sets and lack others (2.9), which fuzzing finds at once, and
 * without libxml on objects within objects without end; some hundred thousand objects take minutes.  So these are found
 * before it sees them. */
#include <string.h>

#include "base/status.h"
#include "topo/hwloc_xml.h"

/* Several times what the largest machines have; libxml reads no deeper. */
enum { MOST_OBJECTS = 50000, MOST_DEPTH = 200 };

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

static int check_sets(const char *names, const char *end)
{
    int cpuset = has(names, end, "cpuset"), nodeset = has(names, end, "nodeset");

    return cpuset == has(names, end, "complete_cpuset") && nodeset == has(names, end, "complete_nodeset") &&
           (cpuset || !nodeset);
}

static int refuse(const char *text, const char *at, const char *why)
{
    return ri_error(RONDO_ERR_ARGUMENT, "hwloc XML, line %d: %s", line_of(text, at), why);
}

int ri_hwloc_xml_check(const char *text)
{
    static const char start[] = "<object", close[] = "</object";
    int count = 0, depth = 0;
    const char *end;

    for (const char *at = strchr(text, '<'); at; at = strchr(end, '<')) {
        end = at + 1;
        depth -= depth > 0 && strncmp(at, close, strlen(close)) == 0;
        if (strncmp(at, start, strlen(start)) != 0)
            continue;
        end = end_of_tag(at + strlen(start));
        if (*end != '>')
            return refuse(text, at, "a tag of an object does not end");
        if (!check_sets(at + strlen(start), end))
            return refuse(text, at, "an object has some of cpuset, complete_cpuset, nodeset and complete_nodeset, and "
                          "lacks others");
        if (++count > MOST_OBJECTS)
            return refuse(text, at, "one object too many: 50000 are the limit");
        depth += end[-1] != '/';
        if (depth > MOST_DEPTH)
            return refuse(text, at, "an object too deep: 200 within each other are the limit");
    }
    return 0;
}
