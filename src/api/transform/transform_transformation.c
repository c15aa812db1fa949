/* Transformations: what is done with a value, and the key for it.
 *
 * The key and the internal tweak are made in the transaction that creates a transformation, and
 * stay for its life, whatever an update changes. */
#include "api/transform/transform.h"
#include "api/transform/transform_config.h"
#include "api/transform/transform_token.h"
#include "base/mem.h"
#include "crypto/crypto.h"
#include "state/state_record.h"
#include "text/utf8.h"

static const struct field transformation_fields[] = {
    FIELD(struct transform_transformation, type, STRING,
          .help = "fpe, masking or tokenization; it cannot be changed."),
    FIELD(struct transform_transformation, template, STRING,
          .help = "Name of the template; it may not exist yet."),
    FIELD(struct transform_transformation, tweak_source, STRING,
          .help =
              "fpe: supplied (with each request), generated (by each encoding, which replies with "
              "it) or internal (one for all values)."),
    FIELD(struct transform_transformation, masking_character, STRING,
          .help = "masking: the first character takes the place of each character."),
    FIELD(struct transform_transformation, fpe_algorithm, STRING,
          .help =
              "fpe: ff3-1 or ff1; it cannot be changed. Without it, the configuration decides."),
    FIELD(struct transform_transformation, allowed_roles, STRINGS,
          .help = "Names of roles; '*' stands for any characters."),
    FIELD(struct transform_transformation, deletion_allowed, BOOL,
          .has = offsetof(struct transform_transformation, has_deletion_allowed), .omit = true,
          .help = "Whether the transformation may be deleted; it may, unless this is false."),
    FIELD(struct transform_transformation, mapping_mode, STRING, .omit = true,
          .help = "tokenization: default, or exportable: an operator may read all values with "
                  "their tokens. It cannot be changed."),
    FIELD(struct transform_transformation, convergent, BOOL,
          .has = offsetof(struct transform_transformation, has_convergent), .omit = true,
          .help = "tokenization: equal values that end at the same time have one token. It cannot "
                  "be changed."),
    FIELD(struct transform_transformation, max_ttl, DURATION, .exact = true,
          .has = offsetof(struct transform_transformation, has_max_ttl), .omit = true,
          .help = "tokenization: how long a token is valid at most; 0: without an end."),
    FIELD(struct transform_transformation, stores, STRINGS, .omit = true,
          .help = "tokenization: where tokens are kept, 8 places at most: builtin/internal, the "
                  "state of the cluster, or names of stores."),
};
const struct schema transform_transformation_schema =
    SCHEMA(struct transform_transformation, transformation_fields);

struct shown {
    const char *type, *tweak_source, *masking_character, *fpe_algorithm;
    struct field_strings allowed_roles, templates;
    bool deletion_allowed, has_deletion_allowed;
    int64_t max_tweak_len;
    const char *mapping_mode;
    struct field_strings stores;
    int64_t max_ttl;
    bool convergent, has_convergent;
};
static const struct field shown_fields[] = {
    FIELD(struct shown, allowed_roles, STRINGS, .help = "Roles that may use the transformation."),
    FIELD(struct shown, convergent, BOOL, .has = offsetof(struct shown, has_convergent),
          .omit = true, .help = "tokenization: whether equal values have one token."),
    FIELD(struct shown, deletion_allowed, BOOL, .has = offsetof(struct shown, has_deletion_allowed),
          .omit = true, .help = "If it was given."),
    FIELD(struct shown, fpe_algorithm, STRING, .omit = true, .help = "ff3-1 or ff1."),
    FIELD(struct shown, mapping_mode, STRING, .omit = true,
          .help = "tokenization: default or exportable."),
    FIELD(struct shown, masking_character, STRING, .omit = true,
          .help = "What takes the place of each character."),
    FIELD(struct shown, max_ttl, DURATION, .has = offsetof(struct shown, has_convergent),
          .omit = true, .help = "tokenization: seconds; 0: tokens may have no end."),
    FIELD(struct shown, max_tweak_len, INT, .omit = true, .help = "Most bytes of a tweak."),
    FIELD(struct shown, stores, STRINGS, .omit = true, .help = "tokenization: where tokens are."),
    FIELD(struct shown, templates, STRINGS, .help = "The template, as a list."),
    FIELD(struct shown, tweak_source, STRING, .omit = true,
          .help = "supplied, generated or internal."),
    FIELD(struct shown, type, STRING, .help = "fpe, masking or tokenization."),
};
static const struct schema shown_schema = SCHEMA(struct shown, shown_fields);

static const struct record_field secret_fields[] = {
    RECORD_FIELD(struct transform_secret, key, FIXED, .secret = true, .help = "AES-256"),
    RECORD_FIELD(struct transform_secret, tweak, FIXED, .secret = true,
                 .help = "of the tweak source `internal`"),
};
static const struct record secret_record = {
    RECORD(struct transform_secret, secret_fields), .name = "transform/key",
    .where = "Key `key/NAME` of a mount of the transform engine", .newest = 1};
RECORD_LISTED(secret_record);

enum status transform_secret_load(struct req *req, const char *name,
                                  struct transform_secret *ret_secret)
{
    struct bytes key;
    TRY(transform_key_of(req, "key", name, &key));
    enum status st = state_get_record(req->txn, key, &secret_record, ret_secret);
    return st == ST_NOT_FOUND ? ST_CORRUPT : st; /* made with the transformation */
}

/* `given` NULL: a random key. */
static enum status make_secret(struct req *req, const char *name, const uint8_t *given)
{
    struct transform_secret secret;
    struct bytes key;
    TRY(crypto_random(secret.key, sizeof secret.key));
    TRY(crypto_random(secret.tweak, sizeof secret.tweak));
    if (given != NULL)
        memcpy(secret.key, given, sizeof secret.key);
    enum status st = transform_key_of(req, "key", name, &key);
    if (st == ST_OK)
        st = state_put_record(req->txn, key, &secret_record, &secret);
    mem_wipe(&secret, sizeof secret);
    return st;
}

static enum status transformation_exists(struct req *req)
{
    return transform_exists(req, TRANSFORM_TRANSFORMATION);
}

static enum status load_transformation(struct req *req, const char *name,
                                       struct transform_transformation *ret)
{
    return transform_load(req, TRANSFORM_TRANSFORMATION, name, &transform_transformation_schema,
                          ret);
}

static enum status reply_tokenization(struct req *req, const struct transform_transformation *t)
{
    static const char *const any[] = {"builtin/any"};
    struct shown out = {.type = t->type,
                        .allowed_roles = t->allowed_roles,
                        .templates = {any, 1, true},
                        .deletion_allowed = t->deletion_allowed,
                        .has_deletion_allowed = t->has_deletion_allowed,
                        .mapping_mode = t->mapping_mode,
                        .stores = t->stores,
                        .max_ttl = t->max_ttl,
                        .convergent = t->convergent,
                        .has_convergent = true};
    out.allowed_roles.given = true;
    return req_reply(req, &out);
}

static bool is_tokenization(const struct transform_transformation *t)
{
    ASSERT(t->type != NULL);
    return strcmp(t->type, TRANSFORM_TOKENIZATION) == 0;
}

static enum status transformation_read(struct req *req)
{
    struct transform_transformation t;
    TRY(load_transformation(req, req_param(req, "name"), &t));
    if (is_tokenization(&t))
        return reply_tokenization(req, &t);
    struct shown out = {.type = t.type,
                        .allowed_roles = t.allowed_roles,
                        .templates = {.items = &t.template, .n = 1, .given = true},
                        .deletion_allowed = t.deletion_allowed,
                        .has_deletion_allowed = t.has_deletion_allowed};
    out.allowed_roles.given = true;
    if (strcmp(t.type, TRANSFORM_MASKING) == 0) {
        out.masking_character = t.masking_character;
    } else {
        out.tweak_source = t.tweak_source;
        out.fpe_algorithm = t.fpe_algorithm;
        out.max_tweak_len =
            strcmp(t.fpe_algorithm, TRANSFORM_FF1) == 0 ? FPE_TWEAK_MAX : FPE_TWEAK_BYTES;
    }
    return req_reply(req, &out);
}

static bool is_one_of(const char *text, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(text, words[i]) == 0)
            return true;
    return false;
}

enum status transform_check_roles(struct req *req, const struct field_strings *roles)
{
    if (roles->n > TRANSFORM_LIST_MAX)
        return req_fail(req, ST_INVALID, "allowed_roles: %d at most, %zu were given",
                        TRANSFORM_LIST_MAX, roles->n);
    for (size_t i = 0; i < roles->n; i++)
        if (roles->items[i][0] == '\0' || strlen(roles->items[i]) > TRANSFORM_NAME_MAX)
            return req_fail(req, ST_INVALID, "allowed_roles: 1 to %d characters are expected",
                            TRANSFORM_NAME_MAX);
    return ST_OK;
}

/* Judge the whole transformation, of which a new one has its presets. */
static enum status check_transformation(struct req *req, const struct transform_transformation *t)
{
    static const char *const sources[] = {"supplied", "generated", "internal"};
    static const char *const algorithms[] = {TRANSFORM_FF31, TRANSFORM_FF1};
    if (t->template == NULL || t->template[0] == '\0')
        return req_fail(req, ST_INVALID, "template: the field is required");
    TRY(transform_check_reference(req, "template", t->template));
    if (transform_is_builtin(t->template)) { /* built-in names cannot be written */
        struct transform_template builtin;
        enum status st = transform_template_load(req, t->template, &builtin);
        if (st == ST_NOT_FOUND)
            return req_fail(req, ST_INVALID,
                            "template: there is no such built-in template for this type");
        TRY(st);
    }
    TRY(transform_check_roles(req, &t->allowed_roles));
    if (strcmp(t->type, TRANSFORM_MASKING) == 0)
        return t->masking_character[0] != '\0'
                   ? ST_OK
                   : req_fail(req, ST_INVALID, "masking_character: one character is expected");
    if (!is_one_of(t->tweak_source, sources, ARRAY_LEN(sources)))
        return req_fail(req, ST_INVALID,
                        "tweak_source: supplied, generated or internal is expected");
    if (!is_one_of(t->fpe_algorithm, algorithms, ARRAY_LEN(algorithms)))
        return req_fail(req, ST_INVALID, "fpe_algorithm: ff3-1 or ff1 is expected");
    return ST_OK;
}

/* The first character of the field. */
static enum status first_character(struct req *req, const char *text, const char **ret)
{
    struct bytes all = bytes_str(text);
    uint32_t rune;
    size_t at = 0;
    if (all.len == 0 || text_utf8_next(all, &at, &rune) != ST_OK)
        return req_fail(req, ST_INVALID, "masking_character: one character is expected");
    *ret = arena_str(req->arena, bytes_of(text, at));
    return *ret != NULL ? ST_OK : ST_NOMEM;
}

/* Take the fields that the request gives. Fields of another type are ignored. */
static enum status merge_fields(struct req *req, const struct transform_transformation *in,
                                struct transform_transformation *t)
{
    bool is_fpe = strcmp(t->type, TRANSFORM_FPE) == 0;
    if (in->template != NULL)
        t->template = in->template;
    if (in->allowed_roles.given)
        t->allowed_roles = in->allowed_roles;
    t->allowed_roles.given = true;
    if (in->has_deletion_allowed) {
        t->has_deletion_allowed = true;
        t->deletion_allowed = in->deletion_allowed;
    }
    if (is_fpe && in->tweak_source != NULL && in->tweak_source[0] != '\0')
        t->tweak_source = in->tweak_source;
    if (!is_fpe && in->masking_character != NULL)
        return first_character(req, in->masking_character, &t->masking_character);
    return ST_OK;
}

static enum status create_transformation(struct req *req, const char *name, const char *type,
                                         const struct transform_transformation *in,
                                         struct transform_transformation *t, const uint8_t *key)
{
    const struct transform_config *config = transform_config();
    bool is_fpe = strcmp(type, TRANSFORM_FPE) == 0,
         is_given = in->fpe_algorithm != NULL && in->fpe_algorithm[0] != '\0';
    *t = (struct transform_transformation){.type = type};
    if (!is_fpe) {
        t->masking_character = "*";
        return ST_OK;
    }
    t->tweak_source = "supplied";
    t->fpe_algorithm = is_given ? in->fpe_algorithm : config->fpe_algorithm;
    if (strcmp(t->fpe_algorithm, TRANSFORM_FF31) == 0 && config->forbid_ff3_1)
        return req_fail(req, ST_INVALID,
                        "fpe_algorithm: ff3-1 is forbidden by the configuration: use ff1");
    if (strcmp(t->fpe_algorithm, TRANSFORM_FF31) == 0)
        req_warn(req,
                 "ff3-1 is weaker than ff1 where values are short, and NIST withdraws it: prefer "
                 "\"fpe_algorithm\": \"ff1\" where tweaks of 7 bytes are not needed");
    return make_secret(req, name, key);
}

static struct field_strings stored_template(const struct transform_transformation *t)
{
    bool is_stored = t->template != NULL && !transform_is_builtin(t->template);
    return (struct field_strings){.items = &t->template, .n = is_stored};
}

/* Warn where values that were encoded before no longer decode. */
static void warn_of_change(struct req *req, const struct transform_transformation *before,
                           const struct transform_transformation *after)
{
    bool was_internal = strcmp(before->tweak_source, "internal") == 0,
         is_internal = strcmp(after->tweak_source, "internal") == 0;
    if (strcmp(before->template, after->template) != 0)
        req_warn(req, "template changed: values that were encoded with the former one may not "
                      "decode until it is set back");
    if (was_internal != is_internal)
        req_warn(req,
                 "tweak_source changed: values that were encoded with %s do not decode until "
                 "it is set back",
                 before->tweak_source);
}

enum status transform_write(struct req *req, const char *type,
                            const struct transform_transformation *in, const uint8_t *key)
{
    struct transform_transformation t = {0}, stored = {0};
    const char *name;
    TRY(transform_own_name(req, &name));
    enum status st = load_transformation(req, name, &stored);
    if (st != ST_NOT_FOUND)
        TRY(st);
    if (type == NULL)
        type = in->type != NULL && in->type[0] != '\0' ? in->type : stored.type;
    if (type == NULL)
        return req_fail(req, ST_INVALID, "type: the field is required");
    bool tokens = strcmp(type, TRANSFORM_TOKENIZATION) == 0;
    if (!tokens && strcmp(type, TRANSFORM_FPE) != 0 && strcmp(type, TRANSFORM_MASKING) != 0)
        return req_fail(req, ST_INVALID, "type: fpe, masking or tokenization is expected");
    if (st == ST_OK && strcmp(type, stored.type) != 0)
        return req_fail(req, ST_INVALID, "type: it is %s and cannot be changed", stored.type);
    if (tokens)
        return transform_token_write(req, name, in, st == ST_OK ? &stored : NULL, key);
    if (st == ST_NOT_FOUND)
        TRY(create_transformation(req, name, type, in, &t, key));
    else
        t = stored;
    if (st == ST_OK && t.fpe_algorithm != NULL && in->fpe_algorithm != NULL &&
        in->fpe_algorithm[0] != '\0' && strcmp(in->fpe_algorithm, t.fpe_algorithm) != 0)
        return req_fail(req, ST_INVALID, "fpe_algorithm: it is %s and cannot be changed",
                        t.fpe_algorithm);
    TRY(merge_fields(req, in, &t));
    TRY(check_transformation(req, &t));
    if (st == ST_OK && strcmp(type, TRANSFORM_FPE) == 0)
        warn_of_change(req, &stored, &t);
    const struct field_strings before = stored_template(&stored), after = stored_template(&t);
    TRY(transform_use(req, TRANSFORM_TEMPLATE, name, &before, &after));
    return transform_save(req, TRANSFORM_TRANSFORMATION, name, &transform_transformation_schema,
                          &t);
}

static enum status fpe_write(struct req *req)
{
    return transform_write(req, TRANSFORM_FPE, req_body(req), NULL);
}

static enum status masking_write(struct req *req)
{
    return transform_write(req, TRANSFORM_MASKING, req_body(req), NULL);
}

static enum status tokenization_write(struct req *req)
{
    return transform_write(req, TRANSFORM_TOKENIZATION, req_body(req), NULL);
}

static enum status transformation_write(struct req *req)
{
    return transform_write(req, NULL, req_body(req), NULL);
}

/* Readers of the path of one type see no other. */
static enum status tokenization_read(struct req *req)
{
    struct transform_transformation t;
    TRY(load_transformation(req, req_param(req, "name"), &t));
    return is_tokenization(&t) ? reply_tokenization(req, &t) : ST_NOT_FOUND;
}

static enum status transformation_delete(struct req *req)
{
    static const struct field_strings none;
    struct transform_transformation t;
    const char *name;
    struct bytes key;
    TRY(transform_own_name(req, &name));
    enum status st = load_transformation(req, name, &t);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    if (t.has_deletion_allowed && !t.deletion_allowed)
        return req_fail(req, ST_INVALID, "deletion_allowed: it is false: set it to true before");
    TRY(transform_check_unused(req, TRANSFORM_TRANSFORMATION, name));
    const struct field_strings before = stored_template(&t);
    TRY(transform_use(req, TRANSFORM_TEMPLATE, name, &before, &none));
    TRY(transform_use(req, TRANSFORM_STORE, name, &t.stores, &none));
    TRY(transform_key_of(req, "key", name, &key));
    TRY(is_tokenization(&t) ? transform_ring_delete(req, name) : state_delete(req->txn, key));
    return transform_delete(req, TRANSFORM_TRANSFORMATION, name);
}

static enum status tokenization_delete(struct req *req)
{
    struct transform_transformation t;
    const char *name;
    TRY(transform_own_name(req, &name));
    enum status st = load_transformation(req, name, &t);
    if (st == ST_OK && !is_tokenization(&t))
        return req_fail(req, ST_INVALID, "type: it is %s", t.type);
    return st == ST_OK || st == ST_NOT_FOUND ? transformation_delete(req) : st;
}

static enum status transformation_list(struct req *req)
{
    return transform_list(req, TRANSFORM_TRANSFORMATION, NULL, 0);
}

static enum status tokenization_list(struct req *req)
{
    struct bytes prefix;
    TRY(req_key(req, "tokens/", &prefix));
    return req_reply_listing(req, prefix);
}

static const struct route transformation_routes[] = {
    {.method = METHOD_LIST,
     .path = "transformation",
     .handler = transformation_list,
     .body = &transform_list_schema,
     .help = "The names of all transformations."},
    {.method = METHOD_GET,
     .path = "transformation/+name",
     .handler = transformation_read,
     .reply = &shown_schema,
     .help = "Read a transformation. Its key and its internal tweak are never shown."},
    {.method = METHOD_POST,
     .path = "transformation/+name",
     .handler = transformation_write,
     .exists = transformation_exists,
     .body = &transform_transformation_schema,
     .help = "Deprecated: as transformations/TYPE/:name; a new transformation needs `type`."},
    {.method = METHOD_DELETE,
     .path = "transformation/+name",
     .handler = transformation_delete,
     .help =
         "Delete a transformation that no role uses, with its key: what it encoded can never be "
         "decoded again."},
    {.method = METHOD_POST,
     .path = "transformations/fpe/+name",
     .handler = fpe_write,
     .exists = transformation_exists,
     .body = &transform_transformation_schema,
     .help =
         "Create or change a transformation by format-preserving encryption. It is deterministic: "
         "equal values with one tweak have equal encodings; an internal tweak suits values that "
         "are unique enough. It has no integrity, and a client that may encode values of its "
         "choice learns about others: restrict encode, and limit its rate."},
    {.method = METHOD_POST,
     .path = "transformations/masking/+name",
     .handler = masking_write,
     .exists = transformation_exists,
     .body = &transform_transformation_schema,
     .help = "Create or change a transformation by masking, which cannot be undone."},
    {.method = METHOD_POST,
     .path = "transformations/tokenization/+name",
     .handler = tokenization_write,
     .exists = transformation_exists,
     .feature = TRANSFORM_TOKEN_FEATURE,
     .body = &transform_transformation_schema,
     .help =
         "Create or change a transformation by tokenization. A token is random, or, if convergent, "
         "made from value and end by a key; the value is stored encrypted."},
    {.method = METHOD_GET,
     .path = "transformations/tokenization/+name",
     .handler = tokenization_read,
     .reply = &shown_schema,
     .help = "Read a transformation by tokenization."},
    {.method = METHOD_LIST,
     .path = "transformations/tokenization",
     .handler = tokenization_list,
     .help = "The names of all transformations by tokenization."},
    {.method = METHOD_DELETE,
     .path = "transformations/tokenization/+name",
     .handler = tokenization_delete,
     .help = "Delete a transformation that no role uses, with its keys and all its tokens."},
};
const struct route_table transform_transformation_table = {transformation_routes,
                                                           ARRAY_LEN(transformation_routes)};
