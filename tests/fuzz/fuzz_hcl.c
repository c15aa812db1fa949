/* Reading HCL never fails badly; its tree, written as JSON, reads as the same tree unless a block
 * was repeated, which JSON refuses. */
#include "text/hcl.h"
#include "text/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf first = {0};
    CLEANUP(buf_done) struct buf second = {0};
    const struct text_value *v;
    struct reason why = {0};
    struct text_writer w = {.out = &first};

    enum status st = text_hcl_parse(&arena, bytes_of(data, size), &v, &why);
    if (st != ST_OK) {
        ASSERT(st == ST_INVALID || st == ST_TOO_BIG);
        ASSERT(why.text[0] != '\0');
        return 0;
    }
    text_put_value(&w, v);
    ASSERT(buf_status(&first) == ST_OK);
    if (text_json_parse(&arena, buf_bytes(&first), &v, &why) != ST_OK) {
        ASSERT(strstr(why.text, "is repeated") != NULL);
        return 0;
    }
    w = (struct text_writer){.out = &second};
    text_put_value(&w, v);
    ASSERT(bytes_eq(buf_bytes(&first), buf_bytes(&second)));
    return 0;
}
