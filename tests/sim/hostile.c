/* A peer that lies: it sends frames that are malformed, or that no correct peer could send in this
 * state. A node drops such a frame and is unchanged. And a peer of a later version, whose entries
 * stop a node (PROTOCOL R6). */
#include "cluster.h"

#include "base/mem.h"
#include "raft/replica/rlog_wire.h"

#include <inttypes.h>
#include <stdlib.h>

enum { NOISE_MAX = 200, FUTURE_PERMILLE = 5 };

/* What a lie must leave as it is. */
struct stance {
    uint64_t term, leader, commit, applied, snapshot, version, last;
    unsigned n_members;
    bool leads;
};

static struct stance stance_of(struct node *n)
{
    struct rlog_status s;
    rlog_status(n->rlog, &s);
    return (struct stance){.term = s.term,
                           .leader = s.leader,
                           .commit = s.commit_index,
                           .applied = s.applied_index,
                           .snapshot = s.snapshot_index,
                           .version = s.version,
                           .last = s.is_leader ? 0 : s.last_index, /* it may propose meanwhile */
                           .n_members = s.n_members,
                           .leads = s.is_leader};
}

static bool stance_eq(const struct stance *a, const struct stance *b)
{
    return a->term == b->term && a->leader == b->leader && a->commit == b->commit &&
           a->applied == b->applied && a->snapshot == b->snapshot && a->version == b->version &&
           a->last == b->last && a->n_members == b->n_members && a->leads == b->leads;
}

static void frame_add(struct buf *out, struct rlog_frame *f, const struct rlog_entry *entries)
{
    f->core.entries = entries;
    rlog_wire_encode(f, out);
    for (unsigned i = 0; f->core.raft.type == RAFT_APPEND_ENTRIES && entries != NULL &&
                         i < f->core.raft.append_entries.n_entries;
         i++)
        buf_add(out, entries[i].data);
}

/* Messages in the name of a leader: each is wrong in one way. */
static void lie_append(struct rng *r, const struct rlog_status *s, struct buf *out)
{
    static const uint8_t eight[8];
    struct rlog_entry entries[2] = {{s->term, RLOG_BARRIER, bytes_of(eight, 8), NULL},
                                    {s->term, RLOG_BARRIER, bytes_of(eight, 8), NULL}};
    struct rlog_frame f = {.kind = RLOG_FRAME_CORE};
    struct raft_append_entries *ae = &f.core.raft.append_entries;
    f.core.raft.type = RAFT_APPEND_ENTRIES;
    *ae = (struct raft_append_entries){.term = s->term + 2,
                                       .prev_log_index = MAX(s->last_index, 1u),
                                       .prev_log_term = s->term,
                                       .leader_commit = s->last_index + 2,
                                       .n_entries = 2};
    switch (rng_below(r, s->is_leader ? 8 : 7)) {
    case 0: ae->term = 0; break;
    case 1: ae->prev_log_index = 0; break;
    case 2: ae->prev_log_term = 0; break;
    case 3: ae->prev_log_term = ae->term + 1; break;
    case 4: entries[1].term = s->term - 1; break;
    case 5: entries[1].term = ae->term + 1; break;
    case 6: entries[rng_below(r, 2)].type = RLOG_CHANGE; break; /* that does not decode */
    default: ae->term = s->term; break;                         /* this node leads that term */
    }
    frame_add(out, &f, entries);
}

static void lie_vote(struct rng *r, const struct rlog_status *s, uint64_t from, struct buf *out)
{
    struct rlog_frame f = {.kind = RLOG_FRAME_CORE};
    struct raft_request_vote *v = &f.core.raft.request_vote;
    f.core.raft.type = RAFT_REQUEST_VOTE;
    *v = (struct raft_request_vote){.term = s->term + 3,
                                    .candidate_id = from,
                                    .last_log_index = s->last_index + 10,
                                    .last_log_term = s->term,
                                    .disrupt_leader = true};
    switch (rng_below(r, 4)) {
    case 0: v->term = 0; break;
    case 1: v->candidate_id = s->id; break;
    case 2: v->last_log_term = v->term + 1; break;
    default: v->last_log_index = 0; break;
    }
    frame_add(out, &f, NULL);
}

static void lie_answer(struct rng *r, const struct rlog_status *s, struct buf *out)
{
    struct rlog_frame f = {.kind = RLOG_FRAME_CORE};
    struct raft_message *m = &f.core.raft;
    switch (rng_below(r, 4)) {
    case 0:
        m->type = RAFT_APPEND_ENTRIES_RESULT;
        m->append_entries_result.last_log_index = s->last_index;
        break;
    case 1:
        m->type = RAFT_REQUEST_VOTE_RESULT;
        m->request_vote_result.vote_granted = true;
        break;
    case 2: m->type = RAFT_TIMEOUT_NOW; break;
    default: /* what the leader has committed, from somebody who does not lead */
        f.kind = RLOG_FRAME_COMMIT;
        f.ask.term = s->term + 1;
        f.ask.commit = s->last_index;
        break;
    }
    frame_add(out, &f, NULL); /* terms are 0 */
}

/* No frame: bytes of chance, or one that ends early or late. */
static void lie_bytes(struct rng *r, const struct rlog_status *s, struct buf *out)
{
    if (rng_chance(r, 500)) {
        lie_append(r, s, out);
        if (rng_chance(r, 500))
            out->len -= 1 + (size_t)rng_below(r, out->len - 3);
        else
            buf_add_u8(out, 0);
        return;
    }
    for (uint64_t i = rng_below(r, NOISE_MAX); i > 0; i--)
        buf_add_u8(out, (uint8_t)rng_u64(r));
    if (out->len > 0)
        out->data[0] |= 0x80; /* no version of ours */
}

/* Somebody to speak for: a peer, this node itself, or nobody. */
static uint64_t liar(struct rng *r, const struct rlog_status *s)
{
    uint64_t id = s->members[rng_below(r, MAX(s->n_members, 1u))].id;
    return rng_chance(r, 200) ? rng_u64(r) >> 1 | 1 : id;
}

static const char *name_of(const struct rlog_status *s, uint64_t id)
{
    for (unsigned i = 0; i < s->n_members; i++)
        if (s->members[i].id == id)
            return s->members[i].name;
    return "stranger";
}

/* A command of a later version of the program: what could have followed the node's log. */
static bool future_make(struct node *n, const struct rlog_status *s, struct buf *out)
{
    CLEANUP(buf_done) struct buf txn = {0};
    CLEANUP(buf_done) struct buf entry = {0};
    struct rlog_txn_builder b = {0};
    struct rlog_frame f = {.kind = RLOG_FRAME_CORE};
    struct raft_append_entries *ae = &f.core.raft.append_entries;
    rlog_txn_put(&b, BYTES("s/future"), BYTES("?"));
    bool well = rlog_txn_encode(&b, &txn) == ST_OK;
    rlog_txn_done(&b);
    struct bytes one = buf_bytes(&txn);
    if (!well || rlog_entry_encode(RLOG_FEATURE_FIRST, s->time_ms, &one, 1, &entry) != ST_OK)
        return false;
    le16_put(entry.data + 2, RLOG_FEATURE + 1); /* format, then feature level: raft/FORMAT.md */
    struct rlog_entry e = {s->term, RLOG_COMMAND, buf_bytes(&entry), NULL};
    f.core.raft.type = RAFT_APPEND_ENTRIES;
    ae->term = s->term;
    ae->prev_log_index = s->last_index;
    ae->prev_log_term = rlog_entry_term(n->rlog, s->last_index);
    if (s->last_index > 0 && ae->prev_log_term == 0)
        return false; /* a snapshot is being installed: no leader sends entries now */
    ae->n_entries = 1;
    frame_add(out, &f, &e);
    return true;
}

/* A node that its cluster has left behind stops, and has taken nothing of it. */
static void tell_future(struct cluster *c, struct node *n)
{
    CLEANUP(buf_done) struct buf frame = {0};
    struct rlog_status s, after;
    rlog_status(n->rlog, &s);
    if (s.is_leader || s.leader == 0 || s.term == 0 || !future_make(n, &s, &frame))
        return;
    rlog_receive(n->rlog, s.leader, name_of(&s, s.leader), buf_bytes(&frame));
    rlog_status(n->rlog, &after);
    if (!n->fatal || after.last_index != s.last_index || after.version != s.version)
        core_fail(c->core, "%s goes on with an entry of a later format", n->name);
    core_say(c->core, "%s gets an entry of a later format", n->name);
    c->tally.reached[REACH_FUTURE]++;
    n->outdated = true;
}

static void lie(struct cluster *c, struct node *n)
{
    CLEANUP(buf_done) struct buf frame = {0};
    struct rlog_status s;
    struct rng *r = &c->lies;
    rlog_status(n->rlog, &s);
    uint64_t from = liar(r, &s);
    uint64_t kind = rng_below(r, 4);
    if (s.term == 0)
        return; /* nothing to lie about yet */
    switch (kind) {
    case 0: lie_append(r, &s, &frame); break;
    case 1: lie_vote(r, &s, from, &frame); break;
    case 2: lie_answer(r, &s, &frame); break;
    default: lie_bytes(r, &s, &frame); break;
    }
    struct stance before = stance_of(n);
    rlog_receive(n->rlog, from, name_of(&s, from), buf_bytes(&frame));
    struct stance after = stance_of(n);
    c->tally.reached[REACH_LIE]++;
    if (n->fatal || !stance_eq(&before, &after))
        core_fail(c->core,
                  "%s believed a lie of kind %" PRIu64 ": term %" PRIu64 "->%" PRIu64
                  " last %" PRIu64 "->%" PRIu64 " commit %" PRIu64 "->%" PRIu64,
                  n->name, kind, before.term, after.term, before.last, after.last, before.commit,
                  after.commit);
}

static void on_lie(struct event *event)
{
    struct cluster *c = CONTAINER_OF(event, struct cluster, hostile);
    struct node *n = &c->nodes[rng_below(&c->lies, SLOTS)];
    core_after(c->core, event, rng_between(&c->lies, 1, 2 * c->profile.lie_every_ms) * SIM_MS);
    if (n->state != NODE_UP || n->closing || n->fatal || n->env.stalled_until_ns > c->core->now_ns)
        return;
    sim_env_enter(&n->env);
    if (!c->calm && rng_chance(&c->lies, FUTURE_PERMILLE))
        tell_future(c, n);
    else
        lie(c, n);
    (void)sim_env_leave(&n->env); /* nothing is touched after it */
}

void hostile_start(struct cluster *c)
{
    c->lies = rng_make(c->core->seed, cluster_stream(c, 0x11E5));
    c->hostile.fire = on_lie;
    if (c->profile.lie_every_ms != 0)
        core_after(c->core, &c->hostile, 800 * SIM_MS);
}
