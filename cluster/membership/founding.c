#include "cluster/membership/founding.h"

#include "base/crc32c.h"

enum { FOUNDING_FORMAT = 1 };

static const uint8_t no_nonce[FOUNDING_NONCE_BYTES];

static bool known(const uint8_t *nonce)
{
    return memcmp(nonce, no_nonce, FOUNDING_NONCE_BYTES) != 0;
}

static struct founder *find(struct founding *f, struct bytes name)
{
    for (unsigned i = 0; i < f->n; i++)
        if (bytes_eq(bytes_str(f->founders[i].name), name))
            return &f->founders[i];
    return NULL;
}

void founding_init(struct founding *f, const char *const *names, unsigned n, unsigned self,
                   const uint8_t nonce[FOUNDING_NONCE_BYTES])
{
    ASSERT(n <= FOUNDERS_MAX && self <= n);
    *f = (struct founding){.n = n, .self = self};
    for (unsigned i = 0; i < n; i++) {
        size_t len = strlen(names[i]);
        ASSERT(len > 0 && len < FOUNDER_NAME_MAX);
        memcpy(f->founders[i].name, names[i], len + 1);
    }
    if (self < n)
        memcpy(f->founders[self].nonce, nonce, FOUNDING_NONCE_BYTES);
}

static void add_nonces(const struct founding *f, struct buf *out)
{
    buf_add_u8(out, (uint8_t)f->n);
    for (unsigned i = 0; i < f->n; i++) {
        buf_add_block(out, bytes_str(f->founders[i].name));
        buf_add(out, bytes_of(f->founders[i].nonce, FOUNDING_NONCE_BYTES));
    }
}

void founding_say(const struct founding *f, struct buf *out)
{
    buf_add_u8(out, FOUNDING_FORMAT);
    buf_add_u8(out, f->done);
    add_nonces(f, out);
}

enum status founding_hear(struct founding *f, const char *name, struct bytes said, bool *ret_asks)
{
    struct founder *peer = find(f, bytes_str(name));
    struct reader r = reader_of(said);
    const uint8_t *own = f->self < f->n ? f->founders[f->self].nonce : no_nonce;
    struct bytes theirs = {0};
    bool knows_me = false;

    if (reader_u8(&r) != FOUNDING_FORMAT)
        return ST_INVALID;
    uint8_t founded = reader_u8(&r);
    unsigned n = reader_u8(&r);
    if (founded > 1 || n > FOUNDERS_MAX)
        return ST_INVALID;
    for (unsigned i = 0; i < n; i++) {
        struct bytes who = reader_block(&r), nonce = reader_take(&r, FOUNDING_NONCE_BYTES);
        if (r.failed)
            return ST_INVALID;
        if (bytes_eq(who, bytes_str(name)))
            theirs = nonce;
        if (f->self < f->n && bytes_eq(who, bytes_str(f->founders[f->self].name)))
            knows_me = memcmp(nonce.data, own, FOUNDING_NONCE_BYTES) == 0;
    }
    TRY(reader_end(&r));
    *ret_asks = f->done && founded == 0;
    if (peer == NULL || f->done || peer == &f->founders[f->self])
        return ST_OK;
    peer->heard = true;
    peer->founded = founded != 0;
    peer->knows_me = knows_me;
    if (theirs.len != 0)
        memcpy(peer->nonce, theirs.data, FOUNDING_NONCE_BYTES);
    return ST_OK;
}

enum founding_verdict founding_verdict(const struct founding *f)
{
    bool all = f->self < f->n;
    if (f->done || !all)
        return FOUNDING_JOIN;
    for (unsigned i = 0; i < f->n; i++) {
        const struct founder *peer = &f->founders[i];
        if (i == f->self)
            continue;
        if (peer->heard && peer->founded && !peer->knows_me)
            return FOUNDING_JOIN;
        all = all && peer->heard && known(peer->nonce);
    }
    return all ? FOUNDING_FOUND : FOUNDING_WAIT;
}

void founding_save(const struct founding *f, struct buf *out)
{
    size_t start = out->len;
    buf_add_u8(out, FOUNDING_FORMAT);
    add_nonces(f, out);
    if (buf_status(out) == ST_OK)
        buf_add_u32(out, crc32c(0, bytes_from(buf_bytes(out), start)));
}

enum status founding_load(struct founding *f, struct bytes saved)
{
    if (saved.len < 4 ||
        crc32c(0, bytes_of(saved.data, saved.len - 4)) != le32_get(saved.data + saved.len - 4))
        return ST_CORRUPT;
    struct reader r = reader_of(bytes_of(saved.data, saved.len - 4));
    if (reader_u8(&r) != FOUNDING_FORMAT)
        return ST_CORRUPT;
    unsigned n = reader_u8(&r);
    for (unsigned i = 0; i < n; i++) {
        struct founder *peer = find(f, reader_block(&r));
        struct bytes nonce = reader_take(&r, FOUNDING_NONCE_BYTES);
        if (peer != NULL && !r.failed)
            memcpy(peer->nonce, nonce.data, FOUNDING_NONCE_BYTES);
    }
    return reader_end(&r) == ST_OK ? ST_OK : ST_CORRUPT;
}
