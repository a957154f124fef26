/* SPDX-License-Identifier: Apache-2.0 */
/* What was measured, for programs: schema "rondo-topo-measure", version 1. */
#include "tools/topo_measure.h"
#include "tools/topo_text.h"

static void print_number(FILE *to, const char *key, double value)
{
    if (value > 0)
        fprintf(to, "\"%s\":%.6g", key, value);
    else
        fprintf(to, "\"%s\":null", key);
}

static void print_ranks(FILE *to, const struct measure *m)
{
    fprintf(to, "\"ranks\":[");
    for (int r = 0; r < m->info.size; r++) {
        const struct ri_topo_rank *rank = &m->topo->ranks[r];

        fprintf(to, "%s\n  {\"rank\":%d,\"host\":%d,\"host_name\":", r ? "," : "", r, (int)m->host_of[r]);
        topo_json_string(to, m->topo->objects[ri_topo_host_of(m->topo, rank->object)].name);
        fprintf(to, ",\"memory\":");
        topo_json_string(to, m->topo->objects[rank->object].name);
        fprintf(to, ",\"nic\":");
        if (rank->nic < 0)
            fprintf(to, "null");
        else
            topo_json_string(to, m->topo->objects[rank->nic].name);
        fprintf(to, "}");
    }
    fprintf(to, "],\n");
}

static void print_pair(FILE *to, const struct measure *m, int a, int b)
{
    struct ri_topo_path path;

    measure_expect(m, a, b, &path);
    fprintf(to, "  {\"from\":%d,\"to\":%d,\"level\":\"%s\",", a, b, ri_topo_level_names[path.level]);
    print_number(to, "gbps", m->gbps[a * m->info.size + b]);
    fputc(',', to);
    print_number(to, "expected_gbps", path.gbps);
    fprintf(to, ",\"known\":%s,\"short\":%s,", measure_is_known(m, a, b) ? "true" : "false",
            measure_is_short(m, a, b) ? "true" : "false");
    print_number(to, "latency_us", m->latency_us[a * m->info.size + b]);
    fputc(',', to);
    print_number(to, "expected_latency_us", path.latency_us);
    fputc('}', to);
}

static void print_pairs(FILE *to, const struct measure *m)
{
    int printed = 0;

    fprintf(to, "\"pairs\":[");
    for (int a = 0; a < m->info.size; a++)
        for (int b = 0; b < m->info.size; b++) {
            if (a == b)
                continue;
            fputs(printed++ ? ",\n" : "\n", to);
            print_pair(to, m, a, b);
        }
    fprintf(to, "],\n");
}

static void print_levels(FILE *to, const struct measure *m)
{
    int printed = 0;

    fprintf(to, "\"levels\":[");
    for (int which = 0; which < RI_TOPO_LEVELS; which++) {
        struct measure_level level;

        measure_level(m, (enum ri_topo_level)which, &level);
        if (!level.pairs)
            continue;
        fprintf(to, "%s\n  {\"level\":\"%s\",\"pairs\":%d,\"least_gbps\":%.6g,\"median_gbps\":%.6g,\"most_gbps\":%.6g,"
                "\"expected_gbps\":%.6g,\"latency_us\":%.6g,\"expected_latency_us\":%.6g}",
                printed++ ? "," : "", ri_topo_level_names[which], level.pairs, level.least_gbps, level.median_gbps,
                level.most_gbps, level.expected_gbps, level.latency_us, level.expected_latency_us);
    }
    fprintf(to, "]\n");
}

void measure_print_json(FILE *to, const struct measure *m)
{
    fprintf(to, "{\"schema\":\"rondo-topo-measure\",\"version\":1,\n\"size\":%d,\"hosts\":%d,\"transport\":",
            m->info.size, m->info.hosts);
    topo_json_string(to, m->info.transport);
    fprintf(to, ",\"together\":%s,\"seconds\":%.3f,\"least_share\":%.6g,\"short\":%d,\n",
            m->options.together ? "true" : "false", m->took_seconds, m->options.least_share, measure_count_short(m));
    print_ranks(to, m);
    print_pairs(to, m);
    print_levels(to, m);
    fprintf(to, "}\n");
}
