/* Requests of the core: disk, network, apply. Called from inside a step, so nothing here calls
 * into the core. */
#include "base/trace.h"
#include "raft/replica/rlog_internal.h"

static enum status out_persist(void *ctx, uint64_t term, uint64_t vote)
{
    struct rlog *r = ctx;
    return rlog_disk_set_term(r->disk, term, vote);
}

static uint64_t out_append(void *ctx, uint64_t index, const struct rlog_entry *entries, unsigned n)
{
    struct rlog *r = ctx;
    uint64_t seq = rlog_disk_append(r->disk, index, entries, n);
    r->write_due = rlog_core_leads(&r->core);
    if (!r->write_due)
        rlog_disk_write(r->disk);
    return seq;
}

/* A leader's entries leave before it writes them itself: a majority may have them without it. */
void rlog_write_due(struct rlog *r)
{
    if (!r->write_due)
        return;
    r->write_due = false;
    if (r->options.net.flush != NULL)
        r->options.net.flush(r->options.net.ctx);
    rlog_disk_write(r->disk);
}

static void out_send(void *ctx, uint64_t to, const struct rlog_message *m)
{
    struct rlog *r = ctx;
    struct rlog_frame frame = {.kind = RLOG_FRAME_CORE, .core = *m};
    bool bulk = m->raft.type == RAFT_APPEND_ENTRIES && m->raft.append_entries.n_entries > 0;
    rlog_send_frame(r, to, &frame, bulk);
}

/* Followers learn the commit index from the next entries and from every message of a read round. If
 * none of these follow, tell the followers after this time, so that they do not fall behind for a
 * whole heartbeat. */
enum { COMMIT_NOTIFY_MS = 2 };

static void commit_send(struct rlog *r)
{
    struct rlog_core *c = &r->core;
    struct rlog_frame frame = {.kind = RLOG_FRAME_COMMIT,
                               .ask = {.term = c->term, .commit = c->commit}};
    ASSERT(rlog_core_leads(c));
    c->sent_commit = c->commit;
    for (unsigned i = 0; i < c->conf.n; i++)
        if (c->conf.members[i].id != r->identity.id && c->conf.members[i].role != RLOG_SPARE)
            rlog_send_frame(r, c->conf.members[i].id, &frame, false);
}

void rlog_commit_tell(struct rlog *r)
{
    uint64_t now = rlog_now(r);
    ASSERT(r->core.sent_commit <= r->core.commit);
    if (!rlog_core_leads(&r->core) || r->core.commit <= r->core.sent_commit)
        r->commit_due_ms = 0;
    else if (r->commit_due_ms == 0)
        r->commit_due_ms = now + COMMIT_NOTIFY_MS;
    else if (now >= r->commit_due_ms) {
        commit_send(r);
        r->commit_due_ms = 0;
    }
    if (r->commit_due_ms != 0 && r->commit_timer.slot == 0)
        env_timer_set(r->env, &r->commit_timer, r->commit_due_ms);
}

void rlog_commit_on_timer(struct env_timer *timer)
{
    struct rlog *r = CONTAINER_OF(timer, struct rlog, commit_timer);
    rlog_enter(r);
    rlog_leave(r);
}

static void out_offer(void *ctx, uint64_t to)
{
    rlog_snapshot_send_wanted(ctx, to);
}

/* Do nothing: the caller of rlog_core_offer continues. */
static void out_install(void *ctx)
{
    struct rlog *r = ctx;
    ASSERT(r->install.phase == INSTALL_VERIFYING);
}

static void out_state(void *ctx)
{
    struct rlog *r = ctx;
    bool leads = rlog_core_leads(&r->core);
    ASSERT(r->depth > 0);
    r->changed = true;
    if (leads && !r->led)
        rlog_clock_lead(r);
    if (leads != r->led) {
        r->led = leads;
        trace(TRACE_INFO, "raft",
              leads ? "became leader (term %llu)" : "is no longer the leader (term %llu)",
              (unsigned long long)r->core.term);
        rlog_proposals_leadership(r);
    }
    rlog_reads_leadership(r);
}

static void out_configured(void *ctx)
{
    struct rlog *r = ctx;
    r->conf_generation++;
    r->changed = r->members_changed = true;
}

static void out_apply(void *ctx, uint64_t index, const struct rlog_entry *entry)
{
    struct rlog *r = ctx;
    r->entries_applied++;
    rlog_snapshot_create_applied(r, entry);
    rlog_proposals_apply(r, index, entry);
}

static void out_fatal(void *ctx, enum status why, const struct reason *reason)
{
    rlog_fail(ctx, why, reason);
}

struct rlog_core_ops rlog_core_ops_of(struct rlog *r)
{
    return (struct rlog_core_ops){.persist = out_persist,
                                  .append = out_append,
                                  .send = out_send,
                                  .offer = out_offer,
                                  .install = out_install,
                                  .state = out_state,
                                  .configured = out_configured,
                                  .apply = out_apply,
                                  .fatal = out_fatal,
                                  .ctx = r};
}
