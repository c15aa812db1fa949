/* The end of a token and of all its descendants.
 *
 * One small transaction ends a token: it deletes the record and the keys that point to the record.
 * If the token never had a child, a lease or a cubbyhole, nothing is left (token.h, 4.). Otherwise,
 * and after the last use of a token, the transaction writes a mark:
 *
 *   s/unfinished/NS/token/ID   "tree" or "children left" (lease/expiry.h)
 *
 * Later the active node deletes children, leases and cubbyhole in chunks, then the mark. The marks
 * are the only record of this work, so another node can go on where one stopped.
 *
 *   alive ──end──▶ mark, record gone ──sweep: children, leases, cubbyhole──▶ mark gone
 *     └──end, never had keys below it──▶ gone
 *
 * The keys below a mark can only become fewer (token.h, 2.). So keys that the sweep reads and does
 * not change are no preconditions. */
#ifndef HOLDFAST_AUTH_TOKEN_TREE_H
#define HOLDFAST_AUTH_TOKEN_TREE_H

#include "auth/token_store.h"
#include "lease/expiry.h"

enum token_end {
    TOKEN_END_TREE,     /* all descendants of the token end with it */
    TOKEN_END_CHILDREN, /* the children of the token become orphans */
};

/* Stage the end of a stored token that the caller loaded. The rest of the transaction stages no
 * child, lease or item of the cubbyhole of this token. As state_put. */
NODISCARD enum status token_tree_end(const struct auth_scope *scope, const struct auth_token *token,
                                     enum token_end how);
/* token_tree_end of a token whose request goes on, and may still add keys below the token: a mark
 * is written in every case. */
NODISCARD enum status token_tree_end_in_use(const struct auth_scope *scope,
                                            const struct auth_token *token);

/* Whether a token that has ended left its children alive. ST_OK: yes. ST_NOT_FOUND: no. Else as
 * state_get. */
NODISCARD enum status token_tree_left_children(const struct auth_scope *scope, const char *id);
/* Whether an id may be used for a new token. ST_BUSY: a token of this id has ended, and its
 * children or cubbyhole may still exist. Else as state_exists. */
NODISCARD enum status token_tree_is_clean(const struct auth_scope *scope, const char *id);

/* Background work of the active node: the end of an expired token; the end of children and
 * leases, and the deletion of the cubbyhole, of an ended one. */
extern const struct expiry_kind token_expiry;

#endif
