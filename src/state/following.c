#include "state/following.h"

enum status state_is_following(struct state_txn *txn, bool *ret_following)
{
    enum status st = state_exists(txn, BYTES(STATE_FOLLOWING));
    if (st != ST_OK && st != ST_NOT_FOUND)
        return st;
    *ret_following = st == ST_OK;
    return ST_OK;
}
