/* Members that have been silent for too long are removed, where the settings say so (autopilot.h).
 * The leader alone does it, and measures silence from when it became active at the earliest. */
#include "cluster/membership/autopilot.h"
#include "node/node_internal.h"

#include "base/trace.h"

enum { LOOK_EVERY_MS = 5000 };

static uint64_t silent_ms(const struct node *n, uint64_t id, uint64_t now)
{
    uint64_t heard = n->cleanup_since_ms;
    if (id == n->host.id)
        return 0;
    for (unsigned i = 0; i < RLOG_MEMBERS_MAX; i++)
        if (n->heard[i].id == id)
            heard = MAX(heard, n->heard[i].ms);
    return now - MIN(heard, now);
}

static void look(struct node *n, const struct rlog_status *raft, uint64_t now)
{
    CLEANUP(buf_done) struct buf plain = {0};
    struct autopilot_server servers[RLOG_MEMBERS_MAX];
    struct autopilot settings;
    enum status st = node_read_value(n, BYTES(AUTOPILOT_KEY), &plain);
    if (st == ST_NOT_FOUND)
        return; /* never set: no server is removed */
    if (st == ST_OK)
        st = autopilot_decode(buf_bytes(&plain), &settings);
    if (st != ST_OK) {
        trace(TRACE_WARN, "node", "the settings of autopilot cannot be read: %s", status_text(st));
        return;
    }
    for (unsigned i = 0; i < raft->n_members; i++)
        servers[i] = (struct autopilot_server){
            .voter = raft->members[i].role == RLOG_VOTER,
            .silent_ms = silent_ms(n, raft->members[i].id, now),
        };
    unsigned dead = autopilot_dead(&settings, servers, raft->n_members);
    if (dead == raft->n_members)
        return;
    trace(TRACE_WARN, "node", "%s has been silent for %llu s: it is removed",
          raft->members[dead].name, (unsigned long long)(servers[dead].silent_ms / 1000));
    node_remove_dead(n, raft->members[dead].name);
}

void node_cleanup_look(struct node *n, const struct rlog_status *raft, bool active)
{
    uint64_t now = env_mono_ms(n->host.env);
    if (!active || raft->term != n->cleanup_term) {
        n->cleanup_term = active ? raft->term : 0;
        n->cleanup_since_ms = n->cleanup_looked_ms = now;
        return;
    }
    if (n->cleaning || now - n->cleanup_looked_ms < LOOK_EVERY_MS)
        return;
    n->cleanup_looked_ms = now;
    look(n, raft, now);
}
