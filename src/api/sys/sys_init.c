#include "api/sys/sys.h"
#include "auth/namespace.h"
#include "base/mem.h"
#include "state/state_core.h"
#include "text/encode.h"

/* The recovery key, encrypted by the barrier like any value. It opens nothing by itself; it proves
 * who may ask for a new root token when the seal needs no shares. */
#define RECOVERY_KEY "s/core/recovery"

enum { RECOVERY_BYTES = 32 };

static const struct field init_fields[] = {
    FIELD(struct sys_init, secret_shares, INT, .help = "Not for a seal that unseals by itself."),
    FIELD(struct sys_init, secret_threshold, INT, .help = "As secret_shares."),
    FIELD(struct sys_init, stored_shares, INT, .help = "Accepted and not used."),
    FIELD(struct sys_init, pgp_keys, STRINGS, .help = "Not available."),
    FIELD(struct sys_init, root_token_pgp_key, STRING, .help = "Not available."),
    FIELD(struct sys_init, recovery_shares, INT, .help = "0: no recovery key; 1: one."),
    FIELD(struct sys_init, recovery_threshold, INT, .help = "The same as recovery_shares."),
    FIELD(struct sys_init, recovery_pgp_keys, STRINGS, .help = "Not available."),
};
const struct schema sys_init_schema = SCHEMA(struct sys_init, init_fields);

enum status sys_init_read(struct req *req)
{
    struct node_status *node = arena_alloc(req->arena, sizeof *node);
    if (node == NULL)
        return ST_NOMEM;
    req->host->status(req->host, node);
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_member_bool(&w, "initialized", node->initialized);
    text_close(&w);
    return req_reply_end(req);
}

static enum status check_parameters(struct req *req, const struct sys_init *in)
{
    if (in->secret_shares != 0 || in->secret_threshold != 0)
        return req_fail(req, ST_INVALID,
                        "parameters secret_shares,secret_threshold not applicable to seal type "
                        "static");
    if (in->pgp_keys.n != 0 || in->recovery_pgp_keys.n != 0 ||
        (in->root_token_pgp_key != NULL && in->root_token_pgp_key[0] != '\0'))
        return req_fail(req, ST_INVALID, "PGP keys are not available");
    if (in->recovery_shares < 0 || in->recovery_shares > 1 ||
        in->recovery_threshold != in->recovery_shares)
        return req_fail(req, ST_INVALID,
                        "recovery_shares and recovery_threshold: both 0 or both 1 are expected");
    return ST_OK;
}

struct running_init {
    struct state_init init;
    struct req_cleanup cleanup;
};

static void end_init(struct req_cleanup *cleanup)
{
    struct running_init *running = CONTAINER_OF(cleanup, struct running_init, cleanup);
    state_init_done(&running->init);
}

static enum status begin_init(struct req *req, struct state_init **ret_init)
{
    struct running_init *running = arena_zalloc(req->arena, sizeof *running);
    if (running == NULL)
        return ST_NOMEM;
    enum status st = state_init_begin(req->txn, req->host->seal, req->now_ms, &running->init);
    if (st == ST_EXISTS)
        return req_fail(req, ST_INVALID, "Vault is already initialized");
    TRY(st);
    running->cleanup.run = end_init;
    req_defer(req, &running->cleanup);
    *ret_init = &running->init;
    return ST_OK;
}

static void put_base64(struct text_writer *w, const uint8_t *key, size_t n)
{
    char text[TEXT_BASE64_LEN(RECOVERY_BYTES) + 1];
    ASSERT(n <= RECOVERY_BYTES);
    (void)text_base64_put(bytes_of(key, n), TEXT_BASE64, text);
    text_put_str(w, text);
    mem_wipe(text, sizeof text);
}

static void put_hex(struct text_writer *w, const uint8_t *key, size_t n)
{
    char text[TEXT_HEX_LEN(RECOVERY_BYTES) + 1];
    ASSERT(n <= RECOVERY_BYTES);
    text_hex_put(bytes_of(key, n), text);
    text_put_str(w, text);
    mem_wipe(text, sizeof text);
}

static void put_keys(struct text_writer *w, const char *hex_name, const char *base64_name,
                     const uint8_t *key)
{
    text_key(w, hex_name);
    text_open_list(w);
    if (key != NULL)
        put_hex(w, key, RECOVERY_BYTES);
    text_close(w);
    text_key(w, base64_name);
    text_open_list(w);
    if (key != NULL)
        put_base64(w, key, RECOVERY_BYTES);
    text_close(w);
}

static enum status mount_defaults(struct req *req)
{
    static const char *const options[] = {"version", "1"};
    struct mount kv = {.path = "kv/",
                       .type = "kv",
                       .description = "key/value secret storage",
                       .options = {.pairs = options, .n = 1, .given = true}};
    return req->host->default_kv ? mount_create(req->txn, req->env, req->ns, &kv) : ST_OK;
}

enum status sys_init_write(struct req *req)
{
    const struct sys_init *in = req_body(req);
    struct state_init *init = NULL;
    struct auth_token token;
    const char *bearer;
    uint8_t *recovery = NULL;

    if (req->host->seal == NULL)
        return req_fail(req, ST_INVALID, "the active node has no seal key");
    TRY(begin_init(req, &init));
    TRY(check_parameters(req, in));
    if (in->recovery_shares == 1) {
        recovery = arena_alloc(req->arena, RECOVERY_BYTES);
        if (recovery == NULL)
            return ST_NOMEM;
        env_random(req->env, recovery, RECOVERY_BYTES);
        TRY(state_put(req->txn, BYTES(RECOVERY_KEY), bytes_of(recovery, RECOVERY_BYTES)));
    }
    TRY(auth_token_make_root(req->env, req->arena, req->now_ms / 1000, &token, &bearer));
    TRY(auth_token_save(req->txn, init->seat, req->ns, bytes_str(bearer), &token));
    TRY(mount_defaults(req));

    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    put_keys(&w, "keys", "keys_base64", NULL);
    put_keys(&w, "recovery_keys", "recovery_keys_base64", recovery);
    text_member_str(&w, "root_token", bearer);
    text_close(&w);
    return req_reply_end(req);
}
