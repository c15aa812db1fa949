#include "cluster/dr/reader.h"

enum status dr_reader_read(struct dr_reader *r, const struct store_pin *pin, struct bytes key,
                           struct buf *out)
{
    struct store_item item;
    size_t len = 0, before = out->len;
    TRY(store_get(pin, key, &item));
    if (r->cipher ==
        NULL) /* decryption draws no random bytes, so the env may be another thread's */
        TRY(barrier_cipher_new(r->host->barrier, r->host->env, &r->cipher));
    uint8_t *to = buf_extend(out, item.value.len);
    if (to == NULL)
        return ST_NOMEM;
    enum status st = barrier_decrypt(r->cipher, key, item.value, to, &len);
    out->len = before + (st == ST_OK ? len : 0);
    return st == ST_NOT_FOUND ? ST_BUSY : st;
}

void dr_reader_done(struct dr_reader *r)
{
    barrier_cipher_free(r->cipher);
    r->cipher = NULL;
}
