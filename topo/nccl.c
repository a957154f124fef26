/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's XML is parsed.  A file comes from anywhere: declarations, and so entities that grow without end, are
 * refused, and it may be neither long nor deep. */
#include "base/status.h"
#include "build-config.h"
#include "topo/nccl.h"

#ifdef HAVE_EXPAT
#include <expat.h>

enum { MAX_BYTES = 16 << 20 };

struct parse {
    XML_Parser parser;
    struct ri_nccl_reader *reader;
    int err;
};

static int line_of(const struct parse *parse)
{
    return (int)XML_GetCurrentLineNumber(parse->parser);
}

static void stop(struct parse *parse, int err)
{
    parse->err = err;
    XML_StopParser(parse->parser, XML_FALSE);
}

static void on_begin(void *data, const char *element, const char **attributes)
{
    struct parse *parse = data;
    int err = ri_nccl_begin(parse->reader, line_of(parse), element, (const char *const *)attributes);

    if (err)
        stop(parse, err);
}

static void on_end(void *data, const char *element)
{
    struct parse *parse = data;

    (void)element;
    ri_nccl_end(parse->reader);
}

static void on_doctype(void *data, const char *name, const char *system, const char *public, int has_internal)
{
    struct parse *parse = data;

    (void)name, (void)system, (void)public, (void)has_internal;
    stop(parse, ri_error(RONDO_ERR_ARGUMENT, "NCCL topology, line %d: a document type is declared, which no dump of "
                         "NCCL does; remove it", line_of(parse)));
}

static int parse_all(struct parse *parse, const char *xml, size_t bytes)
{
    XML_SetUserData(parse->parser, parse);
    XML_SetElementHandler(parse->parser, on_begin, on_end);
    XML_SetStartDoctypeDeclHandler(parse->parser, on_doctype);
    if (XML_Parse(parse->parser, xml, (int)bytes, 1) == XML_STATUS_OK || parse->err)
        return parse->err;
    return ri_error(RONDO_ERR_ARGUMENT, "NCCL topology, line %d: %s", line_of(parse),
                    XML_ErrorString(XML_GetErrorCode(parse->parser)));
}

int ri_topo_from_nccl_xml(const char *xml, size_t bytes, struct ri_topo **topo)
{
    struct parse parse = { NULL, NULL, 0 };
    int err;

    if (bytes > MAX_BYTES)
        return ri_error(RONDO_ERR_ARGUMENT, "NCCL topology: %zu bytes; dumps of more than 16 MiB are not read", bytes);
    parse.parser = XML_ParserCreate(NULL);
    parse.reader = ri_nccl_reader_create();
    if (parse.parser && parse.reader)
        err = parse_all(&parse, xml, bytes);
    else
        err = ri_error(RONDO_ERR_MEMORY, "no memory to read a topology of %zu bytes", bytes);
    if (!err)
        err = ri_nccl_finish(parse.reader, topo);
    ri_nccl_reader_destroy(parse.reader);
    if (parse.parser)
        XML_ParserFree(parse.parser);
    return err;
}

#else

int ri_topo_from_nccl_xml(const char *xml, size_t bytes, struct ri_topo **topo)
{
    (void)xml, (void)bytes, (void)topo;
    return ri_error(RONDO_ERR_UNSUPPORTED, "NCCL topology: this build has no expat; install expat and configure "
                    "--with-expat");
}

#endif
