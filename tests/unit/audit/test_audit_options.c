/* The options of audit devices: what is read, and what is refused with a reason. */
#include "support.h"

#include "audit/options.h"

static enum status parse(const char *type, const char *const *pairs, struct audit_options *ret,
                         struct reason *why)
{
    size_t n = 0;
    while (pairs[n] != NULL)
        n++;
    *why = (struct reason){{0}};
    struct field_map map = {.pairs = pairs, .n = n / 2, .given = true};
    return audit_options_parse(type, &map, ret, why);
}

#define PAIRS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void absent_options_have_their_presets(void **state)
{
    struct audit_options o;
    struct reason why;
    (void)state;
    assert_status(parse("file", PAIRS("file_path", "/x"), &o, &why), ST_OK);
    assert_string_equal(o.file_path, "/x");
    assert_int_equal(o.mode, 0600);
    assert_int_equal(o.rotate_bytes + (uint64_t)o.rotate_ms + o.rotate_files, 0);
    assert_string_equal(o.prefix, "");
    assert_true(o.hmac_accessor);
    assert_false(o.log_raw || o.elide_list_responses || o.hash_chain);
    assert_int_equal(o.write_timeout_ms, 2000);
    assert_status(parse("socket", PAIRS("address", "h:1"), &o, &why), ST_OK);
    assert_int_equal(o.socket_type, AUDIT_TCP);
    assert_status(parse("syslog", PAIRS(NULL), &o, &why), ST_OK);
    assert_int_equal(o.facility, 4);
    assert_string_equal(o.tag, "holdfast");
}

static void given_options_are_read(void **state)
{
    struct audit_options o;
    struct reason why;
    (void)state;
    assert_status(
        parse("file",
              PAIRS("file_path", "/x", "mode", "0000", "rotate_bytes", "1MiB", "rotate_duration",
                    "24h", "rotate_max_files", "7", "hash_chain", "T", "prefix", "p ", "log_raw",
                    "1", "hmac_accessor", "False", "elide_list_responses", "true", "write_timeout",
                    "1500ms", "format", "json"),
              &o, &why),
        ST_OK);
    assert_int_equal(o.mode, AUDIT_MODE_KEEP);
    assert_int_equal(o.rotate_bytes, 1 << 20);
    assert_int_equal(o.rotate_ms, 86400000);
    assert_int_equal(o.rotate_files, 7);
    assert_true(o.hash_chain && o.log_raw && o.elide_list_responses);
    assert_false(o.hmac_accessor);
    assert_string_equal(o.prefix, "p ");
    assert_int_equal(o.write_timeout_ms, 1500);
    assert_status(parse("file", PAIRS("file_path", "StdOut", "write_timeout", "3"), &o, &why),
                  ST_OK);
    assert_string_equal(o.file_path, "stdout");
    assert_int_equal(o.write_timeout_ms, 3000);
    assert_status(parse("socket", PAIRS("address", "/s", "socket_type", "unixgram"), &o, &why),
                  ST_OK);
    assert_int_equal(o.socket_type, AUDIT_UNIXGRAM);
    assert_status(parse("syslog", PAIRS("facility", "local3", "tag", "a-b"), &o, &why), ST_OK);
    assert_int_equal(o.facility, 19);
}

struct refusal {
    const char *type, *name, *value, *part;
};

static void wrong_options_are_refused_by_name(void **state)
{
    static const struct refusal rows[] = {
        {"file", "mode", "0700", "mode: must only have bits to read and write"},
        {"file", "mode", "4600", "mode: "},
        {"file", "mode", "0066", "mode: must let the owner"},
        {"file", "mode", "0o600", "mode: must be an octal"},
        {"file", "mode", "", "mode: "},
        {"file", "rotate_bytes", "100", "rotate_bytes: "},
        {"file", "rotate_duration", "5ms", "rotate_duration: "},
        {"file", "rotate_max_files", "-1", "rotate_max_files: "},
        {"file", "rotate_max_files", "3", "rotate_max_files: needs rotate_bytes"},
        {"file", "hash_chain", "yes", "hash_chain: must be true or false"},
        {"file", "log_raw", "2", "log_raw: "},
        {"file", "format", "jsonx", "format: must be json"},
        {"file", "prefix", "a\nb", "prefix: must not contain control"},
        {"file", "write_timeout", "0", "write_timeout: "},
        {"file", "write_timeout", "61s", "write_timeout: "},
        {"file", "write_timeout", "x", "write_timeout: "},
        {"file", "fallback", "true", "fallback: unknown option of a device of type file"},
        {"file", "address", "h:1", "address: unknown option"},
        {"socket", "mode", "0600", "mode: unknown option of a device of type socket"},
        {"socket", "hash_chain", "true", "hash_chain: unknown option"},
        {"socket", "socket_type", "sctp", "socket_type: must be"},
        {"syslog", "facility", "LOCAL8", "facility: "},
        {"syslog", "tag", "a b", "tag: "},
        {"syslog", "tag", "", "tag: "},
        {"http", "x", "y", "type: must be file, socket or syslog"},
    };
    struct audit_options o;
    struct reason why;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct refusal *r = &rows[i];
        const char *needed = strcmp(r->type, "file") == 0 ? "file_path" : "address";
        const char *pairs[] = {r->name, r->value, needed, "/x:1", NULL};
        if (strcmp(r->type, "syslog") == 0 || strcmp(r->name, needed) == 0)
            pairs[2] = NULL;
        assert_status(parse(r->type, pairs, &o, &why), ST_INVALID);
        if (strstr(why.text, r->part) != why.text)
            fail_msg("%s=%s: \"%s\"", r->name, r->value, why.text);
    }
}

static void what_a_type_needs_is_named(void **state)
{
    char path[200];
    struct audit_options o;
    struct reason why;
    (void)state;
    assert_status(parse("file", PAIRS(NULL), &o, &why), ST_INVALID);
    assert_string_equal(why.text, "file_path: missing");
    assert_status(parse("socket", PAIRS(NULL), &o, &why), ST_INVALID);
    assert_string_equal(why.text, "address: missing");
    assert_status(parse("socket", PAIRS("address", "no-port"), &o, &why), ST_INVALID);
    assert_string_equal(why.text, "address: must be HOST:PORT");
    (void)memset(path, 'x', sizeof path);
    path[sizeof path - 1] = '\0';
    assert_status(parse("socket", PAIRS("address", path, "socket_type", "unix"), &o, &why),
                  ST_INVALID);
    assert_status(parse("file", PAIRS("file_path", "stdout", "hash_chain", "true"), &o, &why),
                  ST_INVALID);
    assert_string_equal(why.text, "hash_chain: needs a file, not stdout");
    assert_status(parse("file", PAIRS("file_path", "discard", "rotate_bytes", "1GB"), &o, &why),
                  ST_INVALID);
}

static void every_option_has_help_and_its_preset_is_good(void **state)
{
    (void)state;
    for (size_t i = 0; i < audit_n_option_rows; i++) {
        const struct audit_option *row = &audit_option_rows[i];
        assert_true(strlen(row->help) > 10);
        assert_true(row->types != 0);
        assert_int_equal(row->required, row->preset == NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absent_options_have_their_presets),
        cmocka_unit_test(given_options_are_read),
        cmocka_unit_test(wrong_options_are_refused_by_name),
        cmocka_unit_test(what_a_type_needs_is_named),
        cmocka_unit_test(every_option_has_help_and_its_preset_is_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
