/* Objects that a mount stores as JSON, such as the roles of auth methods: a schema describes each.
 */
#ifndef HOLDFAST_ROUTER_REQ_OBJECT_H
#define HOLDFAST_ROUTER_REQ_OBJECT_H

#include "router/request/req.h"

/* Names of fields that older clients use, each with the present name. */
struct req_old_names {
    const char *const (*items)[2];
    size_t n;
};

/* The object at FOLDER/NAME of the mount. ST_NOT_FOUND; ST_CORRUPT; else as state_get. */
NODISCARD enum status req_object_load(struct req *req, const struct mount *mount, const char *path,
                                      const struct schema *schema, void *ret_struct);
/* ST_OK, ST_NOT_FOUND; else as state_exists. */
NODISCARD enum status req_object_exists(struct req *req, const char *path);
/* Stage the object. As state_put. */
NODISCARD enum status req_object_save(struct req *req, const char *path,
                                      const struct schema *schema, const void *from);
/* How an object of a request is read. */
struct req_object {
    const char *path; /* below the mount */
    const struct schema *schema;
    struct req_old_names old;
};
/* The stored object, changed by the fields of the request; without one the fields alone.
 * *ret_stored: there is one. ST_INVALID with the request's error. Else as state_get. */
NODISCARD enum status req_object_change(struct req *req, const struct req_object *object,
                                        void *ret_struct, bool *ret_stored);

#endif
