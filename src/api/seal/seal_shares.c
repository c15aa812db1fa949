/* Split a key into shares; write and read shares as text. */
#include "api/seal/seal_shares.h"
#include "api/seal/seal.h"
#include "barrier/shamir.h"
#include "base/mem.h"
#include "text/encode.h"

enum status seal_shares_check(struct req *req, const char *what, int64_t shares, int64_t threshold)
{
    if (shares < 1 || shares > SHAMIR_SHARES_MAX)
        return req_fail(req, ST_INVALID, "%s_shares: 1 to %d are expected", what,
                        SHAMIR_SHARES_MAX);
    if (threshold < 1 || threshold > shares)
        return req_fail(req, ST_INVALID, "%s_threshold: 1 to %s_shares is expected", what, what);
    if (shares > 1 && threshold == 1)
        return req_fail(req, ST_INVALID,
                        "%s_threshold must be greater than one for multiple shares", what);
    return ST_OK;
}

enum status seal_own(struct req *req, const struct seal_info *info, unsigned shares,
                     unsigned threshold, struct seal *ret_seal)
{
    const struct seal *own = req->host->seal;
    ASSERT(info->type == SEAL_STATIC);
    ASSERT(threshold <= shares && shares <= SHAMIR_SHARES_MAX);
    if (own == NULL)
        return req_fail(req, ST_INVALID, "the active node has no seal key");
    const struct seal *present = seal_named(own, info->id);
    if (present == NULL) /* else the cluster would move to the seal of this node */
        return req_fail(req, ST_INVALID,
                        "the cluster is sealed by the key '%s', and the active node is configured "
                        "for the key '%s'",
                        info->id, own->id);
    *ret_seal = *present;
    ret_seal->shares = (uint8_t)shares;
    ret_seal->threshold = (uint8_t)threshold;
    return ST_OK;
}

enum status seal_shares_split(struct req *req, struct bytes key, int64_t n, int64_t threshold,
                              struct seal_shares *ret_shares)
{
    struct seal_shares s = {.n = (unsigned)n, .threshold = (unsigned)threshold};
    ASSERT(key.len == SEAL_KEY_BYTES);
    ASSERT(n >= 1 && n <= SHAMIR_SHARES_MAX && threshold >= 1 && threshold <= n);
    s.bytes = n > 1 ? key.len + 1 : key.len;
    uint8_t *data = arena_alloc(req->arena, s.n * s.bytes);
    if (data == NULL)
        return ST_NOMEM;
    if (n > 1)
        shamir_split(req->env, key, s.n, s.threshold, data);
    else
        memcpy(data, key.data, key.len);
    s.data = data;
    *ret_shares = s;
    return ST_OK;
}

static char *hex_text(struct arena *arena, struct bytes share)
{
    char *text = arena_alloc(arena, TEXT_HEX_LEN(SYS_SHARE_BYTES_MAX) + 1);
    ASSERT(share.len <= SYS_SHARE_BYTES_MAX);
    if (text != NULL)
        text_hex_put(share, text);
    return text;
}

static char *base64_text(struct arena *arena, struct bytes share)
{
    char *text = arena_alloc(arena, TEXT_BASE64_LEN(SYS_SHARE_BYTES_MAX) + 1);
    ASSERT(share.len <= SYS_SHARE_BYTES_MAX);
    if (text != NULL)
        (void)text_base64_put(share, TEXT_BASE64, text); /* the text is terminated */
    return text;
}

enum status seal_shares_text(struct req *req, const struct seal_shares *shares,
                             struct seal_shares_text *ret_text)
{
    const char **hex = arena_alloc(req->arena, shares->n * sizeof *hex);
    const char **base64 = arena_alloc(req->arena, shares->n * sizeof *base64);
    ASSERT(shares->n <= SHAMIR_SHARES_MAX);
    if (hex == NULL || base64 == NULL)
        return ST_NOMEM;
    for (unsigned i = 0; i < shares->n; i++) {
        struct bytes share = bytes_of(shares->data + i * shares->bytes, shares->bytes);
        hex[i] = hex_text(req->arena, share);
        base64[i] = base64_text(req->arena, share);
        if (hex[i] == NULL || base64[i] == NULL)
            return ST_NOMEM;
    }
    *ret_text = (struct seal_shares_text){.hex = {.items = hex, .n = shares->n},
                                          .base64 = {.items = base64, .n = shares->n}};
    return ST_OK;
}

enum status seal_share_read(struct req *req, const char *text,
                            uint8_t ret_share[SYS_SHARE_BYTES_MAX], size_t *ret_n)
{
    enum { TEXT_MAX = TEXT_HEX_LEN(SYS_SHARE_BYTES_MAX) };
    uint8_t share[TEXT_BASE64_BYTES(TEXT_MAX)];
    struct bytes given = bytes_str(text);
    size_t n = 0;

    bool read = given.len != 0 && given.len <= TEXT_MAX;
    if (read && text_hex_parse(given, share) == ST_OK)
        n = given.len / 2;
    else
        read = read && text_base64_parse(given, share, &n) == ST_OK;
    read = read && (n == SEAL_KEY_BYTES || n == SYS_SHARE_BYTES_MAX);
    if (read) {
        ASSERT(n <= SYS_SHARE_BYTES_MAX);
        memcpy(ret_share, share, n);
        *ret_n = n;
    }
    mem_wipe(share, sizeof share);
    return read ? ST_OK
                : req_fail(req, ST_INVALID, "key: 32 or 33 bytes in hex or base64 are expected");
}
