#include "api/seal/seal_recipients.h"
#include "barrier/shamir.h"
#include "base/mem.h"
#include "text/encode.h"

#include <stdio.h>

static enum status recipient_parse(struct req *req, const char *field, const char *key,
                                   struct pgp_recipient *ret)
{
    struct reason reason = {{0}};
    if (bytes_has_prefix(bytes_str(key), BYTES("keybase:")))
        return req_fail(req, ST_INVALID,
                        "%s: a key is expected; keybase names are not looked up: send the public "
                        "key itself, in base64 or as text, as \"gpg --export\" writes it",
                        field);
    enum status st = pgp_key_parse(bytes_str(key), req->now_ms, ret, &reason);
    if (st != ST_INVALID)
        return st;
    ASSERT(reason.text[0] != '\0');
    return req_fail(req, ST_INVALID, "%s: %s", field, reason.text);
}

enum status seal_recipients_read(struct req *req, const char *field,
                                 const struct field_strings *keys,
                                 struct seal_recipients *ret_recipients)
{
    char name[64];
    struct pgp_recipient *items;
    ASSERT(ret_recipients->n == 0);
    if (keys->n > SHAMIR_SHARES_MAX)
        return req_fail(req, ST_INVALID, "%s: too many keys: %d are the most", field,
                        SHAMIR_SHARES_MAX);
    items = arena_alloc(req->arena, keys->n * sizeof *items);
    if (items == NULL)
        return ST_NOMEM;
    for (unsigned i = 0; i < keys->n; i++) {
        int len = snprintf(name, sizeof name, "%s[%u]", field, i);
        ASSERT(len > 0 && (size_t)len < sizeof name);
        TRY(recipient_parse(req, name, keys->items[i], &items[i]));
    }
    *ret_recipients = (struct seal_recipients){.n = (unsigned)keys->n, .items = items};
    return ST_OK;
}

enum status seal_recipient_read(struct req *req, const char *field, const char *key,
                                struct seal_recipients *ret_recipients)
{
    struct pgp_recipient *item;
    *ret_recipients = (struct seal_recipients){0};
    ASSERT(field[0] != '\0');
    if (key == NULL || key[0] == '\0')
        return ST_OK;
    item = arena_alloc(req->arena, sizeof *item);
    if (item == NULL)
        return ST_NOMEM;
    TRY(recipient_parse(req, field, key, item));
    *ret_recipients = (struct seal_recipients){.n = 1, .items = item};
    return ST_OK;
}

enum status seal_recipients_check(struct req *req, const char *field, unsigned keys, int64_t shares)
{
    if (keys == 0 || keys == shares)
        return ST_OK;
    return req_fail(req, ST_INVALID,
                    "%s: count mismatch between number of provided PGP keys and number of shares: "
                    "%u keys for %lld shares",
                    field, keys, (long long)shares);
}

enum status seal_recipients_encode(struct arena *arena, const struct seal_recipients *from,
                                   struct bytes *ret_stored)
{
    CLEANUP(buf_drop) struct buf out = {0};
    ASSERT(from->n <= SHAMIR_SHARES_MAX);
    for (unsigned i = 0; i < from->n; i++) {
        const struct pgp_recipient *to = &from->items[i];
        buf_add_varint(&out, sizeof to->fingerprint + to->body_len);
        buf_add(&out, bytes_of(to->fingerprint, sizeof to->fingerprint));
        buf_add(&out, bytes_of(to->body, to->body_len));
    }
    TRY(buf_status(&out));
    const uint8_t *data = out.len != 0 ? arena_dup(arena, buf_bytes(&out)) : NULL;
    if (out.len != 0 && data == NULL)
        return ST_NOMEM;
    *ret_stored = bytes_of(data, out.len);
    return ST_OK;
}

static enum status recipient_decode(struct reader *r, struct pgp_recipient *ret)
{
    struct reader one = reader_of(reader_block(r));
    struct bytes fingerprint = reader_take(&one, sizeof ret->fingerprint);
    if (one.failed || r->failed || reader_left(&one) > sizeof ret->body)
        return ST_CORRUPT;
    *ret = (struct pgp_recipient){.body_len = reader_left(&one)};
    ASSERT(fingerprint.len == sizeof ret->fingerprint);
    memcpy(ret->fingerprint, fingerprint.data, fingerprint.len);
    memcpy(ret->body, one.at, ret->body_len);
    return ST_OK;
}

enum status seal_recipients_decode(struct arena *arena, struct bytes stored,
                                   struct seal_recipients *ret_recipients)
{
    struct reader count = reader_of(stored), r = reader_of(stored);
    struct seal_recipients found = {0};
    ASSERT(ret_recipients->n == 0);
    while (reader_left(&count) != 0 && !count.failed) {
        (void)reader_block(&count); /* read below */
        found.n++;
    }
    if (count.failed || found.n > SHAMIR_SHARES_MAX)
        return ST_CORRUPT;
    struct pgp_recipient *items = arena_alloc(arena, found.n * sizeof *items);
    if (items == NULL)
        return ST_NOMEM;
    for (unsigned i = 0; i < found.n; i++)
        TRY(recipient_decode(&r, &items[i]));
    ASSERT(reader_left(&r) == 0);
    found.items = items;
    *ret_recipients = found;
    return ST_OK;
}

enum status seal_recipients_fingerprints(struct req *req, const struct seal_recipients *recipients,
                                         struct field_strings *ret_fingerprints)
{
    const char **items = arena_alloc(req->arena, recipients->n * sizeof *items);
    ASSERT(recipients->n <= SHAMIR_SHARES_MAX);
    if (items == NULL)
        return ST_NOMEM;
    for (unsigned i = 0; i < recipients->n; i++) {
        char *hex = arena_alloc(req->arena, TEXT_HEX_LEN(PGP_FINGERPRINT_BYTES) + 1);
        if (hex == NULL)
            return ST_NOMEM;
        text_hex_put(bytes_of(recipients->items[i].fingerprint, PGP_FINGERPRINT_BYTES), hex);
        items[i] = hex;
    }
    *ret_fingerprints =
        (struct field_strings){.items = items, .n = recipients->n, .given = recipients->n != 0};
    return ST_OK;
}

static const char *base64_of(struct arena *arena, struct bytes message)
{
    char *text = arena_alloc(arena, TEXT_BASE64_LEN(message.len) + 1);
    if (text != NULL)
        (void)text_base64_put(message, TEXT_BASE64, text); /* the text is terminated */
    return text;
}

static const char *hex_of(struct arena *arena, struct bytes message)
{
    char *text = arena_alloc(arena, TEXT_HEX_LEN(message.len) + 1);
    if (text != NULL)
        text_hex_put(message, text);
    return text;
}

enum status seal_recipient_encrypt(struct req *req, const struct pgp_recipient *to,
                                   struct bytes plain, const char **ret_base64)
{
    CLEANUP(buf_drop) struct buf message = {0};
    TRY(pgp_encrypt(to, plain, &message));
    ASSERT(message.len > plain.len);
    *ret_base64 = base64_of(req->arena, buf_bytes(&message));
    return *ret_base64 != NULL ? ST_OK : ST_NOMEM;
}

static enum status encrypt_share(struct req *req, const struct pgp_recipient *to,
                                 struct bytes share, const char **ret_hex, const char **ret_base64)
{
    CLEANUP(buf_drop) struct buf message = {0};
    char hex[TEXT_HEX_LEN(SYS_SHARE_BYTES_MAX) + 1];
    ASSERT(share.len <= SYS_SHARE_BYTES_MAX);
    text_hex_put(share, hex);
    enum status st = pgp_encrypt(to, bytes_str(hex), &message);
    mem_wipe(hex, sizeof hex);
    TRY(st);
    ASSERT(message.len > share.len);
    *ret_hex = hex_of(req->arena, buf_bytes(&message));
    *ret_base64 = base64_of(req->arena, buf_bytes(&message));
    return *ret_hex != NULL && *ret_base64 != NULL ? ST_OK : ST_NOMEM;
}

enum status seal_recipients_shares(struct req *req, const struct seal_shares *shares,
                                   const struct seal_recipients *recipients,
                                   struct seal_shares_text *ret_text)
{
    if (recipients->n == 0)
        return seal_shares_text(req, shares, ret_text);
    const char **hex = arena_alloc(req->arena, shares->n * sizeof *hex);
    const char **base64 = arena_alloc(req->arena, shares->n * sizeof *base64);
    ASSERT(recipients->n == shares->n);
    if (hex == NULL || base64 == NULL)
        return ST_NOMEM;
    for (unsigned i = 0; i < shares->n; i++) {
        struct bytes share = bytes_of(shares->data + i * shares->bytes, shares->bytes);
        TRY(encrypt_share(req, &recipients->items[i], share, &hex[i], &base64[i]));
    }
    *ret_text = (struct seal_shares_text){.hex = {.items = hex, .n = shares->n},
                                          .base64 = {.items = base64, .n = shares->n}};
    return ST_OK;
}
