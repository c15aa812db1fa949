/* The obstacles of a promotion, as a list for people before they promote. Nothing is changed, and a
 * promotion checks again what it depends on. */
#include "api/replication/replication_preflight.h"
#include "audit/audit_entry.h"
#include "audit/audit_table.h"
#include "auth/token_batch.h"
#include "base/version.h"
#include "state/state_dr.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum {
    CHECKS_MAX = 8 + AUDIT_SET_MAX + RLOG_MEMBERS_MAX,
    SILENT_MS = 5000,    /* a primary that was heard since may serve clients */
    TOKEN_MS = 86400000, /* a batch token that ends sooner deserves a word */
};

static const struct field check_fields[] = {
    FIELD(struct replication_check, check, STRING),
    FIELD(struct replication_check, result, STRING),
    FIELD(struct replication_check, details, STRING),
};
const struct schema replication_check_schema = SCHEMA(struct replication_check, check_fields);

#define GOOD "ok"
#define WARNING "warning"
#define FORCEABLE "forceable"
#define BLOCKED "blocked"

struct preflight {
    struct req *req;
    struct replication_preflight *out;
    enum status st; /* the first failure */
};

__attribute__((format(printf, 4, 5))) static void
add_check(struct preflight *p, const char *check, const char *result, const char *format, ...)
{
    struct reason text = {{0}};
    va_list args;
    ASSERT(p->out->n < CHECKS_MAX);
    va_start(args, format);
    (void)vsnprintf(text.text, sizeof text.text, format, args); /* a cut text still says enough */
    va_end(args);
    char *copy = arena_str(p->req->arena, bytes_str(text.text));
    if (copy == NULL) {
        p->st = ST_NOMEM;
        return;
    }
    p->out->ready = p->out->ready && strcmp(result, BLOCKED) != 0 && strcmp(result, FORCEABLE) != 0;
    p->out->items[p->out->n++] = (struct replication_check){check, result, copy};
}

static void check_state(struct preflight *p, const struct dr_role *role)
{
    ASSERT(dr_is_secondary(role));
    if (role->phase == DR_PHASE_SYNCING)
        add_check(p, "state", BLOCKED,
                  "a sync is under way, so the state is not whole; wait for its end");
    else
        add_check(p, "state", GOOD, "%s, epoch %" PRIu64, dr_state_text(role), role->epoch);
}

/* The primary as this node knows it, and whether that forbids a promotion without force. */
struct link {
    struct dr_facts facts;
    struct dr_lag lag;
    uint64_t version; /* of this cluster's state */
    bool heard, serves, lacks;
};

static enum status link_judge(struct req *req, const struct link **ret_link)
{
    struct node_status *node = req_node(req);
    struct link *l = arena_alloc(req->arena, sizeof *l);
    ASSERT(ret_link != NULL);
    if (node == NULL || l == NULL)
        return ST_NOMEM;
    req->host->node_ops->dr_facts(req->host->node, &l->facts);
    l->lag = dr_live_lag(&l->facts, node->version, env_mono_ms(req->env));
    l->version = node->version;
    l->heard = l->lag.heard_ms >= 0;
    l->serves = l->heard && l->lag.heard_ms < SILENT_MS;
    l->lacks = l->lag.entries != 0;
    *ret_link = l;
    return ST_OK;
}

enum status replication_caught_up(struct req *req)
{
    const struct link *l = NULL;
    TRY(link_judge(req, &l));
    ASSERT(l != NULL);
    if (l->lacks)
        return req_fail(req, ST_BUSY,
                        "this secondary lacks %" PRIu64 " writes of its primary: try again later, "
                        "or use force and lose them",
                        l->lag.entries);
    if (l->facts.differs)
        return req_fail(req, ST_BUSY,
                        "the Merkle roots of both clusters differed when last compared: try again "
                        "when the difference is repaired, or use force");
    if (l->serves)
        return req_fail(req, ST_BUSY,
                        "the primary was heard %" PRId64 " ms ago: demote it first, try again "
                        "later, or use force",
                        l->lag.heard_ms);
    return ST_OK;
}

static void check_primary(struct preflight *p, const struct link *l)
{
    if (!l->heard)
        add_check(p, "primary", WARNING,
                  "not heard since this node became active: what it wrote last is not known here");
    else if (l->serves)
        add_check(p, "primary", FORCEABLE,
                  "heard %" PRId64 " ms ago, so it may serve: demote it first", l->lag.heard_ms);
    else
        add_check(p, "primary", GOOD, "silent for %" PRId64 " ms", l->lag.heard_ms);
}

static void check_link(struct preflight *p)
{
    const struct link *l = NULL;
    p->st = link_judge(p->req, &l);
    if (p->st != ST_OK)
        return;
    ASSERT(l != NULL);
    check_primary(p, l);
    if (l->lacks)
        add_check(p, "lag", FORCEABLE,
                  "%" PRIu64 " writes are missing here, the oldest for %" PRId64 " ms",
                  l->lag.entries, l->lag.ms);
    else
        add_check(p, "lag", GOOD, "all received writes are applied, up to version %" PRIu64,
                  l->version);
    if (l->facts.differs)
        add_check(p, "roots", FORCEABLE,
                  "the Merkle roots of both clusters differed when last compared");
    else if (l->facts.verified == 0)
        add_check(p, "roots", WARNING, "not compared since this node became active");
    else
        add_check(p, "roots", GOOD, "equal at version %" PRIu64, l->facts.verified);
}

/* Stage what a promotion writes: the new role, and this cluster's own seal as the cluster's. */
static enum status stage_promotion(struct preflight *p, struct reason *why)
{
    struct req *req = p->req;
    TRY(dr_role_promote(req->txn, "", req->now_ms, why));
    return state_dr_promote(req->txn, req->host->seal, req->now_ms, why);
}

/* Prepare the writes of a promotion, and drop them. */
static void check_writes(struct preflight *p, const struct dr_role *role)
{
    struct state_mark mark = state_mark(p->req->txn);
    struct reason why = {{0}};
    ASSERT(dr_is_secondary(role));
    if (role->phase == DR_PHASE_SYNCING || p->st != ST_OK)
        return;
    enum status st = stage_promotion(p, &why);
    ASSERT(st != ST_INVALID || why.text[0] != '\0');
    enum status dropped = state_rollback(p->req->txn, mark);
    if (st == ST_INVALID)
        add_check(p, "change", BLOCKED, "the writes of a promotion cannot be made: %.80s",
                  why.text);
    else if (st == ST_OK)
        add_check(p, "change", GOOD, "the writes of a promotion were prepared, and dropped");
    if (p->st == ST_OK)
        p->st = st == ST_INVALID || st == ST_OK ? dropped : st;
}

static void check_seal(struct preflight *p)
{
    if (p->req->host->seal_type == SEAL_SHAMIR)
        add_check(p, "seal", GOOD,
                  "unsealed; after a restart the nodes need the key shares of the former primary");
    else
        add_check(p, "seal", GOOD,
                  "unsealed; the nodes unseal themselves, by a key of this cluster");
}

static void check_members(struct preflight *p)
{
    const struct node_ops *ops = p->req->host->node_ops;
    ASSERT(p->out->n < CHECKS_MAX);
    struct node_peer *peers = arena_alloc(p->req->arena, RLOG_MEMBERS_MAX * sizeof *peers);
    if (peers == NULL) {
        p->st = ST_NOMEM;
        return;
    }
    unsigned n = ops->peers(p->req->host->node, peers), bad = 0;
    ASSERT(n <= RLOG_MEMBERS_MAX);
    for (unsigned i = 0; i < n; i++) {
        const char *why = NULL;
        if (!peers[i].active && !peers[i].reached)
            why = "is not reached";
        else if (!peers[i].active && !peers[i].serves)
            why = "is sealed, or its audit devices fail";
        else if (peers[i].version[0] != '\0' && strcmp(peers[i].version, holdfast_version) != 0)
            why = "runs another version of the program";
        if (why == NULL)
            continue;
        add_check(p, "members", WARNING, "%s %s", peers[i].name, why);
        bad++;
    }
    if (bad == 0)
        add_check(p, "members", GOOD, "%u members reached, each with version %s", n,
                  holdfast_version);
}

/* Devices are part of the replicated state; their files and receivers are not. */
static void check_audit(struct preflight *p)
{
    struct audit_set *set = NULL;
    unsigned open = 0;
    if (p->req->host->audit == NULL)
        return;
    enum status st = p->req->host->audit->get(p->req->host->audit, p->req->txn, &set);
    if (st != ST_OK) {
        p->st = st;
        return;
    }
    ASSERT(set->n_uses <= AUDIT_SET_MAX);
    for (unsigned i = 0; i < set->n_uses; i++) {
        struct reason why = {{0}};
        const char *status = audit_use_status(set->uses[i], &why);
        bool good = strcmp(status, "open") == 0;
        open += good;
        if (!good)
            add_check(p, "audit", WARNING, "%s is %s on this node: %s", set->uses[i]->path, status,
                      why.text);
    }
    if (set->n_uses != 0 && open == 0)
        add_check(p, "audit", BLOCKED,
                  "no audit device works on this node: a primary would refuse every "
                  "request");
    else if (set->n_uses == 0)
        add_check(p, "audit", GOOD, "no audit device is enabled");
    else if (open == set->n_uses)
        add_check(p, "audit", GOOD, "each of the %u devices works on this node", open);
    audit_set_unref(set);
}

static void check_token(struct preflight *p, struct bytes bearer)
{
    struct auth_token token = {0};
    ASSERT(bearer.len != 0);
    if (!token_batch_is(bearer)) {
        add_check(p, "token", GOOD,
                  "a DR operation token, which does not expire: delete it after its use");
        return;
    }
    p->st = token_batch_open(p->req->txn, p->req->ns, bearer, &token);
    int64_t left_ms = token.expire_ms - p->req->now_ms;
    if (p->st != ST_OK)
        return;
    if (token.expire_ms == 0)
        add_check(p, "token", GOOD, "a batch token, which does not expire");
    else
        add_check(p, "token", left_ms < TOKEN_MS ? WARNING : GOOD,
                  "a batch token, which ends in %" PRId64 " minutes", MAX(left_ms, 0) / 60000);
}

enum status replication_preflight(struct req *req, const struct dr_role *role, struct bytes bearer,
                                  struct replication_preflight *ret)
{
    struct preflight p = {.req = req, .out = ret};
    ASSERT(req_in_txn(req));
    *ret = (struct replication_preflight){.ready = true};
    ret->items = arena_alloc(req->arena, CHECKS_MAX * sizeof *ret->items);
    if (ret->items == NULL)
        return ST_NOMEM;
    check_state(&p, role);
    check_link(&p);
    check_writes(&p, role);
    check_seal(&p);
    check_members(&p);
    check_audit(&p);
    if (p.st == ST_OK)
        check_token(&p, bearer);
    return p.st;
}

enum status replication_preflight_asked(struct req *req, bool body, bool *ret_asked)
{
    struct bytes text = {0};
    TRY(req_query(req, "preflight", &text));
    /* "?preflight" and "?preflight=true" */
    bool query = text_get(req->query, "preflight") != NULL &&
                 (text.len == 0 || text_is(text, "true") || text_is(text, "1"));
    *ret_asked = body || query;
    return ST_OK;
}
