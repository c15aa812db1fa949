/* Templates that are filled for an entity, and texts of hashes of passwords. The input is the
 * template, a line break, and a value that the entity has. */
#include "auth/identity/identity.h"
#include "crypto/phash.h"

#include <stddef.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t marks_in(struct bytes text)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++)
        n += text.data[i] == '/' || text.data[i] == '*' || text.data[i] == '+';
    return n;
}

static void fill(struct bytes text, const char *value)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const char *const pairs[] = {"k", value};
    const struct identity_alias alias = {.id = "i", .name = value, .accessor = "a"};
    const struct identity_group group = {
        .id = "g", .name = value, .metadata = {.pairs = pairs, .n = 1}};
    const struct identity identity = {
        .entity = {.id = "e", .name = value, .metadata = {.pairs = pairs, .n = 1}},
        .aliases = &alias,
        .n_aliases = 1,
        .groups = &group,
        .n_groups = 1};
    struct bytes filled;
    enum status st = identity_fill(&identity, &arena, text, &filled);
    ASSERT(st == ST_OK || st == ST_NOT_FOUND);
    if (st == ST_OK) /* a value adds no character that patterns give a meaning */
        ASSERT(marks_in(filled) <= marks_in(text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const uint8_t *line = size != 0 ? memchr(data, '\n', size) : NULL;
    size_t len = line != NULL ? (size_t)(line - data) : size;
    const char *text = arena_str(&arena, bytes_of(data, len));
    const char *value =
        arena_str(&arena, bytes_of(data + MIN(len + 1, size), size - MIN(len + 1, size)));
    ASSERT(text != NULL && value != NULL);
    fill(bytes_str(text), value);
    ASSERT(!phash_is_ours(text) || phash_is_known(text));
    return 0;
}
