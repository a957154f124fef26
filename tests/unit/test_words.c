/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks disagree about is said in words where it has words. */
#include "tests/group.h"

static const struct ri_field *spoken[RANKS_MAX];
static int spoken_count;

static void agree_on_spoken(struct group *group, int index)
{
    struct member *it = &group->members[index];

    note(it, ri_agree(it->comm, "attention plan", spoken[index], spoken_count, 0));
}

static void speak(const struct ri_field *zero, const struct ri_field *others, int count, int status,
                  const char *text)
{
    struct group group;

    group_init(&group, 3);
    group.then = agree_on_spoken;
    spoken_count = count;
    for (int r = 0; r < 3; r++)
        spoken[r] = r ? others : zero;
    run_group(&group);
    if (status)
        all_say(&group, status, text);
    else
        all_are_good(&group);
}

static void values_have_names(void **state)
{
    static const char *const masks[] = { "full", "causal", NULL };
    const struct ri_field zero = { .name = "mask", .value = 1, .names = masks, .name_count = 3 };
    struct ri_field other = zero;

    (void)state;
    speak(&zero, &other, 1, 0, NULL);
    other.value = 0;
    speak(&zero, &other, 1, RONDO_ERR_MISMATCH, "attention plan: mask is causal on rank 0 and full on rank 1");
    other.value = 2;
    speak(&zero, &other, 1, RONDO_ERR_MISMATCH, "mask is causal on rank 0 and 2 on rank 1");
    other.value = -1;
    speak(&other, &zero, 1, RONDO_ERR_MISMATCH, "mask is -1 on rank 0 and causal on rank 1");
}

static void texts_are_compared_and_printed(void **state)
{
    const struct ri_field zero[] = { { .name = "schedule", .text = "ring" }, { "tokens", 7 },
                                     { .name = "backward", .text = "" } };
    struct ri_field others[] = { { .name = "schedule", .text = "ring" }, { "tokens", 7 },
                                 { .name = "backward", .text = "" } };

    (void)state;
    speak(zero, others, 3, 0, NULL);
    others[2].text = "q-grad";
    speak(zero, others, 3, RONDO_ERR_MISMATCH, "backward is  on rank 0 and q-grad on rank 1");
    others[1].value = 8;
    speak(zero, others, 3, RONDO_ERR_MISMATCH, "tokens is 7 on rank 0 and 8 on rank 1");
    others[0].text = "two-level";
    speak(zero, others, 3, RONDO_ERR_MISMATCH, "schedule is ring on rank 0 and two-level on rank 1");
}

static void long_texts_are_cut_and_compared_whole(void **state)
{
    static char same[4000], longer[4000];
    const struct ri_field zero[] = { { .name = "machine", .text = same }, { .name = "order", .text = "x" } };
    struct ri_field others[] = { { .name = "machine", .text = longer }, { .name = "order", .text = "x" } };

    (void)state;
    memset(same, 'a', sizeof(same) - 1);
    memcpy(longer, same, sizeof(same));
    speak(zero, others, 2, 0, NULL);
    longer[3000] = 'b';
    speak(zero, others, 2, RONDO_ERR_MISMATCH, "aaa... on rank 0 and aaaa");
    speak(zero, others, 2, RONDO_ERR_MISMATCH, "aaa... on rank 1, which differs further on");
    longer[0] = 'b';
    speak(zero, others, 2, RONDO_ERR_MISMATCH, "and baaaa");
}

static void too_many_texts_are_refused(void **state)
{
    static struct ri_field many[17];

    (void)state;
    for (int i = 0; i < 17; i++)
        many[i] = (struct ri_field){ .name = "one of many", .text = "x" };
    speak(many, many, 16, 0, NULL);
    speak(many, many, 17, RONDO_ERR_INTERNAL, "attention plan compares 17 values");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_have_names),
        cmocka_unit_test(texts_are_compared_and_printed),
        cmocka_unit_test(long_texts_are_cut_and_compared_whole),
        cmocka_unit_test(too_many_texts_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
