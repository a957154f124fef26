/* SPDX-License-Identifier: Apache-2.0 */
/* What is read below a root, kept, and read again; and recordings that nobody should trust. */
#include "tests/helper.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/status.h"
#include "topo/source.h"

static char root[64];

static void put(const char *path, const char *text, size_t bytes)
{
    char full[256];
    FILE *out;

    snprintf(full, sizeof(full), "%s%s", root, path);
    for (char *slash = strchr(full + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(full, 0777);
        *slash = '/';
    }
    out = fopen(full, "w");
    assert_non_null(out);
    assert_int_equal(fwrite(text, 1, bytes, out), bytes);
    fclose(out);
}

static void put_link(const char *path, const char *target)
{
    char full[256];

    snprintf(full, sizeof(full), "%s%s", root, path);
    assert_int_equal(symlink(target, full), 0);
}

static int make_root(void **state)
{
    (void)state;
    strcpy(root, "source-XXXXXX");
    assert_non_null(mkdtemp(root));
    put("/sys/devices/pci/eth10/speed", "100000\n", 7);
    put("/sys/devices/pci/eth2/speed", "-1\n", 3);
    put("/sys/devices/pci/eth2/flags", "0x1003\n", 7);
    put("/sys/devices/pci/eth2/odd", "a\\b\n\n\x01\xff c\t", 11);
    put("/sys/devices/pci/eth2/empty", "", 0);
    put("/sys/class/net/lo", "", 0);
    put_link("/sys/class/net/eth10", "../../devices/pci/eth10");
    put_link("/sys/class/net/eth2", "/sys/devices/pci/eth2");
    put_link("/sys/class/net/out", "../../../../../../../../../../sys/devices/pci");
    put_link("/sys/class/net/round", "round");
    put_link("/sys/class/net/gone", "/etc/hostname");
    return 0;
}

static int remove_root(void **state)
{
    char command[96];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf '%s'", root);
    return system(command);
}

/* All questions, with one answer each; asked of a folder and of its recording. */
static void ask_all(struct ri_source *source)
{
    char text[64], *list;

    assert_int_equal(ri_source_text(source, "/sys/class/net/eth10/speed", text, sizeof(text)), 0);
    assert_string_equal(text, "100000");
    assert_int_equal(ri_source_text(source, "/sys/class/net/eth10/speed", text, 4), 0);
    assert_string_equal(text, "100");
    assert_int_equal(ri_source_text(source, "/sys/class/net/eth2/odd", text, sizeof(text)), 0);
    assert_string_equal(text, "a\\b\n\n\x01\xff c\t");
    assert_int_equal(ri_source_text(source, "/sys/class/net/eth2/empty", text, sizeof(text)), 0);
    assert_string_equal(text, "");
    assert_int_equal(ri_source_text(source, "/sys/class/net/eth3/speed", text, sizeof(text)), -ENOENT);
    assert_int_equal(ri_source_text(source, "/sys/class/net", text, sizeof(text)), -EISDIR);
    assert_int_equal(ri_source_text(source, "/sys/class/net/round", text, sizeof(text)), -ELOOP);
    assert_int_equal(ri_source_text(source, "/sys/class/net/gone", text, sizeof(text)), -ENOENT);
    assert_int_equal(ri_source_number(source, "/sys/class/net/eth2/speed", 7), -1);
    assert_int_equal(ri_source_number(source, "/sys/class/net/eth2/flags", 7), 0x1003);
    assert_int_equal(ri_source_number(source, "/sys/class/net/eth2/odd", 7), 7);
    assert_int_equal(ri_source_number(source, "/sys/class/net/eth2/empty", 7), 7);
    assert_int_equal(ri_source_link(source, "/sys/class/net/eth2", text, sizeof(text)), 0);
    assert_string_equal(text, "/sys/devices/pci/eth2");
    assert_int_equal(ri_source_link(source, "/sys/class/net/out/eth10/../eth2", text, sizeof(text)), 0);
    assert_string_equal(text, "/sys/devices/pci/eth2");
    assert_int_equal(ri_source_link(source, "/sys/class/net/eth2", text, 5), -ENAMETOOLONG);
    assert_int_equal(ri_source_link(source, "/sys/class/net/eth4", text, sizeof(text)), -ENOENT);
    list = ri_source_list(source, "/sys/class/net");
    assert_string_equal(list, "eth2\neth10\ngone\nlo\nout\nround\n");
    free(list);
    assert_null(ri_source_list(source, "/sys/class/infiniband"));
    list = ri_source_ask(source, "limits/shm");
    assert_string_equal(list, "1\n2\n");
    free(list);
    assert_null(ri_source_ask(source, "limits/none"));
}

static void a_recording_answers_as_the_folder_did(void **state)
{
    struct ri_source *source = ri_source_open(root), *replay = NULL;
    char *text, *again;

    (void)state;
    assert_non_null(source);
    assert_int_equal(ri_source_is_live(source), 0);
    assert_string_equal(ri_source_root(source), root);
    ri_source_note(source, "limits/shm", "1\n2\n");
    ask_all(source);
    text = ri_source_recording(source);
    assert_non_null(text);
    assert_int_equal(strncmp(text, "rondo-recording 1\n", 18), 0);
    assert_int_equal(ri_source_replay(text, strlen(text), &replay), 0);
    assert_null(ri_source_root(replay));
    assert_int_equal(ri_source_is_live(replay), 0);
    ask_all(replay);
    ri_source_note(replay, "limits/shm", "of another machine");
    ask_all(replay);
    again = ri_source_recording(replay);
    assert_string_equal(again, text);
    free(again);
    free(text);
    ri_source_close(source);
    ri_source_close(replay);
}

static void this_machine_is_read_too(void **state)
{
    struct ri_source *source = ri_source_open("/");
    char text[16];

    (void)state;
    assert_int_equal(ri_source_is_live(source), 1);
    assert_int_equal(ri_source_text(source, "/proc/self/comm", text, sizeof(text)), 0);
    assert_string_equal(text, "test_source");
    assert_int_equal(ri_source_text(source, "/dev/zero", text, sizeof(text)), -EINVAL);
    assert_int_equal(ri_source_text(source, "proc/self/comm", text, sizeof(text)), -EINVAL);
    ri_source_close(source);
}

static void what_was_read_stays(void **state)
{
    struct ri_source *source = ri_source_open(root);

    (void)state;
    put("/proc/count", "1\n", 2);
    assert_int_equal(ri_source_number(source, "/proc/count", 0), 1);
    put("/proc/count", "2\n", 2);
    assert_int_equal(ri_source_number(source, "/proc/count", 0), 1);
    ri_source_close(source);
}

static void refuses(const char *text, const char *why)
{
    struct ri_source *source = NULL;

    assert_int_equal(ri_source_replay(text, strlen(text), &source), RONDO_ERR_ARGUMENT);
    assert_null(source);
    if (!strstr(rondo_last_error(), why))
        fail_msg("'%s' is refused with '%s', not '%s'", text, rondo_last_error(), why);
}

static void faults_name_their_line(void **state)
{
    (void)state;
    refuses("", "line 1: expected 'rondo-recording 1'");
    refuses("rondo-recording 2\n", "line 1: expected 'rondo-recording 1'");
    refuses("rondo-recording 1\n\ntext /a", "line 3: a name without a value");
    refuses("rondo-recording 1\ntext /a\ntext /b\n 1\n", "line 2: a name without a value");
    refuses("rondo-recording 1\n# why\ntext /a\n!0\n", "line 4: after ! comes an errno");
    refuses("rondo-recording 1\ntext /a\n!12x\n", "line 3: after ! comes an errno");
    refuses("rondo-recording 1\ntext /a\n!99999999999\n", "line 3: after ! comes an errno");
    refuses("rondo-recording 1\nfile /a\n 1\n", "line 2: 'file /a' begins no entry");
    refuses("rondo-recording 1\ntext /a\n 1\n", "line 3: its last line, 'end', is missing");
    refuses("rondo-recording 1\n", "line 1: its last line, 'end', is missing");
    refuses("rondo-recording 1\ntext /a\n 1\nend\ntext /b\n 1\n", "line 5: it goes on after its last line");
    refuses("rondo-recording 1\n 1\n", "line 2: ' 1' begins no entry");
    refuses("rondo-recording 1\ntext /a\\x00b\n 1\n", "line 2: a name");
    refuses("rondo-recording 1\ntext /a\n \\q\n", "line 3: a byte");
    refuses("rondo-recording 1\ntext /a\n \\x0\n", "line 3: a byte");
    refuses("rondo-recording 1\ntext /a\n \xff\n", "line 3: a byte");
}

static unsigned next_random(unsigned *seed)
{
    return (*seed = *seed * 1664525u + 1013904223u) >> 8;
}

/* Whatever is made of a recording is read or refused; what is read is kept alike. */
static void no_text_is_too_bad(void **state)
{
    static const char start[] = "rondo-recording 1\ntext /sys/a\n 1\nlink /sys/b\n!2\nlist /sys/c\n a\n b\n \n"
                                "note hwloc.xml\n <a>\\x09\\\\\nend\n";
    static const char bytes[] = "\n\n \\x!#0123456789abcdef/textlinklistnote";
    unsigned seed = 20240611;
    int read = 0;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        char text[sizeof(start)], out[16];
        size_t size = next_random(&seed) % 3 ? sizeof(start) - 1 : next_random(&seed) % sizeof(start);
        struct ri_source *source = NULL, *again = NULL;
        char *first, *second;

        memcpy(text, start, sizeof(start));
        for (unsigned n = next_random(&seed) % 4; n > 0; n--)
            text[next_random(&seed) % (sizeof(start) - 1)] =
                next_random(&seed) % 5 ? bytes[next_random(&seed) % (sizeof(bytes) - 1)]
                                       : (char)next_random(&seed);
        if (ri_source_replay(text, size, &source))
            continue;
        read++;
        ri_source_text(source, "/sys/a", out, sizeof(out));
        free(ri_source_list(source, "/sys/c"));
        first = ri_source_recording(source);
        assert_int_equal(ri_source_replay(first, strlen(first), &again), 0);
        second = ri_source_recording(again);
        assert_string_equal(first, second);
        free(first);
        free(second);
        ri_source_close(source);
        ri_source_close(again);
    }
    assert_in_range(read, 1000, 19000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_recording_answers_as_the_folder_did, make_root, remove_root),
        cmocka_unit_test(this_machine_is_read_too),
        cmocka_unit_test_setup_teardown(what_was_read_stays, make_root, remove_root),
        cmocka_unit_test(faults_name_their_line),
        cmocka_unit_test(no_text_is_too_bad),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
