/* Ceremonies, stored under the local key ring. Format 2 is written where there are recipients. An
 * older build ignores such an attempt. */
#include "api/seal/seal_ceremony.h"
#include "api/seal/seal_keys.h"
#include "barrier/shamir.h"
#include "base/mem.h"
#include "front/secrets/secrets.h"
#include "state/state_record.h"
#include "text/cidr.h"
#include "text/encode.h"
#include "text/random.h"
#include "text/time.h"

#include <stdio.h>

static const struct field share_fields[] = {
    FIELD(struct seal_share, key, STRING, .hidden = true,
          .help = "One key share, in hex or base64."),
    FIELD(struct seal_share, nonce, STRING, .help = "Of the attempt."),
};
const struct schema seal_share_schema = {.fields = share_fields,
                                         .n = ARRAY_LEN(share_fields),
                                         .size = sizeof(struct seal_share),
                                         .fold_case = true};

#define CEREMONY_PREFIX STATE_LOCAL "ceremony/"

enum { CEREMONY_WITH_RECIPIENTS = 2 }; /* format */

static const char *const kind_names[CEREMONY_KINDS] = {
    [CEREMONY_ROOT] = "generate-root",
    [CEREMONY_REKEY] = "rekey",
    [CEREMONY_RECOVERY] = "rekey-recovery-key",
    [CEREMONY_DR] = "dr-operation-token",
};

static enum status ceremony_key(struct req *req, enum ceremony_kind kind, const char *slot,
                                struct bytes *ret_key)
{
    ASSERT(kind < CEREMONY_KINDS);
    const char *key = arena_format(req->arena, "%s%s/%s", CEREMONY_PREFIX, kind_names[kind], slot);
    if (key == NULL)
        return ST_NOMEM;
    *ret_key = bytes_str(key);
    return ST_OK;
}

enum { ADDRESS_TEXT = TEXT_HEX_LEN(16) + 1, IPV6_NETWORK = 8 };

/* The client's address, as keys have it. Of IPv6 the network: one client has many addresses. */
static void address_of(const struct req *req, char ret_text[ADDRESS_TEXT])
{
    const struct ip ip = ip_port_ip(req->peer != NULL ? req->peer : "");
    size_t len = ip.len == 16 ? IPV6_NETWORK : ip.len;
    (void)snprintf(ret_text, ADDRESS_TEXT, "0"); /* no address: the text fits */
    if (len != 0)
        text_hex_put(bytes_of(ip.bytes, len), ret_text);
}

struct ceremony_bytes {
    struct ceremony c;
    struct bytes issued; /* c.rekey.shares.data */
};

static size_t issued_share_bytes(const struct ceremony_rekey *k)
{
    return k->shares.n > 1 ? SYS_SHARE_BYTES_MAX : SEAL_KEY_BYTES;
}

static bool is_possible(const void *from)
{
    const struct ceremony_bytes *b = from;
    const struct ceremony_rekey *k = &b->c.rekey;
    size_t nonce_len = strlen(k->nonce);
    size_t issued = k->key.len != 0 ? k->shares.n * issued_share_bytes(k) : 0;
    return k->shares.threshold <= k->shares.n && (nonce_len == 0 || nonce_len == TEXT_UUID_LEN) &&
           (k->key.len == 0 || k->key.len == SEAL_KEY_BYTES) && b->issued.len == issued &&
           (b->c.phase == CEREMONY_GIVING || k->key.len != 0) &&
           (!b->c.backup || b->c.recipients.len != 0);
}

static const struct record_field ceremony_fields[] = {
    RECORD_NAMED("phase", struct ceremony_bytes, c.phase, U8, .min = 1, .max = CEREMONY_DONE),
    RECORD_NAMED("nonce", struct ceremony_bytes, c.nonce, TEXT, .min = TEXT_UUID_LEN),
    RECORD_NAMED("expire_ms", struct ceremony_bytes, c.expire_ms, U64, .max = TEXT_EXPIRY_END - 1,
                 .help = "cluster time; 0: never"),
    RECORD_NAMED("seal", struct ceremony_bytes, c.seal.stamp, U64,
                 .help = "stamp of the seal that the attempt was begun under"),
    RECORD_NAMED("otp", struct ceremony_bytes, c.otp, BLOCK, .secret = true,
                 .help = "one-time pad, as text"),
    RECORD_NAMED("given", struct ceremony_bytes, c.given, BLOCK, .secret = true,
                 .help = "the shares that were given"),
    RECORD_NAMED("shares", struct ceremony_bytes, c.rekey.shares.n, U8),
    RECORD_NAMED("threshold", struct ceremony_bytes, c.rekey.shares.threshold, U8),
    RECORD_NAMED("verify", struct ceremony_bytes, c.rekey.verify, U8,
                 .help = "the new shares count once enough of them were given back"),
    RECORD_NAMED("verify_nonce", struct ceremony_bytes, c.rekey.nonce, TEXT),
    RECORD_NAMED("key", struct ceremony_bytes, c.rekey.key, BLOCK, .secret = true,
                 .help = "the key that the new shares make"),
    RECORD_FIELD(struct ceremony_bytes, issued, BLOCK, .secret = true, .help = "the new shares"),
    RECORD_NAMED("last", struct ceremony_bytes, c.rekey.last, BLOCK, .secret = true,
                 .help = "the old share that completed the attempt"),
    RECORD_NAMED("backup", struct ceremony_bytes, c.backup, U8, .since = CEREMONY_WITH_RECIPIENTS,
                 .help = "the encrypted shares are to be kept"),
    RECORD_NAMED("recipients", struct ceremony_bytes, c.recipients, BLOCK,
                 .since = CEREMONY_WITH_RECIPIENTS, .help = "see seal_recipients_encode"),
};
static const struct record ceremony_record = {
    RECORD(struct ceremony_bytes, ceremony_fields), .name = "seal/ceremony", .key = CEREMONY_PREFIX,
    .newest = CEREMONY_WITH_RECIPIENTS, .valid = is_possible};
RECORD_LISTED(ceremony_record);

/* Read a record into an empty attempt. The record holds the stamp of the seal that the attempt was
 * begun under. ST_CORRUPT. */
static enum status decode(struct bytes stored, struct ceremony *ret)
{
    struct ceremony_bytes bytes = {.c = *ret};
    ASSERT(ret->phase == CEREMONY_NONE);
    TRY(record_decode(&ceremony_record, stored, NULL, &bytes));
    bytes.c.rekey.shares.bytes = issued_share_bytes(&bytes.c.rekey);
    bytes.c.rekey.shares.data = bytes.issued.data;
    *ret = bytes.c;
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

/* Read a record. Ignore one that cannot be opened: it belongs to a state that a restore replaced.
 */
static enum status load_stored(struct req *req, const struct ceremony *none, enum status read,
                               struct bytes stored, struct ceremony *ret)
{
    struct ceremony c = *none;
    ASSERT(none->phase == CEREMONY_NONE);
    enum status st = read == ST_OK ? decode(stored, &c) : read;
    if (st != ST_OK && st != ST_NOT_FOUND && st != ST_CORRUPT)
        return st;
    bool over = c.expire_ms != 0 && c.expire_ms <= req->now_ms;
    bool fits = c.seal.stamp == none->seal.stamp && c.given.len % ceremony_share_bytes(&c) == 0 &&
                ceremony_progress(&c) < SHAMIR_SHARES_MAX;
    *ret = st == ST_OK && !over && fits ? c : *none;
    return ST_OK;
}

/* Load the attempt at a key. */
static enum status load(struct req *req, enum ceremony_kind kind, const char *slot,
                        struct ceremony *ret)
{
    struct ceremony none = {.kind = kind, .known = strcmp(slot, "token") == 0};
    struct state_value stored = {0};
    TRY(read_seal(req, &none.seal));
    TRY(ceremony_key(req, kind, slot, &none.key));
    enum status st = state_get(req->txn, none.key, &stored);
    TRY(load_stored(req, &none, st, stored.value, ret));
    ASSERT(ret->kind == kind && ret->known == none.known);
    return ST_OK;
}

/* The attempts that were begun without a token, the oldest first. */
enum { LIST_MAX = 2 * CEREMONY_OPEN_MAX + 1 };
struct open_list {
    struct ceremony items[LIST_MAX];
    unsigned n;
    bool own[LIST_MAX]; /* of the client's address, or of an older build */
};

static enum status load_one_open(struct req *req, struct state_iter *iter, const char *address,
                                 const struct ceremony *none, struct open_list *list)
{
    struct bytes stored = {0};
    struct ceremony *c = &list->items[list->n];
    struct ceremony empty = *none;
    ASSERT(list->n < LIST_MAX && address[0] != '\0');
    const char *key = arena_str(req->arena, iter->key);
    if (key == NULL)
        return ST_NOMEM;
    empty.key = bytes_str(key);
    enum status st = state_iter_value(iter, &stored);
    TRY(load_stored(req, &empty, st, stored, c));
    const char *dash = strrchr(key, '-');
    list->own[list->n++] = dash != NULL && strcmp(dash + 1, address) == 0;
    return ST_OK;
}

static enum status load_open(struct req *req, enum ceremony_kind kind, struct open_list **ret_list)
{
    struct open_list *list = arena_zalloc(req->arena, sizeof *list);
    struct state_iter *iter = arena_alloc(req->arena, sizeof *iter);
    struct ceremony none = {.kind = kind};
    char address[ADDRESS_TEXT];
    struct bytes prefix;
    ASSERT(kind < CEREMONY_KINDS && req_in_txn(req));
    if (list == NULL || iter == NULL)
        return ST_NOMEM;
    TRY(load(req, kind, "open", &list->items[0]));
    list->own[list->n++] = true;
    address_of(req, address);
    none.seal = list->items[0].seal;
    TRY(ceremony_key(req, kind, "open/", &prefix));
    TRY(state_scan(req->txn, prefix, (struct bytes){0}, iter));
    while (list->n < LIST_MAX && state_iter_next(iter))
        TRY(load_one_open(req, iter, address, &none, list));
    ASSERT(list->n > 0 && list->n <= LIST_MAX);
    *ret_list = list;
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

/* The attempt among those without a token that the nonce names, or that the client sees first. */
static const struct ceremony *choose_open(const struct open_list *list, const char *nonce)
{
    for (unsigned other = 0; other < 2; other++)
        for (unsigned i = 0; i < list->n; i++)
            if (list->own[i] != (other == 1) && has_nonce(&list->items[i], nonce))
                return &list->items[i];
    return nonce != NULL ? choose_open(list, NULL) : &list->items[0];
}

enum status ceremony_find(struct req *req, enum ceremony_kind kind, const char *nonce,
                          struct ceremony *ret_ceremony)
{
    struct open_list *list;
    struct ceremony known;
    TRY(load_open(req, kind, &list));
    const struct ceremony *open = choose_open(list, nonce);
    *ret_ceremony = *open;
    if (req->token == NULL)
        return ST_OK;
    TRY(load(req, kind, "token", &known));
    ASSERT(known.known && !open->known);
    if (has_nonce(&known, nonce) || !ceremony_is_under_way(open))
        *ret_ceremony = known;
    return ST_OK;
}

enum status ceremony_find_own(struct req *req, enum ceremony_kind kind,
                              struct ceremony *ret_ceremony)
{
    struct open_list *list;
    if (req->token != NULL)
        return ceremony_find(req, kind, NULL, ret_ceremony);
    TRY(load_open(req, kind, &list));
    ASSERT(list->own[0]); /* of an older build */
    *ret_ceremony = list->items[0];
    for (unsigned i = 0; i < list->n; i++)
        if (list->own[i] && ceremony_is_under_way(&list->items[i])) {
            *ret_ceremony = list->items[i];
            break;
        }
    return ST_OK;
}

/* The key of a new attempt without a token. Records of attempts that are over are deleted. */
static enum status begin_open(struct req *req, enum ceremony_kind kind, struct ceremony *ret)
{
    char address[ADDRESS_TEXT];
    struct open_list *list;
    unsigned under_way = 0;
    ASSERT(req->token == NULL);
    TRY(load_open(req, kind, &list));
    for (unsigned i = 0; i < list->n; i++) {
        bool active = ceremony_is_under_way(&list->items[i]);
        if (active && list->own[i])
            return ST_EXISTS;
        under_way += active;
        if (list->items[i].phase == CEREMONY_NONE || (!active && list->own[i]))
            TRY(state_delete(req->txn, list->items[i].key));
    }
    if (under_way >= CEREMONY_OPEN_MAX || list->n == LIST_MAX)
        return req_fail(req, ST_LIMITED,
                        "%u attempts of other addresses are under way; each ends when no share "
                        "comes for %d minutes. A token that may use this path is not limited",
                        under_way, CEREMONY_PATIENCE_MS / 60000);
    address_of(req, address);
    ASSERT(under_way < CEREMONY_OPEN_MAX && !list->items[0].known);
    *ret = list->items[0];
    const char *slot = arena_format(req->arena, "open/%016llx-%s",
                                    (unsigned long long)MAX(req->now_ms, INT64_C(0)), address);
    if (slot == NULL)
        return ST_NOMEM;
    return ceremony_key(req, kind, slot, &ret->key);
}

enum status ceremony_begin(struct req *req, enum ceremony_kind kind, struct ceremony *ret_ceremony)
{
    struct ceremony c;
    if (req->token != NULL)
        TRY(load(req, kind, "token", &c));
    else
        TRY(begin_open(req, kind, &c));
    ASSERT(c.seal.shares > 0);
    if (req->token != NULL && ceremony_is_under_way(&c))
        return ST_EXISTS;
    c = (struct ceremony){
        .kind = kind, .known = c.known, .key = c.key, .seal = c.seal, .phase = CEREMONY_GIVING};
    text_uuid(req->env, c.nonce);
    *ret_ceremony = c;
    return ST_OK;
}

enum status ceremony_recipients(struct req *req, const struct ceremony *c,
                                struct seal_recipients *ret_recipients)
{
    ASSERT(c->phase != CEREMONY_NONE || c->recipients.len == 0);
    return seal_recipients_decode(req->arena, c->recipients, ret_recipients);
}

enum status ceremony_save(struct req *req, struct ceremony *c)
{
    ASSERT(c->key.len != 0);
    if (c->phase == CEREMONY_NONE)
        return state_delete(req->txn, c->key);
    ASSERT(strlen(c->nonce) == TEXT_UUID_LEN);
    ASSERT(c->phase == CEREMONY_GIVING || c->rekey.key.len != 0);
    ASSERT(c->recipients.len != 0 || !c->backup);
    bool waits = c->known && c->phase != CEREMONY_DONE;
    c->expire_ms = waits ? 0 : req->now_ms + CEREMONY_PATIENCE_MS;
    if (c->recipients.len != 0)
        TRY(req_need_feature(req, CEREMONY_RECIPIENTS_FEATURE));
    const struct ceremony_rekey *k = &c->rekey;
    size_t issued = k->key.len != 0 ? k->shares.n * k->shares.bytes : 0;
    const struct ceremony_bytes bytes = {.c = *c, .issued = bytes_of(k->shares.data, issued)};
    return state_put_record(req->txn, c->key, &ceremony_record, &bytes);
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
    if (c->rekey.last.len == 0 || text == NULL || seal_share_read(req, text, share, &n) != ST_OK)
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
    TRY(seal_share_read(req, text, share, &n));
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

enum status seal_ceremony_upkeep(struct state_txn *txn, int64_t now_ms)
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
