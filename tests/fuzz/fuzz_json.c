/* Reading JSON never fails badly; what was read is written as text that reads as the same, and that
 * jansson, an independent reader, takes too. */
#include "text/json.h"

#include <jansson.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool written(struct arena *arena, struct bytes text, struct buf *out)
{
    const struct text_value *v;
    struct text_writer w = {.out = out};
    struct reason why;
    if (text_json_parse(arena, text, &v, &why) != ST_OK)
        return false;
    text_put_value(&w, v);
    ASSERT(buf_status(out) == ST_OK);
    return true;
}

/* jansson knows no names with zeroes, no numbers beyond its types and a different depth, and takes
 * a zero byte for the end. */
static void compare(struct bytes text, bool ours)
{
    json_error_t error;
    if (text.len != 0 && memchr(text.data, 0, text.len) != NULL)
        return;
    json_t *theirs = json_loadb((const char *)text.data, text.len,
                                JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &error);
    enum json_error_code code = theirs == NULL ? json_error_code(&error) : json_error_unknown;
    if (theirs != NULL)
        ASSERT(ours || text.len > TEXT_JSON_DEPTH_MAX);
    else if (ours)
        ASSERT(code == json_error_numeric_overflow || code == json_error_null_byte_in_key ||
               code == json_error_stack_overflow);
    json_decref(theirs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf first = {0};
    CLEANUP(buf_done) struct buf second = {0};
    bool ours = written(&arena, bytes_of(data, size), &first);
    compare(bytes_of(data, size), ours);
    if (ours) {
        ASSERT(written(&arena, buf_bytes(&first), &second));
        ASSERT(bytes_eq(buf_bytes(&first), buf_bytes(&second)));
    }
    return 0;
}
