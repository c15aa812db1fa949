/* sys/storage/raft/snapshot-auto: when the active node saves snapshots by itself. */
#include "api/members/members_autosnap.h"
#include "loop/loop_fs.h"

enum status members_autosnap_open(const char *path, const char *data_dir, struct fs **ret_fs,
                                  bool *ret_same_disk, struct reason *why)
{
    struct loop_fs_place place = {0};
    struct reason inner = {{0}};
    struct fs *fs = NULL;
    ASSERT(path[0] == '/');
    ASSERT(*ret_fs == NULL);
    enum status st = loop_fs_new(path, &fs, &inner);
    if (st != ST_OK) {
        reason_set(why, "path_prefix: %.200s",
                   inner.text[0] != '\0' ? inner.text : status_text(st));
        return st;
    }
    if (data_dir != NULL)
        st = loop_fs_place(fs, data_dir, &place);
    if (st != ST_OK)
        reason_set(why, "path_prefix: cannot be compared with the data directory");
    if (st == ST_OK && place.inside) {
        reason_set(why, "path_prefix: leads into the data directory");
        st = ST_INVALID;
    }
    if (st != ST_OK) {
        loop_fs_free(fs);
        return st;
    }
    *ret_fs = fs;
    *ret_same_disk = place.same_disk;
    return ST_OK;
}

static enum status name_of(struct req *req, const char **ret_name)
{
    *ret_name = req_param(req, "name");
    if (strlen(*ret_name) > AUTOSNAP_NAME_MAX)
        return req_fail(req, ST_INVALID, "name: at most %d characters are expected",
                        AUTOSNAP_NAME_MAX);
    return ST_OK;
}

static enum status members_autosnap_list(struct req *req)
{
    return req_reply_listing(req, BYTES(AUTOSNAP_CONFIGS));
}

static enum status members_autosnap_read(struct req *req)
{
    struct members_autosnap config;
    const char *name;
    TRY(name_of(req, &name));
    TRY(members_autosnap_load(req->txn, name, &config));
    return req_reply(req, &config);
}

/* The folder must be usable on the node that is active now. */
static enum status members_autosnap_prepare(struct req *req)
{
    const struct members_autosnap *in = req_body(req);
    struct reason why = {{0}};
    struct fs *fs = NULL;
    bool same_disk = false;
    ASSERT(!req_in_txn(req));
    if (!in->has_path || in->path_prefix[0] != '/' || strlen(in->path_prefix) > AUTOSNAP_PATH_MAX)
        return ST_OK; /* the handler says what is wrong */
    enum status st =
        members_autosnap_open(in->path_prefix, req->host->data_dir, &fs, &same_disk, &why);
    loop_fs_free(fs);
    return st == ST_OK || st == ST_NOMEM ? st : req_fail(req, ST_INVALID, "%s", why.text);
}

/* A new configuration: presets, and a prefix that no other cluster has. Two clusters with one
 * folder and one prefix would delete each other's snapshots. */
static enum status take_first(struct req *req, struct members_autosnap *config)
{
    struct node_status node;
    if (config->has_file)
        return ST_OK;
    req->host->node_ops->status(req->host->node, &node);
    config->file_prefix = arena_format(req->arena, "holdfast-snapshot-%.8s", node.cluster_id);
    return config->file_prefix != NULL ? ST_OK : ST_NOMEM;
}

static void take_given(struct members_autosnap *config, const struct members_autosnap *in)
{
    ASSERT(config != in);
    if (in->has_file)
        config->file_prefix = in->file_prefix;
    if (in->has_interval)
        config->interval = in->interval;
    if (in->has_space)
        config->local_max_space = in->local_max_space;
    if (in->has_path)
        config->path_prefix = in->path_prefix;
    if (in->has_retain)
        config->retain = in->retain;
    if (in->has_type)
        config->storage_type = in->storage_type;
}

/* Bound the number of configurations, and keep two of them from deleting each other's files. */
static enum status check_siblings(struct req *req, const char *name,
                                  const struct members_autosnap *config)
{
    struct state_iter *iter = arena_alloc(req->arena, sizeof *iter);
    unsigned n = 0;
    ASSERT(req_in_txn(req));
    ASSERT(config->path_prefix[0] == '/' && config->file_prefix[0] != '\0');
    if (iter == NULL)
        return ST_NOMEM;
    TRY(state_scan(req->txn, BYTES(AUTOSNAP_CONFIGS), (struct bytes){0}, iter));
    while (state_iter_next(iter)) {
        struct members_autosnap other;
        const char *key = arena_str(req->arena, bytes_from(iter->key, strlen(AUTOSNAP_CONFIGS)));
        if (key == NULL)
            return ST_NOMEM;
        if (strcmp(key, name) == 0)
            continue;
        if (++n >= AUTOSNAP_MAX)
            return req_fail(req, ST_INVALID, "more than %d configurations", AUTOSNAP_MAX);
        enum status st = members_autosnap_load(req->txn, key, &other);
        if (st == ST_OK && members_autosnap_collide(config, &other))
            return req_fail(req, ST_INVALID,
                            "file_prefix: the configuration %s has it in the same folder", key);
        if (st != ST_NOT_FOUND)
            TRY(st);
    }
    return ST_OK;
}

static enum status members_autosnap_write(struct req *req)
{
    const struct members_autosnap *in = req_body(req);
    struct members_autosnap config;
    struct reason why = {{0}};
    const char *name;
    ASSERT(req_in_txn(req));
    TRY(name_of(req, &name));
    enum status st = members_autosnap_load(req->txn, name, &config);
    if (st == ST_NOT_FOUND) {
        config = *in;
        st = take_first(req, &config);
    }
    TRY(st);
    take_given(&config, in);
    if (members_autosnap_check(&config, &why) != ST_OK)
        return req_fail(req, ST_INVALID, "%s", why.text);
    TRY(check_siblings(req, name, &config));
    return members_autosnap_save(req->txn, name, &config);
}

static enum status members_autosnap_remove(struct req *req)
{
    const char *name;
    TRY(name_of(req, &name));
    return members_autosnap_delete(req->txn, name);
}

struct status_out {
    int64_t consecutive_errors;
    int64_t last_snapshot_end, last_snapshot_start, last_success_start;
    const char *last_snapshot_error, *last_snapshot_node, *last_snapshot_url, *last_success_url;
    int64_t next_snapshot_start, snapshot_start;
    const char *snapshot_node;
};
static const struct field status_fields[] = {
    FIELD(struct status_out, consecutive_errors, INT,
          .help = "Snapshots that failed since the last good one."),
    FIELD(struct status_out, last_snapshot_end, TIME, .help = "End of the last attempt."),
    FIELD(struct status_out, last_snapshot_error, STRING,
          .help = "Why it failed; empty: it did not."),
    FIELD(struct status_out, last_snapshot_node, STRING, .help = "The node that made the attempt."),
    FIELD(struct status_out, last_snapshot_start, TIME, .help = "Start of the last attempt."),
    FIELD(struct status_out, last_snapshot_url, STRING, .help = "Its file; empty: it failed."),
    FIELD(struct status_out, last_success_start, TIME, .help = "Start of the last good snapshot."),
    FIELD(struct status_out, last_success_url, STRING, .help = "File of the last good snapshot."),
    FIELD(struct status_out, next_snapshot_start, TIME,
          .help = "When the next snapshot is due; in the year 1: at once."),
    FIELD(struct status_out, snapshot_node, STRING, .help = "The node that saves a snapshot now."),
    FIELD(struct status_out, snapshot_start, TIME, .help = "Start of a snapshot under way."),
};
static const struct schema status_reply = SCHEMA(struct status_out, status_fields);

/* As upstream, a time that never was is the first second of the year 1. */
static int64_t or_never(int64_t time_ms)
{
    return time_ms != 0 ? time_ms : TEXT_TIME_FIRST;
}

static enum status members_autosnap_status(struct req *req)
{
    struct members_autosnap_status s;
    struct members_autosnap config;
    const char *name;
    ASSERT(req_in_txn(req));
    TRY(name_of(req, &name));
    TRY(members_autosnap_load(req->txn, name, &config));
    TRY(members_autosnap_load_status(req->txn, name, &s));
    return req_reply(req, &(struct status_out){
                              .consecutive_errors = s.failures,
                              .last_snapshot_end = or_never(s.end_ms),
                              .last_snapshot_error = s.error,
                              .last_snapshot_node = s.node,
                              .last_snapshot_start = or_never(s.start_ms),
                              .last_snapshot_url = s.url,
                              .last_success_start = or_never(s.good_ms),
                              .last_success_url = s.good_url,
                              .next_snapshot_start = or_never(members_autosnap_due_ms(&config, &s)),
                              .snapshot_node = s.running ? s.begun_node : "",
                              .snapshot_start = or_never(s.running ? s.begun_ms : 0),
                          });
}

static const struct route autosnap_routes[] = {
    {.method = METHOD_LIST,
     .path = "storage/raft/snapshot-auto/config",
     .handler = members_autosnap_list,
     .flags = ROUTE_SUDO,
     .help = "The names of the configurations of snapshots by a schedule."},
    {.method = METHOD_GET,
     .path = "storage/raft/snapshot-auto/config/:name",
     .handler = members_autosnap_read,
     .flags = ROUTE_SUDO,
     .reply = &members_autosnap_schema,
     .help = "A configuration of snapshots by a schedule."},
    {.method = METHOD_POST,
     .path = "storage/raft/snapshot-auto/config/:name",
     .handler = members_autosnap_write,
     .prepare = members_autosnap_prepare,
     .place = PLACE_ACTIVE,
     .when = WHEN_MAINTENANCE,
     .flags = ROUTE_SUDO,
     .body = &members_autosnap_schema,
     .help = "Save a snapshot at every interval into a folder of the active node, the first one at "
             "once. Fields that the request does not give keep their values."},
    {.method = METHOD_DELETE,
     .path = "storage/raft/snapshot-auto/config/:name",
     .handler = members_autosnap_remove,
     .when = WHEN_MAINTENANCE,
     .flags = ROUTE_SUDO,
     .help = "Delete a configuration and its status. The files stay."},
    {.method = METHOD_GET,
     .path = "storage/raft/snapshot-auto/status/:name",
     .handler = members_autosnap_status,
     .reply = &status_reply,
     .help = "The last snapshot of a configuration, why it failed, and when the next one is due."},
};

const struct route_table members_autosnap_table = {autosnap_routes, ARRAY_LEN(autosnap_routes)};
