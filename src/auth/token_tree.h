/* The end of a token, and of all below it.
 *
 * Ending a token is one small transaction: its record and what points to it go, and a mark stays,
 *
 *   s/ns/NS/revoked/ID   "tree" or "children left"
 *
 * from which the rest follows in chunks, done by the active node whenever it has nothing more
 * urgent. The marks are the whole memory of that work, so another node goes on where one stopped.
 *
 *   alive ──end──▶ mark, record gone ──sweep: children, what it kept──▶ mark gone
 *
 * What lies below a mark only becomes less (token.h, 2.), so the sweep looks at it without making
 * preconditions of what it does not change. */
#ifndef HOLDFAST_AUTH_TOKEN_TREE_H
#define HOLDFAST_AUTH_TOKEN_TREE_H

#include "auth/token_store.h"

enum token_end {
    TOKEN_END_TREE,     /* and all below it */
    TOKEN_END_CHILDREN, /* the children become orphans */
};

enum { TOKEN_SWEEP_STEPS = 100 /* tokens a transaction */ };

/* Stage the end of a stored token that was loaded. As state_put. */
NODISCARD enum status token_tree_end(const struct auth_scope *scope, const struct auth_token *token,
                                     enum token_end how);

/* Of a token whose record is gone: ST_OK: it left its children alive. ST_NOT_FOUND: it did not. */
NODISCARD enum status token_tree_left_children(const struct auth_scope *scope, const char *id);
/* ST_BUSY: a token of this id has ended, and what it left is not deleted yet. */
NODISCARD enum status token_tree_is_clean(const struct auth_scope *scope, const char *id);

/* Background work, for the active node: stage the end of tokens that have expired, or the deletion
 * of what ended ones left; TOKEN_SWEEP_STEPS at most. Nothing staged: there is nothing to do now.
 * ST_SEALED, ST_CORRUPT, ST_NOMEM. */
NODISCARD enum status token_tree_upkeep(struct state_txn *txn, int64_t now_ms);

#endif
