/* Namespaces of requests. The order in which a request names its namespace: the field Namespace of
 * its body, the parameter `ns`, the header, the namespace of its token, the root, whose name is
 * "default". Source: spec 3, A7. */
#ifndef HOLDFAST_FRONT_REGISTRY_REGISTRY_NAMESPACE_H
#define HOLDFAST_FRONT_REGISTRY_REGISTRY_NAMESPACE_H

#include "router/request/req.h"

/* The query or the header names a namespace that does not exist: let the request run to a reply
 * that says so, after the sender's right is checked. A list is empty; "*" as the namespace of a
 * list means every namespace. A write whose body names another namespace runs there. Inside
 * src/front/registry. ST_NOMEM. */
NODISCARD enum status registry_namespace_serve(struct req *req);

/* For the handler of a write: set req->ns to the namespace that the field Namespace of the body
 * names. NULL or "": the body names none, and req->ns stays. ST_REFUSED with the request's error:
 * there is no such namespace. */
NODISCARD enum status registry_namespace_use(struct req *req, const char *name);

#endif
