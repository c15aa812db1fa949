#include "router/quota_follow.h"

#include "router/quota.h"
#include "router/quota_lease.h"
#include "router/router.h"
#include "router/setting.h"

struct quota_names {
    const char *items[QUOTA_MAX];
    size_t n;
};

static enum status read_quota_names(struct req *req, const struct quota_kind *kind,
                                    struct quota_names *names)
{
    struct state_iter *iter = arena_alloc(req->arena, sizeof *iter);
    struct bytes prefix;
    if (iter == NULL)
        return ST_NOMEM;
    names->n = 0;
    TRY(setting_key(req->arena, req->ns, kind->settings, &prefix));
    TRY(state_scan(req->txn, prefix, (struct bytes){0}, iter));
    while (names->n < QUOTA_MAX && state_iter_next(iter)) {
        const char *name = arena_str(req->arena, bytes_from(iter->key, prefix.len));
        if (name == NULL)
            return ST_NOMEM;
        names->items[names->n++] = name;
    }
    return ST_OK;
}

/* Whether the path of a quota names the mount, or something below it, and no API has that path. */
static enum status is_of_mount(struct req *req, const struct quota_kind *kind, const char *path,
                               const char *mount, bool *ret_is)
{
    *ret_is = strncmp(path, mount, strlen(mount)) == 0;
    if (!*ret_is || kind != &quota_rates)
        return ST_OK;
    enum status st = quota_find_api(&req->router->options.modules, req->arena, &path);
    *ret_is = st == ST_NOT_FOUND;
    return st == ST_NOT_FOUND ? ST_OK : st;
}

/* Refuse the new path of a quota that moves with its mount, if the path is too long or taken by a
 * quota that does not move: the new path of the mount may lie below the old one. */
static enum status check_moved(struct req *req, const struct quota_kind *kind,
                               const struct quota_names *names, const char *from, const char *path)
{
    if (strlen(path) > QUOTA_PATH_MAX)
        return req_fail(req, ST_INVALID,
                        "the new path of a quota would be longer than %d bytes: \"%.160s\"",
                        QUOTA_PATH_MAX, path);
    for (size_t i = 0; i < names->n; i++) {
        struct quota other;
        const char *setting = arena_format(req->arena, "%s%s", kind->settings, names->items[i]);
        if (setting == NULL)
            return ST_NOMEM;
        TRY(setting_load(req->txn, req->ns, setting, kind->schema, &other));
        if (strncmp(other.path, from, strlen(from)) != 0 && strcmp(other.path, path) == 0)
            return req_fail(req, ST_INVALID,
                            "the %s quota \"%s\" has the path \"%.160s\" already: delete it, or "
                            "choose another path for the mount",
                            kind->type, names->items[i], path);
    }
    return ST_OK;
}

static enum status follow_one(struct req *req, const struct quota_kind *kind,
                              const struct quota_names *names, size_t at, const char *const move[2])
{
    const char *setting = arena_format(req->arena, "%s%s", kind->settings, names->items[at]);
    const char *from = move[0], *to = move[1];
    struct quota quota;
    bool is;
    if (setting == NULL)
        return ST_NOMEM;
    TRY(setting_load(req->txn, req->ns, setting, kind->schema, &quota));
    TRY(is_of_mount(req, kind, quota.path, from, &is));
    if (!is)
        return ST_OK;
    if (to == NULL)
        return setting_delete(req->txn, req->ns, setting);
    quota.path = arena_concat(req->arena, to, quota.path + strlen(from));
    if (quota.path == NULL)
        return ST_NOMEM;
    TRY(check_moved(req, kind, names, from, quota.path));
    return setting_save(req->txn, req->ns, setting, kind->schema, &quota);
}

enum status quota_follow(struct req *req, const char *from, const char *to)
{
    const struct quota_kind *const kinds[] = {&quota_rates, &quota_leases};
    const char *const move[2] = {from, to};
    struct quota_names *names = arena_alloc(req->arena, sizeof *names);
    ASSERT(from[0] != '\0' && from[strlen(from) - 1] == '/');
    ASSERT(to == NULL || strcmp(from, to) != 0);
    if (names == NULL)
        return ST_NOMEM;
    for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
        TRY(read_quota_names(req, kinds[k], names));
        for (size_t i = 0; i < names->n; i++)
            TRY(follow_one(req, kinds[k], names, i, move));
    }
    return ST_OK;
}
