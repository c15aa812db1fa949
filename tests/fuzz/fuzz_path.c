/* A decoded path has one reading: printable, no "." or "..", no empty segment, zero-terminated;
 * and decoding what needs no escapes gives the same again. */
#include "router/path.h"
#include "text/json.h"
#include "text/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_path(struct arena *arena, struct bytes path)
{
    struct bytes again;
    const char *text = (const char *)path.data;
    ASSERT(text_printable(path) && path.data[path.len] == 0 && strlen(text) == path.len);
    ASSERT(strstr(text, "//") == NULL && strstr(text, "/../") == NULL && text[0] != '/');
    if (strchr(text, '%') != NULL)
        return;
    const char *raw = arena_format(arena, "/v1/%s", text);
    ASSERT(raw != NULL);
    ASSERT(path_decode(arena, bytes_str(raw), &again, NULL) == ST_OK);
    ASSERT(bytes_eq(path, again));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf out = {0};
    struct text_writer w = {.out = &out};
    struct text_value *object;
    const struct text_value *v;
    struct bytes path;

    if (path_decode(&arena, bytes_of(data, size), &path, NULL) == ST_OK)
        check_path(&arena, path);
    if (path_parse_pairs(&arena, bytes_of(data, size), &object, NULL) == ST_OK) {
        text_put_value(&w, object);
        ASSERT(text_json_parse(&arena, buf_bytes(&out), &v, NULL) == ST_OK);
    }
    return 0;
}
