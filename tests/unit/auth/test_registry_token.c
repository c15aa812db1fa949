/* Tokens of the registry as they are stored: the part of the record, links, hash, versions. */
#include "auth/registry/registry_link.h"
#include "auth/registry/registry_token.h"
#include "auth/token_world.h"
#include "base/mem.h"
#include "text/encode.h"

#define ACCESSOR "11111111-2222-3333-4444-555555555555"
#define SECRET "66666666-7777-8888-9999-aaaaaaaaaaaa"

static const char *const links[] = {"0b0cf8fd-6e1e-4c8d-b0a1-4b7b7c8e9f01", "service/web@dc1,dc2",
                                    "service/db", "node/n1@dc1"};

static struct registry_token sample_token(void)
{
    return (struct registry_token){.accessor = ACCESSOR,
                                   .secret = SECRET,
                                   .description = "about it",
                                   .links = {links, ARRAY_LEN(links), true},
                                   .local = true,
                                   .created_ms = NOW_MS,
                                   .expire_ms = NOW_MS + 60000};
}

static struct auth_scope registry_scope_of(struct state_txn *txn)
{
    struct auth_scope scope = scope_of(txn);
    scope.kind = TOKEN_REGISTRY;
    return scope;
}

static void add_sample(void)
{
    struct state_txn txn;
    struct registry_token token = sample_token();
    sw_begin(&world, &txn);
    const struct auth_scope scope = registry_scope_of(&txn);
    assert_status(registry_token_add(&scope, &token), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
}

static void read_back(struct state_txn *txn, const char *accessor, struct auth_token *stored,
                      struct registry_token *token)
{
    sw_begin(&world, txn);
    const struct auth_scope scope = registry_scope_of(txn);
    assert_status(auth_token_find(&scope, accessor, stored), ST_OK);
    assert_status(registry_token_of(&scope, stored, token), ST_OK);
}

static void a_token_is_read_as_it_was_added(void **ctx)
{
    (void)ctx;
    struct state_txn txn;
    struct auth_token stored;
    struct registry_token token;
    add_sample();
    read_back(&txn, ACCESSOR, &stored, &token);
    assert_string_equal(token.accessor, ACCESSOR);
    assert_string_equal(token.secret, SECRET);
    assert_string_equal(token.description, "about it");
    assert_true(token.local && token.links.n == 4);
    assert_string_equal(token.links.items[3], "node/n1@dc1");
    assert_true(token.created_ms == NOW_MS && token.expire_ms == NOW_MS + 60000);
    assert_true(token.created != 0 && token.modified == token.created);
    state_end(&txn);
}

static void a_change_raises_one_version(void **ctx)
{
    (void)ctx;
    struct state_txn txn;
    struct auth_token stored;
    struct registry_token token, again;
    add_sample();
    read_back(&txn, ACCESSOR, &stored, &token);
    const struct auth_scope scope = registry_scope_of(&txn);
    assert_status(registry_token_put(&scope, &stored, &token), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    read_back(&txn, ACCESSOR, &stored, &again);
    assert_true(again.created == token.created && again.modified > token.modified);
    assert_memory_equal(again.hash, token.hash, sizeof token.hash);
    state_end(&txn);
}

/* By Python's hashlib.blake2b, of "about it", "local", the policy's id, "web", "dc1", "dc2", "db",
 * "n1" and "dc1". */
static void the_hash_is_that_of_the_parts_in_order(void **ctx)
{
    (void)ctx;
    static const char expected[] = "e7f62bf113d1da8dcb98c5df71fabe7b"
                                   "01fc675b496f3e3678cb05519782ddef";
    char hash[TEXT_HEX_LEN(CRYPTO_BLAKE2B256_BYTES) + 1];
    struct state_txn txn;
    struct auth_token stored;
    struct registry_token token;
    add_sample();
    read_back(&txn, ACCESSOR, &stored, &token);
    text_hex_put(bytes_of(token.hash, sizeof token.hash), hash);
    assert_string_equal(hash, expected);
    state_end(&txn);
}

static void a_damaged_part_is_refused(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf part = {0};
    struct registry_token token = sample_token(), out;
    registry_token_put_part(&token, &part);
    assert_status(registry_token_read_part(buf_bytes(&part), &out), ST_OK);
    for (size_t len = 0; len < part.len; len++)
        assert_status(registry_token_read_part(bytes_of(part.data, len), &out), ST_CORRUPT);
    part.data[1] = 2; /* an unknown flag */
    assert_status(registry_token_read_part(buf_bytes(&part), &out), ST_CORRUPT);
    part.data[1] = 1;
    part.data[0] = 2; /* another format */
    assert_status(registry_token_read_part(buf_bytes(&part), &out), ST_CORRUPT);
    part.data[0] = 1;
    buf_add_u8(&part, 0); /* a byte too many */
    assert_status(registry_token_read_part(buf_bytes(&part), &out), ST_CORRUPT);
}

static void the_anonymous_token_is_made_once(void **ctx)
{
    (void)ctx;
    struct state_txn txn;
    struct auth_token stored;
    struct registry_token token;
    for (unsigned i = 0; i < 2; i++) {
        sw_begin(&world, &txn);
        const struct auth_scope scope = registry_scope_of(&txn);
        assert_status(registry_token_put_anonymous(&scope), ST_OK);
        assert_int_equal(state_staged(&txn), i == 0);
        if (i == 0)
            assert_status(sw_commit(&world, &txn), ST_OK);
        else
            state_end(&txn);
    }
    read_back(&txn, REGISTRY_ANONYMOUS, &stored, &token);
    assert_string_equal(token.secret, "anonymous");
    assert_string_equal(token.description, "Anonymous Token");
    assert_true(token.links.n == 0 && !token.local && token.expire_ms == 0);
    state_end(&txn);
}

static void a_bearer_that_is_taken_leaves_no_anonymous_token(void **ctx)
{
    (void)ctx;
    struct state_txn txn;
    struct auth_token chosen = auth_token_root(NOW_MS);
    const char *bearer = REGISTRY_TOKEN_ANONYMOUS_SECRET;
    sw_begin(&world, &txn);
    struct auth_scope scope = scope_of(&txn);
    assert_status(auth_token_create(&scope, &world.worker.env, &chosen, &bearer), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    sw_begin(&world, &txn);
    scope = registry_scope_of(&txn);
    assert_status(registry_token_put_anonymous(&scope), ST_OK);
    assert_false(state_staged(&txn));
    state_end(&txn);
}

static void a_link_is_taken_apart(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *text, *name;
        enum registry_link_kind kind;
        bool everywhere;
        const char *datacenters[3];
    } cases[] = {
        {"0b0cf8fd-6e1e", "0b0cf8fd-6e1e", REGISTRY_LINK_POLICY, true, {NULL}},
        {"service/web", "web", REGISTRY_LINK_SERVICE, true, {NULL}},
        {"service/web@", "web", REGISTRY_LINK_SERVICE, false, {NULL}},
        {"service/web@dc1,dc2", "web", REGISTRY_LINK_SERVICE, false, {"dc1", "dc2"}},
        {"node/n1@dc1", "n1", REGISTRY_LINK_NODE, false, {"dc1"}},
        {"other/n1@dc1", "other/n1@dc1", REGISTRY_LINK_POLICY, true, {NULL}},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct registry_link link = registry_link_read(bytes_str(cases[i].text));
        struct bytes dc;
        size_t n = 0;
        assert_int_equal(link.kind, cases[i].kind);
        assert_true(text_is(link.name, cases[i].name));
        assert_int_equal(link.datacenters.data == NULL, cases[i].everywhere);
        for (; registry_link_next_datacenter(&link.datacenters, &dc); n++)
            assert_true(cases[i].datacenters[n] != NULL && text_is(dc, cases[i].datacenters[n]));
        assert_null(cases[i].datacenters[n]);
    }
}

static void names_of_identities_have_a_form(void **ctx)
{
    (void)ctx;
    static const char *const good[] = {"a", "web", "w-1_x", "0"};
    static const char *const bad[] = {"", "Web", "-a", "a-", "_a", "a b", "a/b", "a@b", "a,b"};
    char longest[REGISTRY_IDENTITY_MAX + 2];
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_true(registry_link_is_name(good[i]));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(registry_link_is_name(bad[i]));
    assert_true(registry_link_is_datacenter("DC-1_x"));
    assert_false(registry_link_is_datacenter("") || registry_link_is_datacenter("a,b"));
    memset(longest, 'a', sizeof longest);
    longest[REGISTRY_IDENTITY_MAX + 1] = '\0';
    assert_false(registry_link_is_name(longest));
    longest[REGISTRY_IDENTITY_MAX] = '\0';
    assert_true(registry_link_is_name(longest));
}

static void a_link_has_a_longest_form(void **ctx)
{
    (void)ctx;
    const char *link = NULL, *many[REGISTRY_LINK_MAX];
    for (size_t i = 0; i < ARRAY_LEN(many); i++)
        many[i] = "dc1";
    struct field_strings list = {many, 2, true};
    assert_status(registry_link_of(&world.arena, REGISTRY_LINK_SERVICE, "web", &list, &link),
                  ST_OK);
    assert_string_equal(link, "service/web@dc1,dc1");
    list.n = 0;
    assert_status(registry_link_of(&world.arena, REGISTRY_LINK_NODE, "n1", &list, &link), ST_OK);
    assert_string_equal(link, "node/n1");
    list.n = ARRAY_LEN(many);
    assert_status(registry_link_of(&world.arena, REGISTRY_LINK_SERVICE, "web", &list, &link),
                  ST_TOO_BIG);
}

static enum status add_and_change(struct state_txn *txn)
{
    const struct auth_scope scope = registry_scope_of(txn);
    struct registry_token token = sample_token();
    struct auth_token stored;
    TRY(registry_token_put_anonymous(&scope));
    TRY(registry_token_add(&scope, &token));
    TRY(auth_token_find(&scope, ACCESSOR, &stored));
    TRY(registry_token_of(&scope, &stored, &token));
    return registry_token_put(&scope, &stored, &token);
}

static void every_lack_of_memory_is_told(void **ctx)
{
    (void)ctx;
    enum status st = ST_NOMEM;
    for (uint64_t n = 1; st != ST_OK; n++) {
        struct state_txn txn;
        struct arena arena = {0};
        assert_true(n < 1000);
        assert_status(state_begin(world.state, &arena, NULL, &txn), ST_OK);
        (void)mem_fail_nth(n);
        st = add_and_change(&txn);
        (void)mem_fail_nth(0);
        assert_true(st == ST_OK || st == ST_NOMEM);
        state_end(&txn);
        arena_done(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_token_is_read_as_it_was_added),
        TEST(a_change_raises_one_version),
        TEST(the_hash_is_that_of_the_parts_in_order),
        TEST(a_damaged_part_is_refused),
        TEST(the_anonymous_token_is_made_once),
        TEST(a_bearer_that_is_taken_leaves_no_anonymous_token),
        TEST(a_link_is_taken_apart),
        TEST(names_of_identities_have_a_form),
        TEST(a_link_has_a_longest_form),
        TEST(every_lack_of_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
