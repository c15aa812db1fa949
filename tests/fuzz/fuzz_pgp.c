/* Reading a PGP key never fails badly; a key that is taken encrypts, also from its stored form, and
 * is the same key as base64. The stored form may be anything. */
#include "crypto/pgp/pgp.h"
#include "text/encode.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NOW_S = 1730000000 };

/* A binary key, as base64 of all three forms, is the same key or refused as before. */
static void as_base64(struct bytes key, enum status before, const struct pgp_recipient *same)
{
    char *text = malloc(TEXT_BASE64_LEN(key.len) + 1);
    struct pgp_recipient to;
    struct reason why = {{0}};
    if (text == NULL)
        abort();
    for (enum text_base64 form = TEXT_BASE64; form <= TEXT_BASE64_RAW; form++) {
        size_t len = text_base64_put(key, form, text);
        enum status st = pgp_key_parse(bytes_of(text, len), (int64_t)NOW_S * 1000, &to, &why);
        if (before == ST_OK &&
            (st != ST_OK || memcmp(to.fingerprint, same->fingerprint, sizeof to.fingerprint) != 0))
            abort();
        if (before == ST_OK &&
            (to.body_len != same->body_len || memcmp(to.body, same->body, to.body_len) != 0))
            abort();
        if (before != ST_OK && st == ST_OK)
            abort();
    }
    free(text);
}

static void as_stored(struct bytes body)
{
    CLEANUP(buf_done) struct buf message = {0};
    struct pgp_recipient to = {.body_len = body.len};
    if (body.len > sizeof to.body)
        return;
    memcpy(to.body, body.data, body.len);
    enum status st = pgp_encrypt(&to, BYTES("share"), &message);
    if (st != ST_OK && st != ST_CORRUPT && st != ST_CRYPTO)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(buf_done) struct buf message = {0};
    struct pgp_recipient to;
    struct reason why = {{0}};
    struct bytes key = bytes_of(data, size);

    enum status st = pgp_key_parse(key, (int64_t)NOW_S * 1000, &to, &why);
    if (st != ST_OK && (st != ST_INVALID || why.text[0] == '\0'))
        abort();
    if (st == ST_OK && pgp_encrypt(&to, bytes_of(data, size % 64), &message) != ST_OK)
        abort();
    if (size != 0 && (data[0] & 0x80) != 0) /* binary: the tag of a packet */
        as_base64(key, st, &to);
    if (st == ST_OK)
        as_stored(bytes_of(to.body, to.body_len));
    if (size != 0)
        as_stored(key);
    return 0;
}
