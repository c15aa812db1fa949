/* stores/NAME: databases that keep tokens. A store is neither contacted nor judged when it is
 * written; stores/NAME/schema makes its tables, with credentials that are used once. */
#include "api/transform/transform_store.h"

#include "api/transform/transform.h"
#include "api/transform/transform_record.h"
#include "api/transform/transform_token.h"

enum { SCHEMA_MS = 20 * 1000, LIFETIME_MAX_S = 365 * 86400 };

#define SHOWN_FIELDS                                                                               \
    FIELD(struct transform_store, connection_string, STRING,                                       \
          .help = "Where the database is, with {{username}} and {{password}}: a URL or keywords "  \
                  "as libpq reads them, or {{username}}:{{password}}@tcp(HOST:3306)/DATABASE for " \
                  "mysql."),                                                                       \
        FIELD(struct transform_store, driver, STRING, .help = "postgres or mysql (MariaDB)."),     \
        FIELD(struct transform_store, max_connection_lifetime, DURATION,                           \
              .has = offsetof(struct transform_store, has_lifetime),                               \
              .help = "How long a connection is used; 0: without limit."),                         \
        FIELD(struct transform_store, max_idle_connections, INT,                                   \
              .has = offsetof(struct transform_store, has_max_idle),                               \
              .help = "Connections that each node keeps while they are idle; 4 by default."),      \
        FIELD(struct transform_store, max_open_connections, INT,                                   \
              .has = offsetof(struct transform_store, has_max_open),                               \
              .help = "Connections that each node opens at most; 4 by default."),                  \
        FIELD(struct transform_store, schema, STRING,                                              \
              .help = "PostgreSQL: the schema with the tables; public by default."),               \
        FIELD(struct transform_store, supported_transformations, STRINGS,                          \
              .help = "Only [\"tokenization\"]."),                                                 \
        FIELD(struct transform_store, tls_ca, STRING,                                              \
              .help = "PEM certificates of the authorities to trust; empty: the system's."),       \
        FIELD(struct transform_store, type, STRING, .help = "sql.")

static const struct field shown_fields[] = {SHOWN_FIELDS};
static const struct schema store_shown_schema = SCHEMA(struct transform_store, shown_fields);
static const struct field body_fields[] = {
    SHOWN_FIELDS,
    FIELD(struct transform_store, password, STRING, .hidden = true,
          .help = "Of the user. Never shown again."),
    FIELD(struct transform_store, username, STRING,
          .help = "A user with the rights SELECT, INSERT and UPDATE on the tables alone."),
};
static const struct schema store_body_schema = SCHEMA(struct transform_store, body_fields);

enum status transform_store_load(struct req *req, const char *name, struct transform_store *ret)
{
    return transform_load(req, TRANSFORM_STORE, name, &store_body_schema, ret);
}

struct out_sql_target transform_store_target(const struct transform_store *store)
{
    enum out_sql_driver driver = OUT_SQL_POSTGRES;
    enum status st = out_sql_driver_of(store->driver, &driver, NULL);
    ASSERT(st == ST_OK); /* checked when it was written */
    return (struct out_sql_target){.driver = driver,
                                   .text = store->connection_string,
                                   .username = store->username,
                                   .password = store->password,
                                   .tls_ca = store->tls_ca};
}

struct out_sql_limits transform_store_limits(const struct transform_store *store)
{
    return (struct out_sql_limits){.max_open = (unsigned)store->max_open_connections,
                                   .max_idle = (unsigned)store->max_idle_connections,
                                   .lifetime_s = store->max_connection_lifetime};
}

static enum status stores_exists(struct req *req)
{
    return transform_exists(req, TRANSFORM_STORE);
}

static bool is_given(const char *text)
{
    return text != NULL && text[0] != '\0';
}

/* The fields of the request over those that are stored, or over the presets. */
static struct transform_store merged_store(const struct transform_store *in,
                                           const struct transform_store *stored)
{
    static const char *const tokenization[] = {TRANSFORM_TOKENIZATION};
    struct transform_store s = {.schema = "public",
                                .tls_ca = "",
                                .supported_transformations = {tokenization, 1, true},
                                .max_open_connections = 4,
                                .max_idle_connections = 4};
    if (stored != NULL)
        s = *stored;
    s.has_max_open = s.has_max_idle = s.has_lifetime = true;
    s.supported_transformations.given = true;
    const char *const from[] = {in->type,     in->driver,   in->connection_string,
                                in->username, in->password, in->schema};
    const char **const to[] = {&s.type,     &s.driver,   &s.connection_string,
                               &s.username, &s.password, &s.schema};
    for (size_t i = 0; i < ARRAY_LEN(from); i++)
        if (is_given(from[i]))
            *to[i] = from[i];
    if (in->tls_ca != NULL)
        s.tls_ca = in->tls_ca;
    if (in->supported_transformations.given)
        s.supported_transformations = in->supported_transformations;
    if (in->has_max_open)
        s.max_open_connections = in->max_open_connections;
    if (in->has_max_idle)
        s.max_idle_connections = in->max_idle_connections;
    if (in->has_lifetime)
        s.max_connection_lifetime = in->max_connection_lifetime;
    return s;
}

/* A name that needs no quotes in either database, so quoting it is enough. */
static bool is_identifier(const char *text)
{
    size_t len = strlen(text);
    bool first =
        (text[0] >= 'a' && text[0] <= 'z') || (text[0] >= 'A' && text[0] <= 'Z') || text[0] == '_';
    return first && len <= 63 &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == len;
}

static enum status check_numbers(struct req *req, const struct transform_store *s)
{
    if (s->max_open_connections < 1 || s->max_open_connections > OUT_SQL_CONNECTIONS_MAX)
        return req_fail(req, ST_INVALID, "max_open_connections: 1 to %d is expected",
                        OUT_SQL_CONNECTIONS_MAX);
    if (s->max_idle_connections < 0 || s->max_idle_connections > OUT_SQL_CONNECTIONS_MAX)
        return req_fail(req, ST_INVALID, "max_idle_connections: 0 to %d is expected",
                        OUT_SQL_CONNECTIONS_MAX);
    if (s->max_connection_lifetime < 0 || s->max_connection_lifetime > LIFETIME_MAX_S)
        return req_fail(req, ST_INVALID, "max_connection_lifetime: 0 to %d s is expected",
                        LIFETIME_MAX_S);
    return ST_OK;
}

static enum status check_required(struct req *req, const struct transform_store *s)
{
    const char *const names[] = {"type", "driver", "connection_string", "username", "password"};
    const char *const values[] = {s->type, s->driver, s->connection_string, s->username,
                                  s->password};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (!is_given(values[i]))
            return req_fail(req, ST_INVALID, "%s: the field is required", names[i]);
    return ST_OK;
}

static enum status check_store(struct req *req, const struct transform_store *s)
{
    enum out_sql_driver driver;
    struct reason why = {0};
    TRY(check_required(req, s));
    if (strcmp(s->type, "sql") != 0)
        return req_fail(req, ST_INVALID, "type: \"sql\" is expected");
    if (out_sql_driver_of(s->driver, &driver, &why) != ST_OK)
        return req_fail(req, ST_INVALID, "driver: %s", why.text);
    if (s->supported_transformations.n != 1 ||
        strcmp(s->supported_transformations.items[0], TRANSFORM_TOKENIZATION) != 0)
        return req_fail(req, ST_INVALID,
                        "supported_transformations: [\"tokenization\"] is expected");
    if (!is_identifier(s->schema))
        return req_fail(req, ST_INVALID,
                        "schema: 1 to 63 letters, digits or '_' are expected, no digit first");
    TRY(check_numbers(req, s));
    if (strlen(s->tls_ca) > OUT_SQL_CA_MAX ||
        (s->tls_ca[0] != '\0' && strstr(s->tls_ca, "-----BEGIN CERTIFICATE-----") == NULL))
        return req_fail(req, ST_INVALID,
                        "tls_ca: PEM certificates of at most %d bytes are expected",
                        OUT_SQL_CA_MAX);
    const struct out_sql_target target = transform_store_target(s);
    enum status st = out_sql_check(&target, &why);
    if (st == ST_INVALID)
        return req_fail(req, st, "connection_string: %s", why.text);
    return st;
}

static enum status stores_write(struct req *req)
{
    struct transform_store stored;
    const char *name;
    TRY(transform_own_name(req, &name));
    enum status st = transform_store_load(req, name, &stored);
    if (st != ST_NOT_FOUND)
        TRY(st);
    const struct transform_store s = merged_store(req_body(req), st == ST_OK ? &stored : NULL);
    TRY(check_store(req, &s));
    return transform_save(req, TRANSFORM_STORE, name, &store_body_schema, &s);
}

static enum status stores_read(struct req *req)
{
    static const char *const tokenization[] = {TRANSFORM_TOKENIZATION};
    const char *name = req_param(req, "name");
    struct transform_store s = {.type = "internal",
                                .driver = "",
                                .connection_string = "",
                                .schema = "",
                                .tls_ca = "",
                                .supported_transformations = {tokenization, 1, true}};
    if (strcmp(name, TRANSFORM_INTERNAL) != 0)
        TRY(transform_store_load(req, name, &s));
    return req_reply(req, &s);
}

static enum status stores_delete(struct req *req)
{
    const char *name;
    TRY(transform_own_name(req, &name));
    TRY(transform_check_unused(req, TRANSFORM_STORE, name));
    return transform_delete(req, TRANSFORM_STORE, name);
}

static enum status stores_list(struct req *req)
{
    static const char *const builtins[] = {TRANSFORM_INTERNAL};
    return transform_list(req, TRANSFORM_STORE, builtins, ARRAY_LEN(builtins));
}

/* The tables of a store. */

struct tables_in {
    const char *username, *password, *transformation_type;
};
static const struct field tables_fields[] = {
    FIELD(struct tables_in, password, STRING, .required = true, .hidden = true,
          .help = "Of that user. Used for this request and stored nowhere."),
    FIELD(struct tables_in, transformation_type, STRING, .preset = TRANSFORM_TOKENIZATION,
          .help = "Only tokenization."),
    FIELD(struct tables_in, username, STRING, .required = true,
          .help = "A user who may create tables."),
};
static const struct schema store_tables_schema = SCHEMA(struct tables_in, tables_fields);

struct tables_job {
    struct out_sql_job job;
    struct transform_store store;
    const char *name;
};

static enum status tables_check(struct req *req)
{
    const struct tables_in *in = req_body(req);
    struct tables_job *job = arena_zalloc(req->arena, sizeof *job);
    struct reason why = {0};
    if (job == NULL)
        return ST_NOMEM;
    TRY(transform_own_name(req, &job->name));
    if (strcmp(in->transformation_type, TRANSFORM_TOKENIZATION) != 0)
        return req_fail(req, ST_INVALID, "transformation_type: \"tokenization\" is expected");
    if (!is_given(in->username) || !is_given(in->password))
        return req_fail(req, ST_INVALID, "username and password: the fields are required");
    TRY(transform_store_load(req, job->name, &job->store));
    job->store.username = in->username;
    job->store.password = in->password;
    const struct out_sql_target target = transform_store_target(&job->store);
    if (out_sql_check(&target, &why) != ST_OK)
        return req_fail(req, ST_INVALID, "connection_string: %s", why.text);
    req->prepared = job;
    return ST_OK;
}

static enum status run_tables(struct out_sql_job *base, struct out_sql_conn *conn,
                              struct reason *reason)
{
    struct tables_job *job = CONTAINER_OF(base, struct tables_job, job);
    return transform_store_make_tables(conn, job->store.schema, reason);
}

static enum status tables_outside(struct req *req)
{
    struct tables_job *job = req->prepared;
    struct reason why = {0};
    const struct out_sql_target target = transform_store_target(&job->store);
    job->job = (struct out_sql_job){.run = run_tables, .until_ms = out_sql_now_ms() + SCHEMA_MS};
    enum status st = out_sql_once(&target, &job->job, &why);
    if (st == ST_OK || st == ST_NOMEM)
        return st;
    return req_fail(req, ST_BAD_GATEWAY, "store \"%s\": %s", job->name, why.text);
}

static const struct route store_routes[] = {
    {.method = METHOD_LIST,
     .path = "stores",
     .handler = stores_list,
     .body = &transform_list_schema,
     .help = "The names of all stores of tokens."},
    {.method = METHOD_GET,
     .path = "stores/+name",
     .handler = stores_read,
     .reply = &store_shown_schema,
     .help = "Read a store. User and password are not shown."},
    {.method = METHOD_POST,
     .path = "stores/+name",
     .handler = stores_write,
     .exists = stores_exists,
     .feature = TRANSFORM_TOKEN_FEATURE,
     .body = &store_body_schema,
     .help =
         "Create or change a store of tokens: a database of yours. It is not contacted now. New "
         "credentials count at once on all nodes."},
    {.method = METHOD_DELETE,
     .path = "stores/+name",
     .handler = stores_delete,
     .help = "Delete a store that no transformation uses. Its tables stay."},
    {.method = METHOD_POST,
     .path = "stores/:name/schema",
     .handler = tables_check,
     .outside = tables_outside,
     .is_slow = true,
     .flags = ROUTE_READS,
     .feature = TRANSFORM_TOKEN_FEATURE,
     .body = &store_tables_schema,
     .help = "Create the tables of a store, or bring them up to date. The credentials are used for "
             "this request and stored nowhere. Then grant the user of the store SELECT, INSERT and "
             "UPDATE on the table tokens."},
};
const struct route_table transform_store_table = {store_routes, ARRAY_LEN(store_routes)};
