#include "router/request/dialect.h"

static void add_dialect(struct dialect_map *map, const struct dialect *dialect)
{
    for (unsigned i = 0; i < map->n; i++)
        if (map->dialects[i] == dialect)
            return;
    ASSERT(map->n < DIALECTS_MAX);
    ASSERT(!dialect->mounts || dialect->authorise == NULL); /* mounts know the policies alone */
    map->dialects[map->n++] = dialect;
}

static const struct dialect *home_of(const struct dialect_map *map)
{
    ASSERT(map->n > 0);
    for (unsigned i = 0; i < map->n; i++)
        if (map->dialects[i]->mounts)
            return map->dialects[i];
    return map->dialects[0];
}

static void add_place(struct dialect_map *map, const struct dialect *dialect,
                      const struct route_api *api)
{
    ASSERT(map->n_places < DIALECT_PLACES_MAX);
    map->places[map->n_places++] = (struct dialect_place){dialect, api, bytes_str(dialect->root)};
}

/* A table is found before the root below which it stands. */
void dialect_map_init(struct dialect_map *map, const struct module_list *modules)
{
    const struct route_api *api;
    *map = (struct dialect_map){0};
    for (struct module_walk walk = {0}; (api = module_next_api(modules, &walk)) != NULL;) {
        /* only an API at a fixed path names a dialect: engines speak the dialect of mounts */
        ASSERT((api->dialect != NULL) == (api->prefix != NULL));
        if (api->dialect != NULL)
            add_dialect(map, api->dialect);
    }
    map->home = home_of(map);
    for (struct module_walk walk = {0}; (api = module_next_api(modules, &walk)) != NULL;)
        if (api->dialect != NULL && api->dialect != map->home)
            add_place(map, api->dialect, api);
    for (unsigned i = 0; i < map->n; i++)
        if (map->dialects[i] != map->home && strcmp(map->dialects[i]->root, map->home->root) != 0)
            add_place(map, map->dialects[i], NULL);
}

static bool is_chosen(const struct dialect_map *map, const struct dialect *dialect)
{
    for (unsigned i = 0; i < map->n; i++)
        if (map->dialects[i] == dialect)
            return true;
    return false;
}

enum status dialect_map_choose(const struct dialect_map *all, const char *const *names, size_t n,
                               struct dialect_map *ret_map, size_t *ret_unknown)
{
    struct dialect_map map = {0};
    ASSERT(n > 0);
    for (size_t i = 0; i < n; i++) {
        const struct dialect *dialect = dialect_named(all, bytes_str(names[i]));
        if (dialect == NULL) {
            *ret_unknown = i;
            return ST_NOT_FOUND;
        }
        add_dialect(&map, dialect);
        for (unsigned k = 0; k < all->n; k++)
            if (all->dialects[k]->part_of != NULL &&
                strcmp(all->dialects[k]->part_of, names[i]) == 0)
                add_dialect(&map, all->dialects[k]);
    }
    map.home = home_of(&map);
    for (unsigned i = 0; i < all->n_places; i++)
        if (all->places[i].dialect != map.home && is_chosen(&map, all->places[i].dialect))
            add_place(&map, all->places[i].dialect, all->places[i].api);
    *ret_map = map;
    return ST_OK;
}

static bool stands_at(const struct dialect_place *place, struct bytes full)
{
    const struct bytes root = place->root;
    if (place->api == NULL)
        return bytes_has_prefix(full, root);
    /* This runs for every request: comparing one byte rules most places out. */
    return full.len > root.len && full.data[root.len] == (uint8_t)place->api->prefix[0] &&
           bytes_has_prefix(full, root) &&
           module_stands_at(place->api, bytes_from(full, root.len), true);
}

const struct dialect *dialect_find(const struct dialect_map *map, struct bytes full)
{
    for (unsigned i = 0; i < map->n_places; i++)
        if (stands_at(&map->places[i], full))
            return map->places[i].dialect;
    return map->home;
}

static bool has_own_token(const struct dialect *dialect, const struct router_request *request)
{
    return dialect->has_own_token != NULL && dialect->has_own_token(request);
}

const struct dialect *dialect_of_client(const struct dialect_map *map,
                                        const struct router_request *request)
{
    const struct dialect *home = map->home;
    ASSERT(map->n > 0);
    if (!home->mounts || has_own_token(home, request))
        return home;
    for (unsigned i = 0; i < map->n; i++)
        if (strcmp(map->dialects[i]->root, home->root) == 0 &&
            has_own_token(map->dialects[i], request))
            return map->dialects[i];
    return home;
}

const struct dialect *dialect_named(const struct dialect_map *map, struct bytes name)
{
    for (unsigned i = 0; i < map->n; i++)
        if (bytes_eq(name, bytes_str(map->dialects[i]->name)))
            return map->dialects[i];
    return NULL;
}
