/* Operations on values, from encode to the deletion of tokens: their fields and results, and the
 * way through roles and batches. */
#ifndef HOLDFAST_API_TRANSFORM_TRANSFORM_OP_H
#define HOLDFAST_API_TRANSFORM_TRANSFORM_OP_H

#include "router/request/req.h"

struct transform_tokens;

struct code_in {
    const char *value, *transformation, *tweak, *reference;
    const struct text_value *batch_input;
    int64_t partial_failure_response_code;
    /* of tokenization */
    const char *expiration, *min_expiration, *max_expiration, *token;
    const struct text_value *metadata;
    int64_t ttl;
};

struct code_result {
    const char *encoded_value, *decoded_value, *tweak, *error, *reference;
    bool has_encoded_value, has_decoded_value;
    /* of tokenization */
    bool valid, has_valid, tokenized, has_tokenized;
    struct field_strings tokens;
    struct bytes metadata; /* JSON */
    int64_t expire_ms;     /* 0: never */
    bool has_metadata;
};

struct code_reply {
    struct field_list batch_results;
    struct code_result one;
};

enum code_kind {
    CODE_ENCODE,
    CODE_DECODE,
    CODE_VALIDATE,
    CODE_TOKENIZED,
    CODE_METADATA,
    CODE_TOKENS,
    CODE_DELETE_TOKEN,
    CODE_DELETE_VALUE,
};
/* An operation: its kind, and the fields of an item of a batch. */
struct code_op {
    enum code_kind kind;
    const struct schema *item;
};
/* Run an operation on a value, or on each item of `batch_input`, by the role in the path. */
NODISCARD enum status transform_code_run(struct req *req, const struct code_op *op,
                                         const struct code_in *in);
/* The steps of the rows of such operations: stores outside are asked. */
struct req_wait;
void transform_code_waits(struct req *req, struct req_wait *wait);
NODISCARD enum status transform_code_outside(struct req *req);
/* Set the reason for a refusal of this item, and return ST_INVALID. */
struct reason;
enum status transform_refuse(struct reason *why, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Run an operation of a transformation by tokenization. ST_INVALID: the item is refused, with the
 * reason; another status ends the request. */
NODISCARD enum status transform_token_item(struct transform_tokens *tokens, enum code_kind kind,
                                           const struct code_in *in, struct code_result *result,
                                           struct reason *why);
/* About how many bytes metadata has. */
size_t transform_metadata_len(const struct text_value *metadata);

#endif
