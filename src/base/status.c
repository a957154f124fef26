/* SPDX-License-Identifier: Apache-2.0 */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>

#include "build-config.h"

static const char *const texts[] = {
    [-RONDO_OK] = "success",
    [-RONDO_ERR_ARGUMENT] = "bad argument",
    [-RONDO_ERR_MEMORY] = "out of memory",
    [-RONDO_ERR_SYSTEM] = "system call failed",
    [-RONDO_ERR_UNSUPPORTED] = "not supported",
    [-RONDO_ERR_MISMATCH] = "ranks disagree",
    [-RONDO_ERR_TIMEOUT] = "timed out",
    [-RONDO_ERR_PEER] = "another rank failed",
    [-RONDO_ERR_BUSY] = "object is in use",
    [-RONDO_ERR_TRANSPORT] = "transport failed",
    [-RONDO_ERR_KERNEL] = "kernel failed",
    [-RONDO_ERR_ID] = "bad unique id",
    [-RONDO_ERR_INTERNAL] = "internal error",
    [-RONDO_ERR_VERIFY] = "wrong result",
};

static _Thread_local char last_error[1024];

const char *rondo_strerror(rondo_status_t status)
{
    size_t index = status <= 0 ? (size_t)-(long)status : sizeof(texts);

    if (index >= sizeof(texts) / sizeof(texts[0]))
        return "unknown status";
    return texts[index];
}

const char *rondo_last_error(void)
{
    return last_error;
}

const char *rondo_version(void)
{
    return PACKAGE_VERSION;
}

int (ri_error)(int status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(last_error, sizeof(last_error), format, args);
    va_end(args);
    return status;
}
