#include "api/token/token.h"

static const struct field bearer_fields[] = {
    FIELD(struct token_named, token, STRING, .preset = "", .hidden = true, .help = "The token."),
};
const struct schema token_bearer_schema = SCHEMA(struct token_named, bearer_fields);

static const struct field accessor_fields[] = {
    FIELD(struct token_named, accessor, STRING, .preset = "", .help = "The token's accessor."),
};
const struct schema token_accessor_schema = SCHEMA(struct token_named, accessor_fields);

#define INCREMENT \
    FIELD(struct token_named, increment, DURATION, .help = "How long it shall live from now on.")

static const struct field renew_fields[] = {
    FIELD(struct token_named, token, STRING, .preset = "", .hidden = true, .help = "The token."),
    INCREMENT,
};
const struct schema token_renew_schema = SCHEMA(struct token_named, renew_fields);

static const struct field renew_self_fields[] = {INCREMENT};
const struct schema token_renew_self_schema = SCHEMA(struct token_named, renew_self_fields);

static const struct field renew_accessor_fields[] = {
    FIELD(struct token_named, accessor, STRING, .preset = "", .help = "The token's accessor."),
    INCREMENT,
};
const struct schema token_renew_accessor_schema = SCHEMA(struct token_named, renew_accessor_fields);

static const struct field create_fields[] = {
    FIELD(struct token_create, id, STRING, .preset = "", .hidden = true,
          .help = "The token itself instead of a random one; needs sudo."),
    FIELD(struct token_create, policies, STRINGS, .help = "None: those of the parent."),
    FIELD(struct token_create, meta, MAP, .help = "Shown in the audit log."),
    FIELD(struct token_create, no_parent, BOOL, .help = "Make an orphan; needs sudo."),
    FIELD(struct token_create, no_default_policy, BOOL, .help = "Leave the policy default out."),
    FIELD(struct token_create, renewable, BOOL, .preset = "true"),
    FIELD(struct token_create, ttl, DURATION, .help = "How long it lives, unless renewed."),
    FIELD(struct token_create, explicit_max_ttl, DURATION, .help = "How long it lives at most."),
    FIELD(struct token_create, type, STRING, .preset = "", .help = "service or batch."),
    FIELD(struct token_create, display_name, STRING, .preset = ""),
    FIELD(struct token_create, num_uses, INT, .help = "How often it may be used; 0: any number."),
    FIELD(struct token_create, period, DURATION,
          .help = "Each renewal makes it live this long again, without an end; needs sudo."),
    FIELD(struct token_create, entity_alias, STRING, .preset = "", .help = "Not available."),
};
const struct schema token_create_schema = SCHEMA(struct token_create, create_fields);

#define TOKEN_SHAPE                                                                         \
    "{id:str accessor:str policies:[str] path:str meta:map~ display_name:str num_uses:int " \
    "orphan:bool renewable:bool role?:str entity_id:str type:str creation_time:int "        \
    "creation_ttl:int expire_time:str~ ttl:int explicit_max_ttl:int period?:int "           \
    "issue_time?:str last_renewal?:str last_renewal_time?:int identity_policies?:[str] "    \
    "bound_cidrs?:[str]}"

static const struct route token_routes[] = {
    {.method = METHOD_POST,
     .path = "create",
     .handler = token_create_child,
     .flags = ROUTE_ACTIVE,
     .body = &token_create_schema,
     .shape = "auth",
     .help = "Make a token, a child of the one that asks."},
    {.method = METHOD_POST,
     .path = "create-orphan",
     .handler = token_create_orphan,
     .flags = ROUTE_ACTIVE,
     .body = &token_create_schema,
     .shape = "auth",
     .help = "Make a token without a parent."},
    {.method = METHOD_POST,
     .path = "create/:role",
     .handler = token_create_by_role,
     .flags = ROUTE_ACTIVE,
     .body = &token_create_schema,
     .shape = "auth",
     .help = "Make a token as a role allows."},
    {.method = METHOD_GET,
     .path = "lookup-self",
     .handler = token_lookup_self,
     .shape = TOKEN_SHAPE,
     .help = "What this token is."},
    {.method = METHOD_POST,
     .path = "lookup-self",
     .handler = token_lookup_self,
     .flags = ROUTE_READS,
     .shape = TOKEN_SHAPE,
     .help = "What this token is."},
    {.method = METHOD_POST,
     .path = "lookup",
     .handler = token_lookup,
     .flags = ROUTE_READS,
     .body = &token_bearer_schema,
     .shape = TOKEN_SHAPE,
     .help = "What a token is."},
    {.method = METHOD_POST,
     .path = "lookup-accessor",
     .handler = token_lookup_accessor,
     .flags = ROUTE_READS,
     .body = &token_accessor_schema,
     .shape = TOKEN_SHAPE,
     .help = "What the token of an accessor is, without the token."},
    {.method = METHOD_POST,
     .path = "renew",
     .handler = token_renew,
     .body = &token_renew_schema,
     .shape = "auth",
     .help = "Let a token live longer."},
    {.method = METHOD_POST,
     .path = "renew-self",
     .handler = token_renew_self,
     .body = &token_renew_self_schema,
     .shape = "auth",
     .help = "Let this token live longer."},
    {.method = METHOD_POST,
     .path = "renew-accessor",
     .handler = token_renew_accessor,
     .body = &token_renew_accessor_schema,
     .shape = "auth",
     .help = "Let the token of an accessor live longer."},
    {.method = METHOD_POST,
     .path = "revoke",
     .handler = token_revoke,
     .body = &token_bearer_schema,
     .help = "End a token and all below it."},
    {.method = METHOD_POST,
     .path = "revoke-self",
     .handler = token_revoke_self,
     .help = "End this token and all below it."},
    {.method = METHOD_POST,
     .path = "revoke-accessor",
     .handler = token_revoke_accessor,
     .body = &token_accessor_schema,
     .help = "End the token of an accessor and all below it."},
    {.method = METHOD_POST,
     .path = "revoke-orphan",
     .handler = token_revoke_orphan,
     .body = &token_bearer_schema,
     .help = "End a token; its children become orphans. Needs sudo."},
    {.method = METHOD_LIST,
     .path = "accessors",
     .handler = token_accessors,
     .flags = ROUTE_SUDO,
     .help = "The accessors of all tokens that are stored."},
    {.method = METHOD_LIST,
     .path = "roles",
     .handler = token_role_list,
     .help = "The names of all roles."},
    {.method = METHOD_GET,
     .path = "roles/:role",
     .handler = token_role_read,
     .reply = &token_role_schema,
     .shape = "{name:str @ period:int explicit_max_ttl:int}",
     .help = "What a role says."},
    {.method = METHOD_POST,
     .path = "roles/:role",
     .handler = token_role_write,
     .exists = token_role_exists,
     .body = &token_role_schema,
     .flags = ROUTE_FREE_BODY,
     .help = "Make or change a role. Fields that are not given stay as they are."},
    {.method = METHOD_DELETE,
     .path = "roles/:role",
     .handler = token_role_delete,
     .help = "Delete a role. Its tokens can no longer be renewed."},
    {.method = METHOD_POST,
     .path = "tidy",
     .handler = token_tidy,
     .shape = "{}~",
     .statuses = "202",
     .help = "Does nothing: leftovers are deleted all the time."},
};

const struct route_api token_api = {
    .prefix = "auth/token/", .type = "token", .routes = token_routes, .n = ARRAY_LEN(token_routes)};
