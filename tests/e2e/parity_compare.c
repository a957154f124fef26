/* SPDX-License-Identifier: Apache-2.0 */
/* Compares what two training runs wrote.
 *   parity_compare gradients A B    relative L2 difference of B's gradients from A's
 *   parity_compare losses A B       largest relative difference of the loss over the steps
 *   parity_compare same A B         nothing but exit status 1 when a loss differs in any digit */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gradients {
    float *values;
    uint64_t count;
};

static _Noreturn void die(const char *path, const char *what)
{
    fprintf(stderr, "parity_compare: %s: %s\n", path, what);
    exit(2);
}

static double must_be_finite(const char *path, double difference)
{
    if (!isfinite(difference))
        die(path, "holds what is not a number");
    return difference;
}

/* 8 bytes "RONDOGRD", uint32 version 1, uint32 bytes of the header, uint64 count, double loss. */
static struct gradients read_gradients(const char *path)
{
    FILE *in = fopen(path, "rb");
    struct gradients g = { NULL, 0 };
    uint32_t words[2];
    char magic[8];

    if (!in)
        die(path, "cannot be opened");
    if (fread(magic, 8, 1, in) != 1 || memcmp(magic, "RONDOGRD", 8) != 0 ||
        fread(words, sizeof(words), 1, in) != 1 || words[0] != 1 ||
        fread(&g.count, sizeof(g.count), 1, in) != 1 || fseek(in, (long)words[1], SEEK_SET) != 0)
        die(path, "is no file of gradients");
    g.values = malloc((size_t)g.count * sizeof(*g.values) + 1);
    if (!g.values || fread(g.values, sizeof(*g.values), (size_t)g.count, in) != g.count)
        die(path, "is cut short");
    fclose(in);
    return g;
}

static double compare_gradients(const char *a, const char *b)
{
    struct gradients x = read_gradients(a), y = read_gradients(b);
    double diff2 = 0, ref2 = 0;

    if (x.count != y.count || x.count == 0)
        die(b, "has another count");
    for (uint64_t i = 0; i < x.count; i++) {
        double diff = (double)y.values[i] - x.values[i];

        diff2 += diff * diff;
        ref2 += (double)x.values[i] * x.values[i];
    }
    free(x.values);
    free(y.values);
    return must_be_finite(b, sqrt(diff2 / ref2));
}

/* Column `loss` of "step,loss,..."; returns how many rows were read. */
static int read_losses(const char *path, double *losses, int max)
{
    FILE *in = fopen(path, "r");
    char line[512];
    int count = 0;

    if (!in)
        die(path, "cannot be opened");
    while (count < max && fgets(line, sizeof(line), in))
        count += sscanf(line, "%*d,%lf", &losses[count]) == 1;
    fclose(in);
    if (count == 0)
        die(path, "holds no losses");
    return count;
}

static double compare_losses(const char *a, const char *b, int *same)
{
    static double x[100000], y[100000];
    int count = read_losses(a, x, 100000);
    double worst = 0;

    if (read_losses(b, y, 100000) != count)
        die(b, "has another number of steps");
    *same = memcmp(x, y, (size_t)count * sizeof(x[0])) == 0;
    for (int i = 0; i < count; i++)
        worst = fmax(worst, must_be_finite(b, fabs(y[i] - x[i]) / fabs(x[i])));
    return worst;
}

int main(int argc, char **argv)
{
    int same = 1;

    if (argc != 4) {
        fprintf(stderr, "usage: parity_compare gradients|losses|same A B\n");
        return 2;
    }
    if (strcmp(argv[1], "gradients") == 0)
        printf("%.3e\n", compare_gradients(argv[2], argv[3]));
    else if (strcmp(argv[1], "losses") == 0)
        printf("%.3e\n", compare_losses(argv[2], argv[3], &same));
    else
        compare_losses(argv[2], argv[3], &same);
    return strcmp(argv[1], "same") == 0 && !same;
}
