#include "cluster/dr/link/dr_name.h"

#include "support.h"

#include <stdio.h>

#define CLUSTER "00112233445566778899aabbccddeeff"
#define SET "ffeeddccbbaa99887766554433221100"

static void a_name_has_its_written_form(void **ctx)
{
    struct dr_name name = {.epoch = UINT64_MAX, .id = "east-1"}, back;
    char uri[DR_URI_MAX], authority[DR_URI_MAX];
    (void)ctx;
    for (unsigned i = 0; i < 16; i++) {
        name.cluster[i] = (uint8_t)(0x11 * i);
        name.set[i] = (uint8_t)(0xff - 0x11 * i);
    }
    dr_name_uri(&name, uri);
    dr_name_authority_uri(&name, authority);
    assert_string_equal(uri, "holdfast://" CLUSTER "/dr/" SET "/18446744073709551615/east-1");
    assert_string_equal(authority, "holdfast://" CLUSTER "/dr/" SET);
    assert_status(dr_name_parse(uri, &back), ST_OK);
    assert_memory_equal(&back, &name, sizeof name);
}

static void the_longest_name_fits(void **ctx)
{
    struct dr_name name = {.epoch = UINT64_MAX}, back;
    char uri[DR_URI_MAX];
    (void)ctx;
    memset(name.id, 'x', sizeof name.id - 1);
    dr_name_uri(&name, uri);
    assert_status(dr_name_parse(uri, &back), ST_OK);
    assert_memory_equal(&back, &name, sizeof name);
}

static void another_form_is_refused(void **ctx)
{
    static const char *const bad[] = {
        "",
        "holdfast://",
        "holdfast://" CLUSTER,
        "holdfast://" CLUSTER "/node/n1",
        "holdfast://" CLUSTER "/dr",
        "holdfast://" CLUSTER "/dr/",
        "holdfast://" CLUSTER "/dr/" SET,
        "holdfast://" CLUSTER "/dr/" SET "/",
        "holdfast://" CLUSTER "/dr/" SET "/1",
        "holdfast://" CLUSTER "/dr/" SET "/1/",
        "holdfast://" CLUSTER "/dr/" SET "/0/a",
        "holdfast://" CLUSTER "/dr/" SET "/01/a",
        "holdfast://" CLUSTER "/dr/" SET "/+1/a",
        "holdfast://" CLUSTER "/dr/" SET "/-1/a",
        "holdfast://" CLUSTER "/dr/" SET "/1x/a",
        "holdfast://" CLUSTER "/dr/" SET "/18446744073709551616/a",
        "holdfast://" CLUSTER "/dr/" SET "/99999999999999999999/a",
        "holdfast://" CLUSTER "/dr/" SET "/1/a/",
        "holdfast://" CLUSTER "/dr/" SET "/1/a/b",
        "holdfast://" CLUSTER "/dr/" SET "/1/.a",
        "holdfast://" CLUSTER "/dr/" SET "/1/a b",
        "holdfast://" CLUSTER "/dr/" SET "/1/a%2f",
        "holdfast://" CLUSTER "/dr/" SET "/1/a\n",
        "holdfast://" CLUSTER "/dr/" SET "0/1/a",
        "holdfast://" CLUSTER "0/dr/" SET "/1/a",
        "holdfast://" CLUSTER "/dr/FFeeddccbbaa99887766554433221100/1/a",
        "holdfast://" CLUSTER "/dr/0feeddccbbaa9988776655443322110/1/a",
        "Holdfast://" CLUSTER "/dr/" SET "/1/a",
        " holdfast://" CLUSTER "/dr/" SET "/1/a",
    };
    struct dr_name name;
    (void)ctx;
    assert_status(dr_name_parse("holdfast://" CLUSTER "/dr/" SET "/1/a", &name), ST_OK);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        enum status st = dr_name_parse(bad[i], &name);
        if (st != ST_INVALID)
            print_error("\"%s\"\n", bad[i]);
        assert_status(st, ST_INVALID);
    }
}

static void ids_are_checked(void **ctx)
{
    char longest[DR_ID_MAX + 1] = "";
    (void)ctx;
    assert_true(dr_name_id_valid("a"));
    assert_true(dr_name_id_valid("9.x_Y-z"));
    assert_false(dr_name_id_valid(""));
    assert_false(dr_name_id_valid("_a"));
    assert_false(dr_name_id_valid("a/b"));
    assert_false(dr_name_id_valid("\xc3\xa4"));
    memset(longest, 'i', DR_ID_MAX - 1);
    assert_true(dr_name_id_valid(longest));
    longest[DR_ID_MAX - 1] = 'i';
    assert_false(dr_name_id_valid(longest));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_has_its_written_form),
        cmocka_unit_test(the_longest_name_fits),
        cmocka_unit_test(another_form_is_refused),
        cmocka_unit_test(ids_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
