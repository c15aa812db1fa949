/* The text of a token of the transform engine. A text that is read is written again as it was. */
#include "api/transform/transform_token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct transform_token token;
    char text[TRANSFORM_TOKEN_TEXT_MAX + 1];
    if (transform_token_parse(bytes_of(data, size), &token) != ST_OK)
        return 0;
    size_t len = transform_token_put(&token, text);
    ASSERT(bytes_eq(bytes_of(text, len), bytes_of(data, size)));
    ASSERT(transform_token_expiry(&token) >= 0);
    return 0;
}
