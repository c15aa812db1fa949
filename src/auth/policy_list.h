/* The policies of a token: a list of names. */
#ifndef HOLDFAST_AUTH_POLICY_LIST_H
#define HOLDFAST_AUTH_POLICY_LIST_H

#include "state/state.h"
#include "text/schema.h"

enum { POLICY_LIST_MAX = 256 };

/* Whether a name is in the list. */
bool policy_list_has(const struct field_strings *list, const char *name);
/* Whether the list is the root policy alone. */
bool policy_list_is_root(const struct field_strings *list);

/* Bring a list of policy names into the form that tokens store: each name as policy_name gives it,
 * sorted, without repeated and blank names; with "default" if `add_default`. A list that contains
 * the root policy becomes the root policy alone. *ret_list may be `list`. ST_INVALID with a reason:
 * more than POLICY_LIST_MAX names, or a name that no policy can have. ST_NOMEM. */
NODISCARD enum status policy_list_clean(struct arena *arena, const struct field_strings *list,
                                        bool add_default, struct field_strings *ret_list,
                                        struct reason *why);

/* Whether a policy of this name is stored or built in. Tokens may name policies that are written
 * later. ST_OK, ST_NOT_FOUND; else as state_exists. */
NODISCARD enum status policy_list_exists(struct state_txn *txn, const char *ns, const char *name);

#endif
