#include "support.h"

#include "text/schema.h"

struct sample {
    const char *name;
    bool on, has_ttl;
    int64_t count, ttl;
    uint64_t size;
    struct field_strings list;
    struct field_map map;
    const struct text_value *any;
};

static const struct field fields[] = {
    FIELD(struct sample, name, STRING, .required = true),
    FIELD(struct sample, on, BOOL),
    FIELD(struct sample, count, INT, .preset = "22"),
    FIELD(struct sample, ttl, DURATION, .preset = "30s", .has = offsetof(struct sample, has_ttl)),
    FIELD(struct sample, size, SIZE, .omit = true),
    FIELD(struct sample, list, STRINGS),
    FIELD(struct sample, map, MAP),
    FIELD(struct sample, any, VALUE),
};
static const struct schema schema = SCHEMA(struct sample, fields);

static struct arena arena;

static int wipe(void **ctx)
{
    (void)ctx;
    arena_done(&arena);
    return 0;
}

static const struct text_value *parsed(const char *text)
{
    const struct text_value *v = NULL;
    assert_status(text_json_parse(&arena, bytes_str(text), &v, NULL), ST_OK);
    return v;
}

static struct sample decoded(const char *text)
{
    struct sample s;
    struct schema_fault fault;
    if (schema_decode(&schema, parsed(text), &arena, &s, &fault) != ST_OK)
        fail_msg("%s: %s: %s", text, fault.field, fault.why.text);
    return s;
}

static void refused(const char *text, const char *field)
{
    struct sample s;
    struct schema_fault fault = {0};
    assert_status(schema_decode(&schema, parsed(text), &arena, &s, &fault), ST_INVALID);
    assert_string_equal(fault.field, field);
    assert_true(fault.why.text[0] != '\0');
}

static void absent_fields_take_their_presets(void **ctx)
{
    (void)ctx;
    struct sample s = decoded("{\"name\":\"n\",\"count\":null}");
    assert_string_equal(s.name, "n");
    assert_false(s.on || s.has_ttl || s.list.given || s.map.given);
    assert_int_equal(s.count, 22);
    assert_int_equal(s.ttl, 30);
    assert_null(s.any);
}

/* The presets of an empty object are kept from the first time on, if no arena is in them. */
struct presets {
    const char *name;
    int64_t ttl;
    bool on, has_on;
    struct field_strings list;
};
static const struct field preset_fields[] = {
    FIELD(struct presets, name, STRING, .preset = "n"),
    FIELD(struct presets, ttl, DURATION, .preset = "30s"),
    FIELD(struct presets, on, BOOL, .preset = "true", .has = offsetof(struct presets, has_on)),
    FIELD(struct presets, list, STRINGS),
};
static const struct field list_fields[] = {
    FIELD(struct presets, list, STRINGS, .preset = "a,b"),
};
static const struct schema preset_schema = SCHEMA(struct presets, preset_fields);
static const struct schema list_schema = SCHEMA(struct presets, list_fields);

static void an_empty_object_gives_the_presets_every_time(void **ctx)
{
    (void)ctx;
    struct schema_fault fault;
    for (int i = 0; i < 3; i++) {
        struct presets p;
        const struct text_value *object = i == 2 ? NULL : parsed("{}");
        memset(&p, 0xff, sizeof p);
        assert_status(schema_decode(&preset_schema, object, &arena, &p, &fault), ST_OK);
        assert_string_equal(p.name, "n");
        assert_int_equal(p.ttl, 30);
        assert_true(p.on && !p.has_on && !p.list.given);
        p.ttl = 1;
        assert_status(schema_decode(&preset_schema, parsed("{\"ttl\":5}"), &arena, &p, &fault),
                      ST_OK);
        assert_int_equal(p.ttl, 5);
        assert_status(schema_decode(&list_schema, object, &arena, &p, &fault), ST_OK);
        assert_int_equal(p.list.n, 2);
        assert_string_equal(p.list.items[1], "b");
        arena_done(&arena);
    }
}

static void scalars_convert_into_each_other(void **ctx)
{
    (void)ctx;
    struct sample s = decoded("{\"name\":12.50,\"on\":\"true\",\"count\":\"-7\",\"ttl\":90}");
    assert_string_equal(s.name, "12.50");
    assert_true(s.on && s.has_ttl);
    assert_int_equal(s.count, -7);
    assert_int_equal(s.ttl, 90);
    s = decoded("{\"name\":true,\"on\":1,\"count\":true,\"ttl\":\"1h30m\",\"size\":\"1KiB\"}");
    assert_string_equal(s.name, "1");
    assert_true(s.on);
    assert_int_equal(s.count, 1);
    assert_int_equal(s.ttl, 5400);
    assert_int_equal(s.size, 1024);
    s = decoded("{\"name\":\"\",\"on\":\"\",\"count\":\"\",\"ttl\":\"2d\"}");
    assert_false(s.on);
    assert_int_equal(s.count, 22); /* the preset: an empty text is not given */
    assert_int_equal(s.ttl, 172800);
}

static void lists_are_written_in_two_ways(void **ctx)
{
    (void)ctx;
    struct sample s = decoded("{\"name\":1,\"list\":\" a, b c ,,d\"}");
    assert_int_equal(s.list.n, 3);
    assert_string_equal(s.list.items[1], "b c");
    s = decoded("{\"name\":1,\"list\":[\"a,b\",2]}");
    assert_int_equal(s.list.n, 2);
    assert_string_equal(s.list.items[0], "a,b");
    assert_string_equal(s.list.items[1], "2");
    s = decoded("{\"name\":1,\"list\":[]}");
    assert_true(s.list.given && s.list.n == 0);
}

static void maps_are_written_in_two_ways(void **ctx)
{
    (void)ctx;
    struct sample s = decoded("{\"name\":1,\"map\":{\"a\":1,\"b\":\"c=d\"}}");
    assert_int_equal(s.map.n, 2);
    assert_string_equal(s.map.pairs[0], "a");
    assert_string_equal(s.map.pairs[1], "1");
    assert_string_equal(s.map.pairs[3], "c=d");
    s = decoded("{\"name\":1,\"map\":\"k=v, l=w\"}"); /* one pair */
    assert_int_equal(s.map.n, 1);
    assert_string_equal(s.map.pairs[1], "v, l=w");
    s = decoded("{\"name\":1,\"map\":[\"k=v=w\",\"e=\"]}");
    assert_int_equal(s.map.n, 2);
    assert_string_equal(s.map.pairs[0], "k");
    assert_string_equal(s.map.pairs[1], "v=w");
    assert_string_equal(s.map.pairs[3], "");
    s = decoded("{\"name\":1,\"map\":[\"k=1\",\"a=2\",\"k=3\",\"b=4\",\"k=5\"]}");
    assert_int_equal(s.map.n, 3); /* the last of a name counts */
    assert_string_equal(s.map.pairs[0], "a");
    assert_string_equal(s.map.pairs[2], "b");
    assert_string_equal(s.map.pairs[4], "k");
    assert_string_equal(s.map.pairs[5], "5");
}

static void what_does_not_convert_names_the_field(void **ctx)
{
    (void)ctx;
    refused("{}", "name");
    refused("{\"name\":null}", "name");
    refused("{\"name\":[]}", "name");
    refused("{\"name\":\"a\\u0000b\"}", "name");
    refused("{\"name\":1,\"on\":\"perhaps\"}", "on");
    refused("{\"name\":1,\"count\":1.5}", "count");
    refused("{\"name\":1,\"count\":9223372036854775808}", "count");
    refused("{\"name\":1,\"ttl\":-1}", "ttl");
    refused("{\"name\":1,\"ttl\":true}", "ttl");
    refused("{\"name\":1,\"ttl\":\"500ms\"}", "ttl");
    refused("{\"name\":1,\"ttl\":\"1.5s\"}", "ttl");
    refused("{\"name\":1,\"ttl\":0.5}", "ttl");
    refused("{\"name\":1,\"list\":\" ,\"}", "list");
    refused("{\"name\":1,\"size\":-1}", "size");
    refused("{\"name\":1,\"list\":{\"a\":1}}", "list");
    refused("{\"name\":1,\"list\":[[]]}", "list");
    refused("{\"name\":1,\"map\":[\"novalue\"]}", "map");
    refused("{\"name\":1,\"map\":{\"a\\u0000\":\"b\"}}", "map");
    refused("{\"name\":1,\"map\":{\"a\":{}}}", "map");
}

struct exact {
    int64_t uses, ttl;
    bool has_uses, has_ttl;
};
static const struct field exact_fields[] = {
    FIELD(struct exact, uses, INT, .exact = true, .has = offsetof(struct exact, has_uses)),
    FIELD(struct exact, ttl, DURATION, .has = offsetof(struct exact, has_ttl)),
};
static const struct schema exact_schema = SCHEMA(struct exact, exact_fields);

static enum status decode_exact(const char *text, struct exact *ret, struct schema_fault *fault)
{
    return schema_decode(&exact_schema, parsed(text), &arena, ret, fault);
}

static void an_empty_text_is_not_given_or_refused(void **ctx)
{
    (void)ctx;
    static const char *const odd[] = {"{\"uses\":\"\"}", "{\"uses\":true}", "{\"uses\":false}",
                                      "{\"uses\":[]}", "{\"uses\":0.5}"};
    struct exact e;
    struct schema_fault fault = {0};
    for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
        assert_status(decode_exact(odd[i], &e, &fault), ST_INVALID);
        assert_string_equal(fault.field, "uses");
    }
    assert_status(decode_exact("{\"uses\":null,\"ttl\":\"\"}", &e, &fault), ST_OK);
    assert_true(!e.has_uses && !e.has_ttl);
    assert_status(decode_exact("{\"uses\":\"3\",\"ttl\":0}", &e, &fault), ST_OK);
    assert_true(e.has_uses && e.has_ttl);
    assert_int_equal(e.uses, 3);
}

static void the_line_of_what_is_wrong_is_told(void **ctx)
{
    (void)ctx;
    struct sample s;
    struct schema_fault fault = {0};
    const struct text_value *v = parsed("{\n\"name\":1,\n\n\"on\":\"perhaps\"}");
    assert_status(schema_decode(&schema, v, &arena, &s, &fault), ST_INVALID);
    assert_int_equal(fault.line, 4);
    v = parsed("\n{\"on\":true}"); /* what is missing: that of the object */
    assert_status(schema_decode(&schema, v, &arena, &s, &fault), ST_INVALID);
    assert_string_equal(fault.field, "name");
    assert_int_equal(fault.line, 2);
}

static void truth_has_twelve_words(void **ctx)
{
    (void)ctx;
    static const char *const yes[] = {"1", "t", "T", "true", "TRUE", "True"};
    static const char *const no[] = {"0", "f", "F", "false", "FALSE", "False"};
    static const char *const neither[] = {"", "2", "yes", "on", "tRUE", "falsE", "truee", "tr"};
    for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
        bool truth = false;
        assert_status(text_bool_parse(bytes_str(yes[i]), &truth), ST_OK);
        assert_true(truth);
        assert_status(text_bool_parse(bytes_str(no[i]), &truth), ST_OK);
        assert_false(truth);
    }
    for (size_t i = 0; i < ARRAY_LEN(neither); i++) {
        bool truth;
        assert_status(text_bool_parse(bytes_str(neither[i]), &truth), ST_INVALID);
    }
    struct sample s = decoded("{\"name\":1,\"on\":-3}");
    assert_true(s.on);
    s = decoded("{\"name\":1,\"on\":0}");
    assert_false(s.on);
    refused("{\"name\":1,\"on\":0.5}", "on");
    refused("{\"name\":1,\"on\":[]}", "on");
}

/* Each kind that may be left out of a reply. */
struct optional {
    const char *text;
    bool truth;
    int64_t n, ttl;
    uint64_t size;
    struct field_strings list;
    struct field_map map;
    const struct text_value *any;
    const void *sub;
};
static const struct field optional_fields[] = {
    FIELD(struct optional, text, STRING, .omit = true),
    FIELD(struct optional, truth, BOOL, .omit = true),
    FIELD(struct optional, n, INT, .omit = true),
    FIELD(struct optional, ttl, DURATION, .omit = true),
    FIELD(struct optional, size, SIZE, .omit = true),
    FIELD(struct optional, list, STRINGS, .omit = true),
    FIELD(struct optional, map, MAP, .omit = true),
    FIELD(struct optional, any, VALUE, .omit = true),
    FIELD(struct optional, sub, OBJECT, .omit = true, .sub = &list_schema),
};
static const struct schema optional_schema = SCHEMA(struct optional, optional_fields);

static void what_is_empty_may_be_left_out(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf none = {0}, all = {0};
    struct text_writer w = {.out = &none}, w2 = {.out = &all};
    static const char *const items[] = {"a", "b"};
    struct presets sub = {.list = {.items = items, .n = 1}};
    struct optional o = {.text = "", .list.given = true, .map.given = true};
    schema_encode(&optional_schema, &o, &w);
    assert_bytes(buf_bytes(&none), BYTES("{}"));
    o = (struct optional){.text = "x",
                          .truth = true,
                          .n = -1,
                          .ttl = 2,
                          .size = UINT64_MAX,
                          .list = {.items = items, .n = 2},
                          .map = {.pairs = items, .n = 1},
                          .any = parsed("null"),
                          .sub = &sub};
    schema_encode(&optional_schema, &o, &w2);
    assert_bytes(buf_bytes(&all),
                 BYTES("{\"text\":\"x\",\"truth\":true,\"n\":-1,\"ttl\":2,"
                       "\"size\":18446744073709551615,\"list\":[\"a\",\"b\"],"
                       "\"map\":{\"a\":\"b\"},\"any\":null,\"sub\":{\"list\":[\"a\"]}}"));
}

static void unknown_members_are_found(void **ctx)
{
    (void)ctx;
    const struct text_value *v = parsed("{\"x\":1,\"name\":2,\"Name\":3,\"y\":4}");
    const struct text_value *u = schema_unknown(&schema, v, NULL);
    assert_bytes(u->name, BYTES("x"));
    u = schema_unknown(&schema, v, u);
    assert_bytes(u->name, BYTES("Name"));
    u = schema_unknown(&schema, v, u);
    assert_bytes(u->name, BYTES("y"));
    assert_null(schema_unknown(&schema, v, u));
}

static void names_may_be_compared_without_case(void **ctx)
{
    (void)ctx;
    struct schema folded = schema;
    struct schema_fault fault;
    struct sample s;
    folded.fold_case = true;
    assert_status(schema_decode(&folded, parsed("{\"NAME\":\"x\"}"), &arena, &s, &fault), ST_OK);
    assert_string_equal(s.name, "x");
    assert_null(schema_unknown(&folded, parsed("{\"NAME\":\"x\"}"), NULL));
    const struct text_value *twice = parsed("{\"name\":\"x\",\"NAME\":\"y\"}");
    assert_status(schema_decode(&folded, twice, &arena, &s, &fault), ST_INVALID);
    assert_string_equal(fault.field, "name"); /* which of them would count? */
    assert_status(schema_decode(&schema, twice, &arena, &s, &fault), ST_OK);
}

static void a_typed_schema_converts_nothing(void **ctx)
{
    (void)ctx;
    static const char *const wrong[][2] = {
        {"{\"name\":5}", "name"},
        {"{\"name\":true}", "name"},
        {"{\"name\":\"x\",\"on\":1}", "on"},
        {"{\"name\":\"x\",\"on\":\"true\"}", "on"},
        {"{\"name\":\"x\",\"on\":\"\"}", "on"},
        {"{\"name\":\"x\",\"count\":\"5\"}", "count"},
        {"{\"name\":\"x\",\"count\":true}", "count"},
        {"{\"name\":\"x\",\"list\":\"a,b\"}", "list"},
        {"{\"name\":\"x\",\"list\":[\"a\",5]}", "list"},
        {"{\"name\":\"x\",\"map\":[\"a=b\"]}", "map"},
        {"{\"name\":\"x\",\"map\":{\"a\":5}}", "map"},
    };
    struct schema typed = schema;
    struct schema_fault fault;
    struct sample s;
    typed.typed = true;
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        assert_status(schema_decode(&typed, parsed(wrong[i][0]), &arena, &s, &fault), ST_INVALID);
        assert_string_equal(fault.field, wrong[i][1]);
        assert_status(schema_decode(&schema, parsed(wrong[i][0]), &arena, &s, &fault), ST_OK);
    }
    const char *good = "{\"name\":\"5\",\"on\":null,\"count\":5,\"ttl\":\"1m\",\"list\":[\"a\"]}";
    assert_status(schema_decode(&typed, parsed(good), &arena, &s, &fault), ST_OK);
    assert_int_equal(s.count, 5);
}

static void a_struct_is_written_as_its_table_says(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf out = {0};
    struct text_writer w = {.out = &out};
    struct sample s =
        decoded("{\"name\":\"n\",\"list\":[\"a\"],\"map\":{\"k\":\"v\"},\"any\":[1]}");
    schema_encode(&schema, &s, &w);
    assert_bytes(buf_bytes(&out),
                 BYTES("{\"name\":\"n\",\"on\":false,\"count\":22,\"ttl\":30,\"list\":[\"a\"],"
                       "\"map\":{\"k\":\"v\"},\"any\":[1]}"));
}

struct level {
    const char *module;
    int64_t level;
};
static const struct field level_fields[] = {FIELD_ITSELF(struct level, level, INT)};
static const struct schema level_schema = SCHEMA_NAMED(struct level, module, level_fields);

struct place {
    const char *name, *version, *load;
    struct bytes text;
    int64_t seen_ms;
    uint64_t index;
    struct field_list levels;
    struct bytes json;
    const struct text_value *tree;
};
static const struct field place_fields[] = {
    FIELD(struct place, version, STRING, .null = true),
    FIELD(struct place, text, BYTES),
    FIELD_NAMED("seen", struct place, seen_ms, TIME, .null = true),
    FIELD(struct place, index, UINT),
    FIELD(struct place, load, DIGITS),
    FIELD(struct place, levels, TABLE, .sub = &level_schema, .omit = true),
    FIELD_NAMED("was_seen", struct place, seen_ms, TIME, .blank = true),
    FIELD(struct place, json, JSON),
    FIELD(struct place, tree, TREE),
};
static const struct schema place_schema = SCHEMA_NAMED(struct place, name, place_fields);

struct places {
    struct field_list list, others;
    struct field_map map;
    struct field_strings strings;
    bool leads, knows_leads;
};
static const struct field places_fields[] = {
    FIELD(struct places, list, LIST, .sub = &level_schema),
    FIELD(struct places, map, MAP, .null = true),
    FIELD(struct places, strings, STRINGS, .null = true),
    FIELD(struct places, leads, BOOL, .omit = true, .has = offsetof(struct places, knows_leads)),
    FIELD_NAMED("", struct places, others, OTHERS, .sub = &place_schema),
};
static const struct schema places_schema = SCHEMA(struct places, places_fields);

static void assert_places(const struct places *places, const char *wanted)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct text_writer w = {.out = &out};
    schema_encode(&places_schema, places, &w);
    assert_bytes(buf_bytes(&out), bytes_str(wanted));
}

static void lists_and_maps_of_structs_are_written(void **ctx)
{
    (void)ctx;
    static const struct level levels[] = {{"a\"b", 1}, {"c", -2}};
    const struct place places[] = {
        {.name = "p",
         .text = BYTES("x\"y"),
         .load = "1.50",
         .levels = {levels, 2},
         .json = BYTES("{\"a\":1.0}"),
         .tree = parsed("{\"b\":2}")},
        {.name = "q",
         .version = "1",
         .seen_ms = 1000,
         .index = UINT64_MAX,
         .load = "0",
         .json = BYTES("null")},
    };
    const struct places all = {
        .list = {levels, 2}, .others = {places, 2}, .strings.given = true, .knows_leads = true};
    assert_places(&all, "{\"list\":[1,-2],\"map\":null,\"strings\":[],\"leads\":false,"
                        "\"p\":{\"version\":null,\"text\":\"x\\\"y\",\"seen\":null,\"index\":0,"
                        "\"load\":1.50,\"levels\":{\"a\\\"b\":1,\"c\":-2},"
                        "\"was_seen\":\"\",\"json\":{\"a\":1.0},\"tree\":{\"b\":2}},"
                        "\"q\":{\"version\":\"1\",\"text\":\"\",\"seen\":\"1970-01-01T00:00:01Z\","
                        "\"index\":18446744073709551615,\"load\":0,"
                        "\"was_seen\":\"1970-01-01T00:00:01Z\",\"json\":null,\"tree\":null}}");
}

static void empty_lists_and_maps_of_structs_are_written(void **ctx)
{
    (void)ctx;
    const struct places none = {.leads = true}; /* nor does the struct say that it knows */
    assert_places(&none, "{\"list\":[],\"map\":null,\"strings\":null}");
}

#define TEST(f) cmocka_unit_test_teardown(f, wipe)

/* Which fields of two objects have the same value, as a character each: '=' or '!'. */
static void assert_same(const char *one, const char *other, const char *wanted)
{
    char seen[ARRAY_LEN(fields)] = "";
    struct sample a = decoded(one), b = decoded(other);
    for (size_t i = 0; i + 1 < ARRAY_LEN(fields); i++) { /* the last one is a VALUE */
        seen[i] = field_same(&fields[i], &a, &b) ? '=' : '!';
        assert_int_equal(field_same(&fields[i], &b, &a), seen[i] == '=');
    }
    assert_string_equal(seen, wanted);
}

static void fields_are_compared_by_their_kind(void **ctx)
{
    (void)ctx;
    const char *full = "{\"name\":\"a\",\"on\":true,\"count\":1,\"ttl\":5,\"size\":7,"
                       "\"list\":[\"x\",\"y\"],\"map\":{\"k\":\"v\"}}";
    assert_same(full, full, "=======");
    assert_same(full, "{\"name\":\"a\"}", "=!!!!!!");
    assert_same(full,
                "{\"name\":\"a\",\"on\":\"1\",\"count\":\"1\",\"ttl\":\"5s\",\"size\":\"7\","
                "\"list\":\"x,y\",\"map\":[\"k=v\"]}",
                "=======");
    assert_same(full,
                "{\"name\":\"b\",\"on\":false,\"count\":2,\"ttl\":6,\"size\":8,"
                "\"list\":[\"x\",\"z\"],\"map\":{\"k\":\"w\"}}",
                "!!!!!!!");
    assert_same("{\"name\":\"a\",\"ttl\":30}", "{\"name\":\"a\"}", "=======");
}

static void a_field_given_in_neither_struct_is_the_same(void **ctx)
{
    (void)ctx;
    const struct field *ttl = &fields[3];
    struct sample a = {.ttl = 1}, b = {.ttl = 2};
    assert_true(field_same(ttl, &a, &b));
    b.has_ttl = true;
    assert_false(field_same(ttl, &a, &b));
    const struct field *name = &fields[0];
    a.name = "x";
    assert_false(field_same(name, &a, &b));
    assert_false(field_same(name, &b, &a));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(fields_are_compared_by_their_kind),
        TEST(a_field_given_in_neither_struct_is_the_same),
        TEST(absent_fields_take_their_presets),
        TEST(an_empty_object_gives_the_presets_every_time),
        TEST(scalars_convert_into_each_other),
        TEST(lists_are_written_in_two_ways),
        TEST(maps_are_written_in_two_ways),
        TEST(what_does_not_convert_names_the_field),
        TEST(an_empty_text_is_not_given_or_refused),
        TEST(the_line_of_what_is_wrong_is_told),
        TEST(truth_has_twelve_words),
        TEST(what_is_empty_may_be_left_out),
        TEST(unknown_members_are_found),
        TEST(a_typed_schema_converts_nothing),
        TEST(names_may_be_compared_without_case),
        TEST(a_struct_is_written_as_its_table_says),
        TEST(lists_and_maps_of_structs_are_written),
        TEST(empty_lists_and_maps_of_structs_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
