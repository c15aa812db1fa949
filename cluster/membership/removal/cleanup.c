/* Removes members that have been silent for too long, if the settings say so (autopilot.h). Only
 * the active node removes members. Silence counts from the time when the node became active. */
#include "cluster/membership/removal/cleanup.h"

#include "base/trace.h"

enum { LOOK_EVERY_MS = 5000 };

static uint64_t silent_ms(const struct cleanup *c, uint64_t id, uint64_t now)
{
    uint64_t heard = c->since_ms;
    if (id == c->host->id)
        return 0;
    heard = MAX(heard, peers_heard_ms(c->peers, id));
    return now - MIN(heard, now);
}

static void remove_if_dead(struct cleanup *c, const struct rlog_status *raft, uint64_t now)
{
    struct autopilot_server servers[RLOG_MEMBERS_MAX];
    ASSERT(c->host->active_term != 0);
    ASSERT(!c->admin->cleaning);
    ASSERT(raft->n_members <= ARRAY_LEN(servers));
    for (unsigned i = 0; i < raft->n_members; i++)
        servers[i] = (struct autopilot_server){
            .voter = raft->members[i].role == RLOG_VOTER,
            .silent_ms = silent_ms(c, raft->members[i].id, now),
        };
    unsigned dead = autopilot_dead(health_settings(c->health), servers, raft->n_members);
    ASSERT(dead <= raft->n_members);
    if (dead == raft->n_members)
        return;
    trace(TRACE_WARN, "node", "%s has been silent for %llu s: it is removed",
          raft->members[dead].name, (unsigned long long)(servers[dead].silent_ms / 1000));
    admin_remove_dead(c->admin, raft->members[dead].name);
}

static void cleanup_changed(void *self, const struct rlog_status *raft)
{
    struct cleanup *c = self;
    uint64_t now = env_mono_ms(c->host->env), term = c->host->active_term;
    ASSERT(part_on_thread(c->host));
    ASSERT(c->since_ms <= now);
    if (term == 0 || term != c->term) {
        c->term = term;
        c->since_ms = c->looked_ms = now;
        return;
    }
    if (c->admin->cleaning || now - c->looked_ms < LOOK_EVERY_MS)
        return;
    c->looked_ms = now;
    remove_if_dead(c, raft, now);
}

static enum status cleanup_start(void *self, struct part_host *host)
{
    struct cleanup *c = self;
    ASSERT(c->host == NULL && c->term == 0);
    c->host = host;
    return ST_OK;
}

const struct part cleanup_part = {
    .name = "cleanup", .start = cleanup_start, .changed = cleanup_changed};
