/* Encode and decode, and the way of every operation on values: role, transformation, batch.
 *
 * Both only read the state, so every node that answers reads serves them; a token that is encoded
 * is recorded by the active node. A batch runs on the loop of its worker: its number of items and
 * the bytes of its values are bounded. */
#include "api/transform/transform.h"
#include "api/transform/transform_op.h"
#include "api/transform/transform_sql.h"
#include "api/transform/transform_value.h"
#include "base/buf.h"
#include "crypto/crypto.h"
#include "router/req_judge.h"
#include "text/encode.h"

#include <stdarg.h>
#include <stdio.h>

enum {
    ITEMS_MAX = 1000,
    BATCH_BYTES_MAX = 256 * 1024,
    TWEAK_TEXT_MAX = 1024,
    REFERENCE_MAX = 1024
};

#define ITEM_FIELDS                                                                             \
    FIELD(struct code_in, value, STRING, .help = "The value; required without batch_input."),   \
        FIELD(struct code_in, transformation, STRING,                                           \
              .help = "Name of the transformation; not needed where the role has one only."),   \
        FIELD(struct code_in, tweak, STRING,                                                    \
              .help = "Base64 of the tweak: 7 bytes for ff3-1. Encoding needs it if the tweak " \
                      "source is supplied, decoding if it is supplied or generated."),          \
        FIELD(struct code_in, reference, STRING,                                                \
              .help = "Given back with the result of a batch item.")
/* of tokenization alone */
#define TOKEN_FIELDS                                                                             \
    FIELD(struct code_in, expiration, STRING,                                                    \
          .help = "tokenization: when the token ends, as 2030-01-31T12:00:00Z."),                \
        FIELD(struct code_in, metadata, VALUE,                                                   \
              .help = "tokenization: kept with the token: \"name=value,name=value\", a list of " \
                      "such texts, or an object."),                                              \
        FIELD(struct code_in, ttl, DURATION,                                                     \
              .help = "tokenization: how long the token is valid; 0: max_ttl of the "            \
                      "transformation.")
#define BATCH_FIELDS                                                                              \
    FIELD(struct code_in, batch_input, VALUE,                                                     \
          .help = "A list of up to 1000 objects with the fields above, which then count instead " \
                  "of those of the request."),                                                    \
        FIELD(struct code_in, partial_failure_response_code, INT,                                 \
              .help = "The status of a reply to a batch in which an item failed, instead of 400.")
static const struct field encode_item_fields[] = {ITEM_FIELDS, TOKEN_FIELDS};
static const struct schema encode_item_schema = SCHEMA(struct code_in, encode_item_fields);
static const struct field encode_fields[] = {ITEM_FIELDS, TOKEN_FIELDS, BATCH_FIELDS};
static const struct schema encode_schema = SCHEMA(struct code_in, encode_fields);
static const struct field item_fields[] = {ITEM_FIELDS};
static const struct schema item_schema = SCHEMA(struct code_in, item_fields);
static const struct field code_fields[] = {ITEM_FIELDS, BATCH_FIELDS};
static const struct schema code_schema = SCHEMA(struct code_in, code_fields);

#define RESULT_FIELDS                                                                      \
    FIELD(struct code_result, decoded_value, STRING,                                       \
          .has = offsetof(struct code_result, has_decoded_value), .omit = true,            \
          .help = "The value as it was before."),                                          \
        FIELD(struct code_result, encoded_value, STRING,                                   \
              .has = offsetof(struct code_result, has_encoded_value), .omit = true,        \
              .help = "The encoded value. Decoded items of a batch have their value here " \
                      "too, as upstream's documents show."),                               \
        FIELD(struct code_result, tweak, STRING, .omit = true,                             \
              .help = "The generated tweak, which decoding needs.")
static const struct field batch_fields[] = {
    RESULT_FIELDS,
    FIELD(struct code_result, error, STRING, .omit = true, .help = "Why the item failed."),
    FIELD(struct code_result, reference, STRING, .omit = true, .help = "Of the item."),
};
static const struct schema batch_schema = SCHEMA(struct code_result, batch_fields);

static const struct field reply_fields[] = {
    FIELD(struct code_reply, batch_results, LIST, .sub = &batch_schema, .omit = true,
          .help = "One result for each item, in their order."),
    FIELD_NAMED("decoded_value", struct code_reply, one.decoded_value, STRING,
                .has = offsetof(struct code_reply, one.has_decoded_value), .omit = true,
                .help = "The value as it was before."),
    FIELD_NAMED("encoded_value", struct code_reply, one.encoded_value, STRING,
                .has = offsetof(struct code_reply, one.has_encoded_value), .omit = true,
                .help = "The encoded value."),
    FIELD_NAMED("tweak", struct code_reply, one.tweak, STRING, .omit = true,
                .help = "The generated tweak, which decoding needs."),
};
static const struct schema reply_schema = SCHEMA(struct code_reply, reply_fields);

/* A transformation that the request has asked for. */
struct known {
    const char *name;
    struct transform_shape *shape;
    enum status status; /* of loading it */
    const char *error;
    struct known *next;
};

/* An item that needs rows of stores outside, and runs again. */
struct pending {
    struct transform_tokens *tokens;
    struct code_in in;
    struct code_result *result;
    struct pending *next;
};

struct code {
    struct req *req;
    const struct code_op *op;
    bool decode;
    /* the results: of a batch, or `one` */
    struct code_result *results;
    size_t n;
    int64_t failure_code;
    struct code_reply *one; /* NULL: a batch */
    struct reason refusal;  /* of the one value, in the second run; empty: none */
    struct pending *pending, *last_pending;
    struct transform_chain chain;
    const char **warnings; /* of the first run */
    unsigned n_warnings;
    const char *role_name, *format_name; /* format_name NULL: none */
    struct transform_role role;
    struct known *known;
    struct transform_cost cost;
    bool warned; /* of a value that cannot be decoded */
};

/* "ROLE", and for decode also "ROLE/FORMAT", where the path has no parameter for the format. */
static enum status read_role(struct code *c)
{
    const char *path = req_param(c->req, "role");
    const char *slash = strchr(path, '/');
    c->role_name = path;
    if (slash != NULL) {
        c->role_name = arena_str(c->req->arena, bytes_of(path, (size_t)(slash - path)));
        c->format_name = slash + 1;
        if (c->role_name == NULL)
            return ST_NOMEM;
        if (!c->decode || strchr(c->format_name, '/') != NULL)
            return ST_NOT_FOUND;
    }
    enum status st =
        transform_load(c->req, TRANSFORM_ROLE, c->role_name, &transform_role_schema, &c->role);
    if (st == ST_NOT_FOUND)
        return req_fail(c->req, ST_INVALID, "role \"%.140s\" does not exist", c->role_name);
    return st;
}

/* Of a refusal by this item; other statuses end the request. */
enum status transform_refuse(struct reason *why, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(why->text, sizeof why->text, format, args);
    va_end(args);
    return ST_INVALID;
}

static bool role_is_allowed(const struct code *c, const struct transform_transformation *t)
{
    for (size_t i = 0; i < t->allowed_roles.n; i++)
        if (transform_glob(t->allowed_roles.items[i], c->role_name))
            return true;
    return false;
}

/* Load a transformation of the role once for the request. */
static enum status find_shape(struct code *c, const char *name, struct transform_shape **ret,
                              struct reason *why)
{
    struct known *known = c->known;
    while (known != NULL && strcmp(known->name, name) != 0)
        known = known->next;
    if (known == NULL) {
        known = arena_zalloc(c->req->arena, sizeof *known);
        if (known == NULL)
            return ST_NOMEM;
        *known = (struct known){.name = name, .next = c->known};
        c->known = known;
        known->status = transform_shape_load(c->req, name, &c->cost, &known->shape);
        if (known->status == ST_INVALID) {
            known->error = arena_str(c->req->arena, bytes_str(req_error(c->req)->text));
            req_forget_error(c->req);
            if (known->error == NULL)
                return ST_NOMEM;
        }
    }
    if (known->status == ST_INVALID)
        return transform_refuse(why, "%s", known->error);
    TRY(known->status);
    if (!role_is_allowed(c, &known->shape->transformation))
        return transform_refuse(why, "transformation \"%s\" does not allow the role \"%s\"", name,
                                c->role_name);
    *ret = known->shape;
    return ST_OK;
}

static enum status choose_shape(struct code *c, const struct code_in *in,
                                struct transform_shape **ret, struct reason *why)
{
    const struct field_strings *own = &c->role.transformations;
    const char *name = in->transformation;
    if (name == NULL || name[0] == '\0') {
        if (own->n != 1)
            return transform_refuse(
                why, "transformation: the field is required, because the role has %zu", own->n);
        return find_shape(c, own->items[0], ret, why);
    }
    for (size_t i = 0; i < own->n; i++)
        if (strcmp(own->items[i], name) == 0)
            return find_shape(c, own->items[i], ret, why);
    return transform_refuse(why, "transformation: \"%.128s\" is not of the role \"%s\"", name,
                            c->role_name);
}

/* Read the tweak that a client supplies; line ends inside of it do not count. */
static enum status read_tweak(const struct transform_shape *shape, const char *text,
                              uint8_t ret[FPE_TWEAK_MAX], size_t *ret_len, struct reason *why)
{
    char clean[TWEAK_TEXT_MAX];
    uint8_t bytes[TEXT_BASE64_BYTES(TWEAK_TEXT_MAX)];
    size_t n = 0, len = 0;
    if (text == NULL || text[0] == '\0')
        return transform_refuse(why, "tweak: the field is required");
    for (; *text != '\0' && n < sizeof clean; text++)
        if (*text != '\r' && *text != '\n')
            clean[n++] = *text;
    if (*text != '\0' || text_base64_parse(bytes_of(clean, n), bytes, &len) != ST_OK)
        return transform_refuse(why, "tweak: base64 is expected");
    if (shape->algorithm == FPE_FF1 && (len == 0 || len > FPE_TWEAK_MAX))
        return transform_refuse(why, "tweak: 1 to %d bytes are expected, %zu were given",
                                FPE_TWEAK_MAX, len);
    if (!fpe_takes_tweak(shape->algorithm, len))
        return transform_refuse(why, "tweak: %d bytes are expected, %zu were given",
                                FPE_TWEAK_BYTES, len);
    memcpy(ret, bytes, len);
    *ret_len = len;
    return ST_OK;
}

/* The tweak by the source of the transformation; a generated one becomes part of the result. */
static enum status choose_tweak(struct code *c, const struct transform_shape *shape,
                                const struct code_in *in, struct code_result *result,
                                uint8_t ret[FPE_TWEAK_MAX], size_t *ret_len, struct reason *why)
{
    const char *source = shape->transformation.tweak_source;
    *ret_len = FPE_TWEAK_BYTES;
    if (strcmp(source, "internal") == 0) {
        if (in->tweak != NULL && in->tweak[0] != '\0')
            return transform_refuse(why,
                                    "tweak: it is not accepted with the tweak source internal");
        memcpy(ret, shape->secret.tweak, FPE_TWEAK_BYTES);
        return ST_OK;
    }
    if (c->decode || strcmp(source, "supplied") == 0)
        return read_tweak(shape, in->tweak, ret, ret_len, why);
    char *text = arena_alloc(c->req->arena, TEXT_BASE64_LEN(FPE_TWEAK_BYTES) + 1);
    if (text == NULL)
        return ST_NOMEM;
    TRY(crypto_random(ret, FPE_TWEAK_BYTES));
    (void)text_base64_put(bytes_of(ret, FPE_TWEAK_BYTES), TEXT_BASE64, text);
    result->tweak = text;
    return ST_OK;
}

static enum status choose_format(const struct code *c, const struct transform_shape *shape,
                                 const char **ret_format, struct reason *why)
{
    const struct field_map *formats = &shape->template.decode_formats;
    if (!c->decode) {
        bool is_given = shape->fpe != NULL && shape->template.encode_format[0] != '\0';
        *ret_format = is_given ? shape->template.encode_format : NULL;
        return ST_OK;
    }
    *ret_format = NULL;
    if (c->format_name == NULL)
        return ST_OK;
    for (size_t i = 0; i < formats->n; i++)
        if (strcmp(formats->pairs[2 * i], c->format_name) == 0) {
            *ret_format = formats->pairs[2 * i + 1];
            return ST_OK;
        }
    return transform_refuse(why, "decode_format: the template has no format \"%.128s\"",
                            c->format_name);
}

static enum status run_shape(struct code *c, const struct transform_shape *shape,
                             const struct code_in *in, struct code_result *result,
                             struct reason *why)
{
    CLEANUP(transform_made_done) struct transform_made made = {0};
    uint8_t tweak[FPE_TWEAK_MAX];
    size_t tweak_len = 0;
    const char *format;
    if (shape->fpe == NULL && c->decode)
        return transform_refuse(why, "transformation: masking cannot be decoded");
    if (in->value == NULL || in->value[0] == '\0')
        return transform_refuse(why, "value: the field is required");
    TRY(transform_charge(&c->cost, shape, strlen(in->value), why));
    TRY(choose_format(c, shape, &format, why));
    if (shape->fpe != NULL)
        TRY(choose_tweak(c, shape, in, result, tweak, &tweak_len, why));
    TRY(transform_value(shape, bytes_str(in->value), bytes_of(tweak, tweak_len), c->decode, format,
                        &made, why));
    const char *text = arena_str(c->req->arena, buf_bytes(&made.text));
    if (text == NULL)
        return ST_NOMEM;
    if (made.is_lost && !c->warned)
        req_warn(c->req, "an encoded value does not match the pattern of its template again, so it "
                         "cannot be decoded: see the warnings when the template is written");
    c->warned = c->warned || made.is_lost;
    result->has_decoded_value = c->decode;
    result->has_encoded_value = !c->decode;
    *(c->decode ? &result->decoded_value : &result->encoded_value) = text;
    return ST_OK;
}

static enum status run_tokens(struct code *c, struct transform_tokens *tokens,
                              const struct code_in *in, struct code_result *result,
                              struct reason *why)
{
    enum status st = transform_token_item(tokens, c->op->kind, in, result, why);
    if (!tokens->waits)
        return st;
    ASSERT(st == ST_BUSY && tokens->sql != NULL);
    tokens->waits = false;
    struct pending *p = arena_alloc(c->req->arena, sizeof *p);
    if (p == NULL)
        return ST_NOMEM;
    *p = (struct pending){.tokens = tokens, .in = *in, .result = result};
    if (c->last_pending != NULL)
        c->last_pending->next = p;
    else
        c->pending = p;
    c->last_pending = p;
    return ST_OK;
}

/* One value. ST_INVALID: the item is refused, with the reason. */
static enum status run_item(struct code *c, const struct code_in *in, struct code_result *result,
                            struct reason *why)
{
    struct transform_shape *shape = NULL;
    TRY(choose_shape(c, in, &shape, why));
    if (shape->tokens != NULL && c->format_name != NULL)
        return transform_refuse(why, "decode_format: tokenization has no formats");
    if (shape->tokens != NULL)
        return run_tokens(c, shape->tokens, in, result, why);
    if (c->op->kind > CODE_DECODE)
        return transform_refuse(why, "transformation: its type is %s, tokenization is needed",
                                shape->transformation.type);
    enum status st = run_shape(c, shape, in, result, why);
    if (st != ST_OK)
        result->tweak = NULL;
    return st;
}

static enum status run_one(struct code *c, const struct code_in *in)
{
    struct reason why = {0};
    c->one = arena_zalloc(c->req->arena, sizeof *c->one);
    if (c->one == NULL)
        return ST_NOMEM;
    enum status st = run_item(c, in, &c->one->one, &why);
    return st == ST_INVALID ? req_fail(c->req, st, "%s", why.text) : st;
}

static enum status reply_one(struct code *c)
{
    bool is_silent = c->op->kind == CODE_DELETE_TOKEN || c->op->kind == CODE_DELETE_VALUE;
    return is_silent && c->req->reply.n_warnings == 0 ? ST_OK : req_reply(c->req, c->one);
}

/* Decode and run an item of a batch. The rule of the policy judges its fields as those of a
 * request.
 */
static enum status run_batch_item(struct code *c, const struct text_value *item, size_t *bytes,
                                  struct code_result *result)
{
    struct schema_fault fault;
    struct reason why = {0};
    struct code_in in = {0};
    enum status st;
    if (item->kind != TEXT_OBJECT) {
        st = transform_refuse(&why, "an object is expected");
    } else {
        TRY(req_judge_parameters(c->req, c->req->rule, item));
        st = schema_decode(c->op->item, item, c->req->arena, &in, &fault);
        if (st == ST_INVALID)
            (void)transform_refuse(&why, "%s: %s", fault.field, fault.why.text);
        if (st == ST_OK && in.reference != NULL && strlen(in.reference) > REFERENCE_MAX)
            st = transform_refuse(&why, "reference: longer than %d bytes", REFERENCE_MAX);
        else
            result->reference = in.reference;
    }
    *bytes += in.value != NULL ? strlen(in.value) : 0;
    *bytes += transform_metadata_len(in.metadata);
    if (st == ST_OK && *bytes <= BATCH_BYTES_MAX)
        st = run_item(c, &in, result, &why);
    if (st != ST_INVALID)
        return st;
    result->error = arena_str(c->req->arena, bytes_str(why.text));
    return result->error != NULL ? ST_OK : ST_NOMEM;
}

static enum status run_batch(struct code *c, const struct code_in *in)
{
    const struct text_value *list = in->batch_input;
    int64_t code = in->partial_failure_response_code;
    struct code_result *results;
    size_t n = 0, bytes = 0;
    if (list->kind != TEXT_LIST || list->n == 0)
        return req_fail(c->req, ST_INVALID, "batch_input: a list with items is expected");
    if (list->n > ITEMS_MAX)
        return req_fail(c->req, ST_INVALID, "batch_input: %d items at most, %zu were given",
                        ITEMS_MAX, list->n);
    if (code != 0 && (code < 200 || code > 599 || code == 204 || code == 205 || code / 100 == 3))
        return req_fail(c->req, ST_INVALID,
                        "partial_failure_response_code: 200 to 599 is expected, for a reply with a "
                        "body: no 204, 205 or 3xx");
    results = arena_zalloc(c->req->arena, list->n * sizeof *results);
    if (results == NULL)
        return ST_NOMEM;
    TEXT_FOR (item, list) {
        TRY(run_batch_item(c, item, &bytes, &results[n]));
        if (bytes > BATCH_BYTES_MAX)
            return req_fail(c->req, ST_INVALID, "batch_input: the values have more than %d bytes",
                            BATCH_BYTES_MAX);
        n++;
    }
    c->results = results;
    c->n = n;
    c->failure_code = code;
    return ST_OK;
}

static enum status reply_batch(struct code *c)
{
    size_t failed = 0;
    for (size_t i = 0; i < c->n; i++) {
        struct code_result *result = &c->results[i];
        failed += result->error != NULL;
        if (result->has_decoded_value) { /* as upstream's documents and its servers, both */
            result->has_encoded_value = true;
            result->encoded_value = result->decoded_value;
        }
    }
    /* an error is never wrapped, and these results must be if the client or a rule wants that */
    if (failed != 0 && c->req->wrap_ttl_s == 0) {
        c->req->reply.http = c->failure_code != 0 ? (int)c->failure_code : 400;
        reason_set(req_reason(c->req), "batch_input: %zu of %zu items failed: see batch_results",
                   failed, c->n);
    }
    const struct code_reply reply = {.batch_results = {c->results, c->n}};
    return req_reply(c->req, &reply);
}

static enum status reply_code(struct code *c)
{
    return c->one != NULL ? reply_one(c) : reply_batch(c);
}

/* Stores outside. */

static bool asks(const struct transform_sql *sql)
{
    return sql->wants.n != 0 || sql->prints.n != 0 || sql->writes.n != 0 || sql->tombs.n != 0;
}

/* The second run of the items that needed rows. */
static enum status run_pending(struct transform_chain *chain, struct reason *reason)
{
    struct code *c = CONTAINER_OF(chain, struct code, chain);
    for (struct pending *p = c->pending; p != NULL; p = p->next) {
        struct reason why = {0};
        enum status st = transform_token_item(p->tokens, c->op->kind, &p->in, p->result, &why);
        if (st == ST_CORRUPT) /* the database has altered the row */
            reason_set(reason, "a row in the stores of transformation \"%.128s\" was altered",
                       p->tokens->name);
        if (st != ST_INVALID)
            TRY(st);
        if (st == ST_OK)
            continue;
        if (c->one != NULL) {
            c->refusal = why;
            continue;
        }
        p->result->error = arena_str(c->req->arena, bytes_str(why.text));
        if (p->result->error == NULL)
            return ST_NOMEM;
    }
    return ST_OK;
}

/* Prepare the step outside, if stores outside are asked. *ret_due: they are. */
static enum status plan_outside(struct code *c, bool *ret_due)
{
    struct transform_chain *chain = &c->chain;
    size_t n = 0;
    for (const struct known *k = c->known; k != NULL; k = k->next)
        n++;
    chain->all = arena_alloc(c->req->arena, MAX(n, (size_t)1) * sizeof *chain->all);
    if (chain->all == NULL)
        return ST_NOMEM;
    for (const struct known *k = c->known; k != NULL; k = k->next) {
        struct transform_tokens *t = k->status == ST_OK ? k->shape->tokens : NULL;
        if (t == NULL || t->sql == NULL || !asks(t->sql))
            continue;
        TRY(transform_sql_keep(t->sql));
        chain->all[chain->n++] = t->sql;
    }
    *ret_due = chain->n != 0;
    chain->req = c->req;
    chain->again = run_pending;
    return ST_OK;
}

/* Reply, or leave that to the step outside. Warnings wait for the reply. */
static enum status end_code(struct code *c)
{
    struct req_reply *reply = &c->req->reply;
    bool due = false;
    TRY(plan_outside(c, &due));
    if (!due) {
        if (c->req->route->outside != NULL)
            req_skip_outside(c->req);
        return reply_code(c);
    }
    if (c->req->wrap_ttl_s != 0)
        return req_fail(c->req, ST_INVALID,
                        "the reply cannot be wrapped, because a store outside of the cluster is "
                        "asked");
    c->warnings = reply->warnings;
    c->n_warnings = reply->n_warnings;
    reply->warnings = NULL;
    reply->n_warnings = 0;
    reply->insist = false;
    c->req->prepared = c;
    return ST_OK;
}

void transform_code_waits(struct req *req, struct req_wait *wait)
{
    struct code *c = req->prepared;
    if (c == NULL) { /* an earlier try of the request has run the handler */
        req_wait_done(wait);
        return;
    }
    c->chain.wait = wait;
    transform_chain_start(&c->chain);
}

enum status transform_code_outside(struct req *req)
{
    struct code *c = req->prepared;
    if (c == NULL)
        return ST_UNKNOWN_OUTCOME;
    TRY(transform_chain_result(&c->chain));
    if (c->refusal.text[0] != '\0')
        return req_fail(req, ST_INVALID, "%s", c->refusal.text);
    for (unsigned i = 0; i < c->n_warnings; i++)
        req_warn(req, "%s", c->warnings[i]);
    return reply_code(c);
}

/* `format` NULL: none, or it stands in the parameter of the role. */
static enum status run_code(struct req *req, const struct code_op *op, const struct code_in *in,
                            const char *format)
{
    struct code *c = arena_zalloc(req->arena, sizeof *c);
    if (c == NULL)
        return ST_NOMEM;
    *c = (struct code){
        .req = req, .op = op, .decode = op->kind == CODE_DECODE, .format_name = format};
    TRY(read_role(c));
    bool is_batch = in->batch_input != NULL && in->batch_input->kind != TEXT_NULL;
    TRY(is_batch ? run_batch(c, in) : run_one(c, in));
    return end_code(c);
}

enum status transform_code_run(struct req *req, const struct code_op *op, const struct code_in *in)
{
    return run_code(req, op, in, NULL);
}

static enum status transform_encode(struct req *req)
{
    static const struct code_op op = {.kind = CODE_ENCODE, .item = &encode_item_schema};
    return run_code(req, &op, req_body(req), NULL);
}

static const struct code_op decode_op = {.kind = CODE_DECODE, .item = &item_schema};

static enum status transform_decode(struct req *req)
{
    return run_code(req, &decode_op, req_body(req), NULL);
}

static enum status transform_decode_as(struct req *req)
{
    return run_code(req, &decode_op, req_body(req), req_param(req, "format"));
}

static const struct route code_routes[] = {
    {.method = METHOD_POST,
     .path = "encode/+role",
     .handler = transform_encode,
     .waits = transform_code_waits,
     .outside = transform_code_outside,
     .flags = ROUTE_READS | ROUTE_CREATES, /* a token is staged: then the active node serves it */
     .body = &encode_schema,
     .reply = &reply_schema,
     .statuses = "200 any",
     .help = "Encode a value, or each value of batch_input, by a transformation of the role. If an "
             "item fails, the reply has all results and the status 400."},
    {.method = METHOD_POST,
     .path = "decode/+role",
     .handler = transform_decode,
     .waits = transform_code_waits,
     .outside = transform_code_outside,
     .flags = ROUTE_READS | ROUTE_CREATES,
     .body = &code_schema,
     .reply = &reply_schema,
     .statuses = "200 any",
     .help = "Decode a value, or each value of batch_input. A wrong tweak gives another value, "
             "never an "
             "error."},
    {.method = METHOD_POST,
     .path = "decode/:role/:format",
     .handler = transform_decode_as,
     .waits = transform_code_waits,
     .outside = transform_code_outside,
     .flags = ROUTE_READS | ROUTE_CREATES,
     .body = &code_schema,
     .reply = &reply_schema,
     .statuses = "200 any",
     .help =
         "Decode as decode/:role does, and write the result by a format of the template. A role "
         "with '+' in its name is served too."},
};
const struct route_table transform_code_table = {code_routes, ARRAY_LEN(code_routes)};
