#include "api/token_world.h"
#include "state/ns_key.h"

/* Creating */

static void a_created_token_works_and_is_described(void **ctx)
{
    (void)ctx;
    struct test_request *t = post(root, "auth/token/create",
                                  "{\"policies\":\"b, A\",\"meta\":{\"k\":\"v\"},\"ttl\":\"1h\","
                                  "\"display_name\":\"ci / x!\",\"num_uses\":\"0\"}");
    expect(t, 200,
           "\"policies\":[\"a\",\"b\",\"default\"],\"token_policies\":[\"a\",\"b\","
           "\"default\"],\"metadata\":{\"k\":\"v\"},\"lease_duration\":3600,"
           "\"renewable\":true,\"entity_id\":\"\",\"token_type\":\"service\","
           "\"orphan\":false,\"mfa_requirement\":null,\"num_uses\":0}");
    struct made m;
    copy_member(t, "client_token", m.token, sizeof m.token);
    assert_true(strncmp(m.token, "hvs.", 4) == 0);
    t = post(root, "auth/token/lookup", about("token", m.token));
    expect(t, 200, "\"display_name\":\"token-ci---x\"");
    expect(t, 200,
           "\"creation_ttl\":3600,\"expire_time\":\"2023-11-14T23:13:20Z\","
           "\"issue_time\":\"2023-11-14T22:13:20Z\",\"ttl\":3600,");
    expect(t, 200, "\"path\":\"auth/token/create\",\"meta\":{\"k\":\"v\"}");
}

static void create_refuses_what_is_not_allowed(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *body, *says;
    } cases[] = {
        {"{\"type\":\"other\"}", "invalid 'type'"},
        {"{\"num_uses\":-1}", "negative"},
        {"{\"ttl\":\"soon\"}", "ttl"},
        {"{\"ttl\":-5}", "ttl"},
        {"{\"entity_alias\":\"x\"}", "entity_alias"},
        {"{\"id\":\"a.b\"}", "id: "},
        {"{\"id\":\"a b\"}", "id: "},
        {"{\"type\":\"batch\",\"period\":60}", "batch tokens cannot have \\\"period\\\""},
        {"{\"type\":\"batch\",\"num_uses\":2}", "batch tokens cannot have \\\"num_uses\\\""},
        {"{\"type\":\"batch\",\"explicit_max_ttl\":2}", "explicit_max_ttl"},
        {"{\"type\":\"batch\",\"id\":\"x\"}", "batch tokens cannot have \\\"id\\\""},
        {"{\"type\":\"batch\"}", "batch tokens cannot be root tokens"},
        {"{\"policies\":[\"response-wrapping\"]}", "response-wrapping"},
        {"[1]", NULL},
    };
    unsigned keys = count_keys();
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        expect(post(root, "auth/token/create", cases[i].body), 400, cases[i].says);
    expect(post(root, "auth/token/create/none", "{}"), 400, "unknown role none");
    assert_int_equal(count_keys(), keys);
}

static void an_id_may_be_chosen_once(void **ctx)
{
    (void)ctx;
    struct made m = make(root, "{\"id\":\"my-own\"}");
    assert_string_equal(m.token, "my-own");
    assert_int_equal(status_of("my-own"), 200);
    expect(post(root, "auth/token/create", "{\"id\":\"my-own\"}"), 400, "duplicate");
    make("my-own", "{}");
    assert_int_equal(post(root, "auth/token/revoke", "{\"token\":\"my-own\"}")->http, 204);
    expect(post(root, "auth/token/create", "{\"id\":\"my-own\"}"), 400, "still being revoked");
    clean_up();
    make(root, "{\"id\":\"my-own\"}");
}

static void a_root_token_makes_root_tokens_that_end(void **ctx)
{
    (void)ctx;
    struct test_request *t = post(root, "auth/token/create", NULL);
    expect(t, 200, "\"policies\":[\"root\"]");
    expect(t, 200, "\"lease_duration\":0,\"renewable\":false");
    struct made ending = make(root, "{\"ttl\":60}");
    expect(post(ending.token, "auth/token/create", "{}"), 400, "expiring root tokens");
    make(ending.token, "{\"ttl\":30}");
}

static void a_ttl_is_cut_with_a_warning(void **ctx)
{
    (void)ctx;
    expect(post(root, "auth/token/create", "{\"ttl\":\"1000h\"}"), 200,
           "\"warnings\":[\"TTL of \\\"1000h\\\" exceeded");
    expect(post(root, "auth/token/create", "{\"ttl\":\"2h\",\"explicit_max_ttl\":\"1h\"}"), 200,
           "\"lease_duration\":3600,");
    expect(post(root, "auth/token/create", "{\"policies\":\"a\"}"), 200,
           "\"lease_duration\":2764800,");
}

static void nobody_gives_more_than_he_has(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *body, *says;
    } refused[] = {
        {"{\"policies\":\"b\"}", "child policies must be subset of parent"},
        {"{\"policies\":\"a,root\"}", "child policies must be subset of parent"},
        {"{\"no_parent\":true}", "root or sudo privileges required to create orphan"},
        {"{\"id\":\"x\"}", "root or sudo privileges required to specify token id"},
        {"{\"period\":60}", "root or sudo privileges required to create periodic"},
    };
    write_policy("maker", MAY_CREATE(""));
    struct made m = make(root, "{\"policies\":\"maker,a\"}");
    for (size_t i = 0; i < ARRAY_LEN(refused); i++)
        expect(post(m.token, "auth/token/create", refused[i].body), 400, refused[i].says);
    expect(post(m.token, "auth/token/create", NULL), 200,
           "\"token_policies\":[\"a\",\"default\",\"maker\"]");
    expect(post(m.token, "auth/token/create", "{\"policies\":[\" A \"]}"), 200,
           "\"token_policies\":[\"a\",\"default\"]");
    struct test_request *t =
        post(m.token, "auth/token/create", "{\"policies\":\"a\",\"no_default_policy\":true}");
    expect(t, 200, "\"token_policies\":[\"a\"]");
    expect(t, 200, "\"warnings\":[\"Policy \\\"a\\\" does not exist\"]");
    expect(post(m.token, "auth/token/create-orphan", "{\"policies\":\"a\"}"), 200,
           "\"orphan\":true");
    expect(post(m.token, "auth/token/revoke-orphan", about("token", m.token)), 400,
           "root or sudo privileges required");
    assert_int_equal(as(m.token, METHOD_LIST, "auth/token/accessors", NULL)->http, 403);
    assert_int_equal(post(m.token, "auth/token/create/r", NULL)->http, 403);
    assert_int_equal(post(m.token, "auth/token/revoke", about("token", m.token))->http, 403);
    m = make(root, "{\"policies\":\"maker\",\"no_default_policy\":true}");
    expect(post(m.token, "auth/token/create", "{\"policies\":\"maker\"}"), 200,
           "\"token_policies\":[\"maker\"]");
}

static void sudo_gives_anything_but_root(void **ctx)
{
    (void)ctx;
    write_policy("maker", MAY_CREATE(",\\\"sudo\\\""));
    struct made m = make(root, "{\"policies\":\"maker\"}");
    expect(post(m.token, "auth/token/create",
                "{\"policies\":\"b\",\"period\":60,\"id\":\"x\","
                "\"no_parent\":true}"),
           200, "\"token_policies\":[\"b\",\"default\"]");
    expect(post(m.token, "auth/token/create", "{\"policies\":\"root\"}"), 400,
           "root tokens may not be created");
    expect(post(m.token, "auth/token/create-orphan", "{\"policies\":\"b\"}"), 400, "subset");
}

/* Life */

static void a_token_ends_at_its_time_and_not_before(void **ctx)
{
    (void)ctx;
    w.later_ms = 777;
    struct made m = make(root, "{\"ttl\":10}");
    w.later_ms = 10776;
    assert_int_equal(status_of(m.token), 200);
    assert_false(upkeep());
    w.later_ms = 10777;
    assert_int_equal(status_of(m.token), 403);
    expect(post(root, "auth/token/lookup", about("token", m.token)), 403, "bad token");
    expect(post(root, "auth/token/lookup-accessor", about("accessor", m.accessor)), 400,
           "invalid accessor");
    expect(post(root, "auth/token/renew", about("token", m.token)), 400, "token not found");
    assert_true(upkeep());
    assert_int_equal(status_of(m.token), 403);
}

static void renewing_counts_from_now_up_to_the_maximum(void **ctx)
{
    (void)ctx;
    struct made m = make(root, "{\"ttl\":60,\"explicit_max_ttl\":100}");
    w.later_ms = 30000;
    expect(post(m.token, "auth/token/renew-self", NULL), 200, "\"lease_duration\":60,");
    expect(post(m.token, "auth/token/renew-self", "{\"increment\":\"20s\"}"), 200,
           "\"lease_duration\":20,");
    w.later_ms = 45000; /* the newest increment is what the next renewal gives */
    expect(post(m.token, "auth/token/renew-self", NULL), 200, "\"lease_duration\":20,");
    expect(as(m.token, METHOD_GET, "auth/token/lookup-self", NULL), 200, "\"creation_ttl\":60,");
    expect(post(m.token, "auth/token/renew-self", "{\"increment\":55}"), 200,
           about_client(m.token));
    expect(post(root, "auth/token/renew-accessor", about("accessor", m.accessor)), 200,
           "\"client_token\":\"\"");
    w.later_ms = 80000;
    expect(post(root, "auth/token/renew", about("token", m.token)), 200, "\"lease_duration\":20,");
    expect(as(m.token, METHOD_GET, "auth/token/lookup-self", NULL), 200,
           "\"last_renewal\":\"2023-11-14T22:14:40Z\",\"last_renewal_time\":1700000080");
    w.later_ms = 99999;
    assert_int_equal(status_of(m.token), 200);
    w.later_ms = 100000;
    assert_int_equal(status_of(m.token), 403);
    clean_up();
}

static void a_periodic_token_lives_as_long_as_it_is_renewed(void **ctx)
{
    (void)ctx;
    struct made m = make(root, "{\"period\":\"1h\",\"policies\":\"a\"}");
    expect(post(root, "auth/token/lookup", about("token", m.token)), 200, "\"period\":3600");
    for (int i = 0; i < 1000; i++) {
        w.later_ms += 3599000;
        expect(post(root, "auth/token/renew", about("token", m.token)), 200,
               "\"lease_duration\":3600,");
        assert_false(upkeep());
    }
    w.later_ms += 3600000;
    expect(post(root, "auth/token/renew", about("token", m.token)), 400, "token not found");
}

static void what_is_not_renewable_is_not_renewed(void **ctx)
{
    (void)ctx;
    struct made m = make(root, "{\"renewable\":\"false\",\"ttl\":60}");
    expect(post(m.token, "auth/token/renew-self", NULL), 400, "lease is not renewable");
    expect(post(root, "auth/token/renew-self", NULL), 400, "lease is not renewable");
    m = make(root, NULL);
    expect(post(m.token, "auth/token/renew-self", NULL), 400, "lease is not renewable");
    expect(post(root, "auth/token/renew", "{\"token\":\"nothing\"}"), 400, "token not found");
    expect(post(root, "auth/token/renew", NULL), 400, "missing token ID");
    expect(post(root, "auth/token/renew-accessor", "{\"accessor\":\"x\"}"), 400,
           "invalid accessor");
}

/* Trees */

static void a_revoked_token_takes_all_below_it_along_at_once(void **ctx)
{
    (void)ctx;
    unsigned keys = count_keys();
    struct made a = make(root, "{\"ttl\":600}"), b = make(a.token, "{\"ttl\":600}"),
                c = make(b.token, "{\"ttl\":600}"), other = make(root, NULL);
    struct made batch = make(b.token, "{\"type\":\"batch\",\"policies\":\"x\",\"ttl\":600}");
    assert_int_equal(status_of(c.token), 200);
    assert_int_equal(post(batch.token, "auth/token/lookup-self", NULL)->http, 403); /* no policy */
    expect(post(root, "auth/token/lookup", about("token", batch.token)), 200, "\"type\":\"batch\"");
    assert_int_equal(post(root, "auth/token/revoke", about("token", a.token))->http, 204);
    assert_int_equal(status_of(a.token), 403);
    assert_int_equal(status_of(b.token), 403);
    assert_int_equal(status_of(c.token), 403);
    expect(post(root, "auth/token/lookup", about("token", batch.token)), 403, "bad token");
    expect(post(root, "auth/token/renew-accessor", about("accessor", c.accessor)), 400, NULL);
    assert_int_equal(status_of(other.token), 200);
    clean_up();
    assert_int_equal(post(root, "auth/token/revoke", about("token", other.token))->http, 204);
    clean_up();
    assert_int_equal(count_keys(), keys);
}

static void orphans_survive_their_parent(void **ctx)
{
    (void)ctx;
    unsigned keys = count_keys();
    struct made a = make(root, "{\"ttl\":600}"), b = make(a.token, "{\"ttl\":600}"),
                c = make(b.token, "{\"ttl\":600}");
    struct made o = make_at(a.token, "auth/token/create-orphan", "{\"ttl\":600}");
    assert_int_equal(post(root, "auth/token/revoke-orphan", about("token", a.token))->http, 204);
    for (int i = 0; i < 2; i++) { /* before and after the clean-up */
        assert_int_equal(status_of(a.token), 403);
        expect(as(b.token, METHOD_GET, "auth/token/lookup-self", NULL), 200, "\"orphan\":true");
        expect(as(c.token, METHOD_GET, "auth/token/lookup-self", NULL), 200, "\"orphan\":false");
        expect(as(o.token, METHOD_GET, "auth/token/lookup-self", NULL), 200, "\"orphan\":true");
        clean_up();
    }
    expect(post(root, "auth/token/revoke-orphan", about("token", a.token)), 400, "not found");
    assert_int_equal(post(b.token, "auth/token/revoke-self", NULL)->http, 204);
    assert_int_equal(status_of(c.token), 403);
    assert_int_equal(post(root, "auth/token/revoke-accessor", about("accessor", o.accessor))->http,
                     204);
    clean_up();
    assert_int_equal(count_keys(), keys);
}

static void an_expired_parent_takes_its_children_along(void **ctx)
{
    (void)ctx;
    unsigned keys = count_keys();
    struct made a = make(root, "{\"ttl\":10}"), b = make(a.token, "{\"ttl\":600}");
    w.later_ms = 9999;
    assert_int_equal(status_of(b.token), 200);
    w.later_ms = 10000;
    assert_int_equal(status_of(b.token), 403);
    clean_up();
    assert_int_equal(count_keys(), keys);
}

static uint64_t keys_below(const char *prefix)
{
    struct store_pin pin;
    assert_status(store_pin(w.m.store, "test", 0, &pin), ST_OK);
    uint64_t n = store_count(&pin, bytes_str(prefix));
    store_unpin(&pin);
    return n;
}

/* The key of the newest token. */
static void newest_token_key(char ret_key[100])
{
    struct store_pin pin;
    struct store_iter *iter = mem_alloc(sizeof *iter);
    uint64_t newest = 0;
    assert_non_null(iter);
    assert_status(store_pin(w.m.store, "test", 0, &pin), ST_OK);
    store_iter_init(iter, &pin, BYTES("s/ns/root/token/"), BYTES(""));
    while (store_iter_next(iter))
        if (iter->item.created > newest) {
            newest = iter->item.created;
            (void)snprintf(ret_key, 100, "%.*s", (int)iter->item.key.len,
                           (const char *)iter->item.key.data);
        }
    store_unpin(&pin);
    mem_free(iter);
}

/* The descendants of the damaged token end, too, and no mark is left behind. */
static void a_damaged_record_does_not_hold_up_the_end_of_a_tree(void **ctx)
{
    (void)ctx;
    char damaged[100];
    struct made a = make(root, "{\"ttl\":600}"), b = make(a.token, "{\"ttl\":600}");
    newest_token_key(damaged);
    struct made c = make(b.token, "{\"ttl\":600}"), other = make(a.token, "{\"ttl\":600}");
    uint64_t tokens = keys_below("s/ns/root/token/");
    world_put(damaged, "damage");
    expect(post(root, "auth/token/revoke", about("token", a.token)), 204, NULL);
    assert_int_equal(status_of(other.token), 403);
    clean_up();
    assert_int_equal(status_of(c.token), 403);
    assert_int_equal(keys_below("s/ns/root/token/"), tokens - 4);
    assert_int_equal(keys_below("s/unfinished/"), 0);
}

static void a_large_tree_is_deleted_in_steps(void **ctx)
{
    (void)ctx;
    unsigned keys = count_keys();
    struct made top = make(root, "{\"ttl\":600}"), below = top;
    for (int i = 0; i < EXPIRY_STEPS + 50; i++) {
        below = make(top.token, "{\"ttl\":600}");
        if (i % 50 == 0)
            make(below.token, "{\"ttl\":600}");
    }
    assert_int_equal(
        post(root, "auth/token/revoke-accessor", about("accessor", top.accessor))->http, 204);
    assert_true(upkeep());
    assert_true(count_keys() > keys + 50);         /* no transaction takes all of it */
    assert_int_equal(status_of(below.token), 403); /* deleted or not */
    assert_true(clean_up() >= 1);                  /* how many more depends on the ids */
    assert_int_equal(count_keys(), keys);
}

static void generations_are_bounded(void **ctx)
{
    (void)ctx;
    struct made m = make(root, "{\"ttl\":600}");
    for (int i = 0; i < AUTH_TOKEN_DEPTH_MAX - 1; i++)
        m = make(m.token, "{\"ttl\":600}");
    assert_int_equal(status_of(m.token), 200);
    expect(post(m.token, "auth/token/create", "{\"ttl\":600}"), 400, "generations");
    make_at(m.token, "auth/token/create-orphan", "{\"ttl\":600}");
}

static void what_a_token_keeps_goes_with_it(void **ctx)
{
    (void)ctx;
    struct arena arena = {0};
    struct state_txn txn;
    struct bytes key;
    struct state_commit commit = {.done = saved};
    unsigned keys = count_keys();
    struct made parent = make(root, "{\"ttl\":600}"), m = make(parent.token, "{\"ttl\":600}");
    assert_status(state_begin(w.state, &arena, NULL, &txn), ST_OK);
    struct auth_scope scope = {
        .txn = &txn, .cipher = state_cipher(w.state), .ns = "root", .now_ms = 1700000000000};
    struct auth_token token;
    assert_status(auth_token_load(&scope, bytes_str(m.token), &token), ST_OK);
    assert_int_equal(strlen(token.id), AUTH_TOKEN_ID_LEN);
    assert_status(state_ns_key(&arena, "root", "cubby", bytes_str(token.id), "a/b", &key), ST_OK);
    assert_status(state_put(&txn, key, BYTES("x")), ST_OK);
    assert_status(state_commit(&txn, &commit), ST_OK);
    state_end(&txn);
    clock_run(&w.env);
    state_commit_done(&commit);
    arena_done(&arena);
    assert_int_equal(post(root, "auth/token/revoke", about("token", parent.token))->http, 204);
    clean_up();
    assert_int_equal(count_keys(), keys);
}

/* Uses */

static void uses_are_counted_whatever_comes_of_them(void **ctx)
{
    (void)ctx;
    unsigned keys = count_keys();
    struct made m = make(root, "{\"num_uses\":4,\"ttl\":600}");
    expect(as(m.token, METHOD_GET, "auth/token/lookup-self", NULL), 200, "\"num_uses\":3");
    expect(post(m.token, "auth/token/create", NULL), 400, "restricted use");
    assert_int_equal(as(m.token, METHOD_GET, "no/such/path", NULL)->http, 404);
    expect(as(m.token, METHOD_GET, "auth/token/lookup-self", NULL), 200, "\"num_uses\":0");
    assert_int_equal(status_of(m.token), 403);
    clean_up();
    assert_int_equal(count_keys(), keys);
}

static void the_last_use_may_be_anything(void **ctx)
{
    (void)ctx;
    struct made m = make(root, "{\"num_uses\":1,\"ttl\":600}");
    assert_int_equal(as(m.token, METHOD_PUT, "kv/last", "{\"a\":1}")->http, 204);
    assert_int_equal(status_of(m.token), 403);
    m = make(root, "{\"num_uses\":1,\"ttl\":600}");
    expect(post(m.token, "auth/token/create", "{\"ttl\":1}"), 400, "restricted use");
    m = make(root, "{\"num_uses\":1,\"ttl\":600}");
    expect(post(m.token, "auth/token/renew-self", NULL), 400, "token not found");
    assert_int_equal(status_of(m.token), 403);
    m = make(root, "{\"num_uses\":1,\"ttl\":600}");
    assert_int_equal(post(m.token, "auth/token/revoke-self", NULL)->http, 204);
    assert_int_equal(status_of(m.token), 403);
    m = make(root, "{\"num_uses\":2,\"ttl\":600}");
    expect(post(m.token, "auth/token/renew-self", NULL), 200, "\"num_uses\":1");
    assert_int_equal(status_of(m.token), 200);
    assert_int_equal(status_of(m.token), 403);
}

/* What there is can be used up, prolonged and ended; nothing is added. */
static void a_full_state_goes_on_with_the_tokens_it_has(void **ctx)
{
    (void)ctx;
    struct made counted = make(root, "{\"num_uses\":2,\"ttl\":600}");
    struct made m = make(root, "{\"ttl\":600}"), parent = make(root, "{\"ttl\":600}");
    struct made child = make(parent.token, "{\"ttl\":600}");
    set_full(true);
    assert_int_equal(post(root, "auth/token/create", NULL)->http, 507);
    assert_int_equal(status_of(counted.token), 200);
    assert_int_equal(status_of(counted.token), 200);
    assert_int_equal(status_of(counted.token), 403);
    assert_int_equal(post(m.token, "auth/token/renew-self", NULL)->http, 200);
    assert_int_equal(post(m.token, "auth/token/revoke-self", NULL)->http, 204);
    assert_int_equal(post(root, "auth/token/revoke-orphan", about("token", parent.token))->http,
                     204);
    clean_up();
    assert_int_equal(status_of(child.token), 200);
    set_full(false);
}

static void a_standby_forwards_what_counts(void **ctx)
{
    (void)ctx;
    struct made m = make(root, "{\"num_uses\":1,\"ttl\":600}");
    world_standby(&w, true);
    assert_int_equal(status_of(m.token), 299);
    expect(as(m.token, METHOD_GET, "sys/internal/state", NULL), 400, "the active node only");
    w.node.active = true;
    assert_int_equal(status_of(m.token), 200);
    assert_int_equal(status_of(m.token), 403);
}

/* Batch */

static void a_batch_token_is_stored_nowhere(void **ctx)
{
    (void)ctx;
    unsigned keys = count_keys();
    struct made m = make_at(root, "auth/token/create-orphan",
                            "{\"type\":\"batch\",\"policies\":\"a\",\"ttl\":60}");
    assert_true(strncmp(m.token, "hvb.", 4) == 0);
    assert_string_equal(m.accessor, "");
    assert_int_equal(count_keys(), keys);
    struct test_request *t = post(root, "auth/token/lookup", about("token", m.token));
    expect(t, 200, "\"type\":\"batch\"");
    expect(t, 200, "\"orphan\":true,\"renewable\":false");
    expect(post(root, "auth/token/renew", about("token", m.token)), 400, "batch tokens");
    expect(post(root, "auth/token/revoke", about("token", m.token)), 400, "batch tokens");
    w.later_ms = 60000;
    expect(post(root, "auth/token/lookup", about("token", m.token)), 403, "bad token");
}

static void a_batch_token_does_not_come_back_with_the_id_of_its_parent(void **ctx)
{
    (void)ctx;
    static const char parent[] = "{\"id\":\"again\",\"ttl\":600}";
    struct made a = make(root, parent);
    struct made batch = make(a.token, "{\"type\":\"batch\",\"policies\":\"x\",\"ttl\":600}");
    expect(post(root, "auth/token/lookup", about("token", batch.token)), 200, "\"accessor\":\"\"");
    assert_int_equal(post(root, "auth/token/revoke", about("token", a.token))->http, 204);
    expect(post(root, "auth/token/lookup", about("token", batch.token)), 403, "bad token");
    clean_up();
    a = make(root, parent);
    assert_int_equal(status_of(a.token), 200);
    expect(post(root, "auth/token/lookup", about("token", batch.token)), 403, "bad token");
    assert_int_equal(post(root, "auth/token/revoke", about("token", a.token))->http, 204);
    clean_up();
}

static void a_batch_token_that_was_tampered_with_is_no_token(void **ctx)
{
    (void)ctx;
    struct made m = make(root, "{\"type\":\"batch\",\"policies\":\"a\"}");
    size_t len = strlen(m.token);
    for (size_t i = 0; i < len; i += 7) {
        struct made bad = m;
        bad.token[i] = bad.token[i] == 'A' ? 'B' : 'A';
        expect(post(root, "auth/token/lookup", about("token", bad.token)), 403, "bad token");
    }
    for (size_t cut = 1; cut < len; cut += 5) {
        struct made bad = m;
        bad.token[cut] = '\0';
        expect(post(root, "auth/token/lookup", about("token", bad.token)), 403, "bad token");
    }
    expect(post(root, "auth/token/lookup", about("token", m.token)), 200, NULL);
}

static void a_batch_token_that_would_be_too_long_is_refused(void **ctx)
{
    (void)ctx;
    static char body[6000];
    memset(body, 'x', sizeof body - 1);
    static const char start[] = "{\"type\":\"batch\",\"policies\":\"a\",\"meta\":{\"k\":\"";
    memcpy(body, start, sizeof start - 1);
    memcpy(body + 5000, "\"}}", 4);
    expect(post(root, "auth/token/create", body), 400, "longer than 4096");
}

/* The rest */

static void accessors_are_listed(void **ctx)
{
    (void)ctx;
    struct made m = make(root, NULL);
    expect(as(root, METHOD_LIST, "auth/token/accessors", NULL), 200, m.accessor);
    expect(post(root, "auth/token/lookup-accessor", about("accessor", m.accessor)), 200,
           "\"id\":\"\"");
    expect(post(root, "auth/token/lookup-accessor", "{\"accessor\":\"a/../b\"}"), 400, "invalid");
    char longest[AUTH_TOKEN_MAX + 1];
    memset(longest, 'a', AUTH_TOKEN_MAX);
    longest[AUTH_TOKEN_MAX] = '\0'; /* and no key of the state */
    expect(post(root, "auth/token/lookup-accessor", about("accessor", longest)), 400,
           "invalid accessor");
    expect(post(root, "auth/token/lookup-accessor", "{}"), 400, "invalid accessor");
    expect(post(root, "auth/token/revoke-accessor", "{\"accessor\":\"x\"}"), 400, "invalid");
    expect(post(root, "auth/token/revoke", "{\"token\":\"unknown\"}"), 204, NULL);
    expect(post(root, "auth/token/tidy", NULL), 202, "\"warnings\":[");
}

static int from(const char *peer, const char *token)
{
    static struct test_request t;
    test_request_done(&t);
    test_request_init(&t, METHOD_GET, "/v1/auth/token/lookup-self", NULL);
    test_request_header(&t, "x-secrets-token", token);
    t.request.peer = peer;
    world_handle(&w, &t);
    return t.http;
}

static void a_token_is_bound_to_addresses(void **ctx)
{
    (void)ctx;
    expect(post(root, "auth/token/roles/near",
                "{\"token_bound_cidrs\":[\"192.0.2.0/24\",\"fd00::/8\"],"
                "\"allowed_policies\":\"default,root\"}"),
           204, NULL);
    expect(as(root, METHOD_GET, "auth/token/roles/near", NULL), 200,
           "\"token_bound_cidrs\":[\"192.0.2.0/24\",\"fd00::/8\"]");
    struct made m = make_at(root, "auth/token/create/near", "{\"policies\":\"root\"}");
    expect(as(m.token, METHOD_GET, "auth/token/lookup-self", NULL), 200,
           "\"bound_cidrs\":[\"192.0.2.0/24\",\"fd00::/8\"]");
    struct made child = make(m.token, "{\"policies\":\"default\"}");
    struct made batch = make(m.token, "{\"policies\":\"default\",\"type\":\"batch\"}");
    const char *const tokens[] = {m.token, child.token, batch.token};
    for (size_t i = 0; i < ARRAY_LEN(tokens); i++) {
        assert_int_equal(from("192.0.2.200:1", tokens[i]), 200);
        assert_int_equal(from("[fd12::1]:80", tokens[i]), 200);
        assert_int_equal(from("[::ffff:192.0.2.1]:80", tokens[i]), 200);
        assert_int_equal(from("192.0.3.1:1", tokens[i]), 403);
        assert_int_equal(from("[2001:db8::1]:1", tokens[i]), 403);
        assert_int_equal(from("", tokens[i]), 403);
    }
    assert_int_equal(from("", root), 200);
}

static void tuning_the_mount_of_tokens_counts(void **ctx)
{
    (void)ctx;
    expect(post(root, "sys/auth/token/tune",
                "{\"default_lease_ttl\":\"10m\",\"max_lease_ttl\":\"20m\"}"),
           204, NULL);
    expect(post(root, "auth/token/create", "{\"policies\":\"default\"}"), 200,
           "\"lease_duration\":600,");
    expect(post(root, "auth/token/create", "{\"policies\":\"default\",\"ttl\":\"2h\"}"), 200,
           "exceeded the effective max_ttl of \\\"20m\\\"");
    expect(
        post(root, "auth/token/create", "{\"policies\":\"default\",\"explicit_max_ttl\":\"2h\"}"),
        200, "capped to 1200 seconds");
    struct made cut =
        make(root, "{\"policies\":\"default\",\"explicit_max_ttl\":\"2h\",\"ttl\":60}");
    expect(post(root, "auth/token/lookup", about("token", cut.token)), 200,
           "\"explicit_max_ttl\":1200");
    struct made m = make(root, "{\"policies\":\"default\"}");
    w.later_ms += 60000;
    expect(post(root, "auth/token/renew", about("token", m.token)), 200, "\"lease_duration\":600,");
    w.later_ms += 8 * 60000; /* 20 minutes after it was made it ends */
    expect(post(root, "auth/token/renew", about("token", m.token)), 200, "\"lease_duration\":600,");
    w.later_ms += 5 * 60000;
    expect(post(root, "auth/token/renew", about("token", m.token)), 200, "\"lease_duration\":360,");
    expect(post(root, "sys/auth/token/tune", "{\"max_lease_ttl\":\"2000h\"}"), 204, NULL);
    expect(post(root, "auth/token/create", "{\"policies\":\"default\",\"ttl\":\"1000h\"}"), 200,
           "\"lease_duration\":3600000,");
}

/* As long as is said, and no longer. */
static void what_a_token_carries_is_bounded(void **ctx)
{
    (void)ctx;
    enum { META = 64, META_BYTES = 64 * 1024, POLICIES = 256 };
    CLEANUP(buf_done) struct buf body = {0};
    char id[AUTH_TOKEN_MAX + 2];
    for (size_t over = 0; over < 2; over++) {
        memset(id, 'i', sizeof id);
        id[AUTH_TOKEN_MAX + over] = '\0';
        buf_clear(&body);
        buf_add_format(&body, "{\"id\":\"%s\"}", id);
        buf_add_u8(&body, 0);
        expect(post(root, "auth/token/create", (const char *)body.data), over ? 400 : 200,
               over ? "id: longer than 4096" : NULL);

        buf_clear(&body);
        buf_add_str(&body, "{\"meta\":{\"k\":\"");
        for (size_t i = 0; i < META_BYTES - 1 + over; i++)
            buf_add_u8(&body, 'm');
        buf_add(&body, bytes_of("\"}}", 4));
        expect(post(root, "auth/token/create", (const char *)body.data), over ? 400 : 200,
               over ? "meta: more than 64 entries or 65536 bytes" : NULL);

        buf_clear(&body);
        buf_add_str(&body, "{\"meta\":{\"k\":\"v\"");
        for (size_t i = 1; i < META + over; i++)
            buf_add_format(&body, ",\"k%zu\":\"v\"", i);
        buf_add(&body, bytes_of("}}", 3));
        expect(post(root, "auth/token/create", (const char *)body.data), over ? 400 : 200,
               over ? "meta: more than 64" : NULL);

        buf_clear(&body);
        buf_add_str(&body, "{\"policies\":[\"p\"");
        for (size_t i = 1; i < POLICIES + over; i++)
            buf_add_format(&body, ",\"p%zu\"", i);
        buf_add(&body, bytes_of("]}", 3));
        expect(post(root, "auth/token/create", (const char *)body.data), over ? 400 : 200,
               over ? "policies: more than 256" : NULL);
    }
}

static void a_batch_token_makes_no_tokens(void **ctx)
{
    (void)ctx;
    write_policy("maker", MAY_CREATE(",\\\"sudo\\\""));
    struct made m = make(root, "{\"policies\":\"maker\",\"type\":\"batch\"}");
    expect(post(m.token, "auth/token/create", NULL), 400, "batch tokens cannot create");
    expect(post(m.token, "auth/token/create-orphan", NULL), 400, "batch tokens cannot create");
}

static void a_period_is_bounded_by_the_mount(void **ctx)
{
    (void)ctx;
    expect(post(root, "auth/token/create", "{\"policies\":\"default\",\"period\":\"1000h\"}"), 200,
           "\"lease_duration\":2764800,");
    expect(post(root, "sys/auth/token/tune", "{\"max_lease_ttl\":\"20m\"}"), 204, NULL);
    struct test_request *t = post(root, "auth/token/create", "{\"policies\":\"default\"}");
    expect(t, 200, "\"lease_duration\":1200,"); /* so is the default, and nobody asked for more */
    expect(t, 200, "\"warnings\":null");
}

static void a_child_gets_no_default_policy_that_its_parent_lacks(void **ctx)
{
    (void)ctx;
    write_policy("maker", MAY_CREATE(""));
    struct made m = make(root, "{\"policies\":\"maker\",\"no_default_policy\":true}");
    expect(post(m.token, "auth/token/create", NULL), 200, "\"policies\":[\"maker\"]");
}

/* Wherever the policy would come from: the parent, the request, a role. */
static void a_request_without_the_default_policy_gets_none(void **ctx)
{
    (void)ctx;
    static const char *const bodies[] = {
        "{\"no_default_policy\":true}",
        "{\"no_default_policy\":true,\"policies\":\"maker\"}",
        "{\"no_default_policy\":true,\"policies\":\"default,maker\"}",
    };
    write_policy("maker", MAY_CREATE(""));
    write_policy("boss", MAY_CREATE(",\\\"sudo\\\""));
    struct made m = make(root, "{\"policies\":\"maker\"}");
    struct made sudo = make(root, "{\"policies\":\"boss\"}");
    write_role("{\"disallowed_policies\":\"x\"}");
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        expect(post(m.token, "auth/token/create", bodies[i]), 200, "\"policies\":[\"maker\"]");
        expect(post(sudo.token, "auth/token/create", bodies[i]), 200,
               i == 0 ? "\"policies\":[\"boss\"]" : "\"policies\":[\"maker\"]");
        expect(post(root, "auth/token/create/r", bodies[i]), 200,
               i == 0 ? "\"policies\":[\"root\"]" : "\"policies\":[\"maker\"]");
    }
    expect(post(m.token, "auth/token/create", NULL), 200, "\"policies\":[\"default\",\"maker\"]");
}

static void old_names_of_fields_count(void **ctx)
{
    (void)ctx;
    expect(post(root, "auth/token/create", "{\"lease\":\"1h\"}"), 200, "\"lease_duration\":3600,");
    expect(post(root, "auth/token/create", "{\"lease\":\"1h\",\"ttl\":\"2h\"}"), 200,
           "\"lease_duration\":7200,");
    expect(post(root, "auth/token/create", "{\"lease\":\"1h\",\"ttl\":\"\"}"), 200,
           "\"lease_duration\":3600,");
    expect(post(root, "auth/token/create", "{\"lease\":\"soon\"}"), 400, "lease: ");
    write_role("{\"period\":60,\"bound_cidrs\":\"10.0.0.0/8\",\"explicit_max_ttl\":90}");
    struct test_request *t = as(root, METHOD_GET, "auth/token/roles/r", NULL);
    expect(t, 200, "\"token_bound_cidrs\":[\"10.0.0.0/8\"]");
    expect(t, 200, "\"token_period\":60,\"token_explicit_max_ttl\":90,");
}

static void a_lookup_by_get_reads_the_query_or_the_token(void **ctx)
{
    (void)ctx;
    char path[AUTH_TOKEN_MAX + 64];
    struct made m = make(root, "{\"display_name\":\"other\"}");
    expect(as(root, METHOD_GET, "auth/token/lookup", NULL), 200, "\"display_name\":\"root\"");
    (void)snprintf(path, sizeof path, "auth/token/lookup?token=%s", m.token);
    expect(as(root, METHOD_GET, path, NULL), 200, "\"display_name\":\"token-other\"");
    expect(as(root, METHOD_GET, "auth/token/lookup?token=none", NULL), 403, "bad token");
    m = make(root, "{\"policies\":\"default\"}");
    assert_int_equal(as(m.token, METHOD_GET, path, NULL)->http, 403);
}

static void a_malformed_mfa_header_is_refused(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *name, *value;
        int http;
    } cases[] = {{"x-vault-mfa", "id", 200},      {"x-secrets-mfa", "id:123", 200},
                 {"x-vault-mfa", ":123", 400},    {"x-secrets-mfa", "id:", 400},
                 {"x-secrets-mfa", "a:b:c", 200}, {"x-vault-mfa", ":", 400}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct test_request t;
        test_request_init(&t, METHOD_GET, "/v1/auth/token/lookup-self", NULL);
        test_request_header(&t, "x-secrets-token", root);
        test_request_header(&t, cases[i].name, cases[i].value);
        world_handle(&w, &t);
        if (t.http != cases[i].http)
            fail_msg("%s: %d", cases[i].value, t.http);
        test_request_done(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_token_is_bound_to_addresses),
        TEST(tuning_the_mount_of_tokens_counts),
        TEST(what_a_token_carries_is_bounded),
        TEST(a_batch_token_makes_no_tokens),
        TEST(a_period_is_bounded_by_the_mount),
        TEST(a_child_gets_no_default_policy_that_its_parent_lacks),
        TEST(a_request_without_the_default_policy_gets_none),
        TEST(old_names_of_fields_count),
        TEST(a_lookup_by_get_reads_the_query_or_the_token),
        TEST(a_malformed_mfa_header_is_refused),
        TEST(a_created_token_works_and_is_described),
        TEST(create_refuses_what_is_not_allowed),
        TEST(an_id_may_be_chosen_once),
        TEST(a_root_token_makes_root_tokens_that_end),
        TEST(a_ttl_is_cut_with_a_warning),
        TEST(nobody_gives_more_than_he_has),
        TEST(sudo_gives_anything_but_root),
        TEST(a_token_ends_at_its_time_and_not_before),
        TEST(renewing_counts_from_now_up_to_the_maximum),
        TEST(a_periodic_token_lives_as_long_as_it_is_renewed),
        TEST(what_is_not_renewable_is_not_renewed),
        TEST(a_revoked_token_takes_all_below_it_along_at_once),
        TEST(orphans_survive_their_parent),
        TEST(an_expired_parent_takes_its_children_along),
        TEST(a_damaged_record_does_not_hold_up_the_end_of_a_tree),
        TEST(a_large_tree_is_deleted_in_steps),
        TEST(generations_are_bounded),
        TEST(what_a_token_keeps_goes_with_it),
        TEST(uses_are_counted_whatever_comes_of_them),
        TEST(the_last_use_may_be_anything),
        TEST(a_full_state_goes_on_with_the_tokens_it_has),
        TEST(a_standby_forwards_what_counts),
        TEST(a_batch_token_is_stored_nowhere),
        TEST(a_batch_token_does_not_come_back_with_the_id_of_its_parent),
        TEST(a_batch_token_that_was_tampered_with_is_no_token),
        TEST(a_batch_token_that_would_be_too_long_is_refused),
        TEST(accessors_are_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
