/* A new root key, or the same one wrapped anew, also by another seal. */
#include "base/plant.h"
#include "state/feature.h"
#include "state/following.h"
#include "state/state_core.h"
#include "state/superseded.h"

enum status rekey_read(struct state_txn *txn)
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

/* The place of the link to the new root key. Builds below RLOG_FEATURE_DR know the former place
 * alone. */
static enum status link_name(struct state_txn *txn, char room[SUPERSEDED_NAME_MAX],
                             struct bytes *ret_name)
{
    bool raised = false;
    TRY(state_has_feature(txn, RLOG_FEATURE_DR, &raised));
    if (raised && state_count(txn, BYTES(BARRIER_LINKS)) >= SUPERSEDED_MAX)
        return ST_NO_SPACE;
    *ret_name =
        raised ? superseded_name(&txn->pin, BYTES(BARRIER_LINKS), room) : BYTES(BARRIER_SUPERSEDED);
    return ST_OK;
}

/* A seal that stands for the recovery key wraps the present root key. */
static enum status check_recovery_known(struct state_txn *txn)
{
    struct state_value stored;
    enum status st = state_get(txn, BYTES(STATE_RECOVERY_KEY), &stored);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    return stored.value.len == STATE_RECOVERY_BYTES ? ST_OK : ST_DENIED;
}

static enum status stage(struct state_txn *txn, const struct barrier_rekeyed *rekeyed,
                         struct bytes link)
{
    TRY(state_put_raw(txn, BYTES(BARRIER_SEAL), buf_bytes(&rekeyed->seal)));
    TRY(state_put_raw(txn, BYTES(BARRIER_KEYRING), buf_bytes(&rekeyed->keyring)));
    TRY(state_put_raw(txn, BYTES(BARRIER_LOCAL_KEYRING), buf_bytes(&rekeyed->local_keyring)));
    return state_put_raw(txn, link, buf_bytes(&rekeyed->link));
}

enum status state_rekey(struct state_txn *txn, const struct seal *seal, int64_t time_ms)
{
    CLEANUP(barrier_rekeyed_done) struct barrier_rekeyed rekeyed = {0};
    char room[SUPERSEDED_NAME_MAX];
    struct barrier_link_head head = {.time_ms = MAX(time_ms, 0)};
    TRY(rekey_read(txn));
    TRY(check_recovery_known(txn));
    TRY(link_name(txn, room, &head.name));
    enum status st = barrier_rekey(txn->state->barrier, txn->state->env, seal, &head, &rekeyed);
    TRY(st == ST_NOT_FOUND ? ST_BUSY : st);
    return stage(txn, &rekeyed, head.name);
}

enum status state_reseal(struct state_txn *txn, const struct seal *seal)
{
    CLEANUP(buf_done) struct buf record = {0};
    TRY(rekey_read(txn));
    TRY(barrier_reseal(txn->state->barrier, txn->state->env, seal, &record));
    return state_put_raw(txn, BYTES(BARRIER_SEAL), buf_bytes(&record));
}

enum status state_rewrap(struct state_txn *txn, const struct seal *key)
{
    struct seal_info info;
    struct seal seal = *key; /* the caller keeps the key */

    ASSERT(key->type == SEAL_STATIC);
    TRY(state_seal_read(txn, &info));
    ASSERT(info.type == SEAL_STATIC);
    enum status own = dr_has_own_seal(txn);
    if (own != ST_NOT_FOUND)
        return own == ST_OK ? dr_rewrap(txn, key) : own;
    seal.shares = (uint8_t)info.shares;
    seal.threshold = (uint8_t)info.threshold;
    return state_reseal(txn, &seal);
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
    enum status own = dr_has_own_seal(txn);
    if (own != ST_NOT_FOUND)
        return own == ST_OK ? dr_migrate(txn, target, key) : own;
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
