#include "cluster/dr/epoch.h"
#include "cluster/dr/former.h"

#include "base/trace.h"

#include <inttypes.h>

enum { CLAIM_MS = 5000, ANNOUNCED_MS = 60000 };

static enum status refuse(struct reason *reason, const char *text)
{
    reason_set(reason, "%s", text);
    return ST_INVALID;
}

/* Whether the certificate of the claim still counts; the record becomes a precondition. */
static enum status is_believed(struct state_txn *txn, const struct dr_heard *heard)
{
    struct dr_secondary secondary;
    enum status st =
        dr_name_id_valid(heard->id) ? dr_secondary_get(txn, heard->id, &secondary) : ST_NOT_FOUND;
    if (st == ST_OK && dr_secondary_has_key(&secondary, heard->key_sha256))
        return ST_OK;
    if (st != ST_OK && st != ST_NOT_FOUND)
        return st;
    return dr_former_get(txn, heard->key_sha256);
}

enum status dr_epoch_hear(struct state_txn *txn, const struct dr_heard *heard,
                          struct reason *reason)
{
    struct dr_role role;
    TRY(dr_role_read(txn, &role));
    if (role.mode == DR_MODE_DISABLED || memcmp(role.set, heard->set, sizeof role.set) != 0)
        return refuse(reason, "the epoch is one of another replication set");
    enum status st = is_believed(txn, heard);
    if (st == ST_NOT_FOUND)
        return refuse(reason, "the secondary that told the epoch was revoked");
    TRY(st);
    return dr_role_hear(txn, heard->epoch, reason);
}

enum status dr_epoch_learn(struct state_txn *txn, const uint8_t set[DR_SET_BYTES], uint64_t epoch,
                           struct reason *reason)
{
    struct dr_role role;
    TRY(dr_role_read(txn, &role));
    if (role.mode != DR_MODE_SECONDARY || memcmp(role.set, set, sizeof role.set) != 0)
        return refuse(reason, "the epoch is one of another replication set");
    return dr_role_learn(txn, epoch, reason);
}

enum status dr_epochs_init(struct dr_epochs *e)
{
    e->open = pthread_mutex_init(&e->lock, NULL) == 0;
    return e->open ? ST_OK : ST_NOMEM;
}

void dr_epochs_done(struct dr_epochs *e)
{
    if (e->open)
        (void)pthread_mutex_destroy(&e->lock); /* no thread holds the lock */
    e->open = false;
}

static void epochs_lock(struct dr_epochs *e)
{
    int failed = pthread_mutex_lock(&e->lock);
    ASSERT(failed == 0);
}

static void epochs_unlock(struct dr_epochs *e)
{
    int failed = pthread_mutex_unlock(&e->lock);
    ASSERT(failed == 0);
}

static bool same_set(const struct dr_heard *a, const struct dr_heard *b)
{
    return memcmp(a->set, b->set, sizeof a->set) == 0;
}

void dr_epoch_note(struct dr_epochs *e, const struct dr_heard *heard, uint64_t now_ms)
{
    ASSERT(heard->epoch != 0 && heard->epoch <= DR_EPOCH_MAX);
    epochs_lock(e);
    bool newer = !same_set(heard, &e->heard) || heard->epoch > e->heard.epoch;
    if (newer)
        e->heard = *heard;
    if (newer || heard->epoch == e->heard.epoch)
        e->heard_ms = now_ms;
    epochs_unlock(e);
    if (newer)
        trace(TRACE_WARN, "dr",
              "the cluster with the certificate of secondary %s has epoch %" PRIu64, heard->id,
              heard->epoch);
}

bool dr_epoch_announced(struct dr_epochs *e, const struct dr_heard *heard, uint64_t now_ms)
{
    epochs_lock(e);
    const struct dr_heard *last = &e->announced;
    bool two = same_set(heard, last) && heard->epoch == last->epoch &&
               memcmp(heard->key_sha256, last->key_sha256, sizeof last->key_sha256) != 0 &&
               now_ms < e->announced_ms + ANNOUNCED_MS;
    /* a late announcement of a lower epoch hides nothing */
    if (!same_set(heard, last) || heard->epoch >= last->epoch) {
        e->announced = *heard;
        e->announced_ms = now_ms;
    }
    epochs_unlock(e);
    return two;
}

void dr_epoch_noted(struct dr_epochs *e, struct dr_heard *ret_heard)
{
    epochs_lock(e);
    *ret_heard = e->heard;
    epochs_unlock(e);
}

void dr_epoch_forget(struct dr_epochs *e, const struct dr_heard *heard)
{
    epochs_lock(e);
    if (same_set(heard, &e->heard) && heard->epoch == e->heard.epoch)
        e->heard = (struct dr_heard){0};
    epochs_unlock(e);
}

uint64_t dr_epoch_known(struct dr_epochs *e, const struct dr_role *role, uint64_t now_ms)
{
    epochs_lock(e);
    bool counts =
        memcmp(e->heard.set, role->set, sizeof role->set) == 0 && now_ms < e->heard_ms + CLAIM_MS;
    uint64_t heard = counts ? e->heard.epoch : 0;
    epochs_unlock(e);
    return MAX(role->epoch, heard);
}
