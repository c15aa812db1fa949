#include "front/registry/registry_pretty.h"

static void new_line(unsigned depth, struct buf *out)
{
    buf_add_u8(out, '\n');
    for (unsigned i = 0; i < depth; i++)
        buf_add(out, BYTES("    "));
}

/* The length of the string that begins with the quote at `at`. */
static size_t string_len(struct bytes text, size_t at)
{
    size_t end = at + 1;
    while (end < text.len && text.data[end] != '"')
        end += text.data[end] == '\\' ? 2 : 1;
    ASSERT(end < text.len); /* a writer closes its strings */
    return end + 1 - at;
}

void registry_pretty(struct bytes compact, struct buf *out)
{
    unsigned depth = 0;
    for (size_t i = 0; i < compact.len; i++) {
        uint8_t c = compact.data[i], next = i + 1 < compact.len ? compact.data[i + 1] : 0;
        if (c == '"') {
            size_t len = string_len(compact, i);
            buf_add(out, bytes_of(compact.data + i, len));
            i += len - 1;
            continue;
        }
        bool empty = (c == '{' && next == '}') || (c == '[' && next == ']');
        if (empty) {
            buf_add(out, bytes_of(compact.data + i, 2));
            i++;
            continue;
        }
        if (c == '}' || c == ']')
            new_line(--depth, out);
        buf_add_u8(out, c);
        if (c == ':')
            buf_add_u8(out, ' ');
        if (c == '{' || c == '[')
            new_line(++depth, out);
        else if (c == ',')
            new_line(depth, out);
    }
    ASSERT(depth == 0);
    buf_add_u8(out, '\n');
}
