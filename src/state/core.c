#include "state/following.h"
#include "state/state_core.h"
#include "state/superseded.h"

#include "base/mem.h"
#include "text/value.h"

#include <assert.h>

enum { PIN_DEADLINE_MS = 10 * 1000 };

static struct bytes value_at(const struct store_pin *pin, const char *key)
{
    struct store_item item;
    return store_get(pin, bytes_str(key), &item) == ST_OK ? item.value : (struct bytes){0};
}

uint64_t core_modified(const struct store_pin *pin, struct bytes key)
{
    struct store_item item;
    return store_get(pin, key, &item) == ST_OK ? item.modified : 0;
}

struct state_replaced core_replaced(const struct store_pin *pin)
{
    struct store_item item;
    int64_t synced = 0; /* absent: no primary's state replaced this cluster's */
    struct state_replaced found = {.restored = core_modified(pin, BYTES(STATE_RESTORED))};
    if (store_get(pin, BYTES(STATE_SYNCED), &item) == ST_OK) {
        found.synced = item.modified;
        if (text_int_parse(item.value, &synced) != ST_OK || synced < 0)
            synced = 0;
    }
    found.version = MAX(found.restored, (uint64_t)synced);
    return found;
}

uint64_t core_restored(const struct store_pin *pin)
{
    return core_replaced(pin).version;
}

/* The stored seal that the nodes of this cluster open. */
static struct bytes seal_at(const struct store_pin *pin)
{
    struct bytes own = value_at(pin, STATE_DR_SEAL);
    return own.len != 0 ? own : value_at(pin, BARRIER_SEAL);
}

void core_read(const struct store_pin *pin, struct core_records *ret)
{
    ret->records = (struct barrier_records){
        .seal = seal_at(pin),
        .keyring = value_at(pin, BARRIER_KEYRING),
        .local_keyring = value_at(pin, BARRIER_LOCAL_KEYRING),
        .salt = value_at(pin, BARRIER_SALT),
        .restored = core_restored(pin),
    };
    superseded_collect(pin, &ret->records, &ret->names);
}

enum status core_follow(const struct store_pin *pin, struct barrier *barrier)
{
    struct core_records core;
    core_read(pin, &core);
    return barrier_follow(barrier, &core.records);
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
    struct core_records core;
    TRY(store_pin(store, "unseal", PIN_DEADLINE_MS, &pin));
    core_read(&pin, &core);
    enum status st = barrier_unseal(barrier, seal, &core.records, reason);
    store_unpin(&pin);
    return st;
}

enum status state_unseal_root(struct store *store, struct barrier *barrier,
                              const struct secret *root, struct reason *reason)
{
    struct store_pin pin;
    struct core_records core;
    TRY(store_pin(store, "unseal", PIN_DEADLINE_MS, &pin));
    core_read(&pin, &core);
    enum status st = barrier_unseal_root(barrier, root, &core.records, reason);
    store_unpin(&pin);
    return st;
}

enum status state_unseal_apart(const struct store_pin *pin, const struct seal *seal,
                               struct barrier *other, struct barrier *apart, struct reason *reason)
{
    struct core_records core;
    ASSERT(barrier_is_sealed(apart));
    core_read(pin, &core);
    return seal != NULL ? barrier_unseal(apart, seal, &core.records, reason)
                        : barrier_unseal_as(apart, other, &core.records, reason);
}

enum status state_seal_info(struct store *store, struct seal_info *ret_info)
{
    struct store_pin pin;
    TRY(store_pin(store, "seal", PIN_DEADLINE_MS, &pin));
    struct bytes record = seal_at(&pin);
    enum status st = record.len == 0 ? ST_NOT_FOUND : seal_info_read(record, ret_info);
    store_unpin(&pin);
    return st;
}

/* Whether the key that the shares combine to opens a seal of key shares. ST_DENIED: it does not. */
static enum status check_shares(struct bytes record, struct bytes key)
{
    struct seal_info info;
    struct seal seal = {0};
    ASSERT(key.len == SEAL_KEY_BYTES);
    TRY(seal_info_read(record, &info));
    TRY(seal_shamir(key, info.shares, info.threshold, &seal));
    enum status st = seal_check(&seal, record, NULL);
    seal_done(&seal);
    return st == ST_INVALID ? ST_DENIED : st;
}

/* Compare `key` with a recovery record, in either form. */
static enum status check_recovery(struct bytes recovery, struct bytes key)
{
    if (recovery.len != STATE_RECOVERY_BYTES)
        return check_shares(recovery, key);
    return bytes_eq_secret(recovery, key) ? ST_OK : ST_DENIED;
}

/* Compare `key` with the key that authorises: the shared seal's or, with a static seal, the
 * recovery key. `cipher` belongs to a barrier of its own, so the node's barrier is not touched. */
static enum status compare_key(const struct store_pin *pin, struct barrier_cipher *cipher,
                               struct bytes key)
{
    uint8_t plain[STATE_RECOVERY_MAX + BARRIER_OVERHEAD];
    struct bytes seal = value_at(pin, BARRIER_SEAL), stored = value_at(pin, STATE_RECOVERY_KEY);
    struct seal_info info;
    size_t n = 0;
    TRY(seal_info_read(seal, &info));
    if (info.type == SEAL_SHAMIR)
        return check_shares(seal, key);
    if (stored.len == 0)
        return ST_NOT_FOUND;
    if (stored.len > sizeof plain)
        return ST_CORRUPT;
    enum status st = barrier_decrypt(cipher, BYTES(STATE_RECOVERY_KEY), stored, plain, &n);
    if (st == ST_OK)
        st = check_recovery(bytes_of(plain, n), key);
    mem_wipe(plain, sizeof plain);
    return st == ST_NOT_FOUND ? ST_CORRUPT : st; /* not: there is no recovery key */
}

enum status state_check_recovery(struct store *store, struct env *env, const struct seal *seal,
                                 struct bytes key, struct reason *reason)
{
    struct barrier *apart = NULL;
    struct barrier_cipher *cipher = NULL;
    struct core_records core;
    struct store_pin pin;

    TRY(store_pin(store, "recovery", PIN_DEADLINE_MS, &pin));
    core_read(&pin, &core);
    enum status st = barrier_new(&apart);
    if (st == ST_OK)
        st = barrier_unseal(apart, seal, &core.records, reason);
    if (st == ST_OK)
        st = barrier_cipher_new(apart, env, &cipher);
    if (st == ST_OK)
        st = compare_key(&pin, cipher, key);
    barrier_cipher_free(cipher);
    barrier_free(apart);
    store_unpin(&pin);
    return st;
}

enum status state_is_initialized(struct store *store)
{
    struct store_pin pin;
    TRY(store_pin(store, "initialised", PIN_DEADLINE_MS, &pin));
    enum status st = seal_at(&pin).len != 0 ? ST_OK : ST_NOT_FOUND;
    store_unpin(&pin);
    return st;
}

enum status state_seal_record(struct state_txn *txn, struct bytes *ret_record)
{
    struct state_value stored;
    enum status st = state_get_raw(txn, BYTES(STATE_DR_SEAL), &stored);
    if (st == ST_NOT_FOUND)
        st = state_get_raw(txn, BYTES(BARRIER_SEAL), &stored);
    TRY(st);
    *ret_record = stored.value;
    return ST_OK;
}

enum status state_seal_read(struct state_txn *txn, struct seal_info *ret_info)
{
    struct bytes record;
    TRY(state_seal_record(txn, &record));
    return seal_info_read(record, ret_info);
}

enum status state_check_key(struct state_txn *txn, struct bytes key)
{
    struct seal_info info;
    struct state_value stored;

    TRY(state_get_raw(txn, BYTES(BARRIER_SEAL), &stored));
    TRY(seal_info_read(stored.value, &info));
    if (info.type == SEAL_SHAMIR)
        return check_shares(stored.value, key);
    TRY(state_get(txn, BYTES(STATE_RECOVERY_KEY), &stored));
    return check_recovery(stored.value, key);
}

enum status state_learn_key(struct state_txn *txn, struct bytes key)
{
    struct state_value stored;
    bool following = false;

    ASSERT(key.len == STATE_RECOVERY_BYTES);
    TRY(state_is_following(txn, &following));
    if (following)
        return ST_OK; /* the primary's record */
    enum status st = state_get(txn, BYTES(STATE_RECOVERY_KEY), &stored);
    if (st == ST_NOT_FOUND)
        return ST_OK; /* a seal of key shares has none */
    TRY(st);
    return stored.value.len == key.len ? ST_OK : state_put(txn, BYTES(STATE_RECOVERY_KEY), key);
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
