/* Keys that will sign the tokens of runs, and the documents by which others check them.
 *
 *   made ──90 days, or rotate-key──▶ former ──30 days after the last rotation, or trim-key──▶
 * deleted
 *
 * Each key is an object of the type "oidc-keys"; the newest one signs. The object "oidc" of the
 * type "settings" has the times of the last rotation and of the last trim, by cluster time: each
 * act resets its own time. A service makes the keys that are due; RSA keys are made on its thread,
 * or in the step outside of a request, never on a loop. */
#include "api/platform/platform.h"
#include "api/platform/platform_kinds.h"
#include "api/platform/platform_rows.h"
#include "base/trace.h"
#include "crypto/ssh_key.h"
#include "node/service.h"
#include "state/feature.h"
#include "text/encode.h"
#include "text/random.h"

#define TYPE "oidc-keys"

enum {
    RSA_BITS = 2048,
    KEYS_MAX = 64,
    LOOK_MS = 1000, /* between two looks of the service */
};
#define DAY_MS INT64_C(86400000)
#define ROTATE_MS (90 * DAY_MS)
#define TRIM_MS (30 * DAY_MS)

/* A new key in its stored form. */
struct fresh {
    char id[24];
    char *saved, *modulus, *exponent; /* base64: PKCS #8; base64url: numbers of the public half */
};

static char *base64(struct arena *arena, struct bytes bytes, enum text_base64 form)
{
    char *text = arena_alloc(arena, TEXT_BASE64_LEN(bytes.len) + 1);
    if (text != NULL)
        (void)text_base64_put(bytes, form, text);
    return text;
}

/* The next number of a public key on the wire: length, then bytes, without the sign's zero. */
static struct bytes next_number(struct bytes *wire)
{
    if (wire->len < 4)
        return (struct bytes){0};
    const uint8_t *at = wire->data;
    size_t len = (size_t)at[0] << 24 | (size_t)at[1] << 16 | (size_t)at[2] << 8 | at[3];
    if (len > wire->len - 4)
        return (struct bytes){0};
    struct bytes number = bytes_of(at + 4, len);
    *wire = bytes_from(*wire, 4 + len);
    return number.len > 1 && number.data[0] == 0 ? bytes_from(number, 1) : number;
}

static enum status make_fresh_key(struct arena *arena, struct env *env, struct fresh *ret_fresh)
{
    CLEANUP(ssh_private_done) struct ssh_private key = {0};
    CLEANUP(buf_done) struct buf saved = {0}, public = {0};
    char random[17];
    text_random(env, random, 16);
    memcpy(ret_fresh->id, "key-", 4);
    memcpy(ret_fresh->id + 4, random, sizeof random);
    TRY(ssh_private_make(SSH_RSA, RSA_BITS, &key));
    TRY(ssh_private_save(&key, &saved));
    TRY(ssh_private_public(&key, &public));
    struct bytes wire = buf_bytes(&public);
    (void)next_number(&wire); /* the name of the kind */
    struct bytes e = next_number(&wire), n = next_number(&wire);
    ASSERT(e.len != 0 && n.len == RSA_BITS / 8);
    ret_fresh->saved = base64(arena, buf_bytes(&saved), TEXT_BASE64);
    ret_fresh->modulus = base64(arena, n, TEXT_BASE64_URL);
    ret_fresh->exponent = base64(arena, e, TEXT_BASE64_URL);
    bool made =
        ret_fresh->saved != NULL && ret_fresh->modulus != NULL && ret_fresh->exponent != NULL;
    return made ? ST_OK : ST_NOMEM;
}

/* Times */

static enum status load_times(struct state_txn *txn, struct platform_object *ret_times,
                              bool *ret_exist)
{
    enum status st = platform_object_load(txn, "settings", "oidc", ret_times);
    *ret_exist = st == ST_OK;
    if (st != ST_NOT_FOUND)
        return st;
    *ret_times = (struct platform_object){
        .id = "oidc",
        .type = "settings",
        .parent = PLATFORM_ROOT,
        .name = "",
        .attrs = text_value_new(txn->arena, NULL, TEXT_OBJECT, (struct bytes){0}),
        .links = text_value_new(txn->arena, NULL, TEXT_OBJECT, (struct bytes){0})};
    return ret_times->attrs != NULL && ret_times->links != NULL ? ST_OK : ST_NOMEM;
}

static enum status note_time(struct state_txn *txn, const char *name, int64_t now_ms)
{
    struct platform_object times;
    bool exist;
    TRY(load_times(txn, &times, &exist));
    TRY(platform_set_number(txn->arena, times.attrs, name, now_ms));
    times.updated_ms = now_ms;
    if (exist)
        return platform_object_put(txn, "", &times);
    times.created_ms = now_ms;
    return platform_object_add(txn, &times);
}

/* Acts */

static enum status keep_fresh_key(struct state_txn *txn, const struct fresh *fresh, int64_t now_ms)
{
    struct platform_object key = {
        .id = fresh->id,
        .type = TYPE,
        .parent = PLATFORM_ROOT,
        .name = "",
        .created_ms = now_ms,
        .updated_ms = now_ms,
        .attrs = text_value_new(txn->arena, NULL, TEXT_OBJECT, (struct bytes){0}),
        .links = text_value_new(txn->arena, NULL, TEXT_OBJECT, (struct bytes){0})};
    if (key.attrs == NULL || key.links == NULL)
        return ST_NOMEM;
    TRY(platform_set_text(txn->arena, key.attrs, "private", fresh->saved));
    TRY(platform_set_text(txn->arena, key.attrs, "n", fresh->modulus));
    TRY(platform_set_text(txn->arena, key.attrs, "e", fresh->exponent));
    TRY(platform_object_add(txn, &key));
    return note_time(txn, "rotated", now_ms);
}

static enum status trim_keys(struct state_txn *txn, int64_t now_ms)
{
    struct platform_objects keys;
    TRY(platform_object_children(txn, PLATFORM_ROOT, TYPE, &keys));
    platform_sort_by_time(&keys);
    for (size_t i = 1; i < keys.n; i++)
        TRY(platform_object_delete(txn, &keys.items[i]));
    return note_time(txn, "trimmed", now_ms);
}

static enum status rotate(struct req *req)
{
    struct platform_who who;
    struct platform_objects keys;
    TRY(platform_who_admin(req, &who));
    TRY(platform_object_children(req->txn, PLATFORM_ROOT, TYPE, &keys));
    return keys.n < KEYS_MAX
               ? ST_OK
               : req_fail(req, ST_REFUSED, "there are %d keys: trim them first", KEYS_MAX);
}

static enum status rotate_outside(struct req *req)
{
    struct fresh *fresh = arena_zalloc(req->arena, sizeof *fresh);
    if (fresh == NULL)
        return ST_NOMEM;
    req->prepared = fresh;
    return make_fresh_key(req->arena, req->env, fresh);
}

static enum status rotate_finish(struct req *req)
{
    return keep_fresh_key(req->txn, req->prepared, req->now_ms);
}

static enum status trim(struct req *req)
{
    struct platform_who who;
    TRY(platform_who_admin(req, &who));
    return trim_keys(req->txn, req->now_ms);
}

/* The service */

struct due {
    const struct fresh *fresh; /* NULL: only find out what is due */
    bool rotate, trim;
};

/* Whether somebody uses the platform: a cluster without organizations needs no key. */
static enum status is_used(struct state_txn *txn, bool *ret_used)
{
    struct platform_objects orgs;
    ASSERT(txn->open);
    TRY(platform_object_children(txn, PLATFORM_ROOT, "organizations", &orgs));
    *ret_used = orgs.n != 0;
    return ST_OK;
}

static enum status look_for_due(struct state_txn *txn, void *ctx, int64_t now_ms)
{
    struct due *due = ctx;
    struct platform_object times;
    struct platform_objects keys;
    bool exist, ready, used = true;
    TRY(state_has_feature(txn, PLATFORM_FEATURE, &ready));
    due->rotate = due->trim = false;
    if (!ready || now_ms <= 0)
        return ST_OK;
    TRY(load_times(txn, &times, &exist));
    TRY(platform_object_children(txn, PLATFORM_ROOT, TYPE, &keys));
    int64_t rotated = platform_number(times.attrs, "rotated");
    int64_t trimmed = platform_number(times.attrs, "trimmed");
    if (keys.n == 0)
        TRY(is_used(txn, &used));
    due->rotate = used && (keys.n == 0 || now_ms - rotated >= ROTATE_MS);
    due->trim = keys.n > 1 && now_ms - MAX(rotated, trimmed) >= TRIM_MS;
    if (due->rotate && due->fresh != NULL)
        return keep_fresh_key(txn, due->fresh, now_ms);
    return due->trim ? trim_keys(txn, now_ms) : ST_OK;
}

void platform_oidc_run(struct service *service)
{
    do {
        struct arena arena = {0};
        struct fresh fresh = {0};
        struct due due = {0};
        if (service_transact(service, look_for_due, &due) == ST_OK && due.rotate &&
            make_fresh_key(&arena, service_env(service), &fresh) == ST_OK) {
            due.fresh = &fresh;
            if (service_transact(service, look_for_due, &due) != ST_OK)
                trace(TRACE_INFO, "platform", "a new signing key was not stored: tried again");
        }
        arena_done(&arena);
    } while (service_wait(service, LOOK_MS));
}

/* Documents for everyone */

static enum status put_list(struct text_writer *w, const char *name, const char *const *items,
                            size_t n)
{
    text_key(w, name);
    text_open_list(w);
    for (size_t i = 0; i < n; i++)
        text_put_str(w, items[i]);
    text_close(w);
    return ST_OK;
}

static enum status discovery(struct req *req)
{
    static const char *const names[] = {"tfe.v2", "tfe.v2.1", "tfe.v2.2", "state.v2"};
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        text_member_str(&w, names[i], "/api/v2/");
    text_close(&w);
    return req_reply_end(req);
}

static enum status openid(struct req *req)
{
    static const char *const types[] = {"id_token"}, *const subjects[] = {"public"},
                             *const algorithms[] = {"RS256"}, *const scopes[] = {"openid"},
                             *const claims[] = {"sub",
                                                "aud",
                                                "exp",
                                                "iat",
                                                "iss",
                                                "jti",
                                                "nbf",
                                                "terraform_run_phase",
                                                "terraform_run_id",
                                                "terraform_workspace_id",
                                                "terraform_workspace_name",
                                                "terraform_organization_id",
                                                "terraform_organization_name",
                                                "terraform_project_id",
                                                "terraform_project_name",
                                                "terraform_full_workspace"};
    const char *base;
    TRY(platform_base_url(req, &base));
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_member_str(&w, "issuer", base);
    text_member_str(&w, "jwks_uri", arena_format(req->arena, "%s/.well-known/jwks", base));
    TRY(put_list(&w, "response_types_supported", types, ARRAY_LEN(types)));
    TRY(put_list(&w, "subject_types_supported", subjects, ARRAY_LEN(subjects)));
    TRY(put_list(&w, "id_token_signing_alg_values_supported", algorithms, ARRAY_LEN(algorithms)));
    TRY(put_list(&w, "scopes_supported", scopes, ARRAY_LEN(scopes)));
    TRY(put_list(&w, "claims_supported", claims, ARRAY_LEN(claims)));
    text_close(&w);
    return req_reply_end(req);
}

static enum status jwks(struct req *req)
{
    struct platform_objects keys;
    TRY(platform_object_children(req->txn, PLATFORM_ROOT, TYPE, &keys));
    platform_sort_by_time(&keys);
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_key(&w, "keys");
    text_open_list(&w);
    for (size_t i = 0; i < keys.n; i++) {
        text_open_object(&w);
        text_member_str(&w, "kty", "RSA");
        text_member_str(&w, "use", "sig");
        text_member_str(&w, "alg", "RS256");
        text_member_str(&w, "kid", keys.items[i].id);
        text_member_str(&w, "n", platform_text(keys.items[i].attrs, "n"));
        text_member_str(&w, "e", platform_text(keys.items[i].attrs, "e"));
        text_close(&w);
    }
    text_close(&w);
    text_close(&w);
    return req_reply_end(req);
}

static enum status tokens_page(struct req *req)
{
    static const char text[] =
        "Make a token for this client:\n\n"
        "    holdfast platform token create USER_ID\n\n"
        "Site administrators make users with: holdfast platform user create NAME\n";
    return req_reply_raw(req, "text/plain; charset=utf-8", bytes_str(text));
}

/* The stable link of a run, for people: the same text for every path, as no token is asked for. */
static enum status run_page(struct req *req)
{
    static const char text[] = "Show this run:\n\n"
                               "    holdfast run show RUN_ID\n"
                               "    holdfast run logs -follow RUN_ID\n";
    return req_reply_raw(req, "text/plain; charset=utf-8", bytes_str(text));
}

static enum status workspace_page(struct req *req)
{
    static const char text[] = "Show this workspace:\n\n"
                               "    holdfast platform workspace read ORG NAME\n";
    return req_reply_raw(req, "text/plain; charset=utf-8", bytes_str(text));
}

static const struct platform_row acts = {NULL, PLATFORM_NOTHING, "site administrator", false,
                                         false};

static const struct route oidc_routes[] = {
    PLATFORM_ACT(POST, "admin/oidc-settings/actions/rotate-key", rotate, acts,
                 .outside = rotate_outside, .finish = rotate_finish,
                 .help = "Make a new signing key."),
    PLATFORM_ACT(POST, "admin/oidc-settings/actions/trim-key", trim, acts,
                 .help = "Delete all signing keys but the newest."),
};
const struct route_table platform_oidc_table = {oidc_routes, ARRAY_LEN(oidc_routes)};

#define OPEN(path_, handler_, help_)                                                     \
    {                                                                                    \
        .method = METHOD_GET, .path = (path_), .handler = (handler_), .who = WHO_ANYONE, \
        .help = (help_)                                                                  \
    }
static const struct route discovery_routes[] = {
    OPEN("terraform.json", discovery, "Where clients find the API."),
    OPEN("openid-configuration", openid, "Where the keys that sign tokens of runs are."),
    OPEN("jwks", jwks, "The keys that sign tokens of runs."),
};
const struct route_table platform_discovery_table = {discovery_routes, ARRAY_LEN(discovery_routes)};

static const struct route app_routes[] = {
    OPEN("settings/tokens", tokens_page, "How to make a token."),
    OPEN(":org/:ws", workspace_page, "How to show a workspace."),
    OPEN(":org/:ws/runs/:run", run_page, "How to show a run."),
};
const struct route_table platform_app_table = {app_routes, ARRAY_LEN(app_routes)};
