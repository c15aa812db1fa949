/* Clients with tokens. Each has one operation under way, through a random node. While the outcome
 * is unknown, the operation is repeated with the same request id. */
#include "front_parts.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    TIMEOUT_MS = 1200,
    ATTEMPTS_MAX = 3,
    RECENT = 40, /* newest tokens, of which one is shown: some have ended long ago */
};

struct agent {
    struct cluster *cluster;
    unsigned index;
    struct rng rng;
    struct event event; /* the next operation, or the timeout of this one */
    bool waiting, maybe, stopped;
    struct front_op op;
    uint64_t called_ns, version; /* version: the newest state it heard of */
    int64_t seen_ms;             /* when the operation began */
};

struct front {
    struct agent *agents;
    unsigned n;
    bool bootstrapped;
    uint64_t numbers;
    uint64_t versions[FRONT_KEYS]; /* that were seen last */
    int64_t seen_ms;               /* the latest cluster time in answers */
    struct front_log log;
};

/* What an operation came to. */

static void count(struct cluster *c, const struct front_answer *a, const struct front_op *op)
{
    struct tally *t = &c->tally;
    const struct front_token *by = &c->front->log.tokens[op->by];
    t->token_ops++;
    t->token_ok += a->verdict == FRONT_DONE || a->verdict == FRONT_DIFFER;
    t->reached[REACH_POLICY_FORBIDS] += a->verdict == FRONT_FORBIDDEN;
    bool rekeyed = op->kind == FRONT_REKEY && op->root && a->verdict == FRONT_DONE;
    t->reached[REACH_REKEYED] += rekeyed && !op->migrate;
    t->reached[REACH_MIGRATED] += rekeyed && op->migrate;
    t->token_refused += a->verdict == FRONT_REFUSED;
    t->reached[REACH_TOKEN_REFUSED] += a->verdict == FRONT_REFUSED;
    t->reached[REACH_TOKEN_SPENT] += a->verdict == FRONT_DONE && a->uses_left == 0;
    t->reached[REACH_LEASE_USED] += op->kind == FRONT_USE && a->verdict == FRONT_DONE;
    t->reached[REACH_LEASE_ENDED] += op->kind == FRONT_USE && a->verdict == FRONT_REFUSED;
    bool below = op->kind == FRONT_BELOW && a->verdict == FRONT_DONE;
    t->reached[REACH_PREFIX_ENDED] += below && a->found;
    t->reached[REACH_PREFIX_LEFT] += below && !a->found;
    t->reached[REACH_BATCH_USED] += by->batch && a->verdict == FRONT_DONE;
    t->reached[REACH_BATCH_REFUSED] += by->batch && a->verdict == FRONT_REFUSED;
    t->reached[REACH_REGISTRY_READ] += op->kind == FRONT_ASK && a->verdict == FRONT_DONE;
    t->reached[REACH_REGISTRY_FORBIDS] += op->kind == FRONT_ASK && a->verdict == FRONT_FORBIDDEN;
    t->reached[REACH_UNWRAPPED] += op->kind == FRONT_UNWRAP && a->verdict == FRONT_DONE;
    t->reached[REACH_REWRAPPED] += op->kind == FRONT_REWRAP && a->verdict == FRONT_DONE;
    t->reached[REACH_UNWRAP_REFUSED] += by->wrapping && a->verdict == FRONT_REFUSED;
    t->reached[REACH_TREE_REVOKED] += op->kind == FRONT_REVOKE && a->found;
    t->reached[REACH_CAS_DIFFERS] += op->kind == FRONT_CAS && a->verdict == FRONT_DIFFER;
}

static void finish(struct agent *ag, const struct front_answer *answer)
{
    struct cluster *c = ag->cluster;
    struct front *f = c->front;
    enum front_verdict verdict = answer->verdict;
    bool certain = verdict != FRONT_UNKNOWN && verdict != FRONT_FAILED;
    core_note(c->core, ag->op.number << 8 | (uint64_t)verdict);
    count(c, answer, &ag->op);
    ag->waiting = false;
    if (certain)
        f->seen_ms = MAX(f->seen_ms, answer->time_ms);
    if (verdict == FRONT_DONE && ag->op.kind == FRONT_BOOTSTRAP)
        f->bootstrapped = true;
    bool has_version =
        ag->op.kind == FRONT_LOOK || ag->op.kind == FRONT_CAS || ag->op.kind == FRONT_ASK;
    if (has_version && (verdict == FRONT_DONE || verdict == FRONT_DIFFER))
        f->versions[ag->op.key] = answer->version;
    if (verdict != FRONT_FAILED && ag->op.kind != FRONT_BOOTSTRAP) {
        const struct front_event event = {
            .op = ag->op,
            .answer = *answer,
            .call_ns = ag->called_ns,
            .ret_ns = certain ? c->core->now_ns : LIN_NEVER,
            .seen_call_ms = ag->seen_ms,
            .seen_ret_ms = f->seen_ms,
        };
        front_log_add(&f->log, &event);
    }
    core_after(c->core, &ag->event, rng_between(&ag->rng, 1, c->profile.think_ms_max) * SIM_MS);
}

static void finish_without(struct agent *ag, enum front_verdict verdict)
{
    const struct front_answer answer = {.number = ag->op.number, .verdict = verdict};
    finish(ag, &answer);
}

/* One operation after the other. */

static void attempt(struct agent *ag)
{
    struct cluster *c = ag->cluster;
    unsigned slot = clients_choose_slot(c, &ag->rng);
    ag->op.attempt++;
    core_say(c->core,
             "front %u: op %" PRIu64 " kind %d by token %" PRIu64 " about %" PRIu64
             " attempt %u to %s",
             ag->index, ag->op.number, ag->op.kind, ag->op.by, ag->op.about, ag->op.attempt,
             c->nodes[slot].name);
    front_send(c, &ag->op, slot);
    core_after(c->core, &ag->event, (TIMEOUT_MS + rng_below(&ag->rng, 600)) * SIM_MS);
}

static void again_or_finish(struct agent *ag)
{
    if (ag->op.attempt < ATTEMPTS_MAX && rng_chance(&ag->rng, 850))
        attempt(ag);
    else
        finish_without(ag, ag->maybe ? FRONT_UNKNOWN : FRONT_FAILED);
}

static enum front_kind choose_kind(struct rng *r, const struct profile *p)
{
    static const unsigned plain[] = {
        [FRONT_BOOTSTRAP] = 0, [FRONT_LOOK] = 40,  [FRONT_CAS] = 28,   [FRONT_CREATE] = 13,
        [FRONT_RENEW] = 7,     [FRONT_REVOKE] = 5, [FRONT_POLICY] = 4, [FRONT_REKEY] = 3,
    };
    static const unsigned with_leases[] = {
        [FRONT_BOOTSTRAP] = 0, [FRONT_LOOK] = 15,  [FRONT_CAS] = 14,   [FRONT_CREATE] = 13,
        [FRONT_RENEW] = 7,     [FRONT_REVOKE] = 7, [FRONT_POLICY] = 2, [FRONT_REKEY] = 2,
        [FRONT_TAKE] = 20,     [FRONT_USE] = 18,   [FRONT_BELOW] = 2,
    };
    static const unsigned with_wraps[] = {
        [FRONT_BOOTSTRAP] = 0, [FRONT_LOOK] = 14,  [FRONT_CAS] = 10,   [FRONT_CREATE] = 17,
        [FRONT_RENEW] = 5,     [FRONT_REVOKE] = 8, [FRONT_POLICY] = 2, [FRONT_REKEY] = 2,
        [FRONT_TAKE] = 5,      [FRONT_USE] = 4,    [FRONT_BELOW] = 1,  [FRONT_WRAP] = 12,
        [FRONT_PEEK] = 7,      [FRONT_UNWRAP] = 8, [FRONT_REWRAP] = 5,
    };
    const unsigned *weight = p->wraps ? with_wraps : p->leases ? with_leases : plain;
    uint64_t at = rng_below(r, 100);
    unsigned i = 0;
    while (at >= weight[i])
        at -= weight[i++];
    return (enum front_kind)i;
}

static uint64_t recent_token(struct agent *ag)
{
    uint64_t n = ag->cluster->front->log.n_tokens;
    uint64_t back = rng_below(&ag->rng, MIN(n, (uint64_t)RECENT));
    return n - 1 - back;
}

enum form { TOKEN, LEASE, WRAPPING, REGISTRY };

static bool is_of_form(const struct front_token *token, enum form form)
{
    enum form own = token->lease      ? LEASE
                    : token->wrapping ? WRAPPING
                    : token->registry ? REGISTRY
                                      : TOKEN;
    return own == form && front_token_is_known(token);
}

/* The newest token at or before `number`, or lease or wrapping token: if there is none, the root
 * token. */
static uint64_t at_or_before(const struct front *f, uint64_t number, enum form form)
{
    while (number != FRONT_ROOT && !is_of_form(&f->log.tokens[number], form))
        number--;
    return number;
}

/* The form of what is shown. */
static enum form shown(enum front_kind kind)
{
    switch (kind) {
    case FRONT_USE: return LEASE;
    case FRONT_ASK: return REGISTRY;
    case FRONT_PEEK:
    case FRONT_UNWRAP:
    case FRONT_REWRAP: return WRAPPING;
    default: return TOKEN;
    }
}

static uint64_t one_of(struct rng *r, const uint64_t *from, size_t n)
{
    return from[rng_below(r, n)];
}

/* A token that nobody made yet: by the root token, or below another one that may make tokens. */
static void compose_create(struct agent *ag)
{
    static const uint64_t ttls[] = {0, 1, 2, 3, 5}, uses[] = {0, 0, 0, 0, 1, 2, 3, 6};
    struct front *f = ag->cluster->front;
    struct front_op *op = &ag->op;
    struct rng *r = &ag->rng;
    if (rng_chance(r, 300) || f->log.tokens[op->by].uses != 0)
        op->by = FRONT_ROOT;
    op->ttl_s = (int64_t)one_of(r, ttls, ARRAY_LEN(ttls));
    op->explicit_max_s = rng_chance(r, 200) ? (int64_t)rng_between(r, 2, 6) : 0;
    op->uses = (int64_t)one_of(r, uses, ARRAY_LEN(uses));
    op->orphan = rng_chance(r, 100);
    op->policy = rng_below(r, FRONT_POLICIES);
    if (ag->cluster->profile.wraps && rng_chance(r, 500)) {
        op->batch = true;
        op->uses = op->explicit_max_s = 0; /* nothing is stored that could count */
    }
    const struct front_token token = {.parent = op->by,
                                      .orphan = op->orphan,
                                      .uses = op->uses,
                                      .policy = op->policy,
                                      .batch = op->batch};
    op->about = front_log_token(&f->log, &token);
}

/* A lease of the token that is shown. */
static void compose_take(struct front *f, struct front_op *op, struct rng *r)
{
    const struct front_token lease = {.parent = op->by, .lease = true};
    op->ttl_s = (int64_t)rng_between(r, 1, 6);
    op->about = front_log_token(&f->log, &lease);
}

/* A wrapping token, of a new reply or of the one that the shown token keeps. */
static void compose_wrap(struct front *f, struct front_op *op, struct rng *r)
{
    bool again = op->kind == FRONT_REWRAP;
    const struct front_token token = {.orphan = true,
                                      .wrapping = true,
                                      .uses = 1,
                                      .value = again ? f->log.tokens[op->by].value : op->number};
    op->ttl_s = again ? 0 : (int64_t)rng_between(r, 1, 6);
    op->about = front_log_token(&f->log, &token);
}

/* Renewals and revocations are about leases too. */
static void compose_about(const struct front *f, struct front_op *op, struct rng *r)
{
    op->lease = rng_chance(r, 300);
    op->about = at_or_before(f, op->about, op->lease ? LEASE : TOKEN);
    op->lease = f->log.tokens[op->about].lease;
}

/* A token of the registry, by the root token. */
static void compose_registry(struct front *f, struct front_op *op, struct rng *r)
{
    static const uint64_t ttls[] = {1, 2, 3, 5, 600};
    op->by = FRONT_ROOT;
    op->ttl_s = (int64_t)one_of(r, ttls, ARRAY_LEN(ttls));
    op->policy = FRONT_POLICIES + rng_below(r, FRONT_POLICIES);
    const struct front_token token = {.orphan = true, .policy = op->policy, .registry = true};
    op->about = front_log_token(&f->log, &token);
}

/* Whether the operation shall be one of the registry instead, which has fewer kinds. */
static bool choose_registry(struct agent *ag, enum front_kind *kind)
{
    bool has = *kind == FRONT_LOOK || *kind == FRONT_CREATE || *kind == FRONT_REVOKE ||
               *kind == FRONT_POLICY;
    if (!has || !ag->cluster->profile.registry || !rng_chance(&ag->rng, 500))
        return false;
    *kind = *kind == FRONT_LOOK ? FRONT_ASK : *kind;
    return true;
}

static void compose_operator(struct front_op *op, struct rng *r)
{
    op->by = op->about = FRONT_ROOT;
    op->policy = rng_below(r, FRONT_POLICIES);
    op->allow = rng_chance(r, 600);
    op->root = rng_chance(r, 500);
    op->migrate = op->number % 3 == 0; /* no draw: older seeds keep their meaning */
}

static void compose(struct agent *ag, enum front_kind kind)
{
    struct front *f = ag->cluster->front;
    struct front_op *op = &ag->op;
    struct rng *r = &ag->rng;
    bool registry = choose_registry(ag, &kind);
    *op = (struct front_op){.kind = kind, .client = ag->index, .number = ++f->numbers};
    if (kind != FRONT_BOOTSTRAP) {
        op->about = recent_token(ag);
        op->by = at_or_before(f, op->about, shown(kind));
    }
    if (shown(kind) != TOKEN && op->by == FRONT_ROOT)
        op->kind = kind = FRONT_LOOK; /* there is none yet */
    op->registry = registry && kind != FRONT_LOOK;
    if (registry && kind == FRONT_REVOKE)
        op->about = at_or_before(f, op->about, REGISTRY);
    else if (ag->cluster->profile.leases && (kind == FRONT_RENEW || kind == FRONT_REVOKE))
        compose_about(f, op, r);
    else
        op->about = op->by;
    if (kind == FRONT_TAKE)
        compose_take(f, op, r);
    if (kind == FRONT_WRAP || kind == FRONT_REWRAP)
        compose_wrap(f, op, r);
    if (registry && kind == FRONT_CREATE)
        compose_registry(f, op, r);
    else if (kind == FRONT_CREATE)
        compose_create(ag);
    if (kind == FRONT_RENEW || kind == FRONT_REVOKE)
        op->by = rng_chance(r, 500) || registry ? FRONT_ROOT : op->by;
    if (kind == FRONT_REVOKE && op->about == FRONT_ROOT) {
        op->kind = FRONT_LOOK; /* it stays */
        op->registry = false;
    }
    op->ttl_s = kind == FRONT_RENEW ? (int64_t)rng_between(r, 1, 4) : op->ttl_s;
    op->spare = kind == FRONT_REVOKE && rng_chance(r, 250) && !op->lease && !registry;
    if (kind == FRONT_POLICY || kind == FRONT_REKEY || kind == FRONT_BELOW)
        compose_operator(op, r);
    if (registry && kind == FRONT_POLICY)
        op->policy += FRONT_POLICIES;
    op->by_bearer = f->log.tokens[op->by].bearer;
    op->about_bearer = f->log.tokens[op->about].bearer;
    op->key = rng_below(r, FRONT_KEYS);
    op->expect = f->versions[op->key];
    if (rng_chance(r, 100))
        op->expect -= MIN(op->expect, (uint64_t)1);
    le64_put(op->id.bytes, rng_u64(r) | 1);
    le64_put(op->id.bytes + 8, op->number);
    op->id.issued = ag->version;
    ag->called_ns = ag->cluster->core->now_ns;
    ag->seen_ms = f->seen_ms;
    ag->waiting = true;
    ag->maybe = false;
}

static void on_agent(struct event *event)
{
    struct agent *ag = CONTAINER_OF(event, struct agent, event);
    struct cluster *c = ag->cluster;
    if (ag->waiting) {
        ag->maybe = true; /* no answer: the request or its answer is lost, or late */
        again_or_finish(ag);
    } else if (!ag->stopped && !clients_initialized(c)) {
        core_after(c->core, event, 50 * SIM_MS);
    } else if (!ag->stopped) {
        compose(ag, c->front->bootstrapped ? choose_kind(&ag->rng, &c->profile) : FRONT_BOOTSTRAP);
        attempt(ag);
    }
}

/* Until now no operation could show the token that was made. */
static void keep_bearer(struct agent *ag, const struct front_reply *reply)
{
    struct front_token *token = &ag->cluster->front->log.tokens[ag->op.about];
    if (front_token_is_known(token))
        return;
    ASSERT(reply->bearer[0] != '\0');
    token->bearer = sim_alloc(sizeof reply->bearer);
    memcpy(token->bearer, reply->bearer, sizeof reply->bearer);
}

void front_replied(const struct front_reply *reply)
{
    struct agent *ag = &reply->cluster->front->agents[reply->op.client];
    const struct front_answer *answer = &reply->answer;
    if (!ag->waiting || reply->op.number != ag->op.number)
        return;
    core_say(ag->cluster->core,
             "front %u: op %" PRIu64 " verdict %d version %" PRIu64 " at %" PRId64
             " expires %" PRId64 " left %" PRId64 " new %" PRId64 " from %s",
             ag->index, reply->op.number, answer->verdict, answer->version, answer->time_ms,
             answer->expire_ms, answer->uses_left, answer->new_expire_ms,
             ag->cluster->nodes[reply->slot].name);
    ag->version = MAX(ag->version, reply->state_version);
    bool current = reply->op.attempt == ag->op.attempt;
    switch (answer->verdict) {
    case FRONT_DONE:
        keep_bearer(ag, reply);
        finish(ag, answer);
        return;
    case FRONT_DIFFER:
    case FRONT_FORBIDDEN:
    case FRONT_REFUSED: /* after an attempt that may have succeeded it proves nothing */
        if (!ag->maybe && current)
            finish(ag, answer);
        else if (current)
            finish_without(ag, FRONT_UNKNOWN);
        return;
    case FRONT_UNKNOWN: ag->maybe = true; break;
    case FRONT_FAILED: break;
    }
    if (current)
        again_or_finish(ag);
}

void front_start(struct cluster *c)
{
    struct front *f = sim_alloc(sizeof *f);
    c->front = f;
    f->n = c->profile.fronts;
    if (f->n == 0)
        return;
    f->agents = sim_alloc(f->n * sizeof *f->agents);
    const struct front_token root = {.orphan = true};
    (void)front_log_token(&f->log, &root); /* FRONT_ROOT: the first */
    for (unsigned i = 0; i < f->n; i++) {
        struct agent *ag = &f->agents[i];
        *ag = (struct agent){.cluster = c,
                             .index = i,
                             .rng = rng_make(c->core->seed, 0xF2017 + i),
                             .event = {.fire = on_agent}};
        core_after(c->core, &ag->event, 320 * SIM_MS + i * SIM_MS);
    }
    front_sweep_start(c);
}

void front_stop(struct cluster *c)
{
    for (unsigned i = 0; i < c->front->n; i++)
        c->front->agents[i].stopped = true;
}

bool front_idle(const struct cluster *c)
{
    for (unsigned i = 0; i < c->front->n; i++)
        if (c->front->agents[i].waiting)
            return false;
    return true;
}

void front_check(struct cluster *c)
{
    struct front *f = c->front;
    struct node *leader = cluster_leader(c);
    char text[FRONT_TEXT];
    if (f->n == 0)
        return;
    ASSERT(leader != NULL);
    if (!front_judge(&f->log, text))
        core_fail(c->core, "%s", text);
    for (uint64_t key = 0; key < FRONT_KEYS; key++) {
        bool too_hard = false;
        if (!front_judge_register(&f->log, key, front_version(leader, key), &too_hard, text))
            core_fail(c->core, "%s", text);
        c->tally.lin_too_hard += too_hard;
    }
    front_index_check(c);
    leader = cluster_leader(c);
    ASSERT(leader != NULL);
    front_lease_check(leader, &f->log);
}
