/* Stored records of either side about the other, and how a thread of the link reads them. */
#include "state/state_world.h"

#include "cluster/dr/live.h"
#include "cluster/dr/reader.h"
#include "cluster/dr/records.h"

static struct state_world world;
static struct state_txn txn;

static int set_up(void **ctx)
{
    (void)ctx;
    sw_open(&world);
    sw_init(&world);
    return 0;
}

static int tear_down(void **ctx)
{
    (void)ctx;
    sw_close(&world);
    return 0;
}

static void commit(void)
{
    assert_status(sw_commit(&world, &txn), ST_OK);
}

static struct dr_secondary secondary_of(const char *id, int64_t expire_ms, int64_t activated_ms)
{
    struct dr_secondary s = {.created_ms = 1,
                             .expire_ms = expire_ms,
                             .activated_ms = activated_ms,
                             .key_sha256 = {1, 2, 3}};
    memcpy(s.id, id, strlen(id) + 1);
    return s;
}

static void a_secondary_lives_by_its_token_or_its_activation(void **ctx)
{
    struct dr_secondary unused = secondary_of("a", 100, 0), used = secondary_of("b", 100, 50);
    (void)ctx;
    assert_true(dr_secondary_lives(&unused, 99));
    assert_false(dr_secondary_lives(&unused, 100));
    assert_true(dr_secondary_lives(&used, 1000000));
}

static void a_key_counts_once_the_secondary_is_activated(void **ctx)
{
    const uint8_t own[32] = {1, 2, 3}, next[32] = {9}, none[32] = {0};
    struct dr_secondary s = secondary_of("a", 100, 0);
    (void)ctx;
    assert_false(dr_secondary_has_key(&s, own));
    s.activated_ms = 5;
    assert_true(dr_secondary_has_key(&s, own));
    assert_false(dr_secondary_has_key(&s, next));
    assert_false(dr_secondary_has_key(&s, none)); /* no renewal: zeros are no key */
    assert_false(dr_secondary_renews(&s));
    memcpy(s.next_sha256, next, sizeof next);
    assert_true(dr_secondary_renews(&s));
    assert_true(dr_secondary_has_key(&s, next));
    assert_true(dr_secondary_has_key(&s, own));
}

static void the_secondaries_that_count_are_listed_by_id(void **ctx)
{
    const struct dr_secondary all[] = {secondary_of("c", 100, 0), secondary_of("a", 100, 7),
                                       secondary_of("b", 1000, 0)};
    struct dr_secondaries list;
    struct dr_secondary one;
    (void)ctx;
    sw_begin(&world, &txn);
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        assert_status(dr_secondary_put(&txn, &all[i]), ST_OK);
    commit();
    sw_begin(&world, &txn);
    assert_status(dr_secondaries_read(&txn, 500, &list), ST_OK);
    assert_int_equal(list.n, 2); /* the token of "c" has ended */
    assert_string_equal(list.items[0].id, "a");
    assert_string_equal(list.items[1].id, "b");
    assert_int_equal(list.items[0].activated_ms, 7);
    assert_status(dr_secondary_get(&txn, "c", &one), ST_OK);
    assert_int_equal(one.expire_ms, 100);
    assert_status(dr_secondary_delete(&txn, "a"), ST_OK);
    commit();
    sw_begin(&world, &txn);
    assert_status(dr_secondary_get(&txn, "a", &one), ST_NOT_FOUND);
    state_end(&txn);
}

/* Everything shorter than a record, and everything longer, is refused. */
#define CUT_IS_CORRUPT(record, decode)                              \
    do {                                                            \
        for (size_t len_ = 0; len_ < (record).len; len_++) {        \
            const struct bytes cut = bytes_of((record).data, len_); \
            assert_status((decode), ST_CORRUPT);                    \
        }                                                           \
    } while (0)

static struct bytes stored(const char *key)
{
    struct state_value value;
    sw_begin(&world, &txn);
    assert_status(state_get(&txn, bytes_str(key), &value), ST_OK);
    state_end(&txn);
    return value.value;
}

static void a_record_that_was_cut_is_not_read(void **ctx)
{
    const struct dr_secondary s = secondary_of("a", 100, 7);
    struct dr_addresses addresses = {0}, none;
    struct dr_secondary read;
    struct secret root = {0};
    (void)ctx;
    assert_status(dr_addresses_add(&addresses, BYTES("one:1")), ST_OK);
    assert_status(dr_addresses_add(&addresses, BYTES("two:2")), ST_OK);
    sw_begin(&world, &txn);
    assert_status(dr_secondary_put(&txn, &s), ST_OK);
    assert_status(dr_addresses_put(&txn, &addresses), ST_OK);
    assert_status(dr_root_put(&txn, BYTES("root key")), ST_OK);
    commit();
    struct bytes record = stored(DR_SECONDARY_PREFIX "a");
    assert_status(dr_secondary_decode(BYTES("a"), record, &read), ST_OK);
    assert_memory_equal(read.key_sha256, s.key_sha256, sizeof s.key_sha256);
    CUT_IS_CORRUPT(record, dr_secondary_decode(BYTES("a"), cut, &read));
    record = stored(DR_ADDRESSES);
    assert_status(dr_addresses_decode(record, &none), ST_OK);
    assert_int_equal(none.n, 2);
    assert_string_equal(none.at[1], "two:2");
    CUT_IS_CORRUPT(record, dr_addresses_decode(cut, &none));
    record = stored(DR_ROOT_KEY);
    CUT_IS_CORRUPT(record, dr_root_decode(cut, &root));
    assert_status(dr_root_decode(record, &root), ST_OK);
    assert_true(bytes_eq(secret_bytes(&root), BYTES("root key")));
    secret_done(&root);
}

static void addresses_that_are_stored_are_not_written_again(void **ctx)
{
    struct dr_addresses addresses = {0};
    (void)ctx;
    assert_status(dr_addresses_add(&addresses, BYTES("one:1")), ST_OK);
    sw_begin(&world, &txn);
    assert_status(dr_addresses_put(&txn, &addresses), ST_OK);
    commit();
    sw_begin(&world, &txn);
    assert_status(dr_addresses_put(&txn, &addresses), ST_OK);
    assert_false(state_staged(&txn));
    assert_status(dr_addresses_add(&addresses, BYTES("two:2")), ST_OK);
    assert_status(dr_addresses_put(&txn, &addresses), ST_OK);
    assert_true(state_staged(&txn));
    state_end(&txn);
}

static void the_time_of_a_record_counts_for_its_version_alone(void **ctx)
{
    struct store_pin pin;
    (void)ctx;
    /* local keys do not count in the version */
    for (uint64_t off = 0; off < 2; off++) {
        sw_begin(&world, &txn);
        const struct dr_applied applied = {state_version(&txn) + off, 4711};
        assert_status(dr_applied_put(&txn, &applied), ST_OK);
        commit();
        assert_status(store_pin(world.m.store, "test", 0, &pin), ST_OK);
        assert_int_equal(dr_applied_ms(&pin), off == 0 ? 4711 : 0);
        store_unpin(&pin);
    }
}

static void a_thread_reads_what_a_transaction_wrote(void **ctx)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct part_host host = {.barrier = world.barrier, .env = &world.raft.env};
    struct dr_reader reader = {.host = &host};
    struct store_pin pin;
    (void)ctx;
    sw_begin(&world, &txn);
    assert_status(state_put(&txn, BYTES(DR_PREFIX "x"), BYTES("plain")), ST_OK);
    assert_status(state_put_raw(&txn, BYTES(DR_PREFIX "y"),
                                BYTES("no ciphertext, but longer than "
                                      "what a value has at least")),
                  ST_OK);
    commit();
    buf_add(&out, BYTES("before "));
    assert_status(store_pin(world.m.store, "test", 0, &pin), ST_OK);
    assert_status(dr_reader_read(&reader, &pin, BYTES(DR_PREFIX "x"), &out), ST_OK);
    assert_true(bytes_eq(buf_bytes(&out), BYTES("before plain")));
    assert_status(dr_reader_read(&reader, &pin, BYTES(DR_PREFIX "z"), &out), ST_NOT_FOUND);
    assert_status(dr_reader_read(&reader, &pin, BYTES(DR_PREFIX "y"), &out), ST_CORRUPT);
    assert_true(bytes_eq(buf_bytes(&out), BYTES("before plain"))); /* nothing was appended */
    barrier_seal(world.barrier);
    assert_status(dr_reader_read(&reader, &pin, BYTES(DR_PREFIX "x"), &out), ST_SEALED);
    store_unpin(&pin);
    dr_reader_done(&reader);
}

static void a_peer_that_is_gone_makes_room_for_another_one(void **ctx)
{
    struct dr_facts facts = {0};
    char id[8];
    (void)ctx;
    for (unsigned i = 0; i < DR_PEERS_MAX; i++) {
        (void)snprintf(id, sizeof id, "%u", i);
        struct dr_peer *peer = dr_live_peer(&facts, id, "");
        assert_non_null(peer);
        assert_ptr_equal(dr_live_peer(&facts, id, ""), peer); /* it is there already */
        peer->connected = true;
    }
    assert_null(dr_live_peer(&facts, "one more", ""));
    facts.peers[3].connected = false;
    facts.peers[3].position = 77;
    struct dr_peer *peer = dr_live_peer(&facts, "one more", "");
    assert_ptr_equal(peer, &facts.peers[3]);
    assert_string_equal(peer->id, "one more");
    assert_int_equal(peer->position, 0);
    assert_int_equal(peer->lag_ms, -1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_secondary_lives_by_its_token_or_its_activation),
        TEST(a_key_counts_once_the_secondary_is_activated),
        TEST(the_secondaries_that_count_are_listed_by_id),
        TEST(a_record_that_was_cut_is_not_read),
        TEST(addresses_that_are_stored_are_not_written_again),
        TEST(the_time_of_a_record_counts_for_its_version_alone),
        TEST(a_thread_reads_what_a_transaction_wrote),
        TEST(a_peer_that_is_gone_makes_room_for_another_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
