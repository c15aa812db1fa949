/* The end of a token and of all its descendants.
 *
 * One small transaction ends a token: it deletes the record and the keys that point to the record,
 * and writes a mark:
 *
 *   s/ns/NS/revoked/ID   "tree" or "children left"
 *
 * Later the active node deletes children and cubbyhole in chunks, then the mark. The marks are the
 * only record of this work, so another node can go on where one stopped.
 *
 *   alive ──end──▶ mark, record gone ──sweep: children, cubbyhole──▶ mark gone
 *
 * The keys below a mark can only become fewer (token.h, 2.). So keys that the sweep reads and does
 * not change are no preconditions. */
#ifndef HOLDFAST_AUTH_TOKEN_TREE_H
#define HOLDFAST_AUTH_TOKEN_TREE_H

#include "auth/token_store.h"

enum token_end {
    TOKEN_END_TREE,     /* all descendants of the token end with it */
    TOKEN_END_CHILDREN, /* the children of the token become orphans */
};

enum { TOKEN_SWEEP_STEPS = 100 /* most tokens that one transaction ends or deletes */ };

/* Stage the end of a stored token that the caller loaded. As state_put. */
NODISCARD enum status token_tree_end(const struct auth_scope *scope, const struct auth_token *token,
                                     enum token_end how);

/* Whether a token that has ended left its children alive. ST_OK: yes. ST_NOT_FOUND: no. Else as
 * state_get. */
NODISCARD enum status token_tree_left_children(const struct auth_scope *scope, const char *id);
/* Whether an id may be used for a new token. ST_BUSY: a token of this id has ended, and its
 * children or cubbyhole may still exist. Else as state_exists. */
NODISCARD enum status token_tree_is_clean(const struct auth_scope *scope, const char *id);

/* Background work for the active node: stage the end of expired tokens, then the deletion of
 * children and cubbyholes of ended tokens. One transaction does TOKEN_SWEEP_STEPS at most. If
 * nothing is staged, there is nothing to do now. ST_SEALED, ST_CORRUPT, ST_NOMEM. */
NODISCARD enum status token_tree_upkeep(struct state_txn *txn, int64_t now_ms);

#endif
