/* The operations of tokenization besides encode and decode: fields, replies, routes. */
#include "api/transform/transform.h"
#include "api/transform/transform_token.h"

#define IN(member, kind, ...) FIELD(struct code_in, member, kind, __VA_ARGS__)
#define ITEM_FIELDS                                                                    \
    IN(transformation, STRING,                                                         \
       .help = "Name of the transformation; not needed where the role has one only."), \
        IN(reference, STRING, .help = "Given back with the result of a batch item.")
#define BATCH_FIELDS                                                                              \
    IN(batch_input, VALUE,                                                                        \
       .help = "A list of up to 1000 objects with the fields above, which then count instead of " \
               "those of the request. Where the fields stand in the query: as JSON text."),       \
        IN(partial_failure_response_code, INT,                                                    \
           .help = "The status of a reply to a batch in which an item failed, instead of 400.")

/* item and body of an operation whose fields of its own are FIELDS */
#define OP(name, kind_, ...)                                                                   \
    static const struct field name##_item_fields[] = {__VA_ARGS__, ITEM_FIELDS};               \
    static const struct schema name##_item = SCHEMA(struct code_in, name##_item_fields);       \
    static const struct field name##_body_fields[] = {__VA_ARGS__, ITEM_FIELDS, BATCH_FIELDS}; \
    static const struct schema name##_body = SCHEMA(struct code_in, name##_body_fields);       \
    static const struct code_op name##_op = {.kind = kind_, .item = &name##_item}

#define TOKEN_VALUE IN(value, STRING, .help = "The token; required without batch_input.")
#define PLAIN_VALUE IN(value, STRING, .help = "The value; required without batch_input.")
#define RANGE                                                                                    \
    IN(expiration, STRING,                                                                       \
       .help =                                                                                   \
           "Tokens that end at this time alone; any: all tokens. Without it: tokens that never " \
           "end."),                                                                              \
        IN(min_expiration, STRING,                                                               \
           .help = "With max_expiration: tokens that end at this time or later."),               \
        IN(max_expiration, STRING, .help = "Tokens that end at this time or earlier.")

OP(validate, CODE_VALIDATE, TOKEN_VALUE);
OP(tokenized, CODE_TOKENIZED, PLAIN_VALUE);
OP(metadata, CODE_METADATA, TOKEN_VALUE);
OP(tokens, CODE_TOKENS, PLAIN_VALUE, RANGE);
OP(delete_value, CODE_DELETE_VALUE, PLAIN_VALUE, RANGE);
OP(delete_token, CODE_DELETE_TOKEN,
   IN(token, STRING, .help = "The token; required without batch_input."));

/* A field of a result, in the items of a batch and in the reply to a single value. */
#define RESULT(text, member, kind, ...) \
    FIELD_NAMED(text, struct code_result, member, kind, .omit = true, __VA_ARGS__)
#define ONE(text, member, kind, ...) \
    FIELD_NAMED(text, struct code_reply, one.member, kind, .omit = true, __VA_ARGS__)
#define REST                                                                                \
    FIELD(struct code_result, error, STRING, .omit = true, .help = "Why the item failed."), \
        FIELD(struct code_result, reference, STRING, .omit = true, .help = "Of the item.")
#define RESULTS(batch)                                                           \
    FIELD(struct code_reply, batch_results, LIST, .sub = &(batch), .omit = true, \
          .help = "One result for each item, in their order.")

static const struct field valid_result_fields[] = {
    RESULT("valid", valid, BOOL, .has = offsetof(struct code_result, has_valid),
           .help = "Whether the token can be decoded now."),
    REST};
static const struct schema valid_result = SCHEMA(struct code_result, valid_result_fields);
static const struct field valid_fields[] = {RESULTS(valid_result),
                                            ONE("valid", valid, BOOL,
                                                .has = offsetof(struct code_reply, one.has_valid),
                                                .help = "Whether the token can be decoded now.")};
static const struct schema valid_reply = SCHEMA(struct code_reply, valid_fields);

static const struct field tokenized_result_fields[] = {
    RESULT("tokenized", tokenized, BOOL, .has = offsetof(struct code_result, has_tokenized),
           .help = "Whether the value has a token that has not ended."),
    REST};
static const struct schema tokenized_result = SCHEMA(struct code_result, tokenized_result_fields);
static const struct field tokenized_fields[] = {
    RESULTS(tokenized_result),
    ONE("tokenized", tokenized, BOOL, .has = offsetof(struct code_reply, one.has_tokenized),
        .help = "Whether the value has a token that has not ended.")};
static const struct schema tokenized_reply = SCHEMA(struct code_reply, tokenized_fields);

static const struct field metadata_result_fields[] = {
    RESULT("metadata", metadata, JSON, .has = offsetof(struct code_result, has_metadata),
           .help = "Names and their values."),
    RESULT("expiration_time", expire_ms, TIME, .help = "When the token ends; absent: never."),
    REST};
static const struct schema metadata_result = SCHEMA(struct code_result, metadata_result_fields);
static const struct field metadata_fields[] = {
    RESULTS(metadata_result),
    ONE("metadata", metadata, JSON, .has = offsetof(struct code_reply, one.has_metadata),
        .help = "Names and their values."),
    ONE("expiration_time", expire_ms, TIME, .help = "When the token ends; absent: never.")};
static const struct schema metadata_reply = SCHEMA(struct code_reply, metadata_fields);

static const struct field tokens_result_fields[] = {
    RESULT("tokens", tokens, STRINGS, .has = offsetof(struct code_result, tokens.given),
           .help = "The tokens of the value, in the order of their ends."),
    REST};
static const struct schema tokens_result = SCHEMA(struct code_result, tokens_result_fields);
static const struct field tokens_fields[] = {
    RESULTS(tokens_result),
    ONE("tokens", tokens, STRINGS, .has = offsetof(struct code_reply, one.tokens.given),
        .help = "The tokens of the value, in the order of their ends.")};
static const struct schema tokens_reply = SCHEMA(struct code_reply, tokens_fields);

static const struct field deleted_result_fields[] = {REST};
static const struct schema deleted_result = SCHEMA(struct code_result, deleted_result_fields);
static const struct field deleted_fields[] = {RESULTS(deleted_result)};
static const struct schema deleted_reply = SCHEMA(struct code_reply, deleted_fields);

static enum status run_op(struct req *req, const struct code_op *op)
{
    struct code_in in = *(const struct code_in *)req_body(req);
    const struct text_value *batch = in.batch_input;
    struct reason why = {0};
    ASSERT(op->item != NULL);
    if (batch != NULL && batch->kind == TEXT_STRING) { /* in a query */
        enum status st = text_json_parse(req->arena, batch->text, &in.batch_input, &why);
        if (st == ST_INVALID || st == ST_TOO_BIG)
            return req_fail(req, ST_INVALID, "batch_input: %s", why.text);
        TRY(st);
    }
    return transform_code_run(req, op, &in);
}

static enum status validate_call(struct req *req)
{
    return run_op(req, &validate_op);
}

static enum status tokenized_call(struct req *req)
{
    return run_op(req, &tokenized_op);
}

static enum status metadata_call(struct req *req)
{
    return run_op(req, &metadata_op);
}

static enum status tokens_call(struct req *req)
{
    return run_op(req, &tokens_op);
}

static enum status delete_token_call(struct req *req)
{
    return run_op(req, &delete_token_op);
}

static enum status delete_value_call(struct req *req)
{
    return run_op(req, &delete_value_op);
}

static const struct route call_routes[] = {
    {.method = METHOD_POST,
     .path = "validate/+role",
     .handler = validate_call,
     .waits = transform_code_waits,
     .outside = transform_code_outside,
     .flags = ROUTE_READS,
     .feature = TRANSFORM_TOKEN_FEATURE,
     .body = &validate_body,
     .reply = &valid_reply,
     .statuses = "any",
     .help = "Whether a token, or each token of batch_input, is genuine, known and not expired."},
    {.method = METHOD_POST,
     .path = "tokenized/+role",
     .handler = tokenized_call,
     .waits = transform_code_waits,
     .outside = transform_code_outside,
     .flags = ROUTE_READS,
     .feature = TRANSFORM_TOKEN_FEATURE,
     .body = &tokenized_body,
     .reply = &tokenized_reply,
     .statuses = "any",
     .help = "Whether a value, or each value of batch_input, has a token. The token is not shown."},
    {.method = METHOD_DELETE,
     .path = "tokenized/+role",
     .handler = delete_value_call,
     .waits = transform_code_waits,
     .outside = transform_code_outside,
     .feature = TRANSFORM_TOKEN_FEATURE,
     .body = &delete_value_body,
     .reply = &deleted_reply,
     .statuses = "204 any",
     .help = "Delete the tokens of a value, or of each value of batch_input, by a convergent "
             "transformation. The fields stand in the query."},
    {.method = METHOD_POST,
     .path = "metadata/+role",
     .handler = metadata_call,
     .waits = transform_code_waits,
     .outside = transform_code_outside,
     .flags = ROUTE_READS,
     .feature = TRANSFORM_TOKEN_FEATURE,
     .body = &metadata_body,
     .reply = &metadata_reply,
     .statuses = "any",
     .help = "The metadata and the end of a token, or of each token of batch_input."},
    {.method = METHOD_POST,
     .path = "tokens/+role",
     .handler = tokens_call,
     .waits = transform_code_waits,
     .outside = transform_code_outside,
     .flags = ROUTE_READS,
     .feature = TRANSFORM_TOKEN_FEATURE,
     .body = &tokens_body,
     .reply = &tokens_reply,
     .statuses = "any",
     .help = "The tokens of a value, or of each value of batch_input, by a convergent "
             "transformation."},
    {.method = METHOD_DELETE,
     .path = "tokens/+role",
     .handler = delete_token_call,
     .waits = transform_code_waits,
     .outside = transform_code_outside,
     .feature = TRANSFORM_TOKEN_FEATURE,
     .body = &delete_token_body,
     .reply = &deleted_reply,
     .statuses = "204 any",
     .help = "Delete a token, or each token of batch_input. The fields stand in the query."},
};
const struct route_table transform_token_call_table = {call_routes, ARRAY_LEN(call_routes)};
