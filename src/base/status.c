/* SPDX-License-Identifier: Apache-2.0 */
#include "base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

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

const char *ri_errno_text(int fault)
{
    static _Thread_local char text[160];
    struct rlimit limit = { 0 };
    int kept = errno;

    fault = abs(fault);
    snprintf(text, sizeof(text), "%s", strerror(fault));
    getrlimit(RLIMIT_NOFILE, &limit);
    if (fault == EMFILE)
        snprintf(text, sizeof(text), "%s; raise the limit of descriptors (ulimit -n), which is %llu now",
                 strerror(fault), (unsigned long long)limit.rlim_cur);
    if (fault == ENFILE)
        snprintf(text, sizeof(text), "%s; raise the limit of the machine (sysctl fs.file-max)",
                 strerror(fault));
    errno = kept;
    return text;
}

int (ri_error)(int status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(last_error, sizeof(last_error), format, args);
    va_end(args);
    return status;
}
