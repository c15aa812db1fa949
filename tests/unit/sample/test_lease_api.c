/* sys/leases with the leases of an engine: counts, force, what cannot be found. */
#include "api/token_world.h"
#include "lease/lease.h"
#include "sample/sample.h"
#include "state/ns_key.h"

static int open_lamps(void **ctx)
{
    static const struct module *const modules[] = {&token_module, &cubbyhole_module, SYS_MODULES,
                                                   &kv_module, &sample_module};
    (void)ctx;
    world_open(&w, modules, ARRAY_LEN(modules));
    world_init(&w);
    (void)snprintf(root, sizeof root, "%s", w.token);
    expect(post(root, "sys/mounts/lamps", "{\"type\":\"lamp\"}"), 204, NULL);
    return 0;
}

static const char *take_lamp(const char *by, const char *path)
{
    static char id[200];
    copy_member(expect(post(by, path, "{\"ttl\":\"10m\"}"), 200, NULL), "lease_id", id, sizeof id);
    return id;
}

static struct test_request *counts(const char *query)
{
    char path[100];
    (void)snprintf(path, sizeof path, "sys/leases/count%s", query);
    return expect(as(root, METHOD_GET, path, NULL), 200, NULL);
}

static const char *staged_lease;

/* Stage a lease without a record, as if the engine that could read it were gone. */
static enum status stage_lease(struct state_txn *txn, int64_t now_ms)
{
    struct bytes key;
    (void)now_ms;
    TRY(lease_prefix(txn->arena, STATE_NS_ROOT, staged_lease, &key));
    return state_put(txn, key, BYTES("no record"));
}

static void put_unreadable(const char *id)
{
    staged_lease = id;
    assert_true(round_of(stage_lease));
}

static void leases_are_counted_by_real_mounts(void **ctx)
{
    (void)ctx;
    static const char *const mounts[] = {"team/lamps", "team/lamp", "team2/x/lamps"};
    for (size_t i = 0; i < ARRAY_LEN(mounts); i++) {
        char path[100];
        (void)snprintf(path, sizeof path, "sys/mounts/%s", mounts[i]);
        expect(post(root, path, "{\"type\":\"lamp\"}"), 204, NULL);
        (void)snprintf(path, sizeof path, "%s/take/a", mounts[i]);
        (void)take_lamp(root, path);
    }
    static const char *const methods[] = {"team/words", "team/word", "words"};
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        char path[100];
        (void)snprintf(path, sizeof path, "sys/auth/%s", methods[i]);
        expect(post(root, path, "{\"type\":\"sample\"}"), 204, NULL);
        (void)snprintf(path, sizeof path, "auth/%s/users/ann", methods[i]);
        expect(post(root, path, "{\"word\":\"x\"}"), 204, NULL);
        (void)snprintf(path, sizeof path, "auth/%s/login/ann", methods[i]);
        expect(post(root, path, "{\"word\":\"x\"}"), 200, NULL);
    }
    expect(counts(""), 200,
           "\"counts\":{\"auth/team/word/\":1,\"auth/team/words/\":1,\"auth/words/\":1,"
           "\"team/lamp/\":1,\"team/lamps/\":1,\"team2/x/lamps/\":1},\"lease_count\":6,"
           "\"namespaces\":{\"root\":6}}");
    /* Leases whose mounts are gone do not hide the mounts beside them. */
    put_unreadable("team/gone/a/1");
    put_unreadable("team/gone/b/2");
    put_unreadable("auth/team/gone/login/3");
    put_unreadable("team2/4");
    put_unreadable("0/5");
    expect(counts(""), 200,
           "\"counts\":{\"0/\":1,\"auth/team/gone/\":1,\"auth/team/word/\":1,"
           "\"auth/team/words/\":1,\"auth/words/\":1,\"team/gone/\":2,\"team/lamp/\":1,"
           "\"team/lamps/\":1,\"team2/4\":1,\"team2/x/lamps/\":1},\"lease_count\":11,");
}

static void the_creators_with_the_most_leases_are_named(void **ctx)
{
    (void)ctx;
    expect(counts("?creators=true"), 200, "\"creators\":[],\"creators_exact\":true}");
    struct made few = make(root, "{\"display_name\":\"few\",\"policies\":\"root\"}");
    struct made many = make(root, "{\"display_name\":\"many\",\"policies\":\"root\"}");
    for (unsigned i = 0; i < 3; i++) {
        char path[40];
        (void)snprintf(path, sizeof path, "lamps/take/a%u", i);
        (void)take_lamp(many.token, path);
    }
    (void)take_lamp(few.token, "lamps/take/b");
    char want[400];
    (void)snprintf(want, sizeof want,
                   "\"creators\":[{\"accessor\":\"%s\",\"display_name\":\"token-many\","
                   "\"lease_count\":3},{\"accessor\":\"%s\",\"display_name\":\"token-few\","
                   "\"lease_count\":1}],\"creators_exact\":true}",
                   many.accessor, few.accessor);
    expect(counts("?creators=true"), 200, want);
    assert_null(strstr(text(counts("")), "creators"));
    assert_null(strstr(text(counts("?creators=true&type=irrevocable")), "creators"));
}

static void a_lease_that_cannot_be_ended_is_dropped_by_force(void **ctx)
{
    (void)ctx;
    (void)take_lamp(root, "lamps/take/a");
    put_unreadable("lamps/take/bad/1");
    expect(post(root, "sys/leases/revoke-prefix/lamps", NULL), 200, "1 leases cannot be ended");
    expect(as(root, METHOD_GET, "lamps/take/a", NULL), 404, NULL);
    expect(counts(""), 200, "\"lease_count\":1");
    expect(post(root, "sys/leases/revoke-force/lamps", NULL), 200, "were dropped");
    expect(counts(""), 200, "\"lease_count\":0");
    put_unreadable("lamps/take/bad/1");
    expect(post(root, "sys/leases/revoke", "{\"lease_id\":\"lamps/take/bad/1\"}"), 500, NULL);
    expect(post(root, "sys/revoke-prefix/lamps/take/bad/1", NULL), 200, "1 leases cannot be ended");
    expect(counts(""), 200, "\"lease_count\":1");
    expect(post(root, "sys/revoke-force/lamps/take/bad/1", NULL), 200, "were dropped");
    expect(counts(""), 200, "\"lease_count\":0");
}

static void a_client_that_does_not_wait_gets_202(void **ctx)
{
    (void)ctx;
    char body[300];
    (void)snprintf(body, sizeof body, "{\"lease_id\":\"%s\",\"sync\":false}",
                   take_lamp(root, "lamps/take/a"));
    expect(post(root, "sys/leases/revoke", body), 202, NULL);
    expect(as(root, METHOD_GET, "lamps/take/a", NULL), 404, NULL);
    expect(post(root, "sys/leases/revoke", body), 202, NULL);
    (void)take_lamp(root, "lamps/take/a");
    expect(post(root, "sys/leases/revoke-prefix/lamps", "{\"sync\":false}"), 202, NULL);
    expect(as(root, METHOD_GET, "lamps/take/a", NULL), 404, NULL);
    expect(post(root, "sys/leases/revoke-prefix/lamps", "{\"sync\":true}"), 204, NULL);
}

static void a_renewal_says_why_a_lease_is_not_found(void **ctx)
{
    (void)ctx;
    char body[300];
    (void)snprintf(body, sizeof body, "{\"lease_id\":\"%s\"}", take_lamp(root, "lamps/take/a"));
    w.later_ms = 599000;
    expect(post(root, "sys/leases/renew", body), 200, NULL);
    w.later_ms += 3600 * 1000;
    expect(post(root, "sys/leases/renew", body), 400, "{\"errors\":[\"lease expired\"]}");
    expect(post(root, "sys/leases/lookup", body), 400, "{\"errors\":[\"invalid lease\"]}");
    assert_true(clean_up() > 0);
    expect(post(root, "sys/leases/renew", body), 400, "{\"errors\":[\"lease not found\"]}");
}

static unsigned stored(void)
{
    struct store_pin pin;
    assert_status(store_pin(w.m.store, "test", 0, &pin), ST_OK);
    unsigned n = (unsigned)store_count(&pin, BYTES("s/ns/root/lease/lamps/"));
    n += (unsigned)store_count(&pin, BYTES("s/ns/root/token-lease/"));
    store_unpin(&pin);
    return n;
}

/* A revocation ends what a use of the lease would not find, but the sweep has still to delete. */
static void an_ended_lease_that_is_still_stored_ends_with_its_revocation(void **ctx)
{
    (void)ctx;
    static const char *const paths[] = {"sys/leases/revoke", "sys/revoke"};
    char id[200], path[300], body[300];
    for (unsigned way = 0; way < 6; way++) { /* four ways to name the lease; two ways to end */
        struct made m = make(root, "{\"policies\":\"root\"}");
        const char *at = paths[way % 2];
        (void)snprintf(id, sizeof id, "%s", take_lamp(m.token, "lamps/take/a"));
        assert_int_equal(stored(), 2);
        if (way < 4)
            w.later_ms += 600000;
        else
            expect(post(root, "auth/token/revoke", about("token", m.token)), 204, NULL);
        expect(as(root, METHOD_GET, "lamps/take/a", NULL), 404, NULL);
        assert_int_equal(stored(), 2);
        (void)snprintf(path, sizeof path, "%s%s/%s", at, way < 2 ? "-prefix" : "", id);
        (void)snprintf(body, sizeof body, "{\"lease_id\":\"%s\"}", id);
        expect(way < 4 ? post(root, path, NULL) : post(root, at, body), 204, NULL);
        assert_int_equal(stored(), 0);
    }
}

#define LAMPS(f) cmocka_unit_test_setup_teardown(f, open_lamps, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAMPS(leases_are_counted_by_real_mounts),
        LAMPS(the_creators_with_the_most_leases_are_named),
        LAMPS(a_lease_that_cannot_be_ended_is_dropped_by_force),
        LAMPS(a_client_that_does_not_wait_gets_202),
        LAMPS(a_renewal_says_why_a_lease_is_not_found),
        LAMPS(an_ended_lease_that_is_still_stored_ends_with_its_revocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
