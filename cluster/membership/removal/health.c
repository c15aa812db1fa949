/* A leader judges every member at each tick, by the member's last report and by its log. A member
 * is stable once it has been healthy for long enough; one unhealthy moment starts the time again.
 */
#include "cluster/membership/removal/health.h"

#include "base/trace.h"

enum { READ_EVERY_MS = 1000 };

static void read_settings(struct health *h, uint64_t now)
{
    CLEANUP(buf_done) struct buf plain = {0};
    if (h->read_ms != 0 && now - h->read_ms < READ_EVERY_MS)
        return;
    h->read_ms = now;
    h->settings = autopilot_default;
    enum status st = local_read(h->local, BYTES(AUTOPILOT_KEY), &plain);
    if (st == ST_OK)
        st = autopilot_decode(buf_bytes(&plain), &h->settings);
    bool expected = st == ST_OK || st == ST_NOT_FOUND || st == ST_SEALED || st == ST_BUSY;
    if (!expected && st != h->read_status)
        trace(TRACE_WARN, "node", "the settings of autopilot cannot be read: %s", status_text(st));
    h->read_status = st;
}

static const struct member_health *find(const struct health *h, uint64_t id)
{
    ASSERT(h->n <= ARRAY_LEN(h->members));
    for (unsigned i = 0; i < h->n; i++)
        if (h->members[i].id == id)
            return &h->members[i];
    return NULL;
}

static struct member_health judge(const struct health *h, const struct rlog_status *raft,
                                  unsigned at, uint64_t now)
{
    uint64_t id = raft->members[at].id, heard = peers_heard_ms(h->peers, id);
    struct autopilot_contact contact = {
        .heard = heard >= h->led_ms,
        .silent_ms = now - MIN(MAX(heard, h->led_ms), now),
        .behind = raft->last_index - MIN(raft->match[at], raft->last_index),
    };
    if (id == h->host->id)
        contact = (struct autopilot_contact){.heard = true};
    struct member_health m = {
        .id = id,
        .healthy = autopilot_healthy(&h->settings, &contact),
        .silent = autopilot_silent(&h->settings, &contact),
        .since_ms = now,
        .since_wall_ms = env_wall_ms(h->host->env),
    };
    const struct member_health *before = find(h, id);
    if (before != NULL && before->healthy == m.healthy) {
        m.since_ms = before->since_ms;
        m.since_wall_ms = before->since_wall_ms;
    }
    return m;
}

static void health_changed(void *self, const struct rlog_status *raft)
{
    struct health *h = self;
    struct member_health judged[RLOG_MEMBERS_MAX];
    uint64_t now = env_mono_ms(h->host->env), term = raft->is_leader ? raft->term : 0;
    ASSERT(part_on_thread(h->host));
    ASSERT(raft->n_members <= ARRAY_LEN(judged));
    if (term == 0 && h->term == 0)
        return;
    if (term != 0)
        read_settings(h, now);
    pthread_mutex_lock(&h->lock);
    if (term != h->term) {
        h->term = term;
        h->led_ms = now;
        h->n = 0;
    }
    unsigned n = term != 0 ? raft->n_members : 0;
    for (unsigned i = 0; i < n; i++)
        judged[i] = judge(h, raft, i, now);
    if (n != 0)
        memcpy(h->members, judged, n * sizeof *judged);
    h->n = n;
    pthread_mutex_unlock(&h->lock);
}

const struct autopilot *health_settings(const struct health *h)
{
    return h->read_ms != 0 ? &h->settings : &autopilot_default;
}

bool health_stable(const struct health *h, uint64_t id)
{
    uint64_t wait_ms = (uint64_t)health_settings(h)->server_stabilization_time * 1000;
    const struct member_health *m = find(h, id);
    ASSERT(part_on_thread(h->host));
    return m != NULL && m->healthy && env_mono_ms(h->host->env) - m->since_ms >= wait_ms;
}

bool health_get(struct health *h, uint64_t id, struct member_health *ret_health)
{
    pthread_mutex_lock(&h->lock);
    const struct member_health *m = find(h, id);
    if (m != NULL)
        *ret_health = *m;
    pthread_mutex_unlock(&h->lock);
    return m != NULL;
}

static enum status health_start(void *self, struct part_host *host)
{
    struct health *h = self;
    ASSERT(h->host == NULL && h->term == 0);
    if (pthread_mutex_init(&h->lock, NULL) != 0)
        return ST_NOMEM;
    h->host = host;
    return ST_OK;
}

void health_done(struct health *h)
{
    if (h->host != NULL)
        (void)pthread_mutex_destroy(&h->lock); /* no thread holds the lock */
    h->host = NULL;
}

const struct part health_part = {
    .name = "health", .start = health_start, .changed = health_changed};
