/* Tokens as they come from outside and from the state: a batch token's text, an accessor, and a
 * record. Accessor and record are either refused or written again as they were. */
#include "auth/token_accessor.h"
#include "auth/token_batch.h"
#include "auth/token_record.h"
#include "text/encode.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void as_record(struct bytes input)
{
    CLEANUP(arena_done) struct arena arena = {.bytes_max = 1 << 26};
    CLEANUP(buf_done) struct buf again = {0};
    struct auth_token token;
    if (token_record_read(input, &arena, &token) != ST_OK)
        return;
    if (auth_token_granted_s(&token) < 0 ||
        (token.expire_ms == 0 && auth_token_granted_s(&token) != 0))
        abort();
    token_record_put(&token, &again);
    if (buf_status(&again) != ST_OK || !bytes_eq(buf_bytes(&again), input))
        abort();
}

static void as_batch(struct bytes input)
{
    if (input.len > AUTH_TOKEN_MAX || !token_batch_is(input))
        return;
    struct bytes text = bytes_from(input, sizeof TOKEN_BATCH_PREFIX - 1);
    uint8_t *sealed = malloc(TEXT_BASE64_BYTES(text.len));
    size_t len = 0;
    if (sealed == NULL)
        abort();
    if (text_base64_parse(text, sealed, &len) == ST_OK) {
        if (len > TEXT_BASE64_BYTES(text.len))
            abort();
        as_record(bytes_of(sealed, len));
    }
    free(sealed);
}

static void as_accessor(struct bytes input)
{
    char id[AUTH_TOKEN_ID_LEN + 1], before[AUTH_TOKEN_ID_LEN + 1], again[AUTH_ACCESSOR_LEN + 1];
    bool some = token_accessor_before(input, before) == ST_OK;
    if (token_accessor_id(input, id) != ST_OK)
        return;
    if (token_accessor_of(bytes_str(id), again) != ST_OK || !bytes_eq(bytes_str(again), input))
        abort();
    if (!some || strcmp(before, id) != 0)
        abort();
}

static void as_id(struct bytes input)
{
    char accessor[AUTH_ACCESSOR_LEN + 1], again[AUTH_TOKEN_ID_LEN + 1];
    if (token_accessor_of(input, accessor) != ST_OK)
        return;
    if (token_accessor_id(bytes_str(accessor), again) != ST_OK ||
        !bytes_eq(bytes_str(again), input))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    as_id(bytes_of(data, size));
    as_accessor(bytes_of(data, size));
    as_record(bytes_of(data, size));
    as_batch(bytes_of(data, size));
    return 0;
}
