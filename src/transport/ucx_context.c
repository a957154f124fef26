/* SPDX-License-Identifier: Apache-2.0 */
/* The context of one object, with a configuration of its own: RONDO_UCX_* goes before UCX_*, and that
 * before UCX's defaults.  Nothing is written to the environment, which MPI's UCX reads too. */
#include "transport/ucx_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"

int ri_ucx_error(ucs_status_t status, const char *what)
{
    return ri_error(status == UCS_ERR_NO_MEMORY ? RONDO_ERR_MEMORY : RONDO_ERR_TRANSPORT,
                    "UCX: %s: %s", what, ucs_status_string(status));
}

/* What is sent with UCP_OP_ATTR_FLAG_FAST_CMPL is sent eagerly whatever its size, unless the user has set
 * this, or RNDV_THRESH, which goes before it. */
static ucs_status_t let_be_eager(ucp_config_t *config)
{
    if (getenv("RONDO_UCX_RNDV_SEND_NBR_THRESH") || getenv("UCX_RNDV_SEND_NBR_THRESH"))
        return UCS_OK;
    return ucp_config_modify(config, "RNDV_SEND_NBR_THRESH", "inf");
}

/* The flush of a worker is to look at sockets and devices only, and not to ask peers over TCP, which may compute. */
static ucs_status_t flush_here(ucp_config_t *config)
{
    return ucp_config_modify(config, "FLUSH_WORKER_EPS", "n");
}

/* UCX takes more than 4 MB of /dev/shm for each rank, and has no worker at all when they are not there.  Memory
 * of System V does as well, and needs no mount. */
static ucs_status_t avoid_small_mount(ucp_config_t *config, const struct ri_ucx *self)
{
    struct statvfs mount;
    struct rlimit file;
    unsigned long long free_bytes, needed_bytes = 0;
    int first = self->base.rank, is_short = 0;

    for (int r = self->base.ranks - 1; r >= 0; r--)
        if (!self->peers[r].remote) {
            needed_bytes += 8 << 20;
            first = r;
        }
    if (getenv("RONDO_UCX_TLS") || getenv("UCX_TLS") || statvfs("/dev/shm", &mount))
        return UCS_OK;
    free_bytes = (unsigned long long)mount.f_bavail * mount.f_frsize;
    if (!getrlimit(RLIMIT_FSIZE, &file) && file.rlim_cur < needed_bytes) { /* it would die of SIGXFSZ */
        is_short = file.rlim_cur < free_bytes;
        free_bytes = is_short ? file.rlim_cur : free_bytes;
    }
    if (free_bytes >= needed_bytes)
        return UCS_OK;
    ri_log(self->base.rank == first ? RI_LOG_WARN : RI_LOG_INFO, "transport", "UCX goes on without /dev/shm, in which "
           "%llu bytes %s and %llu may be needed: %s, or set RONDO_UCX_TLS", free_bytes,
           is_short ? "are allowed to a file" : "are free", needed_bytes,
           is_short ? "raise ulimit -f" : "make it larger");
    return ucp_config_modify(config, "TLS", "^posix");
}

/* self NULL: to look at devices.  devices NULL: as the environment says. */
static ucs_status_t init(ucp_context_h *context, const struct ri_ucx *self, const char *devices)
{
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS |
                      UCP_PARAM_FIELD_NAME,
        .features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP,
        .estimated_num_eps = self ? (size_t)self->base.ranks : 1,
        .name = "rondo",
    };
    ucp_config_t *config;
    ucs_status_t status = ucp_config_read("RONDO", NULL, &config);

    if (status != UCS_OK)
        return status;
    status = let_be_eager(config);
    if (status == UCS_OK)
        status = flush_here(config);
    if (status == UCS_OK && self)
        status = avoid_small_mount(config, self);
    if (status == UCS_OK && devices)
        status = ucp_config_modify(config, "NET_DEVICES", devices);
    if (status == UCS_OK)
        status = ucp_init(&params, config, context);
    ucp_config_release(config);
    return status;
}

/* ---- devices ---- */

/* The text of ucp_context_print_info, malloc'd; it has a line for each resource, such as
 *     resource 1  :  md 1  dev 1  flags -- tcp/eth0
 * NULL: no memory. */
static char *context_text(ucp_context_h context)
{
    char *text = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);

    if (!stream)
        return NULL;
    ucp_context_print_info(context, stream);
    if (!fclose(stream))
        return text;
    free(text);
    return NULL;
}

/* The name of the next resource's device that is a network's, and its length; NULL: no more. */
static const char *next_device(const char *text, size_t *length)
{
    for (text = strstr(text, " resource "); text; text = strstr(text + 1, " resource ")) {
        size_t line = strcspn(text, "\n");
        const char *slash = memchr(text, '/', line);

        if (!slash)
            continue;
        *length = strcspn(slash + 1, " \n");
        if (*length > 0 && strncmp(slash + 1, "memory", 6) != 0)
            return slash + 1;
    }
    return NULL;
}

/* "mlx5_0" is mlx5_0:1, too. */
static int is_there(const char *text, const char *wanted, size_t wanted_length)
{
    const char *device = text;
    size_t length;

    while ((device = next_device(device, &length)))
        if (length >= wanted_length && strncmp(device, wanted, wanted_length) == 0 &&
            (length == wanted_length || device[wanted_length] == ':'))
            return 1;
    return 0;
}

static int is_in(const char *list, const char *word, size_t length)
{
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',') {
        at += strspn(at, " ");
        if (strncmp(at, word, length) == 0 && strchr(", ", at[length]))
            return 1;
    }
    return 0;
}

/* What there is, in a context with all devices: "eth0, lo". */
static void list_devices(char *list, size_t bytes)
{
    ucp_context_h context;
    size_t used = 0, length;
    const char *device;
    char *text;

    snprintf(list, bytes, "none");
    if (init(&context, NULL, "all") != UCS_OK)
        return;
    text = context_text(context);
    for (device = text; device && (device = next_device(device, &length));)
        if (!is_in(used ? list : "", device, length) && used + length + 3 < bytes)
            used += (size_t)snprintf(list + used, bytes - used, "%s%.*s", used ? ", " : "", (int)length,
                                     device);
    free(text);
    ucp_cleanup(context);
}

static int no_device(const char *devices, const char *wanted, size_t length)
{
    char list[256];

    list_devices(list, sizeof(list));
    return ri_error(RONDO_ERR_ARGUMENT, "RONDO_NET_DEVICES='%.64s': UCX finds no device '%.*s' here; it finds: "
                    "%s", devices, length < 64 ? (int)length : 64, wanted, list);
}

/* UCX goes on without the devices that it does not find, and so perhaps without any network.  A list that is
 * not of plain names is UCX's to judge. */
static int check_devices(ucp_context_h context, const char *devices)
{
    char *text;
    int err = 0;

    if (strpbrk(devices, "^*?[~/") || is_in(devices, "all", 3))
        return 0;
    text = context_text(context);
    if (!text)
        return ri_error(RONDO_ERR_MEMORY, "no memory for the names of UCX's devices");
    for (const char *at = devices; *at && !err; at += strcspn(at, ","), at += *at == ',') {
        size_t length = strcspn(at, ",");

        if (length > 0 && !is_there(text, at, length))
            err = no_device(devices, at, length);
    }
    free(text);
    return err;
}

/* UCX 1.13 aborts the process when it cannot open one of its descriptors at the wrong moment.  A context and
 * its worker have been seen to take 15, two more for a moment, and two for each peer while TCP connects. */
enum { DESCRIPTORS = 24 };

static int check_descriptors(void)
{
    int opened[DESCRIPTORS], n = 0, cause = 0;

    while (n < DESCRIPTORS && !cause) {
        opened[n] = eventfd(0, EFD_CLOEXEC);
        if (opened[n] >= 0)
            n++;
        else
            cause = errno;
    }
    for (int i = 0; i < n; i++)
        close(opened[i]);
    if (!cause)
        return 0;
    return ri_error(RONDO_ERR_TRANSPORT, "transport ucx needs %d more descriptors, and this process can open "
                    "%d: %s", (int)DESCRIPTORS, n, ri_errno_text(cause));
}

int ri_ucx_make_context(struct ri_ucx *self, const char *devices)
{
    int is_chosen = devices && *devices;
    ucs_status_t status;
    int err = check_descriptors();

    if (err)
        return err;
    status = init(&self->context, self, is_chosen ? devices : NULL);
    if (status == UCS_OK && !is_chosen)
        return 0;
    if (status == UCS_OK) {
        err = check_devices(self->context, devices);
        if (err) {
            ucp_cleanup(self->context);
            self->context = NULL;
        }
        return err;
    }
    self->context = NULL;
    if (status == UCS_ERR_NO_DEVICE && is_chosen)
        return no_device(devices, devices, strlen(devices));
    return ri_ucx_error(status, "no context");
}
