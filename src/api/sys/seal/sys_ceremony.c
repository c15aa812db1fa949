/* Ceremonies, stored under the local key ring:
 *
 *   version u8, phase u8, block nonce, expire u64 ms, seal u64, block otp, block given,
 *   shares u8, threshold u8, verify u8, block nonce of giving back, block key, block new shares,
 *   block last share; in version 2: backup u8, block recipients
 *
 * Version 2 is written where there are recipients. An older build ignores such an attempt. */
#include "api/sys/seal/sys_ceremony.h"
#include "api/sys/seal/sys_keys.h"
#include "barrier/shamir.h"
#include "base/mem.h"
#include "front/secrets/secrets.h"
#include "text/random.h"
#include "text/time.h"

static const struct field share_fields[] = {
    FIELD(struct sys_share, key, STRING, .hidden = true,
          .help = "One key share, in hex or base64."),
    FIELD(struct sys_share, nonce, STRING, .help = "Of the attempt."),
};
const struct schema sys_share_schema = {.fields = share_fields,
                                        .n = ARRAY_LEN(share_fields),
                                        .size = sizeof(struct sys_share),
                                        .fold_case = true};

#define CEREMONY_PREFIX STATE_LOCAL "ceremony/"

enum { CEREMONY_PLAIN = 1, CEREMONY_WITH_RECIPIENTS = 2 };

static const char *const kind_names[CEREMONY_KINDS] = {
    [CEREMONY_ROOT] = "generate-root",
    [CEREMONY_REKEY] = "rekey",
    [CEREMONY_RECOVERY] = "rekey-recovery-key",
    [CEREMONY_DR] = "dr-operation-token",
};

static enum status ceremony_key(struct arena *arena, enum ceremony_kind kind, bool known,
                                struct bytes *ret_key)
{
    ASSERT(kind < CEREMONY_KINDS);
    const char *key =
        arena_format(arena, "%s%s/%s", CEREMONY_PREFIX, kind_names[kind], known ? "token" : "open");
    if (key == NULL)
        return ST_NOMEM;
    *ret_key = bytes_str(key);
    return ST_OK;
}

static enum status decode_rekey(struct reader *r, struct ceremony_rekey *ret)
{
    struct ceremony_rekey k = {0};
    k.shares.n = reader_u8(r);
    k.shares.threshold = reader_u8(r);
    uint8_t verify = reader_u8(r);
    struct bytes nonce = reader_block(r);
    k.key = reader_block(r);
    struct bytes issued = reader_block(r);
    k.last = reader_block(r);
    k.shares.bytes = k.shares.n > 1 ? SYS_SHARE_BYTES_MAX : SEAL_KEY_BYTES;
    k.shares.data = issued.data;
    k.verify = verify != 0;
    if (r->failed || verify > 1 || k.shares.threshold > k.shares.n ||
        (nonce.len != 0 && nonce.len != TEXT_UUID_LEN) ||
        (k.key.len != 0 && k.key.len != SEAL_KEY_BYTES) ||
        issued.len != (k.key.len != 0 ? k.shares.n * k.shares.bytes : 0))
        return ST_CORRUPT;
    if (nonce.len != 0)
        memcpy(k.nonce, nonce.data, nonce.len);
    *ret = k;
    return ST_OK;
}

/* Read the end of a record. */
static enum status decode_recipients(struct reader *r, uint8_t format, struct ceremony *ret)
{
    if (format == CEREMONY_WITH_RECIPIENTS) {
        uint8_t backup = reader_u8(r);
        ret->recipients = reader_block(r);
        ret->backup = backup != 0;
        if (backup > 1 || ret->recipients.len == 0)
            return ST_CORRUPT;
    } else if (format != CEREMONY_PLAIN) {
        return ST_CORRUPT;
    }
    return reader_end(r) == ST_OK ? ST_OK : ST_CORRUPT;
}

/* Read a record into an empty attempt. The record holds the stamp of the seal that the attempt was
 * begun under. ST_CORRUPT. */
static enum status decode(struct bytes stored, struct ceremony *ret)
{
    struct reader r = reader_of(stored);
    struct ceremony c = *ret;
    ASSERT(c.phase == CEREMONY_NONE);
    uint8_t format = reader_u8(&r), phase = reader_u8(&r);
    struct bytes nonce = reader_block(&r);
    uint64_t expire_ms = reader_u64(&r);
    c.seal.stamp = reader_u64(&r);
    c.otp = reader_block(&r);
    c.given = reader_block(&r);
    if (decode_rekey(&r, &c.rekey) != ST_OK || decode_recipients(&r, format, &c) != ST_OK ||
        phase == CEREMONY_NONE || phase > CEREMONY_DONE || nonce.len != TEXT_UUID_LEN ||
        expire_ms >= (uint64_t)TEXT_EXPIRY_END)
        return ST_CORRUPT;
    if (phase != CEREMONY_GIVING && c.rekey.key.len == 0)
        return ST_CORRUPT;
    c.phase = (enum ceremony_phase)phase;
    memcpy(c.nonce, nonce.data, nonce.len);
    c.expire_ms = (int64_t)expire_ms;
    *ret = c;
    return ST_OK;
}

static enum status read_seal(struct req *req, struct seal_info *ret_seal)
{
    TRY(state_seal_read(req->txn, ret_seal));
    if (ret_seal->shares == 0)
        return req_fail(req, ST_INVALID,
                        "the cluster was initialised without a recovery key, so no shares exist");
    return ST_OK;
}

/* Load the attempt in a slot. Ignore a record that cannot be opened: it belongs to a state that a
 * restore replaced. */
static enum status load(struct req *req, enum ceremony_kind kind, bool known, struct ceremony *ret)
{
    struct ceremony c = {.kind = kind, .known = known};
    struct state_value stored;
    struct bytes key;

    TRY(read_seal(req, &c.seal));
    const struct ceremony none = c;
    TRY(ceremony_key(req->arena, kind, known, &key));
    enum status st = state_get(req->txn, key, &stored);
    if (st == ST_OK)
        st = decode(stored.value, &c);
    if (st != ST_OK && st != ST_NOT_FOUND && st != ST_CORRUPT)
        return st;
    bool over = c.expire_ms != 0 && c.expire_ms <= req->now_ms;
    bool fits = c.seal.stamp == none.seal.stamp && c.given.len % ceremony_share_bytes(&c) == 0 &&
                ceremony_progress(&c) < SHAMIR_SHARES_MAX;
    *ret = st == ST_OK && !over && fits ? c : none;
    ASSERT(ret->kind == kind && ret->known == known);
    return ST_OK;
}

bool ceremony_is_under_way(const struct ceremony *c)
{
    return c->phase == CEREMONY_GIVING || c->phase == CEREMONY_VERIFYING;
}

static bool is_nonce(const char *own, const char *nonce)
{
    return own[0] != '\0' && bytes_eq_secret(bytes_str(own), bytes_str(nonce));
}

static bool has_nonce(const struct ceremony *c, const char *nonce)
{
    if (nonce == NULL)
        return ceremony_is_under_way(c);
    return is_nonce(c->nonce, nonce) || is_nonce(c->rekey.nonce, nonce);
}

enum status ceremony_find(struct req *req, enum ceremony_kind kind, const char *nonce,
                          struct ceremony *ret_ceremony)
{
    struct ceremony own, open;
    TRY(load(req, kind, false, &open));
    *ret_ceremony = open;
    if (req->token == NULL)
        return ST_OK;
    TRY(load(req, kind, true, &own));
    ASSERT(own.known && !open.known);
    if (has_nonce(&own, nonce) || !ceremony_is_under_way(&open))
        *ret_ceremony = own;
    return ST_OK;
}

enum status ceremony_begin(struct req *req, enum ceremony_kind kind, struct ceremony *ret_ceremony)
{
    struct ceremony c;
    TRY(load(req, kind, req->token != NULL, &c));
    ASSERT(c.seal.shares > 0);
    if (ceremony_is_under_way(&c))
        return ST_EXISTS;
    c = (struct ceremony){.kind = kind, .known = c.known, .seal = c.seal, .phase = CEREMONY_GIVING};
    text_uuid(req->env, c.nonce);
    *ret_ceremony = c;
    return ST_OK;
}

enum status ceremony_recipients(struct req *req, const struct ceremony *c,
                                struct sys_recipients *ret_recipients)
{
    ASSERT(c->phase != CEREMONY_NONE || c->recipients.len == 0);
    return sys_recipients_decode(req->arena, c->recipients, ret_recipients);
}

static void encode_rekey(const struct ceremony_rekey *k, struct buf *out)
{
    size_t issued = k->key.len != 0 ? k->shares.n * k->shares.bytes : 0;
    ASSERT(k->shares.n <= SHAMIR_SHARES_MAX && k->shares.threshold <= k->shares.n);
    ASSERT(k->key.len == 0 || k->key.len == SEAL_KEY_BYTES);
    buf_add_u8(out, (uint8_t)k->shares.n);
    buf_add_u8(out, (uint8_t)k->shares.threshold);
    buf_add_u8(out, k->verify);
    buf_add_block(out, bytes_str(k->nonce));
    buf_add_block(out, k->key);
    buf_add_block(out, bytes_of(k->shares.data, issued));
    buf_add_block(out, k->last);
}

enum status ceremony_save(struct req *req, struct ceremony *c)
{
    CLEANUP(buf_done) struct buf record = {0};
    struct bytes key;

    TRY(ceremony_key(req->arena, c->kind, c->known, &key));
    if (c->phase == CEREMONY_NONE)
        return state_delete(req->txn, key);
    ASSERT(strlen(c->nonce) == TEXT_UUID_LEN);
    ASSERT(c->phase == CEREMONY_GIVING || c->rekey.key.len != 0);
    bool waits = c->known && c->phase != CEREMONY_DONE;
    c->expire_ms = waits ? 0 : req->now_ms + CEREMONY_PATIENCE_MS;
    bool plain = c->recipients.len == 0;
    ASSERT(!plain || !c->backup);
    if (!plain)
        TRY(req_need_feature(req, CEREMONY_RECIPIENTS_FEATURE));
    buf_add_u8(&record, plain ? CEREMONY_PLAIN : CEREMONY_WITH_RECIPIENTS);
    buf_add_u8(&record, (uint8_t)c->phase);
    buf_add_block(&record, bytes_str(c->nonce));
    buf_add_u64(&record, (uint64_t)c->expire_ms);
    buf_add_u64(&record, c->seal.stamp);
    buf_add_block(&record, c->otp);
    buf_add_block(&record, c->given);
    encode_rekey(&c->rekey, &record);
    if (!plain) {
        buf_add_u8(&record, c->backup);
        buf_add_block(&record, c->recipients);
    }
    TRY(buf_status(&record));
    return state_put(req->txn, key, buf_bytes(&record));
}

size_t ceremony_share_bytes(const struct ceremony *c)
{
    unsigned n = c->phase == CEREMONY_VERIFYING ? c->rekey.shares.n : c->seal.shares;
    return n > 1 ? SYS_SHARE_BYTES_MAX : SEAL_KEY_BYTES;
}

unsigned ceremony_progress(const struct ceremony *c)
{
    return (unsigned)(c->given.len / ceremony_share_bytes(c));
}

unsigned ceremony_required(const struct ceremony *c)
{
    return c->phase == CEREMONY_VERIFYING ? c->rekey.shares.threshold : c->seal.threshold;
}

bool ceremony_is_full(const struct ceremony *c)
{
    return ceremony_progress(c) >= ceremony_required(c);
}

enum status ceremony_heed_nonce(struct req *req, const char *own, const char *nonce)
{
    if (nonce != NULL && is_nonce(own, nonce))
        return ST_OK;
    return req_fail(req, ST_INVALID, "incorrect nonce supplied: it is not of this attempt");
}

bool ceremony_is_repeated(struct req *req, const struct ceremony *c, const char *text)
{
    uint8_t share[SYS_SHARE_BYTES_MAX];
    size_t n = 0;
    if (c->rekey.last.len == 0 || text == NULL || sys_share_read(req, text, share, &n) != ST_OK)
        return false;
    bool same = bytes_eq_secret(c->rekey.last, bytes_of(share, n));
    mem_wipe(share, sizeof share);
    return same;
}

static bool was_given(const struct ceremony *c, struct bytes share)
{
    bool found = false;
    ASSERT(share.len > 0 && c->given.len % share.len == 0);
    for (size_t i = 0; i < c->given.len; i += share.len)
        found |= bytes_eq_secret(bytes_of(c->given.data + i, share.len), share);
    return found;
}

enum status ceremony_give(struct req *req, struct ceremony *c, const char *text)
{
    size_t bytes = ceremony_share_bytes(c), n = 0;
    uint8_t share[SYS_SHARE_BYTES_MAX];

    ASSERT(ceremony_is_under_way(c));
    ASSERT(c->given.len % bytes == 0);
    if (text == NULL || text[0] == '\0')
        return req_fail(req, ST_INVALID, "'key' must be specified in request body as JSON");
    TRY(sys_share_read(req, text, share, &n));
    enum status st = ST_OK;
    uint8_t *grown = arena_alloc(req->arena, c->given.len + bytes);
    if (grown == NULL)
        st = ST_NOMEM;
    else if (n != bytes)
        st = req_fail(req, ST_INVALID, "key: a share of %zu bytes is expected, not one of %zu",
                      bytes, n);
    else if (was_given(c, bytes_of(share, n)))
        st = req_fail(req, ST_INVALID, "this key was given before in this attempt");
    if (st == ST_OK) {
        if (c->given.len != 0)
            memcpy(grown, c->given.data, c->given.len);
        memcpy(grown + c->given.len, share, n);
        c->given = bytes_of(grown, c->given.len + n);
    }
    mem_wipe(share, sizeof share);
    return st;
}

static enum status check_key(struct req *req, struct bytes key)
{
    TRY(state_check_key(req->txn, key));
    return state_learn_key(req->txn, key);
}

enum status ceremony_check(struct req *req, const struct ceremony *c)
{
    uint8_t key[SEAL_KEY_BYTES];
    size_t bytes = ceremony_share_bytes(c);
    enum status st = ST_OK;

    ASSERT(ceremony_is_full(c));
    if (bytes == SEAL_KEY_BYTES)
        memcpy(key, c->given.data, bytes);
    else
        st = shamir_combine(c->given.data, ceremony_progress(c), bytes, key);
    struct bytes made = bytes_of(key, sizeof key);
    if (st == ST_OK && c->phase == CEREMONY_VERIFYING)
        st = bytes_eq_secret(made, c->rekey.key) ? ST_OK : ST_DENIED;
    else if (st == ST_OK)
        st = check_key(req, made);
    mem_wipe(key, sizeof key);
    return st == ST_INVALID ? ST_DENIED : st;
}

enum status ceremony_refuse(struct req *req, const char *text)
{
    struct text_writer w = req_reply_begin(req);
    req->reply.http = 400;
    text_open_object(&w);
    secrets_put_errors(&w, text);
    text_close(&w);
    return req_reply_end(req);
}

/* Stage the end of the attempt at `key` if the attempt has expired or was begun under another seal.
 * `seal` is the stamp of the present seal. */
static enum status end_if_over(struct state_txn *txn, struct bytes key, int64_t now_ms,
                               uint64_t seal)
{
    struct ceremony c = {0};
    struct state_value stored;

    enum status st = state_get(txn, key, &stored);
    if (st == ST_OK)
        st = decode(stored.value, &c);
    bool waits = c.expire_ms == 0 || c.expire_ms > now_ms;
    if (st == ST_OK && waits && c.seal.stamp == seal)
        return ST_OK;
    return st == ST_OK || st == ST_CORRUPT ? state_delete(txn, key) : st;
}

enum status sys_ceremony_upkeep(struct state_txn *txn, int64_t now_ms)
{
    struct state_walk walk;
    struct seal_info info;
    state_walk(txn, BYTES(CEREMONY_PREFIX), &walk);
    while (state_walk_next(&walk)) {
        TRY(state_seal_read(txn, &info));
        TRY(end_if_over(txn, walk.key, now_ms, info.stamp));
    }
    return ST_OK;
}
