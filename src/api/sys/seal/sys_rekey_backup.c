/* Copies of new shares that were encrypted with PGP keys: for a holder who lost the reply. One
 * backup of each kind, stored under the local key ring until it is deleted or replaced:
 *
 *   l/rekey-backup/KIND    version u8 = 1, block nonce of the attempt, then for each share
 *                          block fingerprint in hex, block message in base64 */
#include "api/sys/seal/sys_rekey.h"
#include "api/sys/sys.h"
#include "text/encode.h"

enum { BACKUP_FORMAT = 1 };

static struct bytes backup_key(enum ceremony_kind kind)
{
    return kind == CEREMONY_RECOVERY ? BYTES(STATE_LOCAL "rekey-backup/recovery")
                                     : BYTES(STATE_LOCAL "rekey-backup/seal");
}

enum status sys_rekey_backup_save(struct req *req, const struct ceremony *c,
                                  const struct sys_shares_text *keys)
{
    CLEANUP(buf_drop) struct buf record = {0};
    struct sys_recipients to = {0};
    struct field_strings prints;
    TRY(ceremony_recipients(req, c, &to));
    TRY(sys_recipients_fingerprints(req, &to, &prints));
    ASSERT(prints.n == keys->base64.n && prints.n != 0); /* never shares in the clear */
    buf_add_u8(&record, BACKUP_FORMAT);
    buf_add_block(&record, bytes_str(c->nonce));
    for (size_t i = 0; i < prints.n; i++) {
        buf_add_block(&record, bytes_str(prints.items[i]));
        buf_add_block(&record, bytes_str(keys->base64.items[i]));
    }
    TRY(buf_status(&record));
    return state_put(req->txn, backup_key(c->kind), buf_bytes(&record));
}

/* Messages by fingerprint: {"FINGERPRINT": ["MESSAGE", …], …} */
struct backup_out {
    const char *nonce;
    const struct text_value *keys, *keys_base64;
};
static const struct field backup_fields[] = {
    FIELD(struct backup_out, nonce, STRING),
    FIELD(struct backup_out, keys, VALUE),
    FIELD(struct backup_out, keys_base64, VALUE),
};
static const struct schema sys_rekey_backup_reply = SCHEMA(struct backup_out, backup_fields);

/* Add a message to the list of a fingerprint, of which the same person may have several. */
static enum status list_add(struct arena *arena, struct text_value *object, struct bytes name,
                            struct bytes text)
{
    struct text_value *list = object->first;
    ASSERT(object->kind == TEXT_OBJECT && name.len != 0);
    while (list != NULL && !bytes_eq(list->name, name))
        list = list->next;
    if (list == NULL)
        list = text_value_new(arena, object, TEXT_LIST, name);
    struct text_value *item =
        list != NULL ? text_value_new(arena, list, TEXT_STRING, (struct bytes){0}) : NULL;
    if (item == NULL)
        return ST_NOMEM;
    item->text = text;
    return ST_OK;
}

static enum status hex_of(struct arena *arena, struct bytes base64, struct bytes *ret_hex)
{
    uint8_t *message = arena_alloc(arena, TEXT_BASE64_BYTES(base64.len));
    char *hex = arena_alloc(arena, TEXT_HEX_LEN(TEXT_BASE64_BYTES(base64.len)) + 1);
    size_t n = 0;
    if (message == NULL || hex == NULL)
        return ST_NOMEM;
    if (text_base64_parse(base64, message, &n) != ST_OK)
        return ST_CORRUPT;
    ASSERT(n <= TEXT_BASE64_BYTES(base64.len));
    text_hex_put(bytes_of(message, n), hex);
    *ret_hex = bytes_str(hex);
    return ST_OK;
}

static enum status backup_decode(struct arena *arena, struct bytes stored, struct backup_out *ret)
{
    struct reader r = reader_of(stored);
    struct text_value *hex = text_value_new(arena, NULL, TEXT_OBJECT, (struct bytes){0});
    struct text_value *base64 = text_value_new(arena, NULL, TEXT_OBJECT, (struct bytes){0});
    uint8_t format = reader_u8(&r);
    ret->nonce = arena_str(arena, reader_block(&r));
    if (hex == NULL || base64 == NULL || ret->nonce == NULL)
        return ST_NOMEM;
    while (!r.failed && reader_left(&r) != 0) {
        struct bytes fingerprint = reader_block(&r), message = reader_block(&r), as_hex;
        if (r.failed || fingerprint.len == 0)
            return ST_CORRUPT;
        TRY(hex_of(arena, message, &as_hex));
        TRY(list_add(arena, hex, fingerprint, as_hex));
        TRY(list_add(arena, base64, fingerprint, message));
    }
    ASSERT(hex->n == base64->n);
    ret->keys = hex;
    ret->keys_base64 = base64;
    return r.failed || format != BACKUP_FORMAT ? ST_CORRUPT : ST_OK;
}

static enum status sys_rekey_backup_read(struct req *req)
{
    struct backup_out out = {0};
    struct state_value stored;
    enum status st = state_get(req->txn, backup_key(sys_rekey_kind(req)), &stored);
    ASSERT(req->token != NULL);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "no backed-up keys found");
    if (st == ST_OK)
        st = backup_decode(req->arena, stored.value, &out);
    if (st == ST_CORRUPT)
        return req_fail(req, ST_INVALID,
                        "the backed-up keys cannot be read: a restored snapshot replaced the state "
                        "that they belong to");
    TRY(st);
    return req_reply(req, &out);
}

static enum status sys_rekey_backup_delete(struct req *req)
{
    ASSERT(req->token != NULL);
    return state_delete(req->txn, backup_key(sys_rekey_kind(req)));
}

#define BACKUP_ROWS(at, key, more)                                                           \
    {.method = METHOD_GET,                                                                   \
     .path = at,                                                                             \
     .handler = sys_rekey_backup_read,                                                       \
     .flags = ROUTE_OPERATOR | (more),                                                       \
     .reply = &sys_rekey_backup_reply,                                                       \
     .help = "The backup of the new shares of the " key                                      \
             ", encrypted, by the fingerprint of each holder's PGP key."},                   \
    {                                                                                        \
        .method = METHOD_DELETE, .path = at, .handler = sys_rekey_backup_delete,             \
        .flags = ROUTE_OPERATOR,                                                             \
        .help = "Delete the backup of the new shares of the " key "; no backup is no error." \
    }

static const struct route backup_routes[] = {
    BACKUP_ROWS("rekey/backup", "seal's key", ROUTE_TOP_LEVEL),
    BACKUP_ROWS("rekey/recovery-key-backup", "recovery key", ROUTE_TOP_LEVEL),
    BACKUP_ROWS("rotate/root/backup", "seal's key", 0),
    BACKUP_ROWS("rotate/recovery/backup", "recovery key", 0),
};

const struct route_table sys_rekey_backup_table = {backup_routes, ARRAY_LEN(backup_routes)};
