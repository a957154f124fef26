/* SPDX-License-Identifier: Apache-2.0 */
#include "folder.h"

#include "examples/train/options.h"
#include "examples/train/report.h"

enum { MOST_WORDS = 12 };

/* Parses a line of words, cut in place. */
static int parse(struct options *o, char *line, char **argv, struct problem *problem)
{
    int argc = 0;

    memset(problem, 0, sizeof(*problem));
    argv[argc++] = line; /* the program's name */
    for (char *word = strtok(line, " "); word && argc < MOST_WORDS; word = strtok(NULL, " "))
        argv[argc++] = word;
    return options_parse(o, argc, argv, problem);
}

static void defaults_are_those_of_the_demonstration(void **state)
{
    char *argv[MOST_WORDS], line[] = "";
    struct problem problem;
    struct options o;

    assert_int_equal(parse(&o, line, argv, &problem), 0);
    assert_string_equal(o.layout, "zigzag");
    assert_int_equal(o.tokens, 2048);
    assert_int_equal(o.steps, 0);
    assert_true(o.seconds > 0.0);
    assert_int_equal(o.path_count, 0);
    assert_int_equal(o.perturb, 0);
    assert_null(model_sizes_refused(&o.sizes));
}

static void both_spellings_and_paths_are_taken(void **state)
{
    char *argv[MOST_WORDS];
    char line[] = "a.txt --tokens 77 --layout=striped --steps 5 --perturb-ulp=3 -- --b";
    struct problem problem;
    struct options o;

    assert_int_equal(parse(&o, line, argv, &problem), 0);
    assert_int_equal(o.tokens, 77);
    assert_string_equal(o.layout, "striped");
    assert_int_equal(o.steps, 5);
    assert_true(o.seconds == 0.0);
    assert_int_equal(o.perturb, 1);
    assert_int_equal(o.perturb_seed, 3);
    assert_int_equal(o.path_count, 2);
    assert_string_equal(o.paths[0], "a.txt");
    assert_string_equal(o.paths[1], "--b");
}

static void refusals_name_option_and_value(void **state)
{
    static const struct {
        const char *line, *first, *second;
    } rows[] = {
        { "--tokens 1", "--tokens 1", "integer" },
        { "--tokens 0", "--tokens 0", "integer" },
        { "--tokens -5", "--tokens -5", "integer" },
        { "--tokens 12x", "--tokens 12x", "integer" },
        { "--tokens 99999999999999999999", "--tokens 99999999999999999999", "integer" },
        { "--steps 0", "--steps 0", "integer" },
        { "--seed -1", "--seed -1", "integer" },
        { "--lr nan", "--lr nan", "number" },
        { "--lr 1e-3x", "--lr 1e-3x", "number" },
        { "--seconds inf", "--seconds inf", "number" },
        { "--layout ring", "--layout ring", "contiguous|zigzag|striped|balanced" },
        { "--layout zig", "--layout zig", "contiguous|zigzag|striped|balanced" },
        { "--window 0", "--window 0", "integer" },
        { "--window -3", "--window -3", "integer" },
        { "--dtype f64", "--dtype f64", "fp32|bf16" },
        { "--documents --deal shards", "--deal shards", "sequence|documents" },
        { "--documents=1", "--documents", "no value" },
        { "--deal documents", "--deal documents", "--documents" },
        { "--documents --deal documents --layout balanced", "--deal documents", "--layout balanced" },
        { "--wire=", "--wire", "empty" },
        { "--schedule tree", "--schedule tree", "ring|two-level|direct|auto" },
        { "--backward kv", "--backward kv", "kv-grad|q-grad|auto" },
        { "--q-heads 6 --kv-heads 4", "--kv-heads 4", "--q-heads 6" },
        { "--head-dim 33", "--head-dim 33", "odd" },
        { "--q-heads 60000 --head-dim 16000", "--q-heads", "too large" },
        { "--nonsense 3", "--nonsense", "unknown" },
        { "-n 3", "-n", "unknown" },
        { "--save", "--save", "needs a value" },
        { "--save=", "--save", "empty" },
        { "--help=3", "--help", "no value" },
        { "--stop-at 3", "--stop-at 3", "--steps" },
        { "--resume x --perturb-ulp 1", "--perturb-ulp 1", "--resume x" },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *argv[MOST_WORDS], line[80];
        struct problem problem;
        struct options o;

        strcpy(line, rows[i].line);
        assert_int_equal(parse(&o, line, argv, &problem), -1);
        assert_int_equal(problem.exit_code, EXIT_USAGE);
        check_says(problem.text, rows[i].first);
        check_says(problem.text, rows[i].second);
    }
}

static void csv_and_picture_hold_the_rows(void **state)
{
    static const struct baselines baselines = { 3.25, 2.5 };
    static const struct step_row rows[2] = { { 1, 5.5, NAN, 1000.0, 0.25, 3.0 },
                                             { 2, 4.125, 4.25, 1500.0, 0.5, -1.0 } };
    struct problem problem = { 0, "" };
    struct report report;
    char *text;
    size_t bytes;

    assert_int_equal(report_open(&report, folder_name(*state, "a.b.csv"), NULL, 0, &problem), 0);
    report.lines = NULL;
    report_step(&report, &rows[0], 1.0);
    report_step(&report, &rows[1], 2.0);
    assert_int_equal(report_close(&report, &baselines, &problem), 0);
    text = folder_read(folder_name(*state, "a.b.csv"), &bytes);
    assert_string_equal(text, "step,loss,val_loss,tokens_per_s,exposed\n"
                              "1,5.5,,1000,0.25\n"
                              "2,4.125,4.25,1500,0.5\n");
    free(text);
    text = folder_read(folder_name(*state, "a.b.svg"), &bytes);
    check_says(text, "<svg ");
    check_says(text, "bigram 2.500");
    check_says(text, "</svg>\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_demonstration),
        cmocka_unit_test(both_spellings_and_paths_are_taken),
        cmocka_unit_test(refusals_name_option_and_value),
        cmocka_unit_test_setup_teardown(csv_and_picture_hold_the_rows, folder_make, folder_remove),
    };

    return cmocka_run_group_tests_name("train options", tests, NULL, NULL);
}
