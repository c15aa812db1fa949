/* Paths of upstream that are not built. Where a list is asked, the empty one is the truth; every
 * other request is answered with 501 and says what is missing. */
#include "api/sys/sys.h"

static enum status absent(struct req *req)
{
    return req_fail(req, ST_UNIMPLEMENTED, "%s", req->route->help);
}

static void put_empty_list(struct text_writer *w, const char *name)
{
    text_key(w, name);
    text_open_list(w);
    text_close(w);
}

static enum status no_keys(struct req *req)
{
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    put_empty_list(&w, "keys");
    text_close(&w);
    return req_reply_end(req);
}

static enum status no_audit_devices(struct req *req)
{
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_close(&w);
    return req_reply_end(req);
}

static enum status no_audited_headers(struct req *req)
{
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_key(&w, "headers");
    text_open_object(&w);
    text_close(&w);
    text_close(&w);
    return req_reply_end(req);
}

static enum status no_locked_users(struct req *req)
{
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    put_empty_list(&w, "by_namespace");
    text_member_int(&w, "total", 0);
    text_close(&w);
    return req_reply_end(req);
}

static enum status no_plugins(struct req *req)
{
    static const char *const kinds[] = {"auth", "database", "secret", "detailed"};
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        put_empty_list(&w, kinds[i]);
    text_close(&w);
    return req_reply_end(req);
}

static enum status no_entities(struct req *req)
{
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_key(&w, "counters");
    text_open_object(&w);
    text_key(&w, "entities");
    text_open_object(&w);
    text_member_int(&w, "total", 0);
    text_close(&w);
    text_close(&w);
    text_close(&w);
    return req_reply_end(req);
}

#define ABSENT(pattern, what)                                                   \
    {                                                                           \
        .method = METHOD_GET, .path = (pattern), .handler = absent,             \
        .flags = ROUTE_ABSENT | ROUTE_FREE_BODY, .help = what " are not built." \
    }

static const struct route absent_routes[] = {
    {.method = METHOD_GET,
     .path = "audit",
     .handler = no_audit_devices,
     .flags = ROUTE_SUDO | ROUTE_TOP_LEVEL,
     .shape = "{}",
     .help = "The audit devices: none, they are not built."},
    {.method = METHOD_GET,
     .path = "config/auditing/request-headers",
     .handler = no_audited_headers,
     .flags = ROUTE_SUDO,
     .shape = "{headers:{}}",
     .help = "The headers of requests that audit devices record: none, they are not built."},
    {.method = METHOD_LIST,
     .path = "config/ui/headers",
     .handler = no_keys,
     .flags = ROUTE_SUDO,
     .help = "The headers of web pages: none, there are no pages."},
    {.method = METHOD_GET,
     .path = "internal/counters/entities",
     .handler = no_entities,
     .shape = "{counters:{entities:{total:int}}}",
     .help = "How many entities there are: none, they are not built."},
    {.method = METHOD_GET,
     .path = "internal/ui/namespaces",
     .handler = no_keys,
     .flags = ROUTE_ANY_TOKEN,
     .shape = "{keys:[str]}",
     .help = "The namespaces below the root that the token can use: none, they are not built."},
    {.method = METHOD_GET,
     .path = "locked-users",
     .handler = no_locked_users,
     .shape = "{by_namespace:[obj] total:int}",
     .help = "The users that failed to log in too often: none, there are no logins."},
    {.method = METHOD_LIST,
     .path = "namespaces",
     .handler = no_keys,
     .help = "The namespaces below the root: none, they are not built."},
    {.method = METHOD_GET,
     .path = "plugins/catalog",
     .handler = no_plugins,
     .shape = "{auth:[str] database:[str] secret:[str] detailed:[obj]}",
     .help = "The plugins: none, they are not built."},
    {.method = METHOD_LIST,
     .path = "plugins/catalog/:type",
     .handler = no_keys,
     .help = "The plugins of one type: none, they are not built."},
    ABSENT("audit/*path", "Audit devices"),
    ABSENT("audit-hash/*path", "Audit devices"),
    ABSENT("config/auditing/*path", "Audit devices"),
    ABSENT("config/control-group", "Control groups"),
    ABSENT("config/group-policy-application", "Groups of identities"),
    ABSENT("config/reload/*subsystem", "Reloads by request, in place of SIGHUP,"),
    ABSENT("config/ui/*path", "Web pages"),
    ABSENT("control-group/*path", "Control groups"),
    ABSENT("experiments", "Experiments"),
    ABSENT("external-keys/*path", "Keys kept outside the cluster"),
    ABSENT("generate-recovery-token/*path", "Tokens of a recovery mode"),
    ABSENT("internal/counters/activity/*path", "Counts of clients"),
    ABSENT("internal/counters/config", "Counts of clients"),
    ABSENT("internal/counters/requests", "Counts of requests by month"),
    ABSENT("internal/inspect/*path", "Views into the router"),
    ABSENT("internal/ui/authenticated-messages", "Web pages"),
    ABSENT("internal/ui/feature-flags", "Web pages"),
    ABSENT("internal/ui/unauthenticated-messages", "Web pages"),
    ABSENT("license/*path", "Licence keys"),
    ABSENT("locked-users/*path", "Locks of users"),
    ABSENT("managed-keys/*path", "Keys kept outside the cluster"),
    ABSENT("mfa/*path", "Second factors"),
    ABSENT("monitor", "Streams of log lines"),
    ABSENT("namespaces/*path", "Namespaces below the root"),
    ABSENT("plugins/*path", "Plugins"),
    ABSENT("policies/egp/*name", "Policies in code"),
    ABSENT("policies/rgp/*name", "Policies in code"),
    ABSENT("pprof/*path", "Profiles of a running node"),
    ABSENT("quotas/lease-count/*name", "Quotas of leases"),
    ABSENT("raw/*path", "Requests for raw storage"),
    ABSENT("rekey/backup", "Backups of key shares, which need PGP keys,"),
    ABSENT("rekey/recovery-key-backup", "Backups of key shares, which need PGP keys,"),
    ABSENT("replication/*path", "Links between clusters"),
    ABSENT("rotate/recovery/backup", "Backups of key shares, which need PGP keys,"),
    ABSENT("rotate/root/backup", "Backups of key shares, which need PGP keys,"),
    ABSENT("seal-backend-status", "Several seals side by side"),
    ABSENT("sealwrap/*path", "Seals of single values"),
    ABSENT("storage/raft/snapshot-auto/*path", "Snapshots by a schedule"),
    ABSENT("sync/*path", "Copies of secrets in other services"),
    ABSENT("utilization", "Reports of use"),
    ABSENT("well-known/*label", "Well-known addresses"),
    ABSENT("workflows/*path", "Workflows"),
};

const struct route_table sys_absent_table = {absent_routes, ARRAY_LEN(absent_routes)};
