/* SPDX-License-Identifier: Apache-2.0 */
/* The installed suite over flash with each set of inner loops that runs here, without any library: for
 * processors that other test programs are not built for.  Exit status 1 when a case fails. */
#include <stdio.h>
#include <string.h>

#include <rondo/kernel.h>

#include "kernels/cpu/flash.h"
#include "kernels/table.h"

static int forward(void *context, const rondo_kernel_forward_t *args)
{
    return ri_flash_forward(context, args);
}

static int backward(void *context, const rondo_kernel_backward_t *args)
{
    return ri_flash_backward(context, args);
}

struct tally {
    const char *kernel;
    int passed, skipped;
};

static void report(void *owner, const char *name, int status, const char *text)
{
    struct tally *tally = owner;

    tally->passed += status == 0;
    tally->skipped += status > 0;
    if (status)
        printf("flash, %s: %s: %s\n", tally->kernel, status > 0 ? "skipped" : "failed", text);
}

/* All 16-bit numbers there and back, by the loops that the kernels use. */
static int converts(rondo_dtype_t type)
{
    static uint16_t all[1 << 16], back[1 << 16];
    static float wide[1 << 16];
    uint32_t infinity = type == RONDO_BF16 ? 0x7f80 : 0x7c00;
    int bad = 0;

    for (uint32_t x = 0; x < 1 << 16; x++)
        all[x] = (uint16_t)x;
    ri_convert_to_f32(wide, all, type, 1 << 16);
    ri_convert_from_f32(back, type, wide, 1 << 16);
    for (uint32_t x = 0; x < 1 << 16; x++)
        bad += (x & 0x7fff) > infinity ? wide[x] == wide[x] : back[x] != x;
    return bad;
}

/* suite_main [PART-OF-A-CASE'S-NAME] */
int main(int count, char **words)
{
    int failed = converts(RONDO_BF16) + converts(RONDO_F16);

    if (failed)
        printf("%d numbers of 16 bits are converted wrongly\n", failed);
    for (int i = 0; ri_flash_variants[i]; i++) {
        rondo_kernel_check_options_t options = RONDO_KERNEL_CHECK_OPTIONS_INIT;
        struct tally tally = { .kernel = ri_flash_variants[i]->name };
        rondo_kernel_t kernel = ri_kernel_flash;
        int bad = 0;

        if (!ri_flash_variants[i]->supported())
            continue;
        kernel.context = (void *)(uintptr_t)ri_flash_variants[i];
        kernel.forward = forward;
        kernel.backward = backward;
        options.only = count > 1 ? words[1] : NULL;
        options.report = report;
        options.owner = &tally;
        if (rondo_kernel_check(&kernel, &options, &bad) != RONDO_OK)
            return 1;
        printf("flash, %s: %d cases passed, %d failed, %d skipped\n", tally.kernel, tally.passed, bad, tally.skipped);
        failed += bad || !tally.passed;
    }
    return failed != 0;
}
