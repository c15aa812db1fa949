/* sys/tools: random bytes and digests, for clients without a good source of their own. */
#include "api/tools/tools.h"
#include "crypto/digest.h"
#include "text/encode.h"

struct tools_random {
    int64_t bytes;
    const char *format, *source;
};
struct tools_hash {
    const char *input, *algorithm, *format;
};

enum { RANDOM_BYTES_MAX = 128 * 1024 };

static const struct field random_fields[] = {
    FIELD(struct tools_random, bytes, INT, .preset = "32",
          .help = "The number of bytes, 1 to 131072."),
    FIELD(struct tools_random, format, STRING, .preset = "base64", .help = "base64 or hex."),
    FIELD(struct tools_random, source, STRING, .preset = "platform",
          .help = "platform, or all, which is the same: the seal gives no random bytes."),
};
static const struct schema tools_random_schema = SCHEMA(struct tools_random, random_fields);

static const struct field hash_fields[] = {
    FIELD(struct tools_hash, input, STRING, .preset = "", .hidden = true,
          .help = "The data to hash, in base64."),
    FIELD(struct tools_hash, algorithm, STRING, .preset = "sha2-256",
          .help = "sha2- or sha3- with 224, 256, 384 or 512."),
    FIELD(struct tools_hash, format, STRING, .preset = "hex", .help = "hex or base64."),
};
static const struct schema tools_hash_schema = SCHEMA(struct tools_hash, hash_fields);

struct tools_out {
    const char *random_bytes, *sum;
};
static const struct field random_out_fields[] = {FIELD(struct tools_out, random_bytes, STRING)};
static const struct schema tools_random_reply = SCHEMA(struct tools_out, random_out_fields);
static const struct field hash_out_fields[] = {FIELD(struct tools_out, sum, STRING)};
static const struct schema tools_hash_reply = SCHEMA(struct tools_out, hash_out_fields);

/* No error quotes a text of the body: errors stand in clear in the audit trail. */
static enum status text_in_format(struct req *req, const char *format, struct bytes data,
                                  const char **ret_text)
{
    bool hex = strcmp(format, "hex") == 0;
    if (!hex && strcmp(format, "base64") != 0)
        return req_fail(req, ST_INVALID,
                        "unsupported encoding format; must be \"hex\" or \"base64\"");
    char *text = arena_alloc(req->arena, TEXT_HEX_LEN(data.len) + 4);
    ASSERT(TEXT_BASE64_LEN(data.len) < TEXT_HEX_LEN(data.len) + 4);
    if (text == NULL)
        return ST_NOMEM;
    if (hex)
        text_hex_put(data, text);
    else
        (void)text_base64_put(data, TEXT_BASE64, text); /* the length is not needed */
    *ret_text = text;
    return ST_OK;
}

static enum status check_source(struct req *req, const char *source)
{
    if (strcmp(source, "platform") == 0 || strcmp(source, "all") == 0)
        return ST_OK;
    return req_fail(req, ST_INVALID, "unsupported entropy source; must be \"platform\" or \"all\"");
}

static enum status give_random(struct req *req, const char *source, const char *count)
{
    const struct tools_random *in = req_body(req);
    int64_t n = in->bytes;
    if (count != NULL && text_int_parse(bytes_str(count), &n) != ST_OK)
        return req_fail(req, ST_INVALID, "error parsing url-set byte count: a number is expected");
    if (n < 1)
        return req_fail(req, ST_INVALID, "\"bytes\" cannot be less than 1");
    if (n > RANDOM_BYTES_MAX)
        return req_fail(req, ST_INVALID, "\"bytes\" should be less than %d", RANDOM_BYTES_MAX);
    TRY(check_source(req, source != NULL ? source : in->source));
    uint8_t *data = arena_alloc(req->arena, (size_t)n);
    if (data == NULL)
        return ST_NOMEM;
    env_random(req->env, data, (size_t)n);
    struct tools_out out = {0};
    TRY(text_in_format(req, in->format, bytes_of(data, (size_t)n), &out.random_bytes));
    return req_reply(req, &out);
}

static enum status tools_random(struct req *req)
{
    return give_random(req, NULL, NULL);
}

/* The last segment of the path is a source or a number. */
static enum status tools_random_by(struct req *req)
{
    const char *word = req_param(req, "source");
    bool number = word[0] >= '0' && word[0] <= '9';
    return number ? give_random(req, "platform", word) : give_random(req, word, NULL);
}

static enum status tools_random_from(struct req *req)
{
    return give_random(req, req_param(req, "source"), req_param(req, "urlbytes"));
}

/* Hash the input, which may be as long as a body, on the pool. */
static enum status prepare_hash(struct req *req, const char *algorithm)
{
    const struct tools_hash *in = req_body(req);
    struct bytes text = bytes_str(in->input);
    uint8_t digest[CRYPTO_DIGEST_MAX];
    size_t len = 0, n = 0;
    ASSERT(!req_in_txn(req));
    uint8_t *plain = arena_alloc(req->arena, TEXT_BASE64_BYTES(text.len));
    if (plain == NULL)
        return ST_NOMEM;
    if (text_base64_parse(text, plain, &len) != ST_OK)
        return req_fail(req, ST_INVALID, "unable to decode input as base64");
    enum status st = crypto_digest(algorithm, bytes_of(plain, len), digest, &n);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID,
                        "unsupported algorithm; must be sha2- or sha3- with 224, 256, 384 or 512");
    TRY(st);
    ASSERT(n > 0 && n <= sizeof digest);
    struct tools_out *out = arena_zalloc(req->arena, sizeof *out);
    if (out == NULL)
        return ST_NOMEM;
    TRY(text_in_format(req, in->format, bytes_of(digest, n), &out->sum));
    req->prepared = out;
    return ST_OK;
}

static enum status tools_hash_prepare(struct req *req)
{
    const struct tools_hash *in = req_body(req);
    return prepare_hash(req, in->algorithm);
}

static enum status tools_hash_by_prepare(struct req *req)
{
    return prepare_hash(req, req_param(req, "algorithm"));
}

static enum status tools_hash(struct req *req)
{
    ASSERT(req->prepared != NULL);
    return req_reply(req, req->prepared);
}

static const struct route tools_routes[] = {
    {.method = METHOD_POST,
     .path = "tools/random",
     .handler = tools_random,
     .flags = ROUTE_READS,
     .body = &tools_random_schema,
     .reply = &tools_random_reply,
     .help = "Random bytes."},
    {.method = METHOD_POST,
     .path = "tools/random/:source",
     .handler = tools_random_by,
     .flags = ROUTE_READS,
     .body = &tools_random_schema,
     .reply = &tools_random_reply,
     .help = "Random bytes."},
    {.method = METHOD_POST,
     .path = "tools/random/:source/:urlbytes",
     .handler = tools_random_from,
     .flags = ROUTE_READS,
     .body = &tools_random_schema,
     .reply = &tools_random_reply,
     .help = "Random bytes."},
    {.method = METHOD_POST,
     .path = "tools/hash",
     .handler = tools_hash,
     .prepare = tools_hash_prepare,
     .flags = ROUTE_READS,
     .body = &tools_hash_schema,
     .reply = &tools_hash_reply,
     .help = "The digest of some data."},
    {.method = METHOD_POST,
     .path = "tools/hash/:algorithm",
     .handler = tools_hash,
     .prepare = tools_hash_by_prepare,
     .flags = ROUTE_READS,
     .body = &tools_hash_schema,
     .reply = &tools_hash_reply,
     .help = "The digest of some data."},
};

const struct route_table tools_random_table = {tools_routes, ARRAY_LEN(tools_routes)};
