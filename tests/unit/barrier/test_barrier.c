/* The barrier: values, rings, sealing, records. */
#include "state/fake_env.h"
#include "support.h"

#include "barrier/barrier_internal.h"
#include "barrier/seal_record.h"
#include "barrier/token.h"
#include "base/mem.h"

struct world {
    struct fake_env env;
    struct seal seal;
    struct barrier_created created;
    struct barrier *b;
    struct barrier_cipher *cipher;
};

static struct barrier_records records_of(const struct barrier_created *c)
{
    return (struct barrier_records){.seal = buf_bytes(&c->seal),
                                    .keyring = buf_bytes(&c->keyring),
                                    .local_keyring = buf_bytes(&c->local_keyring),
                                    .salt = buf_bytes(&c->salt)};
}

static int setup(void **state)
{
    static struct world w;
    static const uint8_t key[32] = {7};
    struct barrier_records records;
    w = (struct world){0};
    fake_env_init(&w.env, 1);
    if (crypto_init(NULL) != ST_OK ||
        seal_static(bytes_of(key, 32), "k1", &w.seal, NULL) != ST_OK ||
        barrier_create(&w.env.env, &w.seal, 1000, &w.created) != ST_OK ||
        barrier_new(&w.b) != ST_OK || barrier_cipher_new(w.b, &w.env.env, &w.cipher) != ST_OK)
        return -1;
    records = records_of(&w.created);
    *state = &w;
    return barrier_unseal(w.b, &w.seal, &records, NULL) == ST_OK ? 0 : -1;
}

static int teardown(void **state)
{
    struct world *w = *state;
    barrier_cipher_free(w->cipher);
    barrier_free(w->b);
    barrier_created_done(&w->created);
    seal_done(&w->seal);
    return 0;
}

#define KEY BYTES("s/kv/some/secret")
#define PLAIN BYTES("correct horse battery staple")
enum { PLAIN_LEN = 28, STORED_LEN = PLAIN_LEN + BARRIER_OVERHEAD };

static void encrypt(struct world *w, struct bytes key, uint8_t out[STORED_LEN])
{
    assert_status(barrier_encrypt(w->cipher, key, PLAIN, out), ST_OK);
}

static enum status decrypt(struct barrier_cipher *cipher, struct bytes key, struct bytes stored)
{
    uint8_t out[256];
    size_t n = 999;
    enum status st = barrier_decrypt(cipher, key, stored, out, &n);
    if (st == ST_OK)
        assert_bytes(bytes_of(out, n), PLAIN);
    else
        assert_int_equal(n, 999); /* written on success alone */
    return st;
}

static void a_value_comes_back_at_its_key_alone(void **state)
{
    struct world *w = *state;
    uint8_t stored[STORED_LEN];
    encrypt(w, KEY, stored);
    assert_status(decrypt(w->cipher, KEY, bytes_of(stored, STORED_LEN)), ST_OK);
    assert_status(decrypt(w->cipher, BYTES("s/kv/some/secreu"), bytes_of(stored, STORED_LEN)),
                  ST_CORRUPT);
    assert_status(decrypt(w->cipher, BYTES("s/kv/some"), bytes_of(stored, STORED_LEN)), ST_CORRUPT);
    assert_status(decrypt(w->cipher, BYTES("l/kv/some/secret"), bytes_of(stored, STORED_LEN)),
                  ST_CORRUPT); /* another ring */
}

static void what_is_stored_shows_nothing_of_the_text(void **state)
{
    struct world *w = *state;
    uint8_t stored[STORED_LEN], again[STORED_LEN];
    encrypt(w, KEY, stored);
    encrypt(w, KEY, again);
    assert_memory_not_equal(stored + 5, again + 5, 12); /* nonces */
    assert_memory_not_equal(stored + 17, again + 17, PLAIN_LEN);
    for (size_t i = 0; i + 4 <= STORED_LEN; i++)
        for (size_t j = 0; j + 4 <= PLAIN_LEN; j++)
            assert_memory_not_equal(stored + i, PLAIN.data + j, 4);
}

static void any_flipped_bit_or_cut_is_noticed(void **state)
{
    struct world *w = *state;
    uint8_t stored[STORED_LEN];
    encrypt(w, KEY, stored);
    for (size_t bit = 0; bit < STORED_LEN * 8; bit++) {
        stored[bit / 8] ^= (uint8_t)(1u << bit % 8);
        enum status st = decrypt(w->cipher, KEY, bytes_of(stored, STORED_LEN));
        /* The term is read before it is authenticated. */
        assert_status(st, bit >= 8 && bit < 40 && st == ST_NOT_FOUND ? ST_NOT_FOUND : ST_CORRUPT);
        stored[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t n = 0; n < STORED_LEN; n++)
        assert_status(decrypt(w->cipher, KEY, bytes_of(stored, n)), ST_CORRUPT);
}

static void the_empty_value_is_a_value(void **state)
{
    struct world *w = *state;
    uint8_t stored[BARRIER_OVERHEAD], out[1];
    size_t n = 9;
    assert_status(barrier_encrypt(w->cipher, KEY, BYTES(""), stored), ST_OK);
    assert_status(barrier_decrypt(w->cipher, KEY, bytes_of(stored, sizeof stored), out, &n), ST_OK);
    assert_int_equal(n, 0);
    stored[BARRIER_OVERHEAD - 1] ^= 1;
    assert_status(barrier_decrypt(w->cipher, KEY, bytes_of(stored, sizeof stored), out, &n),
                  ST_CORRUPT);
}

static void a_sealed_barrier_does_nothing(void **state)
{
    struct world *w = *state;
    uint8_t stored[STORED_LEN], mac[32];
    struct barrier_ring_info info;
    struct buf record = {0};
    struct barrier_records records = records_of(&w->created);
    encrypt(w, KEY, stored);
    barrier_seal(w->b);
    assert_true(barrier_is_sealed(w->b));
    assert_status(barrier_encrypt(w->cipher, KEY, PLAIN, stored), ST_SEALED);
    assert_status(decrypt(w->cipher, KEY, bytes_of(stored, STORED_LEN)), ST_SEALED);
    assert_status(barrier_mac(w->cipher, PLAIN, mac), ST_SEALED);
    assert_status(barrier_ring_info(w->b, BARRIER_SHARED, &info), ST_SEALED);
    assert_status(barrier_follow(w->b, &records), ST_SEALED);
    assert_status(barrier_upkeep(w->b, &w->env.env, BARRIER_SHARED, BARRIER_USES_FIRST, 1, &record),
                  ST_SEALED);
    assert_false(barrier_upkeep_due(w->b, BARRIER_SHARED));
    barrier_seal(w->b); /* again */
    assert_status(barrier_unseal(w->b, &w->seal, &records, NULL), ST_OK);
    assert_status(barrier_unseal(w->b, &w->seal, &records, NULL), ST_EXISTS);
    assert_status(barrier_encrypt(w->cipher, KEY, PLAIN, stored), ST_OK);
    buf_done(&record);
}

static void values_outlive_sealing_and_other_processes(void **state)
{
    struct world *w = *state;
    uint8_t stored[STORED_LEN];
    struct barrier_records records = records_of(&w->created);
    struct barrier *other = NULL;
    struct barrier_cipher *cipher = NULL;
    encrypt(w, KEY, stored);
    barrier_seal(w->b);
    assert_status(barrier_new(&other), ST_OK);
    assert_status(barrier_cipher_new(other, &w->env.env, &cipher), ST_OK);
    assert_status(decrypt(cipher, KEY, bytes_of(stored, STORED_LEN)), ST_SEALED);
    assert_status(barrier_unseal(other, &w->seal, &records, NULL), ST_OK);
    assert_status(decrypt(cipher, KEY, bytes_of(stored, STORED_LEN)), ST_OK);
    barrier_cipher_free(cipher);
    barrier_free(other);
}

static void the_creator_can_encrypt_before_anything_is_stored(void **state)
{
    struct world *w = *state;
    uint8_t stored[STORED_LEN];
    struct barrier_cipher *cipher = NULL;
    assert_status(barrier_cipher_new(w->created.barrier, &w->env.env, &cipher), ST_OK);
    assert_status(barrier_encrypt(cipher, KEY, PLAIN, stored), ST_OK);
    barrier_cipher_free(cipher);
    assert_status(decrypt(w->cipher, KEY, bytes_of(stored, STORED_LEN)), ST_OK);
}

static void a_shamir_seal_tells_its_counts_and_opens_with_its_key_alone(void **state)
{
    struct world *w = *state;
    static const uint8_t key[32] = {9}, wrong[32] = {10};
    struct barrier_created created = {0};
    struct barrier *b = NULL;
    struct seal right = {0}, other = {0};
    struct seal_info info;
    struct reason reason = {0};
    assert_status(seal_shamir(bytes_of(key, 32), 5, 3, &right), ST_OK);
    assert_status(seal_shamir(bytes_of(wrong, 32), 5, 3, &other), ST_OK);
    assert_status(barrier_create(&w->env.env, &right, 1000, &created), ST_OK);
    struct barrier_records records = records_of(&created);
    assert_status(seal_info_read(records.seal, &info), ST_OK);
    assert_int_equal(info.type, SEAL_SHAMIR);
    assert_int_equal(info.shares, 5);
    assert_int_equal(info.threshold, 3);
    assert_status(barrier_new(&b), ST_OK);
    assert_status(barrier_unseal(b, &other, &records, &reason), ST_INVALID);
    assert_status(barrier_unseal(b, &w->seal, &records, &reason), ST_INVALID);
    assert_non_null(strstr(reason.text, "key shares"));
    assert_true(barrier_is_sealed(b));
    assert_status(barrier_unseal(b, &right, &records, &reason), ST_OK);
    for (size_t i = 0; i < records.seal.len; i++) { /* the counts are authenticated too */
        barrier_seal(b);
        created.seal.data[i] ^= 1;
        assert_int_not_equal(barrier_unseal(b, &right, &records, &reason), ST_OK);
        created.seal.data[i] ^= 1;
    }
    barrier_free(b);
    barrier_created_done(&created);
    seal_done(&right);
    seal_done(&other);
}

static void counts_of_shares_that_make_no_sense_are_damage(void **state)
{
    (void)state;
    static const struct {
        uint8_t type, shares, threshold;
        enum status st;
    } cases[] = {
        {SEAL_SHAMIR, 5, 5, ST_OK},      {SEAL_SHAMIR, 5, 2, ST_OK},
        {SEAL_SHAMIR, 1, 1, ST_OK},      {SEAL_SHAMIR, 5, 6, ST_CORRUPT},
        {SEAL_SHAMIR, 5, 1, ST_CORRUPT}, {SEAL_SHAMIR, 1, 0, ST_CORRUPT},
        {SEAL_SHAMIR, 0, 0, ST_CORRUPT}, {SEAL_STATIC, 0, 0, ST_OK},
        {SEAL_STATIC, 2, 3, ST_CORRUPT}, {SEAL_STATIC, 3, 2, ST_OK},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(buf_done) struct buf record = {0};
        struct seal_info info;
        buf_add_u8(&record, SEAL_RECORD_VERSION);
        buf_add_u8(&record, cases[i].type);
        buf_add_block(&record, BYTES("id"));
        buf_add_u8(&record, cases[i].shares);
        buf_add_u8(&record, cases[i].threshold);
        uint8_t *rest = buf_extend(&record, AEAD_NONCE_BYTES + SEAL_KEY_BYTES + AEAD_TAG_BYTES);
        assert_non_null(rest);
        memset(rest, 7, AEAD_NONCE_BYTES + SEAL_KEY_BYTES + AEAD_TAG_BYTES);
        assert_status(seal_info_read(buf_bytes(&record), &info), cases[i].st);
    }
}

static void another_seal_key_is_named_as_the_reason(void **state)
{
    struct world *w = *state;
    static const uint8_t key[32] = {8};
    struct barrier_records records = records_of(&w->created);
    struct reason reason = {0};
    struct seal other = {0};
    barrier_seal(w->b);

    assert_status(seal_static(bytes_of(key, 32), "k2", &other, NULL), ST_OK);
    assert_status(barrier_unseal(w->b, &other, &records, &reason), ST_INVALID);
    assert_non_null(strstr(reason.text, "'k1'"));
    assert_non_null(strstr(reason.text, "'k2'"));
    seal_done(&other);

    assert_status(seal_static(bytes_of(key, 32), "k1", &other, NULL), ST_OK);
    assert_status(barrier_unseal(w->b, &other, &records, &reason), ST_INVALID);
    assert_non_null(strstr(reason.text, "does not open"));
    seal_done(&other);

    records.seal = BYTES("");
    assert_status(barrier_unseal(w->b, &w->seal, &records, &reason), ST_NOT_FOUND);
    assert_true(barrier_is_sealed(w->b));
}

/* Every record, with every bit flipped, cut at every length. */
static void a_damaged_record_does_not_unseal(void **state)
{
    struct world *w = *state;
    struct buf *bufs[] = {&w->created.seal, &w->created.keyring, &w->created.local_keyring,
                          &w->created.salt};
    barrier_seal(w->b);
    for (size_t r = 0; r < ARRAY_LEN(bufs); r++) {
        struct buf *record = bufs[r];
        for (size_t bit = 0; bit < record->len * 8; bit++) {
            record->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
            struct barrier_records records = records_of(&w->created);
            enum status st = barrier_unseal(w->b, &w->seal, &records, NULL);
            assert_true(st == ST_CORRUPT || (r == 0 && st == ST_INVALID));
            record->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        size_t len = record->len;
        for (record->len = 1; record->len < len; record->len++) {
            struct barrier_records records = records_of(&w->created);
            assert_status(barrier_unseal(w->b, &w->seal, &records, NULL), ST_CORRUPT);
        }
        record->len = len;
    }
    assert_true(barrier_is_sealed(w->b));
    struct barrier_records records = records_of(&w->created);
    assert_status(barrier_unseal(w->b, &w->seal, &records, NULL), ST_OK);
}

static void rings_cannot_take_each_others_place(void **state)
{
    struct world *w = *state;
    struct barrier_records records = records_of(&w->created);
    struct bytes keyring = records.keyring;
    barrier_seal(w->b);
    records.keyring = records.local_keyring;
    records.local_keyring = keyring;
    assert_status(barrier_unseal(w->b, &w->seal, &records, NULL), ST_CORRUPT);
}

static struct barrier_ring_info info_of(struct barrier *b, enum barrier_ring ring)
{
    struct barrier_ring_info info;
    assert_status(barrier_ring_info(b, ring, &info), ST_OK);
    return info;
}

/* What the state would do: store the record, follow. */
static void upkeep(struct world *w, enum barrier_ring ring, bool rotate)
{
    struct buf record = {0};
    struct buf *stored = ring == BARRIER_SHARED ? &w->created.keyring : &w->created.local_keyring;
    int64_t grant = rotate ? 0 : barrier_grant(w->b, ring);
    assert_status(barrier_upkeep(w->b, &w->env.env, ring, grant, 2000, &record), ST_OK);
    buf_clear(stored);
    buf_add(stored, buf_bytes(&record));
    buf_done(&record);
    struct barrier_records records = records_of(&w->created);
    assert_status(barrier_follow(w->b, &records), ST_OK);
    if (!rotate)
        barrier_upkeep_done(w->b, ring, grant);
}

static void a_new_term_encrypts_and_old_ones_still_decrypt(void **state)
{
    struct world *w = *state;
    uint8_t first[STORED_LEN], second[STORED_LEN], local[STORED_LEN];
    encrypt(w, KEY, first);
    encrypt(w, BYTES("l/x"), local);
    upkeep(w, BARRIER_SHARED, true);
    encrypt(w, KEY, second);
    assert_int_equal(le32_get(first + 1), 1);
    assert_int_equal(le32_get(second + 1), 2);
    assert_status(decrypt(w->cipher, KEY, bytes_of(first, STORED_LEN)), ST_OK);
    assert_status(decrypt(w->cipher, KEY, bytes_of(second, STORED_LEN)), ST_OK);
    assert_status(decrypt(w->cipher, BYTES("l/x"), bytes_of(local, STORED_LEN)), ST_OK);
    struct barrier_ring_info info = info_of(w->b, BARRIER_SHARED);
    assert_int_equal(info.term, 2);
    assert_int_equal(info.n_terms, 2);
    assert_int_equal(info.installed_ms, 2000);
    assert_int_equal(info_of(w->b, BARRIER_LOCAL).term, 1);
    le32_put(second + 1, 1); /* passing for a value of the other term */
    assert_status(decrypt(w->cipher, KEY, bytes_of(second, STORED_LEN)), ST_CORRUPT);
}

static void more_terms_than_kept_contexts_all_decrypt(void **state)
{
    struct world *w = *state;
    uint8_t stored[12][STORED_LEN];
    for (int i = 0; i < 12; i++) {
        encrypt(w, KEY, stored[i]);
        upkeep(w, BARRIER_SHARED, true);
    }
    for (int again = 0; again < 2; again++)
        for (int i = 0; i < 12; i++)
            assert_status(decrypt(w->cipher, KEY, bytes_of(stored[i], STORED_LEN)), ST_OK);
}

static void a_node_that_lags_learns_the_term_by_following(void **state)
{
    struct world *w = *state;
    uint8_t stored[STORED_LEN];
    struct barrier *other = NULL;
    struct barrier_cipher *cipher = NULL;
    struct barrier_records records = records_of(&w->created);
    assert_status(barrier_new(&other), ST_OK);
    assert_status(barrier_cipher_new(other, &w->env.env, &cipher), ST_OK);
    assert_status(barrier_unseal(other, &w->seal, &records, NULL), ST_OK);
    upkeep(w, BARRIER_SHARED, true);
    encrypt(w, KEY, stored);
    assert_status(decrypt(cipher, KEY, bytes_of(stored, STORED_LEN)), ST_NOT_FOUND);
    records = records_of(&w->created);
    assert_status(barrier_follow(other, &records), ST_OK);
    assert_status(decrypt(cipher, KEY, bytes_of(stored, STORED_LEN)), ST_OK);
    barrier_cipher_free(cipher);
    barrier_free(other);
}

static void a_ring_that_lost_a_key_is_not_followed(void **state)
{
    struct world *w = *state;
    struct barrier_records old = records_of(&w->created);
    struct buf first = {0};
    buf_add(&first, old.keyring);
    upkeep(w, BARRIER_SHARED, true);
    struct barrier_records records = records_of(&w->created);
    records.keyring = buf_bytes(&first);
    assert_status(barrier_follow(w->b, &records), ST_CORRUPT);
    records.keyring = BYTES("");
    assert_status(barrier_follow(w->b, &records), ST_CORRUPT);
    records = records_of(&w->created);
    assert_status(barrier_follow(w->b, &records), ST_OK);
    assert_int_equal(info_of(w->b, BARRIER_SHARED).term, 2);
    buf_done(&first);
}

/* The same cluster's state of before: under its root key, without the terms made since. */
static void a_restored_state_may_know_fewer_terms(void **state)
{
    struct world *w = *state;
    uint8_t before[STORED_LEN], later[STORED_LEN];
    struct barrier_ring_info info;
    struct buf old = {0};
    buf_add(&old, buf_bytes(&w->created.keyring));
    encrypt(w, KEY, before);
    upkeep(w, BARRIER_SHARED, true);
    encrypt(w, KEY, later);
    struct barrier_records records = records_of(&w->created), now = records;
    records.keyring = buf_bytes(&old);
    assert_status(barrier_follow(w->b, &records), ST_CORRUPT);
    records.restored = 9;
    assert_status(barrier_follow(w->b, &records), ST_OK);
    assert_int_equal(barrier_restored(w->b), 9);
    assert_status(barrier_ring_info(w->b, BARRIER_SHARED, &info), ST_OK);
    assert_int_equal(info.n_terms, 1);
    assert_status(decrypt(w->cipher, KEY, bytes_of(before, sizeof before)), ST_OK);
    assert_status(decrypt(w->cipher, KEY, bytes_of(later, sizeof later)), ST_NOT_FOUND);
    /* Somebody who still looks at the state that has gone does not bring its keys back. */
    assert_status(barrier_follow(w->b, &now), ST_OK);
    assert_status(decrypt(w->cipher, KEY, bytes_of(later, sizeof later)), ST_NOT_FOUND);
    buf_done(&old);
}

static void another_clusters_state_is_not_followed(void **state)
{
    struct world *w = *state;
    struct barrier_created other = {0};
    struct reason why = {{0}};
    uint8_t stored[STORED_LEN];
    encrypt(w, KEY, stored);
    assert_status(barrier_create(&w->env.env, &w->seal, 5, &other), ST_OK);
    struct barrier_records records = records_of(&other), mine = records_of(&w->created);
    records.restored = 9;
    assert_status(barrier_follow(w->b, &records), ST_CORRUPT);
    assert_int_equal(barrier_restored(w->b), 0);
    assert_status(decrypt(w->cipher, KEY, bytes_of(stored, sizeof stored)), ST_OK);
    assert_status(barrier_check(w->b, &records, &why), ST_INVALID);
    assert_true(why.text[0] != '\0');
    assert_status(barrier_check(w->b, &mine, NULL), ST_OK);
    barrier_created_done(&other);
}

static void a_local_ring_moves_to_another_root_key(void **state)
{
    struct world *w = *state;
    struct barrier_created other = {0};
    struct buf record = {0};
    uint8_t stored[STORED_LEN];
    struct bytes key = BYTES("l/some/key");
    encrypt(w, key, stored);
    assert_status(barrier_create(&w->env.env, &w->seal, 5, &other), ST_OK);
    assert_status(barrier_rewrap(w->b, other.barrier, &w->env.env, &record), ST_OK);
    struct barrier_records records = records_of(&other);
    records.local_keyring = buf_bytes(&record);
    barrier_seal(w->b);
    assert_status(barrier_rewrap(w->b, other.barrier, &w->env.env, &record), ST_SEALED);
    assert_status(barrier_unseal(w->b, &w->seal, &records, NULL), ST_OK);
    assert_status(decrypt(w->cipher, key, bytes_of(stored, sizeof stored)), ST_OK);
    buf_done(&record);
    barrier_created_done(&other);
}

static void without_a_local_ring_upkeep_makes_one(void **state)
{
    struct world *w = *state;
    struct barrier_records records = records_of(&w->created);
    struct barrier_ring_info info;
    struct buf record = {0};
    uint8_t stored[STORED_LEN];
    struct bytes key = BYTES("l/some/key");
    barrier_seal(w->b);
    records.local_keyring = (struct bytes){0};
    assert_status(barrier_unseal(w->b, &w->seal, &records, NULL), ST_OK);
    assert_status(barrier_encrypt(w->cipher, key, PLAIN, stored), ST_BUSY);
    assert_status(barrier_ring_info(w->b, BARRIER_LOCAL, &info), ST_SEALED);
    encrypt(w, KEY, stored);
    assert_true(barrier_upkeep_due(w->b, BARRIER_LOCAL));
    assert_status(barrier_upkeep(w->b, &w->env.env, BARRIER_LOCAL, BARRIER_USES_FIRST, 7, &record),
                  ST_OK);
    records.local_keyring = buf_bytes(&record);
    assert_status(barrier_follow(w->b, &records), ST_OK);
    barrier_upkeep_done(w->b, BARRIER_LOCAL, BARRIER_USES_FIRST);
    encrypt(w, key, stored);
    assert_status(decrypt(w->cipher, key, bytes_of(stored, sizeof stored)), ST_OK);
    buf_done(&record);
}

static void only_the_root_key_proves(void **state)
{
    struct world *w = *state;
    struct barrier_created other = {0};
    uint8_t one[BARRIER_MAC_BYTES], two[BARRIER_MAC_BYTES];
    assert_status(barrier_prove(w->b, BYTES("sums"), one), ST_OK);
    upkeep(w, BARRIER_SHARED, true); /* other rings, the same root key */
    assert_status(barrier_prove(w->b, BYTES("sums"), two), ST_OK);
    assert_memory_equal(one, two, sizeof one);
    assert_status(barrier_prove(w->b, BYTES("sumt"), two), ST_OK);
    assert_memory_not_equal(one, two, sizeof one);
    assert_status(barrier_create(&w->env.env, &w->seal, 5, &other), ST_OK);
    assert_status(barrier_prove(other.barrier, BYTES("sums"), two), ST_OK);
    assert_memory_not_equal(one, two, sizeof one);
    /* Whoever opens the stored seal can, and nobody else. */
    struct bytes stored = buf_bytes(&other.seal);
    struct reason why = {{0}};
    assert_status(barrier_prove_by(&w->seal, stored, BYTES("sums"), one, &why), ST_OK);
    assert_memory_equal(one, two, sizeof one);
    struct seal wrong = w->seal;
    assert_status(secret_new(SEAL_KEY_BYTES, &wrong.key), ST_OK);
    assert_status(barrier_prove_by(&wrong, stored, BYTES("sums"), one, &why), ST_INVALID);
    assert_true(why.text[0] != '\0');
    secret_done(&wrong.key);
    stored.len--;
    assert_status(barrier_prove_by(&w->seal, stored, BYTES("sums"), one, &why), ST_CORRUPT);
    barrier_created_done(&other);
    barrier_seal(w->b);
    assert_status(barrier_prove(w->b, BYTES("sums"), two), ST_SEALED);
}

static void uses_are_granted_ahead_and_written_to_the_ring(void **state)
{
    struct world *w = *state;
    uint8_t stored[STORED_LEN];
    assert_false(barrier_upkeep_due(w->b, BARRIER_SHARED)); /* nothing was encrypted yet */
    encrypt(w, KEY, stored);
    assert_true(barrier_upkeep_due(w->b, BARRIER_SHARED)); /* a process starts with none */
    upkeep(w, BARRIER_SHARED, false);
    assert_false(barrier_upkeep_due(w->b, BARRIER_SHARED));
    assert_false(barrier_upkeep_due(w->b, BARRIER_LOCAL));
    assert_int_equal(info_of(w->b, BARRIER_SHARED).uses, BARRIER_USES_FIRST);
    assert_int_equal(info_of(w->b, BARRIER_SHARED).unused, BARRIER_USES_FIRST - 1);
    assert_int_equal(info_of(w->b, BARRIER_SHARED).term, 1);
    int64_t used = 1;
    for (; !barrier_upkeep_due(w->b, BARRIER_SHARED); used++)
        encrypt(w, KEY, stored);
    assert_int_equal(info_of(w->b, BARRIER_SHARED).unused, BARRIER_USES_FIRST - used);
    assert_int_equal(used, BARRIER_USES_FIRST / 2 + 1); /* while half of them are left */
    upkeep(w, BARRIER_SHARED, false);
    assert_false(barrier_upkeep_due(w->b, BARRIER_SHARED));
    upkeep(w, BARRIER_SHARED, false); /* who uses much is granted much */
    assert_int_equal(info_of(w->b, BARRIER_SHARED).uses, 4 * BARRIER_USES_FIRST);
    assert_int_equal(info_of(w->b, BARRIER_SHARED).unused, 4 * BARRIER_USES_FIRST - used);
    upkeep(w, BARRIER_SHARED, true); /* of a new term nothing was used */
    assert_int_equal(info_of(w->b, BARRIER_SHARED).uses, 0);
    assert_int_equal(info_of(w->b, BARRIER_SHARED).unused, 0);
}

static void uses_that_nobody_wrote_down_are_bounded(void **state)
{
    struct world *w = *state;
    uint8_t stored[STORED_LEN];
    atomic_store(&w->b->prepaid[BARRIER_SHARED], 1 - BARRIER_USES_GRANT);
    encrypt(w, KEY, stored);
    for (int i = 0; i < 3; i++)
        assert_status(barrier_encrypt(w->cipher, KEY, PLAIN, stored), ST_BUSY);
    assert_int_equal(info_of(w->b, BARRIER_SHARED).unused, -BARRIER_USES_GRANT);
    encrypt(w, BYTES("l/x"), stored); /* each ring has its own */
    upkeep(w, BARRIER_SHARED, false);
    encrypt(w, KEY, stored);
}

static void a_term_whose_uses_are_spent_gives_way_to_the_next(void **state)
{
    struct world *w = *state;
    unsigned n = 0;
    while (info_of(w->b, BARRIER_SHARED).term == 1) {
        assert_true(info_of(w->b, BARRIER_SHARED).uses <= BARRIER_USES_MAX);
        upkeep(w, BARRIER_SHARED, false);
        n++;
    }
    assert_in_range(n, BARRIER_USES_MAX / BARRIER_USES_GRANT + 1,
                    BARRIER_USES_MAX / BARRIER_USES_GRANT + 20); /* the first are small */
    assert_int_equal(info_of(w->b, BARRIER_SHARED).uses, BARRIER_USES_GRANT);
}

static void a_ring_is_bounded(void **state)
{
    struct world *w = *state;
    struct buf record = {0};
    for (int i = 1; i < BARRIER_TERMS_MAX; i++)
        upkeep(w, BARRIER_LOCAL, true);
    assert_status(barrier_upkeep(w->b, &w->env.env, BARRIER_LOCAL, 0, 1, &record), ST_NO_SPACE);
    assert_int_equal(record.len, 0);
    assert_int_equal(info_of(w->b, BARRIER_LOCAL).n_terms, BARRIER_TERMS_MAX);
}

static void a_token_is_stored_under_a_name_that_needs_the_salt(void **state)
{
    struct world *w = *state;
    char token[TOKEN_SERVICE_LEN + 1], other[TOKEN_SERVICE_LEN + 1], name[65], again[65];
    struct barrier_records records = records_of(&w->created);
    token_make(&w->env.env, token);
    token_make(&w->env.env, other);
    assert_string_not_equal(token, other);
    assert_int_equal(strlen(token), 28);
    assert_int_equal(strncmp(token, "hvs.", 4), 0);
    assert_int_equal(strspn(token + 4, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                       "abcdefghijklmnopqrstuvwxyz"),
                     24);
    assert_status(token_name(w->cipher, bytes_str(token), name), ST_OK);
    assert_int_equal(strlen(name), 64);
    barrier_seal(w->b);
    assert_status(token_name(w->cipher, bytes_str(token), again), ST_SEALED);
    assert_status(barrier_unseal(w->b, &w->seal, &records, NULL), ST_OK);
    assert_status(token_name(w->cipher, bytes_str(token), again), ST_OK);
    assert_string_equal(name, again);
    assert_status(token_name(w->cipher, bytes_str(other), again), ST_OK);
    assert_string_not_equal(name, again);
}

/* Others take the places of those kept, and asked for again each has its own. */
static void a_kept_mac_is_that_of_its_message(void **state)
{
    struct world *w = *state;
    enum { MESSAGES = 3 * HMAC_MEMO_SLOTS };
    for (uint32_t i = 0; i < 2 * MESSAGES; i++) {
        struct hmac *plain;
        uint8_t message[4], first[BARRIER_MAC_BYTES], second[BARRIER_MAC_BYTES];
        uint8_t want[BARRIER_MAC_BYTES];
        le32_put(message, i % MESSAGES);
        assert_status(barrier_mac(w->cipher, bytes_of(message, 4), first), ST_OK);
        assert_status(barrier_mac(w->cipher, bytes_of(message, 4), second), ST_OK);
        assert_status(hmac_new(secret_bytes(&w->b->keys.salt), &plain), ST_OK);
        assert_status(hmac_run(plain, bytes_of(message, 4), want), ST_OK);
        hmac_free(plain);
        assert_memory_equal(first, want, sizeof want);
        assert_memory_equal(second, want, sizeof want);
    }
}

static void a_kept_mac_is_not_that_of_another_salt(void **state)
{
    struct world *w = *state;
    struct barrier_created other = {0};
    uint8_t before[BARRIER_MAC_BYTES], after[BARRIER_MAC_BYTES];
    assert_status(barrier_mac(w->cipher, PLAIN, before), ST_OK);
    assert_status(barrier_create(&w->env.env, &w->seal, 1000, &other), ST_OK);
    struct barrier_records records = records_of(&other);
    barrier_seal(w->b);
    assert_null(w->cipher->mac);
    assert_status(barrier_unseal(w->b, &w->seal, &records, NULL), ST_OK);
    assert_status(barrier_mac(w->cipher, PLAIN, after), ST_OK);
    assert_memory_not_equal(before, after, sizeof before);
    barrier_created_done(&other);
}

static void every_token_character_is_as_likely(void **state)
{
    struct world *w = *state;
    unsigned n[128] = {0};
    for (int i = 0; i < 2000; i++) {
        char token[TOKEN_SERVICE_LEN + 1];
        token_make(&w->env.env, token);
        for (int j = 4; j < TOKEN_SERVICE_LEN; j++)
            n[(unsigned char)token[j]]++;
    }
    for (const char *c = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
         *c != '\0'; c++) /* 774 expected, deviation 28 */
        assert_in_range(n[(unsigned char)*c], 634, 914);
}

static void running_out_of_memory_is_told_and_harmless(void **state)
{
    struct world *w = *state;
    struct barrier_records records = records_of(&w->created);
    bool failed = true;
    for (uint64_t n = 1; failed; n++) {
        struct barrier_created made = {0};
        struct barrier_cipher *cipher = NULL;
        struct buf record = {0};
        uint8_t stored[STORED_LEN], mac[32];
        barrier_seal(w->b);
        (void)mem_fail_nth(n); /* arms it */
        enum status st = barrier_unseal(w->b, &w->seal, &records, NULL);
        if (st == ST_OK)
            st = barrier_cipher_new(w->b, &w->env.env, &cipher);
        if (st == ST_OK)
            st = barrier_encrypt(cipher, KEY, PLAIN, stored);
        if (st == ST_OK)
            st = barrier_mac(cipher, KEY, mac);
        if (st == ST_OK)
            st = barrier_upkeep(w->b, &w->env.env, BARRIER_SHARED, 0, 5, &record);
        if (st == ST_OK)
            st = barrier_create(&w->env.env, &w->seal, 1, &made);
        failed = mem_fail_nth(0);
        assert_status(st, failed ? ST_NOMEM : ST_OK);
        barrier_created_done(&made);
        barrier_cipher_free(cipher);
        buf_done(&record);
        assert_true(n < 100);
    }
    barrier_seal(w->b);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_value_comes_back_at_its_key_alone),
        T(what_is_stored_shows_nothing_of_the_text),
        T(any_flipped_bit_or_cut_is_noticed),
        T(the_empty_value_is_a_value),
        T(a_sealed_barrier_does_nothing),
        T(values_outlive_sealing_and_other_processes),
        T(the_creator_can_encrypt_before_anything_is_stored),
        T(a_shamir_seal_tells_its_counts_and_opens_with_its_key_alone),
        T(counts_of_shares_that_make_no_sense_are_damage),
        T(another_seal_key_is_named_as_the_reason),
        T(a_damaged_record_does_not_unseal),
        T(rings_cannot_take_each_others_place),
        T(a_new_term_encrypts_and_old_ones_still_decrypt),
        T(more_terms_than_kept_contexts_all_decrypt),
        T(a_node_that_lags_learns_the_term_by_following),
        T(a_ring_that_lost_a_key_is_not_followed),
        T(a_restored_state_may_know_fewer_terms),
        T(another_clusters_state_is_not_followed),
        T(a_local_ring_moves_to_another_root_key),
        T(without_a_local_ring_upkeep_makes_one),
        T(only_the_root_key_proves),
        T(uses_are_granted_ahead_and_written_to_the_ring),
        T(uses_that_nobody_wrote_down_are_bounded),
        T(a_term_whose_uses_are_spent_gives_way_to_the_next),
        T(a_ring_is_bounded),
        T(a_token_is_stored_under_a_name_that_needs_the_salt),
        T(a_kept_mac_is_that_of_its_message),
        T(a_kept_mac_is_not_that_of_another_salt),
        T(every_token_character_is_as_likely),
        T(running_out_of_memory_is_told_and_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
