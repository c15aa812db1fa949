/* New shares: of the key of the seal (rekey, rotate/root), or of the recovery key
 * (rekey-recovery-key, rotate/recovery). The paths below rotate ask for a token.
 *
 * The reply to the last needed share holds the new shares. Without verification, the new shares
 * replace the present shares at once. With verification, they do so when enough of the new shares
 * were given back (verify). One transaction replaces the shares, so at any moment exactly one set
 * of shares is valid. A client that lost the reply can get it again for ten minutes, by giving the
 * last share once more; with PGP keys the same shares come encrypted anew. */
#include "api/seal/seal_rekey.h"
#include "api/seal/seal.h"
#include "api/seal/seal_keys.h"
#include "base/mem.h"
#include "text/random.h"

struct seal_rekey {
    int64_t secret_shares, secret_threshold, stored_shares;
    struct field_strings pgp_keys;
    bool backup, require_verification;
};

static const struct field rekey_fields[] = {
    FIELD(struct seal_rekey, secret_shares, INT, .help = "New shares to make, 1 to 255."),
    FIELD(struct seal_rekey, secret_threshold, INT, .help = "How many of the shares are needed."),
    FIELD(struct seal_rekey, stored_shares, INT, .help = "Not read: no shares are stored."),
    FIELD(struct seal_rekey, pgp_keys, STRINGS,
          .help = "PGP public keys, one a share, in base64: each share is encrypted for its key."),
    FIELD(struct seal_rekey, backup, BOOL,
          .help = "With pgp_keys: keep a copy of the encrypted shares, for the path backup."),
    FIELD(struct seal_rekey, require_verification, BOOL,
          .help = "The new shares become valid when enough of them were given to verify."),
};
static const struct schema seal_rekey_schema = {.fields = rekey_fields,
                                                .n = ARRAY_LEN(rekey_fields),
                                                .size = sizeof(struct seal_rekey),
                                                .fold_case = true};

enum ceremony_kind seal_rekey_kind(const struct req *req)
{
    bool recovery = strstr(req->route->path, "recovery") != NULL;
    return recovery ? CEREMONY_RECOVERY : CEREMONY_REKEY;
}

/* A seal has key shares or a recovery key, never both. */
static enum status check_kind(struct req *req)
{
    struct seal_info info;
    TRY(state_seal_read(req->txn, &info));
    if (seal_rekey_kind(req) == CEREMONY_REKEY && info.type != SEAL_SHAMIR)
        return req_fail(req, ST_INVALID,
                        "the seal of this cluster has no key shares: rotate/recovery and "
                        "rekey-recovery-key make new shares of its recovery key");
    if (seal_rekey_kind(req) == CEREMONY_RECOVERY && info.type == SEAL_SHAMIR)
        return req_fail(req, ST_INVALID,
                        "a cluster with key shares has no recovery key: rotate/root and rekey "
                        "make new key shares");
    return ST_OK;
}

static enum status find(struct req *req, const char *nonce, struct ceremony *ret)
{
    TRY(check_kind(req));
    return ceremony_find(req, seal_rekey_kind(req), nonce, ret);
}

/* The progress of an attempt, or the shares that it made. */
struct rekey_out {
    const char *nonce, *verification_nonce;
    bool started, complete, under_way, backup, verification_required;
    int64_t t, n, progress, required;
    struct seal_shares_text keys;
    struct field_strings pgp_fingerprints; /* not given: null */
};
#define REKEY_COMMON                                                  \
    FIELD(struct rekey_out, pgp_fingerprints, STRINGS, .null = true), \
        FIELD(struct rekey_out, backup, BOOL),                        \
        FIELD(struct rekey_out, verification_required, BOOL),         \
        FIELD(struct rekey_out, verification_nonce, STRING, .omit = true)
static const struct field rekey_out_fields[] = {
    FIELD(struct rekey_out, nonce, STRING),
    FIELD(struct rekey_out, started, BOOL),
    FIELD(struct rekey_out, t, INT),
    FIELD(struct rekey_out, n, INT),
    FIELD(struct rekey_out, progress, INT),
    FIELD(struct rekey_out, required, INT),
    REKEY_COMMON,
};
static const struct schema seal_rekey_reply = SCHEMA(struct rekey_out, rekey_out_fields);

/* The reply to a share: the progress, or the new shares. */
#define UNDER_WAY .omit = true, .has = offsetof(struct rekey_out, under_way)
static const struct field rekeyed_fields[] = {
    FIELD(struct rekey_out, nonce, STRING),
    FIELD(struct rekey_out, started, BOOL, UNDER_WAY),
    FIELD(struct rekey_out, t, INT, UNDER_WAY),
    FIELD(struct rekey_out, n, INT, UNDER_WAY),
    FIELD(struct rekey_out, progress, INT, UNDER_WAY),
    FIELD(struct rekey_out, required, INT, UNDER_WAY),
    FIELD(struct rekey_out, complete, BOOL, .omit = true),
    FIELD_NAMED("keys", struct rekey_out, keys.hex, STRINGS, .omit = true),
    FIELD_NAMED("keys_base64", struct rekey_out, keys.base64, STRINGS, .omit = true),
    REKEY_COMMON,
};
static const struct schema seal_rekeyed_reply = SCHEMA(struct rekey_out, rekeyed_fields);

static enum status fingerprints(struct req *req, const struct ceremony *c,
                                struct field_strings *ret)
{
    struct seal_recipients to = {0};
    TRY(ceremony_recipients(req, c, &to));
    return seal_recipients_fingerprints(req, &to, ret);
}

static enum status reply_status(struct req *req, const struct ceremony *found)
{
    const struct ceremony none = {.seal = found->seal};
    const struct ceremony *c = ceremony_is_under_way(found) ? found : &none;
    ASSERT(c->rekey.shares.threshold <= c->rekey.shares.n);
    struct rekey_out out = {
        .nonce = c->nonce,
        .under_way = true,
        .backup = c->backup,
        .started = c->phase != CEREMONY_NONE,
        .t = c->rekey.shares.threshold,
        .n = c->rekey.shares.n,
        .progress = c->phase == CEREMONY_GIVING ? ceremony_progress(c) : 0,
        .required = c->seal.threshold,
        .verification_required = c->rekey.verify,
        .verification_nonce = c->rekey.nonce,
    };
    TRY(fingerprints(req, c, &out.pgp_fingerprints));
    return req_reply(req, &out);
}

/* The new shares as text, encrypted if the attempt has recipients. */
static enum status shares_text(struct req *req, const struct ceremony *c,
                               struct seal_shares_text *ret)
{
    struct seal_recipients to = {0};
    TRY(ceremony_recipients(req, c, &to));
    ASSERT(to.n == 0 || to.n == c->rekey.shares.n);
    return seal_recipients_shares(req, &c->rekey.shares, &to, ret);
}

/* Reply with the new shares. */
static enum status reply_made(struct req *req, const struct ceremony *c,
                              const struct seal_shares_text *keys)
{
    ASSERT(c->phase == CEREMONY_VERIFYING || c->phase == CEREMONY_DONE);
    ASSERT(c->rekey.key.len == SEAL_KEY_BYTES);
    struct rekey_out out = {
        .nonce = c->nonce,
        .complete = true,
        .keys = *keys,
        .backup = c->backup,
        .verification_required = c->rekey.verify,
        .verification_nonce = c->rekey.nonce,
    };
    TRY(fingerprints(req, c, &out.pgp_fingerprints));
    return req_reply(req, &out);
}

static enum status seal_rekey_read(struct req *req)
{
    struct ceremony c;
    TRY(find(req, NULL, &c));
    return reply_status(req, &c);
}

static enum status check_wishes(struct req *req, const struct seal_rekey *in)
{
    if (in->backup && in->pgp_keys.n == 0)
        return req_fail(req, ST_INVALID,
                        "backup: cannot request a backup of the new keys without "
                        "providing PGP keys for encryption");
    TRY(seal_shares_check(req, "secret", in->secret_shares, in->secret_threshold));
    return seal_recipients_check(req, "pgp_keys", (unsigned)in->pgp_keys.n, in->secret_shares);
}

/* Judge the PGP keys on the pool: each takes a millisecond. */
static enum status seal_rekey_prepare(struct req *req)
{
    const struct seal_rekey *in = req_body(req);
    struct seal_recipients *to = arena_zalloc(req->arena, sizeof *to);
    ASSERT(!req_in_txn(req));
    if (to == NULL)
        return ST_NOMEM;
    TRY(check_wishes(req, in));
    TRY(seal_recipients_read(req, "pgp_keys", &in->pgp_keys, to));
    req->prepared = to;
    return ST_OK;
}

static enum status seal_rekey_begin(struct req *req)
{
    const struct seal_rekey *in = req_body(req);
    struct ceremony c;
    TRY(check_kind(req));
    enum status st = ceremony_begin(req, seal_rekey_kind(req), &c);
    if (st == ST_EXISTS)
        return req_fail(req, ST_INVALID, "rekey already in progress");
    TRY(st);
    c.rekey.shares.n = (unsigned)in->secret_shares;
    c.rekey.shares.threshold = (unsigned)in->secret_threshold;
    c.rekey.verify = in->require_verification;
    c.backup = in->backup;
    TRY(seal_recipients_encode(req->arena, req->prepared, &c.recipients));
    ASSERT(c.phase == CEREMONY_GIVING && c.rekey.shares.n > 0);
    TRY(ceremony_save(req, &c));
    req->told = "the making of new key shares was begun";
    req->begins_attempt = true;
    return reply_status(req, &c);
}

static enum status seal_rekey_cancel(struct req *req)
{
    struct ceremony c;
    TRY(check_kind(req));
    TRY(ceremony_find_own(req, seal_rekey_kind(req), &c));
    if (!ceremony_is_under_way(&c))
        return ST_OK;
    c.phase = CEREMONY_NONE;
    req->told = "the making of new key shares was given up";
    return ceremony_save(req, &c);
}

/* Stage the replacement of the present shares by the new shares. */
static enum status put_in_force(struct req *req, struct ceremony *c)
{
    const struct seal_shares *s = &c->rekey.shares;
    struct seal seal = {0};
    enum status st;

    ASSERT(c->phase == CEREMONY_GIVING || c->phase == CEREMONY_VERIFYING);
    ASSERT(c->rekey.key.len == SEAL_KEY_BYTES);
    if (c->kind == CEREMONY_REKEY) {
        TRY(seal_shamir(c->rekey.key, s->n, s->threshold, &seal));
        st = seal_root_key_new(req, &seal);
        seal_done(&seal);
    } else {
        TRY(seal_own(req, &c->seal, s->n, s->threshold, &seal));
        TRY(state_put(req->txn, BYTES(STATE_RECOVERY_KEY), c->rekey.key));
        st = state_reseal(req->txn, &seal);
    }
    TRY(st);
    c->given = (struct bytes){0};
    c->phase = CEREMONY_DONE;
    req->told = "new key shares replaced the present ones";
    return state_seal_read(req->txn, &c->seal);
}

static enum status make_shares(struct req *req, struct ceremony *c)
{
    uint8_t *key = arena_alloc(req->arena, SEAL_KEY_BYTES);
    size_t bytes = ceremony_share_bytes(c);
    ASSERT(c->phase == CEREMONY_GIVING && c->given.len >= bytes);
    if (key == NULL)
        return ST_NOMEM;
    env_random(req->env, key, SEAL_KEY_BYTES);
    c->rekey.key = bytes_of(key, SEAL_KEY_BYTES);
    c->rekey.last = bytes_from(c->given, c->given.len - bytes);
    return seal_shares_split(req, c->rekey.key, c->rekey.shares.n, c->rekey.shares.threshold,
                             &c->rekey.shares);
}

static enum status refuse_shares(struct req *req, struct ceremony *c)
{
    c->given = (struct bytes){0};
    TRY(ceremony_save(req, c));
    req->told = "new key shares were refused: the given shares do not make the key";
    return ceremony_refuse(req, "rekey aborted: these shares do not make the key; they have to be "
                                "given anew");
}

/* Enough shares were given: make the new shares. */
static enum status carry_out(struct req *req, struct ceremony *c)
{
    struct seal_shares_text keys;
    ASSERT(c->phase == CEREMONY_GIVING);
    enum status st = ceremony_check(req, c);
    if (st == ST_DENIED)
        return refuse_shares(req, c);
    TRY(st);
    TRY(make_shares(req, c));
    TRY(shares_text(req, c, &keys));
    if (c->backup)
        TRY(seal_rekey_backup_save(req, c, &keys));
    if (c->rekey.verify) {
        text_uuid(req->env, c->rekey.nonce);
        c->given = (struct bytes){0};
        c->phase = CEREMONY_VERIFYING;
        req->told = "new key shares were made, to be verified";
    } else {
        TRY(put_in_force(req, c));
    }
    TRY(ceremony_save(req, c));
    return reply_made(req, c, &keys);
}

/* Reply with the new shares again. They are encrypted anew. */
static enum status repeat_made(struct req *req, const struct ceremony *c)
{
    struct seal_shares_text keys;
    TRY(shares_text(req, c, &keys));
    return reply_made(req, c, &keys);
}

static enum status seal_rekey_update(struct req *req)
{
    const struct seal_share *in = req_body(req);
    struct ceremony c;

    TRY(find(req, in->nonce, &c));
    bool made = c.phase == CEREMONY_VERIFYING || c.phase == CEREMONY_DONE;
    if (made && in->nonce != NULL && strcmp(in->nonce, c.nonce) == 0 &&
        ceremony_is_repeated(req, &c, in->key))
        return repeat_made(req, &c);
    req_forget_error(req);
    if (!ceremony_is_under_way(&c))
        return req_fail(req, ST_INVALID, "no rekey in progress");
    TRY(ceremony_heed_nonce(req, c.nonce, in->nonce));
    if (c.phase == CEREMONY_VERIFYING)
        return req_fail(req, ST_INVALID,
                        "rekey operation already finished: the new shares are to "
                        "be verified");
    TRY(ceremony_give(req, &c, in->key));
    ASSERT(ceremony_progress(&c) > 0);
    if (ceremony_is_full(&c))
        return carry_out(req, &c);
    TRY(ceremony_save(req, &c));
    req->told = "a key share was given to make new ones";
    return reply_status(req, &c);
}

/* Verifying */

static enum status find_verifying(struct req *req, const char *nonce, struct ceremony *ret)
{
    TRY(find(req, nonce, ret));
    if (ret->phase == CEREMONY_VERIFYING)
        return ST_OK;
    return req_fail(req, ST_INVALID, "no rekey verification in progress");
}

struct verify_out {
    const char *nonce;
    bool started, complete;
    int64_t t, n, progress;
};
#define STARTED .omit = true, .has = offsetof(struct verify_out, started)
static const struct field verify_fields[] = {
    FIELD(struct verify_out, nonce, STRING),
    FIELD(struct verify_out, started, BOOL, .omit = true),
    FIELD(struct verify_out, t, INT, STARTED),
    FIELD(struct verify_out, n, INT, STARTED),
    FIELD(struct verify_out, progress, INT, STARTED),
    FIELD(struct verify_out, complete, BOOL, .omit = true),
};
static const struct schema seal_verify_reply = SCHEMA(struct verify_out, verify_fields);

static enum status reply_verifying(struct req *req, const struct ceremony *c)
{
    ASSERT(c->phase == CEREMONY_VERIFYING);
    const struct verify_out out = {
        .nonce = c->rekey.nonce,
        .started = true,
        .t = c->rekey.shares.threshold,
        .n = c->rekey.shares.n,
        .progress = ceremony_progress(c),
    };
    return req_reply(req, &out);
}

static enum status seal_rekey_verify_read(struct req *req)
{
    struct ceremony c;
    TRY(find_verifying(req, NULL, &c));
    return reply_verifying(req, &c);
}

/* Restart the verification; the new shares stay the same. */
static enum status seal_rekey_verify_restart(struct req *req)
{
    struct ceremony c;
    TRY(check_kind(req));
    TRY(ceremony_find_own(req, seal_rekey_kind(req), &c));
    if (c.phase != CEREMONY_VERIFYING)
        return req_fail(req, ST_INVALID, "no rekey verification in progress");
    c.given = (struct bytes){0};
    text_uuid(req->env, c.rekey.nonce);
    TRY(ceremony_save(req, &c));
    return reply_verifying(req, &c);
}

/* Enough of the new shares were given back. */
static enum status verified(struct req *req, struct ceremony *c)
{
    ASSERT(c->phase == CEREMONY_VERIFYING);
    enum status st = ceremony_check(req, c);
    if (st == ST_DENIED)
        return refuse_shares(req, c);
    TRY(st);
    TRY(put_in_force(req, c));
    ASSERT(c->phase == CEREMONY_DONE && c->given.len == 0);
    struct ceremony over = *c;
    over.phase = CEREMONY_NONE;
    TRY(ceremony_save(req, &over));
    return req_reply(req, &(struct verify_out){.nonce = c->rekey.nonce, .complete = true});
}

static enum status seal_rekey_verify(struct req *req)
{
    const struct seal_share *in = req_body(req);
    struct ceremony c;

    TRY(find_verifying(req, in->nonce, &c));
    TRY(ceremony_heed_nonce(req, c.rekey.nonce, in->nonce));
    TRY(ceremony_give(req, &c, in->key));
    if (ceremony_is_full(&c))
        return verified(req, &c);
    TRY(ceremony_save(req, &c));
    return reply_verifying(req, &c);
}

#define REKEY_ROWS(at, who, key)                                                                   \
    {.method = METHOD_GET,                                                                         \
     .path = at "init",                                                                            \
     .handler = seal_rekey_read,                                                                   \
     who,                                                                                          \
     .reply = &seal_rekey_reply,                                                                   \
     .help = "The progress of making new shares of the " key "."},                                 \
        {.method = METHOD_POST,                                                                    \
         .path = at "init",                                                                        \
         .prepare = seal_rekey_prepare,                                                            \
         .handler = seal_rekey_begin,                                                              \
         who,                                                                                      \
         .body = &seal_rekey_schema,                                                               \
         .reply = &seal_rekey_reply,                                                               \
         .help = "Begin to make new shares of the " key                                            \
                 ". Enough present shares have to be given. " CEREMONY_SEEN},                      \
        {.method = METHOD_DELETE,                                                                  \
         .path = at "init",                                                                        \
         .handler = seal_rekey_cancel,                                                             \
         who,                                                                                      \
         .help = "Cancel the making of new shares of the " key                                     \
                 ", also during verification. The present shares stay valid."},                    \
        {.method = METHOD_POST,                                                                    \
         .path = at "update",                                                                      \
         .handler = seal_rekey_update,                                                             \
         who,                                                                                      \
         .body = &seal_share_schema,                                                               \
         .reply = &seal_rekeyed_reply,                                                             \
         .help = "Give one present share. The reply to the last one is the new shares of the " key \
                 ". They are valid at once, or after verification. Within ten minutes the same "   \
                 "share gets the same reply."},                                                    \
        {.method = METHOD_GET,                                                                     \
         .path = at "verify",                                                                      \
         .handler = seal_rekey_verify_read,                                                        \
         who,                                                                                      \
         .reply = &seal_verify_reply,                                                              \
         .help = "How many of the new shares of the " key " were given back."},                    \
        {.method = METHOD_POST,                                                                    \
         .path = at "verify",                                                                      \
         .handler = seal_rekey_verify,                                                             \
         who,                                                                                      \
         .body = &seal_share_schema,                                                               \
         .reply = &seal_verify_reply,                                                              \
         .help = "Give back one of the new shares of the " key                                     \
                 ". The last one makes the new shares valid in place of the present ones."},       \
    {                                                                                              \
        .method = METHOD_DELETE, .path = at "verify", .handler = seal_rekey_verify_restart, who,   \
        .reply = &seal_verify_reply,                                                               \
        .help = "Restart the verification of the new shares of the " key "."                       \
    }

static const struct route rekey_routes[] = {
    REKEY_ROWS("rekey/", CEREMONY_OPEN, "seal's key"),
    REKEY_ROWS("rekey-recovery-key/", CEREMONY_OPEN, "recovery key"),
    REKEY_ROWS("rotate/root/", CEREMONY_JUDGED, "seal's key"),
    REKEY_ROWS("rotate/recovery/", CEREMONY_JUDGED, "recovery key"),
};

const struct route_table seal_rekey_table = {rekey_routes, ARRAY_LEN(rekey_routes)};
