/* Transformations by tokenization: their fields, and the stores that they name. */
#include "api/transform/transform_store.h"
#include "api/transform/transform_token.h"

static const char *const internal_store[] = {TRANSFORM_INTERNAL};

enum status transform_store_check(struct req *req, const struct field_strings *stores)
{
    if (stores->n == 0)
        return req_fail(req, ST_INVALID, "stores: at least one is expected, as \"%s\"",
                        TRANSFORM_INTERNAL);
    if (stores->n > TRANSFORM_STORES_MAX)
        return req_fail(req, ST_INVALID, "stores: %d at most, %zu were given", TRANSFORM_STORES_MAX,
                        stores->n);
    for (size_t i = 0; i < stores->n; i++) {
        struct transform_store store;
        const char *name = stores->items[i];
        for (size_t k = 0; k < i; k++)
            if (strcmp(name, stores->items[k]) == 0)
                return req_fail(req, ST_INVALID, "stores: \"%s\" is given twice", name);
        if (strcmp(name, TRANSFORM_INTERNAL) == 0)
            continue;
        enum status st = transform_store_load(req, name, &store);
        if (st == ST_NOT_FOUND)
            return req_fail(req, ST_INVALID, "stores: the store \"%.140s\" does not exist", name);
        TRY(st);
    }
    return ST_OK;
}

static bool is_given(const char *text)
{
    return text != NULL && text[0] != '\0';
}

static enum status check_modes(struct req *req, const struct transform_transformation *in,
                               const struct transform_transformation *stored)
{
    bool known = strcmp(in->mapping_mode, TRANSFORM_DEFAULT) == 0 ||
                 strcmp(in->mapping_mode, TRANSFORM_EXPORTABLE) == 0;
    ASSERT(in->mapping_mode != NULL);
    if (!known)
        return req_fail(req, ST_INVALID, "mapping_mode: \"default\" or \"exportable\" is expected");
    if (stored == NULL)
        return ST_OK;
    if (strcmp(in->mapping_mode, stored->mapping_mode) != 0)
        return req_fail(req, ST_INVALID, "mapping_mode: it is %s and cannot be changed",
                        stored->mapping_mode);
    if (in->convergent != stored->convergent)
        return req_fail(req, ST_INVALID, "convergent: it is %s and cannot be changed",
                        stored->convergent ? "true" : "false");
    return ST_OK;
}

/* The fields of the request over those that are stored, or over the presets. */
static struct transform_transformation merged(const struct transform_transformation *in,
                                              const struct transform_transformation *stored)
{
    struct transform_transformation t = {.type = TRANSFORM_TOKENIZATION,
                                         .mapping_mode = TRANSFORM_DEFAULT,
                                         .stores = {internal_store, 1, true}};
    if (stored != NULL)
        t = *stored;
    t.has_convergent = t.has_max_ttl = t.allowed_roles.given = true;
    if (is_given(in->mapping_mode))
        t.mapping_mode = in->mapping_mode;
    if (in->has_convergent)
        t.convergent = in->convergent;
    if (in->has_max_ttl)
        t.max_ttl = in->max_ttl;
    if (in->stores.given)
        t.stores = in->stores;
    if (in->allowed_roles.given)
        t.allowed_roles = in->allowed_roles;
    if (in->has_deletion_allowed) {
        t.has_deletion_allowed = true;
        t.deletion_allowed = in->deletion_allowed;
    }
    return t;
}

enum status transform_token_write(struct req *req, const char *name,
                                  const struct transform_transformation *in,
                                  const struct transform_transformation *stored, const uint8_t *key)
{
    const struct transform_transformation t = merged(in, stored);
    TRY(req_need_feature(req, TRANSFORM_TOKEN_FEATURE));
    TRY(check_modes(req, &t, stored));
    TRY(transform_store_check(req, &t.stores));
    TRY(transform_check_roles(req, &t.allowed_roles));
    static const struct field_strings none;
    TRY(transform_use(req, TRANSFORM_STORE, name, stored != NULL ? &stored->stores : &none,
                      &t.stores));
    if (stored == NULL)
        TRY(transform_ring_create(req, name, key));
    return transform_save(req, TRANSFORM_TRANSFORMATION, name, &transform_transformation_schema,
                          &t);
}
