#include "state/state_core.h"
#include "state/state_internal.h"

#include "base/mem.h"

#include <assert.h>

enum { PIN_DEADLINE_MS = 10 * 1000 };

static struct bytes value_at(const struct store_pin *pin, const char *key)
{
    struct store_item item;
    return store_get(pin, bytes_str(key), &item) == ST_OK ? item.value : (struct bytes){0};
}

uint64_t core_restored(const struct store_pin *pin)
{
    struct store_item item;
    return store_get(pin, BYTES(STATE_RESTORED), &item) == ST_OK ? item.modified : 0;
}

static struct barrier_records records_at(const struct store_pin *pin)
{
    return (struct barrier_records){
        .seal = value_at(pin, BARRIER_SEAL),
        .keyring = value_at(pin, BARRIER_KEYRING),
        .local_keyring = value_at(pin, BARRIER_LOCAL_KEYRING),
        .salt = value_at(pin, BARRIER_SALT),
        .superseded = value_at(pin, BARRIER_SUPERSEDED),
        .restored = core_restored(pin),
    };
}

enum status core_follow(const struct store_pin *pin, struct barrier *barrier)
{
    struct barrier_records records = records_at(pin);
    return barrier_follow(barrier, &records);
}

enum status state_follow(struct store *store, struct barrier *barrier)
{
    struct store_pin pin;
    TRY(store_pin(store, "follow", PIN_DEADLINE_MS, &pin));
    enum status st = core_follow(&pin, barrier);
    store_unpin(&pin);
    return st;
}

enum status state_unseal(struct store *store, struct barrier *barrier, const struct seal *seal,
                         struct reason *reason)
{
    struct store_pin pin;
    TRY(store_pin(store, "unseal", PIN_DEADLINE_MS, &pin));
    struct barrier_records records = records_at(&pin);
    enum status st = barrier_unseal(barrier, seal, &records, reason);
    store_unpin(&pin);
    return st;
}

enum status state_unseal_root(struct store *store, struct barrier *barrier,
                              const struct secret *root, struct reason *reason)
{
    struct store_pin pin;
    TRY(store_pin(store, "unseal", PIN_DEADLINE_MS, &pin));
    struct barrier_records records = records_at(&pin);
    enum status st = barrier_unseal_root(barrier, root, &records, reason);
    store_unpin(&pin);
    return st;
}

enum status state_seal_info(struct store *store, struct seal_info *ret_info)
{
    struct store_pin pin;
    TRY(store_pin(store, "seal", PIN_DEADLINE_MS, &pin));
    struct bytes record = value_at(&pin, BARRIER_SEAL);
    enum status st = record.len == 0 ? ST_NOT_FOUND : seal_info_read(record, ret_info);
    store_unpin(&pin);
    return st;
}

/* Compare `key` with the stored recovery key. `cipher` belongs to a barrier of its own, so the
 * node's barrier is not touched. */
static enum status compare_recovery(const struct store_pin *pin, struct barrier_cipher *cipher,
                                    struct bytes key)
{
    uint8_t plain[STATE_RECOVERY_BYTES + BARRIER_OVERHEAD];
    size_t n = 0;
    struct bytes stored = value_at(pin, STATE_RECOVERY_KEY);
    if (stored.len == 0)
        return ST_NOT_FOUND;
    if (stored.len != sizeof plain)
        return ST_CORRUPT;
    enum status st = barrier_decrypt(cipher, BYTES(STATE_RECOVERY_KEY), stored, plain, &n);
    ASSERT(st != ST_OK || n == STATE_RECOVERY_BYTES);
    if (st == ST_OK && !bytes_eq_secret(bytes_of(plain, n), key))
        st = ST_DENIED;
    mem_wipe(plain, sizeof plain);
    return st;
}

enum status state_check_recovery(struct store *store, struct env *env, const struct seal *seal,
                                 struct bytes key, struct reason *reason)
{
    struct barrier *apart = NULL;
    struct barrier_cipher *cipher = NULL;
    struct store_pin pin;

    TRY(store_pin(store, "recovery", PIN_DEADLINE_MS, &pin));
    struct barrier_records records = records_at(&pin);
    enum status st = barrier_new(&apart);
    if (st == ST_OK)
        st = barrier_unseal(apart, seal, &records, reason);
    if (st == ST_OK)
        st = barrier_cipher_new(apart, env, &cipher);
    if (st == ST_OK)
        st = compare_recovery(&pin, cipher, key);
    barrier_cipher_free(cipher);
    barrier_free(apart);
    store_unpin(&pin);
    return st;
}

enum status state_is_initialized(struct store *store)
{
    struct store_pin pin;
    TRY(store_pin(store, "initialised", PIN_DEADLINE_MS, &pin));
    enum status st = value_at(&pin, BARRIER_SEAL).len != 0 ? ST_OK : ST_NOT_FOUND;
    store_unpin(&pin);
    return st;
}

static enum status read_seal(struct state_txn *txn, struct bytes *ret_record,
                             struct seal_info *ret_info)
{
    struct state_value stored;
    TRY(state_get_raw(txn, BYTES(BARRIER_SEAL), &stored));
    TRY(seal_info_read(stored.value, ret_info));
    *ret_record = stored.value;
    return ST_OK;
}

enum status state_seal_read(struct state_txn *txn, struct seal_info *ret_info)
{
    struct bytes record;
    return read_seal(txn, &record, ret_info);
}

enum status state_check_key(struct state_txn *txn, struct bytes key)
{
    struct seal_info info;
    struct bytes record;
    struct state_value stored;
    struct seal seal = {0};

    TRY(read_seal(txn, &record, &info));
    if (info.type == SEAL_STATIC) {
        TRY(state_get(txn, BYTES(STATE_RECOVERY_KEY), &stored));
        return bytes_eq_secret(stored.value, key) ? ST_OK : ST_DENIED;
    }
    TRY(seal_shamir(key, info.shares, info.threshold, &seal));
    enum status st = seal_check(&seal, record, NULL);
    seal_done(&seal);
    return st == ST_INVALID ? ST_DENIED : st;
}

static const char *const core_keys[] = {BARRIER_SEAL, BARRIER_KEYRING, BARRIER_LOCAL_KEYRING,
                                        BARRIER_SALT};

static enum status check_absent(struct state_txn *txn)
{
    for (size_t i = 0; i < ARRAY_LEN(core_keys); i++) {
        enum status st = state_exists(txn, bytes_str(core_keys[i]));
        if (st != ST_NOT_FOUND)
            return st == ST_OK ? ST_EXISTS : st;
    }
    return ST_OK;
}

static enum status stage_records(struct state_txn *txn, const struct barrier_created *created)
{
    const struct buf *records[] = {&created->seal, &created->keyring, &created->local_keyring,
                                   &created->salt};
    static_assert(ARRAY_LEN(records) == ARRAY_LEN(core_keys), "one a key");
    for (size_t i = 0; i < ARRAY_LEN(core_keys); i++) {
        ASSERT(records[i]->len > 0);
        TRY(state_put_raw(txn, bytes_str(core_keys[i]), buf_bytes(records[i])));
    }
    return ST_OK;
}

enum status state_init_begin(struct state_txn *txn, const struct seal *seal, int64_t time_ms,
                             struct state_init *ret_init)
{
    struct state_init init = {0};

    ASSERT(txn->open);
    TRY(check_absent(txn));
    TRY(barrier_create(txn->state->env, seal, time_ms, &init.created));
    struct state_mark mark = state_mark(txn);
    enum status st = barrier_cipher_new(init.created.barrier, txn->state->env, &init.cipher);
    if (st == ST_OK)
        st = stage_records(txn, &init.created);
    if (st != ST_OK) {
        if (state_rollback(txn, mark) != ST_OK)
            st = ST_NOMEM;
        state_init_done(&init);
        return st;
    }
    txn->cipher = init.cipher;
    *ret_init = init;
    return ST_OK;
}

void state_init_done(struct state_init *init)
{
    barrier_cipher_free(init->cipher);
    init->cipher = NULL;
    barrier_created_done(&init->created);
}
