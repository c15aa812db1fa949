/* Requests in a namespace that there is not. Inside src/front/registry. */
#ifndef HOLDFAST_FRONT_REGISTRY_REGISTRY_NAMESPACE_H
#define HOLDFAST_FRONT_REGISTRY_REGISTRY_NAMESPACE_H

#include "router/request/req.h"

/* Let the request run to a reply that says so: the sender's right is checked first. A list is
 * empty; "*" as the namespace of a list means every namespace. ST_NOMEM. */
NODISCARD enum status registry_namespace_serve(struct req *req);

#endif
