/* Joining, on both sides.
 *
 *   no member ─asks; the leader adds it─▶ spare ─has the log─▶ standby: joined
 *   standby ─asks; has been healthy for server_stabilization_time─▶ voter
 *
 * A node asks until it votes, or until a record says that it must not. A leader of an older build
 * gives the vote as soon as the node has the log. */
#include "cluster/membership/join/join.h"

#include "cluster/membership/local.h"
#include "cluster/membership/removal/removed.h"

#include "base/record.h"
#include "base/trace.h"

#include <stdio.h>

enum { ASK_EVERY_MS = 500 };

struct join_ask {
    uint64_t id;
    char name[sizeof((struct rlog_member *)0)->name];
    char address[sizeof((struct rlog_member *)0)->address];
    bool non_voter;
};
static bool has_valid_name(const void *from)
{
    return mesh_name_valid(((const struct join_ask *)from)->name);
}
static const struct record_field ask_fields[] = {
    RECORD_FIELD(struct join_ask, id, U64, .min = 1, .max = INT64_MAX, .help = "raft id"),
    RECORD_FIELD(struct join_ask, name, TEXT, .min = 1),
    RECORD_FIELD(struct join_ask, address, TEXT, .min = 1, .help = "host:port of its cluster port"),
    RECORD_FIELD(struct join_ask, non_voter, U8, .since = 2, .help = "the node wants no vote"),
};
static const struct record ask_record = {RECORD(struct join_ask, ask_fields), .name = "member/join",
                                         .where = "A frame FRAME_JOIN", .newest = 2,
                                         .valid = has_valid_name};
RECORD_LISTED(ask_record);

static void ask_to_join(struct join *j, const struct rlog_status *raft)
{
    CLEANUP(buf_done) struct buf ask = {0};
    struct rlog_member initial_members[INITIAL_MEMBERS_MAX];
    const struct rlog_member *members = raft->members;
    unsigned count = raft->n_members;
    ASSERT(j->host->phase == PHASE_JOINING || j->host->phase == PHASE_MEMBER);
    ASSERT(!j->host->removed);
    struct join_ask own = {.id = j->host->id, .non_voter = j->bootstrap->non_voter};
    const char *name = j->host->options->name, *address = j->host->options->cluster_addr;
    if (strlen(name) >= sizeof own.name || strlen(address) >= sizeof own.address)
        return; /* no leader would take it */
    memcpy(own.name, name, strlen(name));
    memcpy(own.address, address, strlen(address));
    if (record_encode(&ask_record, &own, &ask) != ST_OK)
        return; /* out of memory: the next tick tries again */
    if (count == 0) {
        count = bootstrap_members(j->host->options, initial_members);
        members = initial_members;
    }
    for (unsigned i = 0; i < count; i++)
        if (strcmp(members[i].name, j->host->options->name) != 0)
            j->host->calls->send(j->host, members[i].id, FRAME_JOIN, buf_bytes(&ask));
}

static void become_member(struct join *j, const struct rlog_member *self, bool noted)
{
    struct part_host *host = j->host;
    bool plain = noted || j->bootstrap->non_voter;
    ASSERT(j->host->phase == PHASE_JOINING);
    ASSERT(self->role != RLOG_SPARE);
    trace(TRACE_INFO, "node", "is a member now%s",
          self->role == RLOG_VOTER ? " and votes"
          : plain                  ? " without a vote"
                                   : "; it votes when it has been healthy for long enough");
    enum status st = bootstrap_joined(j->bootstrap);
    if (st != ST_OK) {
        struct reason reason;
        reason_set(&reason, "%s/founding cannot be written: %s", host->options->data_dir,
                   status_text(st));
        host->calls->fail(host, st, &reason);
    }
}

/* Whether this node has what it wants of the leader. */
static bool settled(struct join *j, const struct rlog_status *raft)
{
    const struct rlog_member *self = NULL;
    ASSERT(raft->n_members <= RLOG_MEMBERS_MAX);
    for (unsigned i = 0; i < raft->n_members; i++)
        if (raft->members[i].id == j->host->id)
            self = &raft->members[i];
    if (self == NULL || self->role == RLOG_SPARE)
        return j->host->phase != PHASE_JOINING; /* a removed member does not ask to come back */
    bool noted = self->role == RLOG_STANDBY &&
                 local_has(j->host, MEMBER_NONVOTER_KEY, j->host->options->name, false);
    if (j->host->phase == PHASE_JOINING)
        become_member(j, self, noted);
    return self->role == RLOG_VOTER || noted;
}

static void join_tick(void *self)
{
    struct join *j = self;
    struct rlog_status raft;
    ASSERT(part_on_thread(j->host));
    if (j->host->rlog == NULL || j->host->removed ||
        (j->host->phase != PHASE_JOINING && j->host->phase != PHASE_MEMBER))
        return;
    rlog_status(j->host->rlog, &raft);
    if (settled(j, &raft))
        return;
    uint64_t now = env_mono_ms(j->host->env);
    if (now - j->asked_ms < ASK_EVERY_MS)
        return;
    j->asked_ms = now;
    ask_to_join(j, &raft);
}

static void on_added(struct rlog_admin *a, enum status st)
{
    struct join *j = CONTAINER_OF(a, struct join, add);
    ASSERT(part_on_thread(j->host));
    ASSERT(j->adding);
    j->adding = false;
    if (st == ST_OK)
        trace(TRACE_INFO, "node", "added %s, raft id %llu, %s", a->member.name,
              (unsigned long long)a->member.id,
              a->member.role == RLOG_VOTER ? "as a voter" : "without a vote");
    else
        trace(TRACE_WARN, "node", "%s was not added: %s %s", a->member.name, status_text(st),
              a->reason.text);
}

/* Store the wish before adding the member, so that any later leader adds it without a vote. */
static void note_non_voter(struct join *j, const char *name)
{
    CLEANUP(rlog_txn_done) struct rlog_txn_builder txn = {0};
    char key[MEMBER_KEY_MAX];
    int len = snprintf(key, sizeof key, MEMBER_NONVOTER_KEY "%s", name);
    ASSERT(len > 0 && (size_t)len < sizeof key); /* cannot be cut: parse_join checked the name */
    rlog_txn_put(&txn, bytes_str(key), BYTES("wished"));
    /* the leader adds the node when it asks the next time */
    j->host->calls->write(j->host, &txn, NULL);
}

/* The role that a node may have now: a vote comes after a time of health. A stored record of the
 * name keeps the node without a vote. */
static enum rlog_role role_of(const struct join *j, const struct rlog_member *who, bool noted)
{
    return !noted && health_stable(j->health, who->id) ? RLOG_VOTER : RLOG_STANDBY;
}

/* Add or promote a node. `who->role` RLOG_STANDBY: the node wants no vote. */
static void add_member(struct join *j, const struct rlog_member *who,
                       const struct rlog_status *raft)
{
    uint64_t replaces = 0;
    ASSERT(raft->is_leader);
    ASSERT(who->id != 0);
    ASSERT(raft->n_members <= RLOG_MEMBERS_MAX);
    bool noted = local_has(j->host, MEMBER_NONVOTER_KEY, who->name, true);
    enum rlog_role role = role_of(j, who, noted);
    for (unsigned i = 0; i < raft->n_members; i++) {
        const struct rlog_member *m = &raft->members[i];
        if (m->id == who->id && m->role >= role && strcmp(m->name, who->name) == 0)
            return; /* drop the request: the node has this role, and may not have noticed yet */
        if (m->id != who->id && strcmp(m->name, who->name) == 0)
            replaces = m->id;
    }
    if (j->adding || replaces == j->host->id || removed_is(j->host, who->name, true))
        return;
    if (who->role == RLOG_STANDBY && !noted) {
        note_non_voter(j, who->name);
        return;
    }
    j->adding = true;
    j->add = (struct rlog_admin){.done = on_added, .member = *who, .replaces = replaces};
    j->add.member.role = role;
    rlog_member_add(j->host->rlog, &j->add);
}

static enum status parse_join(struct bytes content, struct rlog_member *ret_who)
{
    struct join_ask ask = {0};
    TRY(record_decode(&ask_record, content, NULL, &ask));
    *ret_who =
        (struct rlog_member){.id = ask.id, .role = ask.non_voter ? RLOG_STANDBY : RLOG_VOTER};
    memcpy(ret_who->name, ask.name, sizeof ask.name);
    memcpy(ret_who->address, ask.address, sizeof ask.address);
    return ST_OK;
}

/* A join frame of the joining node itself, or forwarded by a member that does not lead. */
static void hear_join(struct join *j, const char *from_name, struct bytes content)
{
    struct rlog_member who;
    struct rlog_status raft;
    ASSERT(part_on_thread(j->host));
    if (j->host->rlog == NULL || parse_join(content, &who) != ST_OK)
        return;
    bool itself = strcmp(who.name, from_name) == 0, member = false;
    rlog_status(j->host->rlog, &raft);
    for (unsigned i = 0; i < raft.n_members; i++)
        member = member || strcmp(raft.members[i].name, from_name) == 0;
    if (!itself && !member)
        return;
    if (raft.is_leader)
        add_member(j, &who, &raft);
    else if (itself && raft.leader != 0)
        j->host->calls->send(j->host, raft.leader, FRAME_JOIN, content);
}

static bool join_receive(void *self, const struct part_frame *frame)
{
    if (frame->kind != FRAME_JOIN)
        return false;
    hear_join(self, frame->from_name, frame->content);
    return true;
}

static enum status join_start(void *self, struct part_host *host)
{
    struct join *j = self;
    ASSERT(j->host == NULL && !j->adding);
    j->host = host;
    return ST_OK;
}

const struct part join_part = {
    .name = "join", .start = join_start, .tick = join_tick, .receive = join_receive};
