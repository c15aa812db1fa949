#include "router/quota.h"
#include "base/mem.h"
#include "base/plant.h"
#include "router/request/dialect.h"
#include "router/setting.h"
#include "state/ns_key.h"
#include "text/cidr.h"

static const struct field config_fields[] = {
    FIELD(struct quota_config, enable_rate_limit_audit_logging, BOOL,
          .help = "Audit devices record requests that a quota refuses."),
    FIELD(struct quota_config, enable_rate_limit_response_headers, BOOL,
          .help = "Tell clients what they have left, in headers."),
    FIELD(struct quota_config, rate_limit_exempt_paths, STRINGS,
          .help = "Paths without quotas; with '*' at the end all that begins so. sys/health, "
                  "sys/seal-status and sys/unseal never have any."),
};
const struct schema quota_config_schema = SCHEMA(struct quota_config, config_fields);

struct quotas {
    struct quota_table *table;
    struct quota_rules rules;
    struct quota_config config;
    uint64_t read_ms;
    bool read;
};

static struct quota_window window_of(const struct quota_rule *rule)
{
    ASSERT(rule->limit > 0);
    return (struct quota_window){
        .limit = rule->limit,
        .interval_ms = (uint64_t)MAX(rule->quota.interval, INT64_C(1)) * 1000,
        .blocking_ms = (uint64_t)rule->quota.block_interval * 1000,
    };
}

enum status quotas_new(struct quota_table *table, struct quotas **ret_quotas)
{
    struct quotas *quotas = mem_zalloc(sizeof *quotas);
    if (quotas == NULL)
        return ST_NOMEM;
    quotas->table = table;
    *ret_quotas = quotas;
    return ST_OK;
}

void quotas_free(struct quotas *quotas)
{
    if (quotas == NULL)
        return;
    arena_done(&quotas->rules.arena);
    mem_free(quotas);
}

/* Read the settings into the arena of the rules, which then replace the old rules. */
static enum status refresh(struct quotas *quotas, struct state *state)
{
    struct quota_rules fresh = {0};
    struct quota_config config = {0};
    struct state_txn txn = {0};
    struct bytes prefix;

    TRY(state_begin(state, &fresh.arena, NULL, &txn));
    enum status st = setting_key(&fresh.arena, STATE_NS_ROOT, "quota/", &prefix);
    if (st == ST_OK)
        st = state_newest(&txn, prefix, &fresh.version);
    bool same = st == ST_OK && quotas->read && fresh.version == quotas->rules.version;
    if (st == ST_OK && !same)
        st = quota_rules_read(&txn, &quota_rates, &fresh);
    if (st == ST_OK && !same) {
        st = setting_load(&txn, STATE_NS_ROOT, QUOTA_CONFIG_SETTING, &quota_config_schema, &config);
        st = st == ST_NOT_FOUND ? ST_OK : st;
    }
    state_end(&txn);
    struct quota_rules old = st == ST_OK && !same ? quotas->rules : fresh;
    if (st == ST_OK && !same) {
        quotas->rules = fresh;
        quotas->config = config;
    }
    quotas->read = quotas->read || st == ST_OK;
    arena_done(&old.arena);
    return st;
}

/* A node that cannot read the settings, such as a sealed one, applies no quotas. */
static void look(struct quotas *quotas, struct state *state, uint64_t now_ms)
{
    if (quotas->read_ms != 0 && now_ms - quotas->read_ms < QUOTA_PATIENCE_MS)
        return;
    ASSERT(quotas->read_ms <= MAX(now_ms, (uint64_t)1));
    quotas->read_ms = MAX(now_ms, (uint64_t)1);
    if (refresh(quotas, state) == ST_OK)
        return;
    arena_done(&quotas->rules.arena);
    quotas->rules = (struct quota_rules){0};
    quotas->config = (struct quota_config){0};
    quotas->read = false;
}

/* Judging requests */

static bool is_exempt(const struct quotas *quotas, const struct req *req)
{
    static const char *const always[] = {"sys/health", "sys/seal-status", "sys/unseal"};
    const struct field_strings *more = &quotas->config.rate_limit_exempt_paths;
    for (size_t i = 0; i < ARRAY_LEN(always); i++)
        if (quota_path_fits(bytes_str(always[i]), req))
            return true;
    for (size_t i = 0; i < more->n; i++)
        if (more->items[i][0] != '\0' && quota_path_fits(bytes_str(more->items[i]), req))
            return true;
    return false;
}

enum { KEY_BYTES = 8 + 16 + QUOTA_PATH_MAX };

/* The key of the counter: the rule with its version, and the client. */
static struct bytes key_of(const struct quota_rule *rule, const char *peer, uint8_t key[KEY_BYTES])
{
    struct ip ip;
    uint16_t port;
    memset(key, 0, 8 + 16);
    memcpy(key, &rule->version, 8);
    if (ip_port_parse(bytes_str(peer), &ip, &port) == ST_OK)
        memcpy(key + 8, ip.bytes, ip.len == 4 ? 4 : 8);
    ASSERT(rule->path.len <= QUOTA_PATH_MAX);
    memcpy(key + 8 + 16, rule->path.data, rule->path.len);
    return bytes_of(key, 8 + 16 + rule->path.len);
}

enum status quota_judge(struct quotas *quotas, struct state *state,
                        const struct router_request *request, struct req *req, uint64_t now_ms,
                        struct quota_verdict *ret_verdict)
{
    uint8_t key[KEY_BYTES];
    struct quota_count count;

    *ret_verdict = (struct quota_verdict){0};
    if ((request->forwarded && !planted(PLANT_QUOTA_TWICE)) || state == NULL)
        return ST_OK;
    look(quotas, state, now_ms);
    const struct quota_rule *rule = quota_rules_find(&quotas->rules, req);
    if (rule == NULL || is_exempt(quotas, req))
        return ST_OK;
    const struct quota_window window = window_of(rule);
    bool taken =
        quota_table_take(quotas->table, key_of(rule, request->peer, key), &window, now_ms, &count);
    if (quotas->config.enable_rate_limit_response_headers)
        *ret_verdict =
            (struct quota_verdict){.limit = window.limit, .count = count, .refused = !taken};
    if (taken)
        return ST_OK;
    ret_verdict->unrecorded = !quotas->config.enable_rate_limit_audit_logging;
    if (req->dialect->limited_text != NULL)
        return req_fail(req, ST_LIMITED, "%s", req->dialect->limited_text);
    return req_fail(req, ST_LIMITED, "request path \"%.160s\": rate limit quota exceeded",
                    (const char *)req->path.data);
}

static void add(struct router_reply *reply, struct arena *arena, const char *name, uint64_t n)
{
    const char *text = arena_format(arena, "%llu", (unsigned long long)n);
    if (text != NULL)
        /* without memory the reply lacks the header */
        (void)reply_add_header(reply, arena, bytes_str(name), bytes_str(text));
}

void quota_tell(const struct quota_verdict *verdict, struct arena *arena,
                struct router_reply *reply)
{
    uint64_t reset_s = (verdict->count.reset_ms + 999) / 1000;
    if (verdict->limit == 0)
        return;
    ASSERT(verdict->count.remaining <= verdict->limit);
    add(reply, arena, "X-Ratelimit-Limit", verdict->limit);
    add(reply, arena, "X-Ratelimit-Remaining", verdict->count.remaining);
    add(reply, arena, "X-Ratelimit-Reset", reset_s);
    if (verdict->refused)
        add(reply, arena, "Retry-After", reset_s);
}
