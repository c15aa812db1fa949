#include "api/platform/platform_content.h"
#include "text/encode.h"

enum { SUMMARY_MAX = 2000 };

/* A value of a tree in another arena, as a tree of `arena`; digits and texts are kept. NULL: no
 * memory. */
static const struct text_value *copy_value(struct arena *arena, const struct text_value *from)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct text_writer w = {.out = &text, .plain = true};
    const struct text_value *copy = NULL;
    text_put_value(&w, from);
    const uint8_t *own = buf_status(&text) == ST_OK ? arena_dup(arena, buf_bytes(&text)) : NULL;
    if (own == NULL || text_json_parse(arena, bytes_of(own, text.len), &copy, NULL) != ST_OK)
        return NULL;
    return copy;
}

/* The type that clients show; the exact one is `detailed-type`. */
static const char *coarse_type(const struct text_value *type, const struct text_value *value)
{
    static const char *const of_kind[] = {
        [TEXT_NULL] = "null",     [TEXT_BOOL] = "boolean", [TEXT_NUMBER] = "number",
        [TEXT_STRING] = "string", [TEXT_LIST] = "array",   [TEXT_OBJECT] = "object",
    };
    struct bytes word = {0};
    if (type != NULL && type->kind == TEXT_STRING)
        word = type->text;
    else if (type != NULL && type->kind == TEXT_LIST && type->first != NULL &&
             type->first->kind == TEXT_STRING)
        word = type->first->text;
    if (text_is(word, "string") || text_is(word, "number"))
        return (const char *)word.data;
    if (text_is(word, "bool"))
        return "boolean";
    if (text_is(word, "list") || text_is(word, "set") || text_is(word, "tuple"))
        return "array";
    if (text_is(word, "map") || text_is(word, "object"))
        return "object";
    return of_kind[value != NULL ? value->kind : TEXT_NULL];
}

static enum status read_output_value(struct arena *arena, const struct text_value *output,
                                     struct platform_content_output *ret_output)
{
    static const struct text_value null = {.kind = TEXT_NULL};
    const struct text_value *value = text_get(output, "value"), *type = text_get(output, "type");
    struct text_value *attrs = text_value_new(arena, NULL, TEXT_OBJECT, (struct bytes){0});
    const char *name = arena_str(arena, output->name);
    const char *coarse = arena_str(arena, bytes_str(coarse_type(type, value)));
    const struct text_value *own = copy_value(arena, value != NULL ? value : &null);
    const struct text_value *own_type = copy_value(arena, type != NULL ? type : &null);
    if (attrs == NULL || name == NULL || coarse == NULL || own == NULL || own_type == NULL)
        return ST_NOMEM;
    TRY(platform_set(arena, attrs, "value", own));
    TRY(platform_set(arena, attrs, "detailed-type", own_type));
    TRY(platform_set_text(arena, attrs, "type", coarse));
    TRY(platform_set_flag(arena, attrs, "sensitive", platform_flag(output, "sensitive")));
    *ret_output = (struct platform_content_output){name, attrs};
    return ST_OK;
}

static enum status read_outputs(struct arena *arena, const struct text_value *file,
                                struct platform_content *content, struct reason *why)
{
    const struct text_value *outputs = text_get(file, "outputs");
    if (outputs == NULL || outputs->kind == TEXT_NULL)
        return ST_OK;
    if (outputs->kind != TEXT_OBJECT || outputs->n > PLATFORM_OUTPUTS_MAX) {
        reason_set(why, "outputs: an object with at most %d members is expected",
                   PLATFORM_OUTPUTS_MAX);
        return ST_REFUSED;
    }
    content->outputs = arena_alloc(arena, (outputs->n + 1) * sizeof *content->outputs);
    if (content->outputs == NULL)
        return ST_NOMEM;
    TEXT_FOR (output, outputs) {
        bool named = output->name.len != 0 && output->name.len <= PLATFORM_NAME_MAX &&
                     memchr(output->name.data, 0, output->name.len) == NULL;
        if (output->kind != TEXT_OBJECT || !named) {
            reason_set(why, "outputs: an output is malformed, or its name is too long");
            return ST_REFUSED;
        }
        TRY(read_output_value(arena, output, &content->outputs[content->n_outputs++]));
    }
    return ST_OK;
}

/* Count a resource type below a name: {"root":{"aws_instance":2}}. */
static enum status count_content(struct arena *arena, struct text_value *table, const char *name,
                                 const char *type, int64_t n)
{
    const struct text_value *known = text_get(table, name);
    struct text_value *row = text_value_new(arena, NULL, TEXT_OBJECT, (struct bytes){0});
    if (row == NULL)
        return ST_NOMEM;
    if (known != NULL)
        *row = *known;
    TRY(platform_set_number(arena, row, type, platform_number(row, type) + n));
    return platform_set(arena, table, name, row);
}

static enum status add_resource(struct arena *arena, const struct text_value *resource,
                                struct text_value *list, struct text_value *modules,
                                struct text_value *providers)
{
    const struct text_value *instances = text_get(resource, "instances");
    bool data = strcmp(platform_text(resource, "mode"), "data") == 0;
    const char *module = platform_text(resource, "module");
    const char *name = arena_str(arena, bytes_str(platform_text(resource, "name")));
    const char *type = arena_concat(arena, data ? "data." : "", platform_text(resource, "type"));
    const char *place = arena_str(arena, bytes_str(module[0] != '\0' ? module : "root"));
    const char *provider = arena_str(arena, bytes_str(platform_text(resource, "provider")));
    int64_t n = instances != NULL && instances->kind == TEXT_LIST ? (int64_t)instances->n : 0;
    struct text_value *item = text_value_new(arena, list, TEXT_OBJECT, (struct bytes){0});
    if (name == NULL || type == NULL || place == NULL || provider == NULL || item == NULL)
        return ST_NOMEM;
    TRY(platform_set_text(arena, item, "name", name));
    TRY(platform_set_text(arena, item, "type", type));
    TRY(platform_set_number(arena, item, "count", n));
    TRY(platform_set_text(arena, item, "module", place));
    TRY(platform_set_text(arena, item, "provider", provider));
    TRY(count_content(arena, modules, place, type, n));
    return count_content(arena, providers, provider, type, n);
}

static enum status read_resources(struct arena *arena, const struct text_value *file,
                                  struct platform_content *content)
{
    const struct text_value *resources = text_get(file, "resources");
    struct text_value *summary = text_value_new(arena, NULL, TEXT_OBJECT, (struct bytes){0});
    struct text_value *parts[3];
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        parts[i] = text_value_new(arena, NULL, i == 0 ? TEXT_LIST : TEXT_OBJECT, (struct bytes){0});
    if (summary == NULL || parts[0] == NULL || parts[1] == NULL || parts[2] == NULL)
        return ST_NOMEM;
    content->summary = summary;
    if (resources != NULL && resources->kind == TEXT_LIST)
        TEXT_FOR (resource, resources) {
            const struct text_value *instances = text_get(resource, "instances");
            bool managed = strcmp(platform_text(resource, "mode"), "data") != 0;
            if (managed && instances != NULL && instances->kind == TEXT_LIST)
                content->resources += (int64_t)instances->n;
            if (parts[0]->n < SUMMARY_MAX)
                TRY(add_resource(arena, resource, parts[0], parts[1], parts[2]));
        }
    TRY(platform_set(arena, summary, "resources", parts[0]));
    TRY(platform_set(arena, summary, "modules", parts[1]));
    return platform_set(arena, summary, "providers", parts[2]);
}

static enum status read_state_file(struct arena *arena, const struct text_value *file,
                                   struct platform_content *content, struct reason *why)
{
    if (file->kind != TEXT_OBJECT) {
        reason_set(why, "the state is %s, an object is expected", text_kind_name(file->kind));
        return ST_REFUSED;
    }
    content->version = platform_number(file, "version");
    content->terraform_version =
        arena_str(arena, bytes_str(platform_text(file, "terraform_version")));
    if (content->terraform_version == NULL)
        return ST_NOMEM;
    TRY(read_outputs(arena, file, content, why));
    return read_resources(arena, file, content);
}

enum status platform_content_read(struct arena *arena, struct bytes raw,
                                  struct platform_content *ret_content, struct reason *why)
{
    struct platform_content content = {.raw = raw, .terraform_version = ""};
    uint8_t md5[CRYPTO_MD5_BYTES];
    struct arena tree = {.block_bytes = 256 * 1024};
    const struct text_value *file;
    struct reason fault = {{0}};
    TRY(crypto_md5(raw, md5));
    text_hex_put(bytes_of(md5, sizeof md5), content.md5);
    enum status st = text_json_parse(&tree, raw, &file, &fault);
    if (st == ST_OK)
        st = read_state_file(arena, file, &content, why);
    else if (st == ST_TOO_BIG)
        reason_set(why, "the state has too many values");
    else if (st == ST_INVALID)
        reason_set(why, "the state is not JSON: %.150s", fault.text);
    arena_done(&tree);
    if (st == ST_OK)
        *ret_content = content;
    return st == ST_INVALID || st == ST_TOO_BIG ? ST_REFUSED : st;
}
