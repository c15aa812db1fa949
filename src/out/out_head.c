#include "out/out_internal.h"

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t';
}

/* Compare names and values for which upper and lower case are the same. */
static bool same_word(struct bytes word, const char *other)
{
    return strlen(other) == word.len && strncasecmp((const char *)word.data, other, word.len) == 0;
}

static enum status refuse(struct out_head *head, enum status st, const char *fault)
{
    head->fault = fault;
    return st;
}

/* "HTTP/1.1 200 OK" */
static enum status take_status(struct out_head *head, struct bytes line)
{
    struct out_reply *reply = head->reply;
    const uint8_t *at = line.data;
    ASSERT(head->phase == OUT_HEAD_STATUS);
    if (line.len < 12 || memcmp(at, "HTTP/1.", 7) != 0 || at[8] != ' ')
        return refuse(head, ST_BAD_GATEWAY, "is not HTTP/1");
    for (int i = 9; i < 12; i++)
        if (at[i] < '0' || at[i] > '9')
            return refuse(head, ST_BAD_GATEWAY, "has a malformed status");
    reply->status = (at[9] - '0') * 100 + (at[10] - '0') * 10 + (at[11] - '0');
    if (reply->status < 100 || reply->status > 599 || reply->status == 101)
        return refuse(head, ST_BAD_GATEWAY, "has a status that it may not have");
    head->phase = OUT_HEAD_FIELDS;
    return ST_OK;
}

static enum status keep_wanted(struct out_head *head, struct bytes name, struct bytes value)
{
    struct out_reply *reply = head->reply;
    ASSERT(head->request->n_wanted <= OUT_WANTED_MAX);
    for (size_t i = 0; i < head->request->n_wanted; i++) {
        if (reply->wanted[i].found || !same_word(name, head->request->wanted[i]))
            continue;
        reply->wanted[i].at = reply->head.len;
        reply->wanted[i].len = value.len;
        reply->wanted[i].found = true;
        buf_add(&reply->head, value);
    }
    return buf_status(&reply->head);
}

/* Framing and encoding must be what the client understands; libcurl is laxer. */
static enum status judge_field(struct out_head *head, struct bytes name, struct bytes value)
{
    bool length = same_word(name, "Content-Length");
    bool transfer = same_word(name, "Transfer-Encoding");
    ASSERT(head->phase == OUT_HEAD_FIELDS);
    if ((length || transfer) && head->framed)
        return refuse(head, ST_BAD_GATEWAY, "has two lengths");
    head->framed |= length || transfer;
    if ((transfer && !same_word(value, "chunked")) ||
        (same_word(name, "Content-Encoding") && !same_word(value, "identity")))
        return refuse(head, ST_BAD_GATEWAY, "is encoded in a way that was not asked for");
    if (head->request->on_field != NULL && head->reply->status >= 200)
        head->request->on_field(head->request->field_ctx, name, value);
    return keep_wanted(head, name, value);
}

static enum status take_field(struct out_head *head, struct bytes line)
{
    ASSERT(line.len > 0);
    if (is_blank(line.data[0]))
        return refuse(head, ST_BAD_GATEWAY, "has a folded header");
    const uint8_t *colon = memchr(line.data, ':', line.len);
    if (colon == NULL || colon == line.data || is_blank(colon[-1]))
        return refuse(head, ST_BAD_GATEWAY, "has a malformed header");
    struct bytes name = bytes_of(line.data, (size_t)(colon - line.data));
    struct bytes value = bytes_from(line, name.len + 1);
    while (value.len > 0 && is_blank(value.data[0]))
        value = bytes_from(value, 1);
    while (value.len > 0 && is_blank(value.data[value.len - 1]))
        value.len--;
    for (size_t i = 0; i < value.len; i++)
        if (value.data[i] < ' ' && value.data[i] != '\t')
            return refuse(head, ST_BAD_GATEWAY, "has a control character in a header");
    return judge_field(head, name, value);
}
/* The fields are complete. The next line begins the final reply, where this one was interim. */
static void end_fields(struct out_head *head)
{
    struct out_reply *reply = head->reply;
    ASSERT(head->phase == OUT_HEAD_FIELDS);
    head->phase = reply->status < 200 ? OUT_HEAD_STATUS : OUT_HEAD_BODY;
    if (head->phase != OUT_HEAD_STATUS)
        return;
    head->framed = false;
    buf_done(&reply->head);
    memset(reply->wanted, 0, sizeof reply->wanted);
}

enum status out_head_line(struct out_head *head, struct bytes line)
{
    head->bytes += line.len;
    if (head->bytes > OUT_HEADER_BYTES_MAX)
        return refuse(head, ST_TOO_BIG, "has headers that are too long");
    if (line.len > 0 && line.data[line.len - 1] == '\n')
        line.len--;
    if (line.len > 0 && line.data[line.len - 1] == '\r')
        line.len--;
    switch (head->phase) {
    case OUT_HEAD_STATUS: return take_status(head, line);
    case OUT_HEAD_FIELDS:
        if (line.len != 0)
            return take_field(head, line);
        end_fields(head);
        return ST_OK;
    case OUT_HEAD_BODY: return ST_OK;
    }
    return ST_INTERNAL;
}
