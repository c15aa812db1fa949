/* How this node becomes a member: bootstrap, joining, replacing a lost or damaged disk.
 *
 *   no file ─▶ FRESH ─all initial members agree─▶ FORMING ─replica made─▶ STARTED
 *                └─ a member has formed it ─▶ JOINING ─replica made─▶ JOINED ─voter─▶ STARTED
 *   STARTED or JOINED ─the cluster has removed us─▶ REMOVED, for good
 *   STARTED or JOINED, and the replica is gone or damaged ─▶ JOINING under a new raft id (R13)
 *
 * The file `founding` has the step reached (step_file.h). A step is written before the work that it
 * allows. */
#include "cluster/membership/bootstrap/bootstrap.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/trace.h"
#include "cluster/membership/certificate/cert_files.h"

#include <stdio.h>

enum { COMPLAIN_EVERY_MS = 10000 };

static void fresh_tick(struct bootstrap *b);

static enum status step_save(struct bootstrap *b, enum step step)
{
    struct step_record record = {.step = step,
                                 .id = b->host->id,
                                 .folder = b->folder,
                                 .non_voter = b->non_voter,
                                 .superseded = b->superseded};
    ASSERT(step < STEPS && part_on_thread(b->host));
    return step_file_save(b->host->fs, &record, &b->initial);
}

/* Load the step from its file. ST_NOT_FOUND: there is no file yet. */
static enum status step_load(struct bootstrap *b, enum step *ret_step)
{
    struct step_record record;
    ASSERT(part_on_thread(b->host));
    ASSERT(b->host->rlog == NULL);
    TRY(step_file_load(b->host->fs, &record, &b->initial));
    b->non_voter = record.non_voter;
    b->superseded = record.superseded;
    b->folder = record.folder;
    b->host->id = record.id;
    step_folder(b->folder, b->host->raft_dir);
    *ret_step = record.step;
    return ST_OK;
}

static void new_id(struct bootstrap *b)
{
    do
        env_random(b->host->env, &b->host->id, sizeof b->host->id);
    while ((b->host->id &= INT64_MAX) <=
           INITIAL_MEMBERS_MAX); /* small raft ids belong to initial members */
}

void bootstrap_identity(const struct part_host *host, struct rlog_identity *ret_identity)
{
    ASSERT(host->id != 0);
    *ret_identity = (struct rlog_identity){.id = host->id};
    static_assert(sizeof ret_identity->cluster == sizeof host->identity.cluster, "cluster ids");
    memcpy(ret_identity->cluster, host->identity.cluster, sizeof ret_identity->cluster);
    (void)snprintf(ret_identity->name, sizeof ret_identity->name, "%s",
                   host->identity.name); /* cannot be cut: the name is bounded */
}

unsigned bootstrap_members(const struct member_options *o,
                           struct rlog_member ret_members[INITIAL_MEMBERS_MAX])
{
    ASSERT(o->n_initial_members <= INITIAL_MEMBERS_MAX);
    for (unsigned i = 0; i < o->n_initial_members; i++) {
        struct rlog_member *m = &ret_members[i];
        *m = (struct rlog_member){.id = i + 1, .role = RLOG_VOTER};
        (void)snprintf(m->name, sizeof m->name, "%s", o->initial_members[i].name);
        (void)snprintf(m->address, sizeof m->address, "%s",
                       /* cannot be cut: the configuration bounds both texts */
                       o->initial_members[i].address);
    }
    return o->n_initial_members;
}

/* Start again as a new member under a new raft id: the old replica must not vote (R13). The step is
 * on disk before the wipe, so a start after a crash in between comes here again. */
static enum status rejoin(struct bootstrap *b, struct reason *reason)
{
    struct rlog_identity identity;
    static const uint8_t no_nonce[INITIAL_NONCE_BYTES];
    const char *names[INITIAL_MEMBERS_MAX];
    ASSERT(part_on_thread(b->host));
    ASSERT(b->host->phase != PHASE_MEMBER && !b->host->removed);
    for (unsigned i = 0; i < b->host->options->n_initial_members; i++)
        names[i] = b->host->options->initial_members[i].name;
    initial_members_init(&b->initial, names, b->host->options->n_initial_members, b->initial.self,
                         no_nonce);
    b->initial.done = true;
    new_id(b);
    ASSERT(b->host->id > INITIAL_MEMBERS_MAX);
    TRY(step_save(b, STEP_JOINING));
    TRY(rlog_disk_wipe(b->host->env, b->host->raft_dir, reason));
    bootstrap_identity(b->host, &identity);
    TRY(rlog_disk_create(b->host->env, b->host->raft_dir, &identity, reason));
    TRY(step_save(b, STEP_JOINED));
    trace(TRACE_WARN, "node", "joins as a new member, raft id %llu",
          (unsigned long long)b->host->id);
    return b->host->calls->restart_replica(b->host, reason);
}

/* Start a replica that ran before; without its files the disk was lost. Open the cluster port
 * first, so that an error in its files is not taken for damage of the replica. */
static enum status start_or_rejoin(struct bootstrap *b, bool initial, struct reason *reason)
{
    char path[MEMBER_RAFT_DIR_MAX + 16];
    struct fs_file *identity;
    ASSERT(b->initial.done);
    ASSERT(!b->host->removed);
    /* cannot be cut: the folder's name is bounded */
    (void)snprintf(path, sizeof path, "%s/identity", b->host->raft_dir);
    enum status st = fs_open(b->host->fs, path, FS_READ, &identity);
    if (st == ST_OK) {
        fs_close(identity);
        if (b->host->mesh == NULL)
            TRY(b->host->calls->open_port(b->host, reason));
        st = b->host->calls->start_replica(b->host, initial, reason);
    }
    if (st != ST_CORRUPT && st != ST_NOT_FOUND)
        return st;
    trace(TRACE_ERROR, "node", "the replica's data is %s; %s",
          st == ST_CORRUPT ? "corrupt" : "gone", reason->text);
    return rejoin(b, reason);
}

static enum status form_cluster(struct bootstrap *b, struct reason *reason)
{
    struct rlog_identity identity;
    ASSERT(b->host->rlog == NULL && b->host->id <= INITIAL_MEMBERS_MAX);
    TRY(step_save(b, STEP_FORMING));
    b->initial.done = true;
    bootstrap_identity(b->host, &identity);
    enum status st = rlog_disk_create(b->host->env, b->host->raft_dir, &identity, reason);
    if (st != ST_OK && st != ST_EXISTS)
        return st;
    TRY(step_save(b, STEP_STARTED));
    trace(TRACE_INFO, "node", "forms the cluster with %u members",
          b->host->options->n_initial_members);
    return b->host->calls->start_replica(b->host, true, reason);
}

/* Serve nothing more. A member records that it is none any more. */
static void leave_cluster(struct bootstrap *b)
{
    struct part_host *host = b->host;
    ASSERT(!host->stopping && !host->removed);
    enum status st = host->phase == PHASE_MEMBER ? step_save(b, STEP_REMOVED) : ST_OK;
    if (st != ST_OK)
        trace(TRACE_ERROR, "node", "that cannot be noted: %s", status_text(st));
    host->removed = true;
    host->calls->seal(host);
    host->calls->publish(host);
}

void bootstrap_removed(struct bootstrap *b)
{
    trace(TRACE_ERROR, "node",
          "this node was removed from the cluster: it serves nothing until an operator lets it in "
          "again and its data directory is emptied");
    leave_cluster(b);
}

static void leave_superseded(struct bootstrap *b)
{
    trace(TRACE_ERROR, "node",
          "the cluster was recovered without this node's data: this node serves nothing until "
          "\"holdfast operator raft recover -join\" sets its data aside "
          "(docs/disaster-recovery.md, Lost majority)");
    b->superseded = true;
    leave_cluster(b);
}

void bootstrap_superseded(struct bootstrap *b, const char *from)
{
    trace(TRACE_ERROR, "node", "%s says that the cluster was recovered without this node's data",
          from);
    leave_superseded(b);
}

/* Start the replica of a removed node, to report its state only; the replica stays as it was. */
static enum status start_removed(struct bootstrap *b, struct reason *reason)
{
    ASSERT(b->host->phase == PHASE_NO_CERTIFICATE);
    if (b->superseded)
        leave_superseded(b);
    else
        bootstrap_removed(b);
    ASSERT(b->host->removed);
    enum status st =
        b->host->calls->start_replica(b->host, b->host->id <= INITIAL_MEMBERS_MAX, reason);
    if (st == ST_CORRUPT || st == ST_NOT_FOUND)
        reason_set(reason, "%s, and what is left of its data cannot be read: empty %s",
                   b->superseded ? "the cluster was recovered without this node"
                                 : "this node was removed from the cluster",
                   b->host->options->data_dir);
    return st;
}

static enum status begin_fresh(struct bootstrap *b, struct reason *reason)
{
    b->host->phase = PHASE_FRESH;
    b->complained_ms = env_mono_ms(b->host->env);
    TRY(b->host->calls->open_port(b->host, reason));
    b->host->calls->link(b->host);
    b->host->calls->wait(b->host);
    fresh_tick(b);
    return ST_OK;
}

static enum status bootstrap_begin(struct bootstrap *b, struct reason *reason)
{
    uint8_t nonce[INITIAL_NONCE_BYTES];
    const char *names[INITIAL_MEMBERS_MAX];
    unsigned self = b->host->options->n_initial_members;
    enum step step = STEP_FRESH;

    for (unsigned i = 0; i < b->host->options->n_initial_members; i++) {
        names[i] = b->host->options->initial_members[i].name;
        if (strcmp(names[i], b->host->options->name) == 0)
            self = i;
    }
    env_random(b->host->env, nonce, sizeof nonce);
    initial_members_init(&b->initial, names, b->host->options->n_initial_members, self, nonce);
    b->host->id = self + 1;
    step_folder(0, b->host->raft_dir);
    enum status st = step_load(b, &step);
    if (st == ST_NOT_FOUND) {
        if (self == b->host->options->n_initial_members)
            /* this node is not an initial member: it joins an existing cluster */
            return rejoin(b, reason);
        TRY(step_save(b, STEP_FRESH));
    } else if (st != ST_OK) {
        reason_set(reason, "%s/" STEP_FILE ": %s", b->host->options->data_dir, status_text(st));
        return st;
    }
    b->initial.done = step != STEP_FRESH;
    switch (step) {
    case STEP_FRESH: return begin_fresh(b, reason);
    case STEP_FORMING: return form_cluster(b, reason);
    case STEP_STARTED: return start_or_rejoin(b, b->host->id <= INITIAL_MEMBERS_MAX, reason);
    case STEP_JOINING: return rejoin(b, reason);
    case STEP_JOINED: return start_or_rejoin(b, false, reason);
    case STEP_REMOVED: return start_removed(b, reason);
    case STEPS: break;
    }
    ASSERT(step < STEPS);
    return ST_INTERNAL;
}

static void send_initial(struct bootstrap *b, uint64_t to)
{
    CLEANUP(buf_done) struct buf said = {0};
    ASSERT(to != 0);
    initial_members_say(&b->initial, &said);
    if (buf_status(&said) == ST_OK)
        b->host->calls->send(b->host, to, FRAME_BOOTSTRAP, buf_bytes(&said));
}

static void fresh_tick(struct bootstrap *b)
{
    struct reason reason = {{0}};
    enum status st = ST_OK;
    ASSERT(b->host->phase == PHASE_FRESH);
    ASSERT(!b->host->stopping);
    if (b->decided)
        return;
    for (unsigned i = 0; i < b->initial.n; i++)
        if (i != b->initial.self)
            send_initial(b, i + 1);
    enum initial_verdict verdict = initial_members_verdict(&b->initial);
    b->decided = verdict != INITIAL_WAIT;
    switch (verdict) {
    case INITIAL_WAIT: break;
    case INITIAL_FORM: st = form_cluster(b, &reason); break;
    case INITIAL_JOIN: st = rejoin(b, &reason); break;
    }
    if (st != ST_OK) {
        if (reason.text[0] == '\0')
            reason_set(&reason, "starting: %s", status_text(st));
        b->host->calls->refuse(b->host, &reason);
        return;
    }
    uint64_t now = env_mono_ms(b->host->env);
    if (b->host->phase != PHASE_FRESH || now - b->complained_ms < COMPLAIN_EVERY_MS)
        return;
    b->complained_ms = now;
    for (unsigned i = 0; i < b->initial.n; i++)
        if (i != b->initial.self && !b->initial.members[i].heard)
            trace(TRACE_WARN, "node", "waiting for the initial member %s at %s",
                  b->initial.members[i].name, b->host->options->initial_members[i].address);
}

enum status bootstrap_open(struct bootstrap *b, struct reason *reason)
{
    struct part_host *host = b->host;
    const struct member_options *o = host->options;
    ASSERT(host->rlog == NULL && host->mesh == NULL);
    TRY(cert_files_settle(o, reason));
    TRY(cert_files_authority(o, host->ca_sha256, reason));
    TRY(mesh_identity_read(o->cert_file, &host->identity, reason));
    if (strcmp(host->identity.name, o->name) != 0) {
        reason_set(reason, "%s is the certificate of %s, not of %s", o->cert_file,
                   host->identity.name, o->name);
        return ST_INVALID;
    }
    const uint8_t *c = host->identity.cluster;
    (void)snprintf(host->cluster_id, sizeof host->cluster_id,
                   "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", c[0],
                   c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8], c[9], c[10], c[11], c[12], c[13],
                   c[14], c[15]); /* 36 characters fit */
    host->calls->publish(host);
    return bootstrap_begin(b, reason);
}

enum status bootstrap_joined(struct bootstrap *b)
{
    ASSERT(b->host->phase == PHASE_JOINING && !b->host->removed);
    b->host->phase = PHASE_MEMBER;
    b->non_voter = false;
    return step_save(b, STEP_STARTED);
}

static void bootstrap_tick(void *self)
{
    struct bootstrap *b = self;
    if (b->host->phase == PHASE_FRESH && !b->host->removed)
        fresh_tick(b);
}

static bool bootstrap_receive(void *self, const struct part_frame *frame)
{
    struct bootstrap *b = self;
    bool asks = false;
    ASSERT(part_on_thread(b->host));
    if (frame->kind != FRAME_BOOTSTRAP)
        return false;
    if (initial_members_hear(&b->initial, frame->from_name, frame->content, &asks) != ST_OK)
        trace(TRACE_WARN, "node", "%s sent a malformed bootstrap message", frame->from_name);
    else if (asks)
        send_initial(b, frame->from); /* the sender may be no member: use its own link */
    return true;
}

static enum status bootstrap_start(void *self, struct part_host *host)
{
    struct bootstrap *b = self;
    ASSERT(b->host == NULL && host->phase == PHASE_NO_CERTIFICATE);
    b->host = host;
    return ST_OK;
}

const struct part bootstrap_part = {.name = "bootstrap",
                                    .start = bootstrap_start,
                                    .tick = bootstrap_tick,
                                    .receive = bootstrap_receive};
