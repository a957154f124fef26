/* SPDX-License-Identifier: Apache-2.0 */
/* Compares costs, orders, NICs and explanations with the texts that lie beside the cases.  A case is
 *
 *     machine: host:2 gpu:4 nvlink:300     in the words of rondo-topo-text(5)
 *     hosts: 0 1 0 1                       of each rank; without it, a rank for every GPU or NUMA node
 *     ranks: 12                            so many instead
 *
 * or, for what these words cannot say, a line "tree:" with a packed tree after it, at the end.
 * RONDO_TEST_UPDATE=1 writes the texts anew; review the difference like code. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <rondo/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/topo.h"

enum { MAX_CASES = 64, MAX_RANKS = 64, PATH = 4096, TEXT = 1 << 16 };

static char goldens[MAX_CASES][64]; /* without .case */

static FILE *open_beside(const char *name, const char *ending, const char *mode)
{
    const char *top = getenv("top_srcdir");
    char path[PATH];

    snprintf(path, sizeof(path), "%s/tests/topo/%s%s", top ? top : ".", name, ending);
    return fopen(path, mode);
}

/* Malloc'd; empty when there is no such file. */
static char *read_all(FILE *file)
{
    char *text = calloc(1, TEXT);
    size_t length = 0;

    assert_non_null(text);
    if (file) {
        length = fread(text, 1, TEXT - 1, file);
        assert_true(length < TEXT - 1);
        fclose(file);
    }
    text[length] = 0;
    return text;
}

/* What stands after "word: " at the start of a line; NULL: no such line. */
static const char *find_line(const char *text, const char *word)
{
    size_t length = strlen(word);

    for (; text && *text; text = strchr(text, '\n'), text += text != NULL)
        if (strncmp(text, word, length) == 0 && text[length] == ':')
            return text + length + 1;
    return NULL;
}

static struct ri_topo *read_machine(const char *name, const char *text)
{
    const char *tree = find_line(text, "tree"), *machine = find_line(text, "machine");
    struct ri_topo *topo = NULL;
    char line[512];

    if (tree) {
        if (ri_topo_unpack(tree + 1, &topo))
            fail_msg("%s: %s", name, rondo_last_error());
        return topo;
    }
    assert_non_null(machine);
    snprintf(line, sizeof(line), "%.*s", (int)strcspn(machine, "\n"), machine);
    if (ri_topo_from_text(line, &topo))
        fail_msg("%s: %s", name, rondo_last_error());
    return topo;
}

static struct ri_topo *read_case(const char *name)
{
    char *text = read_all(open_beside(name, ".case", "r"));
    const char *hosts = find_line(text, "hosts"), *ranks = find_line(text, "ranks");
    struct ri_topo *topo = read_machine(name, text);
    int32_t host_of[MAX_RANKS];
    int count = ranks ? atoi(ranks) : 0;

    for (char *end = NULL; hosts && count < MAX_RANKS; hosts = end) {
        hosts += strspn(hosts, " ");
        if (*hosts == '\n')
            break;
        host_of[count++] = (int32_t)strtol(hosts, &end, 10);
        assert_ptr_not_equal(hosts, end);
    }
    if (ri_topo_place(topo, count, hosts ? host_of : NULL, NULL))
        fail_msg("%s: %s", name, rondo_last_error());
    assert_in_range(topo->rank_count, 1, MAX_RANKS);
    free(text);
    return topo;
}

/* ---- what is printed ---- */

static void print_numbers(const char *title, const int32_t *numbers, int count, FILE *out)
{
    fprintf(out, "%s:", title);
    for (int i = 0; i < count; i++)
        fprintf(out, " %d", (int)numbers[i]);
    fprintf(out, "\n");
}

static void print_orders(const struct ri_topo *topo, FILE *out)
{
    int32_t numbers[MAX_RANKS];
    struct ri_topo_lanes lanes;
    char title[32];

    assert_int_equal(ri_topo_ring(topo, numbers), 0);
    print_numbers("ring", numbers, topo->rank_count, out);
    snprintf(title, sizeof(title), "%d rails", ri_topo_rails(topo, numbers));
    print_numbers(title, numbers, topo->rank_count, out);
    for (int size = 2; size < topo->rank_count; size++) {
        if (topo->rank_count % size)
            continue;
        assert_int_equal(ri_topo_head_groups(topo, size, numbers), topo->rank_count / size);
        snprintf(title, sizeof(title), "groups of %d", size);
        print_numbers(title, numbers, topo->rank_count, out);
    }
    assert_int_equal(ri_topo_lanes(topo, NULL, &lanes), 0);
    fprintf(out, "lanes: local %.4g GB/s %.4g us, host %.4g GB/s %.4g us, %d on a NIC\n", lanes.local_gbps,
            lanes.local_latency_us, lanes.host_gbps, lanes.host_latency_us, lanes.ranks_per_nic);
}

static void print_costs(const struct ri_topo *topo, FILE *out)
{
    struct ri_topo_path path;
    char level[12];

    fprintf(out, "\n     ");
    for (int b = 0; b < topo->rank_count; b++)
        fprintf(out, "%10d", b);
    for (int a = 0; a < topo->rank_count; a++) {
        fprintf(out, "\n%5d", a);
        for (int b = 0; b < topo->rank_count; b++) {
            ri_topo_rank_path(topo, a, b, &path);
            ri_topo_level_text(&path, level);
            if (a == b)
                fprintf(out, "%10s", "-");
            else
                fprintf(out, "%5s %4.3g", level, path.gbps);
        }
    }
    fprintf(out, "\n\n");
}

static char *print_case(const char *name)
{
    struct ri_topo *topo = read_case(name);
    char *text = NULL, *explained = ri_topo_explain(topo);
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    assert_non_null(out);
    assert_non_null(explained);
    print_orders(topo, out);
    print_costs(topo, out);
    fprintf(out, "%s", explained);
    assert_int_equal(fclose(out), 0);
    free(explained);
    ri_topo_destroy(topo);
    return text;
}

static void says_the_text(void **state)
{
    const char *name = *state, *update = getenv("RONDO_TEST_UPDATE");
    char *text = print_case(name), *expected;

    if (update && *update && strcmp(update, "0")) {
        FILE *out = open_beside(name, ".out", "w");

        assert_non_null(out);
        assert_true(fputs(text, out) >= 0);
        assert_int_equal(fclose(out), 0);
    }
    expected = read_all(open_beside(name, ".out", "r"));
    assert_string_equal(text, expected);
    free(expected);
    free(text);
}

/* ---- cases ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static int find_cases(void)
{
    const char *top = getenv("top_srcdir");
    char path[PATH];
    DIR *dir;
    int count = 0;

    snprintf(path, sizeof(path), "%s/tests/topo", top ? top : ".");
    dir = opendir(path);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        size_t length = strlen(entry->d_name);

        if (length < 6 || length - 5 >= sizeof(goldens[0]) || strcmp(entry->d_name + length - 5, ".case") ||
            count == MAX_CASES)
            continue;
        memcpy(goldens[count], entry->d_name, length - 5);
        goldens[count++][length - 5] = 0;
    }
    if (dir)
        closedir(dir);
    qsort(goldens, (size_t)count, sizeof(goldens[0]), by_name);
    return count;
}

static void cases_are_found(void **state)
{
    assert_true(goldens[0][0]);
}

int main(void)
{
    static struct CMUnitTest tests[MAX_CASES + 1];
    int count = find_cases(), n = 0;

    tests[n++] = (struct CMUnitTest)cmocka_unit_test(cases_are_found);
    for (int i = 0; i < count; i++)
        tests[n++] = (struct CMUnitTest){ goldens[i], says_the_text, NULL, NULL, goldens[i] };
    return _cmocka_run_group_tests("orders", tests, (size_t)n, NULL, NULL);
}
