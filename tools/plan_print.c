/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan_print.h"

#include <stdio.h>
#include <string.h>

static const char *const launch_names[] = {"host", "one", "lanes"};

static const char *mask_name(const struct plan_options *o)
{
    return o->causal ? "causal" : "full";
}

/* "K 4, dK 5" */
static void buffers_text(const struct ri_candidate *one, char *text, size_t bytes)
{
    size_t used = 0;

    snprintf(text, bytes, "none");
    for (int b = 0; b < RI_BUNDLES; b++)
        if (one->own_blocks[b] > 0 && used < bytes)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s %.4g", used ? ", " : "",
                                     ri_bundle_names[b], one->own_blocks[b]);
}

static const char *nic_text(const struct plan_options *o, char *text, size_t bytes)
{
    if (o->shared_nic > 1)
        snprintf(text, bytes, "shared by %d ranks", o->shared_nic);
    else
        snprintf(text, bytes, "%s", o->shared_nic ? "shared by the ranks of a host" : "for each rank");
    return text;
}

static void print_head(const struct plan_options *o, const struct plan_pass *passes, int count)
{
    char nics[64];

    printf("machine %s: %d rank%s on %d host%s; local %g GB/s, %g us; host %g GB/s, %g us, %s\n",
           o->machine, o->ranks, o->ranks == 1 ? "" : "s", o->hosts, o->hosts == 1 ? "" : "s",
           o->bandwidth[RI_LANE_LOCAL] / 1e9, o->latency[RI_LANE_LOCAL] * 1e6,
           o->bandwidth[RI_LANE_HOST] / 1e9, o->latency[RI_LANE_HOST] * 1e6,
           nic_text(o, nics, sizeof(nics)));
    printf("%lld tokens, %lld query and %lld key heads of %lld, values of %lld, batch %lld; mask "
           "%s; launch %s%s\n",
           (long long)o->tokens, (long long)o->q_heads, (long long)o->kv_heads,
           (long long)o->head_dim, (long long)o->v_dim, (long long)o->batch,
           mask_name(o), launch_names[o->launch], o->bind ? ", bound" : "");
    for (int i = 0; i < count; i++)
        printf("%s: a rank computes for %.4g ms\n", passes[i].name,
               passes[i].cost.compute_seconds * o->ranks * 1e3);
    if (count > 0 && passes[0].count > 0 && passes[0].list[0].priced_ranks < o->ranks)
        printf("times are those of %d ranks on some of the hosts, or on parts of them, and "
               "scaled\n",
               passes[0].list[0].priced_ranks);
}

static void print_row(const struct plan_options *o, const struct plan_pass *pass, int i)
{
    const struct ri_candidate *one = &pass->list[i];
    char buffers[96];

    buffers_text(one, buffers, sizeof(buffers));
    printf("%c %-9s %-10s %-8s %-10s %10.3f %10.3f %10.3f %10.3f  %-18s %9.3f%s\n", i ? ' ' : '*',
           pass->name, one->schedule, one->gradients ? one->gradients : "-",
           one->variant[0] ? one->variant : "-", one->seconds * 1e3,
           (one->seconds - one->compute_seconds) * 1e3, one->sent[RI_LANE_LOCAL] / 1e6,
           one->sent[RI_LANE_HOST] / 1e6, buffers, one->own_units / 1e6,
           !o->check         ? ""
           : pass->proved[i] ? "  proved"
                             : "  WRONG");
}

void plan_print_table(const struct plan_options *options, const struct plan_pass *passes, int count)
{
    print_head(options, passes, count);
    printf("\n  %-9s %-10s %-8s %-10s %10s %10s %10s %10s  %-18s %9s\n", "pass", "schedule",
           "backward", "variant", "ms", "exposed ms", "local MB", "host MB", "buffers, blocks",
           "MB");
    for (int p = 0; p < count; p++)
        for (int i = 0; i < passes[p].count; i++)
            print_row(options, &passes[p], i);
    printf("\n* cheapest of its pass; MB are sent by the rank that sends most on the lane\n");
}

static void print_json_candidate(const struct plan_options *o, const struct plan_pass *pass, int i)
{
    const struct ri_candidate *one = &pass->list[i];
    const char *separator = "";

    printf(
        "    {\"pass\": \"%s\", \"schedule\": \"%s\", \"backward\": \"%s\", \"variant\": \"%s\", "
        "\"cheapest\": %s,\n     \"seconds\": %.9g, \"compute_seconds\": %.9g, "
        "\"local_bytes\": %.15g, \"host_bytes\": %.15g, \"buffer_bytes\": %.15g,\n"
        "     \"buffer_blocks\": {",
        pass->name, one->schedule, one->gradients ? one->gradients : "none", one->variant,
        i ? "false" : "true", one->seconds, one->compute_seconds, one->sent[RI_LANE_LOCAL],
        one->sent[RI_LANE_HOST], one->own_units);
    for (int b = 0; b < RI_BUNDLES; b++) {
        if (!(one->own_blocks[b] > 0))
            continue;
        printf("%s\"%s\": %.9g", separator, ri_bundle_names[b], one->own_blocks[b]);
        separator = ", ";
    }
    printf("}, \"priced_ranks\": %d", one->priced_ranks);
    if (o->check)
        printf(", \"proved\": %s", pass->proved[i] ? "true" : "false");
    printf("}");
}

void plan_print_json(const struct plan_options *o, const struct plan_pass *passes, int count)
{
    const char *separator = "";

    printf("{\"machine\": {\"name\": \"%s\", \"ranks\": %d, \"hosts\": %d, \"shared_nic\": %s, "
           "\"launch\": \"%s\",\n  \"local_bytes_per_second\": %.9g, "
           "\"local_latency_seconds\": %.9g,\n  \"host_bytes_per_second\": %.9g, "
           "\"host_latency_seconds\": %.9g, \"flops_per_second\": %.9g},\n"
           " \"tokens\": %lld, \"q_heads\": %lld, \"kv_heads\": %lld, \"head_dim\": %lld, "
           "\"v_dim\": %lld, \"batch\": %lld, \"dtype_bytes\": %lld, \"mask\": \"%s\", "
           "\"bind\": %s,\n \"candidates\": [",
           o->machine, o->ranks, o->hosts, o->shared_nic ? "true" : "false",
           launch_names[o->launch], o->bandwidth[RI_LANE_LOCAL], o->latency[RI_LANE_LOCAL],
           o->bandwidth[RI_LANE_HOST], o->latency[RI_LANE_HOST], o->flops, (long long)o->tokens,
           (long long)o->q_heads, (long long)o->kv_heads, (long long)o->head_dim,
           (long long)o->v_dim, (long long)o->batch, (long long)o->dtype_bytes, mask_name(o),
           o->bind ? "true" : "false");
    for (int p = 0; p < count; p++)
        for (int i = 0; i < passes[p].count; i++) {
            printf("%s\n", separator);
            print_json_candidate(o, &passes[p], i);
            separator = ",";
        }
    printf("\n ]}\n");
}
