/* The move of the cluster to another seal.
 *
 *   sealed ─shares, with migrate─▶ unsealed, keeps the key ─active: one transaction─▶ moved
 *
 * Sealed to unsealed: unseal_share. To moved: the duty unseal_migrate.
 *
 * 1. A node migrates if its configuration names another seal than the stored one. The shares of the
 *    stored seal authorise the migration. Until then the node is sealed.
 * 2. The node that is active does the migration, so at least that node has the new configuration.
 *    The others may restart before or after, in any order.
 * 3. One transaction (state_migrate) wraps the root key by the new seal and moves the shares. A
 *    crash before its commit leaves the old seal, a crash after it the new one.
 * 4. The root key stays the same, so unsealed nodes go on with any configuration.
 * 5. The node forgets the key when the stored seal has changed, and when it is sealed. */
#include "node/unseal_internal.h"

#include "base/trace.h"
#include "state/state_core.h"

static const struct seal *target_of(const struct unseal *u)
{
    return u->options.type == SEAL_STATIC ? u->options.seal : NULL;
}

enum unseal_way unseal_way_of(const struct unseal *u, const struct seal_info *info)
{
    const struct unseal_options *o = &u->options;
    ASSERT(info->type == SEAL_STATIC || info->type == SEAL_SHAMIR);
    ASSERT(o->type == SEAL_STATIC || o->seal == NULL);
    ASSERT(o->former == NULL || o->has_former);
    if (info->type == o->type) {
        if (o->type == SEAL_SHAMIR)
            return UNSEAL_SHARES;
        if (seal_named(o->seal, info->id) != NULL)
            return UNSEAL_ITSELF;
    }
    if (o->type == SEAL_STATIC && o->seal == NULL)
        return UNSEAL_NO_WAY; /* the key of the seal to move to is missing */
    if (info->type == SEAL_SHAMIR)
        return UNSEAL_MIGRATION;
    return o->former != NULL && strcmp(o->former->id, info->id) == 0 ? UNSEAL_MIGRATION
                                                                     : UNSEAL_NO_WAY;
}

static void explain_migration(const struct unseal *u, const struct seal_info *info,
                              struct reason *ret_why)
{
    const struct seal *to = target_of(u);
    ASSERT(info->threshold <= info->shares);
    ASSERT(to != NULL || info->type == SEAL_STATIC);
    if (info->type == SEAL_SHAMIR)
        reason_set(ret_why,
                   "the cluster is sealed by key shares, and this node is configured for the seal "
                   "key '%s'; to move the cluster to it, %u of %u key shares have to be given with "
                   "migrate",
                   to->id, info->threshold, info->shares);
    else
        reason_set(
            ret_why,
            "to move the cluster from the seal key '%s' to %s%s%s, give %u of %u shares of the "
            "recovery key with migrate",
            info->id, to != NULL ? "the seal key '" : "key shares", to != NULL ? to->id : "",
            to != NULL ? "'" : "", info->threshold, info->shares);
}

static void explain_no_way(const struct unseal *u, const struct seal_info *info,
                           struct reason *ret_why)
{
    const struct unseal_options *o = &u->options;
    ASSERT(o->seal == NULL || info->type == SEAL_STATIC);
    ASSERT(seal_named(o->seal, info->id) == NULL);
    if (o->type == SEAL_STATIC && o->seal == NULL)
        reason_set(ret_why, "there is no seal key: the configured one is missing");
    else if (o->type == SEAL_STATIC)
        reason_set(
            ret_why,
            "the root key is wrapped by the seal key '%s', this node is configured for '%s'; "
            "start it with that key, or add previous_key_file",
            info->id, o->seal->id);
    else
        reason_set(ret_why,
                   "the root key is wrapped by the seal key '%s', this node is configured for key "
                   "shares; start it with that key",
                   info->id);
}

void unseal_explain(const struct unseal *u, const struct seal_info *info, struct reason *ret_why)
{
    enum unseal_way way = unseal_way_of(u, info);
    ASSERT(way != UNSEAL_ITSELF);
    switch (way) {
    case UNSEAL_SHARES:
        reason_set(ret_why, "%u of %u key shares have to be given", info->threshold, info->shares);
        break;
    case UNSEAL_MIGRATION: explain_migration(u, info, ret_why); break;
    case UNSEAL_NO_WAY: explain_no_way(u, info, ret_why); break;
    case UNSEAL_ITSELF: break;
    }
}

void unseal_stay(struct unseal *u)
{
    ASSERT(u->locked);
    secret_done(&u->moving);
    u->moving_from = 0;
}

/* Forget the migration of a seal that is no longer the stored one. The lock is held. */
static void end_move(struct unseal *u, const struct seal_info *info)
{
    ASSERT(u->locked && u->moving.len != 0 && info->stamp != u->moving_from);
    enum unseal_way way = unseal_way_of(u, info);
    unseal_stay(u);
    ASSERT(u->moving.len == 0);
    if (way == UNSEAL_ITSELF || way == UNSEAL_SHARES)
        trace(TRACE_INFO, "node", "seal migration complete: the cluster is sealed by %s%s",
              info->type == SEAL_STATIC ? "the key " : "key shares",
              info->type == SEAL_STATIC ? info->id : "");
    else
        trace(TRACE_WARN, "node",
              "the seal was changed meanwhile: this node no longer migrates it; seal this node or "
              "start it again, and give the shares again");
}

void unseal_look_at_move(struct unseal *u)
{
    struct seal_info info;
    ASSERT(part_on_thread(u->host));
    unseal_lock(u);
    if (u->moving.len != 0 && state_seal_info(rlog_store(u->host->rlog), &info) == ST_OK &&
        info.stamp != u->moving_from)
        end_move(u, &info);
    unseal_unlock(u);
}

/* The lock is held. */
static enum status stage_move(struct unseal *u, struct state_txn *txn)
{
    struct seal_info info;
    ASSERT(u->locked && u->moving.len == SEAL_KEY_BYTES);
    TRY(state_seal_read(txn, &info));
    if (info.stamp != u->moving_from)
        return ST_OK; /* unseal_look_at_move forgets the migration */
    enum status st = state_migrate(txn, target_of(u), secret_bytes(&u->moving));
    if (st != ST_DENIED && st != ST_NOT_FOUND && st != ST_CORRUPT)
        return st;
    unseal_stay(u);
    trace(TRACE_ERROR, "node", "the seal stays: the given shares do not fit the stored state");
    return st;
}

enum status unseal_migrate(const void *self, struct state_txn *txn, int64_t now_ms, unsigned steps)
{
    struct unseal *u = *(struct unseal *const *)self;
    enum status st = ST_OK;
    (void)now_ms, (void)steps;
    unseal_lock(u);
    if (u->moving.len != 0)
        st = stage_move(u, txn);
    unseal_unlock(u);
    return st;
}
