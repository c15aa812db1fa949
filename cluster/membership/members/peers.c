/* Every node reports to the leader: whether it can serve requests, its client address, its version.
 * A report goes out once a second, and at once when the leader or the ability changes. A node serves
 * when it is unsealed and its audit devices do not all fail. */
#include "cluster/membership/members/peers.h"

#include "text/utf8.h"

enum { SAY_EVERY_MS = 1000, HEARD_FOR_MS = 3000 };

/* Send a report to the leader, unless this node leads. */
static void peers_changed(void *self, const struct rlog_status *raft)
{
    struct peers *p = self;
    uint64_t now = env_mono_ms(p->host->env);
    uint8_t unsealed = barrier_is_sealed(p->host->barrier) || p->host->mute ? 0 : 1;
    ASSERT(part_on_thread(p->host));
    bool news = raft->leader != p->reported_leader || unsealed != p->reported_unsealed;
    if (raft->leader == 0 || raft->is_leader || (!news && now - p->reported_ms < SAY_EVERY_MS))
        return;
    CLEANUP(buf_done) struct buf said = {0};
    CLEANUP(buf_done) struct buf level = {0};
    buf_add_u8(&level, REPORT_FEATURE);
    buf_add_u16(&level, RLOG_FEATURE);
    buf_add_u8(&said, REPORT_SEALED);
    buf_add_u8(&said, unsealed);
    buf_add_block(&said, bytes_str(p->host->options->api_addr));
    buf_add_block(&said, bytes_str(p->host->options->version));
    if (buf_status(&said) != ST_OK || buf_status(&level) != ST_OK)
        return; /* out of memory: the next tick tries again */
    p->reported_leader = raft->leader;
    p->reported_unsealed = unsealed;
    p->reported_ms = now;
    p->host->calls->send(p->host, raft->leader, FRAME_REPORT, buf_bytes(&said));
    p->host->calls->send(p->host, raft->leader, FRAME_REPORT, buf_bytes(&level));
}

static void copy_block(char *to, size_t room, struct bytes from)
{
    size_t len = from.len < room && text_printable(from) ? from.len : 0;
    ASSERT(len < room);
    memcpy(to, from.data, len);
    to[len] = '\0';
}

/* The slot for a member's report: the member's slot, or the one with the oldest report. */
static struct peer_report *report_slot(struct peers *peers, uint64_t id)
{
    struct peer_report *oldest = &peers->heard[0];
    for (unsigned i = 0; i < RLOG_MEMBERS_MAX; i++) {
        struct peer_report *h = &peers->heard[i];
        if (h->id == id)
            return h;
        if (h->ms < oldest->ms)
            oldest = h;
    }
    return oldest;
}

static void keep_report(struct peers *peers, const struct part_frame *frame, bool unsealed,
                        struct bytes api_addr, struct bytes version)
{
    struct part_host *host = peers->host;
    uint64_t now = env_mono_ms(host->env);
    struct peer_report *slot = report_slot(peers, frame->from);
    bool steady = slot->id == frame->from && now - slot->ms <= HEARD_FOR_MS;
    ASSERT(part_on_thread(peers->host));
    pthread_mutex_lock(&peers->lock);
    *slot = (struct peer_report){
        .id = frame->from,
        .unsealed = unsealed,
        .ms = now,
        .wall_ms = env_wall_ms(host->env),
        .feature = steady ? slot->feature : RLOG_FEATURE_FIRST,
        .feature_ms = steady ? slot->feature_ms : 0,
    };
    copy_block(slot->api_addr, sizeof slot->api_addr, api_addr);
    copy_block(slot->version, sizeof slot->version, version);
    pthread_mutex_unlock(&peers->lock);
}

/* A node reports its level right behind its first report on itself. */
static void keep_feature(struct peers *peers, const struct part_frame *frame, uint16_t level)
{
    struct peer_report *slot = report_slot(peers, frame->from);
    if (slot->id != frame->from || level < RLOG_FEATURE_FIRST)
        return;
    pthread_mutex_lock(&peers->lock);
    slot->feature = level;
    slot->feature_ms = env_mono_ms(peers->host->env);
    pthread_mutex_unlock(&peers->lock);
}

static bool peers_receive(void *self, const struct part_frame *frame)
{
    struct reader r = reader_of(frame->content);
    struct bytes api_addr = BYTES(""), version = BYTES("");
    if (frame->kind != FRAME_REPORT)
        return false;
    uint8_t format = reader_u8(&r);
    if (format == REPORT_ADDRESS)
        return false; /* address.c handles this report */
    if (format == REPORT_FEATURE) {
        uint16_t level = reader_u16(&r);
        if (reader_end(&r) == ST_OK)
            keep_feature(self, frame, level);
        return true;
    }
    uint8_t unsealed = reader_u8(&r);
    if (format == REPORT_SEALED) {
        api_addr = reader_block(&r);
        version = reader_block(&r);
    }
    if (reader_end(&r) == ST_OK && format != 0 &&
        format <= REPORT_SEALED) /* a format above REPORT_SEALED comes from a later build */
        keep_report(self, frame, unsealed == 1, api_addr, version);
    return true;
}

static bool is_unsealed(struct peers *p, uint64_t id)
{
    uint64_t now = env_mono_ms(p->host->env);
    for (unsigned i = 0; i < RLOG_MEMBERS_MAX; i++)
        if (p->heard[i].id == id)
            return p->heard[i].unsealed && now - p->heard[i].ms <= HEARD_FOR_MS;
    return false;
}

uint64_t peers_target(struct peers *p)
{
    struct rlog_status raft;
    ASSERT(part_on_thread(p->host));
    rlog_status(p->host->rlog, &raft);
    for (unsigned i = 0; i < raft.n_members; i++) {
        const struct rlog_member *m = &raft.members[i];
        if (m->id != p->host->id && m->role == RLOG_VOTER && is_unsealed(p, m->id))
            return m->id;
    }
    return 0;
}

uint16_t peers_feature(struct peers *p, uint64_t id)
{
    uint64_t now = env_mono_ms(p->host->env);
    ASSERT(part_on_thread(p->host));
    for (unsigned i = 0; i < RLOG_MEMBERS_MAX; i++) {
        const struct peer_report *h = &p->heard[i];
        if (h->id == id && h->feature_ms != 0 && now - h->feature_ms <= HEARD_FOR_MS)
            return h->feature;
    }
    return RLOG_FEATURE_FIRST;
}

uint64_t peers_heard_ms(const struct peers *p, uint64_t id)
{
    for (unsigned i = 0; i < RLOG_MEMBERS_MAX; i++)
        if (p->heard[i].id == id)
            return p->heard[i].ms;
    return 0;
}

bool peers_get(struct peers *p, uint64_t id, struct peer_report *ret_report)
{
    bool found = false;
    pthread_mutex_lock(&p->lock);
    for (unsigned i = 0; i < RLOG_MEMBERS_MAX && !found; i++) {
        found = p->heard[i].id == id;
        if (found)
            *ret_report = p->heard[i];
    }
    ASSERT(!found || ret_report->id == id);
    pthread_mutex_unlock(&p->lock);
    return found;
}

static enum status peers_start(void *self, struct part_host *host)
{
    struct peers *p = self;
    ASSERT(p->host == NULL && p->reported_ms == 0);
    if (pthread_mutex_init(&p->lock, NULL) != 0)
        return ST_NOMEM;
    p->host = host;
    return ST_OK;
}

void peers_done(struct peers *p)
{
    if (p->host != NULL)
        (void)pthread_mutex_destroy(&p->lock); /* no thread holds the lock */
    p->host = NULL;
}

const struct part peers_part = {
    .name = "peers", .start = peers_start, .changed = peers_changed, .receive = peers_receive};
