#include "auth/login.h"
#include "auth/policy_list.h"
#include "auth/token_ttl.h"
#include "text/cidr.h"

static bool is_type(const char *text, const char *type)
{
    return text != NULL && strcmp(text, type) == 0;
}

/* Roles of auth methods */

static enum status check_numbers(const struct login_role *role, struct reason *why)
{
    if (role->token_num_uses < 0)
        reason_set(why, "token_num_uses: cannot be negative");
    else if (role->token_max_ttl != 0 && role->token_ttl > role->token_max_ttl)
        reason_set(why, "token_ttl: cannot be greater than token_max_ttl");
    else
        return ST_OK;
    return ST_INVALID;
}

static enum status check_type(const struct login_role *role, struct reason *why)
{
    static const char *const types[] = {"",      "default", "default-service", "default-batch",
                                        "batch", "service"};
    bool known = role->token_type == NULL;
    for (size_t i = 0; i < ARRAY_LEN(types) && !known; i++)
        known = is_type(role->token_type, types[i]);
    bool counts = role->token_num_uses != 0, periodic = role->token_period != 0;
    if (!known)
        reason_set(why, "token_type: service, batch, default-service or default-batch is expected");
    else if (is_type(role->token_type, AUTH_TYPE_BATCH) && (counts || periodic))
        reason_set(why, "token_type: batch tokens have no %s",
                   counts ? "token_num_uses" : "token_period");
    else
        return ST_OK;
    return ST_INVALID;
}

enum status login_role_check(const struct login_role *role, struct reason *why)
{
    struct cidr cidr;
    TRY(check_numbers(role, why));
    for (size_t i = 0; i < role->token_bound_cidrs.n; i++)
        if (cidr_parse(bytes_str(role->token_bound_cidrs.items[i]), &cidr) != ST_OK) {
            reason_set(why, "token_bound_cidrs: \"%.80s\" is not an address or a block of them",
                       role->token_bound_cidrs.items[i]);
            return ST_INVALID;
        }
    return check_type(role, why);
}

/* Limits of time */

struct login_limits login_limits_of(int64_t default_s, int64_t max_s)
{
    ASSERT(default_s >= 0 && max_s >= 0);
    struct login_limits limits = {
        .default_s = default_s != 0 ? default_s : AUTH_DEFAULT_TTL_S,
        .max_s = max_s != 0 ? max_s : AUTH_MAX_TTL_S,
    };
    limits.default_s = MIN(limits.default_s, limits.max_s);
    return limits;
}

/* Change the limits of a mount as the role says. */
static struct login_limits limits_under(struct login_limits limits, const struct login_role *role)
{
    ASSERT(limits.default_s > 0 && limits.default_s <= limits.max_s);
    if (role->token_ttl != 0)
        limits.default_s = role->token_ttl;
    if (role->token_max_ttl != 0)
        limits.max_s = MIN(limits.max_s, role->token_max_ttl);
    return limits;
}

int64_t login_renewed_end_ms(const struct auth_token *token, const struct login_role *role,
                             struct login_limits limits, int64_t wanted_s, int64_t now_ms,
                             struct reason *warning)
{
    struct login_limits under = limits_under(limits, role);
    int64_t explicit_s = token->explicit_max_ttl_s, of_role_s = role->token_explicit_max_ttl;
    if (of_role_s != 0 && (explicit_s == 0 || of_role_s < explicit_s))
        explicit_s = of_role_s;
    ASSERT(token->expire_ms != 0 && !auth_token_is_batch(token));
    const struct token_ttl ttl = {
        .wanted_s = wanted_s,
        .default_s = under.default_s,
        .max_s = under.max_s,
        .explicit_max_s = explicit_s,
        .period_s = role->token_period,
        .created_ms = token->created_ms,
        .now_ms = now_ms,
    };
    return token_ttl_end_ms(&ttl, warning);
}

static void set_end(const struct login_place *place, const struct login_role *role,
                    struct auth_token *token, struct reason *warning)
{
    struct login_limits under = limits_under(place->limits, role);
    token->explicit_max_ttl_s = MIN(role->token_explicit_max_ttl, place->limits.max_s);
    token->period_s = role->token_period;
    const struct token_ttl ttl = {
        .default_s = under.default_s,
        .max_s = under.max_s,
        .explicit_max_s = token->explicit_max_ttl_s,
        .period_s = token->period_s,
        .created_ms = place->now_ms,
        .now_ms = place->now_ms,
    };
    token->expire_ms = token_ttl_end_ms(&ttl, warning);
    ASSERT(token->expire_ms > place->now_ms);
    token->creation_ttl_s = (token->expire_ms - place->now_ms) / 1000;
}

/* Making the token */

/* Whether a login gives a batch token. If the mount's type is "service" or "batch", that type
 * decides; else the type of the role; else the mount's default. */
static bool gives_batch(const struct login_place *place, const struct login_role *role)
{
    const char *mount = place->token_type, *own = role->token_type;
    if (is_type(mount, AUTH_TYPE_SERVICE) || is_type(mount, AUTH_TYPE_BATCH))
        return is_type(mount, AUTH_TYPE_BATCH);
    if (own != NULL && own[0] != '\0' && strcmp(own, "default") != 0)
        return is_type(own, AUTH_TYPE_BATCH) || is_type(own, "default-batch");
    return is_type(mount, "default-batch");
}

/* "NAME-USER" for the mount "auth/NAME/", with every '/' of NAME made '-'. */
static const char *display_name_of(struct arena *arena, const struct login_place *place,
                                   const char *user)
{
    const char *name = place->mount_path + strlen("auth/");
    size_t len = strlen(name);
    ASSERT(strncmp(place->mount_path, "auth/", strlen("auth/")) == 0);
    ASSERT(len > 1 && name[len - 1] == '/');
    char *text = arena_format(arena, "%.*s-%s", (int)(len - 1), name, user);
    for (size_t i = 0; text != NULL && i < len - 1; i++)
        if (text[i] == '/')
            text[i] = '-';
    return text;
}

static enum status set_policies(struct arena *arena, const struct login_role *role,
                                struct auth_token *token, struct reason *why)
{
    TRY(policy_list_clean(arena, &role->token_policies, !role->token_no_default_policy,
                          &token->policies, why));
    if (!policy_list_is_root(&token->policies))
        return ST_OK;
    reason_set(why, "auth methods cannot create root tokens");
    return ST_INVALID;
}

enum status login_token(struct arena *arena, const struct login_place *place,
                        const struct login *login, struct auth_token *ret_token, struct reason *why)
{
    const struct login_role *role = login->role;
    bool batch = gives_batch(place, role);
    struct auth_token token = {
        .parent = "",
        .display_name = display_name_of(arena, place, login->name),
        .path = place->path,
        .type = batch ? AUTH_TYPE_BATCH : AUTH_TYPE_SERVICE,
        .role = "",
        .entity_id = "",
        .meta = login->meta,
        .bound_cidrs = role->token_bound_cidrs,
        .created_ms = place->now_ms,
        .num_uses = role->token_num_uses,
        .orphan = true,
        .renewable = !batch,
    };

    ASSERT(strncmp(place->path, place->mount_path, strlen(place->mount_path)) == 0);
    if (token.display_name == NULL)
        return ST_NOMEM;
    TRY(auth_token_from(&token, place->peer));
    TRY(set_policies(arena, role, &token, why));
    set_end(place, role, &token, why);
    if (batch && (token.num_uses != 0 || token.period_s != 0)) {
        reason_set(why, "batch tokens cannot have \"%s\" set",
                   token.num_uses != 0 ? "num_uses" : "period");
        return ST_INVALID;
    }
    *ret_token = token;
    return ST_OK;
}

/* Writing the reply */

struct auth_out {
    const char *client_token, *accessor, *entity_id, *token_type;
    struct field_strings policies, token_policies, identity_policies;
    struct field_map metadata;
    int64_t lease_duration, num_uses;
    bool renewable, orphan;
    const struct text_value *mfa_requirement; /* no method asks for a second factor yet */
};
static const struct field auth_fields[] = {
    FIELD(struct auth_out, client_token, STRING),
    FIELD(struct auth_out, accessor, STRING),
    FIELD(struct auth_out, policies, STRINGS),
    FIELD(struct auth_out, token_policies, STRINGS),
    FIELD(struct auth_out, identity_policies, STRINGS, .omit = true),
    FIELD(struct auth_out, metadata, MAP, .null = true),
    FIELD(struct auth_out, lease_duration, INT),
    FIELD(struct auth_out, renewable, BOOL),
    FIELD(struct auth_out, entity_id, STRING),
    FIELD(struct auth_out, token_type, STRING),
    FIELD(struct auth_out, orphan, BOOL),
    FIELD(struct auth_out, mfa_requirement, TREE, .null = true),
    FIELD(struct auth_out, num_uses, INT),
};
const struct schema login_auth_schema = SCHEMA(struct auth_out, auth_fields);

void login_put_auth(struct text_writer *w, const char *bearer, const struct auth_token *token,
                    const struct login_policies *policies, int64_t now_ms)
{
    int64_t left_s = token->expire_ms == 0 ? 0 : MAX(token->expire_ms - now_ms, INT64_C(0)) / 1000;
    const struct auth_out out = {
        .client_token = bearer,
        .accessor = token->accessor,
        .policies = policies->all,
        .token_policies = token->policies,
        .identity_policies = policies->identity,
        .metadata = token->meta,
        .lease_duration = left_s,
        .renewable = token->renewable,
        .entity_id = token->entity_id,
        .token_type = token->type,
        .orphan = token->orphan,
        .num_uses = token->num_uses,
    };
    ASSERT(bearer != NULL && token->num_uses >= 0);
    ASSERT(policies->all.n >= token->policies.n);
    schema_encode(&login_auth_schema, &out, w);
}
