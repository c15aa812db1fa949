/* sys/audit and sys/audit-hash: the audit devices of the cluster, as this node has them open. */
#include "api/auditing/auditing.h"
#include "audit/audit_probe.h"
#include "audit/audit_table.h"
#include "audit/options.h"
#include "base/mem.h"
#include "text/encode.h"
#include "text/random.h"
#include "text/utf8.h"

#include <stdlib.h>

struct auditing_one {
    const char *type, *description;
    struct field_map options;
    bool local;
};
static const struct field audit_fields[] = {
    FIELD(struct auditing_one, type, STRING, .preset = "", .help = "file, socket or syslog."),
    FIELD(struct auditing_one, description, STRING, .preset = "", .help = "For people."),
    FIELD(struct auditing_one, options, MAP,
          .help = "Options of the type, such as file_path; docs/audit.md has all."),
    FIELD(struct auditing_one, local, BOOL, .preset = "false",
          .help = "Keep the device out of replication to other clusters."),
};
static const struct schema auditing_schema = SCHEMA(struct auditing_one, audit_fields);

struct auditing_info {
    const char *name, *path, *type, *description, *status, *error;
    struct field_map options;
    bool local, declared;
};
static const struct field info_fields[] = {
    FIELD(struct auditing_info, path, STRING, .help = "The path of the device."),
    FIELD(struct auditing_info, type, STRING, .help = "file, socket or syslog."),
    FIELD(struct auditing_info, description, STRING, .help = "For people."),
    FIELD(struct auditing_info, options, MAP, .help = "Options of the type, as given."),
    FIELD(struct auditing_info, local, BOOL, .help = "As given."),
    FIELD(struct auditing_info, declared, BOOL, .omit = true,
          .help = "Whether the device stands in the configuration file of this node."),
    FIELD(struct auditing_info, status, STRING,
          .help = "On this node: open, opening, failing, late or resting."),
    FIELD(struct auditing_info, error, STRING, .omit = true,
          .help = "Why this node's device is failing, late or resting."),
};
static const struct schema auditing_info_schema =
    SCHEMA_NAMED(struct auditing_info, name, info_fields);

struct audits_out {
    struct field_list devices;
};
static const struct field audits_fields[] = {
    FIELD_NAMED("", struct audits_out, devices, OTHERS, .sub = &auditing_info_schema),
};
static const struct schema auditing_list_reply = SCHEMA(struct audits_out, audits_fields);

/* Drops a reference when the transaction has ended. */
struct kept_set {
    struct req_cleanup cleanup;
    struct audit_set *set;
};

static void drop_set(struct req_cleanup *cleanup)
{
    audit_set_unref(CONTAINER_OF(cleanup, struct kept_set, cleanup)->set);
}

/* The devices of this node, until the transaction has ended; NULL: the node has no table. */
static enum status present_set(struct req *req, const struct audit_set **ret_set)
{
    *ret_set = NULL;
    ASSERT(req_in_txn(req));
    if (req->host->audit == NULL)
        return ST_OK;
    struct kept_set *kept = arena_zalloc(req->arena, sizeof *kept);
    if (kept == NULL)
        return ST_NOMEM;
    TRY(req->host->audit->get(req->host->audit, req->txn, &kept->set));
    kept->cleanup.run = drop_set;
    req_defer(req, &kept->cleanup);
    *ret_set = kept->set;
    return ST_OK;
}

static const struct audit_use *find_use(const struct audit_set *set, const char *path)
{
    for (unsigned i = 0; set != NULL && i < set->n_uses; i++)
        if (strcmp(set->uses[i]->path, path) == 0)
            return set->uses[i];
    return NULL;
}

/* The path that a request names. ST_INVALID with an error. */
static enum status path_of(struct req *req, const char **ret_path)
{
    struct reason why = {0};
    enum status st = mount_path(req->arena, req_param(req, "path"), ret_path, &why);
    if (st == ST_INVALID)
        return req_fail(req, st, "%s", why.text);
    TRY(st);
    if (strlen(*ret_path) > AUDIT_ENTRY_PATH_MAX || !text_printable(bytes_str(*ret_path)))
        return req_fail(req, ST_INVALID, "path: at most %d printable characters are expected",
                        AUDIT_ENTRY_PATH_MAX);
    return ST_OK;
}

/* List */

struct audit_listing {
    struct req *req;
    struct auditing_info *items;
    size_t n;
};

static enum status add_use(struct audit_listing *l, const struct audit_use *use)
{
    struct auditing_info *info = &l->items[l->n++];
    struct reason why;
    ASSERT(l->n <= AUDIT_SET_MAX);
    const char *status = audit_use_status(use, &why);
    *info = (struct auditing_info){.name = use->path,
                                   .path = use->path,
                                   .type = use->type,
                                   .description = use->description,
                                   .options = use->options,
                                   .local = use->local,
                                   .declared = use->declared,
                                   .status = status,
                                   .error = arena_str(l->req->arena, bytes_str(why.text))};
    return info->error != NULL ? ST_OK : ST_NOMEM;
}

static int by_path(const void *a, const void *b)
{
    const struct auditing_info *x = a, *y = b;
    return strcmp(x->path, y->path);
}

static enum status auditing_list(struct req *req)
{
    struct audit_listing l = {.req = req};
    ASSERT(req_in_txn(req));
    struct audits_out out;
    const struct audit_set *set;
    TRY(present_set(req, &set));
    ASSERT(set == NULL || set->n_uses <= AUDIT_SET_MAX);
    l.items = arena_alloc(req->arena, AUDIT_SET_MAX * sizeof *l.items);
    if (l.items == NULL)
        return ST_NOMEM;
    for (unsigned i = 0; set != NULL && i < set->n_uses; i++)
        TRY(add_use(&l, set->uses[i]));
    qsort(l.items, l.n, sizeof *l.items, by_path);
    out.devices = (struct field_list){.items = l.items, .n = l.n};
    return req_reply(req, &out);
}

/* Enable and disable */

static enum status file_is_taken(struct req *req, const char *device)
{
    return req_fail(req, ST_INVALID, "file_path: the device %.160s writes this file", device);
}

/* Lines of two devices in one file could not be told apart, and a failed write of one could cut a
 * line of the other. */
static enum status file_must_be_free(struct req *req, const struct audit_entry *entry)
{
    struct audit_set *set;
    ASSERT(!req_in_txn(req)); /* calls the file system */
    ASSERT(entry->type != NULL);
    if (req->host->audit == NULL)
        return ST_OK;
    TRY(req->host->audit->get(req->host->audit, NULL, &set));
    const struct audit_use *other = audit_use_of_file(set, entry);
    enum status st = ST_OK;
    if (other != NULL && strcmp(other->path, entry->path) != 0)
        st = file_is_taken(req, other->path);
    audit_set_unref(set);
    return st;
}

/* Options that other clients send and that no entry has: `path` is the old name of `file_path`, and
 * `skip_test` belongs to the request. The state holds neither, so every build reads its entries. */
static enum status own_options(struct req *req, const struct field_map *given,
                               struct field_map *ret_options, bool *ret_skip_test)
{
    static const char *const path_names[] = {"path", "file_path"};
    const char **pairs = arena_alloc(req->arena, (2 * given->n + 1) * sizeof *pairs);
    unsigned paths = 0;
    size_t n = 0;
    bool skip = false;
    ASSERT(given->n == 0 || given->pairs != NULL);
    if (pairs == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < given->n; i++) {
        const char *name = given->pairs[2 * i], *value = given->pairs[2 * i + 1];
        if (strcmp(name, "skip_test") == 0) {
            if (text_bool_parse(bytes_str(value), &skip) != ST_OK)
                return req_fail(req, ST_INVALID, "skip_test: must be true or false");
            continue;
        }
        bool is_path = strcmp(name, path_names[0]) == 0 || strcmp(name, path_names[1]) == 0;
        paths += is_path;
        pairs[2 * n] = is_path ? path_names[1] : name;
        pairs[2 * n++ + 1] = value;
    }
    if (paths > 1)
        return req_fail(req, ST_INVALID, "path: is the old name of file_path; give one of them");
    ASSERT(n <= given->n);
    *ret_options = (struct field_map){.pairs = pairs, .n = n, .given = given->given};
    *ret_skip_test = skip;
    return ST_OK;
}

/* Open the device on this node and write a test record. The other nodes open it when they see its
 * entry; a node that cannot open it says so. */
static enum status auditing_prepare(struct req *req)
{
    const struct auditing_one *in = req_body(req);
    struct audit_entry entry = {.type = in->type};
    struct audit_options options;
    struct reason why = {{0}};
    enum audit_type type;
    bool skip_test;

    ASSERT(!req_in_txn(req));
    TRY(path_of(req, &entry.path));
    if (audit_type_parse(in->type, &type) != ST_OK)
        return req_fail(req, ST_INVALID, "unknown backend type: \"%.64s\"", in->type);
    TRY(own_options(req, &in->options, &entry.options, &skip_test));
    TRY(file_must_be_free(req, &entry));
    const struct audit_places *places = req->host->audit != NULL ? req->host->audit->places : NULL;
    enum status st = skip_test ? audit_probe_options(&entry, places, &options, &why)
                               : audit_probe(&entry, places, req->request_id, req->now_ms, &why);
    return st == ST_INVALID ? req_fail(req, st, "%s", why.text) : st;
}

struct audit_search {
    const char *path;
    const char *file;   /* as audit_file_of */
    const char *shares; /* the path of a device with the same file_path; NULL: none */
    unsigned n;
    bool overlaps, found;
};

static enum status compare(void *ctx, const struct audit_entry *entry)
{
    struct audit_search *search = ctx;
    ASSERT(search->path != NULL);
    ASSERT(entry->path != NULL);
    search->n++;
    search->found = search->found || strcmp(entry->path, search->path) == 0;
    search->overlaps = search->overlaps || audit_paths_overlap(entry->path, search->path);
    const char *file = entry->type != NULL ? audit_file_of(entry->type, &entry->options) : NULL;
    if (search->file != NULL && file != NULL && strcmp(file, search->file) == 0)
        search->shares = entry->path;
    return ST_OK;
}

/* The path of a device of this node's configuration file is in use, too. */
static bool overlaps_declared(const struct audit_set *set, const char *path)
{
    for (unsigned i = 0; set != NULL && i < set->n_uses; i++)
        if (set->uses[i]->declared && audit_paths_overlap(set->uses[i]->path, path))
            return true;
    return false;
}

static enum status make_identity(struct req *req, struct audit_entry *entry)
{
    uint8_t salt[AUDIT_ENTRY_SALT];
    ASSERT(entry->salt == NULL && entry->uuid == NULL);
    char *uuid = arena_alloc(req->arena, TEXT_UUID_LEN + 1);
    char *text = arena_alloc(req->arena, TEXT_HEX_LEN(sizeof salt) + 1);
    if (uuid == NULL || text == NULL)
        return ST_NOMEM;
    text_uuid(req->env, uuid);
    env_random(req->env, salt, sizeof salt);
    text_hex_put(bytes_of(salt, sizeof salt), text);
    mem_wipe(salt, sizeof salt);
    entry->uuid = uuid;
    entry->salt = text;
    return ST_OK;
}

static enum status auditing_enable(struct req *req)
{
    const struct auditing_one *in = req_body(req);
    struct audit_search search = {0};
    const struct audit_set *set;
    struct audit_entry entry = {
        .type = in->type, .description = in->description, .local = in->local};
    bool skip_test;

    ASSERT(req_in_txn(req));
    ASSERT(in->type != NULL && search.n == 0);
    TRY(own_options(req, &in->options, &entry.options, &skip_test));
    search.file = audit_file_of(in->type, &entry.options);
    TRY(path_of(req, &search.path));
    TRY(present_set(req, &set));
    TRY(audit_entry_each(req->txn, compare, &search));
    if (search.overlaps || overlaps_declared(set, search.path))
        return req_fail(req, ST_INVALID, "path already in use");
    if (search.shares != NULL) /* enabled at the same time */
        return file_is_taken(req, search.shares);
    if (search.n >= AUDIT_ENTRIES_MAX)
        return req_fail(req, ST_INVALID, "more than %d audit devices", AUDIT_ENTRIES_MAX);
    entry.path = search.path;
    TRY(make_identity(req, &entry));
    enum status st = audit_entry_save(req->txn, &entry);
    if (st == ST_TOO_BIG)
        return req_fail(req, ST_INVALID, "description and options: more than %d bytes",
                        AUDIT_ENTRY_BYTES_MAX);
    return st;
}

static enum status auditing_disable(struct req *req)
{
    struct audit_search search = {0};
    const struct audit_set *set;
    ASSERT(req_in_txn(req));
    TRY(path_of(req, &search.path));
    TRY(present_set(req, &set));
    TRY(audit_entry_each(req->txn, compare, &search));
    if (search.found)
        return audit_entry_delete(req->txn, search.path);
    const struct audit_use *use = find_use(set, search.path);
    if (use != NULL && use->declared)
        return req_fail(req, ST_INVALID,
                        "%s is declared in the configuration file of this node: remove it there",
                        search.path);
    return ST_OK;
}

/* Hash */

struct auditing_hash {
    const char *input;
};
static const struct field audit_hash_fields[] = {
    FIELD(struct auditing_hash, input, STRING, .preset = "", .hidden = true,
          .help = "The text to look for in the records."),
};
static const struct schema auditing_hash_schema = SCHEMA(struct auditing_hash, audit_hash_fields);

struct audit_hash_out {
    const char *hash;
};
static const struct field audit_hash_out_fields[] = {
    FIELD(struct audit_hash_out, hash, STRING, .help = "The text that records show instead."),
};
static const struct schema auditing_hash_reply =
    SCHEMA(struct audit_hash_out, audit_hash_out_fields);

static enum status auditing_hash(struct req *req)
{
    const struct auditing_hash *in = req_body(req);
    const struct audit_set *set;
    const char *path;
    char *hash = arena_alloc(req->arena, AUDIT_HMAC_LEN + 1);
    ASSERT(req_in_txn(req));
    if (hash == NULL)
        return ST_NOMEM;
    if (in->input[0] == '\0')
        return req_fail(req, ST_INVALID, "the \"input\" parameter is empty");
    TRY(path_of(req, &path));
    TRY(present_set(req, &set));
    const struct audit_use *use = find_use(set, path);
    if (use == NULL)
        return req_fail(req, ST_INVALID, "unknown audit backend \"%.160s\"", path);
    enum status st = audit_use_hash(use, bytes_str(in->input), hash);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_BUSY, "this node has not opened the device %.160s", path);
    TRY(st);
    const struct audit_hash_out out = {.hash = hash};
    return req_reply(req, &out);
}

static const struct route audit_routes[] = {
    {.method = METHOD_GET,
     .path = "audit",
     .handler = auditing_list,
     .place = PLACE_STAYS,
     .form = FORM_TOP_LEVEL,
     .flags = ROUTE_SUDO,
     .reply = &auditing_list_reply,
     .help = "The audit devices, and their status on the node that is asked."},
    {.method = METHOD_POST,
     .path = "audit/+path",
     .handler = auditing_enable,
     .prepare = auditing_prepare,
     .flags = ROUTE_SUDO,
     .feature = AUDIT_FEATURE,
     .body = &auditing_schema,
     .help = "Enable an audit device. From then on every request must be recorded by one device at "
             "least."},
    {.method = METHOD_DELETE,
     .path = "audit/+path",
     .handler = auditing_disable,
     .flags = ROUTE_SUDO,
     .help = "Disable an audit device; an unknown device is no error."},
    {.method = METHOD_POST,
     .path = "audit-hash/+path",
     .handler = auditing_hash,
     .form = FORM_TOP_LEVEL,
     .flags = ROUTE_READS,
     .body = &auditing_hash_schema,
     .reply = &auditing_hash_reply,
     .help = "The text that the records of a device show instead of a secret text."},
};

const struct route_table auditing_devices_table = {audit_routes, ARRAY_LEN(audit_routes)};
