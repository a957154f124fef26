/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/settings.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

#define DEFAULT_CONNECT_MS 30000
#define DEFAULT_TIMEOUT_MS 1800000

int ri_settings_check(const rondo_config_t *config)
{
    if (!config)
        return 0;
    if (config->struct_bytes < sizeof(config->struct_bytes) || config->struct_bytes > RI_STRUCT_BYTES_MAX)
        return ri_error(RONDO_ERR_ARGUMENT, "config->struct_bytes is %zu; begin with RONDO_CONFIG_INIT",
                        config->struct_bytes);
    return 0;
}

/* A caller of an older version has fewer members: the rest is as RONDO_CONFIG_INIT has it. */
static rondo_config_t whole(const rondo_config_t *call)
{
    rondo_config_t config = RONDO_CONFIG_INIT;

    if (call)
        memcpy(&config, call, call->struct_bytes < sizeof(config) ? call->struct_bytes : sizeof(config));
    return config;
}

static int set_text(char **field, const char *value)
{
    char *copy;

    if (!value)
        return 0;
    copy = strdup(value);
    if (!copy)
        return ri_error(RONDO_ERR_MEMORY, "no memory for the settings");
    free(*field);
    *field = copy;
    return 0;
}

static int set_ms(int64_t *field, const char *name, int value)
{
    if (value < 0)
        return ri_error(RONDO_ERR_ARGUMENT, "config->%s is %d ms; give more than 0, or 0 for the default", name,
                        value);
    if (value)
        *field = value;
    return 0;
}

/* name: of the variable or the member that holds the value. */
static int check_progress(const char *name, const char *value)
{
    if (!value || strcmp(value, "caller") == 0 || strcmp(value, "thread") == 0)
        return 0;
    return ri_error(RONDO_ERR_ARGUMENT, "%s='%.64s' is refused: give caller or thread", name, value);
}

int ri_settings(struct ri_config *config, const rondo_config_t *call)
{
    rondo_config_t over = whole(call);
    int err;

    *config = (struct ri_config){ .timeout_ms = DEFAULT_TIMEOUT_MS, .connect_timeout_ms = DEFAULT_CONNECT_MS };
    err = ri_config_load(config);
    if (!err)
        err = set_text(&config->transport, over.transport);
    if (!err)
        err = set_text(&config->host_id, over.host_id);
    if (!err)
        err = set_ms(&config->timeout_ms, "timeout_ms", over.timeout_ms);
    if (!err)
        err = set_ms(&config->connect_timeout_ms, "connect_timeout_ms", over.connect_timeout_ms);
    if (!err)
        err = check_progress("RONDO_PROGRESS", config->progress);
    if (!err)
        err = check_progress("config->progress", over.progress);
    if (!err)
        err = set_text(&config->progress, over.progress);
    if (!err)
        err = set_text(&config->topo, over.topo);
    return err;
}

int ri_settings_copy(struct ri_config *config, const struct ri_config *from)
{
    int err;

    *config = *from;
    config->transport = config->host_id = config->interface = config->trace = config->net_devices = NULL;
    config->progress = config->topo = NULL;
    err = set_text(&config->transport, from->transport);
    if (!err)
        err = set_text(&config->host_id, from->host_id);
    if (!err)
        err = set_text(&config->interface, from->interface);
    if (!err)
        err = set_text(&config->trace, from->trace);
    if (!err)
        err = set_text(&config->net_devices, from->net_devices);
    if (!err)
        err = set_text(&config->progress, from->progress);
    if (!err)
        err = set_text(&config->topo, from->topo);
    return err;
}
