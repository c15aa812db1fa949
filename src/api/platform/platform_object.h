/* Stored resources, of every kind in one form.
 *
 *   s/platform/object/ID              the record
 *   s/platform/in/PARENT/TYPE/ID      the resources of a type below another one
 *   s/platform/name/PARENT/TYPE/NAME  the id of the resource with a unique name there
 *   s/platform/ended/ID               a resource that was deleted, whose own are still stored
 *
 * The record has the attributes and links as JSON: which there are, the table of the kind says
 * (platform_kind.h), and the record need not change when a kind gets another attribute.
 *
 * 1. The record, its place below the parent and its name are written in one transaction, so of two
 *    writers who take one name at once, one is refused.
 * 2. A deletion is one transaction, however much the resource has below it. The duty
 *    platform_sweep deletes the resources below, a little at a time; until then no request reaches
 *    them, because their parent is missing.
 * 3. An id that a client sends is looked at before it becomes a part of a key. */
#ifndef HOLDFAST_API_PLATFORM_PLATFORM_OBJECT_H
#define HOLDFAST_API_PLATFORM_PLATFORM_OBJECT_H

#include "router/request/req.h"

#define PLATFORM_ROOT "site" /* the parent of organizations, users and settings */

enum {
    PLATFORM_FEATURE = 5,      /* feature level of the stored forms of the platform */
    PLATFORM_RUNS_FEATURE = 6, /* and of those of runs, workers and the outbox */
    PLATFORM_ID_MAX = 100,
    PLATFORM_NAME_MAX = 256,
};

/* Texts are never NULL; those of a loaded resource lie in the arena. */
struct platform_object {
    const char *id, *type, *parent;
    const char *name; /* unique among the resources of this type below the parent; "": none */
    int64_t created_ms, updated_ms;
    struct text_value *attrs, *links; /* objects, whose members may be replaced */
};

/* Find a resource. ST_NOT_FOUND: there is none of this id, or it has another type. `type` NULL: of
 * any type. Else as state_get. */
NODISCARD enum status platform_object_load(struct state_txn *txn, const char *type, const char *id,
                                           struct platform_object *ret_object);
/* Find a resource by its name. As platform_object_load. */
NODISCARD enum status platform_object_named(struct state_txn *txn, const char *parent,
                                            const char *type, const char *name,
                                            struct platform_object *ret_object);
/* Make a new resource in memory, with the prefix of ids and random characters behind it. ST_NOMEM.
 */
NODISCARD enum status platform_object_new(struct req *req, const char *type, const char *prefix,
                                          struct platform_object *ret_object);
/* The same, for a transaction without a request. */
NODISCARD enum status platform_object_make(struct state_txn *txn, const char *type,
                                           const char *prefix, int64_t now_ms,
                                           struct platform_object *ret_object);
/* Stage a new resource. ST_EXISTS: its name is taken. Else as state_put. */
NODISCARD enum status platform_object_add(struct state_txn *txn,
                                          const struct platform_object *object);
/* Stage a changed resource. `before` has the name before. ST_EXISTS: the name is taken. */
NODISCARD enum status platform_object_put(struct state_txn *txn, const char *before,
                                          const struct platform_object *object);
/* Stage the deletion of a resource; what is below it is deleted later. As state_put. */
NODISCARD enum status platform_object_delete(struct state_txn *txn,
                                             const struct platform_object *object);

/* The resources of a type below a parent. */
struct platform_objects {
    struct platform_object *items; /* in the arena */
    size_t n;
};
/* Load all of them, in the order of their ids. Else as state_scan. */
NODISCARD enum status platform_object_children(struct state_txn *txn, const char *parent,
                                               const char *type,
                                               struct platform_objects *ret_objects);
/* How many there are; the transaction depends on the number. As state_scan. */
NODISCARD enum status platform_object_count(struct state_txn *txn, const char *parent,
                                            const char *type, size_t *ret_n);

/* Whether a text may be an id or a unique name, as a part of a key. */
bool platform_is_id(struct bytes text);

/* Values of attributes and links. A missing member, or one of another kind, is "" or false or 0. */
const char *platform_text(const struct text_value *object, const char *name);
bool platform_flag(const struct text_value *object, const char *name);
int64_t platform_number(const struct text_value *object, const char *name);
/* Whether the list `name` has the text. */
bool platform_has(const struct text_value *object, const char *name, const char *text);

/* Replace or add a member. Texts are borrowed. ST_NOMEM. */
NODISCARD enum status platform_set(struct arena *arena, struct text_value *object, const char *name,
                                   const struct text_value *value);
NODISCARD enum status platform_set_text(struct arena *arena, struct text_value *object,
                                        const char *name, const char *text);
NODISCARD enum status platform_set_flag(struct arena *arena, struct text_value *object,
                                        const char *name, bool truth);
NODISCARD enum status platform_set_number(struct arena *arena, struct text_value *object,
                                          const char *name, int64_t n);
NODISCARD enum status platform_set_null(struct arena *arena, struct text_value *object,
                                        const char *name);
/* Add a text to the list `name`, unless it is there; remove it. ST_NOMEM. */
NODISCARD enum status platform_list_add(struct arena *arena, struct text_value *object,
                                        const char *name, const char *text);
NODISCARD enum status platform_list_remove(struct arena *arena, struct text_value *object,
                                           const char *name, const char *text);

#endif
