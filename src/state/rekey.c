/* A new root key, or the same one wrapped anew, also by another seal. */
#include "base/plant.h"
#include "state/state_core.h"
#include "state/state_internal.h"

enum { SUPERSEDED_MS = 60 * 60 * 1000 };

/* Each read here becomes a precondition: no other change of the keys comes between. */
static enum status records_read(struct state_txn *txn)
{
    static const char *const keys[] = {BARRIER_SEAL, BARRIER_KEYRING, BARRIER_LOCAL_KEYRING};
    struct state_value stored;
    for (size_t i = 0; i < ARRAY_LEN(keys) && !planted(PLANT_REKEY_BLIND); i++) {
        enum status st = state_get_raw(txn, bytes_str(keys[i]), &stored);
        TRY(st == ST_NOT_FOUND ? ST_BUSY : st);
    }
    enum status st = core_follow(&txn->pin, txn->state->barrier);
    return st == ST_CORRUPT ? ST_CONFLICT : st; /* the barrier is further than this state */
}

static enum status stage(struct state_txn *txn, const struct barrier_rekeyed *rekeyed)
{
    TRY(state_put_raw(txn, BYTES(BARRIER_SEAL), buf_bytes(&rekeyed->seal)));
    TRY(state_put_raw(txn, BYTES(BARRIER_KEYRING), buf_bytes(&rekeyed->keyring)));
    TRY(state_put_raw(txn, BYTES(BARRIER_LOCAL_KEYRING), buf_bytes(&rekeyed->local_keyring)));
    return state_put_raw(txn, BYTES(BARRIER_SUPERSEDED), buf_bytes(&rekeyed->superseded));
}

enum status state_rekey(struct state_txn *txn, const struct seal *seal, int64_t time_ms)
{
    CLEANUP(barrier_rekeyed_done) struct barrier_rekeyed rekeyed = {0};
    TRY(records_read(txn));
    enum status st =
        barrier_rekey(txn->state->barrier, txn->state->env, seal, MAX(time_ms, 0), &rekeyed);
    TRY(st == ST_NOT_FOUND ? ST_BUSY : st);
    return stage(txn, &rekeyed);
}

enum status state_reseal(struct state_txn *txn, const struct seal *seal)
{
    CLEANUP(buf_done) struct buf record = {0};
    TRY(records_read(txn));
    TRY(barrier_reseal(txn->state->barrier, txn->state->env, seal, &record));
    return state_put_raw(txn, BYTES(BARRIER_SEAL), buf_bytes(&record));
}

/* The recovery key exists exactly while the seal is static. */
static enum status recovery_stage(struct state_txn *txn, enum seal_type type, struct bytes key)
{
    if (planted(PLANT_MIGRATE_HALF))
        return ST_OK;
    if (type == SEAL_STATIC)
        return state_put(txn, BYTES(STATE_RECOVERY_KEY), key);
    return state_delete(txn, BYTES(STATE_RECOVERY_KEY));
}

enum status state_migrate(struct state_txn *txn, const struct seal *target, struct bytes key)
{
    struct seal_info info;
    struct seal seal = {0};

    ASSERT(key.len == SEAL_KEY_BYTES);
    ASSERT(target == NULL || target->type == SEAL_STATIC);
    TRY(state_seal_read(txn, &info));
    if (info.shares == 0)
        return ST_NOT_FOUND;
    TRY(state_check_key(txn, key));
    TRY(recovery_stage(txn, target != NULL ? SEAL_STATIC : SEAL_SHAMIR, key));
    if (target == NULL) {
        TRY(seal_shamir(key, info.shares, info.threshold, &seal));
        enum status st = state_reseal(txn, &seal);
        seal_done(&seal);
        return st;
    }
    seal = *target; /* the caller keeps the key */
    seal.shares = (uint8_t)info.shares;
    seal.threshold = (uint8_t)info.threshold;
    return state_reseal(txn, &seal);
}

enum status state_superseded_upkeep(struct state_txn *txn, int64_t now_ms)
{
    struct state_value stored;
    int64_t made_ms = 0;
    enum status st = state_get_raw(txn, BYTES(BARRIER_SUPERSEDED), &stored);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    if (barrier_superseded_time(stored.value, &made_ms) == ST_OK &&
        now_ms - made_ms < SUPERSEDED_MS)
        return ST_OK;
    return state_delete(txn, BYTES(BARRIER_SUPERSEDED));
}
