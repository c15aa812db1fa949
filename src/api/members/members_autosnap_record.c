/* Records of snapshots by a schedule, and what follows from them. */
#include "api/members/members_autosnap.h"
#include "text/utf8.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

static const struct field config_fields[] = {
    FIELD(struct members_autosnap, file_prefix, STRING, .preset = "",
          .has = offsetof(struct members_autosnap, has_file),
          .help = "How the names of the files begin: up to 64 letters, digits, '.', '_', '-'. At "
                  "first holdfast-snapshot- and the first eight characters of the cluster's id."),
    FIELD(struct members_autosnap, interval, DURATION,
          .has = offsetof(struct members_autosnap, has_interval),
          .help = "Time between two snapshots, 1s to 87600h. Required at first."),
    FIELD(struct members_autosnap, local_max_space, SIZE,
          .has = offsetof(struct members_autosnap, has_space),
          .help = "Most bytes of all its files in the folder, that of one being written included. "
                  "Required at first."),
    FIELD(struct members_autosnap, path_prefix, STRING, .preset = "",
          .has = offsetof(struct members_autosnap, has_path),
          .help = "The folder: an absolute path outside the data directory. It must exist on every "
                  "node that may become active. Required at first."),
    FIELD(struct members_autosnap, retain, INT, .preset = "1",
          .has = offsetof(struct members_autosnap, has_retain),
          .help = "How many snapshots to keep in the folder, 1 to 10000."),
    FIELD(struct members_autosnap, storage_type, STRING, .preset = "",
          .has = offsetof(struct members_autosnap, has_type),
          .help = "local: a folder of the active node. Required at first."),
};
const struct schema members_autosnap_schema = SCHEMA(struct members_autosnap, config_fields);

static const struct field status_fields[] = {
    FIELD(struct members_autosnap_status, slot_ms, INT, .preset = "0"),
    FIELD(struct members_autosnap_status, retry_ms, INT, .preset = "0"),
    FIELD(struct members_autosnap_status, running, BOOL, .preset = "false"),
    FIELD(struct members_autosnap_status, begun_ms, INT, .preset = "0"),
    FIELD(struct members_autosnap_status, begun_node, STRING, .preset = ""),
    FIELD(struct members_autosnap_status, start_ms, INT, .preset = "0"),
    FIELD(struct members_autosnap_status, end_ms, INT, .preset = "0"),
    FIELD(struct members_autosnap_status, error, STRING, .preset = ""),
    FIELD(struct members_autosnap_status, url, STRING, .preset = ""),
    FIELD(struct members_autosnap_status, node, STRING, .preset = ""),
    FIELD(struct members_autosnap_status, failures, INT, .preset = "0"),
    FIELD(struct members_autosnap_status, good_ms, INT, .preset = "0"),
    FIELD(struct members_autosnap_status, good_url, STRING, .preset = ""),
};
static const struct schema status_schema = SCHEMA(struct members_autosnap_status, status_fields);

static enum status get_entry(struct state_txn *txn, const char *folder, const char *name,
                             const struct schema *schema, void *ret_struct)
{
    struct state_value stored;
    const struct text_value *tree;
    struct schema_fault fault;
    const char *key = arena_concat(txn->arena, folder, name);
    ASSERT(txn->open);
    ASSERT(name[0] != '\0');
    if (key == NULL)
        return ST_NOMEM;
    enum status st = state_get(txn, bytes_str(key), &stored);
    if (st == ST_OK)
        st = text_json_parse(txn->arena, stored.value, &tree, NULL);
    if (st == ST_OK)
        st = schema_decode(schema, tree, txn->arena, ret_struct, &fault);
    return st == ST_CORRUPT || st == ST_INVALID || st == ST_TOO_BIG ? ST_NOT_FOUND : st;
}

static enum status put_entry(struct state_txn *txn, const char *folder, const char *name,
                             const struct schema *schema, const void *from)
{
    CLEANUP(buf_done) struct buf record = {0};
    struct text_writer w = {.out = &record, .plain = true};
    const char *key = arena_concat(txn->arena, folder, name);
    ASSERT(txn->open);
    if (key == NULL)
        return ST_NOMEM;
    schema_encode(schema, from, &w);
    ASSERT(w.depth == 0);
    TRY(buf_status(&record));
    /* exempt: at most AUTOSNAP_MAX small records; a full state needs its backups most of all */
    return state_put_exempt(txn, bytes_str(key), buf_bytes(&record));
}

enum status members_autosnap_load(struct state_txn *txn, const char *name,
                                  struct members_autosnap *ret)
{
    TRY(get_entry(txn, AUTOSNAP_CONFIGS, name, &members_autosnap_schema, ret));
    return members_autosnap_check(ret, NULL) == ST_OK ? ST_OK : ST_NOT_FOUND;
}

enum status members_autosnap_load_status(struct state_txn *txn, const char *name,
                                         struct members_autosnap_status *ret)
{
    ASSERT(name[0] != '\0');
    enum status st = get_entry(txn, AUTOSNAP_STATUSES, name, &status_schema, ret);
    if (st == ST_NOT_FOUND) {
        *ret = (struct members_autosnap_status){
            .begun_node = "", .error = "", .url = "", .node = "", .good_url = ""};
        st = ST_OK;
    }
    return st;
}

enum status members_autosnap_save(struct state_txn *txn, const char *name,
                                  const struct members_autosnap *from)
{
    return put_entry(txn, AUTOSNAP_CONFIGS, name, &members_autosnap_schema, from);
}

enum status members_autosnap_save_status(struct state_txn *txn, const char *name,
                                         const struct members_autosnap_status *from)
{
    return put_entry(txn, AUTOSNAP_STATUSES, name, &status_schema, from);
}

enum status members_autosnap_delete(struct state_txn *txn, const char *name)
{
    const char *config = arena_concat(txn->arena, AUTOSNAP_CONFIGS, name);
    const char *status = arena_concat(txn->arena, AUTOSNAP_STATUSES, name);
    if (config == NULL || status == NULL)
        return ST_NOMEM;
    TRY(state_delete(txn, bytes_str(config)));
    return state_delete(txn, bytes_str(status));
}

int64_t members_autosnap_due_ms(const struct members_autosnap *config,
                                const struct members_autosnap_status *status)
{
    int64_t due_ms = status->slot_ms != 0 ? status->slot_ms + config->interval * 1000 : 0;
    ASSERT(config->interval > 0);
    return MAX(due_ms, status->retry_ms);
}

static void end(struct members_autosnap_status *status, const char *error, const char *url,
                int64_t end_ms)
{
    ASSERT(status->running);
    ASSERT(end_ms >= status->begun_ms);
    status->running = false;
    status->start_ms = status->begun_ms;
    status->end_ms = end_ms;
    status->error = error;
    status->url = url;
    status->node = status->begun_node;
}

/* The slots keep their distance: a snapshot that began late does not delay the next ones. After a
 * longer pause the slots begin anew. */
void members_autosnap_succeed(struct members_autosnap_status *status,
                              const struct members_autosnap *config, const char *url,
                              int64_t end_ms)
{
    int64_t slot_ms = status->slot_ms + config->interval * 1000;
    bool late = status->slot_ms == 0 || slot_ms > status->begun_ms ||
                status->begun_ms - slot_ms >= config->interval * 1000;
    ASSERT(config->interval > 0);
    ASSERT(url[0] != '\0');
    end(status, "", url, end_ms);
    status->slot_ms = late ? status->begun_ms : slot_ms;
    status->retry_ms = 0;
    status->failures = 0;
    status->good_ms = status->begun_ms;
    status->good_url = url;
}

void members_autosnap_fail(struct members_autosnap_status *status,
                           const struct members_autosnap *config, const char *error, int64_t end_ms)
{
    ASSERT(error[0] != '\0');
    ASSERT(config->interval > 0);
    end(status, error, "", end_ms);
    status->retry_ms = end_ms + MIN(config->interval * 1000, (int64_t)AUTOSNAP_RETRY_MS);
    status->failures++;
}

static enum status refuse(struct reason *why, const char *what)
{
    reason_set(why, "%s", what);
    return ST_INVALID;
}

static bool is_prefix(const char *text)
{
    size_t len = strlen(text);
    return len > 0 && len <= SNAPSHOT_PREFIX_MAX && text[0] != '.' &&
           strspn(text, LETTERS "0123456789._-") == len;
}

enum status members_autosnap_check(const struct members_autosnap *config, struct reason *why)
{
    ASSERT(config->storage_type != NULL && config->path_prefix != NULL);
    ASSERT(config->file_prefix != NULL);
    if (config->storage_type[0] == '\0')
        return refuse(why, "storage_type: \"local\" is expected");
    if (strcmp(config->storage_type, "local") != 0) {
        reason_set(why, "storage_type: \"%.32s\" is not built, only \"local\"",
                   config->storage_type);
        return ST_INVALID;
    }
    if (config->interval < 1 || config->interval > AUTOSNAP_INTERVAL_MAX_S)
        return refuse(why, "interval: 1s to 87600h is expected");
    if (config->retain < 1 || config->retain > AUTOSNAP_RETAIN_MAX)
        return refuse(why, "retain: 1 to 10000 is expected");
    if (config->local_max_space == 0 || config->local_max_space > INT64_MAX)
        return refuse(why, "local_max_space: a number of bytes above 0 is expected");
    if (!is_prefix(config->file_prefix))
        return refuse(why, "file_prefix: 1 to 64 letters, digits, '.', '_' or '-' are expected, "
                           "the first of them no '.'");
    size_t len = strlen(config->path_prefix);
    if (config->path_prefix[0] != '/' || len > AUTOSNAP_PATH_MAX ||
        !text_printable(bytes_str(config->path_prefix)))
        return refuse(why, "path_prefix: an absolute path of at most 512 printable characters is "
                           "expected");
    return ST_OK;
}

/* The length without slashes at the end. */
static size_t trimmed(const char *path)
{
    size_t len = strlen(path);
    while (len > 0 && path[len - 1] == '/')
        len--;
    return len;
}

bool members_autosnap_collide(const struct members_autosnap *one,
                              const struct members_autosnap *other)
{
    size_t len = trimmed(one->path_prefix);
    return strcmp(one->file_prefix, other->file_prefix) == 0 &&
           len == trimmed(other->path_prefix) &&
           memcmp(one->path_prefix, other->path_prefix, len) == 0;
}
