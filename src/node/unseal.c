/* Sealing and unsealing of this node.
 *
 * With a static seal the node unseals by itself as soon as the state has the key ring. With key
 * shares, clients give enough shares. A node that was sealed on request stays sealed until it
 * restarts, or until shares are given: shares of the key, or of the recovery key if the seal is
 * static. A node that is configured to move the cluster to another seal stays sealed until shares
 * are given with `migrate` (unseal_migrate.c). If a restore replaced the root key, the node seals
 * itself and unseals as after a start: by the configured seal, or by shares of the new key.
 *
 * Shares arrive on workers' threads, so the attempt has its own lock. Take it before the locks of
 * the board and the barrier. */
#include "node/unseal_internal.h"

#include "barrier/shamir.h"
#include "base/mem.h"
#include "base/trace.h"
#include "node/mark.h"
#include "state/state_core.h"

void unseal_lock(struct unseal *u)
{
    int failed = pthread_mutex_lock(&u->lock);
    ASSERT(failed == 0 && !u->locked);
    u->locked = true;
}

void unseal_unlock(struct unseal *u)
{
    ASSERT(u->locked);
    u->locked = false;
    int failed = pthread_mutex_unlock(&u->lock);
    ASSERT(failed == 0);
}

void unseal_done(struct unseal *u)
{
    if (u->given == NULL)
        return;
    unseal_lock(u);
    unseal_forget(u);
    unseal_stay(u);
    unseal_unlock(u);
    buf_done(&u->awaited);
    seal_done(&u->opener);
    mem_free(u->given);
    u->given = NULL;
    (void)pthread_mutex_destroy(&u->lock); /* no thread holds the lock */
}

static void say_once(struct unseal *u, const struct reason *reason)
{
    if (strcmp(reason->text, u->said.text) == 0)
        return;
    u->said = *reason;
    trace(TRACE_WARN, "node", "stays sealed: %s", reason->text);
}

void unseal_publish(struct unseal *u, bool sealed)
{
    ASSERT(u->locked);
    struct node_status *s = board_begin(u->board);
    s->sealed = sealed;
    if (sealed && s->active) /* a sealed node serves nothing, even while it leads */
        s->leader_address[0] = s->leader_cluster[0] = '\0';
    if (sealed) {
        s->active = false;
        s->perf_standby = false;
    }
    board_end(u->board);
}

enum status unseal_with(struct unseal *u, const struct seal *seal, struct reason *reason)
{
    ASSERT(u->locked);
    enum status st = state_unseal(rlog_store(u->host->rlog), u->host->barrier, seal, reason);
    if (st != ST_OK)
        return st;
    u->held = false;
    trace(TRACE_INFO, "node", "unsealed");
    return ST_OK;
}

/* Unseal with shares that were given before this node was a member. False: none were given. */
static bool look_with_opener(struct unseal *u)
{
    struct reason reason = {{0}};
    enum status st = ST_OK;
    unseal_lock(u);
    bool has = u->opener.type != 0;
    if (has)
        st = unseal_with(u, &u->opener, &reason);
    if (st != ST_BUSY && st != ST_NOT_FOUND)
        seal_done(&u->opener);
    unseal_unlock(u);
    if (st != ST_OK && reason.text[0] != '\0')
        say_once(u, &reason);
    return has;
}

static void unseal_look(struct unseal *u)
{
    struct reason reason = {{0}};
    struct seal_info info;
    ASSERT(part_on_thread(u->host));
    if (look_with_opener(u))
        return;
    enum status st = state_seal_info(rlog_store(u->host->rlog), &info);
    if (st == ST_OK && unseal_way_of(u, &info) != UNSEAL_ITSELF) {
        unseal_explain(u, &info, &reason);
        say_once(u, &reason);
        return;
    }
    unseal_lock(u);
    if (st == ST_OK)
        st = u->held ? ST_EXISTS : unseal_with(u, u->options.seal, &reason);
    unseal_unlock(u);
    if (st != ST_OK && st != ST_EXISTS && st != ST_BUSY) {
        if (reason.text[0] == '\0')
            reason_set(&reason, "%s", status_text(st));
        say_once(u, &reason);
    }
}

/* `held`: stay sealed until shares are given or the node restarts. */
static void seal_node(struct unseal *u, bool held)
{
    unseal_lock(u);
    u->held = held;
    unseal_forget(u);
    unseal_stay(u);
    seal_done(&u->opener);
    barrier_seal(u->host->barrier);
    ASSERT(barrier_is_sealed(u->host->barrier));
    unseal_publish(u, true);
    unseal_unlock(u);
    trace(TRACE_INFO, "node", "sealed");
}

void unseal_follow(struct unseal *u)
{
    ASSERT(part_on_thread(u->host));
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

/* The caller holds the lock. */
static bool wants_peer(const struct unseal *u)
{
    struct seal_info info;
    ASSERT(u->locked);
    return !u->held && barrier_is_sealed(u->host->barrier) &&
           state_seal_info(rlog_store(u->host->rlog), &info) == ST_OK && info.type == SEAL_SHAMIR;
}

bool unseal_wants_peer(struct unseal *u)
{
    ASSERT(part_on_thread(u->host));
    unseal_lock(u);
    bool wants = wants_peer(u);
    unseal_unlock(u);
    return wants;
}

enum status unseal_by_peer(struct unseal *u, const struct secret *root, struct reason *reason)
{
    ASSERT(part_on_thread(u->host));
    unseal_lock(u);
    enum status st = ST_DENIED;
    if (wants_peer(u) && !u->host->removed)
        st = state_unseal_root(rlog_store(u->host->rlog), u->host->barrier, root, reason);
    if (st == ST_OK) {
        ASSERT(!barrier_is_sealed(u->host->barrier));
        unseal_forget(u);
        unseal_publish(u, false);
    }
    unseal_unlock(u);
    return st;
}

void unseal_seal(struct unseal *u)
{
    seal_node(u, true);
}

static void unseal_changed(void *self, const struct rlog_status *raft)
{
    struct unseal *u = self;
    (void)raft;
    unseal_look_at_move(u);
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
    u->self = u;
    return ST_OK;
}

const struct part unseal_part = {
    .name = "unseal", .start = unseal_start, .changed = unseal_changed};
