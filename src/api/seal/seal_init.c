/* Initialisation, once: keys, root token, default policies and mounts, in one transaction. */
#include "api/seal/seal.h"
#include "api/seal/seal_recipients.h"
#include "auth/namespace.h"
#include "base/mem.h"
#include "state/state_core.h"

struct seal_init {
    int64_t secret_shares, secret_threshold, stored_shares, recovery_shares, recovery_threshold;
    bool has_recovery_shares, has_recovery_threshold;
    struct field_strings pgp_keys, recovery_pgp_keys;
    const char *root_token_pgp_key;
};

static const struct field init_fields[] = {
    FIELD(struct seal_init, secret_shares, INT,
          .help = "Shares of the key to make, 1 to 255; not for a seal that unseals by itself."),
    FIELD(struct seal_init, secret_threshold, INT, .help = "How many shares unseal a node."),
    FIELD(struct seal_init, stored_shares, INT, .help = "Not read: no shares are stored."),
    FIELD(struct seal_init, pgp_keys, STRINGS,
          .help = "PGP public keys, one a share, in base64: each share is encrypted for its key."),
    FIELD(struct seal_init, root_token_pgp_key, STRING,
          .help = "PGP public key in base64: the root token is encrypted for it."),
    FIELD(struct seal_init, recovery_shares, INT,
          .has = offsetof(struct seal_init, has_recovery_shares),
          .help = "Shares of a recovery key to make, for a seal that unseals by itself; 0: none. "
                  "Without recovery_shares and recovery_threshold: 5 shares, 3 of which are "
                  "needed."),
    FIELD(struct seal_init, recovery_threshold, INT,
          .has = offsetof(struct seal_init, has_recovery_threshold),
          .help = "How many of the shares are needed."),
    FIELD(struct seal_init, recovery_pgp_keys, STRINGS,
          .help = "PGP public keys, one a share of the recovery key, in base64."),
};
enum { RECOVERY_SHARES = 5, RECOVERY_THRESHOLD = 3 };
static const struct schema seal_init_schema = SCHEMA(struct seal_init, init_fields);

struct initialized_out {
    bool initialized;
};
static const struct field initialized_fields[] = {FIELD(struct initialized_out, initialized, BOOL)};
static const struct schema seal_initialized_reply =
    SCHEMA(struct initialized_out, initialized_fields);

static enum status seal_init_read(struct req *req)
{
    struct node_status *node = req_node(req);
    ASSERT(!req_in_txn(req)); /* a node without a state replies too */
    if (node == NULL)
        return ST_NOMEM;
    if (req_node_starts(req, node))
        req_await(req);
    return req_reply(req, &(struct initialized_out){node->initialized});
}

static enum status check_parameters(struct req *req, const struct seal_init *in)
{
    if (req->host->seal_type == SEAL_SHAMIR) {
        if (in->recovery_shares != 0 || in->recovery_threshold != 0 || in->recovery_pgp_keys.n != 0)
            return req_fail(req, ST_INVALID,
                            "parameters recovery_shares,recovery_threshold,recovery_pgp_keys not "
                            "applicable to seal type shamir");
        return seal_shares_check(req, "secret", in->secret_shares, in->secret_threshold);
    }
    if (in->secret_shares != 0 || in->secret_threshold != 0 || in->pgp_keys.n != 0)
        return req_fail(req, ST_INVALID,
                        "parameters secret_shares,secret_threshold,pgp_keys not applicable to seal "
                        "type static");
    if (in->recovery_shares == 0 && in->recovery_threshold == 0)
        return ST_OK;
    return seal_shares_check(req, "recovery", in->recovery_shares, in->recovery_threshold);
}

struct running_init {
    struct state_init init;
    struct seal seal; /* wraps the root key; `seal.key` is owned only with key shares */
    struct seal_shares keys, recovery;
    struct seal_recipients holders, recovery_holders, token_holder; /* people to encrypt for */
    struct req_cleanup cleanup;
};

static void end_init(struct req_cleanup *cleanup)
{
    struct running_init *running = CONTAINER_OF(cleanup, struct running_init, cleanup);
    state_init_done(&running->init);
    if (running->seal.type == SEAL_SHAMIR)
        seal_done(&running->seal);
}

/* Make the seal that wraps the root key. */
static enum status make_seal(struct req *req, const struct seal_init *in,
                             struct running_init *running)
{
    uint8_t key[SEAL_KEY_BYTES];
    ASSERT(running->keys.n == 0 && running->recovery.n == 0);
    if (req->host->seal_type == SEAL_STATIC) {
        if (req->host->seal == NULL)
            return req_fail(req, ST_INVALID, "the active node has no seal key");
        running->seal = *req->host->seal;
        running->seal.shares = (uint8_t)in->recovery_shares;
        running->seal.threshold = (uint8_t)in->recovery_threshold;
        return ST_OK;
    }
    env_random(req->env, key, sizeof key);
    enum status st = seal_shamir(bytes_of(key, sizeof key), (unsigned)in->secret_shares,
                                 (unsigned)in->secret_threshold, &running->seal);
    mem_wipe(key, sizeof key);
    TRY(st);
    return seal_shares_split(req, secret_bytes(&running->seal.key), in->secret_shares,
                             in->secret_threshold, &running->keys);
}

static enum status read_recipients(struct req *req, const struct seal_init *in,
                                   struct running_init *running)
{
    TRY(seal_recipients_check(req, "pgp_keys", (unsigned)in->pgp_keys.n, in->secret_shares));
    TRY(seal_recipients_check(req, "recovery_pgp_keys", (unsigned)in->recovery_pgp_keys.n,
                              in->recovery_shares));
    ASSERT(running->holders.n == 0 && running->recovery_holders.n == 0);
    TRY(seal_recipients_read(req, "pgp_keys", &in->pgp_keys, &running->holders));
    TRY(seal_recipients_read(req, "recovery_pgp_keys", &in->recovery_pgp_keys,
                             &running->recovery_holders));
    return seal_recipient_read(req, "root_token_pgp_key", in->root_token_pgp_key,
                               &running->token_holder);
}

static enum status begin_init(struct req *req, const struct seal_init *in,
                              struct running_init **ret_running)
{
    struct running_init *running = arena_zalloc(req->arena, sizeof *running);
    ASSERT(req_in_txn(req));
    if (running == NULL)
        return ST_NOMEM;
    running->cleanup.run = end_init;
    req_defer(req, &running->cleanup);
    TRY(read_recipients(req, in, running));
    TRY(make_seal(req, in, running));
    enum status st = state_init_begin(req->txn, &running->seal, req->now_ms, &running->init);
    if (st == ST_EXISTS)
        return req_fail(req, ST_INVALID, "Vault is already initialized");
    TRY(st);
    *ret_running = running;
    return ST_OK;
}

static enum status make_recovery(struct req *req, const struct seal_init *in,
                                 struct seal_shares *ret)
{
    uint8_t key[STATE_RECOVERY_BYTES];
    if (in->recovery_shares == 0)
        return ST_OK;
    ASSERT(req->host->seal_type != SEAL_SHAMIR);
    env_random(req->env, key, sizeof key);
    enum status st = state_put(req->txn, BYTES(STATE_RECOVERY_KEY), bytes_of(key, sizeof key));
    if (st == ST_OK)
        st = seal_shares_split(req, bytes_of(key, sizeof key), in->recovery_shares,
                               in->recovery_threshold, ret);
    mem_wipe(key, sizeof key);
    return st;
}

/* Make recovery keys unless the request says otherwise. A cluster that unseals itself has no key
 * shares. Without recovery keys, the loss of its root token would be final: no request could manage
 * the cluster any more. */
static void default_recovery(const struct req *req, struct seal_init *in)
{
    if (req->host->seal_type == SEAL_SHAMIR || in->has_recovery_shares ||
        in->has_recovery_threshold)
        return;
    in->recovery_shares = RECOVERY_SHARES;
    in->recovery_threshold = RECOVERY_THRESHOLD;
}

struct keys_out {
    struct seal_shares_text keys, recovery;
    const char *root_token;
    struct field_strings warnings;
};
static const struct field keys_fields[] = {
    FIELD_NAMED("keys", struct keys_out, keys.hex, STRINGS),
    FIELD_NAMED("keys_base64", struct keys_out, keys.base64, STRINGS),
    FIELD_NAMED("recovery_keys", struct keys_out, recovery.hex, STRINGS),
    FIELD_NAMED("recovery_keys_base64", struct keys_out, recovery.base64, STRINGS),
    FIELD(struct keys_out, root_token, STRING),
    FIELD(struct keys_out, warnings, STRINGS, .omit = true),
};
static const struct schema seal_init_reply = SCHEMA(struct keys_out, keys_fields);

/* Shares authorise the move to another kind of seal, and no request makes the first ones. */
static const char *const no_shares[] = {"Without recovery keys this cluster can never move from "
                                        "this seal to key shares, and a lost root "
                                        "token cannot be replaced. The key of the seal changes by "
                                        "previous_key_file alone: keep the key "
                                        "file safe."};

static enum status reply_keys(struct req *req, const struct running_init *running,
                              const char *root_token)
{
    struct keys_out out = {.root_token = root_token};
    if (running->keys.n == 0 && running->recovery.n == 0)
        out.warnings = (struct field_strings){no_shares, ARRAY_LEN(no_shares), true};
    ASSERT(root_token != NULL);
    TRY(seal_recipients_shares(req, &running->keys, &running->holders, &out.keys));
    TRY(seal_recipients_shares(req, &running->recovery, &running->recovery_holders, &out.recovery));
    if (running->token_holder.n != 0)
        TRY(seal_recipient_encrypt(req, running->token_holder.items, bytes_str(root_token),
                                   &out.root_token));
    return req_reply(req, &out);
}

static enum status seal_init_write(struct req *req)
{
    struct seal_init in = *(const struct seal_init *)req_body(req);
    struct running_init *running = NULL;
    const char *bearer = NULL;

    TRY(check_parameters(req, &in));
    default_recovery(req, &in);
    TRY(begin_init(req, &in, &running));
    TRY(make_recovery(req, &in, &running->recovery));
    struct auth_token token = auth_token_root(req->now_ms);
    struct auth_scope scope = req_scope(req);
    scope.cipher = running->init.cipher; /* this node is still sealed */
    TRY(auth_token_create(&scope, req->env, &token, &bearer));
    ASSERT((running->keys.n == 0) == (req->host->seal_type == SEAL_STATIC));
    TRY(policy_found(req->txn, req->ns, req->now_ms));
    const struct module_list *modules = &req->router->options.modules;
    for (size_t i = 0; i < modules->n; i++)
        if (modules->items[i]->initialise != NULL)
            TRY(modules->items[i]->initialise(req));
    return reply_keys(req, running, bearer);
}

static const struct route init_routes[] = {
    {.method = METHOD_GET,
     .path = "init",
     .handler = seal_init_read,
     .who = WHO_ANYONE,
     .place = PLACE_NODE,
     .when = WHEN_UNINITIALIZED,
     .form = FORM_BARE,
     .flags = ROUTE_UNRECORDED,
     .reply = &seal_initialized_reply,
     .help = "Whether the cluster was initialised."},
    {.method = METHOD_POST,
     .path = "init",
     .handler = seal_init_write,
     .who = WHO_ANYONE,
     .place = PLACE_LEADER,
     .when = WHEN_MAINTENANCE,
     .form = FORM_BARE,
     .body = &seal_init_schema,
     .reply = &seal_init_reply,
     .help = "Initialise the cluster, once: create its keys and the root token."},
};

const struct route_table seal_init_table = {init_routes, ARRAY_LEN(init_routes)};
