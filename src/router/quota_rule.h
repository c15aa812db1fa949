/* Quotas as clients set them, and which quota fits a request.
 *
 * There are two kinds: a limit of requests (quota.h) and a limit of leases (quota_lease.h). Each
 * kind has its own settings. If the paths of several quotas of one kind fit a request, the quota
 * with the longest path decides. The path "" fits every request; "kv/" fits "kv/" and every path
 * below; "kv/a*" fits every path that begins with "kv/a"; "kv/a" fits only "kv/a". Paths compare as
 * in policies: a '/' at the end of the request's path and the case of a policy's name make no
 * difference. The paths of an API without mounts begin with the name of its dialect:
 * "registry/acl/". A mount with that name has the same paths. */
#ifndef HOLDFAST_ROUTER_QUOTA_RULE_H
#define HOLDFAST_ROUTER_QUOTA_RULE_H

#include "router/request/req.h"

struct module_list; /* declared in router/table/module.h */

enum { QUOTA_MAX = 1000 /* of a kind */, QUOTA_PATH_MAX = 512, QUOTA_LIMIT_MAX = 1000000000 };

struct quota {
    const char *name, *path, *role;
    const char *rate;                 /* of a limit of requests */
    int64_t interval, block_interval; /* of a limit of requests, in seconds */
    int64_t max_leases;               /* of a limit of leases */
    bool inheritable, has_inheritable;
};

extern const struct schema quota_rate_schema, quota_lease_schema; /* a quota without its name */

struct quota_kind {
    const char *type;     /* "rate-limit" */
    const char *settings; /* prefix of the settings (setting.h), one for each quota */
    const struct schema *schema;
    /* Check the quota and compute the number that it allows. ST_INVALID with a reason. */
    enum status (*limit)(const struct quota *quota, uint64_t *ret_limit, struct reason *why);
};
extern const struct quota_kind quota_rates, quota_leases;

/* Read a rate: digits, perhaps with a fraction, as a JSON number above 0. The limit of a window is
 * the rate, rounded up. ST_INVALID. */
NODISCARD enum status quota_rate(const char *text, uint64_t *ret_limit);

struct quota_rule {
    struct bytes path;
    uint64_t version; /* version of the quota: counting starts anew when the quota changes */
    uint64_t limit;
    struct quota quota; /* without the strings */
};

/* The quotas of a kind at one version of the settings; all of them lie in the arena. */
struct quota_rules {
    struct arena arena;
    uint64_t version;
    struct quota_rule *items; /* the quota with the longest path first */
    size_t n;
};

/* Read the quotas of a kind into `rules`, whose arena is the arena of `txn`. ST_SEALED, ST_CORRUPT,
 * ST_NOMEM. */
NODISCARD enum status quota_rules_read(struct state_txn *txn, const struct quota_kind *kind,
                                       struct quota_rules *rules);
/* Whether an API without mounts serves paths like the path of a quota. If so, *path gets the '/' at
 * its end that it lacks. ST_NOT_FOUND: none does. ST_NOMEM. */
NODISCARD enum status quota_find_api(const struct module_list *modules, struct arena *arena,
                                     const char **path);
/* The quota that decides about a request; NULL: none fits. */
const struct quota_rule *quota_rules_find(const struct quota_rules *rules, const struct req *req);
/* Whether the path of a quota fits a request. */
bool quota_path_fits(struct bytes path, const struct req *req);

#endif
