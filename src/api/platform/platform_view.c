/* Documents that replies have (platform_doc.h). */
#include "api/platform/platform.h"
#include "api/platform/platform_doc.h"

#include <stdlib.h>

#define ROOT "/api/v2/"

/* Relationships */

static void put_identity(struct platform_view *view, const char *type, const char *id)
{
    text_open_object(view->w);
    text_member_str(view->w, "id", id);
    text_member_str(view->w, "type", type);
    text_close(view->w);
}

void platform_put_one(struct platform_view *view, const char *name, const char *type,
                      const char *id)
{
    text_key(view->w, name);
    text_open_object(view->w);
    text_key(view->w, "data");
    if (id[0] != '\0')
        put_identity(view, type, id);
    else
        text_put_null(view->w);
    text_close(view->w);
}

void platform_put_many(struct platform_view *view, const char *name)
{
    text_key(view->w, name);
    text_open_object(view->w);
    text_key(view->w, "data");
    text_open_list(view->w);
}

void platform_put_item(struct platform_view *view, const char *type, const char *id)
{
    put_identity(view, type, id);
}

void platform_put_many_end(struct platform_view *view)
{
    text_close(view->w);
    text_close(view->w);
}

/* Resources */

static void put_attribute(struct platform_view *view, const struct platform_attr *attr,
                          const struct text_value *attrs)
{
    const struct text_value *v = text_get(attrs, attr->name), *preset = NULL;
    bool secret = (attr->traits & PLATFORM_SECRET) != 0;
    if (v == NULL && !secret && attr->preset != NULL &&
        text_json_parse(view->req->arena, bytes_str(attr->preset), &preset, NULL) == ST_OK)
        v = preset; /* the attribute is younger than the record */
    for (unsigned i = 0; i < 2; i++) {
        const char *name = i == 0 ? attr->name : attr->alias;
        if (name == NULL || (i == 1 && secret))
            continue;
        text_key(view->w, name);
        if (secret)
            text_put_null(view->w);
        else
            text_put_value(view->w, v);
    }
}

static enum status put_shown(struct platform_view *view, const struct platform_resource *resource,
                             const struct platform_object *object)
{
    const struct platform_kind *kind = resource->kind;
    struct text_writer *w = view->w;
    text_open_object(w);
    text_member_str(w, "id", object->id);
    text_member_str(w, "type", kind->type);
    text_key(w, "attributes");
    text_open_object(w);
    for (size_t i = 0; i < kind->n && !resource->hides; i++)
        if ((kind->attrs[i].traits & PLATFORM_UNSAVED) == 0)
            put_attribute(view, &kind->attrs[i], object->attrs);
    if (resource->more != NULL)
        TRY(resource->more(view, object));
    text_close(w);
    if (resource->relations != NULL) {
        text_key(w, "relationships");
        text_open_object(w);
        TRY(resource->relations(view, object));
        text_close(w);
    }
    if (resource->path != NULL) {
        const char *self = arena_format(view->req->arena, ROOT "%s%s", resource->path, object->id);
        text_key(w, "links");
        text_open_object(w);
        text_member_str(w, "self", self);
        text_close(w);
    }
    text_close(w);
    return ST_OK;
}

/* Included resources */

enum status platform_view_add(struct platform_view *view, const struct platform_resource *resource,
                              const struct platform_object *object)
{
    for (size_t i = 0; i < view->n_included; i++)
        if (view->included[i].resource == resource &&
            strcmp(view->included[i].object.id, object->id) == 0)
            return ST_OK;
    if (view->n_included == PLATFORM_INCLUDED_MAX)
        return ST_OK;
    if (view->n_included == view->room_included) {
        size_t room = view->room_included != 0 ? 2 * view->room_included : 16;
        struct platform_included *more = arena_alloc(view->req->arena, room * sizeof *more);
        if (more == NULL)
            return ST_NOMEM;
        if (view->n_included != 0)
            memcpy(more, view->included, view->n_included * sizeof *more);
        view->included = more;
        view->room_included = room;
    }
    view->included[view->n_included++] = (struct platform_included){resource, *object};
    return ST_OK;
}

static enum status read_includes(struct platform_view *view,
                                 const struct platform_resource *resource)
{
    const char *at = platform_parameter(view->req, "include");
    while (*at != '\0') {
        size_t len = strcspn(at, ","), i = 0;
        while (i < resource->n_includes &&
               !bytes_eq(bytes_of(at, len), bytes_str(resource->includes[i].name)))
            i++;
        if (i == resource->n_includes || view->n_includes == PLATFORM_INCLUDES_MAX)
            return req_fail(view->req, ST_INVALID, "Invalid include parameter: %.*s",
                            (int)MIN(len, (size_t)64), at);
        view->includes[view->n_includes++] = resource->includes[i].name;
        at += len + (at[len] == ',');
    }
    return ST_OK;
}

static enum status add_includes(struct platform_view *view,
                                const struct platform_resource *resource,
                                const struct platform_object *object)
{
    for (size_t n = 0; n < view->n_includes; n++)
        for (size_t i = 0; i < resource->n_includes; i++)
            if (strcmp(view->includes[n], resource->includes[i].name) == 0)
                TRY(resource->includes[i].add(view, object));
    return ST_OK;
}

/* Included resources include nothing more: the list does not grow while it is written. */
static enum status put_included(struct platform_view *view)
{
    if (view->n_includes == 0)
        return ST_OK;
    text_key(view->w, "included");
    text_open_list(view->w);
    for (size_t i = 0; i < view->n_included; i++)
        TRY(put_shown(view, view->included[i].resource, &view->included[i].object));
    text_close(view->w);
    return ST_OK;
}

enum status platform_reply_one(struct req *req, const struct platform_who *who,
                               const struct platform_resource *resource,
                               const struct platform_object *object, int http)
{
    struct platform_view view = {.req = req, .who = who};
    TRY(read_includes(&view, resource));
    TRY(add_includes(&view, resource, object));
    struct text_writer w = req_reply_begin(req);
    view.w = &w;
    req->reply.http = http;
    text_open_object(&w);
    text_key(&w, "data");
    TRY(put_shown(&view, resource, object));
    TRY(put_included(&view));
    text_close(&w);
    return req_reply_end(req);
}

/* Lists */

static int by_name(const void *a, const void *b)
{
    const struct platform_object *one = a, *other = b;
    int order = strcmp(one->name, other->name);
    return order != 0 ? order : strcmp(one->id, other->id);
}

static int by_time(const void *a, const void *b)
{
    const struct platform_object *one = a, *other = b;
    if (one->created_ms != other->created_ms)
        return one->created_ms < other->created_ms ? 1 : -1;
    return strcmp(one->id, other->id);
}

void platform_sort_by_name(struct platform_objects *objects)
{
    if (objects->n != 0)
        qsort(objects->items, objects->n, sizeof *objects->items, by_name);
}

void platform_sort_by_time(struct platform_objects *objects)
{
    if (objects->n != 0)
        qsort(objects->items, objects->n, sizeof *objects->items, by_time);
}

struct page {
    int64_t number, size, pages, total;
};

static enum status read_page(struct req *req, size_t total, struct page *ret_page)
{
    struct page page = {.number = 1, .size = PLATFORM_PAGE_DEFAULT, .total = (int64_t)total};
    const char *number = platform_parameter(req, "page[number]");
    const char *size = platform_parameter(req, "page[size]");
    if (number[0] != '\0' && text_int_parse(bytes_str(number), &page.number) != ST_OK)
        return req_fail(req, ST_INVALID, "page[number]: a whole number is expected");
    if (size[0] != '\0' && text_int_parse(bytes_str(size), &page.size) != ST_OK)
        return req_fail(req, ST_INVALID, "page[size]: a whole number is expected");
    page.number = MAX(page.number, INT64_C(1));
    page.number = MIN(page.number, INT64_C(1) << 40);
    page.size = page.size < 1 ? PLATFORM_PAGE_DEFAULT : MIN(page.size, (int64_t)PLATFORM_PAGE_MAX);
    page.pages = MAX((page.total + page.size - 1) / page.size, INT64_C(1));
    *ret_page = page;
    return ST_OK;
}

static void add_url_text(struct buf *out, struct bytes text)
{
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        bool plain = ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (c >= '0' && c <= '9') ||
                     c == '-' || c == '_' || c == '.' || c == '/';
        if (plain)
            buf_add_u8(out, c);
        else
            buf_add_format(out, "%%%02X", c);
    }
}

/* The URL of this list with another page; number 0: null. */
static enum status put_page_link(struct platform_view *view, const char *name,
                                 const struct page *page, int64_t number)
{
    CLEANUP(buf_done) struct buf url = {0};
    const struct req *req = view->req;
    const char *base;
    text_key(view->w, name);
    if (number == 0) {
        text_put_null(view->w);
        return ST_OK;
    }
    TRY(platform_base_url(view->req, &base));
    buf_add_str(&url, base);
    buf_add_str(&url, ROOT);
    add_url_text(&url, req->path);
    buf_add_str(&url, "?");
    TEXT_FOR (v, req->query) {
        if (v->kind != TEXT_STRING || bytes_has_prefix(v->name, BYTES("page[")))
            continue;
        add_url_text(&url, v->name);
        buf_add_str(&url, "=");
        add_url_text(&url, v->text);
        buf_add_str(&url, "&");
    }
    buf_add_format(&url, "page%%5Bnumber%%5D=%lld&page%%5Bsize%%5D=%lld", (long long)number,
                   (long long)page->size);
    TRY(buf_status(&url));
    text_put_bytes(view->w, buf_bytes(&url));
    return ST_OK;
}

static void put_number_or_null(struct text_writer *w, const char *name, int64_t n)
{
    text_key(w, name);
    if (n != 0)
        text_put_int(w, n);
    else
        text_put_null(w);
}

static enum status put_page(struct platform_view *view, const struct page *page, bool totals)
{
    struct text_writer *w = view->w;
    int64_t prev = page->number > 1 ? MIN(page->number - 1, page->pages) : 0;
    int64_t next = page->number < page->pages ? page->number + 1 : 0;
    text_key(w, "links");
    text_open_object(w);
    TRY(put_page_link(view, "self", page, page->number));
    TRY(put_page_link(view, "first", page, 1));
    TRY(put_page_link(view, "prev", page, prev));
    TRY(put_page_link(view, "next", page, next));
    TRY(put_page_link(view, "last", page, page->pages));
    text_close(w);
    text_key(w, "meta");
    text_open_object(w);
    text_key(w, "pagination");
    text_open_object(w);
    text_member_int(w, "current-page", page->number);
    text_member_int(w, "page-size", page->size);
    put_number_or_null(w, "prev-page", prev);
    put_number_or_null(w, "next-page", next);
    if (totals) {
        text_member_int(w, "total-pages", page->pages);
        text_member_int(w, "total-count", page->total);
    }
    text_close(w);
    text_close(w);
    return ST_OK;
}

static enum status reply_objects(struct req *req, const struct platform_who *who,
                                 const struct platform_resource *resource,
                                 const struct platform_objects *objects, bool whole, bool totals)
{
    struct platform_view view = {.req = req, .who = who};
    struct page page;
    TRY(read_includes(&view, resource));
    TRY(read_page(req, objects->n, &page));
    bool asked = platform_parameter(req, "page[number]")[0] != '\0' ||
                 platform_parameter(req, "page[size]")[0] != '\0';
    bool all = whole && !asked;
    size_t first = all ? 0 : (size_t)MIN((page.number - 1) * page.size, page.total);
    size_t end = all ? objects->n : MIN(first + (size_t)page.size, objects->n);
    for (size_t i = first; i < end; i++)
        TRY(add_includes(&view, resource, &objects->items[i]));
    struct text_writer w = req_reply_begin(req);
    view.w = &w;
    text_open_object(&w);
    text_key(&w, "data");
    text_open_list(&w);
    for (size_t i = first; i < end; i++)
        TRY(put_shown(&view, resource, &objects->items[i]));
    text_close(&w);
    TRY(put_included(&view));
    if (!all)
        TRY(put_page(&view, &page, totals));
    text_close(&w);
    return req_reply_end(req);
}

enum status platform_reply_list(struct req *req, const struct platform_who *who,
                                const struct platform_resource *resource,
                                const struct platform_objects *objects, bool whole)
{
    return reply_objects(req, who, resource, objects, whole, true);
}

enum status platform_reply_pages(struct req *req, const struct platform_who *who,
                                 const struct platform_resource *resource,
                                 const struct platform_objects *objects)
{
    return reply_objects(req, who, resource, objects, false, false);
}

enum status platform_base_url(struct req *req, const char **ret_url)
{
    const char *configured = platform_config()->url;
    const char *url = configured;
    if (configured[0] == '\0')
        url = arena_format(req->arena, "https://%.*s", (int)MIN(req->authority.len, (size_t)300),
                           req->authority.len != 0 ? (const char *)req->authority.data : "");
    *ret_url = url;
    return url != NULL ? ST_OK : ST_NOMEM;
}
