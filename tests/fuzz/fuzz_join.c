/* Joining: a token's text, and the records about it, which are either refused or written again as
 * they were. */
#include "cluster/membership/certificate/authority.h"
#include "cluster/membership/join/join_token.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void as_text(struct bytes input)
{
    struct join_token token, again;
    char text[JOIN_TOKEN_TEXT];
    if (join_token_parse(input, &token) != ST_OK)
        return;
    join_token_put(&token, text);
    if (join_token_parse(bytes_str(text), &again) != ST_OK ||
        memcmp(&token, &again, sizeof token) != 0)
        abort();
}

static void must_be(const struct buf *again, struct bytes input)
{
    if (!bytes_eq(buf_bytes(again), input))
        abort();
}

static void as_record(struct bytes input)
{
    CLEANUP(buf_done) struct buf join = {0}, rotate = {0}, authority = {0};
    CLEANUP(cert_pair_done) struct cert_pair pair = {0};
    struct join_record record;
    int64_t since_s;
    if (join_record_decode(input, &record) == ST_OK) {
        if (join_record_encode(&record, &join) != ST_OK)
            abort();
        must_be(&join, input);
    }
    if (authority_rotate_decode(input, &since_s) == ST_OK) {
        if (authority_rotate_encode(since_s, &rotate) != ST_OK)
            abort();
        must_be(&rotate, input);
    }
    if (authority_decode(input, &pair) == ST_OK) {
        if (authority_encode(&pair, &authority) != ST_OK)
            abort();
        must_be(&authority, input);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    as_text(bytes_of(data, size));
    as_record(bytes_of(data, size));
    return 0;
}
