/* SPDX-License-Identifier: Apache-2.0 */
/* Texts: of schemes that have no builder yet, and of garbage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <rondo/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/schedule/ranks.h"

/* Malloc'd. */
static char *read_beside(const char *name)
{
    const char *top = getenv("top_srcdir");
    char path[4096], *text = calloc(1, 1 << 16);
    FILE *file;

    snprintf(path, sizeof(path), "%s/tests/schedule/%s", top ? top : ".", name);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 16) - 1, file) > 0);
    fclose(file);
    return text;
}

/* Every rank's text is read, printed and read again as the same. */
static void comes_back(const struct ranks *all)
{
    for (int r = 0; r < all->count; r++) {
        char *once = ri_schedule_print(all->s[r]), *twice;
        struct ri_schedule *s = NULL;

        assert_int_equal(ri_schedule_parse(once, &s, NULL), 0);
        twice = ri_schedule_print(s);
        assert_string_equal(once, twice);
        assert_true(ri_schedule_hash(s) == ri_schedule_hash(all->s[r]));
        ri_schedule_destroy(s);
        free(once);
        free(twice);
    }
}

/* The text of one rank is also written down in full: with `after`, which all others leave out. */
static void holds(int ranks, char *(*text)(int, int), int rank, const char *file)
{
    struct ranks all;
    char *expected = read_beside(file), *printed;

    ranks_parse(&all, ranks, text);
    ranks_accept(&all, RI_GOAL_ATTENTION);
    comes_back(&all);
    printed = ri_schedule_print(all.s[rank]);
    assert_string_equal(printed, expected);
    ri_schedule_destroy(all.s[rank]);
    assert_int_equal(ri_schedule_parse(expected, &all.s[rank], NULL), 0);
    ranks_accept(&all, RI_GOAL_ATTENTION);
    ranks_release(&all);
    free(printed);
    free(expected);
}

static void two_level_forward_is_held(void **state)
{
    holds(8, text_two_level_fwd, 5, "two_level_fwd_5.txt");
}

static void two_level_q_grad_is_held(void **state)
{
    holds(4, text_two_level_q, 1, "two_level_Q_1.txt");
}

static void mesh_is_held(void **state)
{
    holds(4, text_mesh2x2, 1, "mesh2x2_fwd_1.txt");
}

static void all_to_all_by_head_groups_is_held(void **state)
{
    for (int ranks = 1; ranks <= 7; ranks++) {
        struct ranks all;

        ranks_parse(&all, ranks, text_all_to_all);
        ranks_accept(&all, RI_GOAL_ATTENTION);
        comes_back(&all);
        ranks_release(&all);
    }
}

static void chunked_ring_is_held(void **state)
{
    for (int ranks = 1; ranks <= 7; ranks++) {
        struct ranks all;

        ranks_parse(&all, ranks, text_chunked);
        ranks_accept(&all, RI_GOAL_ATTENTION);
        comes_back(&all);
        ranks_release(&all);
    }
}

/* Enough under the mask that it was cut for, not without one. */
static void trimmed_half_block_is_held(void **state)
{
    for (int ranks = 1; ranks <= 7; ranks++) {
        struct ri_check check;
        struct ranks all;

        ranks_parse(&all, ranks, text_zigzag_half);
        comes_back(&all);
        if (ri_schedule_check_live(all.s, ranks, RI_GOAL_ATTENTION, live_zigzag, &ranks, &check))
            fail_msg("%s", check.message);
        if (ranks > 1)
            assert_int_equal(ri_schedule_check(all.s, ranks, RI_GOAL_ATTENTION, &check),
                             RONDO_ERR_MISMATCH);
        ranks_release(&all);
    }
}

static void reads_one_schedule_after_another(void **state)
{
    struct draft d = {0};
    const char *at;
    int count = 0;

    for (int r = 0; r < 4; r++) {
        char *one = text_mesh2x2(r, 4);

        draft_line(&d, "%s", "");
        d.text = realloc(d.text, d.length + strlen(one) + 1);
        strcpy(d.text + d.length, one);
        d.length += strlen(one);
        free(one);
    }
    for (at = d.text; *at; count++) {
        struct ri_schedule *s = NULL;

        if (ri_schedule_parse(at, &s, &at))
            fail_msg("%s", rondo_last_error());
        assert_int_equal(s->rank, count);
        ri_schedule_destroy(s);
    }
    assert_int_equal(count, 4);
    free(d.text);
}

static void parts_blocks_owners_and_bind_come_back(void **state)
{
    static const char text[] =
        "schedule odd ranks 2 rank 0 heads 2 tokens 2\n"
        "hosts 3 3\n"
        "owners 0 1 1\n"
        "slot 0 K in\n"
        "slot 1 K view parts 2\n"
        "slot 2 K view parts 2\n"
        "slot 3 K view\n"
        "  0   4 local send      s0:K0.1+3 to 1\n"
        "  1   4 local recv      s1:K1-2.2+2 from 1\n"
        "  2   5 local send      s1:K1.2 to 1                           after 1\n"
        "  3   6 local recv      s3:K2 from 1 bind\n";
    struct ri_schedule *s = NULL;
    char *printed;

    if (ri_schedule_parse(text, &s, NULL))
        fail_msg("%s", rondo_last_error());
    assert_int_equal(s->blocks, 3);
    assert_int_equal(s->steps[1].to[0].blocks, 2);
    assert_int_equal(s->steps[3].bind, 1);
    assert_int_equal(s->turns, 7);
    printed = ri_schedule_print(s);
    assert_string_equal(printed, text);
    free(printed);
    ri_schedule_destroy(s);
}

static void hash_sees_every_field(void **state)
{
    struct ri_schedule *s;
    uint64_t plain, changed;

    assert_int_equal(ri_build_ring_kv_grad(&s, &(struct ri_build){ .rank = 1, .ranks = 4 }), 0);
    plain = ri_schedule_hash(s);
#define CHANGED_BY(field)          \
    s->field++;                    \
    changed = ri_schedule_hash(s); \
    s->field--;                    \
    assert_true(changed != plain)
    CHANGED_BY(rank);
    CHANGED_BY(head_parts);
    CHANGED_BY(token_parts);
    CHANGED_BY(owner[2]);
    CHANGED_BY(host[3]);
    CHANGED_BY(slots[2].parts);
    CHANGED_BY(slots[2].kind);
    CHANGED_BY(slots[2].bundle);
    CHANGED_BY(steps[0].op);
    CHANGED_BY(steps[0].lane);
    CHANGED_BY(steps[0].peer);
    CHANGED_BY(steps[0].turn);
    CHANGED_BY(steps[0].bind);
    CHANGED_BY(steps[0].merge);
    CHANGED_BY(steps[2].from[1].block);
    CHANGED_BY(steps[2].to[1].slot);
    CHANGED_BY(steps[2].to[0].first_part);
    CHANGED_BY(steps[2].stores);
    CHANGED_BY(deps[0]);
#undef CHANGED_BY
    assert_true(ri_schedule_hash(s) == plain);
    ri_schedule_destroy(s);
}

/* Refused with a text that has both pieces in it. */
static void refuses(const char *text, const char *where, const char *what)
{
    struct ri_schedule *s = NULL;

    assert_int_equal(ri_schedule_parse(text, &s, NULL), RONDO_ERR_ARGUMENT);
    assert_null(s);
    if (!strstr(rondo_last_error(), where) || !strstr(rondo_last_error(), what))
        fail_msg("'%s' lacks '%s' or '%s'", rondo_last_error(), where, what);
}

#define HEAD "schedule x ranks 3 rank 1 heads 1 tokens 1\nhosts 0 0 1\n"
#define SLOTS "slot 0 Q in\nslot 1 K in\nslot 2 O out\nslot 3 K view\nslot 4 O buf\n"

static void garbage_is_named(void **state)
{
    refuses("", "line 1", "schedule");
    refuses("skedule x", "line 1", "'skedule'");
    refuses("schedule x ranks 0 rank 0 heads 1 tokens 1", "line 1", "'0'");
    refuses("schedule x ranks 99999999999999999999 rank 0", "line 1", "'99999999999999999999'");
    refuses("schedule x ranks 32769 rank 0", "line 1", "'32769'");
    refuses("schedule x ranks 2 rank 2 heads 1 tokens 1", "line 1", "'2'");
    refuses("schedule x ranks 2 rank -1 heads 1 tokens 1", "line 1", "'-1'");
    refuses("schedule x ranks 2 rank 1 heads 300 tokens 300", "line 1", "'300'");
    refuses("schedule x ranks 2 rank 1 heads 1 tokens 1 extra", "line 1", "'extra'");
    refuses("schedule x ranks 2 rank 1 heads 1 tokens 1\n", "line 2", "hosts");
    refuses("schedule x ranks 2 rank 1 heads 1 tokens 1\nhosts 0\n", "line 2", "''");
    refuses("schedule x ranks 2 rank 1 heads 1 tokens 1\nhosts 0 0 0\n", "line 2", "'0'");
    refuses("schedule x ranks 2 rank 1 heads 1 tokens 1\nslot 0 Q in\n", "line 2", "'slot'");
    refuses(HEAD "hosts 0 0 1\n", "line 3", "'hosts'");
    refuses(HEAD "owners\n", "line 3", "'owners'");
    refuses(HEAD "owners 0 3\n", "line 3", "'3'");
    refuses(HEAD "slot 1 Q in\n", "line 3", "'1'");
    refuses(HEAD "slot 0 V in\n", "line 3", "'V'");
    refuses(HEAD "slot 0 Q inn\n", "line 3", "'inn'");
    refuses(HEAD "slot 0 Q in parts 2\n", "line 3", "'2'");
    refuses(HEAD "slot 0 Q in part 1\n", "line 3", "'part'");
    refuses(HEAD "slot 0 O view\n", "slot 0", "accumulated");
    refuses(HEAD "slot 0 K view\nslot 1 K in\n", "slot 1", "come first");
}

static void garbage_in_steps_is_named(void **state)
{
    refuses(HEAD SLOTS "1 0 local send s1:K1 to 0\n", "line 8", "'1'");
    refuses(HEAD SLOTS "0 0 local sent s1:K1 to 0\n", "line 8", "'sent'");
    refuses(HEAD SLOTS "0 0 rail send s1:K1 to 0\n", "line 8", "'rail'");
    refuses(HEAD SLOTS "0 x local send s1:K1 to 0\n", "line 8", "'x'");
    refuses(HEAD SLOTS "0 0 local send s9:K1 to 0\n", "line 8", "'s9:K1'");
    refuses(HEAD SLOTS "0 0 local send s1:Q1 to 0\n", "line 8", "'s1:Q1'");
    refuses(HEAD SLOTS "0 0 local send s1:K to 0\n", "line 8", "'s1:K'");
    refuses(HEAD SLOTS "0 0 local send s1:K1. to 0\n", "line 8", "'s1:K1.'");
    refuses(HEAD SLOTS "0 0 local send s1:K2-1 to 0\n", "line 8", "'s1:K2-1'");
    refuses(HEAD SLOTS "0 0 local send s1:K1+ to 0\n", "line 8", "'s1:K1+'");
    refuses(HEAD SLOTS "0 0 local send s1:K1 from 0\n", "line 8", "'from'");
    refuses(HEAD SLOTS "0 0 local send s1:K1 to 3\n", "line 8", "'3'");
    refuses(HEAD SLOTS "0 0 local send s1:K1 to 0 after 0\n", "line 8", "'0'");
    refuses(HEAD SLOTS "0 0 local send s1:K1 to 0 after\n", "line 8", "'after'");
    refuses(HEAD SLOTS "0 0 local send s1:K1 to 0 before\n", "line 8", "'before'");
    refuses(HEAD SLOTS "0 . . merge s4:O1 -> s2:O1\n", "line 8", "'s4:O1'");
    refuses(HEAD SLOTS "0 . . compute s0:Q1 s1:K1 s2:O1\n", "line 8", "'s2:O1'");
    refuses(HEAD SLOTS "0 . . compute s0:Q1 s1:K1 ->\n", "line 8", "''");
    refuses(HEAD SLOTS "0 . . compute s0:Q1 s1:K1 -> s2:O1 s4:O1\n", "line 8", "'s4:O1'");
    refuses(HEAD SLOTS "0 3 . compute s0:Q1 s1:K1 -> s2:O1\n", "line 8", "'3'");
    refuses(HEAD SLOTS "0 . . compute s0:Q1 s1:K1 -> s2:O1+\n", "line 8", "stores");
    refuses(HEAD SLOTS "0 0 local recv s3:K0 from 0\n1 1 local send s3:K0 to 0 after\n", "line 9",
            "''");
    refuses(HEAD SLOTS "0 0 local recv s3:K0 from 0\n1 . . compute s0:Q1 s1:K1 -> s2:O1 after 0\n",
            "line 9", "step 1");
    refuses(HEAD SLOTS "0 0 local send s1:K1 to 0\nslot 5 K view\n", "line 9", "'slot'");
}

/* What is well written but breaks a rule that one rank can see names rank and step. */
static void broken_rules_are_named(void **state)
{
    refuses(HEAD SLOTS "0 0 host send s1:K1 to 0\n", "rank 1 step 0", "lane is local");
    refuses(HEAD SLOTS "0 0 local send s1:K1 to 1\n", "rank 1 step 0", "peer 1");
    refuses(HEAD SLOTS "0 0 local send s3:K0 to 0\n", "rank 1 step 0", "empty");
    refuses(HEAD SLOTS "0 0 local recv s1:K0 from 0\n", "rank 1 step 0", "caller's input");
    refuses(HEAD SLOTS "0 0 local send s1:K1.0+2 to 0\n", "rank 1 step 0", "parts 0 to 1");
    refuses(HEAD SLOTS "0 0 local send s1:K3 to 0\n", "rank 1 step 0", "block 3");
    refuses(HEAD SLOTS "0 0 local recv s3:K0-1 from 0\n", "rank 1 step 0", "bundles");
    refuses(HEAD SLOTS "0 0 local recv s4:O0-1 from 0\n", "rank 1 step 0", "slot 4");
    refuses(HEAD SLOTS "0 0 local recv s4:O1 from 0\n1 1 local recv s4:O1 from 0\n",
            "rank 1 step 1", "nobody took");
    refuses(HEAD SLOTS "0 0 local recv s4:O1 from 0\n", "rank 1 step 0", "for good");
    refuses(HEAD SLOTS "0 0 local recv s3:K0 from 0\n1 0 local send s3:K0 to 0\n", "rank 1 step 1",
            "step 0 of turn 0");
    refuses(HEAD SLOTS "0 1 local send s1:K1 to 0\n1 0 local send s1:K1 to 0\n", "rank 1 step 1",
            "after turn 1");
    refuses(HEAD SLOTS "0 0 local recv s3:K0 from 0\n1 . . compute s0:Q1 s3:K2 -> s2:O1\n",
            "rank 1 step 1", "holds K0.0");
    refuses(HEAD SLOTS "0 . . compute s1:K1 s0:Q1 -> s2:O1\n", "rank 1 step 0", "Q and a K");
    refuses(HEAD SLOTS "0 . . compute s0:Q1 s1:K1 -> s2:O0\n", "rank 1 step 0", "another block");
    refuses(HEAD SLOTS "0 . . merge sum s3:K1 -> s1:K1\n", "rank 1 step 0", "caller's input");
    refuses(HEAD SLOTS "0 0 local recv s4:O1 from 0\n1 . . merge sum s4:O1 -> s4:O1+\n",
            "rank 1 step 1", "what it reads");
    refuses(HEAD SLOTS "0 . . copy s1:K1 -> s2:O1\n", "rank 1 step 0", "copies K to O");
    refuses(HEAD SLOTS "0 0 local recv s2:O1 from 0 bind\n", "rank 1 step 0", "view");
}

static uint32_t random_number(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static void mutate(char *text, uint64_t *state)
{
    static const char letters[] = "0123456789 .:+-\n>sKQOdafrom\t\x01\xff";
    size_t length = strlen(text), at = length ? random_number(state) % length : 0;

    if (!length)
        return;
    if (random_number(state) % 8 == 0)
        text[at] = 0;
    else if (random_number(state) % 4 == 0)
        memmove(text + at, text + at + 1, length - at);
    else
        text[at] = letters[random_number(state) % (sizeof(letters) - 1)];
}

/* Small damage to good texts: read or refused, never worse.  What is read can be printed and
 * checked. */
static void damaged_texts_do_no_harm(void **state)
{
    char *(*const texts[])(int, int) = {text_two_level_q, text_mesh2x2, text_all_to_all,
                                        text_zigzag_half};
    uint64_t seed = 20240817;
    int refused = 0, read = 0;

    for (int i = 0; i < 4000; i++) {
        char *text = texts[i % 4](i / 4 % 4, 4);
        struct ri_schedule *s = NULL;
        struct ri_check check;

        for (uint32_t n = random_number(&seed) % 3; n < 3; n++)
            mutate(text, &seed);
        if (ri_schedule_parse(text, &s, NULL)) {
            assert_true(strlen(rondo_last_error()) > 0);
            refused++;
        } else {
            free(ri_schedule_print(s));
            assert_int_not_equal(ri_schedule_check(&s, 1, RI_GOAL_ATTENTION, &check), 0);
            ri_schedule_destroy(s);
            read++;
        }
        free(text);
    }
    assert_true(refused > 400 && read > 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_level_forward_is_held),
        cmocka_unit_test(two_level_q_grad_is_held),
        cmocka_unit_test(mesh_is_held),
        cmocka_unit_test(all_to_all_by_head_groups_is_held),
        cmocka_unit_test(chunked_ring_is_held),
        cmocka_unit_test(trimmed_half_block_is_held),
        cmocka_unit_test(reads_one_schedule_after_another),
        cmocka_unit_test(parts_blocks_owners_and_bind_come_back),
        cmocka_unit_test(hash_sees_every_field),
        cmocka_unit_test(garbage_is_named),
        cmocka_unit_test(garbage_in_steps_is_named),
        cmocka_unit_test(broken_rules_are_named),
        cmocka_unit_test(damaged_texts_do_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
