/* Tokens below the API: records, batch tokens, expiry, concurrent changes, failed allocations. */
#include "auth/token_world.h"

#include "auth/token_batch.h"
#include "auth/token_cache.h"
#include "auth/token_lease.h"
#include "auth/token_tree.h"
#include "auth/token_ttl.h"
#include "base/mem.h"

#include <stdio.h>

static void a_record_holds_every_field(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf record = {0};
    struct auth_token in = sample(), out;
    token_record_put(&in, &record);
    assert_status(token_record_read(buf_bytes(&record), &world.arena, &out), ST_OK);
    assert_string_equal(out.parent, "p");
    assert_string_equal(out.accessor, "acc");
    assert_string_equal(out.display_name, "d");
    assert_string_equal(out.path, "auth/x");
    assert_string_equal(out.type, AUTH_TYPE_SERVICE);
    assert_string_equal(out.role, "r");
    assert_string_equal(out.entity_id, "e");
    assert_int_equal(out.policies.n, 2);
    assert_string_equal(out.policies.items[1], "b");
    assert_int_equal(out.meta.n, 2);
    assert_string_equal(out.meta.pairs[2], "");
    assert_string_equal(out.meta.pairs[3], "w");
    assert_int_equal(out.bound_cidrs.n, 2);
    assert_string_equal(out.bound_cidrs.items[1], "::1");
    assert_true(out.created_ms == 1 && out.renewed_ms == 3 && out.expire_ms == in.expire_ms);
    assert_true(out.creation_ttl_s == 4 && out.explicit_max_ttl_s == 5 && out.period_s == 6);
    assert_true(out.num_uses == INT64_MAX && out.limited && out.renewable && !out.orphan);
    assert_true(out.keeps && out.derived);
    assert_int_equal(out.depth, 8);
}

static void a_record_is_small(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf record = {0};
    struct auth_token token = auth_token_root(1700000000000);
    token.parent = "0123456789abcdef0123456789abcdef";
    token.accessor = "123456789012345678901234";
    token.path = "auth/token/create";
    token.expire_ms = 1700000000000;
    token.creation_ttl_s = 3600;
    token_record_put(&token, &record);
    assert_true(record.len < 128);
}

static void a_damaged_record_is_refused(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf record = {0};
    struct auth_token in = sample(), out;
    token_record_put(&in, &record);
    for (size_t len = 0; len < record.len; len++)
        assert_status(token_record_read(bytes_of(record.data, len), &world.arena, &out),
                      ST_CORRUPT);
    record.data[0] = 2; /* another format */
    assert_status(token_record_read(buf_bytes(&record), &world.arena, &out), ST_CORRUPT);
    record.data[0] = 1;
    record.data[1] |= 32; /* a flag we do not know */
    assert_status(token_record_read(buf_bytes(&record), &world.arena, &out), ST_CORRUPT);

    buf_clear(&record);
    in.bound_cidrs.n = 0;
    token_record_put(&in, &record);
    record.data[1] |= 4; /* bound, to nothing */
    buf_add_u8(&record, 0);
    assert_status(token_record_read(buf_bytes(&record), &world.arena, &out), ST_CORRUPT);

    static const char *const two[] = {"a", "zz"};
    buf_clear(&record);
    in.policies = (struct field_strings){.items = two, .n = 2, .given = true};
    token_record_put(&in, &record);
    uint8_t *text = memmem(record.data, record.len, "zz", 3);
    assert_non_null(text);
    text[1] = 0; /* a text has one zero, its last byte */
    assert_status(token_record_read(buf_bytes(&record), &world.arena, &out), ST_CORRUPT);

    for (unsigned over = 0; over < 2; over++) {
        buf_clear(&record);
        in.depth = AUTH_TOKEN_DEPTH_MAX + over;
        token_record_put(&in, &record);
        assert_status(token_record_read(buf_bytes(&record), &world.arena, &out),
                      over ? ST_CORRUPT : ST_OK);
    }
}

/* With a transaction */

static enum status with_times(const struct auth_token *token)
{
    CLEANUP(buf_done) struct buf record = {0};
    struct auth_token out;
    token_record_put(token, &record);
    return token_record_read(buf_bytes(&record), &world.arena, &out);
}

static void times_after_the_year_9998_are_refused(void **ctx)
{
    (void)ctx;
    static const struct {
        size_t offset;
        int64_t end;
    } fields[] = {
        {offsetof(struct auth_token, created_ms), TEXT_CLOCK_END},
        {offsetof(struct auth_token, renewed_ms), TEXT_CLOCK_END},
        {offsetof(struct auth_token, expire_ms), TEXT_EXPIRY_END},
        {offsetof(struct auth_token, creation_ttl_s), TEXT_DURATION_MAX_S + 1},
        {offsetof(struct auth_token, explicit_max_ttl_s), TEXT_DURATION_MAX_S + 1},
        {offsetof(struct auth_token, period_s), TEXT_DURATION_MAX_S + 1},
    };
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        struct auth_token token = sample();
        int64_t *field = (int64_t *)((char *)&token + fields[i].offset);
        *field = fields[i].end - 1;
        assert_status(with_times(&token), ST_OK);
        *field = fields[i].end;
        assert_status(with_times(&token), ST_CORRUPT);
        *field = INT64_MAX;
        assert_status(with_times(&token), ST_CORRUPT);
    }
}

static void a_token_is_good_until_its_last_millisecond(void **ctx)
{
    (void)ctx;
    struct auth_token token = child_of("", NOW_MS + 500);
    const char *bearer = created(&token, NULL);
    assert_status(load(bearer, NOW_MS + 499), ST_OK);
    assert_status(load(bearer, NOW_MS + 500), ST_DENIED);
}

static void a_write_of_a_token_that_was_revoked_meanwhile_conflicts(void **ctx)
{
    (void)ctx;
    const char *top_id;
    struct auth_token top = child_of("", 0), loaded, ended;
    (void)created(&top, &top_id);
    struct auth_token below = child_of(top_id, 0);
    const char *bearer = created(&below, NULL);
    struct state_txn writer, revoker;

    sw_begin(&world, &writer);
    struct auth_scope scope = scope_of(&writer);
    assert_status(auth_token_load(&scope, bytes_str(bearer), &loaded), ST_OK);
    assert_status(state_put(&writer, BYTES("s/x"), BYTES("1")), ST_OK);

    sw_begin(&world, &revoker);
    scope = scope_of(&revoker);
    assert_status(auth_token_load_id(&scope, top_id, &ended), ST_OK);
    assert_status(token_tree_end(&scope, &ended, TOKEN_END_TREE), ST_OK);
    assert_status(sw_commit(&world, &revoker), ST_OK);

    assert_status(sw_commit(&world, &writer), ST_CONFLICT);
    assert_status(load(bearer, NOW_MS), ST_DENIED);
}

static void one_use_is_taken_by_one(void **ctx)
{
    (void)ctx;
    struct auth_token token = child_of("", 0), first, second;
    token.num_uses = 2;
    const char *bearer = created(&token, NULL);
    struct state_txn a, b;
    sw_begin(&world, &a);
    sw_begin(&world, &b);
    struct auth_scope in_a = scope_of(&a), in_b = scope_of(&b);
    assert_status(auth_token_load(&in_a, bytes_str(bearer), &first), ST_OK);
    assert_status(auth_token_load(&in_b, bytes_str(bearer), &second), ST_OK);
    assert_status(auth_token_use(&in_a, &first), ST_OK);
    assert_status(auth_token_use(&in_b, &second), ST_OK);
    assert_status(sw_commit(&world, &a), ST_OK);
    assert_status(sw_commit(&world, &b), ST_CONFLICT);
}

/* What a token gets while another transaction ends it. */
static enum status give_child(const struct auth_scope *s, const struct auth_token *to)
{
    struct auth_token child = child_of(to->id, 0);
    const char *bearer = NULL;
    return auth_token_create(s, &world.worker.env, &child, &bearer);
}

static enum status give_lease(const struct auth_scope *s, const struct auth_token *to)
{
    static const struct lease_kind plain = {.name = "plain"};
    struct lease_kinds kinds = {0};
    lease_kinds_add(&kinds, &plain);
    lease_kinds_add(&kinds, &token_lease_kind);
    const struct lease_scope scope = {
        .txn = s->txn, .ns = s->ns, .kinds = &kinds, .now_ms = NOW_MS};
    struct lease lease = {.kind = &plain, .token = to->id, .expire_ms = NOW_MS + 1000};
    return lease_create(&scope, &world.worker.env, "a", &lease);
}

static enum status give_wrapped(const struct auth_scope *s, const struct auth_token *to)
{
    struct bytes key;
    TRY(state_ns_key(s->txn->arena, s->ns, "cubby", bytes_str(to->id), "a", &key));
    TRY(token_store_keep(s, to->id));
    return state_put(s->txn, key, BYTES("x"));
}

typedef enum status give_fn(const struct auth_scope *s, const struct auth_token *to);
static give_fn *const gifts[] = {give_child, give_lease, give_wrapped};

/* The level decides whether an end without anything below the token leaves a mark. */
static uint64_t marks(void)
{
    struct state_txn txn;
    sw_begin(&world, &txn);
    uint64_t n =
        state_count(&txn, BYTES("s/unfinished/")) + state_count(&txn, BYTES("s/ns/root/revoked/"));
    state_end(&txn);
    return n;
}

static uint64_t keys(void)
{
    struct state_txn txn;
    sw_begin(&world, &txn);
    uint64_t n = state_count(&txn, BYTES("s/"));
    state_end(&txn);
    return n;
}

static enum status end_at_once(const struct auth_scope *s, const char *id)
{
    struct auth_token token;
    TRY(auth_token_load_id(s, id, &token));
    return token_tree_end(s, &token, TOKEN_END_TREE);
}

static void a_token_that_had_nothing_leaves_no_key(void **ctx)
{
    (void)ctx;
    sw_raise(&world);
    uint64_t before = keys();
    struct auth_token token = child_of("", NOW_MS + 1000);
    const char *id;
    struct state_txn txn;
    (void)created(&token, &id);
    sw_begin(&world, &txn);
    struct auth_scope scope = scope_of(&txn);
    assert_status(end_at_once(&scope, id), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    assert_int_equal(keys(), before);
}

/* The end was staged before the token got something, and would leave no mark. */
static void what_a_token_gets_meanwhile_is_a_conflict_of_its_end(void **ctx)
{
    (void)ctx;
    sw_raise(&world);
    for (size_t i = 0; i < ARRAY_LEN(gifts); i++) {
        struct auth_token token = child_of("", 0), held;
        const char *id;
        struct state_txn giver, ender, again;
        (void)created(&token, &id);
        sw_begin(&world, &ender);
        sw_begin(&world, &giver);
        struct auth_scope in_ender = scope_of(&ender), in_giver = scope_of(&giver);
        assert_status(end_at_once(&in_ender, id), ST_OK);
        assert_status(auth_token_load_id(&in_giver, id, &held), ST_OK);
        assert_status(gifts[i](&in_giver, &held), ST_OK);
        assert_status(sw_commit(&world, &giver), ST_OK);
        assert_status(sw_commit(&world, &ender), ST_CONFLICT);
        assert_int_equal(marks(), i);
        sw_begin(&world, &again);
        in_ender = scope_of(&again);
        assert_status(end_at_once(&in_ender, id), ST_OK);
        assert_status(sw_commit(&world, &again), ST_OK);
        assert_int_equal(marks(), i + 1); /* the mark says that something is left */
    }
}

/* The other order: the token ends first. */
static void an_ended_token_gets_nothing(void **ctx)
{
    (void)ctx;
    sw_raise(&world);
    for (size_t i = 0; i < ARRAY_LEN(gifts); i++) {
        struct auth_token token = child_of("", 0), held;
        const char *id;
        struct state_txn giver, ender;
        (void)created(&token, &id);
        sw_begin(&world, &ender);
        sw_begin(&world, &giver);
        struct auth_scope in_ender = scope_of(&ender), in_giver = scope_of(&giver);
        assert_status(auth_token_load_id(&in_giver, id, &held), ST_OK);
        assert_status(gifts[i](&in_giver, &held), ST_OK);
        assert_status(end_at_once(&in_ender, id), ST_OK);
        assert_status(sw_commit(&world, &ender), ST_OK);
        assert_status(sw_commit(&world, &giver), ST_CONFLICT);
    }
    assert_int_equal(marks(), 0);
}

/* Builds of the first feature level add keys without a note in the record, and read no note. */
static void below_its_level_no_record_has_the_note(void **ctx)
{
    (void)ctx;
    struct auth_token top = child_of("", 0), below, loaded;
    const char *id;
    struct state_txn txn;
    (void)created(&top, &id);
    below = child_of(id, 0);
    (void)created(&below, NULL);
    sw_begin(&world, &txn);
    struct auth_scope scope = scope_of(&txn);
    assert_status(auth_token_load_id(&scope, id, &loaded), ST_OK);
    assert_false(loaded.keeps);
    state_end(&txn);
    sw_raise(&world);
    sw_begin(&world, &txn);
    scope = scope_of(&txn);
    assert_status(end_at_once(&scope, id), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    assert_int_equal(marks(), 1); /* the child is found without the note */
}

/* The request of a last use goes on, and may still add keys. */
static void the_last_use_leaves_a_mark(void **ctx)
{
    (void)ctx;
    sw_raise(&world);
    struct auth_token token = child_of("", 0), held;
    token.num_uses = 1;
    const char *bearer = created(&token, NULL);
    struct state_txn txn;
    sw_begin(&world, &txn);
    struct auth_scope scope = scope_of(&txn);
    assert_status(auth_token_load(&scope, bytes_str(bearer), &held), ST_OK);
    assert_status(auth_token_use(&scope, &held), ST_OK);
    assert_status(give_wrapped(&scope, &held), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    assert_status(load(bearer, NOW_MS), ST_DENIED);
    assert_int_equal(marks(), 1);
}

/* Batch */

static void a_batch_token_opens_in_its_namespace_only(void **ctx)
{
    (void)ctx;
    struct state_txn txn;
    struct auth_token token = child_of("", NOW_MS + 1000), out;
    const char *bearer;
    token.type = AUTH_TYPE_BATCH;
    sw_begin(&world, &txn);
    assert_status(token_batch_seal(&txn, state_cipher(world.state), STATE_NS_ROOT, &token, &bearer),
                  ST_OK);
    assert_status(token_batch_open(&txn, STATE_NS_ROOT, bytes_str(bearer), &out), ST_OK);
    assert_string_equal(out.id, "");
    assert_true(auth_token_is_batch(&out));
    assert_status(token_batch_open(&txn, "other", bytes_str(bearer), &out), ST_DENIED);
    state_end(&txn);
}

static void what_is_no_batch_token_is_refused(void **ctx)
{
    (void)ctx;
    static const char *const texts[] = {"hvb.", "hvb.A", "hvb.!!!!", "hvb.AAAA",
                                        "hvb.AQAAAAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"};
    struct state_txn txn;
    struct auth_token out;
    sw_begin(&world, &txn);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        assert_status(token_batch_open(&txn, STATE_NS_ROOT, bytes_str(texts[i]), &out), ST_DENIED);
    state_end(&txn);
}

static void another_spelling_of_a_batch_token_is_none(void **ctx)
{
    (void)ctx;
    static const char names[] = "abc"; /* of three lengths, for every padding */
    struct state_txn txn;
    struct auth_token out;
    const char *bearer;
    unsigned padded = 0, digits = 0;
    sw_begin(&world, &txn);
    for (unsigned i = 0; i < 60; i++) {
        struct auth_token token = child_of("", NOW_MS + 1000);
        char other[512];
        token.type = AUTH_TYPE_BATCH;
        token.display_name = names + i % 3;
        assert_status(
            token_batch_seal(&txn, state_cipher(world.state), STATE_NS_ROOT, &token, &bearer),
            ST_OK);
        assert_status(token_batch_open(&txn, STATE_NS_ROOT, bytes_str(bearer), &out), ST_OK);
        size_t missing = (4 - (strlen(bearer) - 4) % 4) % 4;
        padded |= 1U << missing;
        (void)snprintf(other, sizeof other, "%s%.*s", bearer, (int)missing, "==");
        assert_status(token_batch_open(&txn, STATE_NS_ROOT, bytes_str(other), &out),
                      missing == 0 ? ST_OK : ST_DENIED);
        (void)snprintf(other, sizeof other, "%s", bearer);
        char *at = strpbrk(other + 4, "-_");
        if (at == NULL)
            continue;
        digits |= *at == '-' ? 1 : 2;
        *at = *at == '-' ? '+' : '/';
        assert_status(token_batch_open(&txn, STATE_NS_ROOT, bytes_str(other), &out), ST_DENIED);
    }
    assert_int_equal(padded, 1 | 2 | 4);
    assert_int_equal(digits, 3);
    state_end(&txn);
}

/* A stored record that is put into a batch token's clothes is none, and the other way round. */
static void a_service_record_is_no_batch_token(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf record = {0};
    struct state_txn txn;
    struct bytes key, opened;
    struct auth_token token = child_of("", 0);
    uint8_t sealed[512];
    token_record_put(&token, &record);
    sw_begin(&world, &txn);
    assert_status(state_ns_key(&world.arena, STATE_NS_ROOT, "token", BYTES("x"), NULL, &key),
                  ST_OK);
    assert_true(record.len + BARRIER_OVERHEAD <= sizeof sealed);
    assert_status(barrier_encrypt(state_cipher(world.state), key, buf_bytes(&record), sealed),
                  ST_OK);
    struct bytes other = BYTES("s/ns/root/batch/token");
    assert_status(state_open(&txn, other, bytes_of(sealed, record.len + BARRIER_OVERHEAD), &opened),
                  ST_CORRUPT);
    state_end(&txn);
}

/* Times */

static struct token_ttl ttl_of(int64_t wanted_s)
{
    return (struct token_ttl){
        .wanted_s = wanted_s, .default_s = 100, .max_s = 1000, .created_ms = 5000, .now_ms = 5000};
}

static void a_ttl_follows_from_what_is_given(void **ctx)
{
    (void)ctx;
    struct reason warning = {{0}};
    struct token_ttl t = ttl_of(0);
    assert_int_equal(token_ttl_end_ms(&t, &warning), 105000);
    t.own_s = 50;
    assert_int_equal(token_ttl_end_ms(&t, &warning), 55000);
    t.wanted_s = 20;
    assert_int_equal(token_ttl_end_ms(&t, &warning), 25000);
    t.period_s = 30;
    assert_int_equal(token_ttl_end_ms(&t, &warning), 35000);
    assert_string_equal(warning.text, "");
    t = ttl_of(2000);
    assert_int_equal(token_ttl_end_ms(&t, &warning), 1005000);
    assert_true(warning.text[0] != '\0');
}

static void a_maximum_counts_from_the_beginning(void **ctx)
{
    (void)ctx;
    struct reason warning = {{0}};
    struct token_ttl t = ttl_of(100);
    t.now_ms = 5000 + 950 * 1000;
    assert_int_equal(token_ttl_end_ms(&t, &warning), 1005000);
    assert_true(warning.text[0] != '\0');
    t.period_s = 100;
    assert_int_equal(token_ttl_end_ms(&t, &warning), t.now_ms + 100000);
    t.explicit_max_s = 960;
    assert_int_equal(token_ttl_end_ms(&t, &warning), 965000);
    t.now_ms = 4000; /* as another node may take it */
    t.period_s = t.explicit_max_s = 0;
    assert_int_equal(token_ttl_end_ms(&t, &warning), 105000);
    t.explicit_max_s = INT64_MAX / 4000;
    t.period_s = INT64_MAX / 4000;
    assert_int_equal(token_ttl_end_ms(&t, &warning), 1005000);
}

/* Lack of memory */

static enum status make_load_end(struct state_txn *txn)
{
    struct auth_scope scope = scope_of(txn);
    struct auth_token token = child_of("", NOW_MS + 1), out;
    const struct auth_token *held;
    const char *bearer = NULL;
    struct token_ref *ref;
    TRY(auth_token_create(&scope, &world.worker.env, &token, &bearer));
    TRY(auth_token_load(&scope, bytes_str(bearer), &out));
    TRY(auth_token_hold(&scope, bytes_str(bearer), &held, &ref));
    token_ref_drop(ref);
    TRY(auth_token_find(&scope, token.accessor, &out));
    return token_tree_end(&scope, &out, TOKEN_END_TREE);
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
        st = make_load_end(&txn);
        (void)mem_fail_nth(0);
        assert_true(st == ST_OK || st == ST_NOMEM);
        state_end(&txn);
        arena_done(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_record_holds_every_field),
        TEST(a_record_is_small),
        TEST(a_damaged_record_is_refused),
        TEST(times_after_the_year_9998_are_refused),
        TEST(a_token_is_good_until_its_last_millisecond),
        TEST(a_write_of_a_token_that_was_revoked_meanwhile_conflicts),
        TEST(one_use_is_taken_by_one),
        TEST(a_token_that_had_nothing_leaves_no_key),
        TEST(what_a_token_gets_meanwhile_is_a_conflict_of_its_end),
        TEST(an_ended_token_gets_nothing),
        TEST(below_its_level_no_record_has_the_note),
        TEST(the_last_use_leaves_a_mark),
        TEST(a_batch_token_opens_in_its_namespace_only),
        TEST(what_is_no_batch_token_is_refused),
        TEST(another_spelling_of_a_batch_token_is_none),
        TEST(a_service_record_is_no_batch_token),
        TEST(a_ttl_follows_from_what_is_given),
        TEST(a_maximum_counts_from_the_beginning),
        TEST(every_lack_of_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
