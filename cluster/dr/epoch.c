#include "cluster/dr/epoch.h"
#include "cluster/dr/former.h"
#include "cluster/dr/site.h"

#include "base/trace.h"

#include <inttypes.h>

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

static void lock(struct dr *d)
{
    int failed = pthread_mutex_lock(&d->lock);
    ASSERT(failed == 0);
}

static void unlock(struct dr *d)
{
    int failed = pthread_mutex_unlock(&d->lock);
    ASSERT(failed == 0);
}

static bool same_set(const struct dr_heard *a, const struct dr_heard *b)
{
    return memcmp(a->set, b->set, sizeof a->set) == 0;
}

void dr_epoch_note(struct dr *d, const struct dr_heard *heard)
{
    ASSERT(heard->epoch != 0 && heard->epoch <= DR_EPOCH_MAX);
    lock(d);
    bool newer = !same_set(heard, &d->heard) || heard->epoch > d->heard.epoch;
    if (newer)
        d->heard = *heard;
    unlock(d);
    if (newer)
        trace(TRACE_WARN, "dr",
              "the cluster with the certificate of secondary %s has epoch %" PRIu64, heard->id,
              heard->epoch);
}

void dr_epoch_noted(struct dr *d, struct dr_heard *ret_heard)
{
    lock(d);
    *ret_heard = d->heard;
    unlock(d);
}

void dr_epoch_forget(struct dr *d, const struct dr_heard *heard)
{
    lock(d);
    if (same_set(heard, &d->heard) && heard->epoch == d->heard.epoch)
        d->heard = (struct dr_heard){0};
    unlock(d);
}

uint64_t dr_epoch_known(struct dr *d, const struct dr_role *role)
{
    struct dr_heard heard;
    dr_epoch_noted(d, &heard);
    bool ours = memcmp(heard.set, role->set, sizeof heard.set) == 0;
    return ours ? MAX(role->epoch, heard.epoch) : role->epoch;
}
