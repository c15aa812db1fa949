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
#include "node/enroll.h"
#include "text/random.h"

#include "barrier/shamir.h"
#include "base/mem.h"
#include "base/trace.h"
#include "state/state_core.h"

#include <stdatomic.h>

static void lock_take(struct node *n)
{
    int failed = pthread_mutex_lock(&n->seal_lock);
    ASSERT(failed == 0);
}

static void lock_drop(struct node *n)
{
    int failed = pthread_mutex_unlock(&n->seal_lock);
    ASSERT(failed == 0);
}

enum status node_seal_init(struct node *n)
{
    struct secret *given = mem_zalloc(SHAMIR_SHARES_MAX * sizeof *given);
    if (given == NULL)
        return ST_NOMEM;
    if (pthread_mutex_init(&n->seal_lock, NULL) != 0) {
        mem_free(given);
        return ST_NOMEM;
    }
    n->given = given;
    return ST_OK;
}

/* The lock is held. */
static void forget(struct node *n)
{
    for (unsigned i = 0; i < n->n_given; i++)
        secret_done(&n->given[i]);
    n->n_given = 0;
    n->attempt[0] = '\0';
}

/* Shares of a key that was replaced count for nothing. The lock is held. */
static void forget_superseded(struct node *n, const struct seal_info *info)
{
    if (n->n_given != 0 && n->given_for != info->stamp)
        forget(n);
}

void node_seal_done(struct node *n)
{
    if (n->given == NULL)
        return;
    forget(n);
    buf_done(&n->awaited);
    seal_done(&n->opener);
    mem_free(n->given);
    n->given = NULL;
    (void)pthread_mutex_destroy(&n->seal_lock); /* no thread holds it */
}

static void say_once(struct node *n, const struct reason *reason)
{
    if (strcmp(reason->text, n->seal_reason.text) == 0)
        return;
    n->seal_reason = *reason;
    trace(TRACE_WARN, "node", "stays sealed: %s", reason->text);
}

/* Show the seal in this node's own status; the next tick tells the rest of the node. */
static void publish_sealed(struct node *n, bool sealed)
{
    pthread_mutex_lock(&n->lock);
    n->status.sealed = sealed;
    if (sealed && n->status.active) /* a sealed node serves nothing, also if it leads the log */
        n->status.leader_address[0] = n->status.leader_cluster[0] = '\0';
    if (sealed) {
        n->status.active = false;
        n->status.perf_standby = false;
    }
    node_brief_publish(n);
    pthread_mutex_unlock(&n->lock);
}

/* The lock is held. */
static enum status unseal(struct node *n, const struct seal *seal, struct reason *reason)
{
    enum status st = state_unseal(rlog_store(n->host.rlog), n->host.barrier, seal, reason);
    if (st != ST_OK)
        return st;
    n->held = false;
    trace(TRACE_INFO, "node", "unsealed");
    return ST_OK;
}

/* By shares that were given before this node was a member. False: there are none. */
static bool look_with_opener(struct node *n)
{
    struct reason reason = {{0}};
    enum status st = ST_OK;
    lock_take(n);
    bool has = n->opener.type != 0;
    if (has)
        st = unseal(n, &n->opener, &reason);
    if (st != ST_BUSY && st != ST_NOT_FOUND)
        seal_done(&n->opener);
    lock_drop(n);
    if (st != ST_OK && reason.text[0] != '\0')
        say_once(n, &reason);
    return has;
}

void node_seal_look(struct node *n)
{
    struct reason reason = {{0}};
    struct seal_info info;
    if (look_with_opener(n))
        return;
    if (n->options.seal == NULL) {
        if (state_seal_info(rlog_store(n->host.rlog), &info) == ST_OK && info.type == SEAL_SHAMIR)
            reason_set(&reason, "%u of %u key shares have to be given", info.threshold,
                       info.shares);
        else
            reason_set(&reason, "there is no seal key");
        say_once(n, &reason);
        return;
    }
    lock_take(n);
    enum status st = n->held ? ST_EXISTS : unseal(n, n->options.seal, &reason);
    lock_drop(n);
    if (st != ST_OK && st != ST_EXISTS && st != ST_BUSY) {
        if (reason.text[0] == '\0')
            reason_set(&reason, "%s", status_text(st));
        say_once(n, &reason);
    }
}

/* `held`: until shares are given or the node is started again. */
static void seal(struct node *n, bool held)
{
    lock_take(n);
    n->held = held;
    forget(n);
    seal_done(&n->opener);
    barrier_seal(n->host.barrier);
    publish_sealed(n, true);
    lock_drop(n);
    trace(TRACE_INFO, "node", "sealed");
}

void node_seal_follow(struct node *n)
{
    enum status st = state_follow(rlog_store(n->host.rlog), n->host.barrier);
    if (st == ST_OK || st == ST_SEALED)
        return;
    if (st != ST_CORRUPT) {
        trace(TRACE_ERROR, "node", "the key ring cannot be followed: %s", status_text(st));
        return;
    }
    trace(TRACE_WARN, "node",
          "the cluster has another root key now, as after a restore: unsealing again");
    seal(n, false);
    node_seal_look(n);
}

/* Of the cluster, or of the one to join. The lock is held. */
static enum status info_of(struct node *n, struct seal_info *ret_info)
{
    if (n->running)
        return state_seal_info(rlog_store(n->host.rlog), ret_info);
    return n->awaited.len != 0 ? seal_info_read(buf_bytes(&n->awaited), ret_info) : ST_NOT_FOUND;
}

void node_seal_status(struct node *n, struct node_seal_status *ret_status)
{
    struct node_seal_status status = {.type = n->options.seal_type};
    struct seal_info info;
    lock_take(n);
    if (info_of(n, &info) == ST_OK) {
        status.type = info.type;
        status.shares = info.shares;
        status.threshold = info.threshold;
        forget_superseded(n, &info);
    }
    status.progress = n->n_given;
    memcpy(status.nonce, n->attempt, sizeof status.nonce);
    lock_drop(n);
    *ret_status = status;
}

static enum status check_may_take(struct node *n, const struct seal_info *info,
                                  struct reason *reason)
{
    if (info->type == SEAL_SHAMIR)
        return ST_OK;
    if (n->options.seal == NULL)
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
static enum status combine(struct node *n, uint8_t key[SEAL_KEY_BYTES])
{
    enum { SHARE_BYTES = SEAL_KEY_BYTES + 1 };
    if (n->given[0].len == SEAL_KEY_BYTES) {
        memcpy(key, n->given[0].data, SEAL_KEY_BYTES);
        return ST_OK;
    }
    size_t room = (size_t)n->n_given * SHARE_BYTES;
    uint8_t *shares = mem_alloc(room);
    if (shares == NULL)
        return ST_NOMEM;
    for (unsigned i = 0; i < n->n_given; i++)
        memcpy(shares + (size_t)i * SHARE_BYTES, n->given[i].data, SHARE_BYTES);
    enum status st = shamir_combine(shares, n->n_given, SHARE_BYTES, key);
    mem_wipe(shares, room);
    mem_free(shares);
    return st;
}

/* Keep the key that opens the seal of the cluster to join, if this is it. */
static enum status open_awaited(struct node *n, struct seal *seal, struct reason *reason)
{
    uint8_t mac[BARRIER_MAC_BYTES];
    TRY(barrier_prove_by(seal, buf_bytes(&n->awaited), BYTES("holdfast: try"), mac, reason));
    mem_wipe(mac, sizeof mac);
    n->opener = *seal;
    *seal = (struct seal){0};
    if (!atomic_exchange(&n->opened_posted, true)) {
        n->opened_task = (struct env_task){.run = node_told_opened};
        env_post(n->host.env, &n->opened_task);
    }
    return ST_OK;
}

static enum status unseal_by_key(struct node *n, struct env *env, const struct seal_info *info,
                                 struct bytes key, struct reason *reason)
{
    struct seal seal = {0};

    if (info->type == SEAL_STATIC) {
        TRY(state_check_recovery(rlog_store(n->host.rlog), env, n->options.seal, key, reason));
        return unseal(n, n->options.seal, reason);
    }
    TRY(seal_shamir(key, info->shares, info->threshold, &seal));
    enum status st = n->running ? unseal(n, &seal, reason) : open_awaited(n, &seal, reason);
    seal_done(&seal);
    return st;
}

/* Enough shares were given. The lock is held. */
static enum status try_shares(struct node *n, struct env *env, const struct seal_info *info,
                              struct reason *reason)
{
    uint8_t key[SEAL_KEY_BYTES];
    struct reason why = {{0}};
    enum status st = combine(n, key);
    if (st == ST_OK)
        st = unseal_by_key(n, env, info, bytes_of(key, sizeof key), &why);
    mem_wipe(key, sizeof key);
    if (st == ST_BUSY || st == ST_NOMEM)
        secret_done(&n->given[--n->n_given]); /* the last one may be given again */
    else
        forget(n);
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

static bool was_given(const struct node *n, struct bytes share)
{
    bool found = false;
    for (unsigned i = 0; i < n->n_given; i++)
        found |= bytes_eq_secret(secret_bytes(&n->given[i]), share);
    return found;
}

/* The lock is held. */
static enum status take_share(struct node *n, struct env *env, struct bytes share,
                              struct reason *reason)
{
    struct seal_info info;

    if (n->opener.type != 0)
        return ST_OK; /* enough were given */
    TRY(info_of(n, &info));
    TRY(check_may_take(n, &info, reason));
    size_t wanted = info.shares > 1 ? SEAL_KEY_BYTES + 1 : SEAL_KEY_BYTES;
    if (share.len != wanted) {
        reason_set(reason, "key: a share of %zu bytes is expected, not one of %zu", wanted,
                   share.len);
        return ST_INVALID;
    }
    forget_superseded(n, &info);
    if (was_given(n, share))
        return ST_OK;
    ASSERT(n->n_given < SHAMIR_SHARES_MAX);
    n->given_for = info.stamp;
    TRY(secret_dup(share, &n->given[n->n_given]));
    if (n->n_given++ == 0)
        text_uuid(env, n->attempt);
    return n->n_given < info.threshold ? ST_OK : try_shares(n, env, &info, reason);
}

enum status node_unseal_share(struct node *n, struct env *env, struct bytes share,
                              struct reason *reason)
{
    enum status st = ST_OK;
    pthread_mutex_lock(&n->lock);
    bool removed = n->status.removed;
    pthread_mutex_unlock(&n->lock);
    if (removed) {
        reason_set(reason, "this node was removed from the cluster");
        return ST_INVALID;
    }
    lock_take(n);
    if (barrier_is_sealed(n->host.barrier))
        st = take_share(n, env, share, reason);
    if (!barrier_is_sealed(n->host.barrier))
        publish_sealed(n, false);
    lock_drop(n);
    return st;
}

enum status node_unseal_reset(struct node *n, struct reason *reason)
{
    bool sealed = barrier_is_sealed(n->host.barrier);
    if (!sealed) {
        reason_set(reason, "reset: the node is unsealed");
        return ST_INVALID;
    }
    lock_take(n);
    forget(n);
    lock_drop(n);
    return ST_OK;
}

void node_seal(struct node *n)
{
    seal(n, true);
}

enum status node_seal_await(struct node *n, struct bytes seal_record)
{
    lock_take(n);
    buf_clear(&n->awaited);
    buf_add(&n->awaited, seal_record);
    enum status st = buf_status(&n->awaited);
    lock_drop(n);
    return st;
}

void node_seal_drop(struct node *n)
{
    lock_take(n);
    forget(n);
    buf_done(&n->awaited);
    seal_done(&n->opener);
    lock_drop(n);
}

bool node_seal_has_opener(struct node *n)
{
    lock_take(n);
    bool has = n->opener.type != 0;
    lock_drop(n);
    return has;
}

enum status node_seal_prove(struct node *n, struct bytes seal_record, struct bytes message,
                            uint8_t ret_mac[BARRIER_MAC_BYTES], struct reason *reason)
{
    lock_take(n);
    const struct seal *seal = n->opener.type != 0 ? &n->opener : n->options.seal;
    enum status st =
        seal != NULL ? barrier_prove_by(seal, seal_record, message, ret_mac, reason) : ST_NOT_FOUND;
    lock_drop(n);
    return st;
}
