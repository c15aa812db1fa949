/* Paths of upstream that this server does not implement. A request for a list gets an empty list. A
 * path that upstream has switched off by default gets upstream's reply when the path is off. Every
 * other request gets 404, with the name of the missing feature: clients read 501 as a cluster that
 * is not initialised. The OpenAPI document does not have these paths. */
#include "api/absent/absent.h"

static enum status absent(struct req *req)
{
    return req_fail(req, ST_NOT_FOUND, "%s", req->route->help);
}

/* sys/raw without raw_storage_endpoint: upstream has no such path then. */
static enum status raw_is_off(struct req *req)
{
    return req_fail(req, ST_NOT_FOUND,
                    "unsupported path: requests for raw storage are switched off");
}

/* sys/internal/inspect without introspection_endpoint. */
static enum status inspect_is_off(struct req *req)
{
    return req_fail(req, ST_INVALID,
                    "introspection_endpoint is switched off: this server shows no internals");
}

/* sys/internal/counters/activity without data: 204. */
static enum status no_activity(struct req *req)
{
    ASSERT(req->reply.kind == REPLY_NONE);
    return ST_OK;
}

struct nothing {
    struct field_strings strings;
    struct field_list list;
    int64_t total;
    const void *object;
};
#define NO_STRINGS(name) FIELD_NAMED(name, struct nothing, strings, STRINGS)
#define NO_OBJECTS(name) FIELD_NAMED(name, struct nothing, list, LIST)
static const struct field no_keys_fields[] = {NO_STRINGS("keys")};
static const struct schema no_keys_reply = SCHEMA(struct nothing, no_keys_fields);
static const struct field no_users_fields[] = {NO_OBJECTS("by_namespace"),
                                               FIELD(struct nothing, total, INT)};
static const struct schema no_users_reply = SCHEMA(struct nothing, no_users_fields);
static const struct field total_fields[] = {FIELD(struct nothing, total, INT)};
static const struct schema total_schema = SCHEMA(struct nothing, total_fields);
static const struct field kinds_fields[] = {
    FIELD_NAMED("entities", struct nothing, object, OBJECT, .sub = &total_schema)};
static const struct schema kinds_schema = SCHEMA(struct nothing, kinds_fields);
static const struct field counters_fields[] = {
    FIELD_NAMED("counters", struct nothing, object, OBJECT, .sub = &kinds_schema)};
static const struct schema no_entities_reply = SCHEMA(struct nothing, counters_fields);

/* Reply with the route's schema and no content. */
static enum status nothing(struct req *req)
{
    static const struct nothing none, one_level = {.object = &none}, two = {.object = &one_level};
    return req_reply(req, &two);
}

#define NOT_BUILT " are not built in holdfast: see docs/compatibility.md"
#define ABSENT_WITH(pattern, what, more)                                                 \
    {                                                                                    \
        .method = METHOD_GET, .path = (pattern), .handler = absent, .input = INPUT_FREE, \
        .kind = ROW_ABSENT, .flags = (more), .help = what NOT_BUILT                      \
    }
#define ABSENT(pattern, what) ABSENT_WITH(pattern, what, 0)
#define ABSENT_SUDO(pattern, what) ABSENT_WITH(pattern, what, ROUTE_SUDO)

#define OFF(pattern, reply, text)                                                         \
    {                                                                                     \
        .method = METHOD_GET, .path = (pattern), .handler = (reply), .input = INPUT_FREE, \
        .kind = ROW_ABSENT, .flags = ROUTE_SUDO, .help = text                             \
    }
#define NO_ACTIVITY(pattern)                                                                  \
    {                                                                                         \
        .method = METHOD_GET, .path = (pattern), .handler = no_activity, .input = INPUT_FREE, \
        .help = "Counts of clients: none, clients are not counted."                           \
    }

static const struct route absent_routes[] = {
    {.method = METHOD_GET,
     .path = "internal/counters/entities",
     .handler = nothing,
     .reply = &no_entities_reply,
     .help = "How many entities there are: none, they are not built."},
    {.method = METHOD_GET,
     .path = "internal/ui/namespaces",
     .handler = nothing,
     .who = WHO_ANY_TOKEN,
     .reply = &no_keys_reply,
     .help = "The namespaces below the root that the token can use: none, they are not built."},
    {.method = METHOD_GET,
     .path = "locked-users",
     .handler = nothing,
     .reply = &no_users_reply,
     .help = "The users that failed to log in too often: none, there are no logins."},
    {.method = METHOD_LIST,
     .path = "namespaces",
     .handler = nothing,
     .reply = &no_keys_reply,
     .help = "The namespaces below the root: none, they are not built."},
    ABSENT("config/control-group", "Control groups"),
    ABSENT("config/group-policy-application", "Groups of identities"),
    ABSENT("config/ui/*path", "Web pages"),
    ABSENT("control-group/*path", "Control groups"),
    ABSENT("experiments", "Experiments"),
    ABSENT("external-keys/*path", "Keys kept outside the cluster"),
    ABSENT("generate-recovery-token/*path", "Tokens of a recovery mode"),
    NO_ACTIVITY("internal/counters/activity"),
    NO_ACTIVITY("internal/counters/activity/export"),
    NO_ACTIVITY("internal/counters/activity/monthly"),
    ABSENT("internal/counters/config", "Counts of clients"),
    ABSENT("internal/counters/requests", "Counts of requests by month"),
    OFF("internal/inspect/*path", inspect_is_off, "Internals of the server: switched off."),
    ABSENT("internal/ui/authenticated-messages", "Web pages"),
    ABSENT("internal/ui/feature-flags", "Web pages"),
    ABSENT("internal/ui/unauthenticated-messages", "Web pages"),
    ABSENT("license/*path", "Licence keys"),
    ABSENT("locked-users/*path", "Locks of users"),
    ABSENT("managed-keys/*path", "Keys kept outside the cluster"),
    ABSENT("mfa/*path", "Second factors"),
    ABSENT("namespaces/*path", "Namespaces below the root"),
    ABSENT("plugins/*path", "Plugins from outside the program"),
    ABSENT("policies/egp/*name", "Policies in code"),
    ABSENT("policies/rgp/*name", "Policies in code"),
    ABSENT_SUDO("pprof/*path", "Profiles of a running node"),
    OFF("raw/*path", raw_is_off, "Raw storage: switched off."),
    ABSENT("replication/*path", "Performance replicas"),
    ABSENT("seal-backend-status", "Several seals side by side"),
    ABSENT("sealwrap/*path", "Seals of single values"),
    ABSENT("sync/*path", "Copies of secrets in other services"),
    ABSENT("utilization", "Reports of use"),
    ABSENT("well-known/*label", "Well-known addresses"),
    ABSENT("workflows/*path", "Workflows"),
};

const struct route_table absent_paths_table = {absent_routes, ARRAY_LEN(absent_routes)};
