/* The chain of superseded root keys.
 *
 * A rekey leaves a link: the new root key, encrypted under the superseded one. An unsealed node, a
 * stored seal of a DR secondary and its local ring may still have a superseded root key, also one
 * that was superseded several times. Links lead from there to the present root key:
 *
 *   root 1 ──link──▶ root 2 ──link──▶ root 3: opens the shared ring
 *
 *   link  version u8 = 1, time u64 ms, nonce 12, ciphertext 32, tag 16; version, time and the
 *         link's own key of the state authenticated
 *
 * No link says which root keys it connects: each root key that was reached is tried with every link
 * that no other has opened. So the order of the links does not matter, and each link is opened
 * once. The state stores a bounded number of links. A node that no link leads further must be
 * unsealed again. */
#include "barrier/barrier_internal.h"

#include "base/mem.h"
#include "text/time.h"

enum {
    LINK_VERSION = 1,
    LINK_HEADER = 1 + 8,
    LINK_TEXT = LINK_HEADER + AEAD_NONCE_BYTES,
    LINK_BYTES = LINK_TEXT + ROOT_BYTES + AEAD_TAG_BYTES,
    LINK_NAME_MAX = 64,
    AAD_MAX = LINK_HEADER + LINK_NAME_MAX,
};

static struct bytes make_aad(uint8_t room[AAD_MAX], const uint8_t *record, struct bytes name)
{
    ASSERT(name.len > 0 && name.len <= LINK_NAME_MAX);
    memcpy(room, record, LINK_HEADER);
    memcpy(room + LINK_HEADER, name.data, name.len);
    return bytes_of(room, LINK_HEADER + name.len);
}

enum status link_put(const struct secret *from, const struct secret *to, struct env *env,
                     const struct barrier_link_head *head, struct buf *out)
{
    struct aead *a = NULL;
    uint8_t room[AAD_MAX];
    uint8_t *at = buf_extend(out, LINK_BYTES);

    ASSERT(to->len == ROOT_BYTES);
    /* range of times that barrier_link_time accepts */
    ASSERT(head->time_ms >= 0 && head->time_ms < TEXT_CLOCK_END);
    if (at == NULL)
        return ST_NOMEM;
    at[0] = LINK_VERSION;
    le64_put(at + 1, (uint64_t)head->time_ms);
    env_random(env, at + LINK_HEADER, AEAD_NONCE_BYTES);
    TRY(aead_new(secret_bytes(from), &a));
    enum status st = aead_seal(a, at + LINK_HEADER, make_aad(room, at, head->name),
                               secret_bytes(to), at + LINK_TEXT, at + LINK_TEXT + ROOT_BYTES);
    aead_free(a);
    return st;
}

enum status barrier_link_time(struct bytes record, int64_t *ret_time_ms)
{
    if (record.len != LINK_BYTES || record.data[0] != LINK_VERSION ||
        le64_get(record.data + 1) >= (uint64_t)TEXT_CLOCK_END)
        return ST_CORRUPT;
    *ret_time_ms = (int64_t)le64_get(record.data + 1);
    return ST_OK;
}

enum status link_open(struct aead *root, const struct barrier_link *link, struct secret *ret_root)
{
    struct secret next = {0};
    uint8_t room[AAD_MAX];
    struct bytes record = link->record;
    int64_t time_ms;

    if (link->name.len == 0 || link->name.len > LINK_NAME_MAX)
        return ST_CORRUPT;
    TRY(barrier_link_time(record, &time_ms));
    ASSERT(record.len == LINK_BYTES);
    TRY(secret_new(ROOT_BYTES, &next));
    enum status st =
        aead_open(root, record.data + LINK_HEADER, make_aad(room, record.data, link->name),
                  bytes_of(record.data + LINK_TEXT, ROOT_BYTES),
                  record.data + LINK_TEXT + ROOT_BYTES, next.data);
    if (st == ST_OK)
        *ret_root = next;
    else
        secret_done(&next);
    return st;
}

void chain_free(struct chain **chain)
{
    if (*chain != NULL)
        for (unsigned i = 0; i < (*chain)->n; i++)
            secret_done(&(*chain)->roots[i]);
    mem_free(*chain);
}

enum status chain_new(const struct secret *root, const struct barrier_records *records,
                      struct chain **ret_chain)
{
    struct chain *c = mem_zalloc(sizeof *c);
    ASSERT(records->n_links <= BARRIER_LINKS_MAX);
    if (c == NULL)
        return ST_NOMEM;
    c->records = records;
    enum status st = secret_dup(secret_bytes(root), &c->roots[c->n]);
    if (st != ST_OK) {
        mem_free(c);
        return st;
    }
    c->n++;
    *ret_chain = c;
    return ST_OK;
}

/* Add the root key that a link leads to, unless it was reached before. The key is moved. */
static void add_root(struct chain *c, struct secret *root)
{
    for (unsigned i = 0; i < c->n; i++)
        if (bytes_eq_secret(secret_bytes(&c->roots[i]), secret_bytes(root))) {
            secret_done(root);
            return;
        }
    ASSERT(root->len == ROOT_BYTES);
    ASSERT(c->n < ARRAY_LEN(c->roots));
    c->roots[c->n++] = *root;
    *root = (struct secret){0};
}

/* Try every link with one root key. */
static enum status try_links(struct chain *c, const struct secret *root)
{
    struct aead *a = NULL;
    ASSERT(root->len == ROOT_BYTES);
    TRY(aead_new(secret_bytes(root), &a));
    enum status st = ST_OK;
    for (unsigned i = 0; st == ST_OK && i < c->records->n_links; i++) {
        struct secret next = {0};
        if (c->opened[i])
            continue;
        st = link_open(a, &c->records->links[i], &next);
        if (st == ST_OK) {
            c->opened[i] = true;
            add_root(c, &next);
        } else if (st == ST_CORRUPT) {
            st = ST_OK; /* a link of another root key, or a damaged one */
        }
    }
    aead_free(a);
    return st;
}

enum status chain_grow(struct chain *c)
{
    unsigned before = c->n;
    ASSERT(c->tried <= c->n);
    while (c->n == before && c->tried < c->n) {
        TRY(try_links(c, &c->roots[c->tried]));
        c->tried++;
    }
    return c->n > before ? ST_OK : ST_NOT_FOUND;
}
