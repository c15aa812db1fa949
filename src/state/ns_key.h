/* Keys of a namespace. The namespace is the first part of a key, so that one prefix deletes
 * everything that a namespace holds.
 *
 *   s/ns/ID/mount/PATH/      where an engine is mounted
 *   s/ns/ID/data/UUID/…      what a mount stores
 *   s/ns/ID/token/ID         a token; auth/token.h has the other keys of tokens
 *   s/ns/ID/token-kind/…     tokens of other APIs than the secrets service; auth/token_store.h
 *   s/ns/ID/cubby/ID/…       what a token keeps for itself; deleted with the token
 *   s/ns/ID/accessor/TEXT    the token of an accessor that is not derived from its id
 *   s/ns/ID/lease/LEASE      the index of leases; lease/lease.h, with token-lease/ and
 *                            lease-skipped/
 *   s/ns/ID/config/NAME      a setting of the cluster
 *   s/ns/ID/policy/NAME      a policy; auth/policy.h. registry-policy/ is of auth/registry
 *   s/ns/ID/registry/…       the last bootstrap of the registry's tokens
 *   s/ns/ID/sched-…          the scheduler: api/scheduler/sched_record.h
 *
 * Two indexes are of all namespaces, so that background work finds what is due without a walk over
 * the namespaces: s/expire/ and s/unfinished/ (lease/expiry.h, with the keys of builds before).
 *
 * Only the root namespace exists. */
#ifndef HOLDFAST_STATE_NS_KEY_H
#define HOLDFAST_STATE_NS_KEY_H

#include "base/arena.h"
#include "text/time.h"

#define STATE_NS_ROOT "root"

/* The key "s/ns/NS/KIND/FIRST", with "/SECOND" at the end unless `second` is NULL. The key is
 * zero-terminated and lies in the arena. `kind` is a kind of the list at the head of this file.
 * ST_NOMEM. */
NODISCARD enum status state_ns_key(struct arena *arena, const char *ns, const char *kind,
                                   struct bytes first, const char *second, struct bytes *ret_key);

/* state_ns_key with a time in ms, as hex digits, for FIRST. So the keys of a kind are in the order
 * of their times. ST_NOMEM. */
enum { STATE_TIME_DIGITS = 12 };
static_assert(TEXT_EXPIRY_END == INT64_C(1) << 4 * STATE_TIME_DIGITS, "every expiry has a key");
NODISCARD enum status state_ns_time_key(struct arena *arena, const char *ns, const char *kind,
                                        int64_t time_ms, const char *second, struct bytes *ret_key);

/* The hex digits of such a time, zero-terminated. 0 < time_ms < TEXT_EXPIRY_END. */
void state_time_text(int64_t time_ms, char ret_text[STATE_TIME_DIGITS + 1]);

/* Whether `key` is a key of the namespace. */
bool state_ns_holds(struct bytes key, const char *ns);

#endif
