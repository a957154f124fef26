/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever describes a machine is read by its name, and told apart by what is in it. */
#include "tests/helper.h"

#include <string.h>

#include "base/status.h"
#include "build-config.h"
#include "tests/topo/fake.h"
#include "topo/source.h"
#include "topo/topo.h"

static struct fake fake;

static int make_fake(void **state)
{
    (void)state;
    fake_make(&fake);
    fake_file(&fake, "far", "/proc/sys/kernel/hostname");
    return 0;
}

static int remove_fake(void **state)
{
    (void)state;
    fake_remove(&fake);
    return 0;
}

/* A file of this text, read. */
static int read_file(const char *text, struct ri_topo **topo)
{
    char name[128];

    fake_file(&fake, text, "/input");
    snprintf(name, sizeof(name), "%s/input", fake.root);
    return ri_topo_read(name, topo);
}

static void reads(const char *text, int gpus)
{
    struct ri_topo *topo = NULL;

    if (read_file(text, &topo))
        fail_msg("%.40s: %s", text, rondo_last_error());
    assert_int_equal(ri_topo_count(topo, -1, RI_TOPO_GPU), gpus);
    ri_topo_destroy(topo);
}

static void files_are_told_apart(void **state)
{
    struct ri_topo *topo = NULL;
    struct ri_source *source;
    char *text;

    (void)state;
    reads("host:2 gpu:4", 8);
    reads("# a cluster\nhost:2 gpu:3", 6);
    assert_int_equal(ri_topo_from_text("host:3 gpu:2", &topo), 0);
    text = ri_topo_pack(topo);
    reads(text, 6);
    free(text);
    ri_topo_destroy(topo);

    source = ri_source_open(fake.root);
    ri_source_keep(source);
    assert_int_equal(ri_topo_discover(source, &topo), 0);
    ri_topo_destroy(topo);
    text = ri_source_recording(source);
    ri_source_close(source);
    assert_int_equal(read_file(text, &topo), 0);
    assert_string_equal(topo->objects[0].name, "far");
    ri_topo_destroy(topo);
    free(text);
#ifdef HAVE_HWLOC
    reads("<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">"
          "<object type=\"Machine\" os_index=\"0\" gp_index=\"1\" cpuset=\"0x1\" complete_cpuset=\"0x1\" "
          "allowed_cpuset=\"0x1\" nodeset=\"0x1\" complete_nodeset=\"0x1\" allowed_nodeset=\"0x1\">"
          "<object type=\"NUMANode\" os_index=\"0\" gp_index=\"2\" cpuset=\"0x1\" complete_cpuset=\"0x1\" "
          "nodeset=\"0x1\" complete_nodeset=\"0x1\"/>"
          "<object type=\"PU\" os_index=\"0\" gp_index=\"3\" cpuset=\"0x1\" complete_cpuset=\"0x1\" "
          "nodeset=\"0x1\" complete_nodeset=\"0x1\"/></object></topology>", 0);
#endif
}

static void xml_of_nccl_is_read(void **state)
{
    static const char text[] =
        "<system version=\"1\">\n<cpu numaid=\"0\" affinity=\"0000000f\" arch=\"x86_64\" vendor=\"GenuineIntel\" "
        "familyid=\"6\" modelid=\"85\">\n<pci busid=\"0000:3b:00.0\" class=\"0x030200\" link_speed=\"8.0 GT/s PCIe\" "
        "link_width=\"16\"><gpu dev=\"0\" sm=\"80\" rank=\"0\" gdr=\"1\"></gpu></pci>\n</cpu>\n</system>\n";
    struct ri_topo *topo = NULL;

    (void)state;
#ifdef HAVE_EXPAT
    reads(text, 1);
    (void)topo;
#else
    assert_int_equal(read_file(text, &topo), RONDO_ERR_UNSUPPORTED);
#endif
}

static void folders_texts_and_this_host(void **state)
{
    struct ri_topo *topo = NULL;

    (void)state;
    assert_int_equal(ri_topo_read(fake.root, &topo), 0);
    assert_string_equal(topo->objects[0].name, "far");
    ri_topo_destroy(topo);
    assert_int_equal(ri_topo_read("host:2 gpu:4", &topo), 0);
    assert_int_equal(ri_topo_hosts(topo), 2);
    ri_topo_destroy(topo);
    assert_int_equal(ri_topo_read("", &topo), 0);
    assert_int_equal(ri_topo_hosts(topo), 1);
    ri_topo_destroy(topo);
    assert_int_equal(ri_topo_read(NULL, &topo), 0);
    assert_int_equal(ri_topo_hosts(topo), 1);
    ri_topo_destroy(topo);
}

static void refuses_file(const char *text, const char *why)
{
    struct ri_topo *topo = NULL;

    assert_int_equal(read_file(text, &topo), RONDO_ERR_ARGUMENT);
    assert_null(topo);
    if (!strstr(rondo_last_error(), why) || !strstr(rondo_last_error(), "/input: "))
        fail_msg("'%.40s' is refused with '%s', not '%s'", text, rondo_last_error(), why);
}

static void errors_name_what_was_tried(void **state)
{
    struct ri_topo *topo = NULL;
    char name[128];
    FILE *out;

    (void)state;
    refuses_file("host:2 gpp:4", "gpp");
    refuses_file("<graphs version=\"1\"/>", "<topology");
    refuses_file("rondo-recording 1\nnonsense", "line 2");
    refuses_file("rondo-tree 1\nnonsense", "line 2");
    refuses_file("rondo-recording 2\n", "expected 'rondo-recording 1'; another release");
    refuses_file("rondo-tree 2\nhost - 0\n", "expected 'rondo-tree 1'; another release");
    assert_int_equal(ri_topo_read("no-such-file", &topo), RONDO_ERR_ARGUMENT);
    assert_non_null(strstr(rondo_last_error(), "no-such-file"));
    assert_non_null(strstr(rondo_last_error(), "host:2 gpu:4"));
    assert_int_equal(ri_topo_read("hots:2", &topo), RONDO_ERR_ARGUMENT);
    assert_non_null(strstr(rondo_last_error(), "hots"));
    snprintf(name, sizeof(name), "%s/input", fake.root);
    out = fopen(name, "w");
    fwrite("host:2\0gpu:2", 1, 12, out);
    fclose(out);
    assert_int_equal(ri_topo_read(name, &topo), RONDO_ERR_ARGUMENT);
    assert_non_null(strstr(rondo_last_error(), "byte 0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_are_told_apart, make_fake, remove_fake),
        cmocka_unit_test_setup_teardown(xml_of_nccl_is_read, make_fake, remove_fake),
        cmocka_unit_test_setup_teardown(folders_texts_and_this_host, make_fake, remove_fake),
        cmocka_unit_test_setup_teardown(errors_name_what_was_tried, make_fake, remove_fake),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
