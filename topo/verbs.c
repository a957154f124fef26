/* SPDX-License-Identifier: Apache-2.0 */
#include "build-config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_VERBS
#include <infiniband/verbs.h>
#endif

#include "base/status.h"
#include "topo/nic.h"
#include "topo/verbs.h"

/* ---- the library ---- */

#ifdef HAVE_VERBS

static void **list(int *count)
{
    return (void **)ibv_get_device_list(count);
}

static void free_list(void **devices)
{
    ibv_free_device_list((struct ibv_device **)devices);
}

static const char *name(void *device)
{
    return ibv_get_device_name(device);
}

static void *open_device(void *device)
{
    return ibv_open_device(device);
}

static int close_device(void *context)
{
    return ibv_close_device(context);
}

static int count_ports(void *context)
{
    struct ibv_device_attr attr;

    return ibv_query_device(context, &attr) ? -1 : attr.phys_port_cnt;
}

static int query_port(void *context, int port, struct ri_verbs_port *out)
{
    struct ibv_port_attr attr;
    int err;

    memset(&attr, 0, sizeof(attr));
    err = ibv_query_port(context, (uint8_t)port, &attr);
    if (err)
        return err;
    *out = (struct ri_verbs_port){ (int)attr.state,       attr.link_layer,   attr.lid,
                                   (int)attr.active_mtu,  attr.active_speed, attr.active_width };
    return 0;
}

const struct ri_verbs_calls *ri_verbs_library(void)
{
    static const struct ri_verbs_calls calls = {
        .list = list,
        .free_list = free_list,
        .name = name,
        .open = open_device,
        .close = close_device,
        .count_ports = count_ports,
        .query_port = query_port,
    };

    return &calls;
}

#else

const struct ri_verbs_calls *ri_verbs_library(void)
{
    return NULL;
}

#endif

/* ---- asking it ---- */

/* GB/s of a speed and a width, as the specification of InfiniBand codes them. */
static double rate(const struct ri_verbs_port *port)
{
    static const struct {
        int code;
        double gbit;
    } speeds[] = { { 1, 2.5 }, { 2, 5 }, { 4, 10 }, { 8, 10.3125 }, { 16, 14.0625 }, { 32, 25 }, { 64, 50 },
                   { 128, 100 }, { 256, 200 } };
    static const struct {
        int code, lanes;
    } widths[] = { { 1, 1 }, { 2, 4 }, { 4, 8 }, { 8, 12 }, { 16, 2 } };
    double gbit = 0;
    int lanes = 0;

    for (size_t i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++)
        if (speeds[i].code == port->speed)
            gbit = speeds[i].gbit;
    for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++)
        if (widths[i].code == port->width)
            lanes = widths[i].lanes;
    return gbit * lanes / 8;
}

static void write_device(const struct ri_verbs_calls *calls, void *device, FILE *out)
{
    const char *word = calls->name(device);
    void *context;
    int ports;

    errno = 0;
    context = calls->open(device);
    if (!context) {
        fprintf(out, "closed %s %d\n", word, errno ? errno : ENODEV);
        return;
    }
    ports = calls->count_ports(context);
    fprintf(out, "open %s %d\n", word, ports);
    for (int i = 1; i <= ports; i++) {
        struct ri_verbs_port port = { 0 };

        if (calls->query_port(context, i, &port))
            continue;
        fprintf(out, "port %s %d %d %d %d %d %.6g\n", word, i, port.state, port.layer, port.lid,
                port.mtu >= 1 && port.mtu <= 5 ? 128 << port.mtu : 0, rate(&port));
    }
    calls->close(context);
}

char *ri_verbs_text(const struct ri_verbs_calls *calls)
{
    int count = 0;
    void **devices = calls->list(&count);
    size_t bytes;
    char *text = NULL;
    FILE *out;

    if (!devices)
        return strdup("");
    out = open_memstream(&text, &bytes);
    if (out) {
        fprintf(out, "listed %d\n", count);
        for (int i = 0; i < count; i++)
            write_device(calls, devices[i], out);
        if (fclose(out)) {
            free(text);
            text = NULL;
        }
    }
    calls->free_list(devices);
    return text;
}

/* ---- what follows ---- */

/* A port of a device, or with port 0 its first; -1: none. */
static int32_t find_nic(const struct ri_topo *topo, int32_t host, const char *device, int port)
{
    for (int32_t i = host + 1; i < topo->object_count && topo->objects[i].kind != RI_TOPO_HOST; i++) {
        const struct ri_topo_object *object = &topo->objects[i];

        if (object->kind == RI_TOPO_NIC && strcmp(object->nic.device, device) == 0 && object->nic.port > 0 &&
            (port == 0 || object->nic.port == port))
            return i;
    }
    return -1;
}

static enum ri_topo_state state_of(int state)
{
    static const enum ri_topo_state states[] = { RI_TOPO_STATE_UNKNOWN, RI_TOPO_DOWN,   RI_TOPO_INIT,
                                                 RI_TOPO_ARMED,         RI_TOPO_ACTIVE, RI_TOPO_ACTIVE };

    return state >= 0 && state <= 5 ? states[state] : RI_TOPO_STATE_UNKNOWN;
}

/* A port that sysfs did not show: where it is plugged in is unknown. */
static int32_t append_nic(struct ri_topo *topo, int32_t host, const char *device, int port)
{
    int32_t at = ri_topo_add(topo, RI_TOPO_NIC, host, -1);
    struct ri_topo_object *object;

    if (at < 0)
        return -1;
    object = &topo->objects[at];
    object->nic.port = port;
    object->nic.lid = -1;
    snprintf(object->nic.device, sizeof(object->nic.device), "%s", device);
    snprintf(object->nic.card, sizeof(object->nic.card), "%s", device);
    if (port > 1)
        snprintf(object->name, sizeof(object->name), "%s:%d", device, port);
    else
        snprintf(object->name, sizeof(object->name), "%s", device);
    return at;
}

/* Does sysfs show a device as one without ports for us? */
static int is_no_adapter(const struct ri_topo *topo, int32_t host, const char *device)
{
    for (int32_t i = host + 1; i < topo->object_count && topo->objects[i].kind != RI_TOPO_HOST; i++)
        if (topo->objects[i].kind == RI_TOPO_NIC && strcmp(topo->objects[i].nic.device, device) == 0)
            return topo->objects[i].nic.port == 0;
    return 0;
}

static void apply_port(const char *line, struct ri_topo *topo, int32_t host)
{
    int port, state, layer, lid, mtu;
    char device[32];
    double gbps;
    struct ri_topo_nic *nic;
    int32_t at;
    int judge;

    if (sscanf(line, "port %31s %d %d %d %d %d %lf", device, &port, &state, &layer, &lid, &mtu, &gbps) != 7 ||
        port < 1 || port > 255 || is_no_adapter(topo, host, device))
        return;
    at = find_nic(topo, host, device, port);
    if (at < 0)
        at = append_nic(topo, host, device, port);
    if (at < 0)
        return;
    nic = &topo->objects[at].nic;
    judge = nic->state == RI_TOPO_STATE_UNKNOWN || nic->layer == RI_TOPO_LAYER_UNKNOWN || nic->lid < 0;
    if (nic->state == RI_TOPO_STATE_UNKNOWN)
        nic->state = state_of(state);
    if (nic->layer == RI_TOPO_LAYER_UNKNOWN)
        nic->layer = layer == 1 ? RI_TOPO_INFINIBAND : layer == 2 ? RI_TOPO_ETHERNET : RI_TOPO_LAYER_UNKNOWN;
    if (nic->lid < 0)
        nic->lid = lid & 0xffff;
    if (nic->mtu == 0 && mtu > 0)
        nic->mtu = mtu;
    if (nic->gbps == 0 && nic->state != RI_TOPO_DOWN && gbps > 0 && gbps < 1e4)
        nic->gbps = gbps;
    if (judge)
        ri_rdma_judge(nic, "");
}

/* A device without RDMA for us: its interface can still be used, if it has one that is up. */
static void give_up(struct ri_topo *topo, int32_t host, const char *device, const char *why)
{
    int32_t at;

    while ((at = find_nic(topo, host, device, 0)) >= 0) {
        struct ri_topo_object *object = &topo->objects[at];
        struct ri_topo_nic *nic = &object->nic;

        nic->port = 0;
        nic->gid_index = -1;
        if (nic->layer == RI_TOPO_ETHERNET && nic->netdev[0] && nic->state == RI_TOPO_ACTIVE) {
            snprintf(object->name, sizeof(object->name), "%s", nic->netdev);
            nic->device[0] = 0;
        } else if (!nic->unusable[0] || nic->state == RI_TOPO_STATE_UNKNOWN) {
            snprintf(nic->unusable, sizeof(nic->unusable), "%s", why);
        }
    }
}

/* Is a device among the lines? */
static int is_listed(const char *text, const char *device)
{
    char word[32];

    for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
        if ((sscanf(text, "closed %31s", word) == 1 || sscanf(text, "open %31s", word) == 1) &&
            strcmp(word, device) == 0)
            return 1;
    return 0;
}

/* Those of sysfs that the library does not list have no file in /dev here, or no provider. */
static void give_up_unlisted(const char *text, struct ri_topo *topo, int32_t host)
{
    int count = 0;

    for (int32_t i = host + 1; i < topo->object_count && topo->objects[i].kind != RI_TOPO_HOST; i++) {
        char device[32];

        snprintf(device, sizeof(device), "%s", topo->objects[i].nic.device);
        if (topo->objects[i].kind != RI_TOPO_NIC || topo->objects[i].nic.port == 0 || is_listed(text, device))
            continue;
        give_up(topo, host, device, "libibverbs does not list it");
        count++;
    }
    if (count)
        ri_topo_notice(topo,
                       "%d RDMA device%s of /sys cannot be used: libibverbs does not list %s (is /dev/infiniband in "
                       "this container, is the provider installed?)",
                       count, count == 1 ? "" : "s", count == 1 ? "it" : "them");
}

/* One notice for all that could not be opened. */
static void give_up_closed(const char *text, struct ri_topo *topo, int32_t host)
{
    char names[384] = "", why[96], device[32];
    int count = 0, error;

    for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
        size_t had = strlen(names);

        if (sscanf(text, "closed %31s %d", device, &error) != 2)
            continue;
        snprintf(why, sizeof(why), "cannot be opened: %s", ri_errno_text(error));
        give_up(topo, host, device, why);
        snprintf(names + had, sizeof(names) - had, "%s%s (%s)", had ? ", " : "", device, ri_errno_text(error));
        count++;
    }
    if (count)
        ri_topo_notice(topo, "RDMA device%s cannot be opened: %s", count == 1 ? "" : "s", names);
}

void ri_verbs_apply(const char *text, struct ri_topo *topo, int32_t host)
{
    if (strncmp(text, "listed ", 7) != 0)
        return;
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
        apply_port(line, topo, host);
    give_up_closed(text, topo, host);
    give_up_unlisted(text, topo, host);
}

void ri_verbs_add(struct ri_source *source, struct ri_topo *topo, int32_t host)
{
    const struct ri_verbs_calls *calls = ri_verbs_library();
    char *text;

    if (calls && ri_source_is_live(source)) {
        text = ri_verbs_text(calls);
        ri_source_note(source, "verbs", text ? text : "");
        free(text);
    }
    text = ri_source_ask(source, "verbs");
    if (text)
        ri_verbs_apply(text, topo, host);
    free(text);
}
