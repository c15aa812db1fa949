#include "cluster/dr/token.h"
#include "cluster/dr/role.h"

#include "base/mem.h"

#define TOKEN_KEYS DR_TOKEN_PREFIX

enum {
    TOKEN_KEY_LEN = sizeof TOKEN_KEYS - 1 + 2 * BARRIER_MAC_BYTES,
    TOKEN_BEARER_MAX = 256, /* longer texts are no tokens */
};

static enum status token_key(struct state_txn *txn, struct bytes bearer,
                             char ret_key[TOKEN_KEY_LEN + 1])
{
    if (bearer.len == 0 || bearer.len > TOKEN_BEARER_MAX)
        return ST_DENIED;
    memcpy(ret_key, TOKEN_KEYS, sizeof TOKEN_KEYS - 1);
    return token_name(txn->cipher, bearer, ret_key + sizeof TOKEN_KEYS - 1);
}

enum status dr_token_create(struct state_txn *txn, struct env *env, int64_t now_ms,
                            char ret_bearer[TOKEN_SERVICE_LEN + 1])
{
    CLEANUP(buf_done) struct buf record = {0};
    char key[TOKEN_KEY_LEN + 1];
    if (state_count(txn, BYTES(TOKEN_KEYS)) >= DR_TOKENS_MAX)
        return ST_LIMITED;
    token_make(env, ret_bearer);
    enum status st = token_key(txn, bytes_str(ret_bearer), key);
    buf_add_u64(&record, (uint64_t)MAX(now_ms, 0));
    if (st == ST_OK)
        st = buf_status(&record);
    if (st == ST_OK)
        st = state_put(txn, bytes_str(key), buf_bytes(&record));
    if (st != ST_OK)
        mem_wipe(ret_bearer, TOKEN_SERVICE_LEN + 1);
    return st;
}

enum status dr_token_check(struct state_txn *txn, struct bytes bearer)
{
    char key[TOKEN_KEY_LEN + 1];
    struct state_value stored; /* decrypted: only encryption shows that the record is ours */
    TRY(token_key(txn, bearer, key));
    enum status st = state_get(txn, bytes_str(key), &stored);
    if (st != ST_NOT_FOUND)
        return st;
    TRY(state_need_keys(txn));
    return ST_DENIED;
}

enum status dr_token_delete(struct state_txn *txn, struct bytes bearer)
{
    char key[TOKEN_KEY_LEN + 1];
    TRY(dr_token_check(txn, bearer));
    TRY(token_key(txn, bearer, key));
    return state_delete(txn, bytes_str(key));
}
