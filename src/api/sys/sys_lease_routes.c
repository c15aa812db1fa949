/* Leases, also by their older names. */
#include "api/sys/sys_leases.h"
#include "api/sys/sys_tables.h"

/* Rows that stand at several paths: with the lease in the path, and where they used to be. */
#define RENEW(pattern)                                                                             \
    {                                                                                              \
        .method = METHOD_POST, .path = pattern, .handler = sys_lease_renew, .flags = ROUTE_ASTRAY, \
        .body = &sys_lease_schema,                                                                 \
        .help =                                                                                    \
            "Refused for the leases of tokens, the only ones there are: auth/token/renew renews "  \
            "them."                                                                                \
    }
#define REVOKE(pattern)                                                                 \
    {                                                                                   \
        .method = METHOD_POST, .path = pattern, .handler = sys_lease_revoke,            \
        .body = &sys_lease_schema,                                                      \
        .help = "End a lease at once: of a token, also all below it. None is fine too." \
    }
#define REVOKE_PREFIX(pattern)                                                                  \
    {                                                                                           \
        .method = METHOD_POST, .path = pattern, .handler = sys_leases_revoke_below,             \
        .flags = ROUTE_SUDO, .body = &sys_leases_below_schema, .shape = "none|{}~",             \
        .statuses = "200 202",                                                                  \
        .help =                                                                                 \
            "End all leases below a path. If there are many, the answer is 202 and the active " \
            "node ends the rest."                                                               \
    }
#define REVOKE_FORCE(pattern)                                                       \
    {                                                                               \
        .method = METHOD_POST, .path = pattern, .handler = sys_leases_revoke_below, \
        .flags = ROUTE_SUDO, .body = &sys_leases_below_schema, .shape = "none|{}~", \
        .statuses = "200 202",                                                      \
        .help = "The same as revoke-prefix: nothing here can fail to be ended."     \
    }

static const struct route rows[] = {
    {.method = METHOD_POST,
     .path = "leases/lookup",
     .handler = sys_lease_lookup,
     .flags = ROUTE_READS,
     .body = &sys_lease_schema,
     .shape = "{id:str issue_time:str expire_time:str~ last_renewal:str~ renewable:bool ttl:int}",
     .help = "What a lease is, and how long it lives."},
    {.method = METHOD_LIST,
     .path = "leases/lookup/*prefix",
     .handler = sys_lease_list,
     .flags = ROUTE_SUDO,
     .help = "The names below a path under which there are leases."},
    RENEW("leases/renew"),
    REVOKE("leases/revoke"),
    RENEW("leases/renew/*lease_id"),
    REVOKE("leases/revoke/*lease_id"),
    REVOKE_PREFIX("leases/revoke-prefix/*prefix"),
    REVOKE_FORCE("leases/revoke-force/*prefix"),
    RENEW("renew"),
    REVOKE("revoke"),
    RENEW("renew/*lease_id"),
    REVOKE("revoke/*lease_id"),
    REVOKE_PREFIX("revoke-prefix/*prefix"),
    REVOKE_FORCE("revoke-force/*prefix"),
    {.method = METHOD_POST,
     .path = "leases/tidy",
     .handler = sys_leases_tidy,
     .flags = ROUTE_SUDO,
     .shape = "{}~",
     .statuses = "202",
     .help = "Does nothing: leftovers are deleted all the time."},
    {.method = METHOD_LIST,
     .path = "leases",
     .handler = sys_leases_all,
     .flags = ROUTE_SUDO,
     .body = &sys_leases_all_schema,
     .shape = "{leases:[{lease_id:str}] lease_count:int}",
     .help = "All leases."},
    {.method = METHOD_GET,
     .path = "leases/count",
     .handler = sys_leases_count,
     .flags = ROUTE_SUDO,
     .body = &sys_leases_count_schema,
     .shape = "{counts:{*:int} lease_count:int}",
     .help = "How many leases there are, by mount."},
};

const struct route_table sys_lease_table = {rows, ARRAY_LEN(rows)};
