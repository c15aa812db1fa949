/* Create a token: a child of the token that asks, an orphan, or a token by a role. */
#include "api/token/token.h"
#include "auth/policy_list.h"
#include "auth/token_ttl.h"
#include "router/quota_lease.h"

#include <strings.h>

static const struct field create_fields[] = {
    FIELD(struct token_create, id, STRING, .preset = "", .hidden = true,
          .help = "The text of the token, in place of a random one; needs sudo."),
    FIELD(struct token_create, policies, STRINGS,
          .help = "Policies of the token; none: those of the parent."),
    FIELD(struct token_create, meta, MAP, .help = "Shown in the audit log."),
    FIELD(struct token_create, no_parent, BOOL,
          .help = "Create an orphan; needs sudo. With a role, the role alone decides."),
    FIELD(struct token_create, no_default_policy, BOOL, .help = "Leave the policy default out."),
    FIELD(struct token_create, renewable, BOOL, .preset = "true"),
    FIELD(struct token_create, ttl, DURATION, .help = "How long the token lives, unless renewed."),
    FIELD(struct token_create, lease, DURATION, .help = "Old name of ttl; ttl has precedence."),
    FIELD(struct token_create, explicit_max_ttl, DURATION,
          .help = "How long the token lives at most."),
    FIELD(struct token_create, type, STRING, .preset = "", .help = "service or batch."),
    FIELD(struct token_create, display_name, STRING, .preset = ""),
    FIELD(struct token_create, num_uses, INT, .exact = true,
          .help = "How often the token may be used; 0: any number."),
    FIELD(struct token_create, period, DURATION,
          .help = "Each renewal lets the token live this long again, without a maximum; needs "
                  "sudo."),
    FIELD(struct token_create, entity_alias, STRING, .preset = "",
          .help = "Name of an alias on the mount of tokens: its entity gets the token. Only with a "
                  "role that allows it."),
};
static const struct schema token_create_schema = SCHEMA(struct token_create, create_fields);

enum { NAME_MAX = 512, META_MAX = 64, META_BYTES_MAX = 64 * 1024 };

bool token_has_sudo(struct req *req)
{
    return (acl_capabilities(req->acl, req->path) & CAP_SUDO) != 0;
}

/* The fields of a request, bounded by its role and its token. */
struct wish {
    const struct token_create *in;
    const struct token_role *role; /* NULL: the request names no role */
    const char *role_name;         /* "": the request names no role */
    struct token_asker asker;
    bool orphan, batch;
    int64_t period_s, explicit_max_s, num_uses;
    struct login_limits limits;
};

static enum status check_asker(struct req *req, const struct wish *w)
{
    const struct token_create *in = w->in;
    ASSERT(in->ttl >= 0 && in->lease >= 0 && in->period >= 0);
    if (auth_token_is_batch(req->token))
        return req_fail(req, ST_INVALID, "batch tokens cannot create more tokens");
    if (req->token->limited)
        return req_fail(req, ST_INVALID, "restricted use token cannot generate child tokens");
    if (in->no_parent && w->role == NULL && !w->asker.sudo)
        return req_fail(req, ST_INVALID, "root or sudo privileges required to create orphan token");
    if (in->id[0] != '\0' && !w->asker.sudo)
        return req_fail(req, ST_INVALID, "root or sudo privileges required to specify token id");
    if (in->period != 0 && !w->asker.sudo)
        return req_fail(req, ST_INVALID,
                        "root or sudo privileges required to create periodic token");
    if (!w->orphan && req->token->depth >= AUTH_TOKEN_DEPTH_MAX)
        return req_fail(req, ST_INVALID, "more than %d generations of tokens: create an orphan",
                        AUTH_TOKEN_DEPTH_MAX);
    return ST_OK;
}

static enum status check_id(struct req *req, const struct wish *w)
{
    const char *id = w->in->id;
    for (const char *c = id; *c != '\0'; c++)
        if (*c <= ' ' || *c > '~' || *c == '.')
            return req_fail(req, ST_INVALID, "id: printable ASCII without '.' is expected");
    if (strlen(id) > AUTH_TOKEN_MAX)
        return req_fail(req, ST_INVALID, "id: longer than %d bytes", AUTH_TOKEN_MAX);
    return ST_OK;
}

static enum status check_fields(struct req *req, const struct wish *w)
{
    const struct token_create *in = w->in;
    size_t bytes = 0;
    ASSERT(in->explicit_max_ttl >= 0);
    if (in->entity_alias[0] != '\0' && w->role == NULL)
        return req_fail(req, ST_INVALID,
                        "'entity_alias' is only allowed in combination with a role");
    if (in->num_uses < 0)
        return req_fail(req, ST_INVALID, "number of uses cannot be negative");
    if (strlen(in->display_name) > NAME_MAX)
        return req_fail(req, ST_INVALID, "display_name: longer than %d bytes", NAME_MAX);
    for (size_t i = 0; i < 2 * in->meta.n; i++)
        bytes += strlen(in->meta.pairs[i]);
    if (in->meta.n > META_MAX || bytes > META_BYTES_MAX)
        return req_fail(req, ST_INVALID, "meta: more than %d entries or %d bytes", META_MAX,
                        META_BYTES_MAX);
    return check_id(req, w);
}

/* The caller's own fields are refused. A period or an explicit maximum of the role bounds the life
 * of a batch token, which is never renewed. A number of uses cannot be counted for it. */
static enum status check_batch(struct req *req, const struct wish *w)
{
    static const char *const names[] = {"explicit_max_ttl", "period", "num_uses", "id"};
    const bool given[] = {w->in->explicit_max_ttl != 0, w->in->period != 0, w->num_uses != 0,
                          w->in->id[0] != '\0'};
    for (size_t i = 0; i < ARRAY_LEN(names) && w->batch; i++)
        if (given[i])
            return req_fail(req, ST_INVALID, "batch tokens cannot have \"%s\" set", names[i]);
    return ST_OK;
}

static enum status choose_type(struct req *req, struct wish *w)
{
    const char *type = w->in->type;
    const char *of_role = w->role != NULL ? w->role->token_type : "default-service";
    ASSERT((w->role == NULL) == (w->role_name[0] == '\0'));
    if (strcmp(of_role, AUTH_TYPE_SERVICE) == 0 || strcmp(of_role, AUTH_TYPE_BATCH) == 0)
        type = of_role; /* the role decides */
    else if (type[0] == '\0')
        type = strcmp(of_role, "default-batch") == 0 ? AUTH_TYPE_BATCH : AUTH_TYPE_SERVICE;
    w->batch = strcmp(type, AUTH_TYPE_BATCH) == 0;
    if (!w->batch && strcmp(type, AUTH_TYPE_SERVICE) != 0)
        return req_fail(req, ST_INVALID, "invalid 'type' value: service or batch is expected");
    return ST_OK;
}

/* Say which of the caller's fields has no effect. */
static void warn_ignored(struct req *req, const struct wish *w)
{
    if (w->role != NULL && w->in->no_parent && !w->role->orphan)
        req_warn(req, "no_parent has no effect: the role makes tokens with a parent");
}

/* The addresses that a child is bound to: those of its role, else those of its parent. */
static struct field_strings bound_to(struct req *req, const struct token_role *role)
{
    bool own = role != NULL && role->token_bound_cidrs.n != 0;
    return own ? role->token_bound_cidrs : req->token->bound_cidrs;
}

/* The smaller of two limits; 0: no limit. */
static int64_t stricter(int64_t a, int64_t b)
{
    return a == 0 ? b : b == 0 ? a : MIN(a, b);
}

static void apply_role(struct req *req, struct wish *w)
{
    const struct token_role *role = w->role;
    w->period_s = stricter(w->in->period, role != NULL ? role->token_period : 0);
    w->num_uses = stricter(w->in->num_uses, role != NULL ? role->token_num_uses : 0);
    w->explicit_max_s =
        stricter(w->in->explicit_max_ttl, role != NULL ? role->token_explicit_max_ttl : 0);
    if (w->explicit_max_s > w->limits.max_s) {
        req_warn(
            req,
            "Explicit max TTL of %lld seconds is greater than the maximum of the mount; value is "
            "being capped to %lld seconds",
            (long long)w->explicit_max_s, (long long)w->limits.max_s);
        w->explicit_max_s = w->limits.max_s;
    }
    ASSERT(w->explicit_max_s >= 0 && w->explicit_max_s <= w->limits.max_s);
    ASSERT(w->period_s >= 0);
}

/* "token", or "token-" and the name. '-' replaces every other character than letters and digits. */
static const char *display_name(struct req *req, const char *wanted)
{
    char *name = arena_concat(req->arena, wanted[0] != '\0' ? "token-" : "token", wanted);
    if (name == NULL)
        return NULL;
    for (char *c = name; *c != '\0'; c++)
        if (!((*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z')))
            *c = '-';
    size_t len = strlen(name);
    while (name[len - 1] == '-')
        name[--len] = '\0';
    ASSERT(len >= strlen("token"));
    return name;
}

/* Set when the token ends. A root token may live without an end. */
static enum status choose_end(struct req *req, const struct wish *w, struct auth_token *token)
{
    struct reason warning = {{0}};
    int64_t wanted_s = w->in->ttl != 0 ? w->in->ttl : w->in->lease;

    if (policy_list_is_root(&token->policies) && wanted_s == 0 && w->period_s == 0) {
        wanted_s = w->explicit_max_s;
        if (wanted_s == 0 && req->token->expire_ms != 0)
            return req_fail(req, ST_INVALID,
                            "expiring root tokens cannot create non-expiring root tokens");
        if (wanted_s == 0) {
            token->renewable = false;
            return ST_OK;
        }
    }
    struct token_ttl ttl = {
        .wanted_s = wanted_s,
        .default_s = w->limits.default_s,
        .max_s = w->limits.max_s,
        /* a batch token is never renewed: its period is a bound */
        .explicit_max_s = w->batch ? stricter(w->explicit_max_s, w->period_s) : w->explicit_max_s,
        .period_s = w->batch ? 0 : w->period_s,
        .created_ms = req->now_ms,
        .now_ms = req->now_ms,
    };
    ASSERT(wanted_s >= 0);
    token->expire_ms = token_ttl_end_ms(&ttl, &warning);
    ASSERT(token->expire_ms > req->now_ms);
    token->creation_ttl_s = (token->expire_ms - req->now_ms) / 1000;
    if (warning.text[0] != '\0')
        req_warn(req, "%s", warning.text);
    return ST_OK;
}

/* Whether the role allows an alias; '*' at the end of an allowed one stands for anything. */
static bool allows_alias(const struct token_role *role, const char *alias)
{
    ASSERT(alias[0] != '\0');
    for (size_t i = 0; i < role->allowed_entity_aliases.n; i++) {
        const char *allowed = role->allowed_entity_aliases.items[i];
        size_t len = strlen(allowed);
        bool glob = len != 0 && allowed[len - 1] == '*';
        if (glob ? strncasecmp(allowed, alias, len - 1) == 0 : strcasecmp(allowed, alias) == 0)
            return true;
    }
    return false;
}

/* The entity of a new token: the caller's for a child, or the one that an alias names. */
static enum status choose_entity(struct req *req, const struct wish *w, struct auth_token *token)
{
    const char *alias = w->in->entity_alias;
    struct mount mount;
    token->entity_id = w->orphan ? "" : req->token->entity_id;
    if (alias[0] == '\0')
        return ST_OK;
    ASSERT(w->role != NULL);
    if (strlen(alias) > NAME_MAX || !allows_alias(w->role, alias))
        return req_fail(req, ST_INVALID, "invalid 'entity_alias' value");
    TRY(req_need_feature(req, IDENTITY_FEATURE));
    TRY(mount_get(req->txn, req->ns, "auth/token/", &mount));
    ASSERT(mount.accessor[0] != '\0');
    const struct identity_login in = {
        .accessor = mount.accessor, .name = alias, .metadata = {.given = true}};
    enum status st =
        identity_log_in(req->txn, req->env, req->ns, &in, req->now_ms, &token->entity_id);
    return st == ST_DENIED ? req_fail(req, st, "the entity of this alias is disabled") : st;
}

static enum status describe(struct req *req, const struct wish *w, struct auth_token *token)
{
    const struct token_create *in = w->in;
    const char *suffix = w->role != NULL ? w->role->path_suffix : "";

    ASSERT(w->orphan || req->token->depth < AUTH_TOKEN_DEPTH_MAX);
    ASSERT(!w->batch || w->num_uses == 0);
    *token = (struct auth_token){
        .parent = w->orphan ? "" : req->token->id,
        .display_name = display_name(req, in->display_name),
        .path = suffix[0] == '\0'
                    ? arena_str(req->arena, req->path)
                    : arena_format(req->arena, "%s/%s", (const char *)req->path.data, suffix),
        .type = w->batch ? AUTH_TYPE_BATCH : AUTH_TYPE_SERVICE,
        .role = w->role_name,
        .meta = in->meta,
        .bound_cidrs = bound_to(req, w->role),
        .created_ms = req->now_ms,
        .explicit_max_ttl_s = w->batch ? 0 : w->explicit_max_s,
        .period_s = w->batch ? 0 : w->period_s,
        .num_uses = w->num_uses,
        .depth = w->orphan ? 0 : req->token->depth + 1,
        .renewable = in->renewable && !w->batch && (w->role == NULL || w->role->renewable),
    };
    if (token->display_name == NULL || token->path == NULL)
        return ST_NOMEM;
    TRY(choose_entity(req, w, token));
    TRY(token_policies(req, in, w->role, &w->asker, &token->policies));
    if (w->batch && policy_list_is_root(&token->policies))
        return req_fail(req, ST_INVALID, "batch tokens cannot be root tokens");
    return choose_end(req, w, token);
}

static enum status create(struct req *req, struct wish *w)
{
    const struct auth_scope scope = req_scope(req);
    const char *bearer = NULL;
    struct auth_token token;

    ASSERT(req->route->form == FORM_TOKEN);
    w->in = req_body(req);
    w->asker = (struct token_asker){.parent = req->token, .sudo = token_has_sudo(req)};
    w->orphan = w->role != NULL ? w->role->orphan : w->orphan || w->in->no_parent;
    TRY(check_asker(req, w));
    TRY(check_fields(req, w));
    TRY(choose_type(req, w));
    TRY(token_limits_load(req, &w->limits));
    apply_role(req, w);
    TRY(check_batch(req, w));
    warn_ignored(req, w);
    TRY(describe(req, w, &token));
    if (w->in->id[0] != '\0')
        bearer = w->in->id;
    if (token.expire_ms != 0)
        TRY(req_lease_quota(req));
    enum status st = auth_token_create(&scope, req->env, &token, &bearer);
    if (st == ST_EXISTS)
        return req_fail(req, ST_INVALID, "cannot create a token with a duplicate ID");
    if (st == ST_BUSY && bearer == w->in->id)
        return req_fail(req, ST_INVALID, "a token of this ID is still being revoked");
    if (st == ST_TOO_BIG)
        return req_fail(req, ST_INVALID,
                        "a batch token must carry all of this, and would be "
                        "longer than %d bytes",
                        AUTH_TOKEN_MAX);
    TRY(st);
    ASSERT(bearer[0] != '\0' && (w->in->id[0] == '\0' || bearer == w->in->id));
    return req_reply_auth(req, bearer, &token);
}

static enum status token_create_child(struct req *req)
{
    return create(req, &(struct wish){.role_name = ""});
}

static enum status token_create_orphan(struct req *req)
{
    return create(req, &(struct wish){.role_name = "", .orphan = true});
}

static enum status token_create_by_role(struct req *req)
{
    struct token_role role;
    const char *name = req_param(req, "role");
    enum status st = token_role_load(req, name, &role);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "unknown role %s", name);
    TRY(st);
    return create(req, &(struct wish){.role = &role, .role_name = name});
}

static const struct route create_routes[] = {
    {.method = METHOD_POST,
     .path = "create",
     .handler = token_create_child,
     .place = PLACE_ACTIVE,
     .form = FORM_TOKEN,
     .body = &token_create_schema,
     .help = "Create a token, a child of the token of the request."},
    {.method = METHOD_POST,
     .path = "create-orphan",
     .handler = token_create_orphan,
     .place = PLACE_ACTIVE,
     .form = FORM_TOKEN,
     .body = &token_create_schema,
     .help = "Create a token without a parent."},
    {.method = METHOD_POST,
     .path = "create/:role",
     .handler = token_create_by_role,
     .place = PLACE_ACTIVE,
     .form = FORM_TOKEN,
     .body = &token_create_schema,
     .help = "Create a token as a role allows."},
};

const struct route_table token_create_table = {create_routes, ARRAY_LEN(create_routes)};
