#include "auth/token_batch.h"
#include "state/ns_key.h"
#include "text/encode.h"

enum { PREFIX_LEN = sizeof TOKEN_BATCH_PREFIX - 1 };

/* Bind the encryption to a key of the state at which nothing is stored. */
static enum status bound_to(struct arena *arena, const char *ns, struct bytes *ret_key)
{
    return state_ns_key(arena, ns, "batch", BYTES("token"), NULL, ret_key);
}

bool token_batch_is(struct bytes bearer)
{
    return bytes_has_prefix(bearer, BYTES(TOKEN_BATCH_PREFIX));
}

enum status token_batch_seal(struct state_txn *txn, struct barrier_cipher *cipher, const char *ns,
                             const struct auth_token *token, const char **ret_bearer)
{
    CLEANUP(buf_done) struct buf record = {0};
    struct bytes key;

    ASSERT(auth_token_is_batch(token) && token->id[0] == '\0');
    ASSERT(token->num_uses == 0); /* no record could count uses of a batch token */
    token_record_put(token, &record);
    TRY(buf_status(&record));
    size_t len = record.len + BARRIER_OVERHEAD;
    if (PREFIX_LEN + TEXT_BASE64_LEN(len) > AUTH_TOKEN_MAX)
        return ST_TOO_BIG;
    uint8_t *sealed = arena_alloc(txn->arena, len);
    char *bearer = arena_alloc(txn->arena, PREFIX_LEN + TEXT_BASE64_LEN(len) + 1);
    if (sealed == NULL || bearer == NULL)
        return ST_NOMEM;
    TRY(bound_to(txn->arena, ns, &key));
    TRY(barrier_encrypt(cipher, key, buf_bytes(&record), sealed));
    memcpy(bearer, TOKEN_BATCH_PREFIX, PREFIX_LEN);
    size_t n = text_base64_put(bytes_of(sealed, len), TEXT_BASE64_URL, bearer + PREFIX_LEN);
    ASSERT(n <= TEXT_BASE64_LEN(len) && bearer[PREFIX_LEN + n] == '\0');
    *ret_bearer = bearer;
    return ST_OK;
}

/* Decode the base64 of a bearer. Accept only the spelling that token_batch_seal makes. A padded
 * spelling, or '+' for '-', would be a second name of the same token where bearers are compared. */
static enum status bearer_decode(struct arena *arena, struct bytes text, struct bytes *ret_sealed)
{
    size_t len = 0;
    uint8_t *sealed = arena_alloc(arena, TEXT_BASE64_BYTES(text.len));
    char *again = arena_alloc(arena, text.len + 4 + 1);
    if (sealed == NULL || again == NULL)
        return ST_NOMEM;
    if (text_base64_parse(text, sealed, &len) != ST_OK)
        return ST_DENIED;
    size_t n = text_base64_put(bytes_of(sealed, len), TEXT_BASE64_URL, again);
    ASSERT(len <= TEXT_BASE64_BYTES(text.len) && n <= text.len + 4);
    *ret_sealed = bytes_of(sealed, len);
    return bytes_eq(bytes_of(again, n), text) ? ST_OK : ST_DENIED;
}

enum status token_batch_open(struct state_txn *txn, const char *ns, struct bytes bearer,
                             struct auth_token *ret_token)
{
    struct bytes sealed, key, record;
    struct auth_token token;

    ASSERT(token_batch_is(bearer));
    TRY(bearer_decode(txn->arena, bytes_from(bearer, PREFIX_LEN), &sealed));
    TRY(bound_to(txn->arena, ns, &key));
    enum status st = state_open(txn, key, sealed, &record);
    if (st == ST_OK)
        st = token_record_read(record, txn->arena, &token);
    if (st == ST_CORRUPT || (st == ST_OK && !auth_token_is_batch(&token)))
        return ST_DENIED;
    TRY(st);
    *ret_token = token;
    return ST_OK;
}
