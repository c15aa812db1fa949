/* Output: tables for people, JSON for programs, messages on standard error. Text of the server is
 * shown on a terminal without control characters; line ends and tabs stay. */
#include "cli/client.h"
#include "text/duration.h"

#include <stdarg.h>
#include <unistd.h>

static void say(const char *format, va_list args)
{
    (void)vfprintf(stderr, format, args); /* standard error is the last place to say anything */
}

void cli_say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
}

void cli_complain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    cli_say("Error: ");
    say(format, args);
    cli_say("\n");
    va_end(args);
}

int cli_usage_error(const struct cli *cli, const char *why)
{
    const struct cli_command *c = cli->command;
    cli_say("Error: %s\nusage: holdfast %s%s%s%s\n", why, c->name,
            c->n_flags != 0 ? " [FLAG]…" : "", c->args[0] != '\0' ? " " : "", c->args);
    return CLI_LOCAL_ERROR;
}

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

static void format_json(struct buf *b, const struct text_value *v, unsigned depth)
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
        format_json(b, item, depth + 1);
        if (item->next != NULL)
            buf_add_u8(b, ',');
    }
    if (v->first != NULL)
        indent(b, depth);
    buf_add_str(b, object ? "}" : "]");
}

static void write_out(FILE *to, struct bytes text)
{
    if (text.len != 0 && fwrite(text.data, 1, text.len, to) != text.len && to == stdout)
        cli_complain("standard output cannot be written");
}

void cli_put(FILE *to, struct bytes text)
{
    size_t from = 0;
    bool terminal = isatty(fileno(to)) == 1;
    for (size_t i = 0; terminal && i < text.len; i++) {
        uint8_t c = text.data[i];
        if ((c >= ' ' && c != 0x7F) || c == '\n' || c == '\t')
            continue;
        write_out(to, bytes_of(text.data + from, i - from));
        (void)fprintf(to, "\\x%02x", c); /* write_out reports a failure of the stream */
        from = i + 1;
    }
    ASSERT(from <= text.len);
    write_out(to, bytes_from(text, from));
}

static void print(const struct buf *b)
{
    if (buf_status(b) != ST_OK)
        cli_complain("%s", status_text(ST_NOMEM));
    else
        cli_put(stdout, buf_bytes(b));
}

void cli_print_json(const struct text_value *v)
{
    CLEANUP(buf_done) struct buf b = {0};
    format_json(&b, v, 0);
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

/* Whether a value needs rows of its own: an object, or a list of more than plain values. */
static bool is_nested(const struct text_value *v)
{
    if (v->kind == TEXT_OBJECT)
        return v->first != NULL;
    if (v->kind != TEXT_LIST)
        return false;
    TEXT_FOR (item, v)
        if (item->kind == TEXT_OBJECT || item->kind == TEXT_LIST)
            return true;
    return false;
}

/* Add a value on one line: "a, b" for a list, "x=1, y=2" for an object of plain values. */
static void line_cell(struct buf *b, const struct text_value *v)
{
    bool object = v->kind == TEXT_OBJECT;
    if ((v->kind != TEXT_LIST && !object) || v->first == NULL) {
        cell(b, v);
        return;
    }
    TEXT_FOR (item, v) {
        if (object)
            buf_add_format(b, "%.*s=", (int)item->name.len, (const char *)item->name.data);
        cell(b, item);
        if (item->next != NULL)
            buf_add_str(b, ", ");
    }
}

void cli_print_value(const struct text_value *v)
{
    CLEANUP(buf_done) struct buf b = {0};
    cell(&b, v);
    buf_add_u8(&b, '\n');
    print(&b);
}

void cli_print_raw(const struct cli *cli, const struct text_value *v)
{
    CLEANUP(buf_done) struct buf b = {0};
    if (cli->json) {
        cli_print_json(v);
        return;
    }
    cell(&b, v);
    if (isatty(STDOUT_FILENO) == 1)
        buf_add_u8(&b, '\n');
    print(&b);
}

void cli_print_title(const char *title)
{
    printf("====== %s ======\n", title);
}

static void pad(struct buf *b, size_t have, size_t width)
{
    for (; have < width; have++)
        buf_add_u8(b, ' ');
}

/* A table. All rows are put twice: first to measure the column, then to write. */
struct table {
    struct buf *out; /* NULL: only measure the column */
    size_t width;    /* width of the first column */
};

/* Put a row, indented by `depth` steps, with a dash in front of the name if the row begins an item
 * of a list. `value` NULL: the value's own rows follow. */
static void put_row(struct table *t, unsigned depth, bool dash, struct bytes name,
                    const struct text_value *value)
{
    size_t used = 2 * (size_t)depth + name.len;
    ASSERT(!dash || depth > 0);
    if (t->out == NULL) {
        t->width = MAX(t->width, used);
        return;
    }
    pad(t->out, 0, 2 * (size_t)depth - (dash ? 2 : 0));
    buf_add_str(t->out, dash ? "- " : "");
    buf_add(t->out, name);
    if (value != NULL) {
        pad(t->out, used, t->width);
        line_cell(t->out, value);
    }
    buf_add_u8(t->out, '\n');
}

/* Put the members of an object or the items of a list. The JSON parser bounds the recursion. */
static void put_rows(struct table *t, const struct text_value *v, unsigned depth, bool dash)
{
    ASSERT(v->kind == TEXT_LIST || v->kind == TEXT_OBJECT || v->first == NULL);
    TEXT_FOR (item, v) {
        bool nested = is_nested(item);
        if (v->kind == TEXT_LIST && item->kind == TEXT_OBJECT && nested) {
            put_rows(t, item, depth, true);
            continue;
        }
        put_row(t, depth, dash || v->kind == TEXT_LIST, item->name, nested ? NULL : item);
        dash = false;
        if (nested)
            put_rows(t, item, depth + 1, false);
    }
}

void cli_print_table(const struct text_value *object)
{
    CLEANUP(buf_done) struct buf b = {0};
    struct table t = {.width = sizeof "Key" - 1};
    put_rows(&t, object, 0, false);
    t.width += 4;
    t.out = &b;
    buf_add_format(&b, "%-*s%s\n%-*s%s\n", (int)t.width, "Key", "Value", (int)t.width, "---",
                   "-----");
    put_rows(&t, object, 0, false);
    print(&b);
}

void cli_print_keys(const struct cli *cli, const struct text_value *keys)
{
    CLEANUP(buf_done) struct buf b = {0};
    if (cli->json) {
        cli_print_json(keys);
        return;
    }
    buf_add_str(&b, "Keys\n----\n");
    TEXT_FOR (key, keys) {
        cell(&b, key);
        buf_add_u8(&b, '\n');
    }
    print(&b);
}

enum { GRID_COLUMNS_MAX = 16 };

static size_t cell_width(const struct text_value *v)
{
    CLEANUP(buf_done) struct buf b = {0};
    line_cell(&b, v);
    return b.len;
}

static void grid_titles(struct buf *b, const struct text_value *row, const size_t *widths)
{
    size_t i = 0;
    TEXT_FOR (item, row) {
        buf_add(b, item->name);
        if (item->next != NULL)
            pad(b, item->name.len, widths[i++]);
    }
    buf_add_u8(b, '\n');
    i = 0;
    TEXT_FOR (item, row) {
        for (size_t n = 0; n < item->name.len; n++)
            buf_add_u8(b, '-');
        if (item->next != NULL)
            pad(b, item->name.len, widths[i++]);
    }
    buf_add_u8(b, '\n');
}

void cli_print_grid(const struct text_value *rows)
{
    CLEANUP(buf_done) struct buf b = {0};
    size_t widths[GRID_COLUMNS_MAX] = {0};
    if (rows->first == NULL)
        return;
    ASSERT(rows->first->n <= GRID_COLUMNS_MAX);
    TEXT_FOR (row, rows) {
        size_t i = 0;
        ASSERT(row->n == rows->first->n);
        TEXT_FOR (item, row) {
            widths[i] = MAX(widths[i], MAX(item->name.len, cell_width(item)) + 4);
            i++;
        }
    }
    grid_titles(&b, rows->first, widths);
    TEXT_FOR (row, rows) {
        size_t i = 0;
        TEXT_FOR (item, row) {
            size_t before = b.len;
            line_cell(&b, item);
            if (item->next != NULL)
                pad(&b, b.len - before, widths[i++]);
        }
        buf_add_u8(&b, '\n');
    }
    print(&b);
}

void cli_add(struct cli *cli, struct text_value *to, const char *name, const struct text_value *v)
{
    if (v == NULL || to == NULL)
        return;
    struct text_value *copy = text_value_new(&cli->arena, to, v->kind, bytes_str(name));
    if (copy == NULL)
        return;
    copy->text = v->text;
    copy->truth = v->truth;
    copy->first = v->first;
    copy->last = v->last;
    copy->n = v->n;
}

void cli_add_text(struct cli *cli, struct text_value *to, const char *name, const char *text)
{
    const struct text_value v = {.kind = TEXT_STRING, .text = bytes_str(text)};
    cli_add(cli, to, name, &v);
}

struct text_value *cli_object(struct cli *cli, struct text_value *list)
{
    return text_value_new(&cli->arena, list, TEXT_OBJECT, (struct bytes){0});
}

static bool is_set(const struct text_value *v)
{
    return v != NULL && v->kind != TEXT_NULL && !(v->kind == TEXT_STRING && v->text.len == 0);
}

/* Add a number of seconds as a duration, "1h30m0s"; 0 as "∞", other values unchanged. */
static void add_seconds(struct cli *cli, struct text_value *to, const char *name,
                        const struct text_value *v)
{
    CLEANUP(buf_done) struct buf b = {0};
    int64_t s;
    if (v == NULL || text_to_int(v, &s) != ST_OK || s < 0 || s > INT64_MAX / 1000000000) {
        cli_add(cli, to, name, v);
        return;
    }
    text_duration_put(&b, s * 1000000000);
    char *text = buf_status(&b) == ST_OK ? arena_str(&cli->arena, buf_bytes(&b)) : NULL;
    if (text != NULL)
        cli_add_text(cli, to, name, s == 0 ? "∞" : text);
}

static void add_auth(struct cli *cli, struct text_value *to, const struct text_value *auth)
{
    cli_add(cli, to, "token", text_get(auth, "client_token"));
    cli_add(cli, to, "token_accessor", text_get(auth, "accessor"));
    add_seconds(cli, to, "token_duration", text_get(auth, "lease_duration"));
    cli_add(cli, to, "token_renewable", text_get(auth, "renewable"));
    cli_add(cli, to, "token_policies", text_get(auth, "token_policies"));
    cli_add(cli, to, "identity_policies", text_get(auth, "identity_policies"));
    cli_add(cli, to, "policies", text_get(auth, "policies"));
    const struct text_value *meta = text_get(auth, "metadata");
    if (meta == NULL || meta->kind != TEXT_OBJECT)
        return;
    TEXT_FOR (item, meta) {
        char *name = arena_format(&cli->arena, "token_meta_%.*s", (int)item->name.len,
                                  (const char *)item->name.data);
        if (name != NULL)
            cli_add(cli, to, name, item);
    }
}

static void add_wrap(struct cli *cli, struct text_value *to, const struct text_value *wrap)
{
    cli_add(cli, to, "wrapping_token", text_get(wrap, "token"));
    cli_add(cli, to, "wrapping_accessor", text_get(wrap, "accessor"));
    add_seconds(cli, to, "wrapping_token_ttl", text_get(wrap, "ttl"));
    cli_add(cli, to, "wrapping_token_creation_time", text_get(wrap, "creation_time"));
    cli_add(cli, to, "wrapping_token_creation_path", text_get(wrap, "creation_path"));
    if (is_set(text_get(wrap, "wrapped_accessor")))
        cli_add(cli, to, "wrapped_accessor", text_get(wrap, "wrapped_accessor"));
}

/* Flatten a reply, in the order of upstream's tables. */
static const struct text_value *flatten(struct cli *cli, const struct text_value *body)
{
    const struct text_value *data = text_get(body, "data"), *auth = text_get(body, "auth");
    const struct text_value *lease = text_get(body, "lease_duration");
    struct text_value *rows = cli_object(cli, NULL);
    int64_t lease_s = 0;
    if (is_set(text_get(body, "wrap_info"))) {
        add_wrap(cli, rows, text_get(body, "wrap_info"));
        return rows;
    }
    if (is_set(auth))
        add_auth(cli, rows, auth);
    if (is_set(text_get(body, "lease_id"))) {
        cli_add(cli, rows, "lease_id", text_get(body, "lease_id"));
        add_seconds(cli, rows, "lease_duration", lease);
        cli_add(cli, rows, "lease_renewable", text_get(body, "renewable"));
    } else if (lease != NULL && text_to_int(lease, &lease_s) == ST_OK && lease_s > 0) {
        add_seconds(cli, rows, "refresh_interval", lease);
    }
    if (data == NULL && !is_set(auth))
        data = body; /* the reply has no envelope */
    if (rows != NULL && data != NULL && data->kind == TEXT_OBJECT)
        TEXT_FOR (item, data) {
            struct text_value *copy = text_value_new(&cli->arena, rows, item->kind, item->name);
            if (copy == NULL)
                return NULL;
            struct text_value *next = copy->next;
            *copy = *item;
            copy->next = next;
        }
    return rows;
}

void cli_print_warnings(const struct text_value *body)
{
    const struct text_value *warnings = text_get(body, "warnings");
    if (warnings == NULL || warnings->kind != TEXT_LIST)
        return;
    TEXT_FOR (item, warnings) {
        cli_say("WARNING! ");
        cli_put(stderr, item->text);
        cli_say("\n");
    }
}

int cli_show(struct cli *cli, const struct cli_reply *reply)
{
    const struct text_value *body = cli_parse_reply(cli, reply);
    const struct text_value *rows = body != NULL ? flatten(cli, body) : NULL;
    if (rows == NULL)
        return CLI_REMOTE_ERROR;
    if (cli->field == NULL && cli->json) {
        cli_print_json(body);
        return CLI_OK;
    }
    cli_print_warnings(body);
    if (cli->field == NULL) {
        if (rows->first != NULL)
            cli_print_table(rows);
        return CLI_OK;
    }
    if (text_get(rows, cli->field) != NULL || text_get(body, cli->field) == NULL)
        return cli_show_value(cli, rows);
    return cli_show_value(cli, body);
}

int cli_show_value(struct cli *cli, const struct text_value *v)
{
    if (cli->field != NULL) {
        const struct text_value *one = text_get(v, cli->field);
        if (one == NULL || one->kind == TEXT_NULL) {
            cli_say("Field \"%s\" not present in secret\n", cli->field);
            return CLI_LOCAL_ERROR;
        }
        cli_print_raw(cli, one);
    } else if (cli->json) {
        cli_print_json(v);
    } else {
        cli_print_table(v);
    }
    return CLI_OK;
}
