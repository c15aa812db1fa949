/* Logins. The uses of a secret id are counted by the transaction that makes the token, so a use
 * counts exactly once in the cluster, and a login that fails counts none. */
#include "api/approle/approle.h"
#include "router/req_login.h"

struct login_in {
    const char *role_id, *secret_id;
};
static const struct field login_fields[] = {
    FIELD(struct login_in, role_id, STRING, .preset = "", .help = "The id of the role."),
    FIELD(struct login_in, secret_id, STRING, .preset = "", .hidden = true,
          .help = "A secret id of the role."),
};
static const struct schema login_schema = SCHEMA(struct login_in, login_fields);

static enum status refuse(struct req *req)
{
    return req_fail(req, ST_INVALID, "invalid role or secret ID");
}

/* The name of the role that a role id names. ST_NOT_FOUND. */
static enum status find_role(struct req *req, const char *id, const char **ret_name)
{
    struct state_value stored;
    struct bytes key;
    if (strlen(id) > IDENTITY_NAME_MAX)
        return ST_NOT_FOUND;
    const char *path = approle_path(req, "role-id", id, NULL);
    if (path == NULL)
        return ST_NOMEM;
    TRY(req_key(req, path, &key));
    TRY(state_get(req->txn, key, &stored));
    *ret_name = arena_str(req->arena, stored.value);
    return *ret_name != NULL ? ST_OK : ST_NOMEM;
}

/* Take one use of a secret id; the last one ends it. */
static enum status take_use(struct req *req, const char *role, const char *mac,
                            struct approle_secret *secret)
{
    if (secret->uses == 0)
        return ST_OK;
    if (--secret->uses == 0)
        return approle_secret_drop(req, role, mac, secret);
    secret->updated_ms = MAX(req->now_ms, secret->created_ms);
    return approle_secret_save(req, role, mac, secret);
}

static enum status use_secret(struct req *req, const char *role, const char *secret_id,
                              struct approle_secret *ret_secret)
{
    char mac[APPROLE_MAC_LEN + 1];
    if (secret_id[0] == '\0')
        return req_fail(req, ST_INVALID, "missing secret_id");
    if (strlen(secret_id) > APPROLE_SECRET_MAX)
        return refuse(req);
    TRY(approle_mac(req, role, secret_id, mac));
    enum status st = approle_secret_load(req, role, mac, ret_secret);
    if (st == ST_NOT_FOUND)
        return refuse(req);
    TRY(st);
    if (ret_secret->expire_ms != 0 && req->now_ms >= ret_secret->expire_ms)
        return refuse(req);
    if (!approle_holds_peer(&ret_secret->cidrs, req->peer))
        return req_fail(
            req, ST_INVALID,
            "source address is unauthorized through CIDR restrictions on the secret ID");
    return take_use(req, role, mac, ret_secret);
}

/* The metadata of the token: the name of the role, and what the secret id has. */
static enum status metadata_of(struct req *req, const char *role,
                               const struct approle_secret *secret, struct field_map *ret_meta)
{
    const char **pairs = arena_alloc(req->arena, 2 * (secret->metadata.n + 1) * sizeof *pairs);
    size_t n = 0;
    if (pairs == NULL)
        return ST_NOMEM;
    pairs[0] = "role_name";
    pairs[1] = role;
    n++;
    for (size_t i = 0; i < secret->metadata.n; i++) {
        if (strcmp(secret->metadata.pairs[2 * i], "role_name") == 0)
            continue;
        pairs[2 * n] = secret->metadata.pairs[2 * i];
        pairs[2 * n + 1] = secret->metadata.pairs[2 * i + 1];
        n++;
    }
    *ret_meta = (struct field_map){pairs, n, true};
    return ST_OK;
}

static enum status approle_login(struct req *req)
{
    const struct login_in *in = req_body(req);
    struct approle_secret secret = {.uses = 0};
    struct approle_role role;
    const char *name;
    if (in->role_id[0] == '\0')
        return req_fail(req, ST_INVALID, "missing role_id");
    enum status st = find_role(req, in->role_id, &name);
    if (st == ST_OK)
        st = approle_load(req, req->mount, name, &role);
    if (st == ST_NOT_FOUND)
        return refuse(req);
    TRY(st);
    if (role.bind_secret_id)
        TRY(use_secret(req, name, in->secret_id, &secret));
    if (!approle_holds_peer(&role.secret_id_bound_cidrs, req->peer))
        return req_fail(req, ST_INVALID,
                        "source address is unauthorized through CIDR restrictions on the role");
    if (secret.token_cidrs.n != 0)
        role.role.token_bound_cidrs = secret.token_cidrs;
    struct login login = {.role = &role.role, .name = role.role_id, .alias = role.role_id};
    TRY(metadata_of(req, name, &secret, &login.meta));
    return req_login(req, &login);
}

enum status approle_renew(struct req *req, const struct mount *mount,
                          const struct auth_token *token, struct login_role *ret_role)
{
    struct approle_role role;
    const char *name = "";
    for (size_t i = 0; i < token->meta.n; i++)
        if (strcmp(token->meta.pairs[2 * i], "role_name") == 0)
            name = token->meta.pairs[2 * i + 1];
    enum status st = approle_load(req, mount, name, &role);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "the role of this token does not exist");
    TRY(st);
    *ret_role = role.role;
    return ST_OK;
}

static const struct route login_routes[] = {
    {.method = METHOD_POST,
     .path = "login",
     .handler = approle_login,
     .who = WHO_ANYONE,
     .place = PLACE_ACTIVE,
     .form = FORM_TOKEN,
     .body = &login_schema,
     .help = "Log in with a role id and a secret id."},
};
const struct route_table approle_login_table = {login_routes, ARRAY_LEN(login_routes)};
