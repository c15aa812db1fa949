#include "cluster/membership/bootstrap/initial_members.h"

#include "base/crc32c.h"

enum { INITIAL_FORMAT = 1 };

static const uint8_t no_nonce[INITIAL_NONCE_BYTES];

static bool known(const uint8_t *nonce)
{
    return memcmp(nonce, no_nonce, INITIAL_NONCE_BYTES) != 0;
}

static struct initial_member *find(struct initial_members *f, struct bytes name)
{
    for (unsigned i = 0; i < f->n; i++)
        if (bytes_eq(bytes_str(f->members[i].name), name))
            return &f->members[i];
    return NULL;
}

void initial_members_init(struct initial_members *f, const char *const *names, unsigned n,
                          unsigned self, const uint8_t nonce[INITIAL_NONCE_BYTES])
{
    ASSERT(n <= INITIAL_MEMBERS_MAX && self <= n);
    *f = (struct initial_members){.n = n, .self = self};
    for (unsigned i = 0; i < n; i++) {
        size_t len = strlen(names[i]);
        ASSERT(len > 0 && len < INITIAL_NAME_MAX);
        memcpy(f->members[i].name, names[i], len + 1);
    }
    if (self < n)
        memcpy(f->members[self].nonce, nonce, INITIAL_NONCE_BYTES);
}

static void add_nonces(const struct initial_members *f, struct buf *out)
{
    buf_add_u8(out, (uint8_t)f->n);
    for (unsigned i = 0; i < f->n; i++) {
        buf_add_block(out, bytes_str(f->members[i].name));
        buf_add(out, bytes_of(f->members[i].nonce, INITIAL_NONCE_BYTES));
    }
}

void initial_members_say(const struct initial_members *f, struct buf *out)
{
    buf_add_u8(out, INITIAL_FORMAT);
    buf_add_u8(out, f->done);
    add_nonces(f, out);
}

enum status initial_members_hear(struct initial_members *f, const char *name, struct bytes said,
                                 bool *ret_asks)
{
    struct initial_member *peer = find(f, bytes_str(name));
    struct reader r = reader_of(said);
    const uint8_t *own = f->self < f->n ? f->members[f->self].nonce : no_nonce;
    struct bytes theirs = {0};
    bool knows_me = false;

    ASSERT(f->n <= INITIAL_MEMBERS_MAX);
    ASSERT(f->self <= f->n);
    if (reader_u8(&r) != INITIAL_FORMAT)
        return ST_INVALID;
    uint8_t formed = reader_u8(&r);
    unsigned n = reader_u8(&r);
    if (formed > 1 || n > INITIAL_MEMBERS_MAX)
        return ST_INVALID;
    for (unsigned i = 0; i < n; i++) {
        struct bytes who = reader_block(&r), nonce = reader_take(&r, INITIAL_NONCE_BYTES);
        if (r.failed)
            return ST_INVALID;
        if (bytes_eq(who, bytes_str(name)))
            theirs = nonce;
        if (f->self < f->n && bytes_eq(who, bytes_str(f->members[f->self].name)))
            knows_me = memcmp(nonce.data, own, INITIAL_NONCE_BYTES) == 0;
    }
    TRY(reader_end(&r));
    *ret_asks = f->done && formed == 0;
    if (peer == NULL || f->done || peer == &f->members[f->self])
        return ST_OK;
    peer->heard = true;
    peer->formed = formed != 0;
    peer->knows_me = knows_me;
    if (theirs.len != 0)
        memcpy(peer->nonce, theirs.data, INITIAL_NONCE_BYTES);
    return ST_OK;
}

enum initial_verdict initial_members_verdict(const struct initial_members *f)
{
    bool all = f->self < f->n;
    ASSERT(f->n <= INITIAL_MEMBERS_MAX);
    ASSERT(f->self <= f->n);
    if (f->done || !all)
        return INITIAL_JOIN;
    for (unsigned i = 0; i < f->n; i++) {
        const struct initial_member *peer = &f->members[i];
        if (i == f->self)
            continue;
        if (peer->heard && peer->formed && !peer->knows_me)
            return INITIAL_JOIN;
        all = all && peer->heard && known(peer->nonce);
    }
    return all ? INITIAL_FORM : INITIAL_WAIT;
}

void initial_members_save(const struct initial_members *f, struct buf *out)
{
    size_t start = out->len;
    buf_add_u8(out, INITIAL_FORMAT);
    add_nonces(f, out);
    if (buf_status(out) == ST_OK)
        buf_add_u32(out, crc32c(0, bytes_from(buf_bytes(out), start)));
}

enum status initial_members_load(struct initial_members *f, struct bytes saved)
{
    if (saved.len < 4 ||
        crc32c(0, bytes_of(saved.data, saved.len - 4)) != le32_get(saved.data + saved.len - 4))
        return ST_CORRUPT;
    struct reader r = reader_of(bytes_of(saved.data, saved.len - 4));
    if (reader_u8(&r) != INITIAL_FORMAT)
        return ST_CORRUPT;
    unsigned n = reader_u8(&r);
    ASSERT(f->n <= INITIAL_MEMBERS_MAX);
    for (unsigned i = 0; i < n; i++) {
        struct initial_member *peer = find(f, reader_block(&r));
        struct bytes nonce = reader_take(&r, INITIAL_NONCE_BYTES);
        if (peer != NULL && !r.failed)
            memcpy(peer->nonce, nonce.data, INITIAL_NONCE_BYTES);
    }
    return reader_end(&r) == ST_OK ? ST_OK : ST_CORRUPT;
}
