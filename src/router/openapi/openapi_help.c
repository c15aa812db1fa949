#include "router/openapi/openapi_dialect.h"
#include "router/openapi/openapi_internal.h"
#include "router/request/dialect.h"

static const char *caps_text(const struct route *route)
{
    if (route_is_open(route))
        return "Needs no token.";
    if (route_takes_any_token(route))
        return "Any valid token will do.";
    if ((route->flags & ROUTE_SUDO) != 0)
        return "Needs sudo.";
    return NULL;
}

static void put_needs(const struct docs_dialect *docs, const struct route *route, struct buf *out)
{
    const char *text = caps_text(route);
    ASSERT(docs != NULL);
    const char *permission = docs->permission != NULL ? docs->permission(route) : NULL;
    if (permission != NULL)
        buf_add_format(out, "\nNeeds the permission `%s`.\n", permission);
    else if (text != NULL)
        buf_add_format(out, "\n%s\n", text);
}

static void put_secondary(const struct route *route, struct buf *out)
{
    if (route->who == WHO_DR_TOKEN)
        buf_add_str(out, "\nA DR secondary serves this to a DR operation token.\n");
    else if (route_is_of_secondary(route))
        buf_add_str(out, "\nA DR secondary serves this too.\n");
}

/* Write a text as a cell; a '|' in the text must not end the cell. */
static void put_cell(struct buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '|')
            buf_add_u8(out, '\\');
        buf_add_u8(out, (uint8_t)*text);
    }
}

static void put_fields(const struct schema *schema, struct buf *out)
{
    buf_add_str(out, "\n| field | type | default | |\n|---|---|---|---|\n");
    for (size_t i = 0; i < schema->n; i++) {
        const struct field *f = &schema->fields[i];
        buf_add_format(out, "| `%s` | %s | %s | ", f->name, field_kind_json(f->kind),
                       f->required         ? "required"
                       : f->preset != NULL ? f->preset
                                           : "");
        put_cell(out, f->help != NULL ? f->help : "");
        buf_add_str(out, " |\n");
    }
}

static void put_operation(const struct docs_dialect *docs, const struct docs_op *op,
                          struct buf *out)
{
    const struct route *route = op->route;
    ASSERT(route != NULL);
    buf_add_format(out, "\n## %s\n\n%s\n", http_method_name(route->method),
                   route->help != NULL ? route->help : "");
    put_needs(docs, route, out);
    put_secondary(route, out);
    if (route->body != NULL && route->body->n != 0)
        put_fields(route->body, out);
}

/* Whether an operation belongs to the queried path itself. */
static bool is_here(const struct docs_op *op)
{
    return strcmp(op->path, "/") == 0;
}

static void put_text(const struct docs *d, const char *path, struct buf *out)
{
    bool below = false;
    ASSERT(d->n != 0 && d->dialect->docs != NULL);
    buf_add_format(out, "# %s\n", path);
    for (size_t i = 0; i < d->n; i++)
        if (is_here(&d->ops[i]))
            put_operation(d->dialect->docs, &d->ops[i], out);
    for (size_t i = 0; i < d->n; i++) {
        const struct docs_op *op = &d->ops[i];
        if (is_here(op))
            continue;
        if (!below)
            buf_add_str(out, "\n## Below\n\n");
        below = true;
        buf_add_format(out, "- `%s` %s: %s\n", op->path, http_method_name(op->route->method),
                       op->route->help != NULL ? op->route->help : "");
    }
}

/* Write the paths where the folder above and the whole document are described. */
static void put_see_also(const struct docs *d, const char *path, struct text_writer *w)
{
    const char *slash = strrchr(path, '/');
    text_open_list(w);
    if (slash != NULL) {
        const char *above = arena_format(d->arena, "%.*s?help=1", (int)(slash - path), path);
        if (above != NULL) /* the reply goes without the hint rather than fail */
            text_put_str(w, above);
    }
    const char *whole =
        d->dialect->mounts
            ? "sys/internal/specs/openapi"
            : arena_format(d->arena, "sys/internal/specs/openapi?api=%s", d->dialect->name);
    if (whole != NULL)
        text_put_str(w, whole);
    text_close(w);
}

enum status openapi_write_help(struct docs *d, const char *path)
{
    CLEANUP(buf_done) struct buf text = {0};
    ASSERT(d->n > 0);
    put_text(d, path, &text);
    TRY(buf_status(&text));
    struct text_writer w = req_reply_begin(d->req);
    text_open_object(&w);
    text_key(&w, "help");
    text_put_bytes(&w, buf_bytes(&text));
    text_key(&w, "see_also");
    put_see_also(d, path, &w);
    text_key(&w, "openapi");
    openapi_write(d, &w);
    text_close(&w);
    ASSERT(w.depth == 0);
    return req_reply_end(d->req);
}
