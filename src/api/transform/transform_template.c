/* Templates: which parts of a value are encoded, with which alphabet, and how results look. */
#include "api/transform/transform.h"
#include "api/transform/transform_record.h"
#include "api/transform/transform_trial.h"
#include "base/buf.h"
#include "text/regex.h"

static const struct field template_fields[] = {
    FIELD(struct transform_template, alphabet, STRING,
          .help = "Name of the alphabet, for format-preserving encryption."),
    FIELD(struct transform_template, decode_formats, MAP,
          .help = "Formats that decode/:role/:format names, as {\"last-four\": \"$4\"}."),
    FIELD(struct transform_template, encode_format, STRING,
          .help = "How an encoded value looks, as \"$1-$2\"; empty: as the value itself."),
    FIELD(struct transform_template, pattern, STRING,
          .help = "Regular expression for the whole value, in RE2's syntax. Its capture groups are "
                  "encoded; text outside of them stays."),
    FIELD(struct transform_template, type, STRING, .help = "\"regex\"."),
};
const struct schema transform_template_schema = SCHEMA(struct transform_template, template_fields);

static const char *const builtin_names[] = {"builtin/creditcardnumber",
                                            "builtin/socialsecuritynumber"};
static const char *const builtin_patterns[] = {
    "(\\d{4})[- ]?(\\d{4})[- ]?(\\d{4})[- ]?(\\d{4})|(\\d{4})[- ]?(\\d{6})[- ]?(\\d{4,5})",
    "(\\d{3})[- ]?(\\d{2})[- ]?(\\d{4})",
};

enum status transform_template_load(struct req *req, const char *name,
                                    struct transform_template *ret_template)
{
    for (size_t i = 0; i < ARRAY_LEN(builtin_names); i++)
        if (strcmp(name, builtin_names[i]) == 0) {
            *ret_template = (struct transform_template){.type = "regex",
                                                        .pattern = builtin_patterns[i],
                                                        .alphabet = "builtin/numeric",
                                                        .encode_format = ""};
            ret_template->decode_formats.given = true;
            return ST_OK;
        }
    return transform_load(req, TRANSFORM_TEMPLATE, name, &transform_template_schema, ret_template);
}

static enum status template_exists(struct req *req)
{
    return transform_exists(req, TRANSFORM_TEMPLATE);
}

static enum status template_read(struct req *req)
{
    struct transform_template template;
    TRY(transform_template_load(req, req_param(req, "name"), &template));
    return req_reply(req, &template);
}

/* Warn where encode_format names no group of the pattern, or drops one: then values cannot be
 * decoded. True: there is no warning. */
static bool judge_encode_format(struct req *req, const char *format, const struct regex *regex)
{
    struct bytes unknown = regex_unknown(regex, bytes_str(format));
    if (unknown.len != 0)
        req_warn(req, "encode_format: the pattern has no group \"%.*s\"; it is empty",
                 (int)unknown.len, (const char *)unknown.data);
    for (unsigned group = 1; format[0] != '\0' && group <= regex_groups(regex); group++)
        if (!regex_uses(regex, bytes_str(format), group)) {
            req_warn(req, "encode_format: group %u is missing; encoded values do not decode",
                     group);
            return false;
        }
    if (regex_reorders(regex, bytes_str(format))) {
        req_warn(req, "encode_format: it repeats groups, or has them in another order than the "
                      "pattern; encoded values may not decode");
        return false;
    }
    return unknown.len == 0;
}

/* True: there is no warning about encode_format. */
static bool judge_formats(struct req *req, const struct transform_template *template,
                          const struct regex *regex)
{
    bool fine = judge_encode_format(req, template->encode_format, regex);
    for (size_t i = 0; i < template->decode_formats.n; i++) {
        struct bytes unknown =
            regex_unknown(regex, bytes_str(template->decode_formats.pairs[2 * i + 1]));
        if (unknown.len != 0)
            req_warn(req, "decode_formats: %s: the pattern has no group \"%.*s\"; it is empty",
                     template->decode_formats.pairs[2 * i], (int)unknown.len,
                     (const char *)unknown.data);
    }
    return fine;
}

static enum status check_formats(struct req *req, const struct transform_template *template)
{
    const struct field_map *formats = &template->decode_formats;
    if (strlen(template->encode_format) > TRANSFORM_PATTERN_MAX)
        return req_fail(req, ST_INVALID, "encode_format: longer than %d bytes",
                        TRANSFORM_PATTERN_MAX);
    if (formats->n > TRANSFORM_FORMATS_MAX)
        return req_fail(req, ST_INVALID, "decode_formats: more than %d", TRANSFORM_FORMATS_MAX);
    for (size_t i = 0; i < formats->n; i++) {
        if (!transform_is_name(bytes_str(formats->pairs[2 * i])))
            return req_fail(req, ST_INVALID, "decode_formats: \"%.140s\" is no name",
                            formats->pairs[2 * i]);
        if (strlen(formats->pairs[2 * i + 1]) > TRANSFORM_PATTERN_MAX)
            return req_fail(req, ST_INVALID, "decode_formats: %s: longer than %d bytes",
                            formats->pairs[2 * i], TRANSFORM_PATTERN_MAX);
    }
    return ST_OK;
}

static enum status check_template(struct req *req, const struct transform_template *template)
{
    struct reason why = {0};
    struct regex *regex;
    if (template->type == NULL || strcmp(template->type, "regex") != 0)
        return req_fail(req, ST_INVALID, "type: \"regex\" is expected");
    if (template->pattern == NULL || template->pattern[0] == '\0')
        return req_fail(req, ST_INVALID, "pattern: the field is required");
    if (template->alphabet[0] != '\0')
        TRY(transform_check_reference(req, "alphabet", template->alphabet));
    if (transform_is_builtin(template->alphabet)) { /* built-in names cannot be written */
        struct transform_alphabet builtin;
        enum status found = transform_alphabet_load(req, template->alphabet, &builtin);
        if (found == ST_NOT_FOUND)
            return req_fail(req, ST_INVALID, "alphabet: there is no such built-in alphabet");
        TRY(found);
    }
    TRY(check_formats(req, template));
    enum status st = regex_new(bytes_str(template->pattern), &regex, &why);
    if (st == ST_INVALID)
        return req_fail(req, st, "pattern: %s", why.text);
    TRY(st);
    if (regex_nests(regex))
        st = req_fail(req, ST_INVALID, "pattern: a capture group lies inside another one");
    else if (regex_repeats(regex)) /* the texts before the last one would stay in clear */
        st = req_fail(req, ST_INVALID,
                      "pattern: a capture group is repeated: repeat inside of the group");
    else if (judge_formats(req, template, regex))
        st = transform_try_template(req, template, regex);
    regex_free(regex);
    return st;
}

static struct field_strings stored_alphabet(const char *const *name)
{
    bool is_stored = *name != NULL && (*name)[0] != '\0' && !transform_is_builtin(*name);
    return (struct field_strings){.items = name, .n = is_stored};
}

static enum status template_write(struct req *req)
{
    const struct transform_template *in = req_body(req);
    struct transform_template made = {.alphabet = "", .encode_format = ""}, stored = {0};
    const char *name;
    TRY(transform_own_name(req, &name));
    enum status st =
        transform_load(req, TRANSFORM_TEMPLATE, name, &transform_template_schema, &stored);
    if (st != ST_NOT_FOUND)
        TRY(st);
    if (st == ST_OK)
        made = stored;
    made.type = in->type != NULL ? in->type : made.type;
    made.pattern = in->pattern != NULL ? in->pattern : made.pattern;
    made.alphabet = in->alphabet != NULL ? in->alphabet : made.alphabet;
    made.encode_format = in->encode_format != NULL ? in->encode_format : made.encode_format;
    if (in->decode_formats.given)
        made.decode_formats = in->decode_formats;
    made.decode_formats.given = true;
    TRY(check_template(req, &made));
    if (st == ST_OK &&
        (strcmp(made.pattern, stored.pattern) != 0 || strcmp(made.alphabet, stored.alphabet) != 0))
        req_warn(req,
                 "pattern or alphabet changed: values that were encoded before may not decode");
    const struct field_strings before = stored_alphabet(&stored.alphabet),
                               after = stored_alphabet(&made.alphabet);
    TRY(transform_use(req, TRANSFORM_ALPHABET, name, &before, &after));
    return transform_save(req, TRANSFORM_TEMPLATE, name, &transform_template_schema, &made);
}

static enum status template_delete(struct req *req)
{
    static const struct field_strings none;
    struct transform_template stored;
    const char *name;
    TRY(transform_own_name(req, &name));
    enum status st =
        transform_load(req, TRANSFORM_TEMPLATE, name, &transform_template_schema, &stored);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    TRY(transform_check_unused(req, TRANSFORM_TEMPLATE, name));
    const struct field_strings before = stored_alphabet(&stored.alphabet);
    TRY(transform_use(req, TRANSFORM_ALPHABET, name, &before, &none));
    return transform_delete(req, TRANSFORM_TEMPLATE, name);
}

static enum status template_list(struct req *req)
{
    return transform_list(req, TRANSFORM_TEMPLATE, builtin_names, ARRAY_LEN(builtin_names));
}

static const struct route template_routes[] = {
    {.method = METHOD_LIST,
     .path = "template",
     .handler = template_list,
     .body = &transform_list_schema,
     .help = "The names of all templates, built-in ones included."},
    {.method = METHOD_GET,
     .path = "template/+name",
     .handler = template_read,
     .reply = &transform_template_schema,
     .help = "Read a template."},
    {.method = METHOD_POST,
     .path = "template/+name",
     .handler = template_write,
     .exists = template_exists,
     .body = &transform_template_schema,
     .help = "Create or change a template. After a change of pattern or alphabet, what was encoded "
             "before may not decode."},
    {.method = METHOD_DELETE,
     .path = "template/+name",
     .handler = template_delete,
     .help = "Delete a template that no transformation uses."},
};
const struct route_table transform_template_table = {template_routes, ARRAY_LEN(template_routes)};
