/*   HEAD ─┬─> DATA ──────────────────────────────────> OVER
 *         ├─> CHUNK_SIZE ─> DATA ─> CHUNK_END ─┐
 *         │       ^ │                          │
 *         │       │ └─> TRAILER ─> OVER        │
 *         │       └────────────────────────────┘
 *         └─> UNTIL_END ─(end of the connection)─> OVER */
#include "cli/incoming.h"

#include "text/value.h"

#include <strings.h>

enum { LINE_MAX_BYTES = 16 * 1024, HEAD_MAX_BYTES = 64 * 1024, CHUNK_DIGITS_MAX = 15 };

void incoming_init(struct incoming *in, FILE *download, size_t body_max)
{
    *in = (struct incoming){.download = download, .body_max = body_max};
}

void incoming_done(struct incoming *in)
{
    buf_done(&in->body);
}

/* Remove the line at the front of *rest; *ret_line is the line without its end. False: the end of
 * the line has not arrived. */
static bool take_line(struct bytes *rest, struct bytes *ret_line)
{
    const uint8_t *end = rest->len != 0 ? memmem(rest->data, rest->len, "\r\n", 2) : NULL;
    if (end == NULL)
        return false;
    size_t len = (size_t)(end - rest->data);
    *ret_line = bytes_of(rest->data, len);
    *rest = bytes_from(*rest, len + 2);
    return true;
}

static bool header_is(struct bytes line, const char *name, struct bytes *ret_value)
{
    size_t n = strlen(name);
    if (line.len <= n || line.data[n] != ':' || strncasecmp((const char *)line.data, name, n) != 0)
        return false;
    struct bytes v = bytes_from(line, n + 1);
    while (v.len > 0 && (*v.data == ' ' || *v.data == '\t'))
        v = bytes_from(v, 1);
    *ret_value = v;
    return true;
}

static enum status parse_status(struct incoming *in, struct bytes line)
{
    if (line.len < 12 || memcmp(line.data, "HTTP/1.", 7) != 0 || line.data[8] != ' ')
        return ST_INVALID;
    in->status = 0;
    for (size_t i = 9; i < 12; i++) {
        if (line.data[i] < '0' || line.data[i] > '9')
            return ST_INVALID;
        in->status = in->status * 10 + (line.data[i] - '0');
    }
    return in->status >= 100 ? ST_OK : ST_INVALID;
}

static enum status parse_head(struct incoming *in, struct bytes head)
{
    struct bytes line = {0}, value;
    int64_t length = -1;
    in->chunked = false;
    if (!take_line(&head, &line))
        return ST_INVALID;
    TRY(parse_status(in, line));
    while (take_line(&head, &line)) {
        if (header_is(line, "Transfer-Encoding", &value))
            in->chunked = true;
        else if (header_is(line, "Content-Length", &value))
            TRY(text_int_parse(value, &length));
        else if (header_is(line, "Location", &value) && value.len < sizeof in->location)
            (void)snprintf(in->location, sizeof in->location, "%.*s", (int)value.len,
                           (const char *)value.data); /* the text fits */
        else if (header_is(line, "X-Secrets-Request-ID", &value) &&
                 value.len <= INCOMING_REQUEST_ID_MAX)
            (void)snprintf(in->request_id, sizeof in->request_id, "%.*s", (int)value.len,
                           (const char *)value.data); /* the text fits */
    }
    if (in->status < 200) /* an interim reply: the final reply follows */
        return ST_OK;
    if (in->status == 204 || in->status == 304 || (!in->chunked && length == 0))
        in->phase = INCOMING_OVER;
    else if (in->chunked)
        in->phase = INCOMING_CHUNK_SIZE;
    else
        in->phase = length < 0 ? INCOMING_UNTIL_END : INCOMING_DATA;
    in->left = length < 0 ? 0 : (uint64_t)length;
    return length < -1 ? ST_INVALID : ST_OK;
}

/* Parse the head once all of it has arrived. *ret_more is set to true when the parser goes on: the
 * phase has changed, and the rest may contain more. */
static enum status feed_head(struct incoming *in, struct bytes *rest, bool *ret_more)
{
    ASSERT(in->phase == INCOMING_HEAD);
    const uint8_t *end = rest->len != 0 ? memmem(rest->data, rest->len, "\r\n\r\n", 4) : NULL;
    if (end == NULL)
        return rest->len > HEAD_MAX_BYTES ? ST_TOO_BIG : ST_OK;
    size_t len = (size_t)(end - rest->data) + 2;
    if (len > HEAD_MAX_BYTES)
        return ST_TOO_BIG;
    TRY(parse_head(in, bytes_of(rest->data, len)));
    *rest = bytes_from(*rest, len + 2);
    *ret_more = true;
    return ST_OK;
}

static enum status store(struct incoming *in, struct bytes data)
{
    if (in->download != NULL && in->status >= 200 && in->status < 300)
        return fwrite(data.data, 1, data.len, in->download) == data.len ? ST_OK : ST_IO;
    if (in->body.len + data.len > in->body_max)
        return ST_TOO_BIG;
    buf_add(&in->body, data);
    return buf_status(&in->body);
}

static enum status feed_data(struct incoming *in, struct bytes *rest, bool *ret_more)
{
    ASSERT(in->phase == INCOMING_DATA || in->phase == INCOMING_UNTIL_END);
    size_t n =
        in->phase == INCOMING_UNTIL_END ? rest->len : (size_t)MIN(in->left, (uint64_t)rest->len);
    if (n != 0)
        TRY(store(in, bytes_of(rest->data, n)));
    *rest = bytes_from(*rest, n);
    if (in->phase == INCOMING_UNTIL_END)
        return ST_OK;
    ASSERT(n <= in->left);
    in->left -= n;
    if (in->left != 0)
        return ST_OK;
    in->phase = in->chunked ? INCOMING_CHUNK_END : INCOMING_OVER;
    *ret_more = true;
    return ST_OK;
}

/* Parse one line between chunks: the size of a chunk, its end, or a trailer. */
static enum status feed_line(struct incoming *in, struct bytes *rest, bool *ret_more)
{
    struct bytes line;
    ASSERT(in->phase == INCOMING_CHUNK_SIZE || in->phase == INCOMING_CHUNK_END ||
           in->phase == INCOMING_TRAILER);
    if (!take_line(rest, &line))
        return rest->len > LINE_MAX_BYTES ? ST_INVALID : ST_OK;
    if (line.len > LINE_MAX_BYTES)
        return ST_INVALID;
    *ret_more = true;
    if (in->phase == INCOMING_TRAILER) {
        in->phase = line.len == 0 ? INCOMING_OVER : INCOMING_TRAILER;
        return ST_OK;
    }
    if (in->phase == INCOMING_CHUNK_END) {
        in->phase = INCOMING_CHUNK_SIZE;
        return line.len == 0 ? ST_OK : ST_INVALID;
    }
    size_t digits = 0;
    in->left = 0;
    while (digits < line.len && text_hex_digit(line.data[digits]) < 16)
        if (++digits > CHUNK_DIGITS_MAX)
            return ST_INVALID;
        else
            in->left = in->left * 16 + text_hex_digit(line.data[digits - 1]);
    if (digits == 0)
        return ST_INVALID;
    in->phase = in->left != 0 ? INCOMING_DATA : INCOMING_TRAILER;
    return ST_OK;
}

enum status incoming_feed(struct incoming *in, struct buf *raw)
{
    struct bytes rest = buf_bytes(raw);
    bool more = true;
    while (more && in->phase != INCOMING_OVER) {
        more = false;
        switch (in->phase) {
        case INCOMING_HEAD: TRY(feed_head(in, &rest, &more)); break;
        case INCOMING_DATA:
        case INCOMING_UNTIL_END: TRY(feed_data(in, &rest, &more)); break;
        case INCOMING_CHUNK_SIZE:
        case INCOMING_CHUNK_END:
        case INCOMING_TRAILER: TRY(feed_line(in, &rest, &more)); break;
        case INCOMING_OVER: break;
        }
    }
    ASSERT(rest.len <= raw->len);
    buf_consume(raw, raw->len - rest.len);
    return ST_OK;
}

enum status incoming_end(struct incoming *in)
{
    if (in->phase != INCOMING_UNTIL_END && in->phase != INCOMING_OVER)
        return ST_INVALID;
    in->phase = INCOMING_OVER;
    return ST_OK;
}
