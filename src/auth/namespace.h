/* Namespaces: what a request's paths are relative to, and the first part of every stored key, so
 * that a namespace can be dropped with one prefix.
 *
 *   s/ns/ID/mount/PATH/      where an engine is mounted
 *   s/ns/ID/data/UUID/…      what a mount stores
 *   s/ns/ID/token/ID         a token; token.h has the rest of what belongs to tokens
 *   s/ns/ID/cubby/ID/…       what a token keeps for itself; gone with it
 *   s/ns/ID/accessor/TEXT    which token an accessor names
 *   s/ns/ID/lease/LEASE      what ends by itself; lease.h, with unlease/
 *   s/ns/ID/config/NAME      a setting of the cluster
 *   s/ns/ID/policy/NAME      a policy; policy.h, with policyend/
 *
 * Only the root namespace exists; its id is "root". */
#ifndef HOLDFAST_AUTH_NAMESPACE_H
#define HOLDFAST_AUTH_NAMESPACE_H

#include "base/arena.h"
#include "text/time.h"

#define AUTH_NS_ROOT "root"

/* The id of the namespace a header names; slashes around it and an empty header are fine.
 * ST_NOT_FOUND. The id is static. */
NODISCARD enum status auth_namespace_find(struct bytes header, const char **ret_id);

/* The key "s/ns/NS/KIND/FIRST" and, unless NULL, "/SECOND"; zero-terminated, in the arena. `kind`
 * is one of those above. ST_NOMEM. */
NODISCARD enum status auth_key(struct arena *arena, const char *ns, const char *kind,
                               struct bytes first, const char *second, struct bytes *ret_key);
/* The same with a time in ms as FIRST, as hex digits: keys of a kind stand in its order. */
enum { AUTH_TIME_DIGITS = 12 };
static_assert(TEXT_EXPIRY_END == INT64_C(1) << 4 * AUTH_TIME_DIGITS, "every expiry has a key");
NODISCARD enum status auth_time_key(struct arena *arena, const char *ns, const char *kind,
                                    int64_t time_ms, const char *second, struct bytes *ret_key);
bool auth_key_is_in(struct bytes key, const char *ns); /* such a key, of that namespace */

#endif
