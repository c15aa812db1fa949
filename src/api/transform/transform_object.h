/* The five kinds of objects that a mount stores, each a JSON document under its name; names; and
 * the index of who uses an object, so that a deletion finds a user without a walk.
 *
 *   role/NAME, transformation/NAME, template/NAME, alphabet/NAME, stores/NAME   documents
 *   key/NAME              the key and tweak of a transformation (transform_key.h)
 *   used/KIND/NAME/USER   USER names the object; no value */
#ifndef HOLDFAST_API_TRANSFORM_TRANSFORM_OBJECT_H
#define HOLDFAST_API_TRANSFORM_TRANSFORM_OBJECT_H

#include "router/request/req.h"

enum { TRANSFORM_NAME_MAX = 128, TRANSFORM_LIST_MAX = 1000, TRANSFORM_FORMATS_MAX = 64 };

enum transform_kind {
    TRANSFORM_ROLE,
    TRANSFORM_TRANSFORMATION,
    TRANSFORM_TEMPLATE,
    TRANSFORM_ALPHABET,
    TRANSFORM_STORE,
};

/* Whether a text may name an object: 1 to 128 letters, digits, '_', '-', '.' and '+'. */
bool transform_is_name(struct bytes name);
/* Whether a name begins with "builtin/". */
bool transform_is_builtin(const char *name);
/* The name in the path of a request that writes or deletes. ST_INVALID with the request's error. */
NODISCARD enum status transform_own_name(struct req *req, const char **ret_name);
/* Check a reference in a field: a name, or one of the built-in ones. ST_INVALID with the error. */
NODISCARD enum status transform_check_reference(struct req *req, const char *field,
                                                const char *name);
/* Whether `text` matches a pattern in which each '*' takes any run of characters. */
bool transform_glob(const char *glob, const char *text);

/* The key of something below the mount: "KIND/NAME". ST_NOMEM. */
NODISCARD enum status transform_key_of(struct req *req, const char *folder, const char *name,
                                       struct bytes *ret_key);
/* ST_OK or ST_NOT_FOUND, by the name in the path; else as state_exists. */
NODISCARD enum status transform_exists(struct req *req, enum transform_kind kind);
/* Decode the document. ST_NOT_FOUND, ST_CORRUPT; else as state_get. */
NODISCARD enum status transform_load(struct req *req, enum transform_kind kind, const char *name,
                                     const struct schema *schema, void *ret_struct);
NODISCARD enum status transform_save(struct req *req, enum transform_kind kind, const char *name,
                                     const struct schema *schema, const void *from);
NODISCARD enum status transform_delete(struct req *req, enum transform_kind kind, const char *name);
/* Reply with the names of a kind and `builtins`, sorted, that match the parameter `filter`. */
NODISCARD enum status transform_list(struct req *req, enum transform_kind kind,
                                     const char *const *builtins, size_t n);
extern const struct schema transform_list_schema;

/* `user`, of the kind that names `kind`, names these objects instead of those. */
NODISCARD enum status transform_use(struct req *req, enum transform_kind kind, const char *user,
                                    const struct field_strings *before,
                                    const struct field_strings *after);
/* ST_INVALID with an error that names a user of the object. */
NODISCARD enum status transform_check_unused(struct req *req, enum transform_kind kind,
                                             const char *name);

#endif
