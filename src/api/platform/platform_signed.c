#include "api/platform/platform_signed.h"
#include "api/platform/platform_doc.h"
#include "base/record.h"
#include "crypto/digest.h"
#include "text/encode.h"

#include <inttypes.h>

#define KEY STATE_SHARED "platform/url-key"

enum { KEY_BYTES = 32, SHOWN_BYTES = 32 };

struct url_key {
    uint8_t key[KEY_BYTES];
};
static const struct record_field key_fields[] = {
    RECORD_FIELD(struct url_key, key, FIXED, .secret = true, .help = "key of HMAC-SHA-512"),
};
static const struct record key_record = {RECORD(struct url_key, key_fields),
                                         .name = "platform/url-key", .key = KEY, .newest = 1};
RECORD_LISTED(key_record);

enum status platform_signed_key(struct req *req)
{
    CLEANUP(buf_done) struct buf record = {0};
    struct url_key key;
    enum status st = state_exists(req->txn, BYTES(KEY));
    if (st != ST_NOT_FOUND)
        return st;
    TRY(crypto_random(key.key, sizeof key.key));
    TRY(record_encode(&key_record, &key, &record));
    explicit_bzero(&key, sizeof key);
    return state_put(req->txn, BYTES(KEY), buf_bytes(&record));
}

static enum status sign_text(struct req *req, const char *message,
                             char ret_hex[2 * SHOWN_BYTES + 1])
{
    struct state_value value;
    struct url_key key;
    uint8_t mac[CRYPTO_HMAC512_BYTES];
    TRY(state_get(req->txn, BYTES(KEY), &value));
    TRY(record_decode(&key_record, value.value, NULL, &key));
    enum status st = crypto_hmac512(bytes_of(key.key, sizeof key.key), bytes_str(message), mac);
    explicit_bzero(&key, sizeof key);
    text_hex_put(bytes_of(mac, SHOWN_BYTES), ret_hex);
    return st;
}

/* The text that is signed. NULL: no memory. */
static const char *message_of(struct req *req, const char *method, const char *path,
                              const char *expiry)
{
    return arena_format(req->arena, "%s %s %s", method, path, expiry);
}

enum status platform_signed_url(struct req *req, const char *method, const char *id,
                                const char *what, const char **ret_url)
{
    char hex[2 * SHOWN_BYTES + 1];
    const char *base;
    const char *path = arena_format(req->arena, "blobs/%s/%s", id, what);
    const char *expiry = arena_format(req->arena, "%" PRId64, req->now_ms + PLATFORM_SIGNED_MS);
    if (path == NULL || expiry == NULL)
        return ST_NOMEM;
    const char *message = message_of(req, method, path, expiry);
    if (message == NULL)
        return ST_NOMEM;
    TRY(sign_text(req, message, hex));
    TRY(platform_base_url(req, &base));
    *ret_url =
        arena_format(req->arena, "%s/api/v2/%s?expires=%s&signature=%s", base, path, expiry, hex);
    return *ret_url != NULL ? ST_OK : ST_NOMEM;
}

enum status platform_signed_check(struct req *req, const char *id, const char *what)
{
    char hex[2 * SHOWN_BYTES + 1];
    const char *expiry = platform_parameter(req, "expires");
    const char *given = platform_parameter(req, "signature");
    const char *method = req->method == METHOD_GET ? "GET" : "PUT";
    const char *path = arena_format(req->arena, "blobs/%s/%s", id, what);
    int64_t until;
    if (strlen(expiry) > 20 || text_int_parse(bytes_str(expiry), &until) != ST_OK ||
        until < req->now_ms)
        return ST_NOT_FOUND;
    const char *message = path != NULL ? message_of(req, method, path, expiry) : NULL;
    if (message == NULL)
        return ST_NOMEM;
    TRY(sign_text(req, message, hex));
    return bytes_eq_secret(bytes_str(hex), bytes_str(given)) ? ST_OK : ST_NOT_FOUND;
}

/* The key of a log: the expiry, '-', the signature. */
static enum status log_key(struct req *req, const char *id, const char *expiry,
                           const char **ret_key)
{
    char hex[2 * SHOWN_BYTES + 1];
    const char *message = arena_format(req->arena, "GET logs/%s %s", id, expiry);
    if (message == NULL)
        return ST_NOMEM;
    TRY(sign_text(req, message, hex));
    *ret_key = arena_format(req->arena, "%s-%s", expiry, hex);
    return *ret_key != NULL ? ST_OK : ST_NOMEM;
}

enum status platform_signed_log(struct req *req, const char *id, const char **ret_url)
{
    const char *base, *key;
    const char *expiry = arena_format(req->arena, "%" PRId64, req->now_ms + PLATFORM_SIGNED_MS);
    if (expiry == NULL)
        return ST_NOMEM;
    enum status st = log_key(req, id, expiry, &key);
    *ret_url = "";
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_OK : st;
    TRY(platform_base_url(req, &base));
    *ret_url = arena_format(req->arena, "%s/api/v2/logs/%s/%s", base, id, key);
    return *ret_url != NULL ? ST_OK : ST_NOMEM;
}

enum status platform_signed_log_check(struct req *req, const char *id, const char *key)
{
    const char *wanted;
    size_t len = strcspn(key, "-");
    int64_t until;
    if (len > 20 || text_int_parse(bytes_of(key, len), &until) != ST_OK || until < req->now_ms)
        return ST_NOT_FOUND;
    const char *expiry = arena_str(req->arena, bytes_of(key, len));
    if (expiry == NULL)
        return ST_NOMEM;
    TRY(log_key(req, id, expiry, &wanted));
    return bytes_eq_secret(bytes_str(wanted), bytes_str(key)) ? ST_OK : ST_NOT_FOUND;
}
