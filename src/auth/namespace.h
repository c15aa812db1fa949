/* Namespaces: the paths of a request are relative to its namespace. state/ns_key.h has the keys. */
#ifndef HOLDFAST_AUTH_NAMESPACE_H
#define HOLDFAST_AUTH_NAMESPACE_H

#include "base/bytes.h"
#include "base/status.h"

/* The id of the namespace that a header names; the id is static. Slashes around the name are
 * ignored; an empty header names the root namespace. ST_NOT_FOUND. */
NODISCARD enum status auth_namespace_find(struct bytes header, const char **ret_id);

/* The name of the namespace with an id; "": the root namespace. The root alone exists: another id,
 * which a test makes, is its own name. */
const char *auth_namespace_name(const char *id);

#endif
