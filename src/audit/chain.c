#include "audit/chain.h"
#include "text/encode.h"

#define HEAD ",\"chain\":{\"n\":"
#define PREV ",\"prev\":\""
#define HASH "\",\"hash\":\""
#define END "\"}}"

enum {
    HEX = 2 * CRYPTO_SHA256_BYTES,
    /* bytes from behind the number to the end of the line */
    FIXED = sizeof PREV - 1 + HEX + sizeof HASH - 1 + HEX + sizeof END - 1,
};

/* `body` is the line without its last brace. */
static void line_hash(struct crypto_sha256 *hash, const uint8_t prev[CRYPTO_SHA256_BYTES],
                      uint64_t n, struct bytes body, uint8_t ret_digest[CRYPTO_SHA256_BYTES])
{
    uint8_t number[8];
    be64_put(number, n);
    const struct bytes parts[] = {bytes_of(prev, CRYPTO_SHA256_BYTES),
                                  bytes_of(number, sizeof number), body, BYTES("}")};
    crypto_sha256(hash, parts, ARRAY_LEN(parts), ret_digest);
}

static void add_hex(struct buf *text, const uint8_t digest[CRYPTO_SHA256_BYTES])
{
    char hex[HEX + 1];
    text_hex_put(bytes_of(digest, CRYPTO_SHA256_BYTES), hex);
    buf_add(text, bytes_of(hex, HEX));
}

void chain_link(struct chain *chain, struct crypto_sha256 *hash, struct buf *text, size_t from)
{
    struct chain next = {.n = chain->n + 1};
    if (buf_status(text) != ST_OK)
        return; /* the caller sees it */
    ASSERT(text->len > from && text->data[text->len - 1] == '}');
    text->len--;
    line_hash(hash, chain->hash, next.n, bytes_of(text->data + from, text->len - from), next.hash);
    buf_add_format(text, HEAD "%llu" PREV, (unsigned long long)next.n);
    add_hex(text, chain->hash);
    buf_add(text, BYTES(HASH));
    add_hex(text, next.hash);
    buf_add(text, BYTES(END));
    if (buf_status(text) == ST_OK)
        *chain = next;
}

/* Take `literal` from the front of `*at`. */
static bool take(struct bytes *at, struct bytes literal)
{
    if (!bytes_has_prefix(*at, literal))
        return false;
    *at = bytes_from(*at, literal.len);
    return true;
}

/* Lower-case digits only: each hash has one form. */
static bool take_hex(struct bytes *at, uint8_t ret_digest[CRYPTO_SHA256_BYTES])
{
    if (at->len < HEX)
        return false;
    for (size_t i = 0; i < HEX; i++)
        if (at->data[i] >= 'A' && at->data[i] <= 'F')
            return false;
    if (text_hex_parse(bytes_of(at->data, HEX), ret_digest) != ST_OK)
        return false;
    *at = bytes_from(*at, HEX);
    return true;
}

static bool read_number(struct bytes digits, uint64_t *ret_n)
{
    uint64_t n = 0;
    if (digits.len == 0 || digits.len > CHAIN_DIGITS_MAX - 1 || digits.data[0] == '0')
        return false;
    for (size_t i = 0; i < digits.len; i++)
        n = n * 10 + (uint64_t)(digits.data[i] - '0');
    *ret_n = n;
    return true;
}

bool chain_read(struct bytes line, struct chain_member *ret_member)
{
    struct chain_member member = {0};
    if (line.len < FIXED)
        return false;
    size_t end = line.len - FIXED, at = end;
    while (at > 0 && line.data[at - 1] >= '0' && line.data[at - 1] <= '9' &&
           end - at < CHAIN_DIGITS_MAX)
        at--;
    if (!read_number(bytes_of(line.data + at, end - at), &member.n) || at < sizeof HEAD - 1 ||
        memcmp(line.data + at - (sizeof HEAD - 1), HEAD, sizeof HEAD - 1) != 0)
        return false;
    member.body_len = at - (sizeof HEAD - 1);
    struct bytes rest = bytes_from(line, end);
    if (!take(&rest, BYTES(PREV)) || !take_hex(&rest, member.prev) || !take(&rest, BYTES(HASH)) ||
        !take_hex(&rest, member.hash) || !take(&rest, BYTES(END)))
        return false;
    ASSERT(rest.len == 0);
    *ret_member = member;
    return true;
}

bool chain_holds(struct crypto_sha256 *hash, struct bytes line, const struct chain_member *member)
{
    uint8_t digest[CRYPTO_SHA256_BYTES];
    ASSERT(member->body_len <= line.len);
    line_hash(hash, member->prev, member->n, bytes_of(line.data, member->body_len), digest);
    return memcmp(digest, member->hash, sizeof digest) == 0;
}

/* The line is intact; find out whether it follows the last good line. */
static const char *check_place(const struct chain_check *check, const struct chain_member *member)
{
    static const uint8_t zero[CRYPTO_SHA256_BYTES];
    bool first = check->first == 0;
    const uint8_t *before = check->last.hash;
    ASSERT(member->n > 0);
    if (first && member->n == 1)
        before = zero;
    if (first && member->n != 1)
        return NULL; /* the lines before are not in these files */
    if (member->n > check->last.n + 1)
        return "does not follow the line before: lines are missing before it";
    if (member->n <= check->last.n)
        return "does not follow the line before: inserted, exchanged, or the start of a new chain";
    return memcmp(member->prev, before, sizeof member->prev) == 0
               ? NULL
               : "does not follow the line before: that line was exchanged";
}

const char *chain_check_line(struct chain_check *check, struct bytes line, bool whole)
{
    struct chain_member member;
    ASSERT(check->hash != NULL);
    ASSERT((check->first == 0) == (check->lines == 0));
    if (!whole)
        return "torn: the line has no end";
    if (!chain_read(line, &member))
        return "has no link of the chain: torn, changed or inserted";
    if (!chain_holds(check->hash, line, &member))
        return "changed: its content does not have its hash";
    const char *wrong = check_place(check, &member);
    if (wrong != NULL)
        return wrong;
    ASSERT(check->first == 0 || member.n == check->last.n + 1);
    if (check->first == 0)
        check->first = member.n;
    check->last.n = member.n;
    memcpy(check->last.hash, member.hash, sizeof member.hash);
    check->lines++;
    return NULL;
}
