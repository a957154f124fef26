/* SPDX-License-Identifier: Apache-2.0 */
/* The picture in pixels, made from the text of the SVG. */
#include <rondo/status.h>

#include "base/status.h"
#include "build-config.h"
#include "tools/topo_view.h"

#ifdef HAVE_RSVG
#include <librsvg/rsvg.h>

enum { PIXELS_EACH = 2, PIXELS_MAX = 30000 };

static cairo_status_t write_bytes(void *to, const unsigned char *bytes, unsigned int count)
{
    return fwrite(bytes, 1, count, to) == count ? CAIRO_STATUS_SUCCESS : CAIRO_STATUS_WRITE_ERROR;
}

static int draw(FILE *to, RsvgHandle *handle, double width, double height)
{
    double each = PIXELS_EACH;
    cairo_surface_t *surface;
    cairo_t *cairo;
    RsvgRectangle all;
    GError *fault = NULL;
    int err = 0;

    while (width * each > PIXELS_MAX || height * each > PIXELS_MAX)
        each /= 2;
    all = (RsvgRectangle){ 0, 0, width * each, height * each };
    surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)all.width, (int)all.height);
    cairo = cairo_create(surface);
    if (!rsvg_handle_render_document(handle, cairo, &all, &fault))
        err = ri_error(RONDO_ERR_SYSTEM, "librsvg cannot draw it: %s", fault ? fault->message : "no reason given");
    if (!err && cairo_surface_write_to_png_stream(surface, write_bytes, to) != CAIRO_STATUS_SUCCESS)
        err = ri_error(RONDO_ERR_SYSTEM, "the picture could not be written");
    g_clear_error(&fault);
    cairo_destroy(cairo);
    cairo_surface_destroy(surface);
    return err;
}

int topo_write_png(FILE *to, const char *svg, size_t bytes)
{
    GError *fault = NULL;
    RsvgHandle *handle = rsvg_handle_new_from_data((const guint8 *)svg, bytes, &fault);
    gdouble width, height;
    int err;

    if (!handle) {
        err = ri_error(RONDO_ERR_SYSTEM, "librsvg cannot read the picture: %s",
                       fault ? fault->message : "no reason given");
        g_clear_error(&fault);
        return err;
    }
    if (rsvg_handle_get_intrinsic_size_in_pixels(handle, &width, &height))
        err = draw(to, handle, width, height);
    else
        err = ri_error(RONDO_ERR_INTERNAL, "the picture has no size");
    g_object_unref(handle);
    return err;
}
#else
int topo_write_png(FILE *to, const char *svg, size_t bytes)
{
    (void)to;
    (void)svg;
    (void)bytes;
    return ri_error(RONDO_ERR_UNSUPPORTED, "this build has no librsvg (Debian's librsvg2-dev); write --svg FILE and "
                                           "turn it with any other program");
}
#endif
