/* Key shares: of this cluster's seal, or of the seal of the cluster to join. */
#include "node/unseal_internal.h"

#include "barrier/shamir.h"
#include "base/mem.h"
#include "base/trace.h"
#include "state/state_core.h"

#include <stdatomic.h>

void unseal_forget(struct unseal *u)
{
    ASSERT(u->locked && u->n_given <= SHAMIR_SHARES_MAX);
    for (unsigned i = 0; i < u->n_given; i++)
        secret_done(&u->given[i]);
    u->n_given = 0;
    u->attempt[0] = '\0';
}

/* Drop the shares of a key that was replaced. The caller holds the lock. */
static void forget_superseded(struct unseal *u, const struct seal_info *info)
{
    ASSERT(u->locked);
    if (u->n_given != 0 && u->given_for != info->stamp)
        unseal_forget(u);
}

/* The seal of this cluster, or of the cluster to join. The lock is held. */
static enum status info_of(struct unseal *u, struct seal_info *ret_info)
{
    ASSERT(u->locked);
    if (u->host->running)
        return state_seal_info(rlog_store(u->host->rlog), ret_info);
    return u->awaited.len != 0 ? seal_info_read(buf_bytes(&u->awaited), ret_info) : ST_NOT_FOUND;
}

/* Tell what is special about unsealing this node. The lock is held. */
static void describe_way(struct unseal *u, const struct seal_info *info,
                         struct node_seal_status *status)
{
    if (!u->host->running)
        return;
    enum unseal_way way = unseal_way_of(u, info);
    status->migration = way == UNSEAL_MIGRATION;
    if ((way == UNSEAL_MIGRATION || way == UNSEAL_NO_WAY) && barrier_is_sealed(u->host->barrier))
        unseal_explain(u, info, &status->why);
}

void unseal_status(struct unseal *u, struct node_seal_status *ret_status)
{
    ASSERT(u->host != NULL);
    struct node_seal_status status = {.type = u->options.type};
    struct seal_info info;
    unseal_lock(u);
    ASSERT(u->n_given <= SHAMIR_SHARES_MAX);
    if (info_of(u, &info) == ST_OK) {
        status.known = true;
        status.type = info.type;
        status.shares = info.shares;
        status.threshold = info.threshold;
        forget_superseded(u, &info);
        describe_way(u, &info, &status);
    }
    status.progress = u->n_given;
    memcpy(status.nonce, u->attempt, sizeof status.nonce);
    unseal_unlock(u);
    *ret_status = status;
}

/* Whether this node may migrate, or may unseal without. The texts are upstream's. */
static enum status check_migrate(const struct unseal *u, enum unseal_way way, bool migrate,
                                 struct reason *reason)
{
    if (migrate && way != UNSEAL_MIGRATION && !u->options.has_former)
        reason_set(reason, "can't perform a seal migration, no migration seal found");
    else if (!migrate && way == UNSEAL_MIGRATION)
        reason_set(reason, "migrate option not provided and seal migration is pending");
    else
        return ST_OK;
    return ST_INVALID;
}

static enum status check_may_take(struct unseal *u, const struct seal_info *info, bool migrate,
                                  struct reason *reason)
{
    ASSERT(u->locked);
    if (!u->host->running) {
        ASSERT(info->type == SEAL_SHAMIR); /* else nothing is awaited */
        if (!migrate)
            return ST_OK;
        reason_set(reason, "can't perform a seal migration while joining a raft cluster");
        return ST_INVALID;
    }
    enum unseal_way way = unseal_way_of(u, info);
    TRY(check_migrate(u, way, migrate, reason));
    if (way == UNSEAL_NO_WAY)
        unseal_explain(u, info, reason);
    else if (info->shares != 0)
        return ST_OK;
    else if (way == UNSEAL_MIGRATION)
        reason_set(reason, "there is no recovery key: its shares would authorise the migration; "
                           "another key of a static seal needs previous_key_file instead");
    else
        reason_set(reason, "there is no recovery key: start this node again to unseal it");
    return ST_INVALID;
}

/* Combine the shares into `key`. The caller holds the lock. */
static enum status combine_shares(struct unseal *u, uint8_t key[SEAL_KEY_BYTES])
{
    ASSERT(u->locked);
    enum { SHARE_BYTES = SEAL_KEY_BYTES + 1 };
    ASSERT(u->n_given > 0 && u->n_given <= SHAMIR_SHARES_MAX);
    if (u->given[0].len == SEAL_KEY_BYTES) {
        memcpy(key, u->given[0].data, SEAL_KEY_BYTES);
        return ST_OK;
    }
    size_t room = (size_t)u->n_given * SHARE_BYTES;
    uint8_t *shares = mem_alloc(room);
    if (shares == NULL)
        return ST_NOMEM;
    for (unsigned i = 0; i < u->n_given; i++)
        memcpy(shares + (size_t)i * SHARE_BYTES, u->given[i].data, SHARE_BYTES);
    enum status st = shamir_combine(shares, u->n_given, SHARE_BYTES, key);
    mem_wipe(shares, room);
    mem_free(shares);
    return st;
}

static void on_opened(struct env_task *task)
{
    struct unseal *u = CONTAINER_OF(task, struct unseal, opened_task);
    u->opened_posted = false;
    u->opened(u->opened_ctx);
}

/* Keep `seal` if it opens the seal of the cluster to join. The lock is held. */
static enum status open_awaited(struct unseal *u, struct seal *seal, struct reason *reason)
{
    ASSERT(u->locked);
    uint8_t mac[BARRIER_MAC_BYTES];
    TRY(barrier_prove_by(seal, buf_bytes(&u->awaited), BYTES("holdfast: try"), mac, reason));
    mem_wipe(mac, sizeof mac);
    u->opener = *seal;
    *seal = (struct seal){0};
    if (!atomic_exchange(&u->opened_posted, true)) {
        u->opened_task = (struct env_task){.run = on_opened};
        env_post(u->host->env, &u->opened_task);
    }
    return ST_OK;
}

static enum status unseal_by_key(struct unseal *u, struct env *env, const struct seal_info *info,
                                 struct bytes key, struct reason *reason)
{
    struct seal seal = {0};
    ASSERT(u->locked);
    ASSERT(key.len == SEAL_KEY_BYTES);

    if (info->type == SEAL_STATIC) {
        bool moves = unseal_way_of(u, info) == UNSEAL_MIGRATION;
        const struct seal *opens = moves ? u->options.former : u->options.seal;
        TRY(state_check_recovery(rlog_store(u->host->rlog), env, opens, key, reason));
        return unseal_with(u, opens, reason);
    }
    TRY(seal_shamir(key, info->shares, info->threshold, &seal));
    enum status st =
        u->host->running ? unseal_with(u, &seal, reason) : open_awaited(u, &seal, reason);
    seal_done(&seal);
    return st;
}

/* Unseal by the key; if the node is configured to migrate, keep the key for that. */
static enum status key_given(struct unseal *u, struct env *env, const struct seal_info *info,
                             struct bytes key, struct reason *reason)
{
    struct secret kept = {0};
    ASSERT(u->locked && u->moving.len == 0);
    bool moves = u->host->running && unseal_way_of(u, info) == UNSEAL_MIGRATION;
    if (moves)
        TRY(secret_dup(key, &kept));
    enum status st = unseal_by_key(u, env, info, key, reason);
    if (st != ST_OK || !moves) {
        secret_done(&kept);
        return st;
    }
    ASSERT(kept.len == SEAL_KEY_BYTES);
    u->moving = kept;
    u->moving_from = info->stamp;
    trace(TRACE_INFO, "node", "moves the cluster to the configured seal once this node is active");
    return ST_OK;
}

/* Unseal with the shares, which are enough. The caller holds the lock. */
static enum status try_shares(struct unseal *u, struct env *env, const struct seal_info *info,
                              struct reason *reason)
{
    ASSERT(u->locked);
    uint8_t key[SEAL_KEY_BYTES];
    struct reason why = {{0}};
    enum status st = combine_shares(u, key);
    if (st == ST_OK)
        st = key_given(u, env, info, bytes_of(key, sizeof key), &why);
    mem_wipe(key, sizeof key);
    if (st == ST_BUSY || st == ST_NOMEM)
        /* forget the last share: a client may give it again */
        secret_done(&u->given[--u->n_given]);
    else
        unseal_forget(u);
    if (st == ST_EXISTS)
        return ST_OK;
    if (st == ST_INVALID || st == ST_DENIED) {
        reason_set(reason, "unsealing failed: these shares do not make the key; the attempt "
                           "begins anew");
        return ST_INVALID;
    }
    if (st != ST_OK && why.text[0] != '\0')
        *reason = why;
    return st;
}

static bool was_given(const struct unseal *u, struct bytes share)
{
    bool found = false;
    for (unsigned i = 0; i < u->n_given; i++)
        found |= bytes_eq_secret(secret_bytes(&u->given[i]), share);
    return found;
}

/* Take one share. The caller holds the lock. */
static enum status take_share(struct unseal *u, struct env *env, struct bytes share, bool migrate,
                              struct reason *reason)
{
    ASSERT(u->locked);
    struct seal_info info;

    if (u->opener.type != 0)
        return ST_OK; /* the attempt has enough shares */
    TRY(info_of(u, &info));
    TRY(check_may_take(u, &info, migrate, reason));
    size_t wanted = info.shares > 1 ? SEAL_KEY_BYTES + 1 : SEAL_KEY_BYTES;
    if (share.len != wanted) {
        reason_set(reason, "key: a share of %zu bytes is expected, not one of %zu", wanted,
                   share.len);
        return ST_INVALID;
    }
    forget_superseded(u, &info);
    if (was_given(u, share))
        return ST_OK;
    ASSERT(u->n_given < SHAMIR_SHARES_MAX);
    u->given_for = info.stamp;
    TRY(secret_dup(share, &u->given[u->n_given]));
    if (u->n_given++ == 0)
        text_uuid(env, u->attempt);
    return u->n_given < info.threshold ? ST_OK : try_shares(u, env, &info, reason);
}

enum status unseal_share(struct unseal *u, struct env *env, struct bytes share, bool migrate,
                         struct reason *reason)
{
    enum status st = ST_OK;
    if (board_brief(u->board).removed) {
        reason_set(reason, "this node was removed from the cluster");
        return ST_INVALID;
    }
    unseal_lock(u);
    if (barrier_is_sealed(u->host->barrier))
        st = take_share(u, env, share, migrate, reason);
    if (!barrier_is_sealed(u->host->barrier))
        unseal_publish(u, false);
    unseal_unlock(u);
    return st;
}

enum status unseal_reset(struct unseal *u, struct reason *reason)
{
    bool sealed = barrier_is_sealed(u->host->barrier);
    if (!sealed) {
        reason_set(reason, "reset: the node is unsealed");
        return ST_INVALID;
    }
    unseal_lock(u);
    unseal_forget(u);
    unseal_unlock(u);
    return ST_OK;
}

enum status unseal_await(struct unseal *u, struct bytes seal_record)
{
    ASSERT(part_on_thread(u->host));
    unseal_lock(u);
    buf_clear(&u->awaited);
    buf_add(&u->awaited, seal_record);
    enum status st = buf_status(&u->awaited);
    unseal_unlock(u);
    return st;
}

void unseal_drop(struct unseal *u)
{
    ASSERT(part_on_thread(u->host));
    unseal_lock(u);
    unseal_forget(u);
    buf_done(&u->awaited);
    seal_done(&u->opener);
    unseal_unlock(u);
}

bool unseal_has_opener(struct unseal *u)
{
    unseal_lock(u);
    bool has = u->opener.type != 0;
    unseal_unlock(u);
    return has;
}

enum status unseal_prove(struct unseal *u, struct bytes seal_record, struct bytes message,
                         uint8_t ret_mac[BARRIER_MAC_BYTES], struct reason *reason)
{
    unseal_lock(u);
    const struct seal *seal = u->opener.type != 0 ? &u->opener : u->options.seal;
    enum status st =
        seal != NULL ? barrier_prove_by(seal, seal_record, message, ret_mac, reason) : ST_NOT_FOUND;
    unseal_unlock(u);
    return st;
}
