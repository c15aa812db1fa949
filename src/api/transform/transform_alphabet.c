/* Alphabets: the symbols that format-preserving encryption reads and writes, in their order. */
#include "api/transform/transform.h"
#include "api/transform/transform_record.h"
#include "text/utf8.h"

static const struct field alphabet_fields[] = {
    FIELD(struct transform_alphabet, alphabet, STRING,
          .help = "2 to 65536 different code points. Their order decides what values encode to."),
};
const struct schema transform_alphabet_schema = SCHEMA(struct transform_alphabet, alphabet_fields);

#define DIGITS "0123456789"
#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

static const char *const builtin_names[] = {
    "builtin/alphalower",        "builtin/alphanumeric", "builtin/alphanumericlower",
    "builtin/alphanumericupper", "builtin/alphaupper",   "builtin/numeric",
};
static const char *const builtin_alphabets[] = {
    LOWER, DIGITS UPPER LOWER, DIGITS LOWER, DIGITS UPPER, UPPER, DIGITS,
};

enum status transform_alphabet_load(struct req *req, const char *name,
                                    struct transform_alphabet *ret_alphabet)
{
    for (size_t i = 0; i < ARRAY_LEN(builtin_names); i++)
        if (strcmp(name, builtin_names[i]) == 0) {
            ret_alphabet->alphabet = builtin_alphabets[i];
            return ST_OK;
        }
    return transform_load(req, TRANSFORM_ALPHABET, name, &transform_alphabet_schema, ret_alphabet);
}

static enum status alphabet_exists(struct req *req)
{
    return transform_exists(req, TRANSFORM_ALPHABET);
}

static enum status alphabet_read(struct req *req)
{
    struct transform_alphabet alphabet;
    TRY(transform_alphabet_load(req, req_param(req, "name"), &alphabet));
    return req_reply(req, &alphabet);
}

/* A bit for each code point that was seen. */
static enum status check_symbols(struct req *req, const char *alphabet)
{
    enum { RUNES = 0x110000 };
    struct bytes text = bytes_str(alphabet);
    uint8_t *seen = arena_zalloc(req->arena, RUNES / 8);
    size_t n = 0;
    if (seen == NULL)
        return ST_NOMEM;
    for (size_t at = 0; at < text.len; n++) {
        size_t start = at;
        uint32_t rune;
        if (text_utf8_next(text, &at, &rune) != ST_OK)
            return req_fail(req, ST_INVALID, "alphabet: not valid UTF-8");
        if ((seen[rune / 8] >> rune % 8 & 1) != 0)
            return req_fail(req, ST_INVALID, "alphabet: \"%.*s\" (U+%04X) occurs more than once",
                            (int)(at - start), (const char *)text.data + start, rune);
        seen[rune / 8] |= (uint8_t)(1u << rune % 8);
    }
    if (n < FPE_RADIX_MIN || n > FPE_RADIX_MAX)
        return req_fail(req, ST_INVALID,
                        "alphabet: %d to %d code points are expected, %zu were given",
                        FPE_RADIX_MIN, FPE_RADIX_MAX, n);
    return ST_OK;
}

static enum status alphabet_write(struct req *req)
{
    const struct transform_alphabet *in = req_body(req);
    struct transform_alphabet stored;
    const char *name;
    TRY(transform_own_name(req, &name));
    if (in->alphabet == NULL)
        return req_fail(req, ST_INVALID, "alphabet: the field is required");
    TRY(check_symbols(req, in->alphabet));
    enum status st =
        transform_load(req, TRANSFORM_ALPHABET, name, &transform_alphabet_schema, &stored);
    if (st != ST_NOT_FOUND)
        TRY(st);
    if (st == ST_OK && strcmp(stored.alphabet, in->alphabet) != 0)
        req_warn(req,
                 "the alphabet changed: values that were encoded with the former one no longer "
                 "decode");
    return transform_save(req, TRANSFORM_ALPHABET, name, &transform_alphabet_schema, in);
}

static enum status alphabet_delete(struct req *req)
{
    const char *name;
    TRY(transform_own_name(req, &name));
    TRY(transform_check_unused(req, TRANSFORM_ALPHABET, name));
    return transform_delete(req, TRANSFORM_ALPHABET, name);
}

static enum status alphabet_list(struct req *req)
{
    return transform_list(req, TRANSFORM_ALPHABET, builtin_names, ARRAY_LEN(builtin_names));
}

static const struct route alphabet_routes[] = {
    {.method = METHOD_LIST,
     .path = "alphabet",
     .handler = alphabet_list,
     .body = &transform_list_schema,
     .help = "The names of all alphabets, built-in ones included."},
    {.method = METHOD_GET,
     .path = "alphabet/+name",
     .handler = alphabet_read,
     .reply = &transform_alphabet_schema,
     .help = "Read an alphabet."},
    {.method = METHOD_POST,
     .path = "alphabet/+name",
     .handler = alphabet_write,
     .exists = alphabet_exists,
     .body = &transform_alphabet_schema,
     .help = "Create or change an alphabet. After a change, what was encoded before no longer "
             "decodes."},
    {.method = METHOD_DELETE,
     .path = "alphabet/+name",
     .handler = alphabet_delete,
     .help = "Delete an alphabet that no template uses."},
};
const struct route_table transform_alphabet_table = {alphabet_routes, ARRAY_LEN(alphabet_routes)};
