/* A node's side of an operation with a token: the steps of the program's pipeline (src/router)
 * around handlers on src/auth and src/state.
 *
 *   find the token ─▶ stage its use ─▶ handler, undone if it fails ─▶ staged: commit
 *                                                                   └▶ else: confirm
 *
 * A read runs on any node; if it stages anything elsewhere than on the active one, that is dropped
 * and the request forwarded (PROTOCOL R4). */
#include "front_parts.h"
#include "state/ns_key.h"

#include "auth/policy.h"
#include "auth/token_cache.h"
#include "auth/token_tree.h"
#include "auth/token_ttl.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdlib.h>

enum { RUNS_MAX = 8, READ_DEADLINE_MS = 1500, SWEEP_MS_MIN = 20, SWEEP_MS_MAX = 400 };

/* One operation under way on a node; it vanishes with the node's memory. */
struct request {
    struct cluster *cluster;
    struct node *node;
    struct front_op op;
    struct front_answer answer;
    struct arena arena;
    struct state_txn txn;
    struct state_read read;
    struct state_commit commit;
    struct state_confirm confirm;
    struct auth_scope scope;
    const char *bearer; /* that was made, in the arena; NULL: none */
    bool forwarded;
    bool stages;    /* a look that stages something all the same: what it reads is recorded */
    uint64_t acked; /* when the read began */
    unsigned runs;
};

struct delivery {
    struct event event;
    struct cluster *cluster;
    struct front_op op;
    unsigned slot;
    bool forwarded;
};

/* Replies */

static void on_reply(struct event *event)
{
    struct front_reply *reply = CONTAINER_OF(event, struct front_reply, event);
    front_replied(reply);
    free(reply);
}

/* `bearer` may be NULL. */
static void reply_send(struct node *n, const struct front_op *op, const struct front_answer *answer,
                       const char *bearer, uint64_t state_version)
{
    struct cluster *c = n->cluster;
    if (!c->calm && rng_chance(&c->rng, c->profile.lose_reply_permille))
        return;
    struct front_reply *reply = sim_alloc(sizeof *reply);
    *reply = (struct front_reply){.event = {.fire = on_reply},
                                  .cluster = c,
                                  .op = *op,
                                  .answer = *answer,
                                  .state_version = state_version,
                                  .slot = n->slot};
    ASSERT(bearer == NULL || strlen(bearer) < sizeof reply->bearer);
    if (bearer != NULL)
        strcpy(reply->bearer, bearer);
    core_after(c->core, &reply->event, rng_between(&c->rng, 50, 1000) * SIM_US);
}

static void reply_verdict(struct node *n, const struct front_op *op, enum front_verdict verdict)
{
    const struct front_answer answer = {.number = op->number, .verdict = verdict};
    reply_send(n, op, &answer, NULL, 0);
}

static void request_free(struct request *r)
{
    state_end(&r->txn);
    state_commit_done(&r->commit);
    arena_done(&r->arena);
    r->node->requests--;
    mem_free(r);
}

static void finish(struct request *r, uint64_t state_version)
{
    reply_send(r->node, &r->op, &r->answer, r->bearer, state_version);
    request_free(r);
}

static void give_up(struct request *r, enum front_verdict verdict, enum status why)
{
    core_say(r->cluster->core, "%s: token op %" PRIu64 " ends with %s", r->node->name, r->op.number,
             status_name(why));
    reply_verdict(r->node, &r->op, verdict);
    request_free(r);
}

/* What a handler may fail with here: anything else is a fault of the program. */
static void refuse(struct request *r, enum status st)
{
    if (st != ST_SEALED && st != ST_CLOSED && st != ST_BUSY && st != ST_NO_SPACE)
        core_fail(r->cluster->core, "%s: an operation with a token ends with %s", r->node->name,
                  status_name(st));
    give_up(r, FRONT_FAILED, st);
}

/* Handlers */

/* Clients choose the bearers of most tokens, and so know them without an answer. `known` is the
 * bearer of a token that a node made, else NULL. NULL: no memory. */
static const char *bearer_of(struct request *r, uint64_t token, const char *known)
{
    return known != NULL ? known : arena_format(&r->arena, "front-%" PRIu64, token);
}

/* The token that the operation is about. ST_DENIED: it is not good. */
static enum status load(struct request *r, struct auth_token *ret_token)
{
    const char *bearer = bearer_of(r, r->op.about, r->op.about_bearer);
    return bearer == NULL ? ST_NOMEM : auth_token_load(&r->scope, bytes_str(bearer), ret_token);
}

/* The token of the sender, as src/router finds it. ST_DENIED: it is not good. */
static enum status hold(struct request *r, struct auth_token *ret_asker, struct token_ref **ret_ref)
{
    const char *bearer = bearer_of(r, r->op.by, r->op.by_bearer);
    const struct auth_token *held;
    if (bearer == NULL)
        return ST_NOMEM;
    TRY(auth_token_hold(&r->scope, bytes_str(bearer), &held, ret_ref));
    r->scope.caller = held->limited ? NULL : held;
    *ret_asker = *held;
    return ST_OK;
}

static enum status differ(struct request *r)
{
    r->answer.verdict = FRONT_DIFFER;
    return ST_OK;
}

static enum status do_bootstrap(struct request *r)
{
    struct auth_token root = auth_token_root(r->scope.now_ms);
    const char *bearer = bearer_of(r, FRONT_ROOT, NULL);
    if (bearer == NULL)
        return ST_NOMEM;
    enum status st = auth_token_create(&r->scope, &r->node->env.env, &root, &bearer);
    for (uint64_t i = 0; st == ST_OK && i < FRONT_POLICIES; i++)
        st = front_policy_edit(&r->txn, i, true);
    return st == ST_EXISTS ? ST_OK : st;
}

static enum status register_key(struct arena *arena, uint64_t key, struct bytes *ret_key)
{
    const char *name = arena_format(arena, "%" PRIu64, key);
    return name == NULL ? ST_NOMEM
                        : state_ns_key(arena, STATE_NS_ROOT, "data", BYTES("front"), name, ret_key);
}

/* A register: its version, then who wrote it; nothing there is version 0. */
static enum status register_get(struct state_txn *txn, uint64_t key, uint64_t *ret_version,
                                uint64_t *ret_value)
{
    struct bytes name;
    struct state_value stored;
    TRY(register_key(txn->arena, key, &name));
    enum status st = state_get(txn, name, &stored);
    bool there = st == ST_OK && stored.value.len == 16;
    *ret_version = there ? le64_get(stored.value.data) : 0;
    *ret_value = there ? le64_get(stored.value.data + 8) : 0;
    return st == ST_NOT_FOUND ? ST_OK : st;
}

static enum status do_cas(struct request *r)
{
    uint8_t value[16];
    struct bytes name;
    TRY(register_get(&r->txn, r->op.key, &r->answer.version, &r->answer.value));
    if (r->answer.version != r->op.expect)
        return differ(r);
    le64_put(value, ++r->answer.version);
    le64_put(value + 8, r->answer.value = r->op.number);
    TRY(register_key(&r->arena, r->op.key, &name));
    return state_put(&r->txn, name, bytes_of(value, sizeof value));
}

static int64_t end_of(const struct request *r, const struct auth_token *token, int64_t wanted_s)
{
    struct reason warning = {{0}};
    const struct token_ttl ttl = {
        .wanted_s = wanted_s,
        .own_s = auth_token_granted_s(token),
        .default_s = AUTH_DEFAULT_TTL_S,
        .max_s = AUTH_MAX_TTL_S,
        .explicit_max_s = token->explicit_max_ttl_s,
        .created_ms = token->created_ms,
        .now_ms = r->scope.now_ms,
    };
    return token_ttl_end_ms(&ttl, &warning);
}

static enum status do_create_registry(struct request *r)
{
    const char *bearer = bearer_of(r, r->op.about, NULL);
    if (bearer == NULL)
        return ST_NOMEM;
    enum status st = front_registry_create(&r->scope, &r->op, bearer, &r->answer.new_expire_ms);
    return st == ST_EXISTS ? differ(r) : st;
}

static enum status do_policy(struct request *r)
{
    if (!r->op.registry)
        return front_policy_edit(&r->txn, r->op.policy, r->op.allow);
    enum status st = front_registry_edit(&r->txn, &r->op);
    return st == ST_EXISTS ? differ(r) : st;
}

static enum status do_create(struct request *r, const struct auth_token *asker)
{
    const struct front_op *op = &r->op;
    const char *const policies[] = {front_policy_name(op->policy)};
    const char *bearer = op->batch ? NULL : bearer_of(r, op->about, NULL);
    if (bearer == NULL && !op->batch)
        return ST_NOMEM;
    if (asker->limited || auth_token_is_batch(asker) || asker->depth >= AUTH_TOKEN_DEPTH_MAX)
        return differ(r);
    struct auth_token token = {
        .parent = op->orphan ? "" : asker->id,
        .display_name = "token",
        .path = "auth/token/create",
        .type = op->batch ? AUTH_TYPE_BATCH : AUTH_TYPE_SERVICE,
        .role = "",
        .entity_id = "",
        .policies = {.items = policies, .n = 1, .given = true},
        .created_ms = r->scope.now_ms,
        .explicit_max_ttl_s = op->explicit_max_s,
        .num_uses = op->uses,
        .depth = op->orphan ? 0 : asker->depth + 1,
        .renewable = !op->batch,
    };
    token.expire_ms = end_of(r, &token, op->ttl_s);
    token.creation_ttl_s = (token.expire_ms - r->scope.now_ms) / 1000;
    r->answer.new_expire_ms = token.expire_ms;
    enum status st = auth_token_create(&r->scope, &r->node->env.env, &token, &bearer);
    if (op->batch)
        r->bearer = bearer;
    return st == ST_EXISTS ? differ(r) : st;
}

/* A lease of the token that is shown; as the program, not for its last use. */
static enum status do_take(struct request *r, const struct auth_token *asker)
{
    if (asker->limited && asker->num_uses == 0)
        return differ(r);
    enum status st =
        front_lease_take(&r->scope, &r->node->env.env, asker, &r->op, &r->answer.new_expire_ms);
    return st == ST_EXISTS ? differ(r) : st;
}

static enum status do_renew_lease(struct request *r)
{
    struct lease lease;
    enum status st = front_lease_find(&r->scope, r->op.about, &lease);
    if (st == ST_NOT_FOUND)
        return differ(r);
    TRY(st);
    TRY(front_lease_renew(&r->scope, &lease, r->op.ttl_s));
    r->answer.new_expire_ms = lease.expire_ms;
    return ST_OK;
}

static enum status do_end_lease(struct request *r)
{
    struct lease lease;
    enum status st = front_lease_find(&r->scope, r->op.about, &lease);
    if (st == ST_NOT_FOUND)
        return ST_OK; /* ended is what it shall be */
    TRY(st);
    r->answer.found = true;
    return front_lease_end(&r->scope, &lease);
}

static enum status do_end_below(struct request *r)
{
    return front_lease_end_below(&r->scope, r->op.key, r->op.allow, &r->answer.found);
}

/* Whether a lease is good. The log has this as an operation by the lease. */
static enum status do_use(struct request *r)
{
    struct lease lease;
    enum status st = front_lease_find(&r->scope, r->op.by, &lease);
    if (st == ST_NOT_FOUND)
        r->answer.verdict = FRONT_REFUSED;
    else if (st == ST_OK)
        r->answer.expire_ms = lease.expire_ms;
    return st == ST_NOT_FOUND ? ST_OK : st;
}

static enum status do_wrap(struct request *r)
{
    struct front_wrapped made;
    TRY(front_wrap(&r->scope, &r->node->env.env, r->op.number, r->op.ttl_s, &made));
    r->bearer = made.bearer;
    r->answer.new_expire_ms = made.expire_ms;
    return ST_OK;
}

/* What needs no token but the wrapping token. The log has this as an operation by that token. */
static enum status do_wrapped(struct request *r)
{
    const char *bearer = r->op.by_bearer;
    struct front_wrapped kept = {.bearer = NULL};
    enum status st;
    switch (r->op.kind) {
    case FRONT_PEEK: st = front_peek(&r->scope, bearer, &kept); break;
    case FRONT_UNWRAP: st = front_unwrap(&r->scope, bearer, &kept); break;
    default: st = front_rewrap(&r->scope, &r->node->env.env, bearer, &kept); break;
    }
    if (st == ST_NOT_FOUND)
        r->answer.verdict = FRONT_REFUSED;
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_OK : st;
    r->bearer = kept.bearer;
    r->answer.value = kept.value;
    r->answer.new_expire_ms = kept.expire_ms;
    r->answer.uses_left = r->op.kind == FRONT_PEEK ? 1 : 0;
    return ST_OK;
}

static enum status do_renew(struct request *r)
{
    struct auth_token before, after;
    enum status st = load(r, &before);
    if (st == ST_DENIED || (st == ST_OK && !before.renewable))
        return differ(r);
    TRY(st);
    after = before;
    after.expire_ms = r->answer.new_expire_ms = end_of(r, &before, r->op.ttl_s);
    after.renewed_ms = r->scope.now_ms;
    return token_store_update(&r->scope, &before, &after);
}

static enum status do_revoke(struct request *r)
{
    struct auth_token token;
    enum status st = load(r, &token);
    if (st == ST_DENIED)
        return ST_OK; /* revoked is what it shall be */
    TRY(st);
    if (auth_token_is_batch(&token))
        return differ(r);
    r->answer.found = true;
    return token_tree_end(&r->scope, &token, r->op.spare ? TOKEN_END_CHILDREN : TOKEN_END_TREE);
}

static enum status handle(struct request *r, const struct auth_token *asker)
{
    bool ask = r->op.kind == FRONT_ASK;
    if (ask || r->op.kind == FRONT_LOOK || r->op.kind == FRONT_CAS) {
        enum status st = ask ? front_registry_check(r->node, &r->scope, asker)
                             : front_policy_check(r->node, &r->txn, asker, r->scope.now_ms);
        if (st == ST_DENIED) {
            r->answer.verdict = FRONT_FORBIDDEN;
            return ST_OK;
        }
        TRY(st);
    }
    switch (r->op.kind) {
    case FRONT_BOOTSTRAP: return do_bootstrap(r);
    case FRONT_ASK:
    case FRONT_LOOK: return register_get(&r->txn, r->op.key, &r->answer.version, &r->answer.value);
    case FRONT_CAS: return do_cas(r);
    case FRONT_CREATE: return r->op.registry ? do_create_registry(r) : do_create(r, asker);
    case FRONT_RENEW: return r->op.lease ? do_renew_lease(r) : do_renew(r);
    case FRONT_REVOKE: return r->op.lease ? do_end_lease(r) : do_revoke(r);
    case FRONT_TAKE: return do_take(r, asker);
    case FRONT_USE: return do_use(r);
    case FRONT_BELOW: return do_end_below(r);
    case FRONT_WRAP: return do_wrap(r);
    case FRONT_PEEK:
    case FRONT_UNWRAP:
    case FRONT_REWRAP: return do_wrapped(r);
    case FRONT_POLICY: return do_policy(r);
    case FRONT_REKEY: return front_rekey(r->node, &r->txn, &r->op, r->scope.now_ms);
    }
    return ST_INVALID;
}

/* Whether the router asks for a token before it runs the handler. */
static bool needs_token(enum front_kind kind)
{
    return kind != FRONT_BOOTSTRAP && kind != FRONT_USE && kind != FRONT_PEEK &&
           kind != FRONT_UNWRAP && kind != FRONT_REWRAP;
}

/* What the framework stages stays staged when the handler fails (PROTOCOL R3). *ref is for the
 * caller to drop in every case. */
static enum status run_handler(struct request *r, struct token_ref **ref)
{
    struct auth_token asker = {0};
    struct front_answer *a = &r->answer;
    memset(a, 0, sizeof *a); /* its padding is stored too */
    a->number = r->op.number;
    a->time_ms = r->scope.now_ms;
    a->uses_left = -1;
    r->bearer = NULL;
    if (needs_token(r->op.kind)) {
        enum status st = hold(r, &asker, ref);
        if (st == ST_DENIED) {
            a->verdict = FRONT_REFUSED;
            return ST_OK;
        }
        TRY(st);
        TRY(auth_token_use(&r->scope, &asker));
        a->expire_ms = asker.expire_ms;
        a->uses_left = asker.limited ? asker.num_uses : -1;
    }
    struct state_mark mark = state_mark(&r->txn);
    TRY(handle(r, &asker));
    return a->verdict == FRONT_DONE ? ST_OK : state_rollback(&r->txn, mark);
}

static enum status compute(struct request *r)
{
    struct token_ref *ref = NULL;
    enum status st = run_handler(r, &ref);
    r->scope.caller = NULL; /* it may lie in `ref` */
    token_ref_drop(ref);
    return st;
}

/* Running */

static void request_run(struct request *r);

static void again(struct request *r)
{
    r->cluster->tally.reruns++;
    state_end(&r->txn);
    arena_done(&r->arena);
    if (++r->runs < RUNS_MAX)
        request_run(r);
    else
        give_up(r, FRONT_FAILED, ST_CONFLICT);
}

/* The answer for repeated requests: with the bearer that was made behind it, if any. false: no
 * memory. */
static bool answer_make(struct request *r, struct bytes *ret_text)
{
    size_t len = r->bearer != NULL ? strlen(r->bearer) + 1 : 0;
    uint8_t *text = arena_alloc(&r->arena, sizeof r->answer + len);
    if (text == NULL)
        return false;
    memcpy(text, &r->answer, sizeof r->answer);
    if (len != 0)
        memcpy(text + sizeof r->answer, r->bearer, len);
    *ret_text = bytes_of(text, sizeof r->answer + len);
    return true;
}

static bool answer_read(struct request *r, struct bytes text)
{
    if (text.len < sizeof r->answer)
        return false;
    memcpy(&r->answer, text.data, sizeof r->answer);
    struct bytes bearer = bytes_from(text, sizeof r->answer);
    r->bearer = bearer.len != 0 ? (const char *)bearer.data : NULL;
    return bearer.len == 0 || bearer.data[bearer.len - 1] == '\0';
}

static void applied(struct request *r)
{
    struct cluster *c = r->cluster;
    const struct state_commit *commit = &r->commit;
    c->tally.repeated += commit->repeated;
    check_acked(r->node, commit->rlog.index, commit->version);
    if (commit->repeated && !commit->has_response) {
        give_up(r, FRONT_UNKNOWN, ST_OK);
        return;
    }
    if (commit->repeated) {
        if (!answer_read(r, commit->response) || r->answer.number != r->op.number)
            core_fail(c->core, "%s: a repeated request got the answer of another", r->node->name);
    }
    finish(r, commit->version);
}

static void on_committed(struct state_commit *commit, enum status st)
{
    struct request *r = CONTAINER_OF(commit, struct request, commit);
    switch (st) {
    case ST_OK: applied(r); return;
    case ST_CONFLICT: again(r); return;
    case ST_UNKNOWN_OUTCOME: give_up(r, FRONT_UNKNOWN, st); return;
    case ST_NOT_LEADER:
    case ST_BUSY:
    case ST_NO_SPACE:
    case ST_STATE_FULL:
    case ST_CLOSED: give_up(r, FRONT_FAILED, st); return;
    default:
        core_fail(r->cluster->core, "%s: a commit ends with %s", r->node->name, status_name(st));
    }
}

static void on_confirmed(struct state_confirm *confirm, enum status st)
{
    struct request *r = CONTAINER_OF(confirm, struct request, confirm);
    if (st == ST_CONFLICT)
        again(r);
    else if (st == ST_OK)
        finish(r, state_version(&r->txn));
    else
        give_up(r, FRONT_FAILED, st);
}

static void commit(struct request *r)
{
    r->commit.done = on_committed;
    r->commit.id = r->op.id;
    enum status st = answer_make(r, &r->commit.answer) ? ST_OK : ST_NOMEM;
    if (st == ST_OK)
        st = state_commit(&r->txn, &r->commit);
    state_end(&r->txn);
    if (st != ST_OK)
        refuse(r, st);
}

/* Any node serves a read. */
static bool is_read(const struct front_op *op)
{
    return op->kind == FRONT_LOOK || op->kind == FRONT_USE || op->kind == FRONT_PEEK ||
           op->kind == FRONT_ASK;
}

static bool is_active(const struct node *n)
{
    struct rlog_status status;
    rlog_status(n->rlog, &status);
    return status.ready;
}

static bool forward(struct node *n, const struct front_op *op);
static void run_now(struct request *r, const struct state_read *read);

/* Computed: what follows from what it staged. */
static void decide(struct request *r, enum status st)
{
    if (st == ST_CONFLICT) {
        again(r);
    } else if (st != ST_OK) {
        refuse(r, st);
    } else if (!state_staged(&r->txn) && r->txn.confirmed) {
        check_read(r->node, r->acked, state_version(&r->txn));
        finish(r, state_version(&r->txn));
    } else if (!state_staged(&r->txn)) {
        r->confirm.done = on_confirmed;
        state_confirm(&r->txn, &r->confirm);
    } else if (is_active(r->node) && state_is_read_only(&r->txn)) { /* as src/router does */
        r->stages = true;
        state_end(&r->txn);
        run_now(r, &r->read);
    } else if (is_active(r->node)) {
        commit(r);
    } else if (!r->forwarded && forward(r->node, &r->op)) {
        request_free(r);
    } else {
        give_up(r, FRONT_FAILED, ST_NOT_LEADER);
    }
}

static void run_now(struct request *r, const struct state_read *read)
{
    struct node *n = r->node;
    enum status st = state_begin(n->service, &r->arena, read, &r->txn);
    if (st == ST_OK && read != NULL && !r->stages)
        state_set_read_only(&r->txn);
    r->scope = (struct auth_scope){
        .txn = &r->txn,
        .cipher = state_cipher(n->service),
        .cache = n->tokens,
        .ns = STATE_NS_ROOT,
        .now_ms = read != NULL ? read->time_ms : rlog_time_ms(n->rlog),
        .kind = r->op.registry ? TOKEN_REGISTRY : TOKEN_SECRETS,
    };
    decide(r, st == ST_OK ? compute(r) : st);
}

static void on_read(struct state_read *read, enum status st)
{
    struct request *r = CONTAINER_OF(read, struct request, read);
    if (st == ST_OK)
        run_now(r, read);
    else
        give_up(r, FRONT_FAILED, st);
}

static void request_run(struct request *r)
{
    if (is_read(&r->op)) {
        r->acked = r->cluster->check.acked_version;
        r->read = (struct state_read){
            .done = on_read, .deadline_ms = env_mono_ms(&r->node->env.env) + READ_DEADLINE_MS};
        state_read_begin(r->node->service, &r->read);
    } else if (is_active(r->node)) {
        run_now(r, NULL);
    } else { /* only the active node runs handlers that write */
        give_up(r, FRONT_FAILED, ST_NOT_LEADER);
    }
}

/* Arrival */

static void deliver_later(struct cluster *c, const struct front_op *op, unsigned slot,
                          bool forwarded, uint64_t delay_ns);

static bool forward(struct node *n, const struct front_op *op)
{
    struct cluster *c = n->cluster;
    struct rlog_status status;
    rlog_status(n->rlog, &status);
    struct node *leader = status.leader != 0 ? node_by_id(c, status.leader) : NULL;
    if (leader == NULL || leader == n)
        return false;
    uint64_t delay_ns = sim_net_delay(&c->net, n->slot, leader->slot);
    if (delay_ns != 0) /* else it is lost on the way, and the client waits in vain */
        deliver_later(c, op, leader->slot, true, delay_ns);
    return true;
}

static void request_start(struct node *n, const struct front_op *op, bool forwarded)
{
    struct request *r = mem_must_alloc(sizeof *r);
    memset(r, 0, sizeof *r);
    r->cluster = n->cluster;
    r->node = n;
    r->op = *op;
    r->forwarded = forwarded;
    n->requests++;
    request_run(r);
}

static void execute(struct node *n, const struct front_op *op, bool forwarded)
{
    struct rlog_status status;
    sim_env_enter(&n->env);
    rlog_status(n->rlog, &status);
    if (is_read(op) || status.is_leader || forwarded || !forward(n, op))
        request_start(n, op, forwarded);
    (void)sim_env_leave(&n->env); /* nothing is touched after it */
}

static void on_delivery(struct event *event)
{
    struct delivery *d = CONTAINER_OF(event, struct delivery, event);
    struct node *n = &d->cluster->nodes[d->slot];
    if (n->process != 0 && !sim_env_awake(&n->env, event))
        return;
    if (n->process == 0 || n->stopping)
        reply_verdict(n, &d->op, FRONT_FAILED);
    else
        execute(n, &d->op, d->forwarded);
    free(d);
}

static void deliver_later(struct cluster *c, const struct front_op *op, unsigned slot,
                          bool forwarded, uint64_t delay_ns)
{
    struct delivery *d = sim_alloc(sizeof *d);
    *d = (struct delivery){.event = {.fire = on_delivery},
                           .cluster = c,
                           .op = *op,
                           .slot = slot,
                           .forwarded = forwarded};
    core_after(c->core, &d->event, delay_ns);
}

void front_send(struct cluster *c, const struct front_op *op, unsigned slot)
{
    deliver_later(c, op, slot, false, rng_between(&c->rng, 50, 1000) * SIM_US);
}

/* Background work: what expired is ended, what ended is swept up (as src/node's duties do it). */

struct sweep {
    struct state_commit commit;
    struct node *node;
};

static void on_swept(struct state_commit *commit, enum status st)
{
    struct sweep *s = CONTAINER_OF(commit, struct sweep, commit);
    s->node->cluster->tally.reached[REACH_TOKENS_SWEPT] += st == ST_OK;
    state_commit_done(commit);
    s->node->requests--;
    mem_free(s);
}

static struct expiry_counts sweep_counts;
static const struct expiry_kinds front_expiries = {.items = {&token_expiry, &lease_expiry},
                                                   .n = 2,
                                                   .leases = &front_leases,
                                                   .counts = &sweep_counts};

/* Often so few that the work of a mark takes many transactions. No draw: older seeds keep their
 * meaning. */
static unsigned sweep_steps(const struct node *n)
{
    uint64_t ms = n->cluster->core->now_ns / SIM_MS;
    return n->cluster->profile.leases && ms % 2 == 0 ? 1 + (unsigned)(ms / 2 % 4) : EXPIRY_STEPS;
}

static void sweep(struct node *n)
{
    struct arena arena = {0};
    struct state_txn txn;
    struct sweep *s = mem_must_alloc(sizeof *s);
    *s = (struct sweep){.commit = {.done = on_swept}, .node = n};
    bool committing = false;
    enum status st = state_begin(n->service, &arena, NULL, &txn);
    if (st == ST_OK)
        st = expiry_upkeep(&front_expiries, &txn, rlog_time_ms(n->rlog), sweep_steps(n));
    if (st == ST_OK && state_staged(&txn)) {
        st = state_commit(&txn, &s->commit);
        committing = st == ST_OK;
    }
    state_end(&txn);
    arena_done(&arena);
    if (st != ST_OK && st != ST_SEALED && st != ST_BUSY)
        core_fail(n->cluster->core, "%s: upkeep of tokens: %s", n->name, status_name(st));
    if (committing)
        n->requests++;
    else
        mem_free(s);
}

static void on_sweep(struct event *event)
{
    struct cluster *c = CONTAINER_OF(event, struct cluster, sweep);
    struct node *n = cluster_leader(c);
    core_after(c->core, event, rng_between(&c->rng, SWEEP_MS_MIN, SWEEP_MS_MAX) * SIM_MS);
    if (n == NULL || n->stopping || n->env.stalled_until_ns > c->core->now_ns || !is_active(n))
        return;
    sim_env_enter(&n->env);
    sweep(n);
    (void)sim_env_leave(&n->env); /* nothing is touched after it */
}

void front_sweep_start(struct cluster *c)
{
    c->sweep.fire = on_sweep;
    core_after(c->core, &c->sweep, SWEEP_MS_MAX * SIM_MS);
}

/* The end */

uint64_t front_version(struct node *n, uint64_t key)
{
    struct arena arena = {0};
    struct state_txn txn;
    uint64_t version = 0, value;
    sim_env_enter(&n->env);
    enum status st = state_begin(n->service, &arena, NULL, &txn);
    if (st == ST_OK)
        st = register_get(&txn, key, &version, &value);
    if (st != ST_OK)
        core_fail(n->cluster->core, "%s: reading at the end: %s", n->name, status_name(st));
    state_end(&txn);
    arena_done(&arena);
    (void)sim_env_leave(&n->env); /* it did nothing that ends a process */
    return version;
}
