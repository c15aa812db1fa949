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
#include "node/node_parts.h"

#include "barrier/shamir.h"
#include "base/mem.h"
#include "base/trace.h"
#include "state/state_core.h"

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

void node_seal_done(struct node *n)
{
    if (n->given == NULL)
        return;
    forget(n);
    mem_free(n->given);
    n->given = NULL;
    (void)pthread_mutex_destroy(&n->seal_lock); /* nobody holds it */
}

static void say_once(struct node *n, const struct reason *reason)
{
    if (strcmp(reason->text, n->seal_reason.text) == 0)
        return;
    n->seal_reason = *reason;
    trace(TRACE_WARN, "node", "stays sealed: %s", reason->text);
}

/* What the node itself shows of it; the next tick tells the rest of the node. */
static void publish_sealed(struct node *n, bool sealed)
{
    pthread_mutex_lock(&n->lock);
    n->status.sealed = sealed;
    if (sealed) {
        n->status.active = false;
        n->status.perf_standby = false;
    }
    pthread_mutex_unlock(&n->lock);
}

/* The lock is held. */
static enum status unseal(struct node *n, const struct seal *seal, struct reason *reason)
{
    enum status st = state_unseal(rlog_store(n->rlog), n->barrier, seal, reason);
    if (st != ST_OK)
        return st;
    n->held = false;
    trace(TRACE_INFO, "node", "unsealed");
    return ST_OK;
}

void node_seal_look(struct node *n)
{
    struct reason reason = {{0}};
    struct seal_info info;
    if (n->options.seal == NULL) {
        if (state_seal_info(rlog_store(n->rlog), &info) == ST_OK && info.type == SEAL_SHAMIR)
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
    barrier_seal(n->barrier);
    publish_sealed(n, true);
    lock_drop(n);
    trace(TRACE_INFO, "node", "sealed");
}

void node_seal_follow(struct node *n)
{
    enum status st = state_follow(rlog_store(n->rlog), n->barrier);
    if (st == ST_OK || st == ST_SEALED)
        return;
    trace(TRACE_ERROR, "node", "the key ring cannot be followed: %s", status_text(st));
    if (st ==
        ST_CORRUPT) { /* our root key is not the cluster's any more: unseal as after a start */
        seal(n, false);
        node_seal_look(n);
    }
}

void node_seal_status(struct node *n, struct node_seal_status *ret_status)
{
    struct node_seal_status status = {.type = n->options.seal_type};
    struct seal_info info;
    if (state_seal_info(rlog_store(n->rlog), &info) == ST_OK) {
        status.type = info.type;
        status.shares = info.shares;
        status.threshold = info.threshold;
    }
    lock_take(n);
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

static enum status unseal_by_key(struct node *n, struct env *env, const struct seal_info *info,
                                 struct bytes key, struct reason *reason)
{
    struct store *store = rlog_store(n->rlog);
    struct seal seal = {0};

    if (info->type == SEAL_STATIC) {
        TRY(state_check_recovery(store, env, n->options.seal, key, reason));
        return unseal(n, n->options.seal, reason);
    }
    TRY(seal_shamir(key, info->shares, info->threshold, &seal));
    enum status st = unseal(n, &seal, reason);
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

    TRY(state_seal_info(rlog_store(n->rlog), &info));
    TRY(check_may_take(n, &info, reason));
    size_t wanted = info.shares > 1 ? SEAL_KEY_BYTES + 1 : SEAL_KEY_BYTES;
    if (share.len != wanted) {
        reason_set(reason, "key: a share of %zu bytes is expected, not one of %zu", wanted,
                   share.len);
        return ST_INVALID;
    }
    if (was_given(n, share))
        return ST_OK;
    ASSERT(n->n_given < SHAMIR_SHARES_MAX);
    TRY(secret_dup(share, &n->given[n->n_given]));
    if (n->n_given++ == 0)
        auth_uuid(env, n->attempt);
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
    if (barrier_is_sealed(n->barrier))
        st = take_share(n, env, share, reason);
    if (!barrier_is_sealed(n->barrier))
        publish_sealed(n, false);
    lock_drop(n);
    return st;
}

enum status node_unseal_reset(struct node *n, struct reason *reason)
{
    bool sealed = barrier_is_sealed(n->barrier);
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
