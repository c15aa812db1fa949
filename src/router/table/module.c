#include "router/table/module.h"

bool module_stands_at(const struct route_api *api, struct bytes path, bool help)
{
    struct bytes prefix = bytes_str(api->prefix);
    ASSERT(api->dialect != NULL); /* at a fixed path */
    if (prefix.len == 0)
        return true; /* every path below the root of its dialect */
    ASSERT(prefix.data[0] != '/');
    if (help && path.len + 1 == prefix.len && prefix.data[path.len] == '/')
        return bytes_has_prefix(prefix, path);
    if (!bytes_has_prefix(path, prefix))
        return false;
    return prefix.data[prefix.len - 1] == '/' || path.len == prefix.len ||
           (help && path.len == prefix.len + 1 && path.data[prefix.len] == '/');
}

bool module_is_auth(const struct mount *mount)
{
    static const char prefix[] = "auth/";
    return strncmp(mount->path, prefix, sizeof prefix - 1) == 0;
}

const struct module_login *module_find_login(const struct module_list *list, const char *type)
{
    for (size_t i = 0; i < list->n; i++)
        for (size_t k = 0; k < list->items[i]->n_logins; k++) {
            const struct module_login *login = &list->items[i]->logins[k];
            ASSERT(login->api->login && login->api->prefix == NULL);
            ASSERT(strcmp(login->api->type, login->type) == 0);
            if (strcmp(login->type, type) == 0)
                return login;
        }
    return NULL;
}

bool module_serves(const struct route_api *api, const struct mount *mount)
{
    if (api->prefix != NULL || strcmp(api->type, mount->type) != 0 ||
        api->login != module_is_auth(mount))
        return false;
    const char *version = mount_option(mount, "version");
    return api->version == NULL || strcmp(api->version, version != NULL ? version : "1") == 0;
}
