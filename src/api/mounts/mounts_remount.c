/* Move a mount to another path. */
#include "api/mounts/mounts.h"
#include "api/mounts/mounts_show.h"
#include "router/quota_follow.h"
#include "state/ns_key.h"
#include "text/random.h"

struct mounts_remount {
    const char *from, *to;
};
struct mounts_migration {
    const char *migration_id;
    const void *migration_info; /* struct mounts_migration_info */
};
struct mounts_migration_info {
    const char *source_mount, *target_mount, *status;
};

/* A move is complete when the client gets the reply. The record of a move is for clients that ask
 * for the status of the move. The first move after a day deletes the record. */
#define REMOUNT_KIND "remount"

enum { REMOUNT_KEPT_MS = 24 * 3600 * 1000, REMOUNT_SWEEP_MAX = 1000 };

struct migration {
    const char *source_mount, *target_mount;
    int64_t time_ms;
};
static const struct field migration_record_fields[] = {
    FIELD(struct migration, source_mount, STRING, .required = true),
    FIELD(struct migration, target_mount, STRING, .required = true),
    FIELD(struct migration, time_ms, INT),
};
static const struct schema migration_record = SCHEMA(struct migration, migration_record_fields);

static const struct field remount_fields[] = {
    FIELD(struct mounts_remount, from, STRING, .required = true, .help = "The path of the mount."),
    FIELD(struct mounts_remount, to, STRING, .required = true,
          .help = "The new path of the mount."),
};
static const struct schema mounts_remount_schema = SCHEMA(struct mounts_remount, remount_fields);

static const struct field remounted_fields[] = {
    FIELD(struct mounts_migration, migration_id, STRING, .help = "For remount/status."),
};
static const struct schema mounts_remounted_schema =
    SCHEMA(struct mounts_migration, remounted_fields);

static const struct field info_fields[] = {
    FIELD(struct mounts_migration_info, source_mount, STRING, .help = "The old path."),
    FIELD(struct mounts_migration_info, target_mount, STRING, .help = "The new path."),
    FIELD(struct mounts_migration_info, status, STRING, .help = "\"success\"."),
};
static const struct schema info_schema = SCHEMA(struct mounts_migration_info, info_fields);

static const struct field migration_fields[] = {
    FIELD(struct mounts_migration, migration_id, STRING, .help = "The id that the request names."),
    FIELD(struct mounts_migration, migration_info, OBJECT, .sub = &info_schema,
          .help = "The paths and the status of the move."),
};
static const struct schema mounts_migration_schema =
    SCHEMA(struct mounts_migration, migration_fields);

static enum status decode(struct arena *arena, struct bytes stored, struct migration *ret)
{
    const struct text_value *v;
    struct schema_fault fault;
    enum status st = text_json_parse(arena, stored, &v, NULL);
    if (st == ST_OK)
        st = v->kind == TEXT_OBJECT ? schema_decode(&migration_record, v, arena, ret, &fault)
                                    : ST_INVALID;
    return st == ST_OK || st == ST_NOMEM ? st : ST_CORRUPT;
}

static enum status sweep(struct req *req)
{
    struct state_iter *iter = arena_alloc(req->arena, sizeof *iter);
    struct bytes prefix, stored;
    struct migration migration;

    if (iter == NULL)
        return ST_NOMEM;
    TRY(state_ns_key(req->arena, req->ns, REMOUNT_KIND, (struct bytes){0}, NULL, &prefix));
    TRY(state_scan(req->txn, prefix, (struct bytes){0}, iter));
    for (unsigned i = 0; i < REMOUNT_SWEEP_MAX && state_iter_next(iter); i++) {
        TRY(state_iter_value(iter, &stored));
        TRY(decode(req->arena, stored, &migration));
        if (migration.time_ms < req->now_ms - REMOUNT_KEPT_MS)
            TRY(state_delete(req->txn, iter->key));
    }
    return ST_OK;
}

static enum status keep_migration(struct req *req, const char *id,
                                  const struct migration *migration)
{
    CLEANUP(buf_done) struct buf record = {0};
    struct text_writer w = {.out = &record};
    struct bytes key;
    ASSERT(strlen(id) == TEXT_UUID_LEN);
    TRY(state_ns_key(req->arena, req->ns, REMOUNT_KIND, bytes_str(id), NULL, &key));
    schema_encode(&migration_record, migration, &w);
    TRY(buf_status(&record));
    return state_put(req->txn, key, buf_bytes(&record));
}

static enum status read_place(struct req *req, const char *name, const char *text,
                              const char **ret_path)
{
    struct reason why = {0};
    enum status st = mount_path(req->arena, text, ret_path, &why);
    if (st == ST_INVALID)
        return req_fail(req, st, "%s: %s", name, why.text);
    return st;
}

static bool is_below_auth(const char *path)
{
    return strncmp(path, SYS_AUTH_PREFIX, strlen(SYS_AUTH_PREFIX)) == 0;
}

/* Check both places of a move. An auth method moves to another path below "auth/". */
static enum status check_places(struct req *req, const char *from, const char *to)
{
    const char *const both[] = {from, to};
    ASSERT(mounts_is_path(from) && mounts_is_path(to));
    if (!is_below_auth(from)) {
        TRY(mounts_check_place(req, from));
        return mounts_check_new(req, to);
    }
    if (!is_below_auth(to))
        return req_fail(req, ST_INVALID, "an auth method moves to a path below \"auth/\" alone");
    for (size_t i = 0; i < ARRAY_LEN(both); i++)
        if (strcmp(both[i], SYS_AUTH_PREFIX) == 0 ||
            strncmp(both[i], SYS_AUTH_PREFIX "token/", strlen(SYS_AUTH_PREFIX "token/")) == 0)
            return req_fail(req, ST_INVALID, "\"%.160s\" cannot be moved, and nothing to it",
                            both[i]);
    return mounts_check_wildcards(req, to);
}

static enum status mounts_remount(struct req *req)
{
    const struct mounts_remount *in = req_body(req);
    struct migration migration = {.time_ms = req->now_ms};
    struct mount mount;
    char uuid[TEXT_UUID_LEN + 1];

    ASSERT(req_in_txn(req));
    TRY(read_place(req, "from", in->from, &migration.source_mount));
    TRY(read_place(req, "to", in->to, &migration.target_mount));
    TRY(check_places(req, migration.source_mount, migration.target_mount));
    enum status st = mount_get(req->txn, req->ns, migration.source_mount, &mount);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "no matching mount at \"%.160s\"", migration.source_mount);
    TRY(st);
    if (strcmp(migration.source_mount, migration.target_mount) == 0)
        return req_fail(req, ST_INVALID, "path is already in use at %.160s",
                        migration.target_mount);
    TRY(mounts_end_leases(req, migration.source_mount));
    st = mount_move(req->txn, req->ns, &mount, migration.target_mount);
    if (st == ST_EXISTS)
        return req_fail(req, ST_INVALID, "path is already in use at %.160s, above or below it",
                        migration.target_mount);
    TRY(st);
    ASSERT(strcmp(migration.source_mount, migration.target_mount) != 0);
    TRY(quota_follow(req, migration.source_mount, migration.target_mount));
    TRY(sweep(req));
    text_uuid(req->env, uuid);
    TRY(keep_migration(req, uuid, &migration));
    return req_reply(req, &(struct mounts_migration){.migration_id = uuid});
}

static enum status mounts_remount_status(struct req *req)
{
    const char *id = req_param(req, "migration_id");
    struct state_value stored;
    struct migration migration;
    struct bytes key;

    ASSERT(route_is_name(bytes_str(id)));
    TRY(state_ns_key(req->arena, req->ns, REMOUNT_KIND, bytes_str(id), NULL, &key));
    TRY(state_get(req->txn, key, &stored));
    TRY(decode(req->arena, stored.value, &migration));
    struct mounts_migration_info info = {migration.source_mount, migration.target_mount, "success"};
    return req_reply(req, &(struct mounts_migration){id, &info});
}

static const struct route remount_routes[] = {
    {.method = METHOD_POST,
     .path = "remount",
     .handler = mounts_remount,
     .form = FORM_TOP_LEVEL,
     .flags = ROUTE_SUDO,
     .body = &mounts_remount_schema,
     .reply = &mounts_remounted_schema,
     .help =
         "Move a secrets engine or an auth method, with its data and its quotas, to another path. "
         "Its leases and tokens end. The reply comes "
         "when the move is complete."},
    {.method = METHOD_GET,
     .path = "remount/status/:migration_id",
     .handler = mounts_remount_status,
     .reply = &mounts_migration_schema,
     .help = "The status of a move; kept for at least a day."},
};

const struct route_table mounts_remount_table = {remount_routes, ARRAY_LEN(remount_routes)};
