/* The head of a message, in one block of text that can be wiped. */
#include "base/mem.h"
#include "http/parse.h"

#include <ctype.h>

enum { HEAD_TEXT_KEEP = 16384, HEAD_FIELDS_KEEP = 64 };

void http_head_done(struct http_head *head)
{
    buf_done(&head->text);
    mem_free(head->fields);
    *head = (struct http_head){0};
}

void http_head_reset(struct http_head *head)
{
    if (head->text.cap > HEAD_TEXT_KEEP || head->fields_cap > HEAD_FIELDS_KEEP) {
        http_head_done(head);
        return;
    }
    struct buf text = head->text;
    struct http_field *fields = head->fields;
    size_t fields_cap = head->fields_cap;
    mem_wipe(text.data, text.len);
    buf_clear(&text);
    *head = (struct http_head){.text = text, .fields = fields, .fields_cap = fields_cap};
}

void http_head_shrink(struct http_head *head)
{
    struct buf text = {.data = mem_alloc(head->text.len), .len = head->text.len};
    size_t fields_bytes = head->n_fields * sizeof head->fields[0];
    if (text.data == NULL)
        return;
    text.cap = text.len;
    if (text.len != 0)
        memcpy(text.data, head->text.data, text.len);
    buf_done(&head->text);
    head->text = text;
    struct http_field *fields = mem_realloc(head->fields, MAX(fields_bytes, sizeof *fields));
    if (fields == NULL)
        return;
    head->fields = fields;
    head->fields_cap = MAX(head->n_fields, (size_t)1);
}

static struct bytes head_text(const struct http_head *head, uint32_t at, uint32_t len)
{
    ASSERT(at <= head->text.len && len <= head->text.len - at);
    return bytes_of(head->text.data + at, len);
}

struct http_header http_head_field(const struct http_head *head, size_t i)
{
    ASSERT(i < head->n_fields);
    const struct http_field *f = &head->fields[i];
    return (struct http_header){head_text(head, f->name_at, f->name_len),
                                head_text(head, f->value_at, f->value_len)};
}

/* Compare names in any case; `stored` is in lower case already. */
static bool same_name(const uint8_t *stored, const char *name, size_t len)
{
    if (memcmp(stored, name, len) == 0) /* most callers give `name` in lower case */
        return true;
    for (size_t i = 0; i < len; i++)
        if (stored[i] != (uint8_t)tolower((unsigned char)name[i]))
            return false;
    return true;
}

bool http_head_next(const struct http_head *head, const char *name, size_t *at,
                    struct bytes *ret_value)
{
    size_t len = strlen(name);
    /* most headers that callers look for are absent */
    if ((head->name_lens & http_head_len_bit(len)) == 0)
        return false;
    while (*at < head->n_fields) {
        const struct http_field *f = &head->fields[(*at)++];
        if (f->name_len == len && same_name(head->text.data + f->name_at, name, len)) {
            *ret_value = head_text(head, f->value_at, f->value_len);
            return true;
        }
    }
    return false;
}
