/* The first token: acl/bootstrap, which works once, and again when the reset file allows it.
 *
 * The key s/ns/NS/registry/bootstrap holds the accessor of the token that the last bootstrap made.
 * Its version is the reset index: an operator writes this number into the file acl-bootstrap-reset
 * in the data directory of the active node, and the next bootstrap takes and deletes the file.
 * Earlier tokens stay valid. A file with another number means nothing, so a file that could not be
 * deleted allows no third bootstrap. With initial_management the active node makes the first token
 * itself, before any client can. Source: spec 3, A6. */
#include "api/registry/registry.h"
#include "api/registry/registry_token.h"
#include "auth/registry/registry.h"
#include "auth/registry/registry_policy.h"
#include "auth/registry/registry_settings.h"
#include "base/trace.h"
#include "loop/loop_fs.h"
#include "router/router.h"
#include "state/feature.h"
#include "state/ns_key.h"
#include "text/random.h"

#include <inttypes.h>

#define RESET_FILE "acl-bootstrap-reset"

enum { RESET_BYTES_MAX = 64 };

struct bootstrap_in {
    const char *secret;
};
static const struct field bootstrap_in_fields[] = {
    FIELD_NAMED("BootstrapSecret", struct bootstrap_in, secret, STRING, .preset = "",
                .hidden = true, .help = "SecretID of the token, a UUID; absent: a random one."),
};
static const struct schema bootstrap_in_schema = {.fields = bootstrap_in_fields,
                                                  .n = ARRAY_LEN(bootstrap_in_fields),
                                                  .size = sizeof(struct bootstrap_in),
                                                  .fold_case = true,
                                                  .typed = true};

/* The bootstrap as the state has it. */
struct reset_state {
    struct bytes key;
    uint64_t index; /* reset index; 0: there was none yet */
};

static enum status load_bootstrap(struct state_txn *txn, const char *ns,
                                  struct reset_state *ret_present)
{
    struct state_value value;
    ret_present->index = 0;
    TRY(state_ns_key(txn->arena, ns, "registry", BYTES("bootstrap"), NULL, &ret_present->key));
    enum status st = state_get(txn, ret_present->key, &value);
    if (st == ST_OK)
        ret_present->index = value.modified;
    return st == ST_NOT_FOUND ? ST_OK : st;
}

/* Stage a token with all rights, what it needs, and the note that there is one. */
static enum status add_management(const struct auth_scope *scope, const struct reset_state *present,
                                  struct registry_token *token)
{
    static const char *const links[] = {REGISTRY_POLICY_MANAGEMENT};
    token->description = "Bootstrap Token (Global Management)";
    token->links = (struct field_strings){links, ARRAY_LEN(links), true};
    token->created_ms = scope->now_ms;
    TRY(registry_policy_put_builtins(scope->txn, scope->ns));
    TRY(registry_token_put_anonymous(scope));
    TRY(registry_token_add(scope, token));
    return state_put(scope->txn, present->key, bytes_str(token->accessor));
}

/* The reset file */

/* The number in the file; 0: there is no file, or no number in it. */
static enum status read_reset(struct fs *fs, uint64_t *ret_index)
{
    char text[RESET_BYTES_MAX + 1] = "";
    struct fs_file *file;
    size_t n = 0;
    *ret_index = 0;
    enum status st = fs_open(fs, RESET_FILE, FS_READ, &file);
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_OK : st;
    st = fs_read_at(file, text, RESET_BYTES_MAX, 0, &n);
    fs_close(file);
    TRY(st);
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r' || text[n - 1] == ' '))
        n--;
    int64_t index = 0;
    if (text_int_parse(bytes_of(text, n), &index) == ST_OK && index > 0)
        *ret_index = (uint64_t)index;
    return ST_OK;
}

static enum status open_data(const struct req *req, struct fs **ret_fs)
{
    struct reason why = {{0}};
    ASSERT(req->host->data_dir != NULL);
    enum status st = loop_fs_new(req->host->data_dir, ret_fs, &why);
    if (st != ST_OK)
        trace(TRACE_WARN, "registry", "%s: %s", RESET_FILE,
              why.text[0] != '\0' ? why.text : status_text(st));
    return st;
}

/* Read the reset file of this node, which is the active one. */
static enum status bootstrap_prepare(struct req *req)
{
    uint64_t *index = arena_zalloc(req->arena, sizeof *index);
    struct fs *fs = NULL;
    ASSERT(!req_in_txn(req));
    if (index == NULL)
        return ST_NOMEM;
    req->prepared = index;
    if (req->host->data_dir == NULL)
        return ST_OK;
    enum status st = open_data(req, &fs);
    if (st == ST_OK)
        st = read_reset(fs, index);
    loop_fs_free(fs);
    if (st == ST_IO)
        return req_fail(req, st, "the file %s of this node cannot be read", RESET_FILE);
    return st;
}

/* Delete the file of a bootstrap that was committed. Its number is outdated: a file that stays does
 * no harm. */
static enum status bootstrap_outside(struct req *req)
{
    const uint64_t *index = req->prepared;
    struct fs *fs = NULL;
    if (*index == 0)
        return ST_OK;
    enum status st = open_data(req, &fs);
    if (st == ST_OK)
        st = fs_unlink(fs, RESET_FILE);
    if (st == ST_OK)
        st = fs_sync_dir(fs, "");
    loop_fs_free(fs);
    if (st != ST_OK)
        trace(TRACE_WARN, "registry", "the file %s was used and could not be deleted: %s",
              RESET_FILE, status_text(st));
    return ST_OK;
}

/* The bootstrap */

static enum status take_secret(struct req *req, const char *wanted, const char **ret_secret)
{
    const struct auth_scope scope = req_scope(req);
    char lower[TEXT_UUID_LEN + 1];
    bool used;
    if (wanted[0] == '\0')
        return registry_token_uuid(req->arena, req->env, ret_secret);
    if (text_uuid_parse(bytes_str(wanted), lower) != ST_OK)
        return req_fail(req, ST_REFUSED, "BootstrapSecret - not a valid UUID");
    TRY(auth_token_is_used(&scope, bytes_str(wanted), &used));
    if (used)
        return req_fail(req, ST_REFUSED,
                        "Provided token cannot be used because a token with that secret already "
                        "exists.");
    *ret_secret = wanted;
    return ST_OK;
}

static enum status make_first(struct req *req)
{
    const struct bootstrap_in *in = req_body(req);
    const struct auth_scope scope = req_scope(req);
    const uint64_t *reset = req->prepared;
    struct registry_token token = {.expire_ms = 0};
    struct reset_state present;
    TRY(load_bootstrap(req->txn, req->ns, &present));
    if (present.index != 0 && present.index != *reset)
        return req_fail(req, ST_DENIED,
                        "Permission denied: ACL bootstrap no longer allowed (reset index: %" PRIu64
                        ")",
                        present.index);
    TRY(registry_token_uuid(req->arena, req->env, &token.accessor));
    TRY(take_secret(req, in->secret, &token.secret));
    TRY(add_management(&scope, &present, &token));
    req->told = present.index != 0 ? "the registry's ACLs were bootstrapped again by the reset file"
                                   : "the registry's ACLs were bootstrapped";
    return registry_token_show(req, &token, REGISTRY_SHOW_SECRET | REGISTRY_SHOW_ID);
}

/* Stage the first token with the configured secret, if there was no bootstrap. */
static enum status use_initial(const struct auth_scope *scope)
{
    const char *secret = registry_settings()->initial_management;
    struct registry_token token = {.secret = secret};
    struct reset_state present;
    bool used;
    ASSERT(secret != NULL);
    TRY(load_bootstrap(scope->txn, scope->ns, &present));
    if (present.index != 0)
        return ST_OK;
    TRY(auth_token_is_used(scope, bytes_str(secret), &used));
    if (used)
        return ST_OK; /* a token of another API has this bearer */
    TRY(registry_token_uuid(scope->txn->arena, state_env(scope->txn->state), &token.accessor));
    return add_management(scope, &present, &token);
}

enum status registry_bootstrap_upkeep(struct state_txn *txn, int64_t now_ms)
{
    const struct auth_scope scope = {.txn = txn,
                                     .cipher = txn->cipher,
                                     .ns = STATE_NS_ROOT,
                                     .now_ms = now_ms,
                                     .kind = TOKEN_REGISTRY};
    bool raised;
    TRY(state_has_feature(txn, REGISTRY_FEATURE, &raised));
    if (!raised || !registry_settings()->acl)
        return ST_OK;
    if (registry_settings()->initial_management != NULL)
        TRY(use_initial(&scope));
    return state_staged(txn) ? ST_OK : registry_token_put_anonymous(&scope);
}

static const struct route bootstrap_routes[] = {
    {.method = METHOD_PUT,
     .path = "bootstrap",
     .prepare = bootstrap_prepare,
     .handler = make_first,
     .outside = bootstrap_outside,
     .who = WHO_ANYONE,
     .place = PLACE_ACTIVE,
     .index = INDEX_VERSION,
     .feature = REGISTRY_FEATURE,
     .body = &bootstrap_in_schema,
     .reply = &registry_token_reply,
     .help = "Create the first token, with all rights; once."},
};

const struct route_table registry_bootstrap_table = {bootstrap_routes, ARRAY_LEN(bootstrap_routes)};
