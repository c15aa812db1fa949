/* A canonical path has one reading: printable, no "." or "..", no empty segment, zero-terminated;
 * and what is sent to another node gives the same again. */
#include "router/request/path.h"
#include "text/json.h"
#include "text/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_path(struct arena *arena, const struct path_target *target)
{
    struct path_target again;
    struct bytes sent;
    const char *text = (const char *)target->full.data;
    ASSERT(text_printable(target->full) && strlen(text) == target->full.len && text[0] == '/');
    ASSERT(strstr(text, "//") == NULL && strstr(text, "/../") == NULL);
    ASSERT(path_encode(arena, target, &sent) == ST_OK);
    for (size_t i = 0; i < sent.len; i++)
        ASSERT(sent.data[i] > ' ' && sent.data[i] < 0x7f && sent.data[i] != '?');
    ASSERT(path_canonical(arena, sent, &again) == ST_OK);
    ASSERT(bytes_eq(target->full, again.full));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf out = {0};
    struct text_writer w = {.out = &out};
    struct text_value *object;
    const struct text_value *v;
    struct path_target target;

    const uint8_t *query = size != 0 ? memchr(data, '?', size) : NULL; /* cut off by the parser */
    struct bytes raw = bytes_of(data, query != NULL ? (size_t)(query - data) : size);
    ASSERT(path_canonical(&arena, raw, &target) == ST_OK);
    ASSERT((target.fault == NULL) == (target.full.data != NULL));
    if (target.fault == NULL)
        check_path(&arena, &target);
    if (path_parse_pairs(&arena, bytes_of(data, size), &object, NULL) == ST_OK) {
        text_put_value(&w, object);
        ASSERT(text_json_parse(&arena, buf_bytes(&out), &v, NULL) == ST_OK);
    }
    return 0;
}
