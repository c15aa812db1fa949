#include "auth/scheduler/scheduler_token.h"

#include "base/record.h"
#include "text/random.h"

/* As stored. */
struct part {
    uint8_t type;
    uint32_t uses;
    const char *secret, *name, *subject;
};
static const struct record_field part_fields[] = {
    RECORD_FIELD(struct part, type, U8, .max = SCHEDULER_TOKEN_TYPES - 1),
    RECORD_FIELD(struct part, uses, U32),
    RECORD_FIELD(struct part, secret, TEXT0, .secret = true),
    RECORD_FIELD(struct part, name, TEXT0),
    RECORD_FIELD(struct part, subject, TEXT0, .help = "the node, or the pool of a join token"),
};
static const struct record part_record = {RECORD(struct part, part_fields),
                                          .name = "scheduler/token",
                                          .where = "Part of the record of a token", .newest = 1};
RECORD_LISTED(part_record);

enum status scheduler_token_of(const struct auth_token *stored, struct scheduler_token *ret_token)
{
    struct part part;
    *ret_token = (struct scheduler_token){.accessor = stored->accessor,
                                          .secret = "",
                                          .name = "",
                                          .subject = "",
                                          .policies = stored->policies,
                                          .created_ms = stored->created_ms,
                                          .expire_ms = stored->expire_ms};
    if (stored->kind == TOKEN_SECRETS)
        return ST_OK;
    ASSERT(stored->kind == TOKEN_SCHEDULER);
    TRY(record_decode(&part_record, stored->part, NULL, &part));
    ret_token->type = (enum scheduler_token_type)part.type;
    ret_token->uses = part.uses;
    ret_token->secret = part.secret;
    ret_token->name = part.name;
    ret_token->subject = part.subject;
    return ST_OK;
}

static enum status put_part(const struct scheduler_token *token, struct buf *part,
                            struct auth_token *record)
{
    const struct part stored = {(uint8_t)token->type, token->uses, token->secret, token->name,
                                token->subject};
    record_encode(&part_record, &stored, part);
    record->policies = token->policies;
    record->part = buf_bytes(part);
    return buf_status(part);
}

static enum status draw(const struct auth_scope *scope, struct env *env, const char **ret_uuid)
{
    char *uuid = arena_alloc(scope->txn->arena, TEXT_UUID_LEN + 1);
    if (uuid == NULL)
        return ST_NOMEM;
    text_uuid(env, uuid);
    *ret_uuid = uuid;
    return ST_OK;
}

enum status scheduler_token_add(const struct auth_scope *scope, struct env *env,
                                struct scheduler_token *token)
{
    CLEANUP(buf_done) struct buf part = {0};
    struct auth_token record = auth_token_of_kind(TOKEN_SCHEDULER);
    bool used = false;
    if (token->secret == NULL)
        TRY(draw(scope, env, &token->secret));
    TRY(draw(scope, env, &token->accessor));
    TRY(auth_token_is_used(scope, bytes_str(token->secret), &used));
    if (used)
        return ST_EXISTS;
    token->created_ms = scope->now_ms;
    record.accessor = token->accessor;
    record.created_ms = token->created_ms;
    record.expire_ms = token->expire_ms;
    TRY(put_part(token, &part, &record));
    return auth_token_add(scope, bytes_str(token->secret), &record);
}

enum status scheduler_token_put(const struct auth_scope *scope, const struct auth_token *stored,
                                const struct scheduler_token *token)
{
    CLEANUP(buf_done) struct buf part = {0};
    struct auth_token record = *stored;
    ASSERT(stored->expire_ms == token->expire_ms);
    TRY(put_part(token, &part, &record));
    return token_store_put(scope, &record);
}
