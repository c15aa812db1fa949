#include "router/quota_rule.h"
#include "router/request/dialect.h"
#include "router/request/path.h"
#include "router/router.h"
#include "router/setting.h"
#include "state/ns_key.h"

#include <stdlib.h>

/* Kinds */

#define PATH_HELP                                                                                 \
    "Paths of requests: \"\" for all, a mount, a path below a mount, or the beginning of such a " \
    "path and '*'."
#define ROLE_FIELD                                  \
    FIELD(struct quota, role, STRING, .preset = "", \
          .help = "Role of an auth method. No auth method supports quotas by role.")
#define INHERITABLE_FIELD                                                                       \
    FIELD(struct quota, inheritable, BOOL, .has = offsetof(struct quota, has_inheritable),      \
          .help = "Kept and shown: there are no namespaces below. Preset: whether the path is " \
                  "\"\".")

static const struct field rate_fields[] = {
    FIELD(struct quota, path, STRING, .preset = "",
          .help = PATH_HELP " Paths of another API begin with its name: registry/acl/."),
    FIELD(struct quota, rate, STRING, .required = true, .exact = true,
          .help = "How many requests a client may make in an interval."),
    FIELD(struct quota, interval, DURATION, .preset = "1s", .help = "Length of the interval."),
    FIELD(struct quota, block_interval, DURATION,
          .help = "How long a client is refused after one request too many; 0: until the interval "
                  "ends."),
    ROLE_FIELD,
    INHERITABLE_FIELD,
};
const struct schema quota_rate_schema = SCHEMA(struct quota, rate_fields);

static const struct field lease_fields[] = {
    FIELD(struct quota, path, STRING, .preset = "", .help = PATH_HELP),
    FIELD(struct quota, max_leases, INT, .required = true, .exact = true,
          .help = "How many leases may exist whose ids begin with the path."),
    ROLE_FIELD,
    INHERITABLE_FIELD,
};
const struct schema quota_lease_schema = SCHEMA(struct quota, lease_fields);

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
    if (n < 1 || n > QUOTA_LIMIT_MAX)
        return ST_INVALID;
    ASSERT(n >= 1);
    *ret_limit = (uint64_t)n;
    return ST_OK;
}

static enum status rate_limit(const struct quota *quota, uint64_t *ret_limit, struct reason *why)
{
    if (quota_rate(quota->rate, ret_limit) != ST_OK) {
        reason_set(why, "'rate' is invalid: a number above 0 is expected");
        return ST_INVALID;
    }
    if (quota->interval == 0) {
        reason_set(why, "'interval' is invalid: a time above 0 is expected");
        return ST_INVALID;
    }
    ASSERT(quota->interval > 0 && quota->block_interval >= 0);
    return ST_OK;
}

static enum status lease_limit(const struct quota *quota, uint64_t *ret_limit, struct reason *why)
{
    if (quota->max_leases < 1 || quota->max_leases > QUOTA_LIMIT_MAX) {
        reason_set(why, "'max_leases' is invalid: a number from 1 to %d is expected",
                   QUOTA_LIMIT_MAX);
        return ST_INVALID;
    }
    *ret_limit = (uint64_t)quota->max_leases;
    return ST_OK;
}

const struct quota_kind quota_rates = {
    .type = "rate-limit",
    .settings = "quota/rate-limit/",
    .schema = &quota_rate_schema,
    .limit = rate_limit,
};
const struct quota_kind quota_leases = {
    .type = "lease-count",
    .settings = "quota/lease-count/",
    .schema = &quota_lease_schema,
    .limit = lease_limit,
};

/* Reading the quotas of a kind */

static int rule_order(const void *a, const void *b)
{
    const struct quota_rule *x = a, *y = b;
    if (x->path.len != y->path.len)
        return x->path.len > y->path.len ? -1 : 1;
    return bytes_cmp(x->path, y->path);
}

static enum status add_rule(const struct quota_kind *kind, struct bytes stored, uint64_t version,
                            struct quota_rules *rules)
{
    const struct text_value *tree;
    struct schema_fault fault;
    struct reason why;
    struct quota quota;
    uint64_t limit;

    TRY(text_json_parse(&rules->arena, stored, &tree, NULL));
    TRY(schema_decode(kind->schema, tree, &rules->arena, &quota, &fault));
    ASSERT(rules->n < QUOTA_MAX);
    if (kind->limit(&quota, &limit, &why) != ST_OK || strlen(quota.path) > QUOTA_PATH_MAX)
        return ST_CORRUPT;
    const char *path = arena_str(&rules->arena, bytes_str(quota.path));
    if (path == NULL)
        return ST_NOMEM;
    quota.path = quota.role = quota.rate = NULL; /* strings may lie in memory of the transaction */
    rules->items[rules->n++] = (struct quota_rule){
        .path = bytes_str(path), .version = version, .limit = limit, .quota = quota};
    return ST_OK;
}

enum status quota_rules_read(struct state_txn *txn, const struct quota_kind *kind,
                             struct quota_rules *rules)
{
    struct state_iter *iter = arena_alloc(txn->arena, sizeof *iter);
    struct bytes prefix, stored;

    ASSERT(rules->n == 0);
    rules->items = arena_alloc(&rules->arena, QUOTA_MAX * sizeof *rules->items);
    if (iter == NULL || rules->items == NULL)
        return ST_NOMEM;
    TRY(setting_key(txn->arena, STATE_NS_ROOT, kind->settings, &prefix));
    TRY(state_scan(txn, prefix, (struct bytes){0}, iter));
    while (rules->n < QUOTA_MAX && state_iter_next(iter)) {
        TRY(state_iter_value(iter, &stored));
        TRY(add_rule(kind, stored, iter->modified, rules));
    }
    ASSERT(rules->n <= QUOTA_MAX);
    qsort(rules->items, rules->n, sizeof *rules->items, rule_order);
    return ST_OK;
}

/* The quota that fits a request */

static bool fits(struct bytes rule, struct bytes path)
{
    if (rule.len == 0)
        return true;
    uint8_t last = rule.data[rule.len - 1];
    if (last == '*')
        return bytes_has_prefix(path, bytes_of(rule.data, rule.len - 1));
    return (last == '/' && bytes_has_prefix(path, rule)) ||
           bytes_eq(path_trimmed(path), path_trimmed(rule));
}

/* Whether a rule fits a path of an API without mounts, in front of which stands the API's name. */
static bool fits_api(struct bytes rule, const char *api, struct bytes path)
{
    struct bytes name = bytes_str(api);
    ASSERT(name.len != 0);
    ASSERT(path.len == 0 || path.data[0] != '/');
    if (rule.len == 0)
        return true;
    if (rule.data[rule.len - 1] == '*' && rule.len <= name.len + 1)
        return bytes_has_prefix(name, bytes_of(rule.data, rule.len - 1));
    return rule.len > name.len && bytes_has_prefix(rule, name) && rule.data[name.len] == '/' &&
           fits(bytes_from(rule, name.len + 1), path);
}

bool quota_path_fits(struct bytes path, const struct req *req)
{
    if (!req->dialect->mounts)
        return fits_api(path, req->dialect->name, req->path);
    return fits(path, req->path) || (req->rule_path.len != 0 && fits(path, req->rule_path));
}

/* Whether `place` is above or below the path of a quota. *path gets the '/' that it lacks. */
static bool stands_near(const char *place, const char **path)
{
    size_t n = strlen(*path), given = n;
    n -= n != 0 && (*path)[n - 1] == '*';
    ASSERT(place[0] != '\0');
    ASSERT(n <= given);
    if (n == 0 || strncmp(*path, place, strlen(place)) == 0)
        return n != 0;
    if (strncmp(*path, place, n) != 0)
        return false;
    if (n < given || place[n - 1] == '/')
        return true;
    if (strcmp(place + n, "/") == 0)
        *path = place;
    return *path == place;
}

enum status quota_find_api(const struct module_list *modules, struct arena *arena,
                           const char **path)
{
    struct module_walk walk = {0};
    const struct route_api *api;
    ASSERT((*path)[0] != '\0');
    ASSERT((*path)[0] != '/');
    while ((api = module_next_api(modules, &walk)) != NULL) {
        if (api->prefix == NULL || api->dialect->mounts)
            continue;
        const char *root = arena_format(arena, "%s/", api->dialect->name);
        const char *place = arena_format(arena, "%s/%s", api->dialect->name, api->prefix);
        if (root == NULL || place == NULL)
            return ST_NOMEM;
        if (strcmp(*path, api->dialect->name) == 0)
            *path = root;
        if (stands_near(place, path))
            return ST_OK;
    }
    return ST_NOT_FOUND;
}

const struct quota_rule *quota_rules_find(const struct quota_rules *rules, const struct req *req)
{
    for (size_t i = 0; i < rules->n; i++)
        if (quota_path_fits(rules->items[i].path, req))
            return &rules->items[i];
    return NULL;
}
