/* A module: everything that one folder of src/api adds to the server. It is one constant in its
 * folder and one line in the list of src/server/modules.c; the server, the router and sys/mounts
 * find everything by that list. */
#ifndef HOLDFAST_ROUTER_TABLE_MODULE_H
#define HOLDFAST_ROUTER_TABLE_MODULE_H

#include "base/metric.h"
#include "lease/lease.h"
#include "mount/mount.h"
#include "node/node.h"
#include "router/table/route.h"

struct config_block; /* declared in text/config_block.h */

/* A name of a type that stands for the type and a value of its option `version`. */
struct module_alias {
    const char *name, *version;
};

/* An engine that clients can mount. */
struct module_engine {
    const char *type;
    const struct module_alias *aliases;
    size_t n_aliases;
    /* Check the option `version` of a new mount. ST_INVALID with the request's error. NULL: the
     * type has no versions. */
    enum status (*check_version)(struct req *req, const char *version);
    /* A tune sets the option `version` of `mount`, whose present value is still the former one:
     * check the new value, and change other fields of the mount. ST_INVALID with the request's
     * error. NULL: the type has no versions. */
    enum status (*tune_version)(struct req *req, const char *version, struct mount *mount);
};

struct auth_token;
struct login_role;

/* An auth method that clients can enable below "auth/". */
struct module_login {
    const char *type;
    const struct route_api *api; /* paths below the mount: prefix NULL, `login` set */
    /* A token that this method gave at `mount` is being renewed: give the present settings of its
     * role. ST_INVALID with the request's error: the role is gone, or refuses. */
    enum status (*renew)(struct req *req, const struct mount *mount, const struct auth_token *token,
                         struct login_role *ret_role);
};

/* A mount that initialisation makes. */
struct module_mount {
    struct mount mount;
    /* The configuration may switch this mount off (default_kv), and clients may move, remove and
     * tune it. A mount that is not optional stays; a tune changes only its audit fields. */
    bool optional;
};

struct module {
    const char *name;
    const struct route_api *const *apis; /* fixed paths and engines */
    size_t n_apis;
    const struct module_engine *engines;
    size_t n_engines;
    const struct module_login *logins; /* auth methods */
    size_t n_logins;
    const struct module_mount *mounts;
    size_t n_mounts;
    /* Stages what a new cluster has of this module, in the transaction of the initialisation, while
     * the node is still sealed. NULL: nothing. */
    enum status (*initialise)(struct req *req);
    const char *const *reserved; /* first segments of paths where clients mount nothing */
    size_t n_reserved;
    const struct lease_kind *const *leases; /* kinds of leases that its engines give */
    size_t n_leases;
    const struct expiry_kind *const
        *expires; /* kinds of things that end at a time, besides leases */
    size_t n_expires;
    const struct node_duty *duties; /* transactions of the active node (node/duty.h) */
    size_t n_duties;
    const struct node_service *services; /* threads of the active node (node/service.h) */
    size_t n_services;
    const struct config_block *config; /* a block of the configuration file; NULL: none */
    /* With `config`: takes the fields, once, before the node starts. They outlive the server. */
    void (*configure)(const void *fields);
    /* Adds the values of its metrics to a scrape, on the thread that asks. NULL: none. */
    void (*metrics)(struct metric_out *out);
};

struct module_list {
    const struct module *const *items;
    size_t n;
};

/* Add the lease kinds of all modules to `kinds`, which is empty. */
static inline void module_lease_kinds(const struct module_list *list, struct lease_kinds *kinds)
{
    ASSERT(kinds->n == 0);
    for (size_t i = 0; i < list->n; i++)
        for (size_t k = 0; k < list->items[i]->n_leases; k++)
            lease_kinds_add(kinds, list->items[i]->leases[k]);
}

/* Add the kinds of the expiry index to `kinds`, which has none: leases, and those of all modules.
 */
static inline void module_expiry_kinds(const struct module_list *list, struct expiry_kinds *kinds)
{
    ASSERT(kinds->n == 0 && kinds->leases != NULL);
    expiry_kinds_add(kinds, &lease_expiry);
    for (size_t i = 0; i < list->n; i++)
        for (size_t k = 0; k < list->items[i]->n_expires; k++)
            expiry_kinds_add(kinds, list->items[i]->expires[k]);
}

/* A position among the APIs of a list; all zero: before the first API. */
struct module_walk {
    size_t module, api;
};

/* The APIs of all modules in order, including the APIs of auth methods; NULL behind the last. */
static inline const struct route_api *module_next_api(const struct module_list *list,
                                                      struct module_walk *walk)
{
    for (; walk->module < list->n; walk->module++, walk->api = 0) {
        const struct module *module = list->items[walk->module];
        size_t i = walk->api++;
        if (i < module->n_apis)
            return module->apis[i];
        if (i < module->n_apis + module->n_logins)
            return module->logins[i - module->n_apis].api;
    }
    return NULL;
}

/* Whether an API at a fixed path holds `path`, which lies below its dialect's root. A prefix that
 * ends in '/' holds every path below it. Any other prefix holds only itself. With `help` a prefix
 * also holds itself with a '/' at its end, or without. */
bool module_stands_at(const struct route_api *api, struct bytes path, bool help);
/* The auth method of a type; NULL: there is none. */
const struct module_login *module_find_login(const struct module_list *list, const char *type);
/* Whether a mount belongs to an auth method. */
bool module_is_auth(const struct mount *mount);
/* Whether an API serves the paths below a mount. */
bool module_serves(const struct route_api *api, const struct mount *mount);

#endif
