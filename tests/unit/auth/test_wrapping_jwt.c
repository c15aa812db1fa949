/* Wrapping tokens as JSON Web Tokens: claims, times, signature, and the one key. */
#include "auth/token_world.h"

#include "auth/token_tree.h"
#include "auth/wrapping_jwt.h"
#include "base/mem.h"
#include "crypto/es512.h"

#define ADDR "https://127.0.0.1:8200"

/* A wrapping token of a minute, not committed. */
static struct wrapping wrapped(const struct auth_scope *s)
{
    struct wrapping w = {.creation_path = "kv/a", .wrapped_accessor = "acc", .creation_ttl_s = 60};
    assert_status(wrapping_create(s, &world.worker.env, BYTES("{\"n\":1}"), &w), ST_OK);
    w.addr = ADDR;
    return w;
}

/* The bearer of a committed wrapping token, and its JWT after `edit` changed what the JWT says. */
static const char *made(void (*edit)(struct wrapping *w), const char **ret_plain)
{
    struct state_txn txn;
    sw_begin(&world, &txn);
    struct auth_scope scope = scope_of(&txn);
    struct wrapping w = wrapped(&scope);
    *ret_plain = w.bearer;
    if (edit != NULL)
        edit(&w);
    assert_status(wrapping_jwt_make(&scope, &w), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    return w.bearer;
}

static enum status found(const char *bearer, int64_t now_ms)
{
    struct state_txn txn;
    struct wrapping w;
    sw_begin(&world, &txn);
    struct auth_scope scope = scope_of(&txn);
    scope.now_ms = now_ms;
    enum status st = wrapping_load(&scope, bytes_str(bearer), &w);
    if (st == ST_OK)
        assert_string_equal(w.bearer, bearer);
    state_end(&txn);
    return st;
}

static void the_claims_are_those_of_upstream(void **ctx)
{
    (void)ctx;
    const char *plain;
    struct wrapping_jwt jwt;
    const char *token = made(NULL, &plain);
    char wanted[300];
    assert_status(wrapping_jwt_read(&world.arena, bytes_str(token), &jwt), ST_OK);
    (void)snprintf(wanted, sizeof wanted,
                   "{\"accessor\":\"acc\",\"addr\":\"" ADDR "\",\"exp\":1060,\"iat\":1000,"
                   "\"jti\":\"%s\",\"nbf\":995,\"type\":\"wrapping\"}",
                   plain);
    assert_bytes(jwt.form.claims, bytes_str(wanted));
    assert_int_equal(jwt.form.signature.len, ES512_SIGNATURE_BYTES);
    assert_string_equal(jwt.jti, plain);
    assert_string_equal(jwt.addr, ADDR);
    assert_string_equal(jwt.accessor, "acc");
    assert_true(jwt.exp_s == 1060 && jwt.iat_s == 1000 && jwt.nbf_s == 995);
}

static void both_forms_lead_to_the_token_and_say_which_they_are(void **ctx)
{
    (void)ctx;
    const char *plain, *token = made(NULL, &plain);
    struct state_txn txn;
    struct wrapping w;
    struct bytes body;
    sw_begin(&world, &txn);
    struct auth_scope scope = scope_of(&txn);
    assert_status(wrapping_load(&scope, bytes_str(plain), &w), ST_OK);
    assert_null(w.addr);
    assert_status(wrapping_load(&scope, bytes_str(token), &w), ST_OK);
    assert_string_equal(w.addr, ADDR);
    assert_string_equal(w.creation_path, "kv/a");
    assert_status(wrapping_take(&scope, &w, &body), ST_OK);
    assert_bytes(body, BYTES("{\"n\":1}"));
    state_end(&txn);
}

static void shorter(struct wrapping *w)
{
    w->creation_ttl_s = 10;
}

/* The wrapping token itself lives for a minute. */
static void a_jwt_ends_with_its_claim(void **ctx)
{
    (void)ctx;
    const char *plain, *token = made(shorter, &plain);
    assert_status(found(token, NOW_MS + 9999), ST_OK);
    assert_status(found(token, NOW_MS + 10000), ST_NOT_FOUND);
    assert_status(found(plain, NOW_MS + 10000), ST_OK);
}

static void later(struct wrapping *w)
{
    w->creation_time_ms += 5001;
}

static void much_later(struct wrapping *w)
{
    w->creation_time_ms += 6000;
}

static void a_jwt_begins_five_seconds_before_it_was_made(void **ctx)
{
    (void)ctx;
    const char *plain;
    assert_status(found(made(later, &plain), NOW_MS), ST_OK);
    const char *token = made(much_later, &plain);
    assert_status(found(token, NOW_MS + 999), ST_NOT_FOUND);
    assert_status(found(plain, NOW_MS + 999), ST_OK);
    assert_status(found(token, NOW_MS + 1000), ST_OK);
}

static void a_jwt_ends_with_its_wrapping_token(void **ctx)
{
    (void)ctx;
    const char *plain, *token = made(NULL, &plain);
    struct state_txn txn;
    struct wrapping w;
    sw_begin(&world, &txn);
    struct auth_scope scope = scope_of(&txn);
    assert_status(wrapping_load(&scope, bytes_str(token), &w), ST_OK);
    assert_status(token_tree_end(&scope, &w.token, TOKEN_END_TREE), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    assert_status(found(token, NOW_MS), ST_NOT_FOUND);
}

/* A JWT with these claims that `key` signs; `der`: in the form that old signers wrote. */
static const char *signed_by(const struct es512_key *key, const char *claims, bool der)
{
    CLEANUP(buf_done) struct buf token = {0};
    uint8_t raw[ES512_SIGNATURE_BYTES], as_der[ES512_DER_MAX];
    jwt_put_input(&token, "ES512", bytes_str(claims));
    assert_status(es512_sign(key, buf_bytes(&token), raw), ST_OK);
    if (der && (raw[0] == 0 || raw[ES512_NUMBER_BYTES] == 0))
        return signed_by(key, claims, der); /* until both numbers have 66 bytes */
    memcpy(as_der, "\x30\x81\x88\x02\x42", 5);
    memcpy(as_der + 5, raw, ES512_NUMBER_BYTES);
    memcpy(as_der + 5 + ES512_NUMBER_BYTES, "\x02\x42", 2);
    memcpy(as_der + 7 + ES512_NUMBER_BYTES, raw + ES512_NUMBER_BYTES, ES512_NUMBER_BYTES);
    jwt_put_signature(&token, der ? bytes_of(as_der, sizeof as_der) : bytes_of(raw, sizeof raw));
    const char *text = arena_str(&world.arena, buf_bytes(&token));
    assert_non_null(text);
    return text;
}

/* The key of the cluster, as its holder could use it. */
static void take_key(struct es512_key *ret_key)
{
    struct state_txn txn;
    struct state_value stored;
    sw_begin(&world, &txn);
    assert_status(state_get(&txn, BYTES("s/core/wrapping/jwtkey"), &stored), ST_OK);
    assert_status(es512_key_load(stored.value, ret_key), ST_OK);
    state_end(&txn);
}

static const char *claims_of(const char *format, const char *jti)
{
    static char claims[4200];
    (void)snprintf(claims, sizeof claims, format, jti);
    return claims;
}

#define CLAIMS "{\"exp\":1060,\"jti\":\"%s\",\"type\":\"wrapping\"}"

static void a_jwt_of_another_key_is_refused(void **ctx)
{
    (void)ctx;
    CLEANUP(es512_key_done) struct es512_key own = {0}, other = {0};
    const char *plain, *token = made(NULL, &plain);
    take_key(&own);
    assert_status(es512_key_new(&other), ST_OK);
    const char *claims = claims_of(CLAIMS, plain);
    assert_status(found(signed_by(&other, claims, false), NOW_MS), ST_NOT_FOUND);
    assert_status(found(signed_by(&own, claims, false), NOW_MS), ST_OK);
    assert_status(found(signed_by(&own, claims, true), NOW_MS), ST_OK);
    assert_status(found(signed_by(&other, claims, true), NOW_MS), ST_NOT_FOUND);
    /* the claims of one, the signature of another */
    const char *second = made(NULL, &plain);
    const char *mixed = arena_format(&world.arena, "%.*s%s", (int)(strrchr(token, '.') - token),
                                     token, strrchr(second, '.'));
    assert_non_null(mixed);
    assert_status(found(mixed, NOW_MS), ST_NOT_FOUND);
}

static void a_jwt_without_a_key_in_the_state_is_refused(void **ctx)
{
    (void)ctx;
    CLEANUP(es512_key_done) struct es512_key key = {0};
    struct state_txn txn;
    assert_status(es512_key_new(&key), ST_OK);
    sw_begin(&world, &txn);
    struct auth_scope scope = scope_of(&txn);
    struct wrapping w = wrapped(&scope);
    assert_status(sw_commit(&world, &txn), ST_OK);
    const char *claims = claims_of(CLAIMS, w.bearer);
    assert_status(found(signed_by(&key, claims, false), NOW_MS), ST_NOT_FOUND);
}

/* All are signed with the right key. */
static void claims_of_another_shape_are_refused(void **ctx)
{
    (void)ctx;
    CLEANUP(es512_key_done) struct es512_key key = {0};
    static const char *const bad[] = {
        "{\"jti\":\"%s\",\"type\":\"wrapping\"}",
        "{\"exp\":\"1060\",\"jti\":\"%s\",\"type\":\"wrapping\"}",
        "{\"exp\":1060.5,\"jti\":\"%s\",\"type\":\"wrapping\"}",
        "{\"exp\":-1,\"jti\":\"%s\",\"type\":\"wrapping\"}",
        "{\"exp\":9223372036854775807,\"jti\":\"%s\",\"type\":\"wrapping\"}",
        "{\"exp\":1060,\"nbf\":\"1\",\"jti\":\"%s\",\"type\":\"wrapping\"}",
        "{\"exp\":1060,\"iat\":null,\"jti\":\"%s\",\"type\":\"wrapping\"}",
        "{\"exp\":1060,\"jti\":\"%s\"}",
        "{\"exp\":1060,\"jti\":\"%s\",\"type\":\"other\"}",
        "{\"exp\":1060,\"jti\":[\"%s\"],\"type\":\"wrapping\"}",
        "{\"exp\":1060,\"jti\":\"\",\"x\":\"%s\",\"type\":\"wrapping\"}",
        "{\"exp\":1060,\"jti\":\"hvs.none\",\"jti\":\"%s\",\"type\":\"wrapping\"}",
        "{\"exp\":1060,\"addr\":1,\"jti\":\"%s\",\"type\":\"wrapping\"}",
        "{\"exp\":1060,\"jti\":\"%s\",\"type\":\"wrapping\",\"x\":[[[[[[[[1]]]]]]]]}",
        "[\"%s\"]",
    };
    const char *plain;
    (void)made(NULL, &plain);
    take_key(&key);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (found(signed_by(&key, claims_of(bad[i], plain), false), NOW_MS) != ST_NOT_FOUND)
            fail_msg("%s was taken", bad[i]);
    /* a claim that is not known is allowed */
    const char *more = "{\"exp\":1060,\"jti\":\"%s\",\"type\":\"wrapping\",\"aud\":[{\"x\":1}]}";
    assert_status(found(signed_by(&key, claims_of(more, plain), false), NOW_MS), ST_OK);
}

static void a_jwt_in_a_jwt_is_refused(void **ctx)
{
    (void)ctx;
    CLEANUP(es512_key_done) struct es512_key key = {0};
    const char *plain, *token = made(NULL, &plain);
    take_key(&key);
    const char *claims = claims_of(CLAIMS, token);
    assert_status(found(signed_by(&key, claims, false), NOW_MS), ST_NOT_FOUND);
}

static void two_makers_of_the_key_conflict(void **ctx)
{
    (void)ctx;
    struct state_txn first, second;
    sw_begin(&world, &first);
    sw_begin(&world, &second);
    struct auth_scope a = scope_of(&first), b = scope_of(&second);
    struct wrapping one = wrapped(&a), two = wrapped(&b);
    assert_status(wrapping_jwt_make(&a, &one), ST_OK);
    assert_status(wrapping_jwt_make(&b, &two), ST_OK);
    assert_status(sw_commit(&world, &first), ST_OK);
    assert_status(sw_commit(&world, &second), ST_CONFLICT);
    sw_begin(&world, &second);
    b = scope_of(&second);
    two = wrapped(&b);
    assert_status(wrapping_jwt_make(&b, &two), ST_OK);
    assert_status(sw_commit(&world, &second), ST_OK);
    assert_status(found(one.bearer, NOW_MS), ST_OK);
    assert_status(found(two.bearer, NOW_MS), ST_OK);
}

/* Whoever reads the store finds neither the key nor a wrapping token. */
static void the_key_is_stored_encrypted(void **ctx)
{
    (void)ctx;
    CLEANUP(es512_key_done) struct es512_key key = {0};
    CLEANUP(buf_done) struct buf saved = {0};
    struct store_pin pin;
    struct store_item item;
    const char *plain;
    (void)made(NULL, &plain);
    take_key(&key);
    assert_status(es512_key_save(&key, &saved), ST_OK);
    assert_status(store_pin(world.m.store, "test", 0, &pin), ST_OK);
    assert_status(store_get(&pin, BYTES("s/core/wrapping/jwtkey"), &item), ST_OK);
    assert_true(item.value.len > saved.len);
    assert_null(memmem(item.value.data, item.value.len, saved.data + saved.len / 2, 16));
    store_unpin(&pin);
}

static void a_damaged_key_is_corrupt_and_is_not_replaced(void **ctx)
{
    (void)ctx;
    struct state_txn txn;
    const char *plain, *token = made(NULL, &plain);
    sw_begin(&world, &txn);
    assert_status(state_put(&txn, BYTES("s/core/wrapping/jwtkey"), BYTES("no key")), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    assert_status(found(token, NOW_MS), ST_CORRUPT);
    sw_begin(&world, &txn);
    struct auth_scope scope = scope_of(&txn);
    struct wrapping w = wrapped(&scope);
    assert_status(wrapping_jwt_make(&scope, &w), ST_CORRUPT);
    state_end(&txn);
}

static void an_address_that_fits_no_jwt_is_refused(void **ctx)
{
    (void)ctx;
    static char addr[JWT_BYTES_MAX];
    struct state_txn txn;
    memset(addr, 'a', sizeof addr - 1);
    sw_begin(&world, &txn);
    struct auth_scope scope = scope_of(&txn);
    struct wrapping w = wrapped(&scope);
    w.addr = addr;
    assert_status(wrapping_jwt_make(&scope, &w), ST_TOO_BIG);
    state_end(&txn);
}

static void a_failed_allocation_is_no_verdict(void **ctx)
{
    (void)ctx;
    const char *plain, *token = made(NULL, &plain);
    unsigned failures = 0;
    for (uint64_t n = 1;; n++) {
        struct state_txn txn;
        struct wrapping w;
        sw_begin(&world, &txn);
        struct auth_scope scope = scope_of(&txn);
        mem_fail_nth(n);
        enum status st = wrapping_load(&scope, bytes_str(token), &w);
        bool failed = mem_fail_nth(0);
        state_end(&txn);
        if (!failed) {
            assert_status(st, ST_OK);
            break;
        }
        failures += st == ST_NOMEM;
        if (st != ST_OK) /* some allocations only serve a cache */
            assert_status(st, ST_NOMEM);
    }
    assert_true(failures > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_claims_are_those_of_upstream),
        TEST(both_forms_lead_to_the_token_and_say_which_they_are),
        TEST(a_jwt_ends_with_its_claim),
        TEST(a_jwt_begins_five_seconds_before_it_was_made),
        TEST(a_jwt_ends_with_its_wrapping_token),
        TEST(a_jwt_of_another_key_is_refused),
        TEST(a_jwt_without_a_key_in_the_state_is_refused),
        TEST(claims_of_another_shape_are_refused),
        TEST(a_jwt_in_a_jwt_is_refused),
        TEST(two_makers_of_the_key_conflict),
        TEST(the_key_is_stored_encrypted),
        TEST(a_damaged_key_is_corrupt_and_is_not_replaced),
        TEST(an_address_that_fits_no_jwt_is_refused),
        TEST(a_failed_allocation_is_no_verdict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
