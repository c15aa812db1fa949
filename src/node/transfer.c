#include "node/transfer.h"

#include "base/trace.h"

enum {
    /* first pause between two attempts of a sealed leader; doubles each time */
    RETRY_MIN_MS = 1000,
    RETRY_MAX_MS = 60000,       /* longest pause between two attempts */
    RETRY_REST_MS = 10 * 60000, /* after this time without an attempt, start at RETRY_MIN_MS */
    MUTE_RETRY_MS = 60000,      /* pause between two attempts of a leader that records nothing */
    STOP_TRANSFER_MS = 2000,
};

static void on_transferred(struct rlog_admin *a, enum status st)
{
    struct transfer *t = CONTAINER_OF(a, struct transfer, admin);
    ASSERT(t->running);
    t->running = false;
    /* a stop goes on whether or not leadership was transferred */
    if (st != ST_OK && !t->host->stopping)
        trace(TRACE_WARN, "node", "leadership was not handed over: %s", status_text(st));
}

static void transfer_begin(struct transfer *t, uint64_t target)
{
    ASSERT(!t->running);
    t->running = true;
    t->admin = (struct rlog_admin){.done = on_transferred, .member.id = target};
    rlog_transfer(t->host->rlog, &t->admin);
}

/* Bound the attempts: nodes that seal again and again must not keep the cluster busy. */
static bool transfer_is_due(struct transfer *t, uint64_t now)
{
    if (t->began_ms != 0 && now - t->began_ms < t->wait_ms)
        return false;
    bool rested = t->began_ms == 0 || now - t->began_ms > RETRY_REST_MS;
    t->wait_ms = rested ? RETRY_MIN_MS : (unsigned)MIN(2 * t->wait_ms, (unsigned)RETRY_MAX_MS);
    t->began_ms = now;
    return true;
}

/* The audit devices of two nodes may fail in turn: bound the attempts by a fixed pause. */
static bool mute_is_due(struct transfer *t, uint64_t now)
{
    if (t->mute_ms != 0 && now - t->mute_ms < MUTE_RETRY_MS)
        return false;
    t->mute_ms = now;
    return true;
}

static void transfer_changed(void *self, const struct rlog_status *raft)
{
    struct transfer *t = self;
    struct part_host *host = t->host;
    ASSERT(part_on_thread(host));
    bool sealed = barrier_is_sealed(host->barrier);
    if (!raft->is_leader || !host->initialized || t->running || (!sealed && !host->mute))
        return;
    uint64_t target = peers_target(t->peers), now = env_mono_ms(host->env);
    if (target == 0 || !(sealed ? transfer_is_due(t, now) : mute_is_due(t, now)))
        return;
    trace(TRACE_WARN, "node", "leads, but %s: hands over to another node",
          sealed ? "is sealed" : "no audit device takes its records");
    transfer_begin(t, target);
}

static enum status transfer_start(void *self, struct part_host *host)
{
    struct transfer *t = self;
    ASSERT(t->host == NULL && !t->running);
    t->host = host;
    return ST_OK;
}

/* Whether a link to another voter is up. A leader that stops alone need not wait for the others. */
static bool is_heard(const struct part_host *host, const struct rlog_status *raft)
{
    bool linked = false;
    ASSERT(raft->n_members <= RLOG_MEMBERS_MAX);
    for (unsigned i = 0; i < raft->n_members && host->mesh != NULL; i++)
        linked =
            linked || (raft->members[i].id != host->id && raft->members[i].role == RLOG_VOTER &&
                       mesh_linked(host->mesh, raft->members[i].id));
    return linked;
}

static bool transfer_stop(void *self)
{
    struct transfer *t = self;
    struct part_host *host = t->host;
    struct rlog_status raft;
    ASSERT(host->stopping);
    if (host->rlog == NULL || host->replica_closed)
        return true;
    uint64_t now = env_mono_ms(host->env);
    if (t->deadline_ms == 0) {
        t->deadline_ms = now + STOP_TRANSFER_MS;
        rlog_status(host->rlog, &raft);
        if (raft.is_leader && is_heard(host, &raft) && !t->running)
            transfer_begin(t, peers_target(t->peers));
    }
    return !t->running || now >= t->deadline_ms;
}

const struct part transfer_part = {.name = "transfer",
                                   .start = transfer_start,
                                   .changed = transfer_changed,
                                   .stop = transfer_stop};
