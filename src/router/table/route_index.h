/* The index of all routes: made once from the tables of all modules, never changed, read by all
 * threads.
 *
 * Each dialect has one tree of segments for its tables at fixed paths, and each engine and auth
 * method has a tree for the paths below its mounts. The order of modules and rows decides nothing:
 * of the rows that fit a path, the row with the most literal pattern serves the request, compared
 * from the first segment on: a literal, then ":name", then "*name/literal", then "*name" or
 * "+name". So modules may share a prefix. A method that the most literal pattern lacks is served by
 * a wider one, except in an API that is `narrow` (route.h). Rows that only refuse (ROW_ASTRAY, ROW_ABSENT) come after
 * all rows that serve. */
#ifndef HOLDFAST_ROUTER_TABLE_ROUTE_INDEX_H
#define HOLDFAST_ROUTER_TABLE_ROUTE_INDEX_H

#include "router/table/module.h"

struct route_index;

/* The result of a search. */
struct route_found {
    const struct route_api *api; /* the API of the row; without a row, the API that has the path */
    const struct route *route;   /* set with ST_OK */
    struct route_params params;  /* set with ST_OK */
    struct route_others others;  /* methods of the path, set with ST_UNSUPPORTED; else empty */
};

/* Check all rows and make the index. ST_INVALID with the reason: a row makes no sense
 * (route_check), or two rows of one tree have the same pattern and method. ST_NOMEM. */
NODISCARD enum status route_index_new(const struct module_list *modules, struct reason *why,
                                      struct route_index **ret_index);
void route_index_free(struct route_index *index); /* NULL is allowed */

/* Find the row of a dialect's fixed path, which lies below the dialect's root and ends in a zero
 * byte. The values of parameters lie in `arena`; NULL: no parameter is captured.
 *
 * ST_OK. ST_UNSUPPORTED: rows fit the path, but not with this method. ST_NOT_FOUND: no row fits;
 * ret_found->api is NULL if no table has the path, so that a mount may serve it. ST_NOMEM. */
NODISCARD enum status route_find(const struct route_index *index, const struct dialect *dialect,
                                 enum http_method method, struct bytes path, struct arena *arena,
                                 struct route_found *ret_found);

/* The API whose prefix has a dialect's path; NULL: no table has it. */
const struct route_api *route_owner(const struct route_index *index, const struct dialect *dialect,
                                    struct bytes path);

/* The tables of a mount's engine or auth method. NULL: this program has no such engine or method.
 */
const struct route_api *route_engine(const struct route_index *index, const struct mount *mount);

/* As route_find, in the tables of an engine or auth method; `path` is relative to the mount. */
NODISCARD enum status route_find_below(const struct route_index *index, const struct route_api *api,
                                       enum http_method method, struct bytes path,
                                       struct arena *arena, struct route_found *ret_found);

#endif
