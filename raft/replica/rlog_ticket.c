/* Tickets: no request conflicts for ever (R5). After its second conflict a request gets a number.
 * In the order of the numbers the request then claims the key of its conflict. While the claim
 * holds, other transactions that write this key wait at a fence, so the request finds the key
 * unchanged when it runs again.
 *
 *   conflict -> WANTS (claim taken when no older number has it) -> pending writes drain
 *            -> ST_CONFLICT is delivered, the request runs again -> proposes -> done: released
 *
 * An older number takes a claim from a younger one, so numbers never wait for each other in a
 * circle. A request that does not come back in time loses its number. */
#include "base/mem.h"
#include "raft/replica/rlog_internal.h"

enum {
    TICKETS_MAX = 512,
    CLAIM_MS = 2000,
    CHECK_MS = 50,
    FIRST = 1, /* marks a request that has conflicted once and has no ticket yet */
};

static void on_timer(struct env_timer *timer);

void rlog_tickets_init(struct rlog *r)
{
    list_init(&r->tickets.all);
    list_init(&r->tickets.fenced);
    r->tickets.timer.fire = on_timer;
    r->tickets.last = FIRST;
}

static struct rlog_ticket *ticket_find(struct rlog *r, uint64_t number)
{
    LIST_FOR (link, &r->tickets.all) {
        struct rlog_ticket *t = CONTAINER_OF(link, struct rlog_ticket, link);
        if (t->number == number)
            return t;
    }
    return NULL;
}

static bool claims(const struct rlog_ticket *t, uint64_t hash)
{
    for (unsigned i = 0; i < t->n_claims; i++)
        if (t->claims[i] == hash)
            return true;
    return false;
}

static struct rlog_ticket *owner_of(struct rlog *r, uint64_t hash)
{
    LIST_FOR (link, &r->tickets.all) {
        struct rlog_ticket *t = CONTAINER_OF(link, struct rlog_ticket, link);
        if (claims(t, hash))
            return t;
    }
    return NULL;
}

static void unclaim(struct rlog_ticket *t, uint64_t hash)
{
    for (unsigned i = 0; i < t->n_claims; i++)
        if (t->claims[i] == hash) {
            t->claims[i] = t->claims[--t->n_claims];
            return;
        }
}

static void claim(struct rlog_ticket *t, uint64_t hash)
{
    if (claims(t, hash))
        return;
    ASSERT(t->n_claims <= ARRAY_LEN(t->claims));
    if (t->n_claims == ARRAY_LEN(t->claims))
        t->claims[0] = t->claims[--t->n_claims];
    t->claims[t->n_claims++] = hash;
}

static void ticket_free(struct rlog *r, struct rlog_ticket *t)
{
    ASSERT(t->waiting == NULL);
    ASSERT(r->tickets.n > 0);
    list_remove(&t->link);
    r->tickets.n--;
    mem_free(t);
}

/* Hand out claims in the order of numbers. Deliver ST_CONFLICT to requests whose claimed key is
 * quiet now. */
static void grant(struct rlog *r)
{
    LIST_FOR_SAFE (link, after, &r->tickets.all) {
        struct rlog_ticket *t = CONTAINER_OF(link, struct rlog_ticket, link);
        if (t->waiting == NULL)
            continue;
        struct rlog_ticket *owner = owner_of(r, t->wants);
        if (owner != NULL && owner->number < t->number)
            continue;
        if (owner != NULL && owner != t)
            unclaim(owner, t->wants);
        claim(t, t->wants);
        if (rlog_conflicts_pending_key(r, t->wants))
            continue;
        struct rlog_propose *p = t->waiting;
        t->waiting = NULL;
        t->expires_ms = rlog_now(r) + CLAIM_MS;
        /* the rerun must see the writes that it waited for */
        p->applied.version = r->machine.version;
        rlog_propose_finish(r, p, ST_CONFLICT);
    }
    if (r->tickets.n > 0 && r->tickets.timer.slot == 0)
        env_timer_set(r->env, &r->tickets.timer, rlog_now(r) + CHECK_MS);
}

struct kind_search {
    struct bytes conflict;
    bool prefix;
};

static void kind_touch(void *ctx, enum rlog_touch touch, struct bytes key)
{
    struct kind_search *s = ctx;
    if (touch == RLOG_TOUCH_NEED_PREFIX && bytes_eq(key, s->conflict))
        s->prefix = true;
}

static uint64_t conflict_hash(const struct rlog_propose *p)
{
    struct kind_search s = {.conflict = p->applied.conflict};
    rlog_txn_touch_needs(p->txn, kind_touch, &s);
    return rlog_key_hash(s.prefix ? rlog_key_folder(s.conflict) : s.conflict);
}

static struct rlog_ticket *ticket_new(struct rlog *r)
{
    struct rlog_ticket *t = r->tickets.n < TICKETS_MAX ? mem_zalloc(sizeof *t) : NULL;
    if (t == NULL)
        return NULL;
    t->number = ++r->tickets.last;
    list_push(&r->tickets.all, &t->link);
    r->tickets.n++;
    return t;
}

/* Whether the proposal conflicts because the cluster follows another one: a claim on the key would
 * not help the rerun, and would delay the end of the following. */
static bool by_following(const struct rlog_propose *p)
{
    return bytes_eq(p->applied.conflict, BYTES(RLOG_FOLLOWING));
}

/* p->applied.conflict is set. Ends the proposal with ST_CONFLICT, now or when the turn of its
 * ticket comes. */
void rlog_tickets_conflict(struct rlog *r, struct rlog_propose *p)
{
    struct rlog_ticket *t = NULL;
    ASSERT(!p->counted && !p->marked);
    p->applied.outcome = RLOG_CONFLICTED;
    p->applied.version = r->machine.version;
    r->conflicts++;
    if (p->ticket > FIRST)
        t = ticket_find(r, p->ticket);
    else if (p->ticket == FIRST && p->applied.conflict.len > 0 && !by_following(p))
        t = ticket_new(r);
    if (t == NULL || t->waiting != NULL) {
        p->ticket = FIRST;
        rlog_propose_finish(r, p, ST_CONFLICT);
        return;
    }
    p->ticket = t->number;
    t->wants = conflict_hash(p);
    t->waiting = p;
    t->expires_ms = 0;
    r->again = true; /* the next round of the pump grants the ticket */
}

/* A proposal came back with its ticket: it does not expire while we have it. */
void rlog_tickets_hold(struct rlog *r, const struct rlog_propose *p)
{
    struct rlog_ticket *t = p->ticket > FIRST ? ticket_find(r, p->ticket) : NULL;
    if (t != NULL)
        t->expires_ms = 0;
}

static void release(struct rlog *r, struct rlog_ticket *t)
{
    if (t == NULL || t->waiting != NULL)
        return;
    ticket_free(r, t);
    r->tickets.released = true;
    r->again = true;
}

/* The proposal ended with another status than ST_CONFLICT. */
void rlog_tickets_settled(struct rlog *r, const struct rlog_propose *p)
{
    if (p->ticket > FIRST)
        release(r, ticket_find(r, p->ticket));
}

void rlog_ticket_drop(struct rlog *r, uint64_t ticket)
{
    rlog_enter(r);
    if (ticket > FIRST)
        release(r, ticket_find(r, ticket));
    rlog_leave_start(r);
}

struct fence_search {
    struct rlog *rlog;
    uint64_t ticket;
    bool found;
};

/* A request with a lower number passes, or two requests could wait for each other. */
static bool fence_hash(void *ctx, uint64_t hash)
{
    struct fence_search *s = ctx;
    const struct rlog_ticket *owner = owner_of(s->rlog, hash);
    return s->found = owner != NULL && (s->ticket <= FIRST || s->ticket > owner->number);
}

static void fence_touch(void *ctx, enum rlog_touch touch, struct bytes key)
{
    struct fence_search *s = ctx;
    if (touch != RLOG_TOUCH_ALL && !s->found)
        (void)rlog_key_hashes(key, fence_hash, s); /* sets found */
}

/* Whether the proposal writes a key that another request's ticket claims. */
bool rlog_tickets_fenced(struct rlog *r, const struct rlog_propose *p)
{
    struct fence_search s = {.rlog = r, .ticket = p->ticket};
    if (r->tickets.n == 0)
        return false;
    rlog_txn_touch_ops(p->txn, fence_touch, &s);
    return s.found;
}

/* Proposals at the fence go on before the next number claims the key, so that neither starves. */
void rlog_tickets_pump(struct rlog *r)
{
    struct list fenced, *link;
    if (r->tickets.released) {
        r->tickets.released = false;
        list_init(&fenced);
        list_splice(&fenced, &r->tickets.fenced);
        while ((link = list_pop(&fenced)) != NULL)
            rlog_propose_late(r, CONTAINER_OF(link, struct rlog_propose, link));
    }
    if (r->tickets.n > 0)
        grant(r);
}

static void on_timer(struct env_timer *timer)
{
    struct rlog *r = CONTAINER_OF(timer, struct rlog, tickets.timer);
    uint64_t now = rlog_now(r);
    rlog_enter(r);
    LIST_FOR_SAFE (link, after, &r->tickets.all) {
        struct rlog_ticket *t = CONTAINER_OF(link, struct rlog_ticket, link);
        if (t->expires_ms != 0 && now >= t->expires_ms)
            release(r, t);
    }
    rlog_leave(r);
}

/* Leadership is lost, or the replica closes: nothing that waits here was proposed. */
void rlog_tickets_fail(struct rlog *r, enum status st)
{
    struct list *link;
    while ((link = list_pop(&r->tickets.fenced)) != NULL)
        rlog_propose_finish(r, CONTAINER_OF(link, struct rlog_propose, link), st);
    LIST_FOR_SAFE (at, after, &r->tickets.all) {
        struct rlog_ticket *t = CONTAINER_OF(at, struct rlog_ticket, link);
        struct rlog_propose *p = t->waiting;
        t->waiting = NULL;
        if (p != NULL)
            p->ticket = 0;
        ticket_free(r, t);
        if (p != NULL)
            rlog_propose_finish(r, p, st);
    }
    ASSERT(r->tickets.n == 0);
    env_timer_stop(r->env, &r->tickets.timer);
}
