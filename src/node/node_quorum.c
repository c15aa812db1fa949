/* A cluster that cannot elect a leader is seen from its members only: each counts the voters that
 * it reaches.
 *
 *   leader known ─lost─▶ counting ─too few voters for SHORT_MS─▶ no quorum ─enough, or a leader─▶ …
 *
 * A voter is reached while a link to it is up. Without a leader it must also be heard, because the
 * kernel of a paused process keeps the link: voters ask each other for votes then, so each answers
 * at least once per election timeout. Before the first start, the same is told of the initial
 * members that have not been heard. */
#include "node/node_internal.h"

#include <stdio.h>

enum {
    SILENT_MS = 5000, /* a voter that says nothing for so long is not reached */
    SHORT_MS = 3000,  /* an election, or two nodes that restart together, end sooner */
};

/* Append `item`, or count it in *left_out where `text` has no room for it and the count. */
static void add_item(struct reason *text, const char *item, unsigned *left_out)
{
    enum { COUNT_ROOM = 16 }; /* " and 16 more" */
    size_t at = strlen(text->text), room = sizeof text->text - at;
    bool fits = *left_out == 0 && strlen(item) + 2 + COUNT_ROOM < room;
    if (!fits)
        ++*left_out;
    else
        (void)snprintf(text->text + at, room, "%s%s", text->text[at - 1] == ' ' ? "" : ", ", item);
}

static void end_items(struct reason *text, unsigned left_out)
{
    size_t at = strlen(text->text);
    if (left_out != 0)
        (void)snprintf(text->text + at, sizeof text->text - at, " and %u more", left_out);
}

void node_quorum_heard(struct node *n, uint64_t from)
{
    struct node_quorum *q = &n->quorum;
    unsigned at = 0;
    if (q->since_ms == 0)
        return; /* there is a leader */
    for (unsigned i = 0; i < RLOG_MEMBERS_MAX; i++) {
        if (q->heard[i].id == from) {
            at = i;
            break;
        }
        if (q->heard[i].ms < q->heard[at].ms)
            at = i;
    }
    q->heard[at].id = from;
    q->heard[at].ms = env_mono_ms(n->host.env);
}

static bool was_heard(const struct node_quorum *q, uint64_t id, uint64_t now)
{
    for (unsigned i = 0; i < RLOG_MEMBERS_MAX; i++)
        if (q->heard[i].id == id)
            return now - q->heard[i].ms < SILENT_MS;
    return false;
}

/* `asks`: this node is a voter without a leader for a while, so whom it reaches answers it. */
static bool reaches(struct node *n, uint64_t id, bool asks, uint64_t now)
{
    if (id == n->host.id)
        return true;
    return n->host.mesh != NULL && mesh_linked(n->host.mesh, id) &&
           (!asks || was_heard(&n->quorum, id, now));
}

static bool is_voter(const struct rlog_status *raft, uint64_t id)
{
    for (unsigned i = 0; i < raft->n_members; i++)
        if (raft->members[i].id == id)
            return raft->members[i].role == RLOG_VOTER;
    return false;
}

static void explain(struct node_quorum *q, const struct rlog_status *raft, unsigned reached,
                    unsigned voters, uint32_t missing)
{
    unsigned left_out = 0;
    reason_set(&q->why, "no quorum: %u of %u voters reachable, %u needed; missing ", reached,
               voters, voters / 2 + 1);
    for (unsigned i = 0; i < raft->n_members; i++)
        if ((missing >> i & 1) != 0)
            add_item(&q->why, raft->members[i].name, &left_out);
    end_items(&q->why, left_out);
}

void node_quorum_look(struct node *n, const struct rlog_status *raft)
{
    struct node_quorum *q = &n->quorum;
    uint64_t now = env_mono_ms(n->host.env);
    unsigned voters = 0, reached = 0;
    uint32_t missing = 0;
    if (raft->leader != 0)
        q->since_ms = 0;
    else if (q->since_ms == 0)
        q->since_ms = now;
    bool asks = q->since_ms != 0 && now - q->since_ms >= SILENT_MS && is_voter(raft, n->host.id);

    pthread_mutex_lock(&n->lock);
    q->n_reached = 0;
    for (unsigned i = 0; i < raft->n_members; i++) {
        const struct rlog_member *m = &raft->members[i];
        bool here = reaches(n, m->id, asks, now);
        if (here)
            q->reached[q->n_reached++] = m->id;
        voters += m->role == RLOG_VOTER;
        reached += m->role == RLOG_VOTER && here;
        missing |= m->role == RLOG_VOTER && !here ? 1u << i : 0;
    }
    if (raft->leader != 0 || n->host.removed || reached > voters / 2 || voters == 0)
        q->short_ms = 0;
    else if (q->short_ms == 0)
        q->short_ms = now;
    n->status.no_quorum = q->short_ms != 0 && now - q->short_ms >= SHORT_MS;
    if (n->status.no_quorum)
        explain(q, raft, reached, voters, missing);
    node_brief_publish(n);
    pthread_mutex_unlock(&n->lock);
}

bool node_quorum_reaches(const struct node *n, uint64_t id)
{
    for (unsigned i = 0; i < n->quorum.n_reached; i++)
        if (n->quorum.reached[i] == id)
            return true;
    return false;
}

bool node_no_quorum(struct node *node, struct reason *ret_why)
{
    pthread_mutex_lock(&node->lock);
    bool lost = node->status.no_quorum;
    if (lost)
        *ret_why = node->quorum.why;
    pthread_mutex_unlock(&node->lock);
    return lost;
}

void node_quorum_await(struct node *n)
{
    struct reason awaits = {{0}};
    unsigned left_out = 0;
    if (n->phase == NODE_FRESH) {
        reason_set(&awaits, "not initialised: this node waits for the initial members ");
        size_t start = strlen(awaits.text);
        for (unsigned i = 0; i < n->founding.n; i++) {
            char item[FOUNDER_NAME_MAX + MESH_ADDRESS_MAX + 3];
            if (i == n->founding.self || n->founding.founders[i].heard)
                continue;
            (void)snprintf(item, sizeof item, "%s (%s)", n->founding.founders[i].name,
                           n->options.founders[i].address); /* both bounded */
            add_item(&awaits, item, &left_out);
        }
        end_items(&awaits, left_out);
        if (awaits.text[start] == '\0')
            reason_set(&awaits, "not initialised: the initial members are starting the cluster");
    }
    pthread_mutex_lock(&n->lock);
    n->quorum.awaits = awaits;
    pthread_mutex_unlock(&n->lock);
}

bool node_awaits_members(struct node *node, struct reason *ret_why)
{
    pthread_mutex_lock(&node->lock);
    bool awaits = node->quorum.awaits.text[0] != '\0';
    if (awaits)
        *ret_why = node->quorum.awaits;
    pthread_mutex_unlock(&node->lock);
    return awaits;
}
