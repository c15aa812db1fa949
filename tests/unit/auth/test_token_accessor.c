/* Accessors: derived from ids, and random ones in the index. */
#include "state/ns_key.h"
#include "state/state_world.h"

#include "auth/token.h"
#include "auth/token_accessor.h"
#include "auth/token_tree.h"
#include "text/encode.h"

#include <stdio.h>

enum { NOW_MS = 1000000, TEXTS = 20000 };

#define FIRST_ID "00000000000000000000000000000000"
#define LAST_ID "ffffffffffffffffffffffffffffffff"
#define FIRST_ACCESSOR "000000000000000000000000"
#define LAST_ACCESSOR "007n42DGM5Tflk9n8mt7Fhc7"
#define BEHIND_LAST "007n42DGM5Tflk9n8mt7Fhc8" /* 2 to the power of 128 */

static struct state_world world;

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

/* Encoding */

static void random_id(char ret_id[AUTH_TOKEN_ID_LEN + 1])
{
    uint8_t bytes[AUTH_TOKEN_ID_LEN / 2];
    env_random(&world.worker.env, bytes, sizeof bytes);
    text_hex_put(bytes_of(bytes, sizeof bytes), ret_id);
}

static void assert_pair(const char *id, const char *accessor)
{
    char text[AUTH_ACCESSOR_LEN + 1], back[AUTH_TOKEN_ID_LEN + 1];
    assert_status(token_accessor_of(bytes_str(id), text), ST_OK);
    if (accessor != NULL)
        assert_string_equal(text, accessor);
    assert_int_equal(strlen(text), AUTH_ACCESSOR_LEN);
    assert_status(token_accessor_id(bytes_str(text), back), ST_OK);
    assert_string_equal(back, id);
}

static void an_accessor_gives_the_id_that_gave_it(void **ctx)
{
    (void)ctx;
    char id[AUTH_TOKEN_ID_LEN + 1];
    assert_pair(FIRST_ID, FIRST_ACCESSOR);
    assert_pair("0000000000000000000000000000003d", "00000000000000000000000z");
    assert_pair("0000000000000000000000000000003e", "000000000000000000000010");
    assert_pair("00000000000000000ba5ca5392cb03ff", "00000000000000zzzzzzzzzz");
    assert_pair("00000000000000000ba5ca5392cb0400", "000000000000010000000000");
    assert_pair(LAST_ID, LAST_ACCESSOR);
    for (unsigned i = 0; i < TEXTS; i++) {
        random_id(id);
        assert_pair(id, NULL);
    }
}

static void accessors_have_the_order_of_ids(void **ctx)
{
    (void)ctx;
    for (unsigned i = 0; i < TEXTS; i++) {
        char ids[2][AUTH_TOKEN_ID_LEN + 1], accessors[2][AUTH_ACCESSOR_LEN + 1];
        for (unsigned j = 0; j < 2; j++) {
            random_id(ids[j]);
            if (j == 1) /* equal up to a place */
                memcpy(ids[1], ids[0], i % AUTH_TOKEN_ID_LEN);
            assert_status(token_accessor_of(bytes_str(ids[j]), accessors[j]), ST_OK);
        }
        int of_ids = strcmp(ids[0], ids[1]), of_accessors = strcmp(accessors[0], accessors[1]);
        assert_true((of_ids < 0) == (of_accessors < 0) && (of_ids > 0) == (of_accessors > 0));
    }
}

static void a_text_that_no_id_gives_is_refused(void **ctx)
{
    (void)ctx;
    static const char *const texts[] = {
        "",
        "0",
        "00000000000000000000000",
        FIRST_ACCESSOR "0",
        "00000000000000000000000-",
        "0000000000000/0000000000",
        "000:00000000000000000000",
        "000000000000@00000000000",
        "00000000000000[000000000",
        "`00000000000000000000000",
        "00000000000000000000000{",
        " 00000000000000000000000",
        BEHIND_LAST,
        "008000000000000000000000",
        "010000000000000000000000",
        "zzzzzzzzzzzzzzzzzzzzzzzz",
    };
    char id[AUTH_TOKEN_ID_LEN + 1], text[AUTH_ACCESSOR_LEN + 1];
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        assert_status(token_accessor_id(bytes_str(texts[i]), id), ST_INVALID);
    assert_status(token_accessor_id(bytes_of("00000000000\00000000000000", 24), id), ST_INVALID);
    for (unsigned c = 0; c < 256; c++) { /* each character in one place */
        const char last = (char)c;
        char accessor[AUTH_ACCESSOR_LEN + 1] = FIRST_ACCESSOR;
        bool is_digit = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        accessor[AUTH_ACCESSOR_LEN - 1] = last;
        enum status st = token_accessor_id(bytes_of(accessor, AUTH_ACCESSOR_LEN), id);
        assert_status(st, is_digit ? ST_OK : ST_INVALID);
        if (is_digit) {
            assert_status(token_accessor_of(bytes_str(id), text), ST_OK);
            assert_string_equal(text, accessor);
        }
    }
}

static void what_is_no_id_has_no_accessor(void **ctx)
{
    (void)ctx;
    static const char *const ids[] = {"",
                                      "0",
                                      FIRST_ID "0",
                                      "0000000000000000000000000000000",
                                      "0000000000000000000000000000000A",
                                      "0000000000000000000000000000000g",
                                      "/0000000000000000000000000000000",
                                      "0000000000000000:000000000000000"};
    char text[AUTH_ACCESSOR_LEN + 1];
    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        assert_status(token_accessor_of(bytes_str(ids[i]), text), ST_INVALID);
}

/* The id whose accessor is the text or before it; its successor is behind the text. */
static void assert_before(const char *text)
{
    char id[AUTH_TOKEN_ID_LEN + 1], accessor[AUTH_ACCESSOR_LEN + 1];
    if (token_accessor_before(bytes_str(text), id) != ST_OK) {
        assert_true(strcmp(text, FIRST_ACCESSOR) < 0);
        return;
    }
    assert_status(token_accessor_of(bytes_str(id), accessor), ST_OK);
    assert_true(strcmp(accessor, text) <= 0);
    if (strcmp(id, LAST_ID) == 0)
        return;
    char *at = id + AUTH_TOKEN_ID_LEN - 1;
    for (; *at == 'f'; at--)
        *at = '0';
    *at = *at == '9' ? 'a' : (char)(*at + 1);
    assert_status(token_accessor_of(bytes_str(id), accessor), ST_OK);
    assert_true(strcmp(accessor, text) > 0);
}

static void the_last_id_up_to_a_text_is_found(void **ctx)
{
    (void)ctx;
    static const char *const texts[] = {"",
                                        "/",
                                        "0",
                                        "00",
                                        "003",
                                        "003~",
                                        "003:z",
                                        "007n42DGM5Tflk9n8mt7Fh",
                                        "Z",
                                        "~",
                                        FIRST_ACCESSOR,
                                        FIRST_ACCESSOR "0",
                                        "00000000000000000000000",
                                        LAST_ACCESSOR,
                                        LAST_ACCESSOR "z",
                                        BEHIND_LAST,
                                        "000000000000000000000000/"};
    char id[AUTH_TOKEN_ID_LEN + 1];
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        assert_before(texts[i]);
    for (unsigned i = 0; i < 200; i++) {
        char text[AUTH_ACCESSOR_LEN + 1];
        random_id(id);
        assert_status(token_accessor_of(bytes_str(id), text), ST_OK);
        text[AUTH_ACCESSOR_LEN - i % AUTH_ACCESSOR_LEN] = '\0';
        assert_before(text);
    }
    assert_status(token_accessor_before(BYTES(""), id), ST_NOT_FOUND);
    assert_status(token_accessor_before(BYTES("zz"), id), ST_OK);
    assert_string_equal(id, LAST_ID);
}

/* Tokens */

static struct auth_scope scope_of(struct state_txn *txn)
{
    return (struct auth_scope){
        .txn = txn, .cipher = state_cipher(world.state), .ns = STATE_NS_ROOT, .now_ms = NOW_MS};
}

/* A committed token; `bearer` is NULL for one that is drawn. */
static struct auth_token created(const char **bearer)
{
    struct state_txn txn;
    struct auth_token token = auth_token_root(NOW_MS);
    token.expire_ms = NOW_MS + 1000;
    sw_begin(&world, &txn);
    struct auth_scope scope = scope_of(&txn);
    assert_status(auth_token_create(&scope, &world.worker.env, &token, bearer), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    return token;
}

static struct auth_token drawn(void)
{
    const char *bearer = NULL;
    return created(&bearer);
}

static struct auth_token chosen(const char *bearer)
{
    return created(&bearer);
}

static enum status find(const char *accessor, struct auth_token *ret_token)
{
    struct state_txn txn;
    sw_begin(&world, &txn);
    struct auth_scope scope = scope_of(&txn);
    enum status st = auth_token_find(&scope, accessor, ret_token);
    state_end(&txn);
    return st;
}

static void assert_found(const struct auth_token *token)
{
    struct auth_token found;
    assert_status(find(token->accessor, &found), ST_OK);
    assert_string_equal(found.id, token->id);
    assert_string_equal(found.accessor, token->accessor);
}

static void end(const char *accessor)
{
    struct auth_token token;
    struct state_txn txn;
    sw_begin(&world, &txn);
    struct auth_scope scope = scope_of(&txn);
    assert_status(auth_token_find(&scope, accessor, &token), ST_OK);
    assert_status(token_tree_end(&scope, &token, TOKEN_END_TREE), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    assert_status(find(accessor, &token), ST_NOT_FOUND);
}

static uint64_t count(const char *prefix)
{
    struct state_txn txn;
    sw_begin(&world, &txn);
    uint64_t n = state_count(&txn, bytes_str(prefix));
    state_end(&txn);
    return n;
}

static uint64_t indexed(void)
{
    return count("s/ns/root/accessor/");
}

static void at_the_first_level_every_accessor_is_indexed(void **ctx)
{
    (void)ctx;
    struct auth_token one = drawn(), other = chosen("chosen");
    assert_false(one.derived || other.derived);
    assert_int_equal(indexed(), 2);
    assert_found(&one);
    assert_found(&other);
    end(one.accessor);
    end(other.accessor);
    assert_int_equal(indexed(), 0);
}

static void a_token_that_was_drawn_has_four_keys(void **ctx)
{
    (void)ctx;
    sw_raise(&world);
    struct auth_token top = drawn(), token = auth_token_root(NOW_MS);
    uint64_t before = count("s/");
    const char *bearer = NULL;
    struct state_txn txn;
    token.parent = top.id;
    token.depth = 1;
    token.expire_ms = NOW_MS + 1000;
    sw_begin(&world, &txn);
    struct auth_scope scope = scope_of(&txn);
    assert_status(auth_token_create(&scope, &world.worker.env, &token, &bearer), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    assert_int_equal(count("s/") - before, 4); /* record, expiry, lease, child */
    assert_true(token.derived);
    assert_found(&token);
    end(token.accessor);
    assert_int_equal(count("s/"), before);
}

static void an_accessor_of_no_token_is_not_found(void **ctx)
{
    (void)ctx;
    static const char *const texts[] = {"", FIRST_ACCESSOR, LAST_ACCESSOR, BEHIND_LAST, "x/y", "x"};
    struct auth_token token;
    sw_raise(&world);
    (void)drawn();
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        assert_status(find(texts[i], &token), ST_NOT_FOUND);
}

/* A bearer may be chosen again after its token has ended. The accessor of the ended token must not
 * lead to the later token. */
static void a_bearer_that_is_chosen_again_gets_another_accessor(void **ctx)
{
    (void)ctx;
    const char *bearer = NULL;
    sw_raise(&world);
    struct auth_token first = created(&bearer), found;
    end(first.accessor);
    struct auth_token second = chosen(bearer);
    assert_string_equal(second.id, first.id);
    assert_string_not_equal(second.accessor, first.accessor);
    assert_status(find(first.accessor, &found), ST_NOT_FOUND);
    assert_found(&second);
    assert_int_equal(indexed(), 1);
    end(second.accessor);
    struct auth_token third = chosen(bearer);
    assert_string_not_equal(third.accessor, second.accessor);
    assert_found(&third);
    end(third.accessor);
    assert_int_equal(indexed(), 0);
}

static void a_token_of_the_first_level_keeps_its_accessor(void **ctx)
{
    (void)ctx;
    struct auth_token old = drawn(), chosen_before = chosen("chosen");
    sw_raise(&world);
    struct auth_token new = drawn(), chosen_after = chosen("chosen too");
    assert_int_equal(indexed(), 3);
    const struct auth_token *const all[] = {&old, &chosen_before, &new, &chosen_after};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        assert_found(all[i]);
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        end(all[i]->accessor);
    assert_int_equal(indexed(), 0);
    assert_int_equal(count("s/ns/root/token/"), 0);
}

/* A batch token holds the accessor of its parent, which tells the parent from a later token. */
static void a_batch_token_ends_with_the_parent_that_was_drawn(void **ctx)
{
    (void)ctx;
    const char *bearer = NULL, *batch = NULL;
    struct state_txn txn;
    sw_raise(&world);
    struct auth_token parent = created(&bearer), token = auth_token_root(NOW_MS), out;
    token.type = AUTH_TYPE_BATCH;
    token.parent = parent.id;
    token.depth = 1;
    token.expire_ms = NOW_MS + 1000;
    for (unsigned i = 0; i < 3; i++) {
        if (i == 1)
            end(parent.accessor);
        if (i == 2)
            (void)chosen(bearer);
        sw_begin(&world, &txn);
        struct auth_scope scope = scope_of(&txn);
        if (i == 0)
            assert_status(auth_token_create(&scope, &world.worker.env, &token, &batch), ST_OK);
        assert_status(auth_token_load(&scope, bytes_str(batch), &out), i == 0 ? ST_OK : ST_DENIED);
        state_end(&txn);
    }
}

/* The record is the only key of a token without an expiry and a parent. */
static void a_new_token_counts_for_the_state_limit(void **ctx)
{
    (void)ctx;
    struct auth_token token = auth_token_root(NOW_MS);
    const char *bearer = NULL;
    struct state_txn txn;
    sw_raise(&world);
    sw_begin(&world, &txn);
    struct auth_scope scope = scope_of(&txn);
    assert_status(auth_token_create(&scope, &world.worker.env, &token, &bearer), ST_OK);
    bool exempt = state_is_exempt(&txn);
    state_end(&txn);
    assert_false(exempt);
}

static unsigned draws;
static void (*draw)(struct env *env, void *data, size_t n);

static void count_draw(struct env *env, void *data, size_t n)
{
    draws++;
    draw(env, data, n);
}

static void a_new_token_takes_one_draw(void **ctx)
{
    (void)ctx;
    struct auth_token token = auth_token_root(NOW_MS);
    const char *bearer = NULL;
    struct state_txn txn;
    sw_raise(&world);
    (void)drawn(); /* the first use of the HMAC draws, too */
    sw_begin(&world, &txn);
    struct auth_scope scope = scope_of(&txn);
    const struct env_ops *ops = world.worker.env.ops;
    struct env_ops counting = *ops;
    draw = ops->random;
    counting.random = count_draw;
    world.worker.env.ops = &counting;
    draws = 0;
    assert_status(auth_token_create(&scope, &world.worker.env, &token, &bearer), ST_OK);
    world.worker.env.ops = ops;
    state_end(&txn);
    assert_int_equal(draws, 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_world, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_accessor_gives_the_id_that_gave_it),
        TEST(accessors_have_the_order_of_ids),
        TEST(a_text_that_no_id_gives_is_refused),
        TEST(what_is_no_id_has_no_accessor),
        TEST(the_last_id_up_to_a_text_is_found),
        TEST(at_the_first_level_every_accessor_is_indexed),
        TEST(a_token_that_was_drawn_has_four_keys),
        TEST(an_accessor_of_no_token_is_not_found),
        TEST(a_bearer_that_is_chosen_again_gets_another_accessor),
        TEST(a_token_of_the_first_level_keeps_its_accessor),
        TEST(a_batch_token_ends_with_the_parent_that_was_drawn),
        TEST(a_new_token_counts_for_the_state_limit),
        TEST(a_new_token_takes_one_draw),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
