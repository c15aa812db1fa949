/* Documents: reading what a client sends, and writing replies, by the tables of the kinds. */
#ifndef HOLDFAST_API_PLATFORM_PLATFORM_DOC_H
#define HOLDFAST_API_PLATFORM_PLATFORM_DOC_H

#include "api/platform/platform_object.h"
#include "front/platform/platform_kind.h"

struct platform_resource;
struct platform_who;

enum {
    PLATFORM_PAGE_DEFAULT = 20,
    PLATFORM_PAGE_MAX = 100,
    PLATFORM_INCLUDED_MAX = 1000,
    PLATFORM_INCLUDES_MAX = 16,
};

/* The members of the document that a client sent; never NULL after platform_input_read. */
struct platform_input {
    const struct text_value *attributes, *relationships;
};
/* Read the document of a request. Its type may be missing or empty, or must be one of the kind.
 * `optional`: the body may be empty. ST_REFUSED with the request's error. */
NODISCARD enum status platform_input_read(struct req *req, const struct platform_kind *kind,
                                          bool optional, struct platform_input *ret_input);
/* Check the attributes and set them in `attrs`. `creates`: absent ones get their presets, and
 * required ones must be there. ST_REFUSED with the request's error; ST_NOMEM. */
NODISCARD enum status platform_input_apply(struct req *req, const struct platform_kind *kind,
                                           const struct platform_input *input, bool creates,
                                           struct text_value *attrs);
/* The data of a relationship, or the list that stands in its place; NULL: absent or null. */
const struct text_value *platform_input_related(const struct platform_input *input,
                                                const char *name);
/* The id of the one resource that a relationship names; "": absent. */
const char *platform_input_related_id(const struct platform_input *input, const char *name);
/* The id of an item of a list of resources; "": it has none. */
const char *platform_item_id(const struct text_value *item);

/* A reply under construction. */
struct platform_view {
    struct req *req;
    const struct platform_who *who;
    struct text_writer *w;
    const char *includes[PLATFORM_INCLUDES_MAX]; /* names that the client asked for */
    size_t n_includes;
    struct platform_included {
        const struct platform_resource *resource;
        struct platform_object object;
    } * included;
    size_t n_included, room_included;
};

struct platform_include {
    const char *name;
    /* Add the resources that the relationship names, with platform_view_add. */
    enum status (*add)(struct platform_view *view, const struct platform_object *object);
};

/* How resources of a kind are shown. */
struct platform_resource {
    const struct platform_kind *kind;
    const char *path; /* of links.self, before the id: "workspaces/"; NULL: no link */
    /* Write the attributes that are not stored, as members of the open object. NULL: none. */
    enum status (*more)(struct platform_view *view, const struct platform_object *object);
    /* Write the relationships, as members of the open object. NULL: none. */
    enum status (*relations)(struct platform_view *view, const struct platform_object *object);
    const struct platform_include *includes;
    size_t n_includes;
    bool hides; /* `more` writes every attribute itself */
};

/* Add a resource to `included`, once. ST_NOMEM. */
NODISCARD enum status platform_view_add(struct platform_view *view,
                                        const struct platform_resource *resource,
                                        const struct platform_object *object);
/* Write the relationship to one resource; id "": null. To several: open, items, close. */
void platform_put_one(struct platform_view *view, const char *name, const char *type,
                      const char *id);
void platform_put_many(struct platform_view *view, const char *name);
void platform_put_item(struct platform_view *view, const char *type, const char *id);
void platform_put_many_end(struct platform_view *view);

/* Reply with one resource. `http` 0: 200. */
NODISCARD enum status platform_reply_one(struct req *req, const struct platform_who *who,
                                         const struct platform_resource *resource,
                                         const struct platform_object *object, int http);
/* Reply with a page of resources, in their order. `whole`: without a parameter about pages all of
 * them, and no figures. */
NODISCARD enum status platform_reply_list(struct req *req, const struct platform_who *who,
                                          const struct platform_resource *resource,
                                          const struct platform_objects *objects, bool whole);
/* The same in pages whose number is not told: as upstream, for lists that may be very long. */
NODISCARD enum status platform_reply_pages(struct req *req, const struct platform_who *who,
                                           const struct platform_resource *resource,
                                           const struct platform_objects *objects);
/* Sort: by name, and the newest first. */
void platform_sort_by_name(struct platform_objects *objects);
void platform_sort_by_time(struct platform_objects *objects);

/* The URL of this server as the client knows it, "https://host:port". ST_NOMEM. */
NODISCARD enum status platform_base_url(struct req *req, const char **ret_url);
/* A parameter of the query; "": absent. */
const char *platform_parameter(const struct req *req, const char *name);
/* Fail with ST_REFUSED about an attribute. */
__attribute__((format(printf, 3, 4))) enum status
platform_refuse(struct req *req, const char *attribute, const char *format, ...);

#endif
