#include "auth/registry/registry_link.h"
#include "base/buf.h"

static const struct {
    const char *prefix;
    enum registry_link_kind kind;
} identities[] = {{"service/", REGISTRY_LINK_SERVICE}, {"node/", REGISTRY_LINK_NODE}};

/* Take what precedes the first `mark` from the front of *rest. False: there is no mark, and *rest
 * becomes empty. */
static bool cut(struct bytes *rest, char mark, struct bytes *ret_part)
{
    const uint8_t *at = rest->len != 0 ? memchr(rest->data, mark, rest->len) : NULL;
    size_t len = at != NULL ? (size_t)(at - rest->data) : rest->len;
    *ret_part = bytes_of(rest->data, len);
    *rest = at != NULL ? bytes_from(*rest, len + 1) : (struct bytes){0};
    return at != NULL;
}

struct registry_link registry_link_read(struct bytes text)
{
    struct registry_link link = {.kind = REGISTRY_LINK_POLICY, .name = text};
    for (size_t i = 0; i < ARRAY_LEN(identities); i++) {
        struct bytes prefix = bytes_str(identities[i].prefix);
        if (!bytes_has_prefix(text, prefix))
            continue;
        link.kind = identities[i].kind;
        link.datacenters = bytes_from(text, prefix.len);
        (void)cut(&link.datacenters, '@', &link.name); /* without a mark: valid everywhere */
        return link;
    }
    return link;
}

bool registry_link_next_datacenter(struct bytes *rest, struct bytes *ret_datacenter)
{
    if (rest->len == 0)
        return false;
    (void)cut(rest, ',', ret_datacenter); /* the last one has no mark behind */
    return true;
}

static bool is_alphanumeric(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool is_plain(const char *name, bool capitals)
{
    size_t len = strnlen(name, REGISTRY_IDENTITY_MAX + 1);
    for (size_t i = 0; i < len; i++) {
        char c = name[i];
        bool capital = capitals && c >= 'A' && c <= 'Z';
        if (!is_alphanumeric(c) && !capital && c != '-' && c != '_')
            return false;
    }
    return len >= 1 && len <= REGISTRY_IDENTITY_MAX;
}

bool registry_link_is_name(const char *name)
{
    return is_plain(name, false) && is_alphanumeric(name[0]) &&
           is_alphanumeric(name[strlen(name) - 1]);
}

bool registry_link_is_datacenter(const char *name)
{
    return is_plain(name, true);
}

enum status registry_link_of(struct arena *arena, enum registry_link_kind kind, const char *name,
                             const struct field_strings *datacenters, const char **ret_link)
{
    CLEANUP(buf_done) struct buf link = {0};
    ASSERT(kind != REGISTRY_LINK_POLICY && registry_link_is_name(name));
    buf_add_str(&link, kind == REGISTRY_LINK_SERVICE ? "service/" : "node/");
    buf_add_str(&link, name);
    for (size_t i = 0; i < datacenters->n && link.len <= REGISTRY_LINK_MAX; i++) {
        ASSERT(registry_link_is_datacenter(datacenters->items[i]));
        buf_add_u8(&link, i == 0 ? '@' : ',');
        buf_add_str(&link, datacenters->items[i]);
    }
    TRY(buf_status(&link));
    if (link.len > REGISTRY_LINK_MAX)
        return ST_TOO_BIG;
    *ret_link = arena_str(arena, buf_bytes(&link));
    return *ret_link != NULL ? ST_OK : ST_NOMEM;
}
