/* Templates: "{{identity.entity.metadata.team}}". */
#include "auth/identity/identity.h"
#include "base/buf.h"

static bool take(struct bytes *text, const char *prefix)
{
    struct bytes p = bytes_str(prefix);
    if (!bytes_has_prefix(*text, p))
        return false;
    *text = bytes_from(*text, p.len);
    return true;
}

static bool is(struct bytes text, const char *word)
{
    return bytes_eq(text, bytes_str(word));
}

static const char *value_of(const struct field_map *map, struct bytes key)
{
    for (size_t i = 0; i < map->n; i++)
        if (is(key, map->pairs[2 * i]))
            return map->pairs[2 * i + 1];
    return NULL;
}

static const char *of_alias(const struct identity *identity, struct bytes rest)
{
    ASSERT(identity->n_aliases <= IDENTITY_ALIASES_MAX);
    for (size_t i = 0; i < identity->n_aliases; i++) {
        const struct identity_alias *a = &identity->aliases[i];
        struct bytes at = rest;
        if (!take(&at, a->accessor) || !take(&at, "."))
            continue;
        if (is(at, "id"))
            return a->id;
        if (is(at, "name"))
            return a->name;
        if (take(&at, "metadata."))
            return value_of(&a->metadata, at);
        return take(&at, "custom_metadata.") ? value_of(&a->custom_metadata, at) : NULL;
    }
    return NULL;
}

/* `rest` begins with the id or the name of a group, and a dot. */
static const char *of_group(const struct identity *identity, struct bytes rest, bool by_name)
{
    ASSERT(identity->n_groups <= IDENTITY_REACHED_MAX);
    for (size_t i = 0; i < identity->n_groups; i++) {
        const struct identity_group *g = &identity->groups[i];
        struct bytes at = rest;
        if (!take(&at, by_name ? g->name : g->id) || !take(&at, "."))
            continue;
        if (is(at, "id"))
            return g->id;
        if (is(at, "name"))
            return g->name;
        if (take(&at, "metadata."))
            return value_of(&g->metadata, at);
    }
    return NULL;
}

/* The value that a name stands for; NULL: there is none. */
static const char *value(const struct identity *identity, struct bytes name)
{
    const struct identity_entity *e = &identity->entity;
    if (take(&name, "identity.entity.")) {
        if (is(name, "id"))
            return e->id;
        if (is(name, "name"))
            return e->name;
        if (take(&name, "metadata."))
            return value_of(&e->metadata, name);
        return take(&name, "aliases.") ? of_alias(identity, name) : NULL;
    }
    if (take(&name, "identity.groups.ids."))
        return of_group(identity, name, false);
    return take(&name, "identity.groups.names.") ? of_group(identity, name, true) : NULL;
}

static struct bytes trimmed(struct bytes text)
{
    while (text.len != 0 && text.data[0] == ' ')
        text = bytes_from(text, 1);
    while (text.len != 0 && text.data[text.len - 1] == ' ')
        text.len--;
    return text;
}

static bool is_plain(const char *text)
{
    return text != NULL && text[0] != '\0' && strpbrk(text, "/*+") == NULL;
}

static const uint8_t *find(struct bytes text, const char *two)
{
    return text.len >= 2 ? memmem(text.data, text.len, two, 2) : NULL;
}

enum status identity_fill(const struct identity *identity, struct arena *arena, struct bytes text,
                          struct bytes *ret_text)
{
    CLEANUP(buf_done) struct buf out = {0};
    const uint8_t *open, *close;
    while ((open = find(text, "{{")) != NULL) {
        struct bytes rest = bytes_from(text, (size_t)(open - text.data) + 2);
        if ((close = find(rest, "}}")) == NULL)
            break;
        ASSERT(close >= rest.data && open >= text.data);
        struct bytes name = trimmed(bytes_of(rest.data, (size_t)(close - rest.data)));
        const char *filled = value(identity, name);
        if (!is_plain(filled))
            return ST_NOT_FOUND;
        buf_add(&out, bytes_of(text.data, (size_t)(open - text.data)));
        buf_add(&out, bytes_str(filled));
        text = bytes_from(rest, (size_t)(close - rest.data) + 2);
    }
    buf_add(&out, text);
    TRY(buf_status(&out));
    ASSERT(identity->entity.id != NULL);
    char *copy = arena_str(arena, buf_bytes(&out));
    if (copy == NULL)
        return ST_NOMEM;
    *ret_text = bytes_of(copy, out.len);
    return ST_OK;
}
