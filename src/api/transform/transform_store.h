/* Stores of tokens: SQL databases of the operator, and their tables. */
#ifndef HOLDFAST_API_TRANSFORM_TRANSFORM_STORE_H
#define HOLDFAST_API_TRANSFORM_TRANSFORM_STORE_H

#include "api/transform/transform_object.h"
#include "out/sql/sql.h"

enum { TRANSFORM_STORES_MAX = 8 /* of a transformation */ };

struct transform_store {
    const char *type, *driver, *connection_string, *username, *password, *tls_ca, *schema;
    struct field_strings supported_transformations;
    int64_t max_open_connections, max_idle_connections, max_connection_lifetime;
    bool has_max_open, has_max_idle, has_lifetime;
};

/* ST_NOT_FOUND. Else as transform_load. */
NODISCARD enum status transform_store_load(struct req *req, const char *name,
                                           struct transform_store *ret_store);
/* The target and the limits of a pool. The target borrows from the store. */
struct out_sql_target transform_store_target(const struct transform_store *store);
struct out_sql_limits transform_store_limits(const struct transform_store *store);
/* Create the tables, or bring them up to date, on a connection whose user may. As out_sql_run. */
NODISCARD enum status transform_store_make_tables(struct out_sql_conn *conn, const char *schema,
                                                  struct reason *reason);
/* The table `tokens` as statements name it. */
const char *transform_store_table_name(struct arena *arena, enum out_sql_driver driver,
                                       const char *schema);

#endif
