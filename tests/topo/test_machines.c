/* SPDX-License-Identifier: Apache-2.0 */
/* The machines that are installed, and what they cost, beside the texts in tests/topo/machines.  A new machine is
 * a file in topo/machines, and one here.  RONDO_TEST_UPDATE=1 writes the texts anew; review them like code. */
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

enum { MAX_MACHINES = 32, PATH = 4096, TEXT = 1 << 16 };

static char machines[MAX_MACHINES][64]; /* without .txt */

static FILE *open_file(const char *folder, const char *name, const char *ending, const char *mode)
{
    const char *top = getenv("top_srcdir");
    char path[PATH];

    snprintf(path, sizeof(path), "%s/%s/%s%s", top ? top : ".", folder, name, ending);
    return fopen(path, mode);
}

static char *read_all(FILE *file)
{
    char *text = calloc(1, TEXT);

    assert_non_null(text);
    if (!file)
        return text;
    assert_true(fread(text, 1, TEXT - 1, file) < TEXT - 1);
    fclose(file);
    return text;
}

static struct ri_topo *read_machine(const char *name)
{
    char *text = read_all(open_file("topo/machines", name, ".txt", "r"));
    struct ri_topo *topo = NULL;

    if (ri_topo_from_text(text, &topo))
        fail_msg("%s: %s", name, rondo_last_error());
    free(text);
    assert_int_equal(ri_topo_place(topo, 0, NULL, NULL), 0);
    return topo;
}

/* ---- what is printed ---- */

static void print_objects(const struct ri_topo *topo, FILE *out)
{
    for (int kind = 0; kind < RI_TOPO_KINDS; kind++)
        fprintf(out, "%s%s %d", kind ? ", " : "", ri_topo_kind_names[kind], ri_topo_count(topo, -1, kind));
    fprintf(out, ", links %d\n", (int)topo->link_count);
    for (int32_t i = 0; i < topo->object_count; i++) {
        const struct ri_topo_object *object = &topo->objects[i];

        fprintf(out, "%-8s %-10s", ri_topo_kind_names[object->kind], object->name);
        if (object->parent >= 0)
            fprintf(out, " of %s", topo->objects[object->parent].name);
        if (object->link_gbps > 0)
            fprintf(out, ", %g GB/s", object->link_gbps);
        if (object->cpus[0])
            fprintf(out, ", cores %s", object->cpus);
        if (object->kind == RI_TOPO_NIC)
            fprintf(out, ", %s, %g GB/s", ri_topo_layer_names[object->nic.layer], object->nic.gbps);
        fprintf(out, "\n");
    }
}

static void print_row(const struct ri_topo *topo, int32_t a, const int32_t *columns, int n, FILE *out)
{
    struct ri_topo_path path;
    char cell[64], level[12];

    fprintf(out, "%-8s", topo->objects[a].name);
    for (int k = 0; k < n; k++) {
        ri_topo_path(topo, a, columns[k], &path);
        ri_topo_level_text(&path, level);
        snprintf(cell, sizeof(cell), "%s %.4g", level, path.gbps);
        fprintf(out, "%11s", a == columns[k] ? "X" : cell);
    }
    fprintf(out, "\n");
}

/* GPUs, or NUMA nodes where there are none, and NICs. */
static void print_costs(const struct ri_topo *topo, FILE *out)
{
    enum ri_topo_kind kind = ri_topo_count(topo, -1, RI_TOPO_GPU) ? RI_TOPO_GPU : RI_TOPO_NUMA;
    int32_t columns[64];
    int n = 0;

    for (int32_t i = 0; i < topo->object_count; i++)
        if (topo->objects[i].kind == kind)
            columns[n++] = i;
    for (int32_t i = 0; i < topo->object_count; i++)
        if (topo->objects[i].kind == RI_TOPO_NIC)
            columns[n++] = i;
    fprintf(out, "\n%-8s", "");
    for (int k = 0; k < n; k++)
        fprintf(out, "%11s", topo->objects[columns[k]].name);
    fprintf(out, "\n");
    for (int k = 0; k < n; k++)
        print_row(topo, columns[k], columns, n, out);
}

static void print_ranks(const struct ri_topo *topo, FILE *out)
{
    fprintf(out, "\n");
    for (int r = 0; r < topo->rank_count; r++) {
        const struct ri_topo_rank *rank = &topo->ranks[r];

        fprintf(out, "rank %d on %s by %s", r, topo->objects[rank->object].name,
                rank->nic < 0 ? "no NIC" : topo->objects[rank->nic].name);
        fprintf(out, ", of %d ranks\n", (int)rank->nic_shares);
    }
}

/* ---- tests ---- */

static void matches_its_text(void **state)
{
    const char *name = *state;
    struct ri_topo *topo = read_machine(name);
    char *printed = calloc(1, TEXT), *expected;
    FILE *out = fmemopen(printed, TEXT - 1, "w");

    assert_non_null(out);
    print_objects(topo, out);
    print_costs(topo, out);
    print_ranks(topo, out);
    fclose(out);
    if (getenv("RONDO_TEST_UPDATE")) {
        out = open_file("tests/topo/machines", name, ".out", "w");
        assert_non_null(out);
        fputs(printed, out);
        assert_int_equal(fclose(out), 0);
    }
    expected = read_all(open_file("tests/topo/machines", name, ".out", "r"));
    assert_string_equal(printed, expected);
    free(expected);
    free(printed);
    ri_topo_destroy(topo);
}

/* The machine of the issue: two ranks on each HCA, which is below their own switch. */
static void a800_shares_near_hcas(void **state)
{
    struct ri_topo *topo = read_machine("a800x8-4hca");
    struct ri_topo_path path;

    assert_int_equal(topo->rank_count, 8);
    for (int r = 0; r < 8; r++) {
        ri_topo_path(topo, topo->ranks[r].object, topo->ranks[r].nic, &path);
        assert_int_equal(path.level, RI_TOPO_PIX);
        assert_int_equal(topo->ranks[r].nic_shares, 2);
    }
    ri_topo_destroy(topo);
}

static void find_machines(void)
{
    const char *top = getenv("top_srcdir");
    char path[PATH];
    DIR *folder;
    int n = 0;

    snprintf(path, sizeof(path), "%s/topo/machines", top ? top : ".");
    folder = opendir(path);
    for (struct dirent *entry; folder && n < MAX_MACHINES && (entry = readdir(folder));) {
        size_t length = strlen(entry->d_name);

        if (length > 4 && length < sizeof(machines[0]) && strcmp(entry->d_name + length - 4, ".txt") == 0)
            snprintf(machines[n++], sizeof(machines[0]), "%.*s", (int)length - 4, entry->d_name);
    }
    if (folder)
        closedir(folder);
    qsort(machines, (size_t)n, sizeof(machines[0]), (int (*)(const void *, const void *))strcmp);
}

static void machines_are_found(void **state)
{
    assert_string_not_equal(machines[5], "");
    assert_string_equal(machines[MAX_MACHINES - 1], "");
}

int main(void)
{
    struct CMUnitTest tests[MAX_MACHINES + 2] = {
        cmocka_unit_test(machines_are_found),
        cmocka_unit_test(a800_shares_near_hcas),
    };
    size_t n = 2;

    find_machines();
    for (int i = 0; i < MAX_MACHINES; i++)
        if (machines[i][0])
            tests[n++] = (struct CMUnitTest){ machines[i], matches_its_text, NULL, NULL, machines[i] };
    return _cmocka_run_group_tests("machines", tests, n, NULL, NULL);
}
