#include "cluster/membership/local.h"

#include <stdio.h>

enum status local_read(struct local *local, struct bytes key, struct buf *out)
{
    struct store_item item;
    struct store_pin pin;
    size_t len = 0;
    ASSERT(local->host->rlog != NULL && !local->host->replica_closed);
    if (local->cipher == NULL)
        TRY(barrier_cipher_new(local->host->barrier, local->host->env, &local->cipher));
    TRY(store_pin(rlog_store(local->host->rlog), "certificates", 0, &pin));
    enum status st = store_get(&pin, key, &item);
    uint8_t *to = st == ST_OK ? buf_extend(out, item.value.len) : NULL;
    if (st == ST_OK)
        st = to != NULL ? barrier_decrypt(local->cipher, key, item.value, to, &len) : ST_NOMEM;
    if (to != NULL && st == ST_NOT_FOUND)
        st = ST_BUSY; /* encrypted by a term of the key ring that this node lacks yet */
    out->len = st == ST_OK ? len : 0;
    store_unpin(&pin);
    return st;
}

void local_recovered_name(uint64_t id, char ret_name[RECOVERED_NAME_MAX])
{
    /* sixteen digits always fit */
    (void)snprintf(ret_name, RECOVERED_NAME_MAX, "%016llx", (unsigned long long)id);
}

bool local_has(const struct part_host *host, const char *prefix, const char *name, bool unsure)
{
    char key[MEMBER_KEY_MAX];
    struct store_item item;
    struct store_pin pin;
    if (host->rlog == NULL || host->replica_closed)
        return false;
    int len = snprintf(key, sizeof key, "%s%s", prefix, name);
    ASSERT(len > 0 && (size_t)len < sizeof key); /* cannot be cut: names are bounded */
    if (store_pin(rlog_store(host->rlog), "removed", 0, &pin) != ST_OK)
        return unsure; /* every pin is in use, so the answer is unknown */
    bool found = store_get(&pin, bytes_str(key), &item) == ST_OK;
    store_unpin(&pin);
    return found;
}

static enum status local_start(void *self, struct part_host *host)
{
    struct local *local = self;
    ASSERT(local->host == NULL && local->cipher == NULL);
    local->host = host;
    return ST_OK;
}

static bool local_stop(void *self)
{
    struct local *local = self;
    if (local->host->replica_closed || local->host->rlog == NULL) {
        barrier_cipher_free(local->cipher);
        local->cipher = NULL;
    }
    return true;
}

const struct part local_part = {.name = "local", .start = local_start, .stop = local_stop};
