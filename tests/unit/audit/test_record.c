/* Records with holes: what each form of rendering shows. */
#include "support.h"

#include "audit/record_write.h"
#include "base/mem.h"
#include "crypto/crypto.h"

#include <stdio.h>

static const uint8_t salt_key[32] = {9};

static struct audit_render rendering(bool raw)
{
    struct audit_render how = {.raw = raw, .hmac_accessor = true};
    assert_int_equal(crypto_init(NULL), ST_OK);
    assert_int_equal(hmac_new(bytes_of(salt_key, sizeof salt_key), &how.salt), ST_OK);
    return how;
}

static struct audit_record *ended(struct audit_writer *a)
{
    struct audit_record *record;
    assert_int_equal(audit_writer_end(a, &record), ST_OK);
    return record;
}

/* Render and compare. "@text@" in `expected` stands for the HMAC of `text`. */
static void assert_renders(const struct audit_record *record, struct audit_render *how,
                           const char *expected)
{
    CLEANUP(buf_done) struct buf out = {0}, want = {0};
    for (const char *at = expected; *at != '\0'; at++) {
        const char *end = *at == '@' ? strchr(at + 1, '@') : NULL;
        if (end == NULL) {
            buf_add_u8(&want, (uint8_t)*at);
            continue;
        }
        struct bytes plain = bytes_of((const uint8_t *)at + 1, (size_t)(end - at - 1));
        char text[AUDIT_HMAC_LEN + 1];
        assert_int_equal(audit_hmac(how->salt, plain, text), ST_OK);
        buf_add_str(&want, text);
        at = end;
    }
    assert_int_equal(audit_record_render(record, how, &out), ST_OK);
    buf_add_u8(&out, 0);
    buf_add_u8(&want, 0);
    assert_string_equal((const char *)out.data, (const char *)want.data);
}

static struct audit_record *record_of_json(const char *json, struct audit_exempt exempt,
                                           bool listing)
{
    struct audit_writer a;
    audit_writer_begin(&a, NULL, 0);
    text_open_object(&a.w);
    text_member_int(&a.w, "n", 1);
    text_key(&a.w, "data");
    audit_put_json(&a, bytes_str(json), exempt, listing);
    text_member_bool(&a.w, "end", true);
    text_close(&a.w);
    return ended(&a);
}

static struct audit_record *record_of_tree(const char *json, struct audit_clear clear)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct text_value *tree;
    struct audit_writer a;
    assert_int_equal(text_json_parse(&arena, bytes_str(json), &tree, NULL), ST_OK);
    audit_writer_begin(&a, NULL, 100);
    text_open_object(&a.w);
    text_key(&a.w, "data");
    audit_put_tree(&a, tree, clear);
    text_close(&a.w);
    return ended(&a);
}

static void tokens_and_accessors_are_shown_as_each_device_wants(void **state)
{
    struct audit_writer a;
    struct audit_render how = rendering(false);
    (void)state;
    audit_writer_begin(&a, NULL, 0);
    text_open_object(&a.w);
    audit_member_hole(&a, BYTES("\"client_token\":"), AUDIT_SECRET, BYTES("hvs.abc"));
    audit_member_hole(&a, BYTES("\"accessor\":"), AUDIT_ACCESSOR, BYTES("acc"));
    audit_member_hole(&a, BYTES("\"absent\":"), AUDIT_SECRET, BYTES(""));
    text_member_str(&a.w, "display_name", "root");
    text_close(&a.w);
    struct audit_record *record = ended(&a);

    assert_renders(record, &how,
                   "{\"client_token\":\"@hvs.abc@\",\"accessor\":\"@acc@\","
                   "\"display_name\":\"root\"}");
    how.hmac_accessor = false;
    assert_renders(record, &how,
                   "{\"client_token\":\"@hvs.abc@\",\"accessor\":\"acc\","
                   "\"display_name\":\"root\"}");
    struct audit_render bare = {.hmac_accessor = true};
    assert_renders(record, &bare,
                   "{\"client_token\":\"\",\"accessor\":\"\",\"display_name\":\"root\"}");
    struct audit_render raw = {.raw = true, .hmac_accessor = true};
    assert_renders(record, &raw,
                   "{\"client_token\":\"hvs.abc\",\"accessor\":\"acc\","
                   "\"display_name\":\"root\"}");
    audit_record_unref(record);
    hmac_free(how.salt);
}

/* The text of a reply may come from a client, with line ends between its values. */
static void a_record_is_one_line(void **state)
{
    struct audit_render how = rendering(false);
    (void)state;
    struct audit_record *record =
        record_of_json("{\n \"a\":\r\n[1,\n\"b\"\n]}\n", (struct audit_exempt){0}, false);
    assert_renders(record, &how, "{\"n\":1,\"data\":{ \"a\":[1,\"@b@\"]},\"end\":true}");
    audit_record_unref(record);
    hmac_free(how.salt);
}

static void put_sender(struct audit_writer *a, const char *key)
{
    text_key(&a->w, key);
    text_open_object(&a->w);
    audit_member_hole(a, BYTES("\"token\":"), AUDIT_SECRET, BYTES("hvs.\"abc"));
    audit_member_hole(a, BYTES("\"accessor\":"), AUDIT_ACCESSOR, BYTES("acc"));
    text_close(&a->w);
}

/* Each HMAC is shown where its text stands, whether the text came before or not. */
static void a_text_may_come_again(void **state)
{
    struct audit_writer a;
    struct audit_render how = rendering(false);
    (void)state;
    audit_writer_begin(&a, NULL, 0);
    text_open_object(&a.w);
    put_sender(&a, "auth");
    audit_member_hole(&a, BYTES("\"other\":"), AUDIT_SECRET, BYTES("acc"));
    put_sender(&a, "request");
    text_close(&a.w);
    struct audit_record *record = ended(&a);

    assert_renders(record, &how,
                   "{\"auth\":{\"token\":\"@hvs.\"abc@\",\"accessor\":\"@acc@\"},\"other\":"
                   "\"@acc@\",\"request\":{\"token\":\"@hvs.\"abc@\",\"accessor\":\"@acc@\"}}");
    how.hmac_accessor = false;
    assert_renders(record, &how,
                   "{\"auth\":{\"token\":\"@hvs.\"abc@\",\"accessor\":\"acc\"},\"other\":"
                   "\"@acc@\",\"request\":{\"token\":\"@hvs.\"abc@\",\"accessor\":\"acc\"}}");
    struct audit_render bare = {.hmac_accessor = true};
    assert_renders(record, &bare,
                   "{\"auth\":{\"token\":\"\",\"accessor\":\"\"},\"other\":\"\",\"request\":"
                   "{\"token\":\"\",\"accessor\":\"\"}}");
    struct audit_render raw = {.raw = true};
    assert_renders(record, &raw,
                   "{\"auth\":{\"token\":\"hvs.\\\"abc\",\"accessor\":\"acc\"},\"other\":\"acc\","
                   "\"request\":{\"token\":\"hvs.\\\"abc\",\"accessor\":\"acc\"}}");
    audit_record_unref(record);
    hmac_free(how.salt);
}

/* More holes than the writer has room for by itself, with a listing behind them. */
static void a_record_may_have_many_holes(void **state)
{
    enum { N = 3 * AUDIT_FEW_HOLES };
    struct audit_writer a;
    struct audit_render how = rendering(false);
    CLEANUP(buf_done) struct buf want = {0};
    (void)state;
    audit_writer_begin(&a, NULL, 0);
    text_open_list(&a.w);
    buf_add_str(&want, "[");
    for (unsigned i = 0; i < N; i++) {
        char text[16];
        (void)snprintf(text, sizeof text, "t%u", i % 20); /* fits */
        audit_put_hole(&a, AUDIT_SECRET, bytes_str(text));
        buf_add_format(&want, "\"@%s@\",", text);
    }
    audit_put_json(&a, BYTES("{\"keys\":[\"x\",\"y\"],\"e\":\"\\n\"}"), (struct audit_exempt){0},
                   true);
    text_close(&a.w);
    struct audit_record *record = ended(&a);
    buf_add_str(&want, "{\"keys\":2,\"e\":\"@\n@\"}]");
    buf_add_u8(&want, 0);
    how.elide = true;
    assert_renders(record, &how, (const char *)want.data);
    audit_record_unref(record);
    hmac_free(how.salt);
}

#define BODY                                                                            \
    "{\"user\":\"eve\",\"n\":12345678901234567890.50,\"b\":true,\"z\":null,\"e\":\"\"," \
    "\"deep\":[{\"user\":\"x\",\"l\":[\"y\",[\"w\"],1]},\"v\"]}"
#define HIDDEN                                                                              \
    "{\"user\":\"@eve@\",\"n\":12345678901234567890.50,\"b\":true,\"z\":null,\"e\":\"@@\"," \
    "\"deep\":[{\"user\":\"@x@\",\"l\":[\"@y@\",[\"@w@\"],1]},\"@v@\"]}"
/* Of a request, numbers and booleans are hidden too. */
#define HIDDEN_TREE                                                                             \
    "{\"user\":\"@eve@\",\"n\":\"@12345678901234567890.50@\",\"b\":\"@true@\",\"z\":null,"    \
    "\"e\":\"@@\",\"deep\":[{\"user\":\"@x@\",\"l\":[\"@y@\",[\"@w@\"],\"@1@\"]},\"@v@\"]}"
#define EXEMPT_TREE                                                                             \
    "{\"user\":\"eve\",\"n\":\"@12345678901234567890.50@\",\"b\":\"@true@\",\"z\":null,"      \
    "\"e\":\"@@\",\"deep\":[{\"user\":\"x\",\"l\":[\"y\",[\"w\"],1]},\"@v@\"]}"
#define EXEMPT                                                                            \
    "{\"user\":\"eve\",\"n\":12345678901234567890.50,\"b\":true,\"z\":null,\"e\":\"@@\"," \
    "\"deep\":[{\"user\":\"x\",\"l\":[\"y\",[\"w\"],1]},\"@v@\"]}"

static void strings_of_bodies_are_hidden_at_any_depth(void **state)
{
    struct audit_render how = rendering(false), raw = {.raw = true};
    (void)state;
    struct audit_record *tree = record_of_tree(BODY, (struct audit_clear){0});
    struct audit_record *json = record_of_json(BODY, (struct audit_exempt){0}, false);
    assert_renders(tree, &how, "{\"data\":" HIDDEN_TREE "}");
    assert_renders(json, &how, "{\"n\":1,\"data\":" HIDDEN ",\"end\":true}");
    assert_renders(json, &raw, "{\"n\":1,\"data\":" BODY ",\"end\":true}");
    audit_record_unref(tree);
    audit_record_unref(json);
    hmac_free(how.salt);
}

static void exempt_keys_stay_readable_at_any_depth(void **state)
{
    static const char *const keys[] = {"other", "user", "l"};
    const struct audit_exempt exempt = {keys, ARRAY_LEN(keys)};
    struct audit_render how = rendering(false);
    (void)state;
    struct audit_record *tree = record_of_tree(BODY, (struct audit_clear){.exempt = exempt});
    struct audit_record *json = record_of_json(BODY, exempt, false);
    assert_renders(tree, &how, "{\"data\":" EXEMPT_TREE "}");
    assert_renders(json, &how, "{\"n\":1,\"data\":" EXEMPT ",\"end\":true}");
    audit_record_unref(tree);
    audit_record_unref(json);
    hmac_free(how.salt);
}

struct declared {
    const char *text;
    int64_t number, wait_s;
    bool flag;
    const struct text_value *any;
};
static const struct field declared_fields[] = {
    FIELD(struct declared, text, STRING), FIELD(struct declared, number, INT),
    FIELD(struct declared, wait_s, DURATION), FIELD(struct declared, flag, BOOL),
    FIELD(struct declared, any, VALUE)};
static const struct schema declared_schema = SCHEMA(struct declared, declared_fields);

static void a_number_is_in_clear_only_where_the_field_is_one(void **state)
{
    const struct audit_clear clear = {.declared = &declared_schema};
    struct audit_render how = rendering(false);
    (void)state;
    struct audit_record *record =
        record_of_tree("{\"text\":1234,\"number\":5,\"wait_s\":6,\"flag\":true,\"other\":7,"
                       "\"any\":[{\"number\":8,\"flag\":false}]}",
                       clear);
    assert_renders(record, &how,
                   "{\"data\":{\"text\":\"@1234@\",\"number\":5,\"wait_s\":6,\"flag\":true,"
                   "\"other\":\"@7@\",\"any\":[{\"number\":\"@8@\",\"flag\":\"@false@\"}]}}");
    audit_record_unref(record);
    record = record_of_tree("{\"text\":true,\"number\":\"5\",\"flag\":[1]}", clear);
    assert_renders(
        record, &how,
        "{\"data\":{\"text\":\"@true@\",\"number\":\"@5@\",\"flag\":[\"@1@\"]}}");
    audit_record_unref(record);
    hmac_free(how.salt);
}

static void escaped_strings_are_hidden_by_their_meaning(void **state)
{
    struct audit_render how = rendering(false);
    (void)state;
    struct audit_record *json = record_of_json("{\"a\\\"b\":\"x\\u003cy\\\\\",\"c\":\"\\\"\"}",
                                               (struct audit_exempt){0}, false);
    assert_renders(json, &how,
                   "{\"n\":1,\"data\":{\"a\\\"b\":\"@x<y\\@\",\"c\":\"@\"@\"},\"end\":true}");
    audit_record_unref(json);
    hmac_free(how.salt);
}

static void text_that_is_no_json_is_hidden_whole(void **state)
{
    static const char *const wrong[] = {
        "{\"a\":\"b", "{\"a\":[1}", "]",     "{\"a\":\"\\q\"}", "{",   "{\"a\":\"s\"}}",
        "a secret",   "{} {}",      "1 2",   "{\"a\":secret}",  "{},", "nullx",
        " ",          "1e5,",       "\"a\"b"};

    struct audit_render how = rendering(false);
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        CLEANUP(buf_done) struct buf want = {0};
        buf_add_format(&want, "{\"n\":1,\"data\":\"@%s@\",\"end\":true}", wrong[i]);
        buf_add_u8(&want, 0);
        struct audit_record *json = record_of_json(wrong[i], (struct audit_exempt){0}, true);
        assert_renders(json, &how, (const char *)want.data);
        audit_record_unref(json);
    }
    hmac_free(how.salt);
}

static void the_names_of_a_listing_can_be_counted_only(void **state)
{
    struct audit_render how = rendering(false);
    (void)state;
    struct audit_record *json = record_of_json("{\"keys\":[\"a\",\"b\",\"c\"],\"key_info\":{\"a\":{"
                                               "\"k\":[\"v\",2]},\"b\":1},\"x\":[\"y\"],"
                                               "\"in\":{\"keys\":[]}}",
                                               (struct audit_exempt){0}, true);
    assert_renders(json, &how,
                   "{\"n\":1,\"data\":{\"keys\":[\"@a@\",\"@b@\",\"@c@\"],\"key_info\":{\"a\":{"
                   "\"k\":[\"@v@\",2]},\"b\":1},\"x\":[\"@y@\"],\"in\":{\"keys\":[]}},"
                   "\"end\":true}");
    how.elide = true;
    assert_renders(json, &how,
                   "{\"n\":1,\"data\":{\"keys\":3,\"key_info\":2,\"x\":[\"@y@\"],"
                   "\"in\":{\"keys\":[]}},\"end\":true}");
    audit_record_unref(json);
    json = record_of_json("{\"keys\":[]}", (struct audit_exempt){0}, true);
    assert_renders(json, &how, "{\"n\":1,\"data\":{\"keys\":0},\"end\":true}");
    audit_record_unref(json);
    json = record_of_json("{\"keys\":[\"a\"]}", (struct audit_exempt){0}, false);
    assert_renders(json, &how, "{\"n\":1,\"data\":{\"keys\":[\"@a@\"]},\"end\":true}");
    audit_record_unref(json);
    hmac_free(how.salt);
}

static void a_record_lives_until_its_last_reference(void **state)
{
    struct audit_render how = rendering(false);
    (void)state;
    struct audit_record *record = record_of_json("{\"a\":\"b\"}", (struct audit_exempt){0}, false);
    assert_true(audit_record_bytes(record, NULL) > 20);
    assert_ptr_equal(audit_record_ref(record), record);
    audit_record_unref(record);
    assert_renders(record, &how, "{\"n\":1,\"data\":{\"a\":\"@b@\"},\"end\":true}");
    audit_record_unref(record);
    audit_record_unref(NULL);
    hmac_free(how.salt);
}

/* A string of 130 KiB lies in a buffer of 256 KiB. */
static void a_record_keeps_no_spare_memory(void **state)
{
    static char json[130 << 10] = "[\"";
    (void)state;
    memset(json + 2, 'x', sizeof json - 4);
    memcpy(json + sizeof json - 3, "\"]", 3);
    struct audit_record *record = record_of_json(json, (struct audit_exempt){0}, false);
    assert_in_range(audit_record_bytes(record, NULL), sizeof json, sizeof json + 4096);
    audit_record_unref(record);
}

static void a_record_without_memory_is_not_made(void **state)
{
    (void)state;
    for (unsigned n = 1;; n++) {
        struct audit_writer a;
        struct audit_record *record = NULL;
        mem_fail_nth(n);
        audit_writer_begin(&a, NULL, 0);
        text_open_object(&a.w);
        for (unsigned i = 0; i < AUDIT_FEW_HOLES; i++)
            audit_member_hole(&a, BYTES("\"token\":"), AUDIT_SECRET, BYTES("t"));
        text_key(&a.w, "data");
        audit_put_json(&a, BYTES("{\"a\":\"b\\n\",\"keys\":[\"x\"]}"), (struct audit_exempt){0},
                       true);
        text_close(&a.w);
        enum status st = audit_writer_end(&a, &record);
        bool failed = mem_fail_nth(0);
        assert_int_equal(st, failed ? ST_NOMEM : ST_OK);
        audit_writer_done(&a);
        audit_record_unref(record);
        if (!failed)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_and_accessors_are_shown_as_each_device_wants),
        cmocka_unit_test(a_record_is_one_line),
        cmocka_unit_test(a_text_may_come_again),
        cmocka_unit_test(a_record_may_have_many_holes),
        cmocka_unit_test(strings_of_bodies_are_hidden_at_any_depth),
        cmocka_unit_test(exempt_keys_stay_readable_at_any_depth),
        cmocka_unit_test(a_number_is_in_clear_only_where_the_field_is_one),
        cmocka_unit_test(escaped_strings_are_hidden_by_their_meaning),
        cmocka_unit_test(text_that_is_no_json_is_hidden_whole),
        cmocka_unit_test(the_names_of_a_listing_can_be_counted_only),
        cmocka_unit_test(a_record_lives_until_its_last_reference),
        cmocka_unit_test(a_record_keeps_no_spare_memory),
        cmocka_unit_test(a_record_without_memory_is_not_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
