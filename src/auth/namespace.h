/* Namespaces: what a request's paths are relative to. state/ns_key.h has the keys. */
#ifndef HOLDFAST_AUTH_NAMESPACE_H
#define HOLDFAST_AUTH_NAMESPACE_H

#include "base/bytes.h"
#include "base/status.h"

/* The id of the namespace a header names; slashes around the name and an empty header are fine.
 * ST_NOT_FOUND. The id is static. */
NODISCARD enum status auth_namespace_find(struct bytes header, const char **ret_id);

#endif
