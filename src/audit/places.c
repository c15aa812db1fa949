#include "audit/places.h"
#include "base/mem.h"
#include "text/path.h"

enum status audit_places_dup(const struct audit_places *from, struct audit_places **ret_copy)
{
    static const struct audit_places no_place;
    if (from == NULL)
        from = &no_place;
    size_t bytes = sizeof **ret_copy + from->n * sizeof *from->directories;
    if (from->data_dir != NULL)
        bytes += strlen(from->data_dir) + 1;
    for (size_t i = 0; i < from->n; i++)
        bytes += strlen(from->directories[i]) + 1;
    struct audit_places *copy = mem_zalloc(bytes);
    if (copy == NULL)
        return ST_NOMEM;
    const char **directories = (const char **)(copy + 1);
    char *at = (char *)(directories + from->n);
    *copy = (struct audit_places){.directories = directories, .n = from->n, .prefix = from->prefix};
    for (size_t i = 0; i < from->n; i++) {
        directories[i] = at;
        at = stpcpy(at, from->directories[i]) + 1;
    }
    if (from->data_dir != NULL) {
        copy->data_dir = at;
        at = stpcpy(at, from->data_dir) + 1;
    }
    ASSERT(at == (char *)copy + bytes);
    *ret_copy = copy;
    return ST_OK;
}

enum status audit_places_find(const struct audit_places *places, const char *path,
                              const char **ret_directory, const char **ret_below,
                              struct reason *why)
{
    const char *found = NULL;
    ASSERT(path[0] != '\0');
    if (!text_path_is_canonical(path)) {
        reason_set(why, "%.160s: must be an absolute path without empty parts, \".\" and \"..\"",
                   path);
        return ST_IO;
    }
    for (size_t i = 0; places != NULL && i < places->n; i++) {
        const char *directory = places->directories[i];
        size_t len = strlen(directory);
        if (strncmp(path, directory, len) == 0 && path[len] == '/' &&
            (found == NULL || len > strlen(found)))
            found = directory;
    }
    if (found == NULL) {
        reason_set(why,
                   "%.160s: lies in no directory that this node's configuration allows: "
                   "audit { directories = [...] }",
                   path);
        return ST_IO;
    }
    ASSERT(path[strlen(found)] == '/');
    *ret_directory = found;
    *ret_below = path + strlen(found) + 1;
    return ST_OK;
}

static const char *prefix_fault(const struct audit_places *places, const char *prefix)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                  "-_:@ ";
    if (prefix[0] == '\0')
        return NULL;
    if (prefix[strspn(prefix, allowed)] != '\0')
        return "has other characters than letters, digits, '-', '_', ':', '@' and spaces";
    return places != NULL && places->prefix
               ? NULL
               : "this node's configuration does not allow it: audit { allow_prefix = true }";
}

static bool mode_is_wide(const struct audit_options *o)
{
    return o->type == AUDIT_FILE && (o->mode & ~(uint32_t)AUDIT_MODE_MAX) != 0;
}

enum status audit_places_check(const struct audit_places *places,
                               const struct audit_options *options, struct reason *why)
{
    const char *prefix = prefix_fault(places, options->prefix), *directory, *below;
    struct reason outside = {{0}};
    ASSERT(options->prefix != NULL && (options->type != AUDIT_FILE || options->file_path != NULL));
    if (prefix != NULL) {
        reason_set(why, "prefix: %s", prefix);
        return ST_INVALID;
    }
    if (mode_is_wide(options)) {
        reason_set(why, "mode: at most %04o is allowed: audit files are not for other users",
                   (unsigned)AUDIT_MODE_MAX);
        return ST_INVALID;
    }
    if (options->type != AUDIT_FILE || audit_options_is_named(options) ||
        audit_places_find(places, options->file_path, &directory, &below, &outside) == ST_OK)
        return ST_OK;
    reason_set(why, "file_path: %s", outside.text);
    return ST_INVALID;
}

void audit_places_narrow(const struct audit_places *places, struct audit_options *options,
                         struct reason *why)
{
    const char *prefix = prefix_fault(places, options->prefix);
    bool wide = mode_is_wide(options);
    ASSERT(options->prefix != NULL);
    why->text[0] = '\0';
    if (wide || prefix != NULL)
        reason_set(why, "%s%s%s%s", wide ? "mode: its files get bits of 0640 only" : "",
                   wide && prefix != NULL ? "; " : "", prefix != NULL ? "prefix is left out: " : "",
                   prefix != NULL ? prefix : "");
    if (wide)
        options->mode &= (uint32_t)AUDIT_MODE_MAX;
    if (prefix != NULL)
        options->prefix = "";
}
