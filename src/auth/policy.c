#include "auth/policy.h"
#include "auth/namespace.h"
#include "text/schema.h"
#include "text/utf8.h"

#define POLICY_KIND "policy"

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

/* What every token may do unless it was made without: look after itself. */
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

/* A token that carries a wrapped answer may fetch it. */
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
    *ret_name = name;
    return ST_OK;
}

/* Stored policies: one object, so that more can stand beside the text. */

struct record {
    const char *policy;
};
static const struct field record_fields[] = {
    FIELD(struct record, policy, STRING, .required = true),
};
static const struct schema record_schema = SCHEMA(struct record, record_fields);

enum status policy_key(struct arena *arena, const char *ns, struct bytes name,
                       struct bytes *ret_key)
{
    return auth_key(arena, ns, POLICY_KIND, name, NULL, ret_key);
}

static enum status decode(struct state_txn *txn, struct bytes stored, struct bytes *ret_text)
{
    const struct text_value *object;
    struct record record;
    struct schema_fault fault;
    enum status st = text_json_parse(txn->arena, stored, &object, NULL);
    if (st == ST_OK && object->kind != TEXT_OBJECT)
        st = ST_CORRUPT;
    if (st == ST_OK)
        st = schema_decode(&record_schema, object, txn->arena, &record, &fault);
    if (st != ST_OK)
        return st == ST_NOMEM ? st : ST_CORRUPT;
    *ret_text = bytes_str(record.policy);
    return ST_OK;
}

/* "root" and "response-wrapping" mean what they mean, whatever is stored. */
static bool is_fixed(struct bytes name)
{
    return text_is(name, AUTH_POLICY_ROOT) || text_is(name, POLICY_WRAPPING);
}

enum status policy_load(struct state_txn *txn, const char *ns, struct bytes name,
                        struct bytes *ret_text)
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
        *ret_text = bytes_str(builtin);
        return ST_OK;
    }
    TRY(st);
    return decode(txn, stored.value, ret_text);
}

enum status policy_save(struct state_txn *txn, const char *ns, struct bytes name, struct bytes text)
{
    CLEANUP(buf_done) struct buf stored = {0};
    struct text_writer w = {.out = &stored, .plain = true};
    struct bytes key;

    ASSERT(name.len != 0 && !is_fixed(name));
    TRY(policy_key(txn->arena, ns, name, &key));
    text_open_object(&w);
    text_key(&w, "policy");
    text_put_bytes(&w, text);
    text_close(&w);
    TRY(buf_status(&stored));
    return state_put(txn, key, buf_bytes(&stored));
}

enum status policy_found(struct state_txn *txn, const char *ns)
{
    return policy_save(txn, ns, BYTES(POLICY_DEFAULT), bytes_str(default_text));
}
