#include "cli/cli.h"

#include <stdio.h>

static void put(struct buf *b, struct bytes text)
{
    struct text_writer w = {.out = b};
    text_put_bytes(&w, text);
}

static void indent(struct buf *b, unsigned depth)
{
    buf_add_u8(b, '\n');
    for (unsigned i = 0; i < depth; i++)
        buf_add_str(b, "  ");
}

static void format(struct buf *b, const struct text_value *v, unsigned depth)
{
    switch (v->kind) {
    case TEXT_NULL: buf_add_str(b, "null"); return;
    case TEXT_BOOL: buf_add_str(b, v->truth ? "true" : "false"); return;
    case TEXT_NUMBER: buf_add(b, v->text); return;
    case TEXT_STRING: put(b, v->text); return;
    case TEXT_LIST:
    case TEXT_OBJECT: break;
    }
    bool object = v->kind == TEXT_OBJECT;
    buf_add_str(b, object ? "{" : "[");
    TEXT_FOR (item, v) {
        indent(b, depth + 1);
        if (object) {
            put(b, item->name);
            buf_add_str(b, ": ");
        }
        format(b, item, depth + 1);
        if (item->next != NULL)
            buf_add_u8(b, ',');
    }
    if (v->first != NULL)
        indent(b, depth);
    buf_add_str(b, object ? "}" : "]");
}

static void print(const struct buf *b)
{
    if (buf_status(b) != ST_OK)
        (void)fprintf(stderr, "out of memory\n"); /* nowhere better to say it */
    else if (fwrite(b->data, 1, b->len, stdout) != b->len)
        (void)fprintf(stderr, "standard output cannot be written\n"); /* likewise */
}

void cli_print_json(const struct text_value *v)
{
    CLEANUP(buf_done) struct buf b = {0};
    format(&b, v, 0);
    buf_add_u8(&b, '\n');
    print(&b);
}

static void cell(struct buf *b, const struct text_value *v)
{
    struct text_writer w = {.out = b};
    if (v->kind == TEXT_STRING)
        buf_add(b, v->text);
    else if (v->kind == TEXT_NULL)
        buf_add_str(b, "n/a");
    else
        text_put_value(&w, v);
}

void cli_print_value(const struct text_value *v)
{
    CLEANUP(buf_done) struct buf b = {0};
    cell(&b, v);
    buf_add_u8(&b, '\n');
    print(&b);
}

void cli_print_table(const struct text_value *object)
{
    CLEANUP(buf_done) struct buf b = {0};
    size_t width = sizeof "Key" - 1;
    TEXT_FOR (item, object)
        width = MAX(width, item->name.len);
    width += 4;
    buf_add_format(&b, "%-*s%s\n%-*s%s\n", (int)width, "Key", "Value", (int)width, "---", "-----");
    TEXT_FOR (item, object) {
        buf_add(&b, item->name);
        for (size_t n = item->name.len; n < width; n++)
            buf_add_u8(&b, ' ');
        cell(&b, item);
        buf_add_u8(&b, '\n');
    }
    print(&b);
}

void cli_print_errors(struct cli *cli, const char *method, const char *path,
                      const struct cli_reply *reply)
{
    const struct text_value *body = NULL, *errors = NULL;
    (void)fprintf(stderr, "Error making API request.\n\nURL: %s %s%s\nCode: %d. Errors:\n\n",
                  method, cli->address, path, reply->status); /* standard error is all there is */
    if (text_json_parse(&cli->arena, reply->body, &body, NULL) == ST_OK)
        errors = text_get(body, "errors");
    if (errors == NULL || errors->kind != TEXT_LIST)
        return;
    TEXT_FOR (item, errors)
        if (item->kind == TEXT_STRING)
            (void)fprintf(stderr, "* %.*s\n", (int)item->text.len,
                          (const char *)item->text.data); /* as above */
}
