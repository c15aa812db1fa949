#include "router/quota_lease.h"
#include "auth/policy_list.h"
#include "base/mem.h"
#include "lease/lease.h"
#include "router/setting.h"
#include "state/ns_key.h"

struct lease_quotas {
    struct quota_rules rules;
    bool read;
};

enum status lease_quotas_new(struct lease_quotas **ret_quotas)
{
    struct lease_quotas *quotas = mem_zalloc(sizeof *quotas);
    if (quotas == NULL)
        return ST_NOMEM;
    *ret_quotas = quotas;
    return ST_OK;
}

void lease_quotas_free(struct lease_quotas *quotas)
{
    if (quotas == NULL)
        return;
    arena_done(&quotas->rules.arena);
    mem_free(quotas);
}

/* The newest version of the settings, which is no precondition of the request. */
static enum status newest(struct req *req, struct bytes prefix, uint64_t *ret_version)
{
    struct state_txn txn = {0};
    TRY(state_begin(req->txn->state, req->arena, NULL, &txn));
    enum status st = state_newest(&txn, prefix, ret_version);
    state_end(&txn);
    return st;
}

static enum status read_rules(struct state *state, struct bytes prefix,
                              struct quota_rules *ret_rules)
{
    struct quota_rules rules = {0};
    struct state_txn txn = {0};
    TRY(state_begin(state, &rules.arena, NULL, &txn));
    enum status st = state_newest(&txn, prefix, &rules.version);
    if (st == ST_OK)
        st = quota_rules_read(&txn, &quota_leases, &rules);
    state_end(&txn);
    if (st == ST_OK)
        *ret_rules = rules;
    else
        arena_done(&rules.arena);
    return st;
}

/* Read the quotas again if one has changed. */
static enum status read_changed(struct lease_quotas *quotas, struct req *req, struct bytes prefix)
{
    struct quota_rules fresh;
    uint64_t version;

    TRY(newest(req, prefix, &version));
    if (quotas->read && version == quotas->rules.version)
        return ST_OK;
    TRY(read_rules(req->txn->state, prefix, &fresh));
    ASSERT(fresh.version >= version);
    arena_done(&quotas->rules.arena);
    quotas->rules = fresh;
    quotas->read = true;
    return ST_OK;
}

/* The key that all leases below the path of a quota begin with. */
static enum status counted_prefix(struct arena *arena, const char *ns, struct bytes path,
                                  struct bytes *ret_key)
{
    bool glob = path.len != 0 && path.data[path.len - 1] == '*';
    bool whole = path.len == 0 || path.data[path.len - 1] == '/';
    const char *prefix = arena_format(arena, "%.*s%s", (int)(path.len - glob),
                                      (const char *)path.data, glob || whole ? "" : "/");
    ASSERT(path.len <= QUOTA_PATH_MAX);
    return prefix != NULL ? lease_prefix(arena, ns, prefix, ret_key) : ST_NOMEM;
}

enum status quota_lease_counter(struct state_txn *txn, const char *ns, struct bytes path,
                                uint64_t *ret_n)
{
    struct bytes prefix;
    TRY(counted_prefix(txn->arena, ns, path, &prefix));
    *ret_n = state_count(txn, prefix);
    return ST_OK;
}

/* One lease more. The leases that the quota counts are a precondition only when its end is near. */
static enum status check_counter(struct req *req, struct req_leases *leases)
{
    uint64_t version;
    uint64_t n = leases->stored + leases->n;

    ASSERT(leases->known && leases->limit > 0 && leases->counted.len != 0);
    ASSERT(n >= leases->stored);
    if (!leases->noted && n + QUOTA_LEASES_NEAR >= leases->limit) {
        TRY(state_newest(req->txn, leases->counted, &version));
        leases->noted = true;
    }
    if (n < leases->limit)
        return ST_OK;
    return req_fail(req, ST_LIMITED, "request path \"%.160s\": lease count quota exceeded",
                    (const char *)req->path.data);
}

/* Find the quota that decides about the request. *ret_rule NULL: none does. */
static enum status find_rule(struct req *req, const struct quota_rule **ret_rule)
{
    struct lease_quotas *quotas = req->lease_quotas;
    struct bytes prefix;

    *ret_rule = NULL;
    if (req->token != NULL && policy_list_is_root(&req->token->policies))
        return ST_OK;
    TRY(setting_key(req->arena, STATE_NS_ROOT, quota_leases.settings, &prefix));
    if (state_count(req->txn, prefix) == 0)
        return ST_OK;
    TRY(read_changed(quotas, req, prefix));
    *ret_rule = quota_rules_find(&quotas->rules, req);
    return ST_OK;
}

/* One quota decides about all leases of a request: its path does not change. */
static enum status know_quota(struct req *req, struct req_leases *leases)
{
    const struct quota_rule *rule;
    ASSERT(!leases->known && leases->n == 0);
    TRY(find_rule(req, &rule));
    if (rule != NULL) {
        TRY(counted_prefix(req->arena, req->ns, rule->path, &leases->counted));
        leases->stored = state_count(req->txn, leases->counted);
        leases->limit = rule->limit;
        ASSERT(leases->limit > 0 && leases->limit <= QUOTA_LIMIT_MAX);
    }
    leases->known = true;
    ASSERT((leases->limit != 0) == (rule != NULL));
    return ST_OK;
}

enum status req_lease_quota(struct req *req)
{
    struct req_leases *leases = &req->reply.leases;
    ASSERT(req_in_txn(req) && req->lease_quotas != NULL);
    if (!leases->known)
        TRY(know_quota(req, leases));
    if (leases->limit != 0)
        TRY(check_counter(req, leases));
    leases->n++;
    ASSERT(leases->limit == 0 || leases->n <= leases->limit);
    return ST_OK;
}
