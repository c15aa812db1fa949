/* Every node reports to the leader: whether it can serve requests, its client address, its version.
 * A report goes out once a second, and at once when the leader or the ability changes. A node
 * serves when it is unsealed and its audit devices do not all fail. */
#include "cluster/membership/members/peers.h"

#include "base/record.h"
#include "text/utf8.h"

enum { SAY_EVERY_MS = 1000, HEARD_FOR_MS = 3000 };

struct report {
    bool unsealed;
    struct bytes api_addr, version;
};
static const struct record_field report_fields[] = {
    RECORD_FIELD(struct report, unsealed, U8, .help = "the sender can serve requests"),
    RECORD_FIELD(struct report, api_addr, BLOCK, .since = REPORT_SEALED,
                 .help = "address for clients"),
    RECORD_FIELD(struct report, version, BLOCK, .since = REPORT_SEALED, .help = "of the program"),
};
static const struct record report_record = {
    RECORD(struct report, report_fields), .name = "member/report", .where = "A frame FRAME_REPORT",
    .least = REPORT_SEALED, .newest = REPORT_SEALED};
RECORD_LISTED(report_record);

static const struct record_field level_fields[] = {
    RECORD_ITSELF("level", uint16_t, U16, .help = "feature level that the sender understands")};
static const struct record level_record = {
    RECORD(uint16_t, level_fields), .name = "member/report-feature",
    .where = "A frame FRAME_REPORT", .oldest = REPORT_FEATURE, .newest = REPORT_FEATURE};
RECORD_LISTED(level_record);

struct seal_report {
    uint8_t mark[SEAL_MARK_BYTES];
};
static const struct record_field seal_fields[] = {
    RECORD_FIELD(struct seal_report, mark, FIXED, .help = "of the configured key and its name"),
};
static const struct record seal_record = {
    RECORD(struct seal_report, seal_fields), .name = "member/report-seal",
    .where = "A frame FRAME_REPORT", .oldest = REPORT_SEAL, .newest = REPORT_SEAL};
RECORD_LISTED(seal_record);

/* Tell the leader which seal key this node is configured for. */
static void report_seal(const struct peers *p, uint64_t leader)
{
    CLEANUP(buf_done) struct buf frame = {0};
    struct seal_report report;
    const uint8_t *own = p->host->options->seal_mark;
    ASSERT(leader != 0 && leader != p->host->id);
    if (own == NULL)
        return;
    memcpy(report.mark, own, sizeof report.mark);
    if (record_encode(&seal_record, &report, &frame) == ST_OK) /* else the next report tells it */
        p->host->calls->send(p->host, leader, FRAME_REPORT, buf_bytes(&frame));
}

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
    const uint16_t feature = RLOG_FEATURE;
    const struct report report = {unsealed != 0, bytes_str(p->host->options->api_addr),
                                  bytes_str(p->host->options->version)};
    if (record_encode(&report_record, &report, &said) != ST_OK ||
        record_encode(&level_record, &feature, &level) != ST_OK)
        return; /* out of memory: the next tick tries again */
    p->reported_leader = raft->leader;
    p->reported_unsealed = unsealed;
    p->reported_ms = now;
    p->host->calls->send(p->host, raft->leader, FRAME_REPORT, buf_bytes(&said));
    p->host->calls->send(p->host, raft->leader, FRAME_REPORT, buf_bytes(&level));
    report_seal(p, raft->leader);
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

static void keep_report(struct peers *peers, const struct part_frame *frame,
                        const struct report *report)
{
    struct part_host *host = peers->host;
    uint64_t now = env_mono_ms(host->env);
    struct peer_report *slot = report_slot(peers, frame->from);
    uint8_t mark[SEAL_MARK_BYTES];
    memcpy(mark, slot->seal_mark, sizeof mark);
    bool steady = slot->id == frame->from && now - slot->ms <= HEARD_FOR_MS;
    ASSERT(part_on_thread(peers->host));
    pthread_mutex_lock(&peers->lock);
    *slot = (struct peer_report){
        .id = frame->from,
        .unsealed = report->unsealed,
        .ms = now,
        .wall_ms = env_wall_ms(host->env),
        .feature = steady ? slot->feature : RLOG_FEATURE_FIRST,
        .feature_ms = steady ? slot->feature_ms : 0,
        .seal_ms = steady ? slot->seal_ms : 0,
    };
    memcpy(slot->seal_mark, mark, sizeof mark);
    copy_block(slot->api_addr, sizeof slot->api_addr, report->api_addr);
    copy_block(slot->version, sizeof slot->version, report->version);
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

/* A node reports its seal key behind its report on itself. */
static void keep_mark(struct peers *peers, const struct part_frame *frame, struct bytes mark)
{
    struct peer_report *slot = report_slot(peers, frame->from);
    if (slot->id != frame->from)
        return;
    ASSERT(mark.len == SEAL_MARK_BYTES);
    pthread_mutex_lock(&peers->lock);
    memcpy(slot->seal_mark, mark.data, SEAL_MARK_BYTES);
    slot->seal_ms = env_mono_ms(peers->host->env);
    pthread_mutex_unlock(&peers->lock);
}

static bool peers_receive(void *self, const struct part_frame *frame)
{
    struct report report = {0};
    uint16_t level = 0;
    if (frame->kind != FRAME_REPORT)
        return false;
    uint8_t kind = frame->content.len != 0 ? frame->content.data[0] : 0;
    if (kind == REPORT_ADDRESS)
        return false; /* address.c handles this report */
    if (kind == REPORT_FEATURE) {
        if (record_decode(&level_record, frame->content, NULL, &level) == ST_OK)
            keep_feature(self, frame, level);
        return true;
    }
    if (kind == REPORT_SEAL) {
        struct seal_report seal;
        if (record_decode(&seal_record, frame->content, NULL, &seal) == ST_OK)
            keep_mark(self, frame, bytes_of(seal.mark, sizeof seal.mark));
        return true;
    }
    if (record_decode(&report_record, frame->content, NULL, &report) == ST_OK)
        keep_report(self, frame, &report); /* else it is a report of a later build, or malformed */
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

bool peers_has_seal(struct peers *p, uint64_t id, const uint8_t *mark)
{
    uint64_t now = env_mono_ms(p->host->env);
    ASSERT(part_on_thread(p->host));
    if (p->host->mesh == NULL || !mesh_linked(p->host->mesh, id))
        return false;
    for (unsigned i = 0; i < RLOG_MEMBERS_MAX; i++) {
        const struct peer_report *h = &p->heard[i];
        if (h->id == id && h->seal_ms != 0 && now - h->seal_ms <= HEARD_FOR_MS)
            return bytes_eq_secret(bytes_of(h->seal_mark, SEAL_MARK_BYTES),
                                   bytes_of(mark, SEAL_MARK_BYTES));
    }
    return false;
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
