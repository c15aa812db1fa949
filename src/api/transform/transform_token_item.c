/* Operations of tokenization on one value. */
#include "api/transform/transform_sql.h"
#include "api/transform/transform_token.h"
#include "base/mem.h"
#include "crypto/crypto.h"
#include "text/encode.h"

enum { TOKENS_MAX = 1000, PAIRS_MAX = 100 };

/* An item under way. */
struct item {
    struct transform_tokens *t;
    const struct code_in *in;
    struct code_result *result;
    struct reason *why;
    /* a token that was checked, and its row */
    struct transform_token token;
    uint8_t lookup[TRANSFORM_DIGEST];
    struct transform_row row;
};

static struct arena *arena_of(const struct item *i)
{
    return i->t->req->arena;
}

static int64_t now_of(const struct item *i)
{
    return MAX(i->t->req->now_ms, INT64_C(0));
}

/* Metadata: "a=1,b=2", a list of such texts, or an object of texts; stored as a JSON object. */

size_t transform_metadata_len(const struct text_value *metadata)
{
    if (metadata == NULL)
        return 0;
    size_t len = metadata->text.len;
    TEXT_FOR (v, metadata)
        len += v->name.len + v->text.len;
    return len;
}

struct pairs {
    struct bytes names[PAIRS_MAX], values[PAIRS_MAX];
    size_t n;
};

static enum status add_pair(struct item *i, struct pairs *pairs, struct bytes name,
                            struct bytes value)
{
    size_t at = 0;
    if (name.len == 0)
        return transform_refuse(i->why, "metadata: a name is empty");
    while (at < pairs->n && !bytes_eq(pairs->names[at], name))
        at++;
    if (at == PAIRS_MAX)
        return transform_refuse(i->why, "metadata: %d names at most", PAIRS_MAX);
    pairs->names[at] = name;
    pairs->values[at] = value; /* the last value of a name counts */
    pairs->n = MAX(pairs->n, at + 1);
    return ST_OK;
}

static enum status add_text(struct item *i, struct pairs *pairs, struct bytes text)
{
    while (text.len != 0) {
        const uint8_t *comma = memchr(text.data, ',', text.len);
        size_t len = comma != NULL ? (size_t)(comma - text.data) : text.len;
        const uint8_t *equals = memchr(text.data, '=', len);
        if (equals == NULL)
            return transform_refuse(i->why, "metadata: \"name=value,name=value\" is expected");
        size_t name = (size_t)(equals - text.data);
        TRY(add_pair(i, pairs, bytes_of(text.data, name), bytes_of(equals + 1, len - name - 1)));
        text = bytes_from(text, comma != NULL ? len + 1 : len);
    }
    return ST_OK;
}

static enum status put_metadata_json(struct item *i, struct buf *out)
{
    const struct text_value *metadata = i->in->metadata;
    struct text_writer w = {.out = out, .plain = true};
    struct pairs *pairs = arena_zalloc(arena_of(i), sizeof *pairs);
    bool object = metadata->kind == TEXT_OBJECT;
    if (pairs == NULL)
        return ST_NOMEM;
    if (transform_metadata_len(metadata) > TRANSFORM_METADATA_MAX)
        return transform_refuse(i->why, "metadata: more than %d bytes", TRANSFORM_METADATA_MAX);
    if (metadata->kind == TEXT_STRING)
        TRY(add_text(i, pairs, metadata->text));
    else if (!object && metadata->kind != TEXT_LIST)
        return transform_refuse(i->why, "metadata: a text, a list or an object is expected");
    TEXT_FOR (v, metadata) {
        if (v->kind != TEXT_STRING)
            return transform_refuse(i->why, "metadata: the values are texts");
        TRY(object ? add_pair(i, pairs, v->name, v->text) : add_text(i, pairs, v->text));
    }
    text_open_object(&w);
    for (size_t k = 0; k < pairs->n; k++) {
        text_key_bytes(&w, pairs->names[k]);
        text_put_bytes(&w, pairs->values[k]);
    }
    text_close(&w);
    return buf_status(out);
}

static enum status need_value(struct item *i, size_t max)
{
    const char *value = i->in->value;
    if (value == NULL || value[0] == '\0')
        return transform_refuse(i->why, "value: the field is required");
    if (strlen(value) > max)
        return transform_refuse(i->why, "value: longer than %zu bytes", max);
    return ST_OK;
}

static enum status read_time(struct item *i, const char *field, const char *text, int64_t *ret_ms)
{
    if (text_time_parse(bytes_str(text), ret_ms) != ST_OK || *ret_ms <= 0 ||
        *ret_ms >= TEXT_CLOCK_END)
        return transform_refuse(i->why, "%s: a time as 2030-01-31T12:00:00Z is expected", field);
    return ST_OK;
}

/* When the new token ends; 0: never. */
static enum status choose_expiry(struct item *i, int64_t *ret_ms)
{
    struct transform_tokens *t = i->t;
    int64_t cap_ms = t->max_ttl_s != 0 ? now_of(i) + 1000 * t->max_ttl_s : 0, ms = 0;
    bool timed = i->in->expiration != NULL && i->in->expiration[0] != '\0';
    if (timed && i->in->ttl != 0)
        return transform_refuse(i->why, "ttl: it cannot be given together with expiration");
    if (timed)
        TRY(read_time(i, "expiration", i->in->expiration, &ms));
    if (timed && ms <= now_of(i))
        return transform_refuse(i->why, "expiration: the time has passed");
    if (i->in->ttl != 0)
        ms = now_of(i) + 1000 * i->in->ttl;
    bool capped = cap_ms != 0 && (ms == 0 || ms > cap_ms);
    if (capped && ms != 0 && !t->warned_cap) {
        t->warned_cap = true;
        req_warn(t->req,
                 "the end of a token is later than max_ttl of transformation \"%s\" "
                 "allows: it was set to %lld s from now",
                 t->name, (long long)t->max_ttl_s);
    }
    if (t->convergent && (i->in->ttl != 0 || capped) && !t->warned_relative) {
        t->warned_relative = true;
        req_warn(t->req, "the token ends relative to now, so encoding the same value later gives "
                         "another token: give `expiration`, or no end");
    }
    *ret_ms = capped ? cap_ms : ms;
    ASSERT(*ret_ms >= 0 && *ret_ms < TEXT_EXPIRY_END);
    return ST_OK;
}

static struct transform_sealer sealer_of(const struct item *i,
                                         const struct transform_token_key *key)
{
    return (struct transform_sealer){.key = key->key,
                                     .scope = key->scope,
                                     .lookup = i->lookup,
                                     .id = bytes_of(i->token.id, i->token.id_len),
                                     .expire_ms = transform_token_expiry(&i->token)};
}

static enum status token_text(struct item *i, const char **ret_text)
{
    char *text = arena_alloc(arena_of(i), TRANSFORM_TOKEN_TEXT_MAX + 1);
    if (text == NULL)
        return ST_NOMEM;
    (void)transform_token_put(&i->token, text);
    *ret_text = text;
    return ST_OK;
}

/* Sign the token whose id, version and end are set, and find its look-up key. */
static enum status finish_token(struct item *i)
{
    struct transform_token_key *key;
    TRY(transform_tokens_key(i->t, i->token.key_version, &key));
    TRY(transform_token_sign(key, &i->token));
    return transform_tokens_lookup(key, &i->token, i->lookup);
}

/* Write the whole row of a new token: into the state, into the stores outside. */
static enum status put_whole_row(struct item *i, const struct buf *metadata, bool state,
                                 bool outside)
{
    CLEANUP(buf_done) struct buf value = {0}, sealed = {0}, id = {0};
    struct transform_token_key *key;
    struct transform_row row = {.key_version = i->t->ring.latest,
                                .expire_ms = transform_token_expiry(&i->token)};
    struct bytes plain = bytes_str(i->in->value);
    TRY(transform_tokens_key(i->t, row.key_version, &key));
    const struct transform_sealer sealer = sealer_of(i, key);
    TRY(transform_tokens_print(i->t, plain, row.print));
    TRY(transform_seal(&sealer, TRANSFORM_VALUE, plain, &value));
    if (metadata->len != 0)
        TRY(transform_seal(&sealer, TRANSFORM_METADATA, buf_bytes(metadata), &sealed));
    if (i->t->exportable)
        TRY(transform_seal(&sealer, TRANSFORM_ID, sealer.id, &id));
    row.value = buf_bytes(&value);
    row.metadata = buf_bytes(&sealed);
    row.id = buf_bytes(&id);
    if (outside)
        TRY(transform_sql_write(i->t->sql, i->lookup, &row));
    return state ? transform_row_save(i->t, i->lookup, &row) : ST_OK;
}

/* Replace the metadata of a row that exists. */
static enum status put_metadata(struct item *i, const struct buf *metadata)
{
    CLEANUP(buf_done) struct buf sealed = {0};
    struct transform_token_key *key;
    TRY(transform_tokens_key(i->t, i->row.key_version, &key));
    const struct transform_sealer sealer = sealer_of(i, key);
    TRY(transform_seal(&sealer, TRANSFORM_METADATA, buf_bytes(metadata), &sealed));
    i->row.metadata = buf_bytes(&sealed);
    return transform_row_save(i->t, i->lookup, &i->row);
}

/* One token and one row for equal values and ends. A row whose key is gone is written anew. */
static enum status encode_convergent(struct item *i, const struct buf *metadata)
{
    TRY(transform_tokens_id(i->t, bytes_str(i->in->value), transform_token_expiry(&i->token),
                            i->token.id));
    i->token.id_len = TRANSFORM_TOKEN_ID_MAX;
    TRY(finish_token(i));
    if (i->t->sql != NULL) /* the statement writes the row, or leaves a live one */
        TRY(put_whole_row(i, metadata, false, true));
    if (!i->t->is_internal)
        return ST_OK;
    enum status st = transform_row_load(i->t, i->lookup, &i->row);
    if (st == ST_NOT_FOUND || (st == ST_OK && !transform_tokens_decodes(i->t, i->row.key_version)))
        return put_whole_row(i, metadata, true, false);
    if (st == ST_OK && metadata->len != 0)
        return put_metadata(i, metadata);
    return st; /* nothing is staged: any node replies */
}

/* A transaction that only reads runs again as one that records, here or on the active node: this
 * run needs no token. */
static enum status abandon(struct item *i)
{
    struct bytes prefix;
    i->result->encoded_value = "";
    if (i->t->abandons)
        return ST_OK;
    i->t->abandons = true;
    TRY(transform_row_prefix(i->t, &prefix));
    return state_delete(i->t->req->txn, prefix);
}

static enum status encode_random(struct item *i, const struct buf *metadata)
{
    if (i->t->is_internal && state_is_read_only(i->t->req->txn))
        return abandon(i);
    TRY(crypto_random(i->token.id, TRANSFORM_TOKEN_ID));
    i->token.id_len = TRANSFORM_TOKEN_ID;
    i->token.key_version = i->t->ring.latest;
    TRY(finish_token(i));
    return put_whole_row(i, metadata, i->t->is_internal, i->t->sql != NULL);
}

static enum status encode_item(struct item *i)
{
    CLEANUP(buf_done) struct buf metadata = {0};
    int64_t expire_ms = 0;
    TRY(need_value(i, TRANSFORM_VALUE_MAX));
    TRY(choose_expiry(i, &expire_ms));
    if (i->in->metadata != NULL)
        TRY(put_metadata_json(i, &metadata));
    transform_token_set_expiry(&i->token, expire_ms);
    i->result->has_encoded_value = true;
    TRY(i->t->convergent ? encode_convergent(i, &metadata) : encode_random(i, &metadata));
    if (i->result->encoded_value != NULL)
        return ST_OK;
    return token_text(i, &i->result->encoded_value);
}

static enum status no_token(struct item *i)
{
    return transform_refuse(i->why, TRANSFORM_NO_TOKEN);
}

/* Read and check a token, without a look at the rows. */
static enum status check_genuine(struct item *i, const char *text)
{
    struct transform_token *token = &i->token;
    struct transform_token_key *key;
    if (transform_token_parse(bytes_str(text), token) != ST_OK)
        return no_token(i);
    size_t len = i->t->convergent ? TRANSFORM_TOKEN_ID_MAX : TRANSFORM_TOKEN_ID;
    if (token->id_len != len || (token->key_version == 0) != i->t->convergent ||
        token->key_version > i->t->ring.latest)
        return no_token(i);
    enum status st = transform_tokens_key(i->t, token->key_version, &key);
    if (st == ST_NOT_FOUND)
        return transform_refuse(i->why,
                                "value: version %u of the key was trimmed, so its tokens "
                                "cannot be decoded any more",
                                token->key_version);
    TRY(st);
    st = transform_token_verify(key, token);
    if (st == ST_INVALID)
        return no_token(i);
    TRY(st);
    return transform_tokens_lookup(key, token, i->lookup);
}

/* Find the row of the token in `text`. ST_INVALID with the reason. */
static enum status find_row(struct item *i, const char *text)
{
    TRY(check_genuine(i, text));
    int64_t expire_ms = transform_token_expiry(&i->token);
    if (expire_ms != 0 && expire_ms <= now_of(i))
        return transform_refuse(i->why, "value: the token has expired");
    enum status st = transform_row_find(i->t, i->lookup, &i->row);
    if (st == ST_NOT_FOUND)
        return no_token(i);
    TRY(st);
    if (i->row.key_version < i->t->ring.min_available)
        return transform_refuse(i->why,
                                "value: version %u of the key was trimmed, so its tokens "
                                "cannot be decoded any more",
                                i->row.key_version);
    if (!transform_tokens_decodes(i->t, i->row.key_version))
        return transform_refuse(i->why,
                                "value: min_decryption_version forbids version %u of the "
                                "key, which the token has",
                                i->row.key_version);
    return ST_OK;
}

static enum status open_part(struct item *i, enum transform_part part, struct bytes sealed,
                             struct buf *out)
{
    struct transform_token_key *key;
    TRY(transform_tokens_key(i->t, i->row.key_version, &key));
    const struct transform_sealer sealer = sealer_of(i, key);
    return transform_open(&sealer, part, sealed, out);
}

static enum status decode(struct item *i)
{
    CLEANUP(buf_done) struct buf plain = {0};
    TRY(need_value(i, TRANSFORM_VALUE_MAX));
    TRY(find_row(i, i->in->value));
    TRY(open_part(i, TRANSFORM_VALUE, i->row.value, &plain));
    i->result->decoded_value = arena_str(arena_of(i), buf_bytes(&plain));
    i->result->has_decoded_value = true;
    return i->result->decoded_value != NULL ? ST_OK : ST_NOMEM;
}

static enum status validate(struct item *i)
{
    TRY(need_value(i, TRANSFORM_VALUE_MAX));
    enum status st = find_row(i, i->in->value);
    i->result->has_valid = true;
    i->result->valid = st == ST_OK;
    return st == ST_INVALID ? ST_OK : st;
}

static enum status metadata(struct item *i)
{
    CLEANUP(buf_done) struct buf plain = {0};
    TRY(need_value(i, TRANSFORM_VALUE_MAX));
    TRY(find_row(i, i->in->value));
    if (i->row.metadata.len != 0)
        TRY(open_part(i, TRANSFORM_METADATA, i->row.metadata, &plain));
    else
        buf_add(&plain, BYTES("{}"));
    TRY(buf_status(&plain));
    const uint8_t *json = arena_dup(arena_of(i), buf_bytes(&plain));
    i->result->metadata = bytes_of(json, plain.len);
    i->result->expire_ms = transform_token_expiry(&i->token);
    i->result->has_metadata = true;
    return json != NULL ? ST_OK : ST_NOMEM;
}

/* The look-up of tokens by a value. */

struct range {
    int64_t from_ms, to_ms;
    bool never; /* also tokens that never end */
};

static bool is_given(const char *text)
{
    return text != NULL && text[0] != '\0';
}

static enum status read_range(struct item *i, struct range *ret)
{
    const char *exact = i->in->expiration, *from = i->in->min_expiration,
               *to = i->in->max_expiration;
    *ret = (struct range){.from_ms = now_of(i) + 1, .to_ms = 0, .never = true};
    if (is_given(from) || is_given(to)) {
        if (is_given(exact))
            return transform_refuse(i->why, "expiration: it cannot be given together with "
                                            "min_expiration and max_expiration");
        if (!is_given(from) || !is_given(to))
            return transform_refuse(i->why,
                                    "min_expiration: max_expiration is required with it, and the "
                                    "reverse");
        TRY(read_time(i, "min_expiration", from, &ret->from_ms));
        TRY(read_time(i, "max_expiration", to, &ret->to_ms));
        if (ret->to_ms < ret->from_ms)
            return transform_refuse(i->why, "max_expiration: it lies before min_expiration");
        ret->from_ms = MAX(ret->from_ms, now_of(i) + 1);
        ret->never = false;
    } else if (is_given(exact) && strcmp(exact, "any") == 0) {
        ret->to_ms = TEXT_EXPIRY_END;
    } else if (is_given(exact)) {
        TRY(read_time(i, "expiration", exact, &ret->to_ms));
        ret->from_ms = MAX(ret->to_ms, now_of(i) + 1);
        ret->never = false;
    }
    return ST_OK;
}

typedef enum status (*on_state)(void *ctx, int64_t expire_ms, struct bytes lookup);
typedef enum status (*on_hit)(struct item *i, const struct transform_sql_row *hit);

static bool is_within(const struct range *range, int64_t expire_ms)
{
    return expire_ms == 0 ? range->never : expire_ms >= range->from_ms && expire_ms <= range->to_ms;
}

/* Call `each` for the rows of the value that end within the range, in the state. */
static enum status in_state(struct item *i, const uint8_t print[TRANSFORM_DIGEST],
                            const struct range *range, on_state each)
{
    if (range->never)
        TRY(transform_row_each(i->t, print, 0, 0, each, i));
    if (range->to_ms < range->from_ms)
        return ST_OK;
    return transform_row_each(i->t, print, range->from_ms, range->to_ms, each, i);
}

static enum status in_hits(struct item *i, const uint8_t print[TRANSFORM_DIGEST],
                           const struct range *range, on_hit each)
{
    const struct transform_sql_row *hits = i->t->sql->hits.items;
    for (size_t k = 0; k < i->t->sql->hits.n; k++) {
        if (memcmp(hits[k].row.print, print, TRANSFORM_DIGEST) != 0 ||
            !is_within(range, hits[k].row.expire_ms))
            continue;
        enum status st = each(i, &hits[k]);
        if (st != ST_OK)
            return st == ST_NOT_FOUND ? ST_OK : st;
    }
    return ST_OK;
}

/* The rows of the value that end within the range: `each` for those in the state; in the second
 * run `hit` for those in the stores outside. */
static enum status in_range(struct item *i, const struct range *range, on_state each, on_hit hit)
{
    uint8_t print[TRANSFORM_DIGEST];
    TRY(transform_tokens_print(i->t, bytes_str(i->in->value), print));
    if (i->t->outside)
        return in_hits(i, print, range, hit);
    if (i->t->is_internal)
        TRY(in_state(i, print, range, each));
    if (i->t->sql == NULL || i->result->tokenized)
        return ST_OK;
    TRY(transform_sql_want_print(i->t->sql, print));
    i->t->waits = true;
    return ST_BUSY;
}

static enum status on_tokenized(void *ctx, int64_t expire_ms, struct bytes lookup)
{
    struct item *i = ctx;
    ASSERT(lookup.len != 0 && (expire_ms == 0 || expire_ms > now_of(i)));
    i->result->tokenized = true;
    return ST_NOT_FOUND; /* one is enough */
}

static enum status tokenized_outside(struct item *i, const struct transform_sql_row *hit)
{
    ASSERT(hit->row.expire_ms == 0 || hit->row.expire_ms > now_of(i));
    i->result->tokenized = true;
    return ST_NOT_FOUND; /* one is enough */
}

static enum status tokenized(struct item *i)
{
    const struct range any = {now_of(i) + 1, TEXT_EXPIRY_END, true};
    TRY(need_value(i, TRANSFORM_VALUE_MAX));
    i->result->has_tokenized = true;
    return in_range(i, &any, on_tokenized, tokenized_outside);
}

/* The token of the value that ends then. */
static enum status remake(struct item *i, int64_t expire_ms)
{
    i->token = (struct transform_token){.id_len = TRANSFORM_TOKEN_ID_MAX};
    transform_token_set_expiry(&i->token, expire_ms);
    TRY(transform_tokens_id(i->t, bytes_str(i->in->value), expire_ms, i->token.id));
    return finish_token(i);
}

/* Count a token that a look-up finds. ST_NOT_FOUND: the request has found as many as it may. */
static enum status count_found(struct item *i)
{
    struct transform_tokens *t = i->t;
    ASSERT(t->found <= TOKENS_MAX);
    if (t->found < TOKENS_MAX) {
        t->found++;
        return ST_OK;
    }
    if (!t->warned_many)
        req_warn(t->req,
                 "there are more tokens than the %d of this reply: ask for parts by "
                 "min_expiration and max_expiration, or for fewer values",
                 TOKENS_MAX);
    t->warned_many = true;
    return ST_NOT_FOUND;
}

/* Room for one more token in the result. */
static enum status add_room(struct item *i)
{
    struct field_strings *tokens = &i->result->tokens;
    if ((tokens->n & (tokens->n - 1)) != 0) /* there is room up to the next power of two */
        return ST_OK;
    const char **items = arena_alloc(arena_of(i), MAX(2 * tokens->n, (size_t)1) * sizeof *items);
    if (items == NULL)
        return ST_NOMEM;
    if (tokens->n != 0)
        memcpy(items, tokens->items, tokens->n * sizeof *items);
    tokens->items = items;
    return ST_OK;
}

/* Add the present token to the result, unless another store had it. */
static enum status add_token(struct item *i)
{
    struct field_strings *tokens = &i->result->tokens;
    const char *text;
    TRY(token_text(i, &text));
    for (size_t k = 0; k < tokens->n; k++)
        if (strcmp(tokens->items[k], text) == 0)
            return ST_OK;
    TRY(count_found(i));
    TRY(add_room(i));
    ((const char **)(uintptr_t)tokens->items)[tokens->n++] = text;
    return ST_OK;
}

static enum status on_token(void *ctx, int64_t expire_ms, struct bytes lookup)
{
    struct item *i = ctx;
    ASSERT(lookup.len != 0);
    if (!i->t->convergent) /* the stores outside have it too, with its id */
        return ST_OK;
    TRY(remake(i, expire_ms));
    return add_token(i);
}

/* The token of a row that was found by its fingerprint: made from the value, or its id is sealed in
 * the row. A row that does not open is left out: its key is gone, or the store has altered it. */
static enum status token_outside(struct item *i, const struct transform_sql_row *hit)
{
    CLEANUP(buf_done) struct buf id = {0};
    struct transform_token_key *key;
    if (i->t->convergent) {
        TRY(remake(i, hit->row.expire_ms));
        return bytes_eq(bytes_of(i->lookup, TRANSFORM_DIGEST),
                        bytes_of(hit->lookup, TRANSFORM_DIGEST))
                   ? add_token(i)
                   : ST_OK;
    }
    enum status st = transform_tokens_key(i->t, hit->row.key_version, &key);
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_OK : st;
    const struct transform_sealer sealer = {.key = key->key,
                                            .scope = key->scope,
                                            .lookup = hit->lookup,
                                            .expire_ms = hit->row.expire_ms};
    st = transform_open(&sealer, TRANSFORM_ID, hit->row.id, &id);
    if (st != ST_OK || id.len != TRANSFORM_TOKEN_ID)
        return st == ST_NOMEM ? st : ST_OK;
    i->token = (struct transform_token){.id_len = id.len, .key_version = hit->row.key_version};
    memcpy(i->token.id, id.data, id.len);
    transform_token_set_expiry(&i->token, hit->row.expire_ms);
    TRY(finish_token(i));
    return add_token(i);
}

static enum status on_delete(void *ctx, int64_t expire_ms, struct bytes lookup)
{
    uint8_t bytes[TEXT_BASE64_BYTES(TEXT_BASE64_LEN(TRANSFORM_DIGEST))];
    struct item *i = ctx;
    size_t len;
    ASSERT(expire_ms >= 0);
    TRY(count_found(i));
    if (lookup.len >= TEXT_BASE64_LEN(TRANSFORM_DIGEST) ||
        text_base64_url_parse(lookup, bytes, &len) != ST_OK || len != TRANSFORM_DIGEST)
        return ST_CORRUPT;
    memcpy(i->lookup, bytes, sizeof i->lookup);
    enum status st = transform_row_load(i->t, i->lookup, &i->row);
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_OK : st;
    return transform_row_delete(i->t, i->lookup, &i->row);
}

static enum status delete_outside(struct item *i, const struct transform_sql_row *hit)
{
    TRY(count_found(i));
    return transform_sql_tomb(i->t->sql, hit->lookup);
}

/* A token can be made from its value only where it is convergent. A store outside finds rows by
 * their value, and an exportable row has the id of its token. */
static enum status need_lookup(struct item *i)
{
    if (i->t->convergent || (i->t->exportable && i->t->sql != NULL))
        return ST_OK;
    return transform_refuse(i->why,
                            "transformation: the tokens of a value can only be found if the "
                            "transformation is convergent, or exportable with a store outside");
}

static enum status tokens(struct item *i)
{
    struct range range;
    TRY(need_lookup(i));
    TRY(need_value(i, TRANSFORM_VALUE_MAX));
    TRY(read_range(i, &range));
    i->result->tokens.given = true;
    return in_range(i, &range, on_token, token_outside);
}

static enum status delete_value(struct item *i)
{
    struct range range;
    TRY(need_lookup(i));
    TRY(need_value(i, TRANSFORM_VALUE_MAX));
    TRY(read_range(i, &range));
    return in_range(i, &range, on_delete, delete_outside);
}

/* Idempotent: a token that was deleted, or has expired, is deleted. */
static enum status delete_token(struct item *i)
{
    if (!is_given(i->in->token))
        return transform_refuse(i->why, "token: the field is required");
    TRY(check_genuine(i, i->in->token));
    if (i->t->sql != NULL)
        TRY(transform_sql_tomb(i->t->sql, i->lookup));
    if (!i->t->is_internal)
        return ST_OK;
    enum status st = transform_row_load(i->t, i->lookup, &i->row);
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_OK : st;
    return transform_row_delete(i->t, i->lookup, &i->row);
}

enum status transform_token_item(struct transform_tokens *t, enum code_kind kind,
                                 const struct code_in *in, struct code_result *result,
                                 struct reason *why)
{
    static enum status (*const runs[])(struct item * i) = {
        [CODE_ENCODE] = encode_item,        [CODE_DECODE] = decode,
        [CODE_VALIDATE] = validate,         [CODE_TOKENIZED] = tokenized,
        [CODE_METADATA] = metadata,         [CODE_TOKENS] = tokens,
        [CODE_DELETE_TOKEN] = delete_token, [CODE_DELETE_VALUE] = delete_value};
    struct item *i = arena_zalloc(t->req->arena, sizeof *i);
    if (i == NULL)
        return ST_NOMEM;
    ASSERT((size_t)kind < ARRAY_LEN(runs));
    *i = (struct item){.t = t, .in = in, .result = result, .why = why};
    enum status st = runs[kind](i);
    if (st != ST_OK && !t->waits) {
        const char *reference = result->reference;
        *result = (struct code_result){.reference = reference};
    }
    return st;
}
