/* The own seal of a DR secondary (state/state_dr.h): renewed while this cluster follows a primary;
 * made the cluster's seal when it no longer follows one. */
#include "node/unseal_internal.h"

#include "base/trace.h"
#include "state/following.h"
#include "state/state_dr.h"

#include <stdatomic.h>

/* Log why the own seal cannot be renewed, once. */
static void say_why(struct unseal *u, const struct reason *why)
{
    if (strcmp(why->text, u->own_said.text) == 0)
        return;
    u->own_said = *why;
    if (why->text[0] != '\0')
        trace(TRACE_WARN, "node", "the seal of this DR secondary is not renewed: %s", why->text);
}

static enum status renew_own(struct unseal *u, struct state_txn *txn, int64_t now_ms)
{
    struct state_dr_keys keys;
    TRY(state_dr_upkeep(txn, u->options.seal, now_ms, &keys));
    say_why(u, &keys.why);
    if (keys.settled)
        atomic_store(&u->host->own_settled, state_version(txn));
    return ST_OK;
}

enum status unseal_renew(const void *self, struct state_txn *txn, int64_t now_ms, unsigned steps)
{
    struct unseal *u = *(struct unseal *const *)self;
    struct reason why = {{0}};
    bool following = false;
    (void)steps;
    ASSERT(part_on_thread(u->host));
    TRY(state_is_following(txn, &following));
    if (following)
        return renew_own(u, txn, now_ms);
    enum status st = state_dr_promote(txn, u->options.seal, now_ms, &why);
    say_why(u, &why);
    return st == ST_INVALID ? ST_OK : st;
}
