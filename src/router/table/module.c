#include "router/table/module.h"

bool module_stands_at(const struct route_api *api, struct bytes path, bool help)
{
    struct bytes prefix = bytes_str(api->prefix);
    ASSERT(prefix.len != 0);
    ASSERT(prefix.data[0] != '/');
    if (help && path.len + 1 == prefix.len && prefix.data[path.len] == '/')
        return bytes_has_prefix(prefix, path);
    if (!bytes_has_prefix(path, prefix))
        return false;
    return prefix.data[prefix.len - 1] == '/' || path.len == prefix.len ||
           (help && path.len == prefix.len + 1 && path.data[prefix.len] == '/');
}

const struct route_api *module_find_fixed(const struct module_list *list,
                                          const struct dialect *dialect, struct bytes path,
                                          bool help)
{
    ASSERT(dialect != NULL);
    if (path.len == 0)
        return NULL;
    for (size_t i = 0; i < list->n; i++)
        for (size_t k = 0; k < list->items[i]->n_apis; k++) {
            const struct route_api *api = list->items[i]->apis[k];
            /* This runs for every request: comparing one byte rules most APIs out. */
            if (api->prefix != NULL && api->prefix[0] == path.data[0] && api->dialect == dialect &&
                module_stands_at(api, path, help))
                return api;
        }
    return NULL;
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

static bool serves(const struct route_api *api, const struct mount *mount)
{
    if (api->prefix != NULL || strcmp(api->type, mount->type) != 0 ||
        api->login != module_is_auth(mount))
        return false;
    const char *version = mount_option(mount, "version");
    return api->version == NULL || strcmp(api->version, version != NULL ? version : "1") == 0;
}

const struct route_api *module_find_engine(const struct module_list *list,
                                           const struct mount *mount)
{
    const char first = mount->type[0]; /* first byte, compared as in module_find_fixed */
    for (size_t i = 0; i < list->n; i++) {
        const struct module *module = list->items[i];
        for (size_t k = 0; k < module->n_apis; k++)
            if (module->apis[k]->type[0] == first && serves(module->apis[k], mount))
                return module->apis[k];
        for (size_t k = 0; k < module->n_logins; k++)
            if (serves(module->logins[k].api, mount))
                return module->logins[k].api;
    }
    return NULL;
}
