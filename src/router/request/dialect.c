#include "router/request/dialect.h"

const struct dialect *dialect_home(const struct module_list *modules)
{
    struct module_walk walk = {0};
    const struct dialect *first = NULL;
    const struct route_api *api;
    while ((api = module_next_api(modules, &walk)) != NULL) {
        /* only an API at a fixed path names a dialect: engines speak the dialect of mounts */
        ASSERT((api->dialect != NULL) == (api->prefix != NULL));
        if (api->prefix == NULL)
            continue;
        if (api->dialect->mounts)
            return api->dialect;
        first = first != NULL ? first : api->dialect;
    }
    ASSERT(first != NULL);
    return first;
}

bool dialect_is_only(const struct module_list *modules, const struct dialect *home)
{
    struct module_walk walk = {0};
    const struct route_api *api;
    while ((api = module_next_api(modules, &walk)) != NULL)
        if (api->prefix != NULL && api->dialect != home)
            return false;
    return true;
}

const struct dialect *dialect_find(const struct module_list *modules, const struct dialect *home,
                                   struct bytes full)
{
    struct module_walk walk = {0};
    const struct route_api *api;
    const struct dialect *rooted = bytes_has_prefix(full, bytes_str(home->root)) ? home : NULL;
    while ((api = module_next_api(modules, &walk)) != NULL) {
        if (api->prefix == NULL || !bytes_has_prefix(full, bytes_str(api->dialect->root)))
            continue;
        if (module_stands_at(api, bytes_from(full, strlen(api->dialect->root)), true))
            return api->dialect;
        rooted = rooted != NULL ? rooted : api->dialect;
    }
    return rooted != NULL ? rooted : home;
}
