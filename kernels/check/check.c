/* SPDX-License-Identifier: Apache-2.0 */
/* rondo_kernel_check: runs the cases that a kernel's flags promise, and reports each. */
#include "kernels/check/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/status.h"
#include "kernels/table.h"

/* Memory of a case, or address space. */
struct ri_probe_block {
    struct ri_probe_block *next;
    void *memory;
    size_t mapped_bytes; /* 0: from the heap */
};

static void *add_block(struct ri_probe *c, void *memory, size_t mapped_bytes)
{
    struct ri_probe_block *block = memory ? malloc(sizeof(*block)) : NULL;

    if (!block && memory && mapped_bytes)
        munmap(memory, mapped_bytes);
    else if (!block)
        free(memory);
    if (!block)
        return NULL;
    *block = (struct ri_probe_block){ c->blocks, memory, mapped_bytes };
    c->blocks = block;
    return memory;
}

void *ri_probe_alloc(struct ri_probe *c, size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 64) / 64 * 64), *kept = add_block(c, memory, 0);

    if (kept)
        memset(kept, 0, bytes);
    else
        ri_probe_say(c, RONDO_ERR_MEMORY, "no %zu bytes of memory", bytes);
    return kept;
}

void *ri_probe_map(struct ri_probe *c, size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED)
        return NULL;
    madvise(memory, bytes, MADV_NOHUGEPAGE); /* else each row that is touched may take 2 MiB */
    return add_block(c, memory, bytes);
}

void ri_probe_release(struct ri_probe *c, struct ri_probe_block *mark)
{
    while (c->blocks != mark) {
        struct ri_probe_block *block = c->blocks;

        c->blocks = block->next;
        if (block->mapped_bytes)
            munmap(block->memory, block->mapped_bytes);
        else
            free(block->memory);
        free(block);
    }
}

int ri_probe_say(struct ri_probe *c, int status, const char *format, ...)
{
    int length = snprintf(c->text, sizeof(c->text), "%s: ", c->name);
    va_list list;

    va_start(list, format);
    vsnprintf(c->text + length, sizeof(c->text) - (size_t)length, format, list);
    va_end(list);
    return status;
}

static const struct ri_probe_case *const tables[] = { ri_probe_tiles, ri_probe_shapes, ri_probe_sums,
                                                      ri_probe_numbers, ri_probe_properties, ri_probe_options };
enum { TABLES = sizeof(tables) / sizeof(tables[0]) };

static const struct {
    unsigned flag;
    const char *name;
} abilities[] = {
    { RONDO_KERNEL_BF16, "BF16" }, { RONDO_KERNEL_F16, "F16" }, { RONDO_KERNEL_SOFTCAP, "SOFTCAP" },
    { RONDO_KERNEL_DROPOUT, "DROPOUT" }, { RONDO_KERNEL_POLLS, "POLLS" },
};

/* Why the case does not run, in the text, or 0. */
static int skip_reason(struct ri_probe *c, const struct ri_probe_case *one)
{
    unsigned lacks = one->needs & ~c->kernel->flags;

    for (size_t i = 0; i < sizeof(abilities) / sizeof(abilities[0]); i++)
        if (lacks & abilities[i].flag)
            return ri_probe_say(c, RI_PROBE_SKIPPED, "the kernel's flags lack %s", abilities[i].name);
    if (c->backward && !c->kernel->backward)
        return ri_probe_say(c, RI_PROBE_SKIPPED, "the kernel has no backward");
    if (one->large && !c->large)
        return ri_probe_say(c, RI_PROBE_SKIPPED, "it takes memory and time; ask for large cases");
    return 0;
}

/* What runs of the cases, and what came of it. */
struct tally {
    const rondo_kernel_check_options_t *options;
    int chosen, failed;
};

static int run_pass(struct ri_probe *c, const struct ri_probe_case *one, int backward, struct tally *tally)
{
    const rondo_kernel_check_options_t *options = tally->options;
    char name[128];
    int status;

    snprintf(name, sizeof(name), "%s.%s", backward ? "backward" : "forward", one->name);
    if (options->only && !strstr(name, options->only))
        return 0;
    c->name = name;
    c->backward = backward;
    c->text[0] = '\0';
    status = skip_reason(c, one);
    if (!status)
        status = one->run(c, one->data);
    ri_probe_release(c, NULL);
    if (status < 0 && status != RONDO_ERR_VERIFY)
        return ri_error(status, "kernel %s: %s", c->kernel->name, c->text);
    tally->chosen++;
    tally->failed += status < 0;
    if (options->report)
        options->report(options->owner, name, status, c->text);
    return 0;
}

static int run_all(struct ri_probe *c, struct tally *tally)
{
    int err = 0;

    for (int t = 0; t < TABLES && !err; t++)
        for (const struct ri_probe_case *one = tables[t]; one->name && !err; one++) {
            if (one->pass & RI_PROBE_FORWARD)
                err = run_pass(c, one, 0, tally);
            if (!err && one->pass & RI_PROBE_BACKWARD)
                err = run_pass(c, one, 1, tally);
        }
    return err;
}

static int check_arguments(const rondo_kernel_t *kernel, const rondo_kernel_check_options_t *options,
                           const int *failed)
{
    if (!kernel || !options || !failed)
        return ri_error(RONDO_ERR_ARGUMENT, "%s is NULL", !kernel ? "kernel" : !options ? "options" : "failed");
    if (kernel->struct_bytes != sizeof(*kernel))
        return ri_error(RONDO_ERR_ARGUMENT, "kernel.struct_bytes is %zu, not %zu", kernel->struct_bytes,
                        sizeof(*kernel));
    if (!kernel->name || !kernel->forward)
        return ri_error(RONDO_ERR_ARGUMENT, "kernel.%s is NULL", kernel->name ? "forward" : "name");
    if (kernel->flags & ~RI_KERNEL_FLAGS)
        return ri_error(RONDO_ERR_ARGUMENT, "kernel.flags are 0x%x, of which this version does not know 0x%x",
                        kernel->flags, kernel->flags & ~RI_KERNEL_FLAGS);
    if (options->struct_bytes != sizeof(*options))
        return ri_error(RONDO_ERR_ARGUMENT, "options.struct_bytes is %zu, not %zu: start from "
                        "RONDO_KERNEL_CHECK_OPTIONS_INIT", options->struct_bytes, sizeof(*options));
    if (!(options->tolerance > 0) || options->tolerance > 1)
        return ri_error(RONDO_ERR_ARGUMENT, "options.tolerance is %g; it is above 0 and at most 1",
                        (double)options->tolerance);
    return 0;
}

rondo_status_t rondo_kernel_check(const rondo_kernel_t *kernel, const rondo_kernel_check_options_t *options,
                                  int *failed)
{
    int err = check_arguments(kernel, options, failed);
    struct tally tally = { .options = options };
    struct ri_probe c;

    if (err)
        return err;
    c = (struct ri_probe){ .kernel = kernel, .tolerance = (double)options->tolerance, .seed = options->seed,
                           .large = options->large };
    err = run_all(&c, &tally);
    if (err)
        return err;
    if (!tally.chosen)
        return ri_error(RONDO_ERR_ARGUMENT, "options.only is \"%s\", which no case's name contains", options->only);
    *failed = tally.failed;
    return 0;
}
