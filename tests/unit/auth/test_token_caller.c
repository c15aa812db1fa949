/* What a transaction does not read twice: the token of the sender, and tokens that are looked up.
 */
#include "state/ns_key.h"
#include "state/state_world.h"

#include "auth/token.h"
#include "auth/token_cache.h"
#include "auth/token_tree.h"

enum { NOW_MS = 1000000 };

static struct state_world world;

static int open_world(void **ctx)
{
    (void)ctx;
    sw_open(&world);
    sw_init(&world);
    sw_raise(&world);
    return 0;
}

static int close_world(void **ctx)
{
    (void)ctx;
    sw_close(&world);
    return 0;
}

static struct auth_scope scope_of(struct state_txn *txn)
{
    return (struct auth_scope){
        .txn = txn, .cipher = state_cipher(world.state), .ns = STATE_NS_ROOT, .now_ms = NOW_MS};
}

static struct auth_token child_of(const struct auth_token *parent)
{
    struct auth_token token = auth_token_root(NOW_MS);
    token.expire_ms = NOW_MS + 1000;
    token.parent = parent != NULL ? parent->id : "";
    token.depth = parent != NULL ? parent->depth + 1 : 0;
    return token;
}

/* A committed token, as it is stored after that. */
static struct auth_token created(const struct auth_token *parent, const char **ret_bearer)
{
    struct state_txn txn;
    struct auth_token token = child_of(parent);
    *ret_bearer = NULL;
    sw_begin(&world, &txn);
    struct auth_scope scope = scope_of(&txn);
    assert_status(auth_token_create(&scope, &world.worker.env, &token, ret_bearer), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    return token;
}

static struct auth_token stored(const char *id)
{
    struct state_txn txn;
    struct auth_token token;
    sw_begin(&world, &txn);
    struct auth_scope scope = scope_of(&txn);
    assert_status(token_store_load(&scope, id, &token), ST_OK);
    state_end(&txn);
    return token;
}

static void end(const char *id)
{
    struct state_txn txn;
    struct auth_token token;
    sw_begin(&world, &txn);
    struct auth_scope scope = scope_of(&txn);
    assert_status(auth_token_load_id(&scope, id, &token), ST_OK);
    assert_status(token_tree_end(&scope, &token, TOKEN_END_TREE), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
}

/* Begin a transaction of `bearer`, as the router does. */
static struct auth_scope begin_as(struct state_txn *txn, const char *bearer,
                                  struct auth_token *ret_caller)
{
    sw_begin(&world, txn);
    struct auth_scope scope = scope_of(txn);
    assert_status(auth_token_load(&scope, bytes_str(bearer), ret_caller), ST_OK);
    scope.caller = ret_caller;
    return scope;
}

/* Whether the child of a caller is changed in vain when `ended` ends meanwhile. */
static void assert_conflicts(const char *bearer, const char *child, const char *ended)
{
    struct state_txn txn;
    struct auth_token caller, token;
    struct auth_scope scope = begin_as(&txn, bearer, &caller);
    assert_status(auth_token_load_id(&scope, child, &token), ST_OK);
    assert_status(token_tree_end(&scope, &token, TOKEN_END_TREE), ST_OK);
    end(ended);
    assert_status(sw_commit(&world, &txn), ST_CONFLICT);
}

static void a_child_of_the_caller_needs_the_caller_and_its_ancestors(void **ctx)
{
    (void)ctx;
    for (unsigned i = 0; i < 3; i++) {
        const char *bearer, *unused;
        struct auth_token top = created(NULL, &unused), caller = created(&top, &bearer),
                          child = created(&caller, &unused);
        const char *const ended[] = {top.id, caller.id, child.id};
        assert_conflicts(bearer, child.id, ended[i]);
    }
}

static void the_token_of_another_is_read_with_all_its_ancestors(void **ctx)
{
    (void)ctx;
    const char *bearer, *unused;
    struct auth_token caller = created(NULL, &bearer), top = created(NULL, &unused),
                      middle = created(&top, &unused), other = created(&middle, &unused), token;
    (void)caller;
    assert_conflicts(bearer, other.id, middle.id);
    end(top.id);
    struct state_txn txn;
    struct auth_token again;
    struct auth_scope scope = begin_as(&txn, bearer, &again);
    assert_status(auth_token_load_id(&scope, other.id, &token), ST_NOT_FOUND);
    state_end(&txn);
}

static void the_first_child_is_noted_in_the_record_of_the_caller(void **ctx)
{
    (void)ctx;
    const char *bearer;
    struct auth_token top = created(NULL, &bearer);
    assert_false(stored(top.id).keeps);
    for (unsigned i = 0; i < 2; i++) {
        struct state_txn txn;
        struct auth_token caller, child;
        const char *drawn = NULL;
        struct auth_scope scope = begin_as(&txn, bearer, &caller);
        assert_int_equal(caller.keeps, i);
        child = child_of(&caller);
        assert_status(auth_token_create(&scope, &world.worker.env, &child, &drawn), ST_OK);
        assert_status(sw_commit(&world, &txn), ST_OK);
        assert_true(stored(top.id).keeps);
    }
}

static void a_token_that_is_looked_up_is_not_cached(void **ctx)
{
    (void)ctx;
    struct token_cache *cache;
    struct state_txn txn;
    const char *bearer;
    struct auth_token made = created(NULL, &bearer), out;
    const struct auth_token *held;
    struct token_ref *ref;
    struct bytes key;
    assert_status(token_cache_new(&cache), ST_OK);
    sw_begin(&world, &txn);
    struct auth_scope scope = scope_of(&txn);
    scope.cache = cache;
    assert_status(
        state_ns_key(&world.arena, STATE_NS_ROOT, "token", bytes_str(made.id), NULL, &key), ST_OK);
    assert_status(auth_token_load(&scope, bytes_str(bearer), &out), ST_OK);
    assert_false(token_cache_has(cache, key));
    assert_status(auth_token_hold(&scope, bytes_str(bearer), &held, &ref), ST_OK);
    token_ref_drop(ref);
    assert_true(token_cache_has(cache, key));
    assert_status(auth_token_load(&scope, bytes_str(bearer), &out), ST_OK);
    assert_string_equal(out.accessor, made.accessor);
    assert_true(out.derived);
    state_end(&txn);
    token_cache_free(cache);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_world, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_child_of_the_caller_needs_the_caller_and_its_ancestors),
        TEST(the_token_of_another_is_read_with_all_its_ancestors),
        TEST(the_first_child_is_noted_in_the_record_of_the_caller),
        TEST(a_token_that_is_looked_up_is_not_cached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
