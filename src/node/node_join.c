/* How this node comes to be a member: founding, joining, replacing a lost or damaged disk.
 *
 *   no file ─▶ FRESH ─all founders agree─▶ FOUNDING ─replica made─▶ STARTED
 *                └─ a founder knows better ─▶ JOINING ─replica made─▶ JOINED ─voter─▶ STARTED
 *   STARTED or JOINED ─the cluster has removed us─▶ REMOVED, for good
 *   STARTED or JOINED, and the replica is gone or damaged ─▶ JOINING under a new raft id (R13)
 *
 * The step reached is kept in the file `founding`, written before what it allows is done. */
#include "node/enroll.h"
#include "node/removed.h"

#include "base/crc32c.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/trace.h"

#include <stdio.h>

#define STEP_FILE "founding"
#define STEP_FILE_NEW "founding.new"

/* Each of version 2, which ends in a byte, only to be without a vote: 1. */
enum { STEP_FORMAT = 1, STEP_FORMAT_NON_VOTER = 2, STEP_BYTES_MAX = 4096 };
enum { JOIN_FORMAT = 1, JOIN_FORMAT_NON_VOTER = 2, ASK_EVERY_MS = 500 };
enum { COMPLAIN_EVERY_MS = 10000 };
enum step {
    STEP_FRESH,
    STEP_FOUNDING,
    STEP_STARTED,
    STEP_JOINING,
    STEP_JOINED,
    STEP_REMOVED,
    STEPS
};

static enum status step_save(struct node *n, enum step step)
{
    CLEANUP(buf_done) struct buf record = {0}, file = {0};
    struct fs_file *f;
    founding_save(&n->founding, &record);
    buf_add_u8(&file, n->non_voter ? STEP_FORMAT_NON_VOTER : STEP_FORMAT);
    buf_add_u8(&file, (uint8_t)step);
    buf_add_u64(&file, n->host.id);
    buf_add_block(&file, buf_bytes(&record));
    if (n->non_voter)
        buf_add_u8(&file, 1);
    buf_add_u32(&file, crc32c(0, buf_bytes(&file)));
    TRY(buf_status(&record));
    TRY(buf_status(&file));
    TRY(fs_open(n->host.fs, STEP_FILE_NEW, FS_WRITE | FS_CREATE, &f));
    struct bytes content = buf_bytes(&file);
    enum status st = fs_set_size(f, 0);
    if (st == ST_OK)
        st = fs_write_at(f, &content, 1, 0);
    if (st == ST_OK)
        st = fs_sync(f);
    fs_close(f);
    TRY(st);
    TRY(fs_rename(n->host.fs, STEP_FILE_NEW, STEP_FILE));
    return fs_sync_dir(n->host.fs, "");
}

static enum status step_parse(struct node *n, struct bytes file, enum step *ret_step)
{
    if (file.len < 4 ||
        crc32c(0, bytes_of(file.data, file.len - 4)) != le32_get(file.data + file.len - 4))
        return ST_CORRUPT;
    struct reader r = reader_of(bytes_of(file.data, file.len - 4));
    uint8_t format = reader_u8(&r), step = reader_u8(&r);
    uint64_t id = reader_u64(&r);
    struct bytes record = reader_block(&r);
    bool non_voter = format == STEP_FORMAT_NON_VOTER && reader_u8(&r) == 1;
    bool known = format == STEP_FORMAT || non_voter;
    if (reader_end(&r) != ST_OK || !known || step >= STEPS)
        return ST_CORRUPT;
    TRY(founding_load(&n->founding, record));
    n->non_voter = non_voter;
    n->host.id = id;
    *ret_step = step;
    return ST_OK;
}

/* ST_NOT_FOUND: no file yet. */
static enum status step_load(struct node *n, enum step *ret_step)
{
    uint8_t bytes[STEP_BYTES_MAX];
    struct fs_file *f;
    size_t len = 0;
    TRY(fs_open(n->host.fs, STEP_FILE, FS_READ, &f));
    enum status st = fs_read_at(f, bytes, sizeof bytes, 0, &len);
    fs_close(f);
    TRY(st);
    return step_parse(n, bytes_of(bytes, len), ret_step);
}

static void new_id(struct node *n)
{
    do
        env_random(n->host.env, &n->host.id, sizeof n->host.id);
    while ((n->host.id &= INT64_MAX) <= NODE_FOUNDERS_MAX); /* the founders have the small ones */
}

static void fill_identity(const struct node *n, struct rlog_identity *identity)
{
    *identity = (struct rlog_identity){.id = n->host.id};
    static_assert(sizeof identity->cluster == sizeof n->host.identity.cluster, "cluster ids");
    memcpy(identity->cluster, n->host.identity.cluster, sizeof identity->cluster);
    (void)snprintf(identity->name, sizeof identity->name, "%s",
                   n->host.identity.name); /* bounded */
}

static unsigned fill_founders(const struct node *n, struct rlog_member *members)
{
    for (unsigned i = 0; i < n->options.n_founders; i++) {
        members[i] = (struct rlog_member){.id = i + 1, .role = RLOG_VOTER};
        (void)snprintf(members[i].name, sizeof members[i].name, "%s", n->founding.founders[i].name);
        (void)snprintf(members[i].address, sizeof members[i].address, "%s",
                       n->options.founders[i].address); /* both bounded by the configuration */
    }
    return n->options.n_founders;
}

/* Callbacks of the replica. */

static void on_send(void *ctx, uint64_t to, const struct bytes *parts, unsigned n_parts, bool bulk)
{
    struct node *n = ctx;
    uint8_t head[9] = {FRAME_RAFT};
    struct bytes few[16], *all = few;
    if (n_parts >= ARRAY_LEN(few))
        all = mem_alloc((n_parts + 1) * sizeof *all);
    if (all == NULL)
        return;             /* a lost frame, as any other */
    le64_put(head + 1, to); /* another incarnation at that address must not take it */
    all[0] = bytes_of(head, sizeof head);
    memcpy(all + 1, parts, n_parts * sizeof *parts);
    mesh_send(n->host.mesh, to, all, n_parts + 1, bulk);
    if (all != few)
        mem_free(all);
}

static void on_flush(void *ctx)
{
    struct node *n = ctx;
    mesh_flush(n->host.mesh);
}

static void on_members(void *ctx, const struct rlog_member *members, unsigned count)
{
    struct node *n = ctx;
    ASSERT(count <= ARRAY_LEN(n->host.members));
    n->host.n_members = count;
    if (count != 0)
        memcpy(n->host.members, members, count * sizeof members[0]);
    node_mesh_link(n);
}

static void on_changed(void *ctx)
{
    node_role_changed(ctx);
}

static void on_applied(void *ctx, uint64_t index, uint64_t version)
{
    node_role_applied(ctx, index, version);
}

static void on_fatal(void *ctx, enum status why, const struct reason *reason)
{
    node_fail(ctx, why, reason);
}

/* Making and starting the replica. */

static enum status replica_start(struct node *n, bool founder, struct reason *reason)
{
    struct rlog_member founders[NODE_FOUNDERS_MAX];
    struct rlog_options o = {
        .env = n->host.env,
        .dir = NODE_RAFT_DIR,
        .net = {.send = on_send, .flush = on_flush, .members = on_members, .ctx = n},
        .events = {.changed = on_changed, .fatal = on_fatal, .applied = on_applied, .ctx = n},
        .founders = founders,
        .n_founders = founder ? fill_founders(n, founders) : 0,
        .election_ms = n->options.election_ms,
        .heartbeat_ms = n->options.heartbeat_ms,
        .segment_bytes = n->options.segment_bytes,
        .snapshot_log_bytes = n->options.snapshot_log_bytes,
        .state_bytes_max = n->options.state_bytes_max,
        .reserve_bytes = n->options.reserve_bytes,
    };
    fill_identity(n, &o.identity);
    node_role_start(n, !founder);
    if (n->host.mesh == NULL)
        TRY(node_mesh_open(n, reason));
    TRY(rlog_start(&o, &n->host.rlog, reason));
    node_told_runs(n);
    n->phase = founder ? NODE_MEMBER : NODE_JOINING;
    node_quorum_await(n);
    node_mesh_link(n);
    node_role_changed(n);
    n->options.ready(n->options.ctx);
    return ST_OK;
}

static void mesh_gone(void *ctx)
{
    struct node *n = ctx;
    struct reason reason = {{0}};
    n->host.mesh = NULL;
    enum status st = replica_start(n, false, &reason);
    if (st != ST_OK)
        node_refuse(n, &reason);
}

/* Begin again as a new member; nothing of the old replica may vote or be trusted (R13). The step
 * is on disk before the wipe, so that a crash in between goes on here. */
static enum status rejoin(struct node *n, struct reason *reason)
{
    struct rlog_identity identity;
    static const uint8_t no_nonce[FOUNDING_NONCE_BYTES];
    const char *names[NODE_FOUNDERS_MAX];
    for (unsigned i = 0; i < n->options.n_founders; i++)
        names[i] = n->options.founders[i].name;
    founding_init(&n->founding, names, n->options.n_founders, n->founding.self, no_nonce);
    n->founding.done = true;
    new_id(n);
    TRY(step_save(n, STEP_JOINING));
    TRY(rlog_disk_wipe(n->host.env, NODE_RAFT_DIR, reason));
    fill_identity(n, &identity);
    TRY(rlog_disk_create(n->host.env, NODE_RAFT_DIR, &identity, reason));
    TRY(step_save(n, STEP_JOINED));
    trace(TRACE_WARN, "node", "joins as a new member, raft id %llu",
          (unsigned long long)n->host.id);
    if (n->host.mesh == NULL)
        return replica_start(n, false, reason);
    mesh_close(n->host.mesh, mesh_gone, n); /* the mesh spoke under the old id */
    return ST_OK;
}

/* A replica that was started before must still be there: an empty directory is a lost disk. The
 * cluster port is opened first: what is wrong with its files says nothing about the replica's. */
static enum status start_or_rejoin(struct node *n, bool founder, struct reason *reason)
{
    struct fs_file *identity;
    enum status st = fs_open(n->host.fs, NODE_RAFT_DIR "/identity", FS_READ, &identity);
    if (st == ST_OK) {
        fs_close(identity);
        if (n->host.mesh == NULL)
            TRY(node_mesh_open(n, reason));
        st = replica_start(n, founder, reason);
    }
    if (st != ST_CORRUPT && st != ST_NOT_FOUND)
        return st;
    trace(TRACE_ERROR, "node", "the replica's data is %s; %s",
          st == ST_CORRUPT ? "corrupt" : "gone", reason->text);
    return rejoin(n, reason);
}

static enum status found(struct node *n, struct reason *reason)
{
    struct rlog_identity identity;
    n->founding.done = true;
    TRY(step_save(n, STEP_FOUNDING));
    fill_identity(n, &identity);
    enum status st = rlog_disk_create(n->host.env, NODE_RAFT_DIR, &identity, reason);
    if (st != ST_OK && st != ST_EXISTS)
        return st;
    TRY(step_save(n, STEP_STARTED));
    trace(TRACE_INFO, "node", "founds the cluster with %u members", n->options.n_founders);
    return replica_start(n, true, reason);
}

enum status node_join_keep_removed(struct node *n)
{
    return n->phase == NODE_MEMBER ? step_save(n, STEP_REMOVED) : ST_OK;
}

/* To say what it is; its replica stays as it was. */
static enum status start_removed(struct node *n, struct reason *reason)
{
    node_removed_begin(n);
    enum status st = replica_start(n, n->host.id <= NODE_FOUNDERS_MAX, reason);
    if (st == ST_CORRUPT || st == ST_NOT_FOUND)
        reason_set(reason,
                   "this node was removed from the cluster, and what is left of its data "
                   "cannot be read: empty %s",
                   n->options.data_dir);
    return st;
}

static enum status begin_fresh(struct node *n, struct reason *reason)
{
    n->phase = NODE_FRESH;
    n->complained_ms = env_mono_ms(n->host.env);
    TRY(node_mesh_open(n, reason));
    node_mesh_link(n);
    node_quorum_await(n);
    n->options.waits(n->options.ctx);
    node_join_tick(n);
    return ST_OK;
}

enum status node_join_start(struct node *n, struct reason *reason)
{
    uint8_t nonce[FOUNDING_NONCE_BYTES];
    const char *names[NODE_FOUNDERS_MAX];
    unsigned self = n->options.n_founders;
    enum step step = STEP_FRESH;

    for (unsigned i = 0; i < n->options.n_founders; i++) {
        names[i] = n->options.founders[i].name;
        if (strcmp(names[i], n->options.name) == 0)
            self = i;
    }
    env_random(n->host.env, nonce, sizeof nonce);
    founding_init(&n->founding, names, n->options.n_founders, self, nonce);
    n->host.id = self + 1;
    enum status st = step_load(n, &step);
    if (st == ST_NOT_FOUND) {
        if (self == n->options.n_founders)
            return rejoin(n, reason); /* not a founder: joins an existing cluster */
        TRY(step_save(n, STEP_FRESH));
    } else if (st != ST_OK) {
        reason_set(reason, "%s/" STEP_FILE ": %s", n->options.data_dir, status_text(st));
        return st;
    }
    n->founding.done = step != STEP_FRESH;
    switch (step) {
    case STEP_FRESH: return begin_fresh(n, reason);
    case STEP_FOUNDING: return found(n, reason);
    case STEP_STARTED: return start_or_rejoin(n, n->host.id <= NODE_FOUNDERS_MAX, reason);
    case STEP_JOINING: return rejoin(n, reason);
    case STEP_JOINED: return start_or_rejoin(n, false, reason);
    case STEP_REMOVED: return start_removed(n, reason);
    case STEPS: break;
    }
    ASSERT(step < STEPS);
    return ST_INTERNAL;
}

/* Asking. */

static void say_founding(struct node *n, uint64_t to)
{
    CLEANUP(buf_done) struct buf said = {0};
    founding_say(&n->founding, &said);
    if (buf_status(&said) == ST_OK)
        node_send(n, to, FRAME_FOUNDING, buf_bytes(&said));
}

static void fresh_tick(struct node *n)
{
    struct reason reason = {{0}};
    enum status st = ST_OK;
    for (unsigned i = 0; i < n->founding.n; i++)
        if (i != n->founding.self)
            say_founding(n, i + 1);
    switch (founding_verdict(&n->founding)) {
    case FOUNDING_WAIT: break;
    case FOUNDING_FOUND: st = found(n, &reason); break;
    case FOUNDING_JOIN: st = rejoin(n, &reason); break;
    }
    if (st != ST_OK) {
        if (reason.text[0] == '\0')
            reason_set(&reason, "starting: %s", status_text(st));
        node_refuse(n, &reason);
    }
    node_quorum_await(n);
    uint64_t now = env_mono_ms(n->host.env);
    if (n->phase != NODE_FRESH || now - n->complained_ms < COMPLAIN_EVERY_MS)
        return;
    n->complained_ms = now;
    for (unsigned i = 0; i < n->founding.n; i++)
        if (i != n->founding.self && !n->founding.founders[i].heard)
            trace(TRACE_WARN, "node", "waiting for the initial member %s at %s",
                  n->founding.founders[i].name, n->options.founders[i].address);
}

static void ask_to_join(struct node *n, const struct rlog_status *raft)
{
    CLEANUP(buf_done) struct buf ask = {0};
    struct rlog_member founders[NODE_FOUNDERS_MAX];
    const struct rlog_member *members = raft->members;
    unsigned count = raft->n_members;
    buf_add_u8(&ask, n->non_voter ? JOIN_FORMAT_NON_VOTER : JOIN_FORMAT);
    buf_add_u64(&ask, n->host.id);
    buf_add_block(&ask, bytes_str(n->options.name));
    buf_add_block(&ask, bytes_str(n->options.cluster_addr));
    if (n->non_voter)
        buf_add_u8(&ask, 1);
    if (buf_status(&ask) != ST_OK)
        return; /* the next tick tries again */
    if (count == 0) {
        count = fill_founders(n, founders);
        members = founders;
    }
    for (unsigned i = 0; i < count; i++)
        if (strcmp(members[i].name, n->options.name) != 0)
            node_send(n, members[i].id, FRAME_JOIN, buf_bytes(&ask));
}

/* From now on the cluster's record says whether it votes. */
static void become_member(struct node *n, bool votes)
{
    n->phase = NODE_MEMBER;
    n->non_voter = false;
    trace(TRACE_INFO, "node", "is a %s member now", votes ? "voting" : "non-voting");
    enum status st = step_save(n, STEP_STARTED);
    if (st != ST_OK) {
        struct reason reason;
        reason_set(&reason, "%s/" STEP_FILE " cannot be written: %s", n->options.data_dir,
                   status_text(st));
        node_fail(n, st, &reason);
    }
    node_told_end(n, ST_OK, NULL);
}

static void joining_tick(struct node *n)
{
    uint64_t now = env_mono_ms(n->host.env);
    struct rlog_status raft;
    rlog_status(n->host.rlog, &raft);
    for (unsigned i = 0; i < raft.n_members; i++) {
        if (raft.members[i].id != n->host.id)
            continue;
        bool votes = raft.members[i].role == RLOG_VOTER;
        if (votes || (raft.members[i].role == RLOG_STANDBY &&
                      node_is_noted(n, NODE_NONVOTER_KEY, n->options.name, false))) {
            become_member(n, votes);
            return;
        }
    }
    if (now - n->asked_ms < ASK_EVERY_MS)
        return;
    n->asked_ms = now;
    ask_to_join(n, &raft);
}

void node_join_tick(struct node *n)
{
    if (n->host.removed || n->enroll != NULL)
        return;
    switch (n->phase) {
    case NODE_FRESH: fresh_tick(n); break;
    case NODE_JOINING: joining_tick(n); break;
    case NODE_MEMBER: break;
    }
}

/* Answering. */

static void on_added(struct rlog_admin *a, enum status st)
{
    struct node *n = CONTAINER_OF(a, struct node, add);
    n->adding = false;
    if (st == ST_OK)
        trace(TRACE_INFO, "node", "added %s, raft id %llu", a->member.name,
              (unsigned long long)a->member.id);
    else
        trace(TRACE_WARN, "node", "%s was not added: %s %s", a->member.name, status_text(st),
              a->reason.text);
}

/* Store the wish before adding the member, so that any later leader adds it without a vote. */
static void note_non_voter(struct node *n, const char *name)
{
    CLEANUP(rlog_txn_done) struct rlog_txn_builder txn = {0};
    char key[sizeof NODE_NONVOTER_KEY + MESH_NAME_MAX];
    (void)snprintf(key, sizeof key, NODE_NONVOTER_KEY "%s", name); /* a valid name */
    rlog_txn_put(&txn, bytes_str(key), BYTES("wished"));
    node_write(&n->host, &txn, NULL); /* the next time it asks, it is added */
}

/* A wish in `who->role` counts; without one, the stored record. */
static void add_member(struct node *n, const struct rlog_member *who,
                       const struct rlog_status *raft)
{
    uint64_t replaces = 0;
    bool noted = node_is_noted(n, NODE_NONVOTER_KEY, who->name, true);
    enum rlog_role role = noted ? RLOG_STANDBY : RLOG_VOTER;
    for (unsigned i = 0; i < raft->n_members; i++) {
        const struct rlog_member *m = &raft->members[i];
        if (m->id == who->id && m->role >= role && strcmp(m->name, who->name) == 0)
            return; /* the node is a member already and has not noticed yet */
        if (m->id != who->id && strcmp(m->name, who->name) == 0)
            replaces = m->id;
    }
    if (n->adding || replaces == n->host.id || node_removed_is(n, who->name, true))
        return;
    if (who->role == RLOG_STANDBY && !noted) {
        note_non_voter(n, who->name);
        return;
    }
    n->adding = true;
    n->add = (struct rlog_admin){.done = on_added, .member = *who, .replaces = replaces};
    n->add.member.role = role;
    rlog_member_add(n->host.rlog, &n->add);
}

static enum status parse_join(struct bytes content, struct rlog_member *ret_who)
{
    struct reader r = reader_of(content);
    struct rlog_member who = {.role = RLOG_VOTER};
    uint8_t format = reader_u8(&r);
    who.id = reader_u64(&r);
    struct bytes name = reader_block(&r), address = reader_block(&r);
    bool non_voter = format == JOIN_FORMAT_NON_VOTER && reader_u8(&r) == 1;
    TRY(reader_end(&r));
    if (non_voter)
        who.role = RLOG_STANDBY;
    if ((format != JOIN_FORMAT && !non_voter) || who.id == 0 || who.id > INT64_MAX ||
        name.len == 0 || name.len >= sizeof who.name || address.len == 0 ||
        address.len >= sizeof who.address)
        return ST_INVALID;
    memcpy(who.name, name.data, name.len);
    memcpy(who.address, address.data, address.len);
    if (!mesh_name_valid(who.name) || strlen(who.address) != address.len)
        return ST_INVALID;
    *ret_who = who;
    return ST_OK;
}

/* From the joiner itself, or passed on by a member that does not lead. */
static void hear_join(struct node *n, const char *from_name, struct bytes content)
{
    struct rlog_member who;
    struct rlog_status raft;
    if (n->host.rlog == NULL || parse_join(content, &who) != ST_OK)
        return;
    bool itself = strcmp(who.name, from_name) == 0, member = false;
    rlog_status(n->host.rlog, &raft);
    for (unsigned i = 0; i < raft.n_members; i++)
        member = member || strcmp(raft.members[i].name, from_name) == 0;
    if (!itself && !member)
        return;
    if (raft.is_leader)
        add_member(n, &who, &raft);
    else if (itself && raft.leader != 0)
        node_send(n, raft.leader, FRAME_JOIN, content);
}

void node_join_hear(struct node *n, uint64_t from, const char *from_name, enum frame_kind kind,
                    struct bytes content)
{
    bool asks = false;
    if (kind == FRAME_JOIN) {
        hear_join(n, from_name, content);
        return;
    }
    if (founding_hear(&n->founding, from_name, content, &asks) != ST_OK) {
        trace(TRACE_WARN, "node", "%s sent a malformed founding message", from_name);
        return;
    }
    if (asks)
        say_founding(n, from); /* over its own link, if it is no member */
}
