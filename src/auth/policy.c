#include "auth/policy.h"
#include "state/ns_key.h"
#include "text/schema.h"
#include "text/time.h"
#include "text/utf8.h"

#define POLICY_KIND "policy"
/* The decoded record of a policy: the fields of the schema. */
struct stored {
    const char *text;
    struct policy_record record;
};

static const struct {
    const char *word;
    unsigned cap;
} caps[CAP_KINDS] = {
    {"create", CAP_CREATE},   {"delete", CAP_DELETE}, {"deny", CAP_DENY},
    {"list", CAP_LIST},       {"patch", CAP_PATCH},   {"read", CAP_READ},
    {"recover", CAP_RECOVER}, {"scan", CAP_SCAN},     {"subscribe", CAP_SUBSCRIBE},
    {"sudo", CAP_SUDO},       {"update", CAP_UPDATE},
};

const char *cap_word(unsigned i, unsigned *ret_cap)
{
    ASSERT(i < CAP_KINDS);
    *ret_cap = caps[i].cap;
    return caps[i].word;
}

/* The default policy: a token may look up, renew and revoke itself, and use its cubbyhole. */
static const char default_text[] =
    "# The token itself: look it up, renew it, give it up.\n"
    "path \"auth/token/lookup-self\" {\n    capabilities = [\"read\"]\n}\n"
    "path \"auth/token/renew-self\" {\n    capabilities = [\"update\"]\n}\n"
    "path \"auth/token/revoke-self\" {\n    capabilities = [\"update\"]\n}\n\n"
    "# What it may do.\n"
    "path \"sys/capabilities-self\" {\n    capabilities = [\"update\"]\n}\n"
    "path \"sys/internal/ui/resultant-acl\" {\n    capabilities = [\"read\"]\n}\n\n"
    "# The entity it stands for.\n"
    "path \"identity/entity/id/{{identity.entity.id}}\" {\n    capabilities = [\"read\"]\n}\n"
    "path \"identity/entity/name/{{identity.entity.name}}\" {\n"
    "    capabilities = [\"read\"]\n}\n\n"
    "# Leases whose id it knows.\n"
    "path \"sys/renew\" {\n    capabilities = [\"update\"]\n}\n"
    "path \"sys/leases/renew\" {\n    capabilities = [\"update\"]\n}\n"
    "path \"sys/leases/lookup\" {\n    capabilities = [\"update\"]\n}\n\n"
    "# Its own cubbyhole.\n"
    "path \"cubbyhole/*\" {\n"
    "    capabilities = [\"create\", \"read\", \"update\", \"delete\", \"list\"]\n}\n\n"
    "# Wrapped answers.\n"
    "path \"sys/wrapping/wrap\" {\n    capabilities = [\"update\"]\n}\n"
    "path \"sys/wrapping/lookup\" {\n    capabilities = [\"update\"]\n}\n"
    "path \"sys/wrapping/unwrap\" {\n    capabilities = [\"update\"]\n}\n\n"
    "# Hashes of what it sends.\n"
    "path \"sys/tools/hash\" {\n    capabilities = [\"update\"]\n}\n"
    "path \"sys/tools/hash/*\" {\n    capabilities = [\"update\"]\n}\n\n"
    "# Signing in elsewhere.\n"
    "path \"identity/oidc/provider/+/authorize\" {\n"
    "    capabilities = [\"read\", \"update\"]\n}\n";

/* The policy of wrapping tokens: they may only fetch the wrapped reply. */
static const char wrapping_text[] =
    "path \"cubbyhole/response\" {\n    capabilities = [\"create\", \"read\"]\n}\n"
    "path \"sys/wrapping/unwrap\" {\n    capabilities = [\"update\"]\n}\n";

const char *policy_builtin(struct bytes name)
{
    if (text_is(name, AUTH_POLICY_ROOT))
        return "";
    if (text_is(name, POLICY_DEFAULT))
        return default_text;
    return text_is(name, POLICY_WRAPPING) ? wrapping_text : NULL;
}

enum status policy_name(struct arena *arena, struct bytes text, const char **ret_name)
{
    while (text.len > 0 && text.data[0] == ' ')
        text = bytes_from(text, 1);
    while (text.len > 0 && text.data[text.len - 1] == ' ')
        text.len--;
    if (text.len == 0 || text.len > POLICY_NAME_MAX || !text_printable(text))
        return ST_INVALID;
    char *name = arena_str(arena, text);
    if (name == NULL)
        return ST_NOMEM;
    for (char *c = name; *c != '\0'; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c | 0x20);
    ASSERT(strlen(name) == text.len);
    *ret_name = name;
    return ST_OK;
}

/* Stored policies: a JSON object, so that later builds can add fields beside the text. */

static const struct field record_fields[] = {
    FIELD_NAMED("policy", struct stored, text, STRING, .required = true),
    FIELD_NAMED("version", struct stored, record.version, INT, .omit = true),
    FIELD_NAMED("modified_ms", struct stored, record.modified_ms, INT, .omit = true),
    FIELD_NAMED("expire_ms", struct stored, record.expire_ms, INT, .omit = true),
    FIELD_NAMED("cas_required", struct stored, record.cas_required, BOOL, .omit = true),
};
static const struct schema record_schema = SCHEMA(struct stored, record_fields);

enum status policy_key(struct arena *arena, const char *ns, struct bytes name,
                       struct bytes *ret_key)
{
    return state_ns_key(arena, ns, POLICY_KIND, name, NULL, ret_key);
}

bool policy_has_expired(const struct policy_record *record, int64_t now_ms)
{
    return record->expire_ms != 0 && now_ms >= record->expire_ms;
}

enum status policy_decode(struct arena *arena, struct bytes value,
                          struct policy_record *ret_record)
{
    const struct text_value *object;
    struct stored stored;
    struct schema_fault fault;
    enum status st = text_json_parse(arena, value, &object, NULL);
    if (st == ST_OK && object->kind != TEXT_OBJECT)
        st = ST_CORRUPT;
    if (st == ST_OK)
        st = schema_decode(&record_schema, object, arena, &stored, &fault);
    if (st != ST_OK)
        return st == ST_NOMEM ? st : ST_CORRUPT;
    struct policy_record *r = &stored.record;
    r->text = bytes_str(stored.text);
    if (r->version < 0 || r->modified_ms < 0 || r->modified_ms >= TEXT_TIME_END ||
        r->expire_ms < 0 || r->expire_ms >= TEXT_TIME_END)
        return ST_CORRUPT;
    *ret_record = *r;
    return ST_OK;
}

/* Whether a policy is always built in: a stored record of this name is ignored. */
static bool is_fixed(struct bytes name)
{
    return text_is(name, AUTH_POLICY_ROOT) || text_is(name, POLICY_WRAPPING);
}

enum status policy_load(struct state_txn *txn, const char *ns, struct bytes name,
                        struct policy_record *ret_record)
{
    const char *builtin = policy_builtin(name);
    enum status st = ST_NOT_FOUND;
    struct bytes key;
    struct state_value stored;

    if (!is_fixed(name)) {
        TRY(policy_key(txn->arena, ns, name, &key));
        st = state_get(txn, key, &stored);
    }
    if (st == ST_NOT_FOUND && builtin != NULL) {
        *ret_record = (struct policy_record){.text = bytes_str(builtin)};
        return ST_OK;
    }
    TRY(st);
    return policy_decode(txn->arena, stored.value, ret_record);
}

/* `name` is zero-terminated. */
static enum status move_end(struct state_txn *txn, const char *ns, struct bytes name,
                            int64_t before_ms, int64_t after_ms)
{
    const char *id = (const char *)name.data; /* zero-terminated */
    ASSERT(before_ms >= 0 && before_ms < TEXT_TIME_END);
    ASSERT(after_ms >= 0 && after_ms < TEXT_TIME_END);
    if (before_ms == after_ms)
        return ST_OK;
    if (before_ms != 0)
        TRY(expiry_drop(txn, &policy_expiry, ns, before_ms, id));
    return after_ms != 0 ? expiry_put(txn, &policy_expiry, ns, after_ms, id) : ST_OK;
}

enum status policy_save(struct state_txn *txn, const char *ns, struct bytes name,
                        const struct policy_record *record, int64_t before_expire_ms)
{
    CLEANUP(buf_done) struct buf stored = {0};
    struct text_writer w = {.out = &stored, .plain = true};
    struct bytes key;

    ASSERT(name.len != 0 && !is_fixed(name));
    ASSERT(record->version >= 0);
    ASSERT(record->modified_ms >= 0 && record->modified_ms < TEXT_TIME_END);
    TRY(policy_key(txn->arena, ns, name, &key));
    text_open_object(&w);
    text_key(&w, "policy");
    text_put_bytes(&w, record->text);
    if (record->version != 0)
        text_member_int(&w, "version", record->version);
    if (record->modified_ms != 0)
        text_member_int(&w, "modified_ms", record->modified_ms);
    if (record->expire_ms != 0)
        text_member_int(&w, "expire_ms", record->expire_ms);
    if (record->cas_required)
        text_member_bool(&w, "cas_required", true);
    text_close(&w);
    TRY(buf_status(&stored));
    TRY(move_end(txn, ns, name, before_expire_ms, record->expire_ms));
    return state_put(txn, key, buf_bytes(&stored));
}

enum status policy_delete(struct state_txn *txn, const char *ns, struct bytes name)
{
    struct policy_record record;
    struct bytes key;
    ASSERT(name.len != 0 && !is_fixed(name));
    TRY(policy_key(txn->arena, ns, name, &key));
    enum status st = policy_load(txn, ns, name, &record);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    /* deletion repairs a corrupt record; upkeep deletes the index key when it is due */
    if (st == ST_CORRUPT)
        return state_delete(txn, key);
    TRY(st);
    TRY(move_end(txn, ns, name, record.expire_ms, 0));
    return state_delete(txn, key);
}

/* Delete a policy whose entry of the expiry index has come up. A policy whose record cannot be read
 * is kept without the entry: tokens with this policy are refused until an operator deletes the
 * record. */
static enum status policy_expire(const struct expiry_task *task)
{
    struct policy_record record;
    struct bytes key, name = bytes_str(task->id);
    enum status st = policy_load(task->txn, task->ns, name, &record);
    if (st == ST_CORRUPT || (st == ST_OK && !policy_has_expired(&record, task->now_ms)))
        return ST_NOT_FOUND;
    TRY(st);
    TRY(policy_key(task->txn->arena, task->ns, name, &key));
    return state_delete(task->txn, key);
}

const struct expiry_kind policy_expiry = {
    .name = "policy", .former_end = "policyend", .end = policy_expire};

enum status policy_found(struct state_txn *txn, const char *ns, int64_t now_ms)
{
    const struct policy_record first = {
        .text = bytes_str(default_text), .version = 1, .modified_ms = now_ms};
    return policy_save(txn, ns, BYTES(POLICY_DEFAULT), &first, 0);
}
