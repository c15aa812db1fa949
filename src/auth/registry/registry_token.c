#include "auth/registry/registry_token.h"
#include "auth/registry/registry_link.h"
#include "base/record.h"

static const struct record_field part_fields[] = {
    RECORD_BITS_BYTE,
    RECORD_FIELD(struct registry_token, local, FLAG, .mask = 1),
    RECORD_FIELD(struct registry_token, secret, TEXT0, .secret = true,
                 .help = "as the client chose it"),
    RECORD_FIELD(struct registry_token, description, TEXT0),
    RECORD_FIELD(struct registry_token, hash, FIXED),
};
static const struct record part_record = {RECORD(struct registry_token, part_fields),
                                          .name = "registry/token",
                                          .where = "Part of the record of a token", .newest = 1};
RECORD_LISTED(part_record);

void registry_token_put_part(const struct registry_token *token, struct buf *out)
{
    record_encode(&part_record, token, out);
}

enum status registry_token_read_part(struct bytes part, struct registry_token *ret_token)
{
    return record_decode(&part_record, part, NULL, ret_token);
}

enum status registry_token_key(struct arena *arena, const char *ns, const char *id,
                               struct bytes *ret_key)
{
    struct bytes prefix;
    ASSERT(id[0] != '\0');
    TRY(token_store_kind_prefix(arena, ns, TOKEN_REGISTRY, &prefix));
    const char *key = arena_format(arena, "%.*s%s", (int)prefix.len, (const char *)prefix.data, id);
    if (key == NULL)
        return ST_NOMEM;
    *ret_key = bytes_str(key);
    return ST_OK;
}

enum status registry_token_of(const struct auth_scope *scope, const struct auth_token *stored,
                              struct registry_token *ret_token)
{
    struct registry_token token = {.accessor = stored->accessor,
                                   .links = stored->policies,
                                   .created_ms = stored->created_ms,
                                   .expire_ms = stored->expire_ms};
    struct state_value indexed;
    struct bytes key;
    ASSERT(stored->kind == TOKEN_REGISTRY);
    TRY(registry_token_read_part(stored->part, &token));
    TRY(registry_token_key(scope->txn->arena, scope->ns, stored->id, &key));
    TRY(state_get(scope->txn, key, &indexed));
    token.created = indexed.created;
    token.modified = indexed.modified;
    *ret_token = token;
    return ST_OK;
}

/* How many parts a link has in the hash, or more. */
static size_t count_parts(const char *link)
{
    size_t n = 2;
    for (; *link != '\0'; link++)
        n += *link == ',';
    return n;
}

/* Description, "local" or "global", ids of policies, then names and datacenters of identities,
 * without anything between them (A6). */
static enum status hash_token(struct arena *arena, struct registry_token *token)
{
    size_t room = 2;
    for (size_t i = 0; i < token->links.n; i++)
        room += count_parts(token->links.items[i]);
    struct bytes dc, *parts = arena_alloc(arena, room * sizeof *parts);
    if (parts == NULL)
        return ST_NOMEM;
    size_t n = 0;
    parts[n++] = bytes_str(token->description);
    parts[n++] = token->local ? BYTES("local") : BYTES("global");
    for (size_t i = 0; i < token->links.n; i++) {
        const struct registry_link link = registry_link_read(bytes_str(token->links.items[i]));
        struct bytes rest = link.datacenters;
        parts[n++] = link.name;
        while (registry_link_next_datacenter(&rest, &dc))
            parts[n++] = dc;
    }
    ASSERT(n <= room);
    crypto_blake2b256(parts, n, token->hash);
    return ST_OK;
}

/* The record of a token. `part` holds the bytes that the record borrows. */
static enum status fill_record(const struct auth_scope *scope, struct registry_token *token,
                               struct buf *part, struct auth_token *record)
{
    ASSERT(token->accessor[0] != '\0' && token->secret[0] != '\0');
    ASSERT(token->links.n <= REGISTRY_TOKEN_LINKS_MAX);
    TRY(hash_token(scope->txn->arena, token));
    registry_token_put_part(token, part);
    record->policies = token->links;
    record->part = buf_bytes(part);
    return buf_status(part);
}

enum status registry_token_add(const struct auth_scope *scope, struct registry_token *token)
{
    CLEANUP(buf_done) struct buf part = {0};
    struct auth_token record = auth_token_of_kind(TOKEN_REGISTRY);
    record.accessor = token->accessor;
    record.created_ms = token->created_ms;
    record.expire_ms = token->expire_ms;
    TRY(fill_record(scope, token, &part, &record));
    return auth_token_add(scope, bytes_str(token->secret), &record);
}

enum status registry_token_put(const struct auth_scope *scope, const struct auth_token *stored,
                               struct registry_token *token)
{
    CLEANUP(buf_done) struct buf part = {0};
    struct auth_token record = *stored;
    ASSERT(strcmp(stored->accessor, token->accessor) == 0);
    ASSERT(stored->expire_ms == token->expire_ms);
    TRY(fill_record(scope, token, &part, &record));
    return token_store_put(scope, &record);
}

enum status registry_token_put_anonymous(const struct auth_scope *scope)
{
    static const char *const texts[] = {REGISTRY_TOKEN_ANONYMOUS_SECRET, REGISTRY_ANONYMOUS};
    struct registry_token token = {.accessor = REGISTRY_ANONYMOUS,
                                   .secret = REGISTRY_TOKEN_ANONYMOUS_SECRET,
                                   .description = "Anonymous Token",
                                   .created_ms = scope->now_ms};
    bool used = false;
    for (size_t i = 0; i < ARRAY_LEN(texts) && !used; i++)
        TRY(auth_token_is_used(scope, bytes_str(texts[i]), &used));
    return used ? ST_OK : registry_token_add(scope, &token);
}
