#include "support.h"

#include "state/fake_env.h"
#include "state/ns_key.h"
#include "state/state_world.h"

#include "auth/registry/registry_cache.h"
#include "auth/registry/registry_policy.h"
#include "text/encode.h"

static struct state_world world;
static struct fake_env env;

static int open_world(void **ctx)
{
    (void)ctx;
    sw_open(&world);
    sw_init(&world);
    return 0;
}

static int close_world(void **ctx)
{
    (void)ctx;
    sw_close(&world);
    return 0;
}

#define ID "0b0cf8fd-6e1e-4c8d-b0a1-4b7b7c8e9f01"
#define OTHER_ID "0b0cf8fd-6e1e-4c8d-b0a1-4b7b7c8e9f02"

static const char *const dcs[] = {"dc1", "dc2"};

static struct registry_policy policy_of(const char *id, const char *name, const char *rules)
{
    return (struct registry_policy){.id = id, .name = name, .description = "d", .rules = rules};
}

static void put(struct registry_policy policy, const struct registry_policy *before)
{
    struct state_txn txn;
    sw_begin(&world, &txn);
    assert_status(registry_policy_put(&txn, STATE_NS_ROOT, &policy, before), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
}

static struct registry_policy stored(const char *id, struct arena *arena)
{
    struct registry_policy policy;
    struct state_txn txn;
    assert_status(state_begin(world.state, arena, NULL, &txn), ST_OK);
    assert_status(registry_policy_load(&txn, STATE_NS_ROOT, id, &policy), ST_OK);
    state_end(&txn);
    return policy;
}

static enum status find(const char *name, char ret_id[64])
{
    struct arena arena = {0};
    struct state_txn txn;
    const char *id = "";
    assert_status(state_begin(world.state, &arena, NULL, &txn), ST_OK);
    enum status st = registry_policy_find(&txn, STATE_NS_ROOT, bytes_str(name), &id);
    state_end(&txn);
    snprintf(ret_id, 64, "%s", id);
    arena_done(&arena);
    return st;
}

static void a_policy_is_stored_and_found_by_name_in_any_case(void **ctx)
{
    (void)ctx;
    struct arena arena = {0};
    char id[64];
    struct registry_policy policy = policy_of(ID, "Web-1_a", "operator = \"read\"");
    policy.datacenters = (struct field_strings){dcs, 2, true};
    put(policy, NULL);
    struct registry_policy got = stored(ID, &arena);
    assert_string_equal(got.name, "Web-1_a");
    assert_string_equal(got.description, "d");
    assert_string_equal(got.rules, "operator = \"read\"");
    assert_int_equal(got.datacenters.n, 2);
    assert_string_equal(got.datacenters.items[1], "dc2");
    assert_true(got.created != 0 && got.created == got.modified);
    assert_status(find("wEB-1_A", id), ST_OK);
    assert_string_equal(id, ID);
    assert_status(find("web-1", id), ST_NOT_FOUND);
    assert_status(find("", id), ST_NOT_FOUND);
    arena_done(&arena);
}

/* Computed by Python: base64(blake2b("Web-1_a" "d" 'operator = "read"' "dc1" "dc2")). */
static void the_hash_is_as_specified(void **ctx)
{
    (void)ctx;
    struct arena arena = {0};
    struct registry_policy policy = policy_of(ID, "Web-1_a", "operator = \"read\"");
    char text[TEXT_BASE64_LEN(CRYPTO_BLAKE2B256_BYTES) + 1] = "";
    policy.datacenters = (struct field_strings){dcs, 2, true};
    put(policy, NULL);
    struct registry_policy got = stored(ID, &arena);
    (void)text_base64_put(bytes_of(got.hash, sizeof got.hash), TEXT_BASE64, text);
    assert_string_equal(text, "qJwJVJYwKYiQfdJPP4T+I+1zmcftWn29jWVzKAYp11E=");
    arena_done(&arena);
}

static void an_equal_update_is_a_change_and_a_new_name_frees_the_old_one(void **ctx)
{
    (void)ctx;
    struct arena arena = {0};
    char id[64];
    put(policy_of(ID, "one", ""), NULL);
    struct registry_policy first = stored(ID, &arena);
    put(policy_of(ID, "one", ""), &first);
    struct registry_policy second = stored(ID, &arena);
    assert_true(second.created == first.created && second.modified > first.modified);
    put(policy_of(ID, "two", ""), &second);
    assert_status(find("one", id), ST_NOT_FOUND);
    assert_status(find("two", id), ST_OK);
    struct registry_policy third = stored(ID, &arena);
    put(policy_of(ID, "TWO", ""), &third);
    assert_status(find("two", id), ST_OK);
    arena_done(&arena);
}

static void a_deleted_policy_leaves_no_key(void **ctx)
{
    (void)ctx;
    struct registry_policy policy = policy_of(ID, "one", "");
    struct state_txn txn;
    put(policy, NULL);
    sw_begin(&world, &txn);
    assert_status(registry_policy_delete(&txn, STATE_NS_ROOT, &policy), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    sw_begin(&world, &txn);
    assert_int_equal(state_count(&txn, BYTES("s/ns/root/registry-policy")), 0);
    state_end(&txn);
}

static void a_damaged_record_is_refused(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf record = {0};
    struct registry_policy policy;
    struct arena arena = {0};
    buf_add_u8(&record, 1);
    for (int i = 0; i < 3; i++)
        buf_add_text(&record, "t");
    buf_add_varint(&record, 1);
    buf_add_text(&record, "dc1");
    for (int i = 0; i < 32; i++)
        buf_add_u8(&record, (uint8_t)i);
    struct bytes whole = buf_bytes(&record);
    assert_status(registry_policy_read(whole, &arena, &policy), ST_OK);
    for (size_t n = 0; n < whole.len; n++)
        assert_status(registry_policy_read(bytes_of(whole.data, n), &arena, &policy), ST_CORRUPT);
    record.data[0] = 2;
    assert_status(registry_policy_read(buf_bytes(&record), &arena, &policy), ST_CORRUPT);
    arena_done(&arena);
}

static void names_are_of_few_characters(void **ctx)
{
    (void)ctx;
    char longest[REGISTRY_POLICY_NAME_MAX + 2];
    memset(longest, 'a', sizeof longest);
    longest[REGISTRY_POLICY_NAME_MAX + 1] = '\0';
    assert_false(registry_policy_is_name(longest));
    longest[REGISTRY_POLICY_NAME_MAX] = '\0';
    assert_true(registry_policy_is_name(longest));
    assert_true(registry_policy_is_name("aZ09-_"));
    static const char *const refused[] = {"", "a/b", "/a", "builtin/x", "a b", "\xc3\xa4", "a."};
    for (size_t i = 0; i < ARRAY_LEN(refused); i++)
        assert_false(registry_policy_is_name(refused[i]));
}

static void the_builtins_are_made_once_and_mended(void **ctx)
{
    (void)ctx;
    struct arena arena = {0};
    struct state_txn txn;
    char id[64];
    put(policy_of(ID, "Global-Management", ""), NULL); /* a client took the name */
    for (int round = 0; round < 2; round++) {
        sw_begin(&world, &txn);
        assert_status(registry_policy_put_builtins(&txn, STATE_NS_ROOT), ST_OK);
        assert_int_equal(state_staged(&txn), round == 0);
        if (round == 0)
            assert_status(sw_commit(&world, &txn), ST_OK);
        else
            state_end(&txn);
    }
    assert_status(find("global-management-2", id), ST_OK);
    assert_string_equal(id, REGISTRY_POLICY_MANAGEMENT);
    assert_status(find("builtin/global-read-only", id), ST_OK);
    struct registry_policy before = stored(REGISTRY_POLICY_MANAGEMENT, &arena);
    struct registry_policy older = before;
    older.rules = "acl = \"write\"";
    older.name = "renamed";
    put(older, &before);
    sw_begin(&world, &txn);
    assert_status(registry_policy_put_builtins(&txn, STATE_NS_ROOT), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    struct registry_policy mended = stored(REGISTRY_POLICY_MANAGEMENT, &arena);
    assert_string_equal(mended.rules, registry_policy_builtin(REGISTRY_POLICY_MANAGEMENT)->rules);
    assert_string_equal(mended.name, "renamed");
    assert_null(registry_policy_builtin(ID));
    arena_done(&arena);
}

/* Whether the links give a level at a name. */
static bool allows(struct acl_cache *cache, const char *const *links, size_t n,
                   const char *question)
{
    static const struct {
        const char *word;
        enum registry_resource resource;
    } words[] = {{"acl", REGISTRY_ACL},
                 {"key", REGISTRY_KEY},
                 {"node", REGISTRY_NODE},
                 {"service", REGISTRY_SERVICE}};
    struct arena arena = {0};
    struct state_txn txn;
    char word[16], name[32] = "", level[8];
    assert_int_equal(sscanf(question, "%15[^:]:%7[^:]:%31s", word, level, name) >= 2, 1);
    assert_status(state_begin(world.state, &arena, NULL, &txn), ST_OK);
    const struct registry_scope scope = {.cache = cache,
                                         .txn = &txn,
                                         .ns = STATE_NS_ROOT,
                                         .links = {.list = {links, n, true}},
                                         .management = false};
    enum registry_resource resource = REGISTRY_RESOURCES;
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strcmp(word, words[i].word) == 0)
            resource = words[i].resource;
    enum status st =
        registry_rules_allow(&scope, resource, bytes_str(name),
                             strcmp(level, "read") == 0 ? REGISTRY_READ : REGISTRY_WRITE);
    assert_true(st == ST_OK || st == ST_DENIED);
    state_end(&txn);
    arena_done(&arena);
    return st == ST_OK;
}

#define ALLOWS(question, ...)                         \
    allows(cache, (const char *const[]){__VA_ARGS__}, \
           ARRAY_LEN(((const char *const[]){__VA_ARGS__})), question)

static void links_give_what_their_policies_give(void **ctx)
{
    (void)ctx;
    struct arena arena = {0};
    struct acl_cache *cache;
    const struct registry_kind kind = registry_kind("dc1", REGISTRY_DENY);
    assert_status(acl_cache_new(&env.env, &kind.kind, &cache), ST_OK);
    struct registry_policy elsewhere = policy_of(OTHER_ID, "elsewhere", "acl = \"write\"");
    elsewhere.datacenters = (struct field_strings){dcs + 1, 1, true};
    put(policy_of(ID, "one", "key_prefix \"a/\" { policy = \"write\" }"), NULL);
    put(elsewhere, NULL);
    assert_true(ALLOWS("key:write:a/b", ID));
    assert_false(ALLOWS("key:write:b", ID));
    assert_false(ALLOWS("acl:read:", ID, OTHER_ID)); /* valid in dc2 alone */
    assert_false(ALLOWS("key:read:a/b", "0b0cf8fd-6e1e-4c8d-b0a1-4b7b7c8e9f03")); /* absent */
    assert_true(ALLOWS("key:write:a/b", "service/x", ID));
    struct registry_policy before = stored(ID, &arena);
    put(policy_of(ID, "one", "key \"a/b\" { policy = \"read\" }"), &before);
    assert_false(ALLOWS("key:write:a/b", ID)); /* the change takes effect at once */
    assert_true(ALLOWS("key:read:a/b", ID));
    acl_cache_free(cache);
    arena_done(&arena);
}

static void identities_stand_for_their_templates(void **ctx)
{
    (void)ctx;
    struct acl_cache *cache;
    const struct registry_kind kind = registry_kind("dc1", REGISTRY_DENY);
    assert_status(acl_cache_new(&env.env, &kind.kind, &cache), ST_OK);
    assert_true(ALLOWS("service:write:web", "service/web"));
    assert_true(ALLOWS("service:write:web-sidecar-proxy", "service/web"));
    assert_false(ALLOWS("service:write:webx", "service/web"));
    assert_true(ALLOWS("service:read:other", "service/web"));
    assert_true(ALLOWS("node:read:any", "service/web@dc0,dc1"));
    assert_false(ALLOWS("node:read:any", "service/web@dc0,dc2"));
    assert_true(ALLOWS("node:write:n1", "node/n1@dc1"));
    assert_false(ALLOWS("node:write:n2", "node/n1@dc1"));
    assert_true(ALLOWS("service:read:x", "node/n1@dc1"));
    assert_false(ALLOWS("node:write:n1", "node/n1@dc2"));
    assert_false(ALLOWS("node:read:n1", "nothing/n1"));
    acl_cache_free(cache);
}

static void the_default_policy_decides_where_no_rule_does(void **ctx)
{
    (void)ctx;
    struct acl_cache *cache;
    const struct registry_kind kind = registry_kind("dc1", REGISTRY_WRITE);
    assert_status(acl_cache_new(&env.env, &kind.kind, &cache), ST_OK);
    put(policy_of(ID, "one", "acl = \"deny\""), NULL);
    assert_false(ALLOWS("acl:read:", ID));
    assert_true(ALLOWS("key:write:x", ID));
    acl_cache_free(cache);
}

static void a_right_without_memory_is_no_right(void **ctx)
{
    (void)ctx;
    static const char *const links[] = {ID, "service/web@dc1", "node/n1@dc2"};
    const struct registry_kind kind = registry_kind("dc1", REGISTRY_DENY);
    put(policy_of(ID, "one", "acl = \"write\""), NULL);
    for (uint64_t n = 1;; n++) {
        struct arena arena = {0};
        struct state_txn txn;
        struct acl_cache *cache;
        assert_status(acl_cache_new(&env.env, &kind.kind, &cache), ST_OK);
        assert_status(state_begin(world.state, &arena, NULL, &txn), ST_OK);
        const struct registry_scope scope = {
            .cache = cache, .txn = &txn, .ns = STATE_NS_ROOT, .links = {.list = {links, 3, true}}};
        (void)mem_fail_nth(n); /* arms */
        enum status st = registry_rules_allow(&scope, REGISTRY_ACL, BYTES(""), REGISTRY_WRITE);
        bool done = !mem_fail_nth(0);
        state_end(&txn);
        arena_done(&arena);
        acl_cache_free(cache);
        assert_status(st, done ? ST_OK : ST_NOMEM);
        if (done)
            return;
    }
}

static void management_needs_no_rule(void **ctx)
{
    (void)ctx;
    struct acl_cache *cache;
    struct state_txn txn;
    const struct registry_kind kind = registry_kind("dc1", REGISTRY_DENY);
    assert_status(acl_cache_new(&env.env, &kind.kind, &cache), ST_OK);
    sw_begin(&world, &txn);
    struct registry_scope scope = {.cache = cache, .txn = &txn, .ns = STATE_NS_ROOT};
    assert_status(registry_rules_allow(&scope, REGISTRY_ACL, BYTES(""), REGISTRY_READ), ST_DENIED);
    scope.management = true;
    assert_status(registry_rules_allow(&scope, REGISTRY_ACL, BYTES(""), REGISTRY_WRITE), ST_OK);
    state_end(&txn);
    acl_cache_free(cache);
}

#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(a_policy_is_stored_and_found_by_name_in_any_case),
        IN_WORLD(the_hash_is_as_specified),
        IN_WORLD(an_equal_update_is_a_change_and_a_new_name_frees_the_old_one),
        IN_WORLD(a_deleted_policy_leaves_no_key),
        cmocka_unit_test(a_damaged_record_is_refused),
        cmocka_unit_test(names_are_of_few_characters),
        IN_WORLD(the_builtins_are_made_once_and_mended),
        IN_WORLD(links_give_what_their_policies_give),
        IN_WORLD(identities_stand_for_their_templates),
        IN_WORLD(the_default_policy_decides_where_no_rule_does),
        IN_WORLD(a_right_without_memory_is_no_right),
        IN_WORLD(management_needs_no_rule),
    };
    fake_env_init(&env, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
