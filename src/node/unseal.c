/* Sealing and unsealing of this node.
 *
 * With a static seal it unseals by itself as soon as the state says how; with key shares somebody
 * has to give enough of them. A node that was sealed on request stays so until it is started again
 * or shares are given: of the key, or with a static seal of the recovery key. One whose root key is
 * not the cluster's any more, because the state was replaced, seals itself and unseals as after a
 * start: by the configured seal, or by shares of the key that now counts.
 *
 * Shares come in on workers' threads, so the attempt has a lock of its own. It is taken before the
 * node's and the barrier's. */
#include "node/unseal.h"

#include "barrier/shamir.h"
#include "base/mem.h"
#include "base/trace.h"
#include "node/mark.h"
#include "state/state_core.h"

#include <stdatomic.h>

static void lock_take(struct unseal *u)
{
    int failed = pthread_mutex_lock(&u->lock);
    ASSERT(failed == 0);
}

static void lock_drop(struct unseal *u)
{
    int failed = pthread_mutex_unlock(&u->lock);
    ASSERT(failed == 0);
}

/* The lock is held. */
static void forget_shares(struct unseal *u)
{
    for (unsigned i = 0; i < u->n_given; i++)
        secret_done(&u->given[i]);
    u->n_given = 0;
    u->attempt[0] = '\0';
}

/* Shares of a key that was replaced count for nothing. The lock is held. */
static void forget_superseded(struct unseal *u, const struct seal_info *info)
{
    if (u->n_given != 0 && u->given_for != info->stamp)
        forget_shares(u);
}

void unseal_done(struct unseal *u)
{
    if (u->given == NULL)
        return;
    forget_shares(u);
    buf_done(&u->awaited);
    seal_done(&u->opener);
    mem_free(u->given);
    u->given = NULL;
    (void)pthread_mutex_destroy(&u->lock); /* no thread holds it */
}

static void say_once(struct unseal *u, const struct reason *reason)
{
    if (strcmp(reason->text, u->said.text) == 0)
        return;
    u->said = *reason;
    trace(TRACE_WARN, "node", "stays sealed: %s", reason->text);
}

/* Show the seal in this node's own status; the next tick tells the rest of the node. */
static void publish_sealed(struct unseal *u, bool sealed)
{
    struct node_status *s = board_begin(u->board);
    s->sealed = sealed;
    if (sealed && s->active) /* a sealed node serves nothing, also if it leads the log */
        s->leader_address[0] = s->leader_cluster[0] = '\0';
    if (sealed) {
        s->active = false;
        s->perf_standby = false;
    }
    board_end(u->board);
}

/* The lock is held. */
static enum status unseal_with(struct unseal *u, const struct seal *seal, struct reason *reason)
{
    enum status st = state_unseal(rlog_store(u->host->rlog), u->host->barrier, seal, reason);
    if (st != ST_OK)
        return st;
    u->held = false;
    trace(TRACE_INFO, "node", "unsealed");
    return ST_OK;
}

/* By shares that were given before this node was a member. False: there are none. */
static bool look_with_opener(struct unseal *u)
{
    struct reason reason = {{0}};
    enum status st = ST_OK;
    lock_take(u);
    bool has = u->opener.type != 0;
    if (has)
        st = unseal_with(u, &u->opener, &reason);
    if (st != ST_BUSY && st != ST_NOT_FOUND)
        seal_done(&u->opener);
    lock_drop(u);
    if (st != ST_OK && reason.text[0] != '\0')
        say_once(u, &reason);
    return has;
}

static void unseal_look(struct unseal *u)
{
    struct reason reason = {{0}};
    struct seal_info info;
    if (look_with_opener(u))
        return;
    if (u->configured == NULL) {
        if (state_seal_info(rlog_store(u->host->rlog), &info) == ST_OK && info.type == SEAL_SHAMIR)
            reason_set(&reason, "%u of %u key shares have to be given", info.threshold,
                       info.shares);
        else
            reason_set(&reason, "there is no seal key");
        say_once(u, &reason);
        return;
    }
    lock_take(u);
    enum status st = u->held ? ST_EXISTS : unseal_with(u, u->configured, &reason);
    lock_drop(u);
    if (st != ST_OK && st != ST_EXISTS && st != ST_BUSY) {
        if (reason.text[0] == '\0')
            reason_set(&reason, "%s", status_text(st));
        say_once(u, &reason);
    }
}

/* `held`: until shares are given or the node is started again. */
static void seal_node(struct unseal *u, bool held)
{
    lock_take(u);
    u->held = held;
    forget_shares(u);
    seal_done(&u->opener);
    barrier_seal(u->host->barrier);
    publish_sealed(u, true);
    lock_drop(u);
    trace(TRACE_INFO, "node", "sealed");
}

void unseal_follow(struct unseal *u)
{
    enum status st = state_follow(rlog_store(u->host->rlog), u->host->barrier);
    if (st == ST_OK || st == ST_SEALED)
        return;
    if (st != ST_CORRUPT) {
        trace(TRACE_ERROR, "node", "the key ring cannot be followed: %s", status_text(st));
        return;
    }
    trace(TRACE_WARN, "node",
          "the cluster has another root key now, as after a restore: unsealing again");
    seal_node(u, false);
    unseal_look(u);
}

/* Of the cluster, or of the one to join. The lock is held. */
static enum status info_of(struct unseal *u, struct seal_info *ret_info)
{
    if (u->host->running)
        return state_seal_info(rlog_store(u->host->rlog), ret_info);
    return u->awaited.len != 0 ? seal_info_read(buf_bytes(&u->awaited), ret_info) : ST_NOT_FOUND;
}

void unseal_status(struct unseal *u, struct node_seal_status *ret_status)
{
    struct node_seal_status status = {.type = u->type};
    struct seal_info info;
    lock_take(u);
    if (info_of(u, &info) == ST_OK) {
        status.type = info.type;
        status.shares = info.shares;
        status.threshold = info.threshold;
        forget_superseded(u, &info);
    }
    status.progress = u->n_given;
    memcpy(status.nonce, u->attempt, sizeof status.nonce);
    lock_drop(u);
    *ret_status = status;
}

static enum status check_may_take(struct unseal *u, const struct seal_info *info,
                                  struct reason *reason)
{
    if (info->type == SEAL_SHAMIR)
        return ST_OK;
    if (u->configured == NULL)
        reason_set(reason,
                   "the cluster is sealed by the key '%s', which this node was started "
                   "without",
                   info->id);
    else if (info->shares == 0)
        reason_set(reason, "there is no recovery key: start this node again to unseal it");
    else
        return ST_OK;
    return ST_INVALID;
}

/* Put the shares together: `key` has SEAL_KEY_BYTES. The lock is held. */
static enum status combine(struct unseal *u, uint8_t key[SEAL_KEY_BYTES])
{
    enum { SHARE_BYTES = SEAL_KEY_BYTES + 1 };
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

/* Keep the key that opens the seal of the cluster to join, if this is it. */
static enum status open_awaited(struct unseal *u, struct seal *seal, struct reason *reason)
{
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

    if (info->type == SEAL_STATIC) {
        TRY(state_check_recovery(rlog_store(u->host->rlog), env, u->configured, key, reason));
        return unseal_with(u, u->configured, reason);
    }
    TRY(seal_shamir(key, info->shares, info->threshold, &seal));
    enum status st =
        u->host->running ? unseal_with(u, &seal, reason) : open_awaited(u, &seal, reason);
    seal_done(&seal);
    return st;
}

/* Enough shares were given. The lock is held. */
static enum status try_shares(struct unseal *u, struct env *env, const struct seal_info *info,
                              struct reason *reason)
{
    uint8_t key[SEAL_KEY_BYTES];
    struct reason why = {{0}};
    enum status st = combine(u, key);
    if (st == ST_OK)
        st = unseal_by_key(u, env, info, bytes_of(key, sizeof key), &why);
    mem_wipe(key, sizeof key);
    if (st == ST_BUSY || st == ST_NOMEM)
        secret_done(&u->given[--u->n_given]); /* the last one may be given again */
    else
        forget_shares(u);
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

/* The lock is held. */
static enum status take_share(struct unseal *u, struct env *env, struct bytes share,
                              struct reason *reason)
{
    struct seal_info info;

    if (u->opener.type != 0)
        return ST_OK; /* enough were given */
    TRY(info_of(u, &info));
    TRY(check_may_take(u, &info, reason));
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

enum status unseal_share(struct unseal *u, struct env *env, struct bytes share,
                         struct reason *reason)
{
    enum status st = ST_OK;
    if (board_brief(u->board).removed) {
        reason_set(reason, "this node was removed from the cluster");
        return ST_INVALID;
    }
    lock_take(u);
    if (barrier_is_sealed(u->host->barrier))
        st = take_share(u, env, share, reason);
    if (!barrier_is_sealed(u->host->barrier))
        publish_sealed(u, false);
    lock_drop(u);
    return st;
}

enum status unseal_reset(struct unseal *u, struct reason *reason)
{
    bool sealed = barrier_is_sealed(u->host->barrier);
    if (!sealed) {
        reason_set(reason, "reset: the node is unsealed");
        return ST_INVALID;
    }
    lock_take(u);
    forget_shares(u);
    lock_drop(u);
    return ST_OK;
}

void unseal_seal(struct unseal *u)
{
    seal_node(u, true);
}

enum status unseal_await(struct unseal *u, struct bytes seal_record)
{
    lock_take(u);
    buf_clear(&u->awaited);
    buf_add(&u->awaited, seal_record);
    enum status st = buf_status(&u->awaited);
    lock_drop(u);
    return st;
}

void unseal_drop(struct unseal *u)
{
    lock_take(u);
    forget_shares(u);
    buf_done(&u->awaited);
    seal_done(&u->opener);
    lock_drop(u);
}

bool unseal_has_opener(struct unseal *u)
{
    lock_take(u);
    bool has = u->opener.type != 0;
    lock_drop(u);
    return has;
}

enum status unseal_prove(struct unseal *u, struct bytes seal_record, struct bytes message,
                         uint8_t ret_mac[BARRIER_MAC_BYTES], struct reason *reason)
{
    lock_take(u);
    const struct seal *seal = u->opener.type != 0 ? &u->opener : u->configured;
    enum status st =
        seal != NULL ? barrier_prove_by(seal, seal_record, message, ret_mac, reason) : ST_NOT_FOUND;
    lock_drop(u);
    return st;
}

static void unseal_changed(void *self, const struct rlog_status *raft)
{
    struct unseal *u = self;
    (void)raft;
    if (!barrier_is_sealed(u->host->barrier) ||
        state_is_initialized(rlog_store(u->host->rlog)) != ST_OK)
        return;
    mark_write(u->host);
    unseal_look(u);
}

static enum status unseal_start(void *self, struct part_host *host)
{
    struct unseal *u = self;
    ASSERT(u->host == NULL && u->given == NULL);
    struct secret *given = mem_zalloc(SHAMIR_SHARES_MAX * sizeof *given);
    if (given == NULL)
        return ST_NOMEM;
    if (pthread_mutex_init(&u->lock, NULL) != 0) {
        mem_free(given);
        return ST_NOMEM;
    }
    u->given = given;
    u->host = host;
    return ST_OK;
}

const struct part unseal_part = {
    .name = "unseal", .start = unseal_start, .changed = unseal_changed};
