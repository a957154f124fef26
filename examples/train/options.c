/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"

enum kind { TEXT, CHOICE, INTEGER, SEED, SIZE, REAL, FLAG };

#define AT(field) offsetof(struct options, field)

/* Every option, in the order of --help. */
static const struct option {
    const char *name;
    enum kind kind;
    size_t field;
    const char *value;   /* its name in the help; of a CHOICE: the values, parted by '|' */
    double least, most;  /* of a number */
    const char *help;
} table[] = {
    { "layout", CHOICE, AT(layout), "contiguous|zigzag|striped|balanced", 0, 0,
      "which tokens a rank holds [zigzag]" },
    { "documents", FLAG, AT(documents), NULL, 0, 0, "each file is a document: attention stays within it" },
    { "deal", CHOICE, AT(deal), "sequence|documents", 0, 0, "what is cut over ranks [sequence]" },
    { "window", INTEGER, AT(window), "W", 1, 1 << 30, "see W tokens, the own one among them [all before]" },
    { "dtype", CHOICE, AT(dtype), "fp32|bf16", 0, 0, "of q, k, v, o and their gradients [fp32]" },
    { "wire", TEXT, AT(wire), "TYPES", 0, 0, "bf16, f16 or k:bf16,dk:f16,...: as tensors travel" },
    { "schedule", CHOICE, AT(schedule), "ring|two-level|direct|auto", 0, 0, "of the attention [auto]" },
    { "backward", CHOICE, AT(backward), "kv-grad|q-grad|auto", 0, 0, "of the attention [auto]" },
    { "kernel", TEXT, AT(kernel), "NAME", 0, 0, "a bundled attention kernel [flash]" },
    { "transport", TEXT, AT(transport), "NAME", 0, 0, "self, shm, ucx, shm+ucx or auto [auto]" },
    { "tokens", INTEGER, AT(tokens), "N", 2, 1 << 30, "of one sequence, cut over all ranks [2048]" },
    { "steps", INTEGER, AT(steps), "N", 1, 1e15, "train for N steps" },
    { "seconds", REAL, AT(seconds), "S", 1e-3, 1e9, "train for S seconds, resumed ones included [150]" },
    { "stop-at", INTEGER, AT(stop_at), "STEP", 1, 1e15, "stop after this one of the --steps" },
    { "seed", SEED, AT(seed), "N", 0, 0, "of the first weights and the order of the text [1]" },
    { "lr", REAL, AT(rate), "R", 1e-9, 10, "highest learning rate [0.004]" },
    { "layers", SIZE, AT(sizes.layers), "N", 1, 1024, "[4]" },
    { "dim", SIZE, AT(sizes.dim), "N", 1, 16384, "width of the model [128]" },
    { "q-heads", SIZE, AT(sizes.q_heads), "N", 1, 65536, "[4]" },
    { "kv-heads", SIZE, AT(sizes.kv_heads), "N", 1, 65536, "divides q-heads [2]" },
    { "head-dim", SIZE, AT(sizes.head_dim), "N", 2, 16384, "even [32]" },
    { "hidden", SIZE, AT(sizes.hidden), "N", 1, 65536, "width of the feed-forward [384]" },
    { "val-every", INTEGER, AT(validate_every), "N", 1, 1e15, "steps between validations [50]" },
    { "val-windows", INTEGER, AT(windows), "N", 1, 1e6, "held-out sequences of each [4]" },
    { "csv", TEXT, AT(csv), "FILE", 0, 0, "step,loss,val_loss,tokens_per_s,exposed" },
    { "svg", TEXT, AT(svg), "FILE", 0, 0, "picture of the loss [beside the CSV]" },
    { "save", TEXT, AT(save), "FILE", 0, 0, "checkpoint at the end, also on Ctrl-C" },
    { "resume", TEXT, AT(resume), "FILE", 0, 0, "go on from a checkpoint" },
    { "save-grads", TEXT, AT(save_grads), "FILE", 0, 0, "write step 0's gradients, then stop" },
    { "perturb-ulp", SEED, AT(perturb_seed), "SEED", 0, 0,
      "move each first weight by its last place" },
    { "sample", INTEGER, AT(sample), "N", 0, 1e6, "bytes to generate at the end [320]" },
    { "temperature", REAL, AT(temperature), "T", 0, 100, "of the sample; 0: the likeliest [0.7]" },
    { "help", FLAG, AT(help), NULL, 0, 0, "print this" },
    { "version", FLAG, AT(version), NULL, 0, 0, "print the version" },
};

enum { OPTIONS = sizeof(table) / sizeof(table[0]), DEFAULT_SECONDS = 150 };

rondo_dtype_t options_dtype(const struct options *o)
{
    return strcmp(o->dtype, "bf16") == 0 ? RONDO_BF16 : RONDO_F32;
}

void options_help(FILE *out)
{
    fprintf(out,
            "usage: rondo-train [options] [text file or folder]...\n"
            "\n"
            "Trains a byte-level language model whose sequence is cut over all ranks.  Start the\n"
            "ranks with rondo-run: rondo-run -n 4 rondo-train --seconds 60 FILE.  Without a text:\n"
            "%s.\n\n",
            DATA_DEFAULT_TEXT);
    for (int i = 0; i < OPTIONS; i++) {
        char left[64];

        snprintf(left, sizeof(left), "--%s %s", table[i].name,
                 table[i].value ? table[i].value : "");
        fprintf(out, "  %-43s %s\n", left, table[i].help);
    }
}

static const struct option *find_option(const char *name, size_t length)
{
    for (int i = 0; i < OPTIONS; i++)
        if (strlen(table[i].name) == length && memcmp(table[i].name, name, length) == 0)
            return &table[i];
    return NULL;
}

/* Whether value is one of "a|b|c". */
static int is_choice(const char *choices, const char *value)
{
    size_t length = strlen(value);

    for (const char *p = choices; p; p = strchr(p, '|')) {
        p += *p == '|';
        if (length > 0 && strncmp(p, value, length) == 0 && (p[length] == '|' || p[length] == 0))
            return 1;
    }
    return 0;
}

static int set_integer(const struct option *opt, const char *value, void *field,
                       struct problem *problem)
{
    char *end;
    long long number;

    errno = 0;
    number = strtoll(value, &end, 10);
    if (errno || end == value || *end || (double)number < opt->least || (double)number > opt->most)
        return problem_set(problem, EXIT_USAGE, "--%s %s: not an integer from %.0f to %.0f",
                           opt->name, value, opt->least, opt->most);
    if (opt->kind == SIZE)
        *(int *)field = (int)number;
    else
        *(int64_t *)field = number;
    return 0;
}

static int set_seed(const struct option *opt, const char *value, uint64_t *field,
                    struct problem *problem)
{
    char *end;
    unsigned long long number;

    errno = 0;
    number = strtoull(value, &end, 10);
    if (errno || end == value || *end || value[0] == '-')
        return problem_set(problem, EXIT_USAGE, "--%s %s: not an integer from 0 to 2^64 - 1",
                           opt->name, value);
    *field = number;
    return 0;
}

static int set_real(const struct option *opt, const char *value, double *field,
                    struct problem *problem)
{
    char *end;
    double number = strtod(value, &end);

    if (end == value || *end || !(number >= opt->least && number <= opt->most))
        return problem_set(problem, EXIT_USAGE, "--%s %s: not a number from %g to %g", opt->name,
                           value, opt->least, opt->most);
    *field = number;
    return 0;
}

static int set_option(struct options *o, const struct option *opt, const char *value,
                      struct problem *problem)
{
    void *field = (char *)o + opt->field;

    switch (opt->kind) {
    case FLAG:
        *(int *)field = 1;
        return 0;
    case INTEGER:
    case SIZE:
        return set_integer(opt, value, field, problem);
    case SEED:
        o->perturb |= opt->field == AT(perturb_seed);
        return set_seed(opt, value, field, problem);
    case REAL:
        return set_real(opt, value, field, problem);
    case CHOICE:
        if (!is_choice(opt->value, value))
            return problem_set(problem, EXIT_USAGE, "--%s %s: not one of %s", opt->name, value,
                               opt->value);
        break;
    case TEXT:
        if (value[0] == 0)
            return problem_set(problem, EXIT_USAGE, "--%s is empty", opt->name);
        break;
    }
    *(const char **)field = value;
    return 0;
}

/* argv[at] is "--name value" or "--name=value"; returns how many words it took, or -1. */
static int parse_one(struct options *o, int argc, char **argv, int at, struct problem *problem)
{
    const char *name = argv[at] + 2;
    size_t length = strcspn(name, "=");
    const struct option *opt = find_option(name, length);

    if (!opt)
        return problem_set(problem, EXIT_USAGE, "unknown option --%.*s (see --help)", (int)length,
                           name);
    if (opt->kind == FLAG && name[length] == '=')
        return problem_set(problem, EXIT_USAGE, "--%s takes no value", opt->name);
    if (opt->kind == FLAG)
        return set_option(o, opt, NULL, problem) ? -1 : 1;
    if (name[length] == '=')
        return set_option(o, opt, name + length + 1, problem) ? -1 : 1;
    if (at + 1 >= argc)
        return problem_set(problem, EXIT_USAGE, "--%s needs a value", opt->name);
    return set_option(o, opt, argv[at + 1], problem) ? -1 : 2;
}

static int check_sizes(const struct options *o, struct problem *problem)
{
    const char *refused = model_sizes_refused(&o->sizes);

    if (o->sizes.q_heads % o->sizes.kv_heads != 0)
        return problem_set(problem, EXIT_USAGE, "--kv-heads %d does not divide --q-heads %d",
                           o->sizes.kv_heads, o->sizes.q_heads);
    if (o->sizes.head_dim % 2 != 0)
        return problem_set(problem, EXIT_USAGE, "--head-dim %d is odd", o->sizes.head_dim);
    if (refused)
        return problem_set(problem, EXIT_USAGE, "--%s is too large for the other sizes", refused);
    return 0;
}

static int check_documents(struct options *o, struct problem *problem)
{
    if (o->deal && !o->documents)
        return problem_set(problem, EXIT_USAGE, "--deal %s needs --documents", o->deal);
    if (!o->deal)
        o->deal = "sequence";
    if (strcmp(o->deal, "documents") == 0 && strcmp(o->layout, "balanced") == 0)
        return problem_set(problem, EXIT_USAGE,
                           "--deal documents: not with --layout balanced, which deals out the sequence");
    return 0;
}

static int check_together(struct options *o, struct problem *problem)
{
    if (check_sizes(o, problem) || check_documents(o, problem))
        return -1;
    if (o->perturb && o->resume)
        return problem_set(problem, EXIT_USAGE, "--perturb-ulp %llu: not with --resume %s",
                           (unsigned long long)o->perturb_seed, o->resume);
    if (o->save_grads && o->resume)
        return problem_set(problem, EXIT_USAGE, "--save-grads %s: not with --resume %s, it is step 0's",
                           o->save_grads, o->resume);
    if (o->stop_at && o->steps == 0)
        return problem_set(problem, EXIT_USAGE, "--stop-at %lld needs --steps",
                           (long long)o->stop_at);
    if (o->steps == 0 && o->seconds <= 0.0)
        o->seconds = DEFAULT_SECONDS;
    return 0;
}

int options_parse(struct options *o, int argc, char **argv, struct problem *problem)
{
    int kept = 1;

    *o = (struct options){ .layout = "zigzag",
                           .schedule = "auto",
                           .backward = "auto",
                           .dtype = "fp32",
                           .tokens = 2048,
                           .seed = 1,
                           .rate = 0.004,
                           .validate_every = 50,
                           .windows = 4,
                           .sample = 320,
                           .temperature = 0.7,
                           .sizes = { 4, 128, 4, 2, 32, 384, 256 } };
    for (int at = 1; at < argc;) {
        int took;

        if (strcmp(argv[at], "--") == 0) {
            while (++at < argc)
                argv[kept++] = argv[at];
            break;
        }
        if (strncmp(argv[at], "-", 1) != 0) {
            argv[kept++] = argv[at++];
            continue;
        }
        if (strncmp(argv[at], "--", 2) != 0)
            return problem_set(problem, EXIT_USAGE, "unknown option %s (see --help)", argv[at]);
        took = parse_one(o, argc, argv, at, problem);
        if (took < 0)
            return -1;
        at += took;
    }
    o->paths = argv + 1;
    o->path_count = kept - 1;
    return check_together(o, problem);
}
