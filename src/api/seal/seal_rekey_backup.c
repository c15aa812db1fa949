/* Copies of new shares that were encrypted with PGP keys: for a holder who lost the reply. One
 * backup of each kind, stored under the local key ring until it is deleted or replaced. */
#include "api/seal/seal.h"
#include "api/seal/seal_rekey.h"
#include "barrier/shamir.h"
#include "state/state_record.h"
#include "text/encode.h"

#define BACKUPS STATE_LOCAL "rekey-backup/"

struct backup_message {
    struct bytes fingerprint, message;
};
struct backup {
    struct bytes nonce;
    struct backup_message *messages;
    size_t n;
};
static const struct record_field message_fields[] = {
    RECORD_FIELD(struct backup_message, fingerprint, BLOCK, .min = 1, .help = "in hex"),
    RECORD_FIELD(struct backup_message, message, BLOCK, .help = "a share, encrypted, in base64"),
};
static const struct record message_record = {RECORD(struct backup_message, message_fields),
                                             .name = "seal/rekey-message"};
static const struct record_field backup_record_fields[] = {
    RECORD_FIELD(struct backup, nonce, BLOCK, .help = "of the attempt"),
    RECORD_ITEMS("messages", struct backup, messages, n, LIST_END, &message_record,
                 .max = SHAMIR_SHARES_MAX),
};
static const struct record backup_record = {RECORD(struct backup, backup_record_fields),
                                            .name = "seal/rekey-backup", .key = BACKUPS,
                                            .newest = 1};
RECORD_LISTED(backup_record);

static struct bytes backup_key(enum ceremony_kind kind)
{
    return kind == CEREMONY_RECOVERY ? BYTES(BACKUPS "recovery") : BYTES(BACKUPS "seal");
}

enum status seal_rekey_backup_save(struct req *req, const struct ceremony *c,
                                   const struct seal_shares_text *keys)
{
    struct backup backup = {.nonce = bytes_str(c->nonce)};
    struct seal_recipients to = {0};
    struct field_strings prints;
    TRY(ceremony_recipients(req, c, &to));
    TRY(seal_recipients_fingerprints(req, &to, &prints));
    ASSERT(prints.n == keys->base64.n && prints.n != 0); /* never shares in the clear */
    backup.messages = arena_alloc(req->arena, prints.n * sizeof *backup.messages);
    if (backup.messages == NULL)
        return ST_NOMEM;
    for (; backup.n < prints.n; backup.n++)
        backup.messages[backup.n] = (struct backup_message){
            bytes_str(prints.items[backup.n]), bytes_str(keys->base64.items[backup.n])};
    return state_put_record(req->txn, backup_key(c->kind), &backup_record, &backup);
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
static const struct schema seal_rekey_backup_reply = SCHEMA(struct backup_out, backup_fields);

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

static enum status show_messages(struct arena *arena, const struct backup *backup,
                                 struct backup_out *ret)
{
    struct text_value *hex = text_value_new(arena, NULL, TEXT_OBJECT, (struct bytes){0});
    struct text_value *base64 = text_value_new(arena, NULL, TEXT_OBJECT, (struct bytes){0});
    ASSERT(backup->n <= SHAMIR_SHARES_MAX);
    ret->nonce = arena_str(arena, backup->nonce);
    if (hex == NULL || base64 == NULL || ret->nonce == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < backup->n; i++) {
        const struct backup_message *m = &backup->messages[i];
        struct bytes as_hex;
        TRY(hex_of(arena, m->message, &as_hex));
        TRY(list_add(arena, hex, m->fingerprint, as_hex));
        TRY(list_add(arena, base64, m->fingerprint, m->message));
    }
    ASSERT(hex->n == base64->n);
    ret->keys = hex;
    ret->keys_base64 = base64;
    return ST_OK;
}

static enum status seal_rekey_backup_read(struct req *req)
{
    struct backup_out out = {0};
    struct backup backup = {0};
    enum status st =
        state_get_record(req->txn, backup_key(seal_rekey_kind(req)), &backup_record, &backup);
    ASSERT(req->token != NULL);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "no backed-up keys found");
    if (st == ST_OK)
        st = show_messages(req->arena, &backup, &out);
    if (st == ST_CORRUPT)
        return req_fail(req, ST_INVALID,
                        "the backed-up keys cannot be read: a restored snapshot replaced the state "
                        "that they belong to");
    TRY(st);
    return req_reply(req, &out);
}

static enum status seal_rekey_backup_delete(struct req *req)
{
    ASSERT(req->token != NULL);
    return state_delete(req->txn, backup_key(seal_rekey_kind(req)));
}

#define BACKUP_ROWS(at, key, form_)                                                          \
    {.method = METHOD_GET,                                                                   \
     .path = at,                                                                             \
     .handler = seal_rekey_backup_read,                                                      \
     .when = WHEN_MAINTENANCE,                                                               \
     .form = (form_),                                                                        \
     .reply = &seal_rekey_backup_reply,                                                      \
     .help = "The backup of the new shares of the " key                                      \
             ", encrypted, by the fingerprint of each holder's PGP key."},                   \
    {                                                                                        \
        .method = METHOD_DELETE, .path = at, .handler = seal_rekey_backup_delete,            \
        .when = WHEN_MAINTENANCE,                                                            \
        .help = "Delete the backup of the new shares of the " key "; no backup is no error." \
    }

static const struct route backup_routes[] = {
    BACKUP_ROWS("rekey/backup", "seal's key", FORM_TOP_LEVEL),
    BACKUP_ROWS("rekey/recovery-key-backup", "recovery key", FORM_TOP_LEVEL),
    BACKUP_ROWS("rotate/root/backup", "seal's key", FORM_ENVELOPE),
    BACKUP_ROWS("rotate/recovery/backup", "recovery key", FORM_ENVELOPE),
};

const struct route_table seal_rekey_backup_table = {backup_routes, ARRAY_LEN(backup_routes)};
