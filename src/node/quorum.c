/* Detects that the cluster cannot elect a leader: each member counts the voters that it reaches.
 *
 *   leader known ─lost─▶ counting ─too few voters for SHORT_MS─▶ no quorum ─enough, or a leader─▶ …
 *
 * A voter is reached while a link to it is up. Without a leader it must also be heard, because the
 * kernel of a paused process keeps the link: voters ask each other for votes then, so each answers
 * at least once per election timeout. Before the first start, the error names the initial
 * members that have not been heard. */
#include "node/quorum.h"
#include "base/trace.h"

#include <stdio.h>

enum {
    SILENT_MS = 5000, /* a voter that is silent for this time counts as not reached */
    SHORT_MS = 3000,  /* an election, or two nodes that restart together, end sooner */
};

/* Append `item`. If `text` has no room for the item and the final count, count the item in
 * *left_out. */
static void add_item(struct reason *text, const char *item, unsigned *left_out)
{
    enum { COUNT_ROOM = 16 }; /* room for " and 16 more" */
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

void quorum_heard(struct quorum *q, uint64_t from)
{
    unsigned at = 0;
    ASSERT(part_on_thread(q->host));
    if (q->since_ms == 0)
        return; /* a leader exists, so there is a quorum */
    for (unsigned i = 0; i < RLOG_MEMBERS_MAX; i++) {
        if (q->heard[i].id == from) {
            at = i;
            break;
        }
        if (q->heard[i].ms < q->heard[at].ms)
            at = i;
    }
    q->heard[at].id = from;
    q->heard[at].ms = env_mono_ms(q->host->env);
}

static bool was_heard(const struct quorum *q, uint64_t id, uint64_t now)
{
    for (unsigned i = 0; i < RLOG_MEMBERS_MAX; i++)
        if (q->heard[i].id == id)
            return now - q->heard[i].ms < SILENT_MS;
    return false;
}

/* `asks`: this node is a voter without a leader for a while, so reachable voters send to it. */
static bool reaches(const struct quorum *q, uint64_t id, bool asks, uint64_t now)
{
    if (id == q->host->id)
        return true;
    return q->host->mesh != NULL && mesh_linked(q->host->mesh, id) &&
           (!asks || was_heard(q, id, now));
}

static bool is_voter(const struct rlog_status *raft, uint64_t id)
{
    for (unsigned i = 0; i < raft->n_members; i++)
        if (raft->members[i].id == id)
            return raft->members[i].role == RLOG_VOTER;
    return false;
}

static void quorum_explain(struct quorum *q, const struct rlog_status *raft, unsigned reached,
                           unsigned voters, uint32_t missing)
{
    unsigned left_out = 0;
    ASSERT(reached <= voters / 2);
    reason_set(&q->why, "no quorum: %u of %u voters reachable, %u needed; missing ", reached,
               voters, voters / 2 + 1);
    for (unsigned i = 0; i < raft->n_members; i++)
        if ((missing >> i & 1) != 0)
            add_item(&q->why, raft->members[i].name, &left_out);
    end_items(&q->why, left_out);
}

/* Log what has changed since the last line: the quorum, or which voters are missing. `why` "":
 * there is a quorum. */
static void quorum_report(struct quorum *q, const struct reason *why)
{
    ASSERT(part_on_thread(q->host));
    if (strcmp(q->reported.text, why->text) == 0)
        return;
    if (why->text[0] != '\0')
        trace(TRACE_WARN, "node", "%s: nothing can be written until enough of them run", why->text);
    else
        trace(TRACE_INFO, "node", "enough voters are reachable again: there is a quorum");
    q->reported = *why;
}

static void quorum_changed(void *self, const struct rlog_status *raft)
{
    struct quorum *q = self;
    uint64_t now = env_mono_ms(q->host->env);
    unsigned voters = 0, reached = 0;
    uint32_t missing = 0;
    ASSERT(part_on_thread(q->host));
    ASSERT(raft->n_members <= ARRAY_LEN(q->reached));
    if (raft->leader != 0)
        q->since_ms = 0;
    else if (q->since_ms == 0)
        q->since_ms = now;
    bool asks = q->since_ms != 0 && now - q->since_ms >= SILENT_MS && is_voter(raft, q->host->id);

    struct node_status *s = board_begin(q->board);
    q->n_reached = 0;
    for (unsigned i = 0; i < raft->n_members; i++) {
        const struct rlog_member *m = &raft->members[i];
        bool here = reaches(q, m->id, asks, now);
        if (here)
            q->reached[q->n_reached++] = m->id;
        voters += m->role == RLOG_VOTER;
        reached += m->role == RLOG_VOTER && here;
        missing |= m->role == RLOG_VOTER && !here ? 1u << i : 0;
    }
    if (raft->leader != 0 || q->host->removed || reached > voters / 2 || voters == 0)
        q->short_ms = 0;
    else if (q->short_ms == 0)
        q->short_ms = now;
    s->no_quorum = q->short_ms != 0 && now - q->short_ms >= SHORT_MS;
    if (s->no_quorum)
        quorum_explain(q, raft, reached, voters, missing);
    const struct reason why = s->no_quorum ? q->why : (struct reason){{0}};
    board_end(q->board);
    quorum_report(q, &why);
}

bool quorum_reaches(const struct quorum *q, uint64_t id)
{
    for (unsigned i = 0; i < q->n_reached; i++)
        if (q->reached[i] == id)
            return true;
    return false;
}

bool quorum_lost(struct quorum *q, struct reason *ret_why)
{
    pthread_mutex_lock(&q->board->lock);
    bool lost = q->board->status.no_quorum;
    if (lost)
        *ret_why = q->why;
    pthread_mutex_unlock(&q->board->lock);
    return lost;
}

void quorum_await(struct quorum *q)
{
    struct reason awaits = {{0}};
    const struct initial_members *f = &q->bootstrap->initial;
    unsigned left_out = 0;
    ASSERT(part_on_thread(q->host));
    if (q->host->phase == PHASE_FRESH) {
        reason_set(&awaits, "not initialised: this node waits for the initial members ");
        size_t start = strlen(awaits.text);
        for (unsigned i = 0; i < f->n; i++) {
            char item[INITIAL_NAME_MAX + MESH_ADDRESS_MAX + 3];
            if (i == f->self || f->members[i].heard)
                continue;
            (void)snprintf(item, sizeof item, "%s (%s)", f->members[i].name,
                           /* cannot be cut: both texts are bounded */
                           q->host->options->initial_members[i].address);
            add_item(&awaits, item, &left_out);
        }
        end_items(&awaits, left_out);
        if (awaits.text[start] == '\0')
            reason_set(&awaits, "not initialised: the initial members are starting the cluster");
    }
    pthread_mutex_lock(&q->board->lock);
    q->awaits = awaits;
    pthread_mutex_unlock(&q->board->lock);
}

bool quorum_awaits(struct quorum *q, struct reason *ret_why)
{
    pthread_mutex_lock(&q->board->lock);
    bool awaits = q->awaits.text[0] != '\0';
    if (awaits)
        *ret_why = q->awaits;
    pthread_mutex_unlock(&q->board->lock);
    return awaits;
}

static void quorum_tick(void *self)
{
    struct quorum *q = self;
    if (q->host->phase == PHASE_FRESH)
        quorum_await(q);
}

static enum status quorum_start(void *self, struct part_host *host)
{
    struct quorum *q = self;
    ASSERT(q->host == NULL && q->n_reached == 0);
    q->host = host;
    return ST_OK;
}

const struct part quorum_part = {
    .name = "quorum", .start = quorum_start, .tick = quorum_tick, .changed = quorum_changed};
