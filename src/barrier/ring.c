#include "barrier/ring.h"

#include "base/mem.h"
#include "text/time.h"

enum { RING_VERSION = 1, HEADER = 1 + AEAD_NONCE_BYTES };

void ring_done(struct ring *ring)
{
    for (unsigned i = 0; i < ring->n; i++)
        secret_done(&ring->terms[i].key);
    *ring = (struct ring){0};
}

enum status ring_grow(struct ring *ring, struct env *env, int64_t time_ms)
{
    struct secret key;
    if (ring->n == BARRIER_TERMS_MAX)
        return ST_NO_SPACE;
    TRY(secret_new(AEAD_KEY_BYTES, &key));
    env_random(env, key.data, key.len);
    uint32_t term = ring->n > 0 ? ring_active(ring)->term + 1 : 1;
    ASSERT(term != 0);
    ring->terms[ring->n++] = (struct ring_term){term, time_ms, 0, key};
    return ST_OK;
}

enum status ring_copy(const struct ring *from, struct ring *ret_ring)
{
    ASSERT(from->n <= BARRIER_TERMS_MAX && from != ret_ring);
    *ret_ring = (struct ring){0};
    for (unsigned i = 0; i < from->n; i++) {
        struct ring_term term = from->terms[i];
        enum status st = secret_dup(secret_bytes(&from->terms[i].key), &term.key);
        if (st != ST_OK) {
            ring_done(ret_ring);
            return st;
        }
        ret_ring->terms[ret_ring->n++] = term;
    }
    return ST_OK;
}

struct ring_term *ring_active(struct ring *ring)
{
    ASSERT(ring->n > 0);
    return &ring->terms[ring->n - 1];
}

const struct ring_term *ring_find(const struct ring *ring, uint32_t term)
{
    /* search from the newest term, which callers ask for most */
    for (unsigned i = ring->n; i-- > 0;)
        if (ring->terms[i].term == term)
            return &ring->terms[i];
    return NULL;
}

/* The authenticated data: version and name, so that no record opens in place of another. */
static size_t make_aad(uint8_t *room, struct bytes name)
{
    ASSERT(name.len < 63);
    room[0] = RING_VERSION;
    memcpy(room + 1, name.data, name.len);
    return 1 + name.len;
}

enum status ring_encode(const struct ring *ring, struct aead *root, struct env *env,
                        struct bytes name, struct buf *out)
{
    CLEANUP(buf_done) struct buf plain = {0};
    uint8_t aad[64];
    size_t n = (size_t)ring->n * RING_TERM_BYTES;

    ASSERT(ring->n > 0);
    /* reserve all memory first: growth would leave copies of keys unwiped */
    TRY(buf_reserve(&plain, n));
    for (unsigned i = 0; i < ring->n; i++) {
        buf_add_u32(&plain, ring->terms[i].term);
        buf_add_u64(&plain, (uint64_t)ring->terms[i].installed_ms);
        buf_add_u64(&plain, ring->terms[i].uses);
        buf_add(&plain, secret_bytes(&ring->terms[i].key));
    }
    ASSERT(plain.len == n);
    uint8_t *at = buf_extend(out, n + RING_OVERHEAD);
    if (at == NULL)
        return ST_NOMEM;
    at[0] = RING_VERSION;
    env_random(env, at + 1, AEAD_NONCE_BYTES);
    enum status st = aead_seal(root, at + 1, bytes_of(aad, make_aad(aad, name)), buf_bytes(&plain),
                               at + HEADER, at + HEADER + n);
    ASSERT(ring_shaped(bytes_of(at, n + RING_OVERHEAD)));
    if (st != ST_OK)
        out->len -= n + RING_OVERHEAD;
    return st;
}

/* Read the decrypted list of terms. */
static enum status read_terms(struct bytes plain, struct ring *ring)
{
    struct reader r = reader_of(plain);

    while (reader_left(&r) > 0) {
        struct ring_term term = {.term = reader_u32(&r)};
        /* A time out of bounds comes from a wrong clock. Accept such a ring: if the ring could not
         * be read, its keys would be lost. */
        uint64_t installed_ms = reader_u64(&r);
        term.installed_ms = (int64_t)MIN(installed_ms, (uint64_t)TEXT_CLOCK_END - 1);
        term.uses = reader_u64(&r);
        struct bytes key = reader_take(&r, AEAD_KEY_BYTES);
        if (r.failed || ring->n == BARRIER_TERMS_MAX || term.term == 0 ||
            (ring->n > 0 && term.term <= ring_active(ring)->term))
            return ST_CORRUPT;
        TRY(secret_dup(key, &term.key));
        ring->terms[ring->n++] = term;
    }
    return ring->n > 0 ? ST_OK : ST_CORRUPT;
}

bool ring_shaped(struct bytes record)
{
    return record.len >= RING_OVERHEAD + RING_TERM_BYTES && record.data[0] == RING_VERSION &&
           record.len <= RING_OVERHEAD + RING_TERM_BYTES * BARRIER_TERMS_MAX &&
           (record.len - RING_OVERHEAD) % RING_TERM_BYTES == 0;
}

enum status ring_decode(struct bytes record, struct aead *root, struct bytes name,
                        struct ring *ret_ring)
{
    CLEANUP(buf_done) struct buf plain = {0};
    uint8_t aad[64];

    if (!ring_shaped(record))
        return ST_CORRUPT;
    size_t n = record.len - RING_OVERHEAD;
    uint8_t *out = buf_extend(&plain, n);
    if (out == NULL)
        return ST_NOMEM;
    TRY(aead_open(root, record.data + 1, bytes_of(aad, make_aad(aad, name)),
                  bytes_of(record.data + HEADER, n), record.data + HEADER + n, out));
    struct ring ring = {0};
    enum status st = read_terms(buf_bytes(&plain), &ring);
    ASSERT(st != ST_OK || ring.n == n / RING_TERM_BYTES);
    if (st == ST_OK)
        *ret_ring = ring;
    else
        ring_done(&ring);
    return st;
}
