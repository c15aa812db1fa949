#include "router/quota.h"
#include "base/mem.h"
#include "router/setting.h"
#include "state/ns_key.h"
#include "text/cidr.h"

#include <stdlib.h>

static const struct field fields[] = {
    FIELD(struct quota, path, STRING, .preset = "",
          .help = "What it is about: \"\" for all, a mount, a path below one, or the beginning of "
                  "such a path and '*'."),
    FIELD(struct quota, rate, STRING, .required = true,
          .help = "How many requests a client may make in an interval."),
    FIELD(struct quota, interval, DURATION, .preset = "1s", .help = "How long that is."),
    FIELD(struct quota, block_interval, DURATION,
          .help = "How long a client is refused after one too many; 0: until the interval ends."),
    FIELD(struct quota, role, STRING, .preset = "", .help = "Not available."),
    FIELD(struct quota, inheritable, BOOL, .has = offsetof(struct quota, has_inheritable),
          .help = "Kept and shown: there are no namespaces below. True where none is given and the "
                  "quota is about everything."),
};
const struct schema quota_schema = SCHEMA(struct quota, fields);

static const struct field config_fields[] = {
    FIELD(struct quota_config, enable_rate_limit_audit_logging, BOOL,
          .help = "Kept and shown: there are no audit devices."),
    FIELD(struct quota_config, enable_rate_limit_response_headers, BOOL,
          .help = "Tell clients what they have left, in headers."),
    FIELD(struct quota_config, rate_limit_exempt_paths, STRINGS,
          .help = "Paths without quotas; with '*' at the end all that begins so. sys/health, "
                  "sys/seal-status and sys/unseal never have any."),
};
const struct schema quota_config_schema = SCHEMA(struct quota_config, config_fields);

struct rule {
    struct bytes path;
    uint64_t version; /* version of the quota: counting starts anew when the quota changes */
    struct quota_window window;
};

/* The rules at one version of the settings; all of them lie in the arena. */
struct rules {
    struct arena arena;
    uint64_t version;
    struct rule *items; /* rules, the one with the longest path first */
    size_t n;
    struct quota_config config;
};

struct quotas {
    struct quota_table *table;
    struct rules rules;
    uint64_t read_ms;
    bool read;
};

enum status quota_rate(const char *text, uint64_t *ret_limit)
{
    size_t whole = strspn(text, "0123456789");
    size_t rest = text[whole] == '.' ? strspn(text + whole + 1, "0123456789") : 0;
    int64_t n;
    if (whole == 0 || (whole > 1 && text[0] == '0') || whole > 10 || rest > 20 ||
        (text[whole] == '.' && rest == 0) || text[whole + (rest != 0 ? rest + 1 : 0)] != '\0')
        return ST_INVALID;
    TRY(text_int_parse(bytes_of(text, whole), &n));
    if (rest != 0 && strspn(text + whole + 1, "0") < rest)
        n++;
    if (n < 1 || n > QUOTA_RATE_MAX)
        return ST_INVALID;
    ASSERT(n >= 1);
    *ret_limit = (uint64_t)n;
    return ST_OK;
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

/* Reading the rules */

static int rule_order(const void *a, const void *b)
{
    const struct rule *x = a, *y = b;
    if (x->path.len != y->path.len)
        return x->path.len > y->path.len ? -1 : 1;
    return bytes_cmp(x->path, y->path);
}

static enum status add_rule(struct rules *rules, struct bytes stored, uint64_t version)
{
    const struct text_value *tree;
    struct schema_fault fault;
    struct quota quota;
    uint64_t limit;

    TRY(text_json_parse(&rules->arena, stored, &tree, NULL));
    TRY(schema_decode(&quota_schema, tree, &rules->arena, &quota, &fault));
    TRY(quota_rate(quota.rate, &limit));
    ASSERT(rules->n < QUOTA_MAX);
    if (strlen(quota.path) > QUOTA_PATH_MAX)
        return ST_CORRUPT;
    const char *path = arena_str(&rules->arena, bytes_str(quota.path));
    if (path == NULL)
        return ST_NOMEM;
    rules->items[rules->n++] =
        (struct rule){.path = bytes_str(path),
                      .version = version,
                      .window = {.limit = limit,
                                 .interval_ms = (uint64_t)MAX(quota.interval, INT64_C(1)) * 1000,
                                 .blocking_ms = (uint64_t)quota.block_interval * 1000}};
    return ST_OK;
}

static enum status read_rules(struct state_txn *txn, struct rules *rules)
{
    struct state_iter *iter = arena_alloc(txn->arena, sizeof *iter);
    struct bytes prefix, stored;

    rules->items = arena_alloc(&rules->arena, QUOTA_MAX * sizeof *rules->items);
    if (iter == NULL || rules->items == NULL)
        return ST_NOMEM;
    TRY(setting_key(txn->arena, STATE_NS_ROOT, QUOTA_SETTINGS, &prefix));
    TRY(state_scan(txn, prefix, (struct bytes){0}, iter));
    while (rules->n < QUOTA_MAX && state_iter_next(iter)) {
        TRY(state_iter_value(iter, &stored));
        TRY(add_rule(rules, stored, iter->modified));
    }
    ASSERT(rules->n <= QUOTA_MAX);
    qsort(rules->items, rules->n, sizeof *rules->items, rule_order);
    enum status st = setting_load(txn, STATE_NS_ROOT, QUOTA_CONFIG_SETTING, &quota_config_schema,
                                  &rules->config);
    return st == ST_NOT_FOUND ? ST_OK : st;
}

/* Read the settings into the arena of the rules, which then replace the old rules. */
static enum status refresh(struct quotas *quotas, struct state *state)
{
    struct rules fresh = {0};
    struct state_txn txn = {0};
    struct bytes prefix;

    TRY(state_begin(state, &fresh.arena, NULL, &txn));
    enum status st = setting_key(&fresh.arena, STATE_NS_ROOT, "quota/", &prefix);
    if (st == ST_OK)
        st = state_newest(&txn, prefix, &fresh.version);
    bool same = st == ST_OK && quotas->read && fresh.version == quotas->rules.version;
    if (st == ST_OK && !same)
        st = read_rules(&txn, &fresh);
    state_end(&txn);
    struct rules old = st == ST_OK && !same ? quotas->rules : fresh;
    if (st == ST_OK && !same)
        quotas->rules = fresh;
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
    quotas->rules = (struct rules){0};
    quotas->read = false;
}

/* Judging requests */

static bool fits_path(struct bytes rule, struct bytes path)
{
    if (rule.len == 0)
        return true;
    uint8_t last = rule.data[rule.len - 1];
    if (last == '*')
        return bytes_has_prefix(path, bytes_of(rule.data, rule.len - 1));
    return (last == '/' && bytes_has_prefix(path, rule)) ||
           bytes_eq(path_trimmed(path), path_trimmed(rule));
}

static bool fits(struct bytes rule, const struct req *req)
{
    return fits_path(rule, req->path) ||
           (req->rule_path.len != 0 && fits_path(rule, req->rule_path));
}

static bool is_exempt(const struct quotas *quotas, const struct req *req)
{
    static const char *const always[] = {"sys/health", "sys/seal-status", "sys/unseal"};
    const struct field_strings *more = &quotas->rules.config.rate_limit_exempt_paths;
    for (size_t i = 0; i < ARRAY_LEN(always); i++)
        if (fits(bytes_str(always[i]), req))
            return true;
    for (size_t i = 0; i < more->n; i++)
        if (more->items[i][0] != '\0' && fits(bytes_str(more->items[i]), req))
            return true;
    return false;
}

static const struct rule *find(const struct quotas *quotas, const struct req *req)
{
    for (size_t i = 0; i < quotas->rules.n; i++)
        if (fits(quotas->rules.items[i].path, req))
            return &quotas->rules.items[i];
    return NULL;
}

enum { KEY_BYTES = 8 + 16 + QUOTA_PATH_MAX };

/* The key of the counter: the rule with its version, and the client. */
static struct bytes key_of(const struct rule *rule, const char *peer, uint8_t key[KEY_BYTES])
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
    if (request->forwarded || state == NULL)
        return ST_OK;
    look(quotas, state, now_ms);
    const struct rule *rule = find(quotas, req);
    if (rule == NULL || is_exempt(quotas, req))
        return ST_OK;
    bool taken = quota_table_take(quotas->table, key_of(rule, request->peer, key), &rule->window,
                                  now_ms, &count);
    if (quotas->rules.config.enable_rate_limit_response_headers)
        *ret_verdict =
            (struct quota_verdict){.limit = rule->window.limit, .count = count, .refused = !taken};
    if (taken)
        return ST_OK;
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
