/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/doctor.h"

#include <stdarg.h>
#include <string.h>

enum { SHOWN_ITEMS = 3 };

const char *const doctor_verdict_names[] = { "pass", "skip", "warn", "fail" };

static const struct {
    const char *name;
    doctor_check *check;
} checks[DOCTOR_CHECKS] = {
    { "memlock", doctor_memlock },
    { "shm", doctor_shm },
    { "cma", doctor_cma },
    { "cores", doctor_cores },
    { "memory", doctor_memory },
    { "ucx", doctor_ucx },
    { "ucx-gpus", doctor_ucx_gpus },
    { "fabric", doctor_fabric },
    { "ports", doctor_ports },
    { "gid", doctor_gid },
    { "mtu", doctor_mtu },
    { "distance", doctor_distance },
    { "pci", doctor_pci },
    { "numa", doctor_numa },
    { "gpus", doctor_gpus },
    { "libraries", doctor_libraries },
    { "notices", doctor_notices },
};

/* "; and 5 more" */
static void count_the_rest(struct doctor_finding *finding)
{
    size_t had = strlen(finding->text);

    if (finding->items > SHOWN_ITEMS)
        snprintf(finding->text + had, sizeof(finding->text) - had, "; and %d more", finding->items - SHOWN_ITEMS);
}

void doctor_judge(const struct doctor_facts *facts, struct doctor_finding findings[DOCTOR_CHECKS])
{
    for (int i = 0; i < DOCTOR_CHECKS; i++) {
        memset(&findings[i], 0, sizeof(findings[i]));
        findings[i].check = checks[i].name;
        checks[i].check(facts, &findings[i]);
        count_the_rest(&findings[i]);
    }
}

int doctor_count(const struct doctor_finding findings[DOCTOR_CHECKS], enum doctor_verdict verdict)
{
    int count = 0;

    for (int i = 0; i < DOCTOR_CHECKS; i++)
        count += findings[i].verdict == verdict;
    return count;
}

void doctor_say(struct doctor_finding *finding, enum doctor_verdict verdict, const char *format, ...)
{
    va_list args;

    finding->verdict = verdict;
    va_start(args, format);
    vsnprintf(finding->text, sizeof(finding->text), format, args);
    va_end(args);
}

void doctor_item(struct doctor_finding *finding, enum doctor_verdict verdict, const char *format, ...)
{
    char item[sizeof(finding->text) / (SHOWN_ITEMS + 1)];
    size_t had = finding->items ? strlen(finding->text) : 0;
    va_list args;

    if (verdict > finding->verdict)
        finding->verdict = verdict;
    if (finding->items++ >= SHOWN_ITEMS)
        return;
    va_start(args, format);
    vsnprintf(item, sizeof(item), format, args);
    va_end(args);
    snprintf(finding->text + had, sizeof(finding->text) - had, "%s%s", had ? "; " : "", item);
}

void doctor_remedy(struct doctor_finding *finding, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(finding->remedy, sizeof(finding->remedy), format, args);
    va_end(args);
}

const char *doctor_name(const struct ri_topo *topo, int32_t object, char name[160])
{
    const char *host = topo->objects[ri_topo_host_of(topo, object)].name;

    if (ri_topo_hosts(topo) > 1)
        snprintf(name, 160, "%s %s", host, topo->objects[object].name);
    else
        snprintf(name, 160, "%s", topo->objects[object].name);
    return name;
}
