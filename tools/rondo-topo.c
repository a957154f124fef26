/* SPDX-License-Identifier: Apache-2.0 */
/* rondo-topo: what a machine is made of, here or described, and what follows for ranks on it. */
#include <errno.h>
#include <rondo/status.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tools/doctor.h"
#include "tools/topo_doctor.h"
#include "tools/topo_measure.h"
#include "tools/topo_options.h"
#include "tools/topo_view.h"
#include "topo/source.h"

enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* ---- what is read ---- */

static int write_whole(const char *name, const char *option, const char *text)
{
    FILE *to = fopen(name, "w");
    int failed = !to;

    if (to) {
        failed = fputs(text, to) < 0 || fflush(to) || ferror(to);
        failed |= fclose(to) != 0;
    }
    if (failed)
        topo_say("%s %s: %s", option, name, strerror(errno));
    return failed ? EXIT_FAILED : 0;
}

/* Discovers with a source of our own, so that what was read is at hand; with what a doctor asks for, too. */
static int discover(const struct topo_options *o, struct ri_topo **topo)
{
    struct ri_source *source = ri_source_open("");
    char *recording = NULL;
    int result = EXIT_FAILED;

    if (source)
        ri_source_keep(source);
    if (source && ri_topo_discover(source, topo) == 0) {
        doctor_keep(source);
        recording = ri_source_recording(source);
        result = recording ? write_whole(o->record, "--record", recording) : EXIT_FAILED;
        if (!recording)
            topo_say("--record %s: out of memory", o->record);
    } else {
        topo_say("%s", source ? rondo_last_error() : "out of memory");
    }
    free(recording);
    ri_source_close(source);
    return result;
}

static int read_topo(const struct topo_options *o, struct ri_topo **topo)
{
    *topo = NULL;
    if (o->record)
        return discover(o, topo);
    if (ri_topo_read(o->input, topo) == 0)
        return 0;
    topo_say("%s", rondo_last_error());
    return EXIT_FAILED;
}

/* ---- ranks ---- */

static int check_hosts(const struct topo_options *o, int hosts)
{
    for (int r = 0; o->has_hosts && r < o->ranks; r++)
        if (o->host_of[r] >= hosts) {
            topo_say("--hosts-of: rank %d is on host %d, but there %s; hosts count from 0", r, (int)o->host_of[r],
                     hosts == 1 ? "is only one" : "are fewer");
            return EXIT_USAGE;
        }
    return 0;
}

static int place(const struct topo_options *o, struct ri_topo *topo)
{
    int result = check_hosts(o, ri_topo_hosts(topo));

    if (result)
        return result;
    if (ri_topo_place(topo, o->ranks, o->has_hosts ? o->host_of : NULL, NULL) == 0)
        return 0;
    topo_say("%s", rondo_last_error());
    return EXIT_FAILED;
}

/* ---- outputs ---- */

static int put_text(FILE *to, char *text)
{
    if (!text)
        return ri_error(RONDO_ERR_MEMORY, "out of memory");
    fputs(text, to);
    free(text);
    return 0;
}

static int print_xml(FILE *to, const struct topo_view *view, int host)
{
    if (host >= view->hosts)
        return ri_error(RONDO_ERR_ARGUMENT, "--host %d: there are %d, counted from 0", host, view->hosts);
    return put_text(to, ri_topo_to_nccl_xml(view->topo, view->host[host]));
}

static int print_png(FILE *to, const struct topo_view *view)
{
    char *svg = NULL;
    size_t bytes = 0;
    FILE *text = open_memstream(&svg, &bytes);
    int err;

    if (!text)
        return ri_error(RONDO_ERR_MEMORY, "no memory for a picture");
    err = topo_print_svg(text, view);
    if (fclose(text) && !err)
        err = ri_error(RONDO_ERR_MEMORY, "no memory for a picture");
    if (!err)
        err = topo_write_png(to, svg, bytes);
    free(svg);
    return err;
}

static int print_form(FILE *to, const struct topo_options *o, const struct topo_view *view)
{
    switch (o->form) {
    case TOPO_TREE:
        return topo_print_tree(to, view);
    case TOPO_JSON:
        return topo_print_json(to, view);
    case TOPO_XML:
        return print_xml(to, view, o->host);
    case TOPO_SVG:
        return topo_print_svg(to, view);
    case TOPO_PNG:
        return print_png(to, view);
    case TOPO_EXPLAIN:
        return put_text(to, ri_topo_explain(view->topo));
    case TOPO_PACK:
        return put_text(to, ri_topo_pack(view->topo));
    default:
        return topo_print_screen(to, view);
    }
}

static int write_form(const struct topo_options *o, const struct topo_view *view)
{
    int to_file = o->output && strcmp(o->output, "-") != 0, err, failed;
    FILE *to = to_file ? fopen(o->output, "w") : stdout;
    const char *name = to_file ? o->output : "standard output";

    if (!to) {
        topo_say("%s %s: %s", o->form_option, name, strerror(errno));
        return EXIT_FAILED;
    }
    err = print_form(to, o, view);
    failed = fflush(to) || ferror(to);
    if (to_file)
        failed |= fclose(to) != 0;
    if (failed)
        topo_say("%s: %s", name, strerror(errno));
    else if (err)
        topo_say("%s", rondo_last_error());
    return err || failed ? EXIT_FAILED : 0;
}

static int show(const struct topo_options *o, struct ri_topo *topo)
{
    struct topo_view view;
    int result = place(o, topo);

    if (result)
        return result;
    if (topo_view_init(&view, topo, o->input ? o->input : "this machine")) {
        topo_say("%s", rondo_last_error());
        result = EXIT_FAILED;
    } else {
        result = write_form(o, &view);
    }
    topo_view_release(&view);
    return result;
}

int main(int argc, char **argv)
{
    static struct topo_options options;
    struct ri_topo *topo;
    int result;

    if (argc > 1 && strcmp(argv[1], "doctor") == 0)
        return topo_doctor(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "measure") == 0)
        return topo_measure(argc - 1, argv + 1);
    if (topo_options_parse(&options, argc, argv) < 0) {
        fprintf(stderr, "Try 'rondo-topo --help'.\n");
        return EXIT_USAGE;
    }
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of output like any other */
    result = read_topo(&options, &topo);
    if (!result)
        result = show(&options, topo);
    ri_topo_destroy(topo);
    return result;
}
