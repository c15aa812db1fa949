/* A new root token, or a DR operation token on a DR secondary, made by the holders of enough key
 * shares. The reply holds the token encrypted with a one-time pad, or with a PGP key. Only the
 * client that begins the attempt knows the pad or chooses the key, so no other holder reads the
 * token. */
#include "api/seal/seal.h"
#include "api/seal/seal_ceremony.h"
#include "barrier/token.h"
#include "base/mem.h"
#include "cluster/dr/role.h"
#include "cluster/dr/token.h"
#include "text/encode.h"
#include "text/random.h"

struct seal_generate_root {
    const char *otp, *pgp_key;
};
struct seal_decode_token {
    const char *encoded_token, *otp;
};

static const struct field attempt_fields[] = {
    FIELD(struct seal_generate_root, otp, STRING, .hidden = true,
          .help =
              "One-time password that the token will be combined with, as long as a token; none: "
              "a random one, which is shown once."),
    FIELD(struct seal_generate_root, pgp_key, STRING,
          .help =
              "PGP public key in base64, to encrypt the token in place of a one-time password."),
};
static const struct schema seal_generate_root_schema = {.fields = attempt_fields,
                                                        .n = ARRAY_LEN(attempt_fields),
                                                        .size = sizeof(struct seal_generate_root),
                                                        .fold_case = true};

static const struct field decode_fields[] = {
    FIELD(struct seal_decode_token, encoded_token, STRING, .hidden = true,
          .help = "The encoded token, from the reply of generate-root."),
    FIELD(struct seal_decode_token, otp, STRING, .hidden = true, .help = "Of that attempt."),
};
static const struct schema seal_decode_token_schema =
    SCHEMA(struct seal_decode_token, decode_fields);

enum { CODED_MAX = TEXT_BASE64_LEN(TOKEN_SERVICE_LEN) };

struct root_out {
    const char *nonce, *encoded_token, *encoded_root_token, *pgp_fingerprint, *otp;
    bool started, complete;
    int64_t progress, required, otp_length;
};
static const struct field root_fields[] = {
    FIELD(struct root_out, nonce, STRING),
    FIELD(struct root_out, started, BOOL),
    FIELD(struct root_out, progress, INT),
    FIELD(struct root_out, required, INT),
    FIELD(struct root_out, complete, BOOL),
    FIELD(struct root_out, encoded_token, STRING),
    FIELD(struct root_out, encoded_root_token, STRING),
    FIELD(struct root_out, pgp_fingerprint, STRING),
    FIELD(struct root_out, otp, STRING),
    FIELD(struct root_out, otp_length, INT),
};
static const struct schema seal_generate_root_reply = SCHEMA(struct root_out, root_fields);

/* The fingerprint of the key that the attempt encrypts for; "": of none. */
static enum status fingerprint(struct req *req, const struct ceremony *c, const char **ret)
{
    struct seal_recipients to = {0};
    struct field_strings prints;
    TRY(ceremony_recipients(req, c, &to));
    TRY(seal_recipients_fingerprints(req, &to, &prints));
    ASSERT(prints.n <= 1);
    *ret = prints.n != 0 ? prints.items[0] : "";
    return ST_OK;
}

/* `coded`: the encoded token, "" before the end. `otp`: "" where the reply does not show it. */
static enum status reply_with(struct req *req, const struct ceremony *c, const char *coded,
                              const char *otp)
{
    struct root_out out = {
        .nonce = c->nonce,
        .started = c->phase != CEREMONY_NONE,
        .progress = ceremony_progress(c),
        .required = c->seal.threshold,
        .complete = coded[0] != '\0',
        .encoded_token = coded,
        .encoded_root_token = c->kind == CEREMONY_ROOT ? coded : "",
        .otp = otp,
        .otp_length = TOKEN_SERVICE_LEN,
    };
    ASSERT(!out.complete || strlen(coded) <= CODED_MAX || c->recipients.len != 0);
    TRY(fingerprint(req, c, &out.pgp_fingerprint));
    return req_reply(req, &out);
}

/* The words for an attempt of this kind. */
static const char *generation(enum ceremony_kind kind)
{
    return kind == CEREMONY_ROOT ? "root generation" : "DR operation token generation";
}

/* A DR operation token serves on a DR secondary alone. */
static enum status check_kind(struct req *req, enum ceremony_kind kind)
{
    struct dr_role role;
    if (kind == CEREMONY_ROOT)
        return ST_OK;
    TRY(dr_role_read(req->txn, &role));
    return dr_is_secondary(&role) ? ST_OK
                                  : req_fail(req, ST_INVALID, "this cluster is no DR secondary");
}

static enum status read_attempt(struct req *req, enum ceremony_kind kind)
{
    struct ceremony c;
    TRY(check_kind(req, kind));
    TRY(ceremony_find(req, kind, NULL, &c));
    return reply_with(req, &c, "", "");
}

/* Judge the key on the pool: that takes milliseconds. */
static enum status seal_generate_root_prepare(struct req *req)
{
    const struct seal_generate_root *in = req_body(req);
    struct seal_recipients *to = arena_zalloc(req->arena, sizeof *to);
    ASSERT(!req_in_txn(req));
    if (to == NULL)
        return ST_NOMEM;
    if (in->pgp_key != NULL && in->pgp_key[0] != '\0' && in->otp != NULL && in->otp[0] != '\0')
        return req_fail(req, ST_INVALID, "otp and pgp_key exclude each other");
    TRY(seal_recipient_read(req, "pgp_key", in->pgp_key, to));
    req->prepared = to;
    return ST_OK;
}

/* Set the one-time password: that of the request, or a random one, which is `ret_made`. */
static enum status choose_otp(struct req *req, const char *wish, struct ceremony *c,
                              const char **ret_made)
{
    if (wish != NULL && wish[0] != '\0') {
        c->otp = bytes_str(wish);
    } else {
        char *made = arena_alloc(req->arena, TOKEN_SERVICE_LEN + 1);
        if (made == NULL)
            return ST_NOMEM;
        text_random(req->env, made, TOKEN_SERVICE_LEN);
        c->otp = bytes_str(made);
        *ret_made = made;
    }
    if (c->otp.len != TOKEN_SERVICE_LEN)
        return req_fail(req, ST_INVALID, "otp: OTP string is wrong length: %d are expected",
                        TOKEN_SERVICE_LEN);
    ASSERT(c->recipients.len == 0);
    return ST_OK;
}

static enum status begin_attempt(struct req *req, enum ceremony_kind kind)
{
    const struct seal_generate_root *in = req_body(req);
    const struct seal_recipients *to = req->prepared;
    const char *made = "";
    struct ceremony c;

    TRY(check_kind(req, kind));
    enum status st = ceremony_begin(req, kind, &c);
    if (st == ST_EXISTS)
        return req_fail(req, ST_INVALID, "%s already in progress", generation(kind));
    TRY(st);
    if (to->n != 0)
        TRY(seal_recipients_encode(req->arena, to, &c.recipients));
    else
        TRY(choose_otp(req, in->otp, &c, &made));
    ASSERT(c.phase == CEREMONY_GIVING);
    TRY(ceremony_save(req, &c));
    req->told = kind == CEREMONY_ROOT ? "the making of a root token was begun"
                                      : "the making of a DR operation token was begun";
    req->begins_attempt = true;
    return reply_with(req, &c, "", made);
}

static enum status cancel_attempt(struct req *req, enum ceremony_kind kind)
{
    struct ceremony c;
    TRY(check_kind(req, kind));
    TRY(ceremony_find_own(req, kind, &c));
    if (c.phase == CEREMONY_NONE)
        return ST_OK;
    c.phase = CEREMONY_NONE;
    req->told = kind == CEREMONY_ROOT ? "the making of a root token was given up"
                                      : "the making of a DR operation token was given up";
    return ceremony_save(req, &c);
}

/* Combine the token with the one-time password. */
static enum status mix_token(struct req *req, const char *bearer, struct bytes otp,
                             const char **ret_coded)
{
    uint8_t mixed[TOKEN_SERVICE_LEN];
    char *coded = arena_alloc(req->arena, CODED_MAX + 1);
    ASSERT(strlen(bearer) == sizeof mixed);
    if (coded == NULL)
        return ST_NOMEM;
    if (otp.len != sizeof mixed)
        return ST_CORRUPT;
    for (size_t i = 0; i < sizeof mixed; i++)
        mixed[i] = (uint8_t)bearer[i] ^ otp.data[i];
    (void)text_base64_put(bytes_of(mixed, sizeof mixed), TEXT_BASE64_RAW, coded);
    mem_wipe(mixed, sizeof mixed);
    *ret_coded = coded;
    return ST_OK;
}

static enum status make_bearer(struct req *req, enum ceremony_kind kind, const char **ret_bearer)
{
    struct auth_token token = auth_token_root(req->now_ms);
    struct auth_scope scope = req_scope(req);
    if (kind == CEREMONY_ROOT)
        return auth_token_create(&scope, req->env, &token, ret_bearer);
    char *bearer = arena_alloc(req->arena, TOKEN_SERVICE_LEN + 1); /* wiped with the arena */
    if (bearer == NULL)
        return ST_NOMEM;
    enum status st = dr_token_create(req->txn, req->env, req->now_ms, bearer);
    if (st == ST_LIMITED)
        return req_fail(req, st, "%d DR operation tokens exist: delete those that are not needed",
                        DR_TOKENS_MAX);
    *ret_bearer = bearer;
    return st;
}

static enum status make_token(struct req *req, const struct ceremony *c, const char **ret_coded)
{
    struct seal_recipients to = {0};
    const char *bearer = NULL;

    TRY(ceremony_recipients(req, c, &to));
    TRY(make_bearer(req, c->kind, &bearer));
    ASSERT(to.n <= 1);
    if (to.n == 0)
        return mix_token(req, bearer, c->otp, ret_coded);
    return seal_recipient_encrypt(req, &to.items[0], bytes_str(bearer), ret_coded);
}

/* Enough shares were given: make the token. */
static enum status carry_out(struct req *req, struct ceremony *c)
{
    const char *coded = NULL;
    ASSERT(c->phase == CEREMONY_GIVING);
    enum status st = ceremony_check(req, c);
    if (st == ST_DENIED) {
        c->given = (struct bytes){0};
        TRY(ceremony_save(req, c));
        req->told = "a token was refused: the shares do not make the key";
        const char *text = arena_format(req->arena,
                                        "%s aborted: these shares do not make the key; they have "
                                        "to be given anew",
                                        generation(c->kind));
        return text != NULL ? ceremony_refuse(req, text) : ST_NOMEM;
    }
    TRY(st);
    TRY(make_token(req, c, &coded));
    struct ceremony over = *c;
    over.phase = CEREMONY_NONE;
    TRY(ceremony_save(req, &over));
    req->told = c->kind == CEREMONY_ROOT ? "a root token was made with key shares"
                                         : "a DR operation token was made with key shares";
    return reply_with(req, c, coded, "");
}

static enum status heed_share(struct req *req, enum ceremony_kind kind)
{
    const struct seal_share *in = req_body(req);
    struct ceremony c;

    TRY(check_kind(req, kind));
    TRY(ceremony_find(req, kind, in->nonce, &c));
    if (c.phase == CEREMONY_NONE)
        return req_fail(req, ST_INVALID, "no %s in progress", generation(kind));
    TRY(ceremony_heed_nonce(req, c.nonce, in->nonce));
    TRY(ceremony_give(req, &c, in->key));
    ASSERT(ceremony_progress(&c) > 0);
    if (ceremony_is_full(&c))
        return carry_out(req, &c);
    TRY(ceremony_save(req, &c));
    req->told = kind == CEREMONY_ROOT ? "a key share was given for a root token"
                                      : "a key share was given for a DR operation token";
    return reply_with(req, &c, "", "");
}

#define HANDLERS(name, kind)                          \
    static enum status name##_read(struct req *req)   \
    {                                                 \
        return read_attempt(req, kind);               \
    }                                                 \
    static enum status name##_begin(struct req *req)  \
    {                                                 \
        return begin_attempt(req, kind);              \
    }                                                 \
    static enum status name##_cancel(struct req *req) \
    {                                                 \
        return cancel_attempt(req, kind);             \
    }                                                 \
    static enum status name##_update(struct req *req) \
    {                                                 \
        return heed_share(req, kind);                 \
    }

HANDLERS(seal_generate_root, CEREMONY_ROOT)
HANDLERS(replication_token, CEREMONY_DR)

struct decoded_out {
    struct bytes token;
};
static const struct field decoded_fields[] = {FIELD(struct decoded_out, token, BYTES)};
static const struct schema seal_decode_token_reply = SCHEMA(struct decoded_out, decoded_fields);

static enum status seal_decode_token(struct req *req)
{
    const struct seal_decode_token *in = req_body(req);
    uint8_t mixed[TEXT_BASE64_BYTES(AUTH_TOKEN_MAX)];
    char token[AUTH_TOKEN_MAX + 1];
    size_t n = 0;

    if (in->encoded_token == NULL || in->encoded_token[0] == '\0')
        return req_fail(req, ST_INVALID, "missing encoded token");
    if (in->otp == NULL || in->otp[0] == '\0')
        return req_fail(req, ST_INVALID, "missing otp");
    struct bytes coded = bytes_str(in->encoded_token), otp = bytes_str(in->otp);
    if (coded.len > AUTH_TOKEN_MAX || text_base64_parse(coded, mixed, &n) != ST_OK)
        return req_fail(req, ST_INVALID, "encoded_token: base64 is expected");
    if (n != otp.len)
        return req_fail(req, ST_INVALID, "otp: not as long as the token");
    ASSERT(n < sizeof token);
    for (size_t i = 0; i < n; i++)
        token[i] = (char)(mixed[i] ^ otp.data[i]);
    bool readable = true;
    for (size_t i = 0; i < n; i++)
        readable = readable && token[i] > 0x20 && token[i] < 0x7F;
    enum status st = ST_OK;
    if (readable)
        st = req_reply(req, &(struct decoded_out){bytes_of(token, n)});
    else
        st = req_fail(req, ST_INVALID, "otp: does not belong to this encoded token");
    mem_wipe(mixed, sizeof mixed);
    mem_wipe(token, sizeof token);
    return st;
}

#define TOKEN_ROWS(name, at, who, thing, begun)                                               \
    {.method = METHOD_GET,                                                                    \
     .path = at "attempt",                                                                    \
     .handler = name##_read,                                                                  \
     who,                                                                                     \
     .reply = &seal_generate_root_reply,                                                      \
     .help = "The progress of making a " thing "."},                                          \
        {.method = METHOD_POST,                                                               \
         .path = at "attempt",                                                                \
         .prepare = seal_generate_root_prepare,                                               \
         .handler = name##_begin,                                                             \
         who,                                                                                 \
         .body = &seal_generate_root_schema,                                                  \
         .reply = &seal_generate_root_reply,                                                  \
         .help = "Begin to make a " thing ". Enough key shares have to be given (of the "     \
                 "recovery key, with a seal that opens by itself). " begun},                  \
        {.method = METHOD_DELETE,                                                             \
         .path = at "attempt",                                                                \
         .handler = name##_cancel,                                                            \
         who,                                                                                 \
         .help = "Cancel the making of a " thing "; no attempt is no error."},                \
    {                                                                                         \
        .method = METHOD_POST, .path = at "update", .handler = name##_update, who,            \
        .body = &seal_share_schema, .reply = &seal_generate_root_reply,                       \
        .help = "Give one key share. The reply to the last share is the " thing ", combined " \
                "with the one-time password or encrypted with the PGP key. Shares that do "   \
                "not make the key have to be given anew."                                     \
    }

static const struct route generate_root_routes[] = {
    TOKEN_ROWS(seal_generate_root, "generate-root/", CEREMONY_OPEN, "root token",
               "Only requests with a token that may do this see and end an attempt that was begun "
               "with such a token. Another attempt ends after ten minutes without a share."),
    TOKEN_ROWS(seal_generate_root, "generate-root-token/", CEREMONY_JUDGED, "root token",
               CEREMONY_SEEN),
    {.method = METHOD_POST,
     .path = "decode-token",
     .handler = seal_decode_token,
     .who = WHO_ANYONE,
     .flags = ROUTE_READS,
     .body = &seal_decode_token_schema,
     .reply = &seal_decode_token_reply,
     .help = "Decode a token with the one-time password that encodes it."},
};

#define DR_OPEN .who = WHO_CEREMONY, .when = WHEN_SECONDARY, .form = FORM_BARE

static const struct route dr_token_routes[] = {
    TOKEN_ROWS(replication_token, "replication/dr/secondary/generate-operation-token/", DR_OPEN,
               "DR operation token",
               "On a DR secondary alone. An attempt ends after ten minutes without a share. The "
               "token has no expiry: delete it after its use."),
};

const struct route_table seal_dr_token_table = {dr_token_routes, ARRAY_LEN(dr_token_routes)};
const struct route_table seal_generate_root_table = {generate_root_routes,
                                                     ARRAY_LEN(generate_root_routes)};
