/* The policies of a token: a list of names as tokens keep it. */
#ifndef HOLDFAST_AUTH_POLICY_LIST_H
#define HOLDFAST_AUTH_POLICY_LIST_H

#include "state/state.h"
#include "text/schema.h"

enum { POLICY_LIST_MAX = 256 };

/* Whether a name is in the list. */
bool policy_list_has(const struct field_strings *list, const char *name);
/* Whether the list is the root policy alone. */
bool policy_list_is_root(const struct field_strings *list);

/* Names as policies are stored, in order, each once, none empty; with "default" if `add_default`.
 * The root policy in a list leaves no other. *ret_list may be `list`. ST_INVALID with a reason: too
 * many names, or one that no policy can have. ST_NOMEM. */
NODISCARD enum status policy_list_clean(struct arena *arena, const struct field_strings *list,
                                        bool add_default, struct field_strings *ret_list,
                                        struct reason *why);

/* Whether there is a policy of this name: tokens may have policies that are written later. ST_OK,
 * ST_NOT_FOUND; else as state_exists. */
NODISCARD enum status policy_list_exists(struct state_txn *txn, const char *ns, const char *name);

#endif
